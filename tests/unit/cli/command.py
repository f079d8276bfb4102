"""Runs `edgewright` as people do: a process of its own, whose output is a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PROGRAM = Path(sysconfig.get_path("scripts")) / "edgewright"


def environment(**more: str) -> dict[str, str]:
    """What the process sees: nothing of the caller's Kubernetes, and Python as a user has it, with warnings shown."""
    return {"PATH": os.environ["PATH"], "HOME": os.devnull, "PYTHONWARNINGS": "default"} | more


@contextmanager
def ignoring(*numbers: signal.Signals) -> Iterator[None]:
    """What is started meanwhile ignores these signals, as what a script starts in its background ignores SIGINT."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def edgewright(
    *arguments: str | Path, env: Mapping[str, str] | None = None, stdout: int | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """One command, from start to end."""
    return subprocess.run(
        [PROGRAM, *arguments],
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment(**(env or {})),
        timeout=timeout,
        check=False,
    )


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on standard error by which a command says why it failed; anything else there is a fault."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("edgewright: "), done.stderr
    return lines[0].removeprefix("edgewright: ")
