"""What people type: `edgewright COMMAND`, and `kubectl edgewright COMMAND`. One module per command group.

Here is only the door: `main` answers `--version` at once and leaves the rest to `line`, which joins the commands. What
other modules use of `line` is shown here, and imported when it is used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from edgewright import __version__
from edgewright.runtime.lazy import fetching

if TYPE_CHECKING:
    from edgewright.cli.line import EXIT_CODES, Unwritten, command_line, exit_code, guard
else:
    __getattr__ = fetching(
        __name__, {"edgewright.cli.line": ("EXIT_CODES", "Unwritten", "command_line", "exit_code", "guard")}
    )

__all__ = ["EXIT_CODES", "Unwritten", "command_line", "exit_code", "guard", "kubectl", "main"]


def main(program: str = "edgewright") -> None:
    """The console script."""
    if sys.argv[1:] == ["--version"]:
        try:
            print(f"{program} {__version__}", flush=True)
        except OSError:
            sys.exit(1)
        return
    from edgewright.cli.line import run  # noqa: PLC0415 - it takes longer to import than the version to print

    run(program)


def kubectl() -> None:
    """The console script that kubectl runs for `kubectl edgewright`."""
    main("kubectl edgewright")
