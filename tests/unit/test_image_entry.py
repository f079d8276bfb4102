"""`python -m edgewright flasher`: what a flash Pod runs in the image of the operator, without the command line."""

from __future__ import annotations

import subprocess
import sys


def test_the_word_flasher_starts_the_flasher_and_anything_else_the_command_line() -> None:
    program = [sys.executable, "-m", "edgewright"]
    flasher = subprocess.run([*program, "flasher"], capture_output=True, text=True, env={}, timeout=60, check=False)
    assert flasher.returncode != 0
    assert "Usage" not in flasher.stderr
    line = subprocess.run([*program, "flashers"], capture_output=True, text=True, env={}, timeout=60, check=False)
    assert line.returncode == 2
    assert "No such command" in line.stderr
