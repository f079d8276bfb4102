"""Suites in which rights count once more, as an ordinary user: where root runs the tests they run as root only."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.harness import ordinary_user
from tests.harness.programs import ROOT
from tests.harness.workspace import Workspace

_SECONDS = 1800
"""Half a minute on a quiet machine; a crowded one took six."""


@pytest.mark.skipif(os.geteuid() != 0, reason="not as root: these suites have run as the ordinary user who runs this")
@pytest.mark.parametrize("suite", ["test_hostile_clients.py", "test_hostile_pods.py", "test_up_flashers.py"])
def test_the_suite_passes_as_an_ordinary_user_too(suite: str) -> None:
    if reason := ordinary_user.reason_against():
        pytest.skip(f"not as an ordinary user: {reason}")
    workspace = Workspace(ROOT / "build" / "ordinary")
    tests = [sys.executable, "-m", "pytest", f"tests/local/{suite}", "-m", "not soak", "--basetemp=build/tmp"]
    passed = False
    try:
        done = subprocess.run(
            ordinary_user.command_line(workspace.path, tests),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        print(done.stdout)
        passed = done.returncode == 0
        assert passed, f"what it calls build/ is kept in {workspace.path}"
        assert " passed" in done.stdout
    finally:
        workspace.release(keep=not passed)
