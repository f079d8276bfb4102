"""Draws the picture of the demo in the README: `python hack/picture.py docs/pictures/demo.svg`.

It runs the demo itself and draws what it shows at its end, with the demo's own tables and sentences. Run it when those
have changed; nothing runs it by itself, because what is in the picture differs a little from run to run.
"""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from edgewright.cli import demo
from edgewright.cli.demo_screen import Seen, checks_text, claims, live_table

WIDTH = 112
# Rich's own form fetches its font from elsewhere, which a picture in a repository should not.
FORM = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title what">
<title id="title">edgewright demo: a FlashJob over twelve simulated devices</title>
<desc id="what">A terminal after the demo: a line per device with address, its state, the number of tries and what the
device reports; ten are done, one was refused by the attestation service, one went back to its old firmware by itself.
Below it the six claims of the demo, each with a mark because it was checked.</desc>
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
    """The demo's last screen."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    async with demo.opened(folder) as scene:
        rows = await demo.discovered(scene)
        job = await demo.flashed(scene, rows, Console(file=io.StringIO()))
        answers = await demo.asked(scene.fleet)
        seen = Seen(answers=answers, written=demo.written_by(scene.fleet), left=await demo.left_over(scene.client))
    checks = claims(rows, job, seen, old=demo.OLD, new=demo.NEW)
    if not all(check.holds for check in checks):
        raise SystemExit("not everything that the demo claims is so: no picture of that")
    console.print(f"[bold]Declare[/] FlashJob/{demo.JOB}: these {len(rows)} devices run {demo.NEW}\n")
    console.print(live_table(rows, job))
    console.print("\n[bold]What was proven[/]\n")
    for line in checks_text(checks):
        console.print(line)
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
