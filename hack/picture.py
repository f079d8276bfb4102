"""Draws the picture of the demo in the README: `python hack/picture.py docs/pictures/demo.svg`.

It runs the demo itself and draws what it shows at its end, with the demo's own tables and sentences. Run it when those
have changed; nothing runs it by itself, because what is in the picture differs a little from run to run.
"""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.terminal_theme import MONOKAI
from rich.text import Text

from edgewright.api.firmwarerollout import ROLLOUT_UID_LABEL
from edgewright.api.flashjob import FlashJob
from edgewright.cli import demo, rollout_follow, rollout_text
from edgewright.cli.demo_screen import NEW
from edgewright.runtime.clock import SystemClock

WIDTH = 112
# Rich's own form fetches its font from elsewhere, which a picture in a repository should not.
FORM = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title what">
<title id="title">edgewright demo: two rollouts over twelve simulated devices</title>
<desc id="what">A terminal after the demo: the tree of a rollout with its batches and a line per device; eleven are
done, one was refused by the attestation service. Below it the eight claims of the demo, each with a mark because it
was checked.</desc>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px system-ui, sans-serif; }}
svg > rect {{ stroke: #57606a; }}
@media (prefers-color-scheme: dark) {{ svg > rect {{ stroke: #9aa4ae; }} }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""


async def drawn(folder: Path) -> str:
    """The demo's last screens: the tree of the first rollout, the table and the claims."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    async with demo.opened(folder) as scene:
        console.print(f"[bold]Roll out {NEW}[/] step by step\n")
        shown = Console(file=io.StringIO(), width=WIDTH)
        held = await demo.show(scene, shown, started=time.monotonic())
        rollout = await rollout_follow.get(scene.client, scene.where, demo.GOOD_ROLLOUT)
        jobs = sorted((await scene.client.of(FlashJob).list(demo.NAMESPACE)).items, key=lambda job: job.metadata.name)
    if not held:
        raise SystemExit("not everything that the demo claims is so: no picture of that")
    mine = [job for job in jobs if job.metadata.labels.get(ROLLOUT_UID_LABEL) == rollout.metadata.uid]
    for line in rollout_text.tree(rollout, mine, now=SystemClock().now(), colour=True, width=WIDTH):
        console.print(Text.from_ansi(line))
    console.print("\n[bold]What was proven[/]\n")
    text = shown.file.getvalue()  # type: ignore[attr-defined]  # it is a StringIO
    for line in text.partition("What was proven")[2].splitlines()[2:]:
        if line.startswith("  ✓"):
            console.print(f"  [green]✓[/] {escape(line[4:])}")
    return console.export_svg(title="edgewright demo", theme=MONOKAI, code_format=FORM, unique_id="demo")


def main() -> int:
    """Draws it into the file that is named."""
    with tempfile.TemporaryDirectory() as folder:
        picture = asyncio.run(drawn(Path(folder)))
    lines = (line.strip() for line in picture.splitlines())
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in lines if line), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
