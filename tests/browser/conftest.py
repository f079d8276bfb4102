"""The fleet that tests of the page use, which is what `edgewright demo --keep` leaves, and a console per module.

All modules share one fleet, because a demo takes its time: a test that changes devices others look at puts them back.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import ConsoleProcess
from tests.harness import wait_until
from tests.unit.cli.command import PROGRAM, environment


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a demo that goes on: 12 simulated devices, one of which is refused by attestation."""
    folder = tmp_path_factory.mktemp("demo")
    out = folder / "out"
    with out.open("w") as stdout:
        process = subprocess.Popen(
            [PROGRAM, "demo", "--keep"],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            env=environment(HOME=str(folder)),
        )
    try:

        def ready() -> Path | None:
            assert process.poll() is None, out.read_text()
            found = re.search(r"export KUBECONFIG=(\S+)", out.read_text())
            return Path(found[1]) if found else None

        yield wait_until(ready, what="the demo has shown all of it", timeout=600)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.fixture(scope="module")
def console(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console for the person at this machine."""
    with stage.console(fleet, tmp_path_factory.mktemp("console"), "--as-me") as running:
        yield running
