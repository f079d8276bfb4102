"""`python -m tests.node [ARGUMENT...]`: the suite on a real node, in a room of its own; `make node` runs it.

It makes the images, opens a room, runs pytest there with the arguments, and leaves nothing behind. Where there can be
no room it says why in one line, in the report as well, and ends well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from tests.node import images, room

REPORT: Final = Path("build/reports/node.xml")
IMAGES: Final = "EDGEWRIGHT_NODE_IMAGES"
"""The variable that tells the tests where the images are."""


def leave_out(reason: str, report: Path) -> None:
    """Says in one line that nothing was run, and writes it where `make verify` looks for what was left out."""
    print(f"node: skipped: {reason}")
    report.parent.mkdir(parents=True, exist_ok=True)
    case = f'<testcase classname="tests.node" name="all"><skipped message={quoteattr(reason)}/></testcase>'
    report.write_text(f'<testsuites><testsuite name="node" tests="1" skipped="1">{case}</testsuite></testsuites>\n')


def main(arguments: Sequence[str]) -> int:
    """Runs the suite; the exit code of pytest."""
    if reason := room.reason_against():
        leave_out(reason, REPORT)
        return 0
    environment = {**os.environ, IMAGES: str(images.prepared())}
    command = [sys.executable, "-m", "pytest", "tests/node", "-m", "not soak", f"--junitxml={REPORT}", *arguments]
    return room.run(command, logs=REPORT.parent / "node", environment=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
