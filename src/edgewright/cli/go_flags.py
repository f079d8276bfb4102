"""Truth values as programs in Go take them: `--flag`, `--flag=true`, `--flag=false`, and the last one counts.

`line` reads `edgewright run` with it, which Deployments made for operator-sdk start. It changes how options are spelled
before they are read, and knows nothing of what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperOption

_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
"""What Go's strconv.ParseBool reads, and nothing else."""


class GoCommand(TyperCommand):
    """A command that takes truth values as programs in Go do, besides the ways that it has anyway."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads what was typed."""
        options = (each for each in self.params if isinstance(each, TyperOption) and each.is_flag)
        return super().parse_args(ctx, plain(args, options))


def plain(words: Sequence[str], flags: Iterable[TyperOption]) -> list[str]:
    """What was typed, with truth values as the option alone, the option that denies it, or nothing."""
    by_name = {name: flag for flag in flags for name in flag.opts}
    spelled: list[str] = []
    for number, word in enumerate(words):
        if word == "--":
            return [*spelled, *words[number:]]
        name, equals, value = word.partition("=")
        flag = by_name.get(name)
        if flag is None or not equals:
            spelled.append(word)
            continue
        if value not in _TRUTHS:
            raise typer.BadParameter(f"{value!r} is neither true nor false", param_hint=name)
        # What was said of it before does not count any more; false is what it is without the option.
        spelled = [each for each in spelled if each not in {*flag.opts, *flag.secondary_opts}]
        spelled += [name] if _TRUTHS[value] else flag.secondary_opts[:1]
    return spelled
