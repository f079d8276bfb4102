"""What tests of the page stand on: one browser, a fleet on either API server, and what `demo --keep` leaves.

All modules share that demo, because it takes its time: a test that changes devices others look at puts them back.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.chromium import browsers
from tests.browser.scenes import SERVERS, Scene, scenes
from tests.browser.stalls import STALL, STALLS
from tests.harness import LocalPlane, wait_until
from tests.harness.fixtures import run
from tests.unit.cli.command import PROGRAM, environment


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests: each opens pages with cookies of their own."""
    with browsers() as running:
        yield running


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """An embedded API server with our kinds, document 003's Minimart and a kind with everything; nothing acts on it."""
    for server in run(request, LocalPlane):
        stage.install(server)
        server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", STALL)
        server.until_served(STALLS)
        yield server


@pytest.fixture(scope="module")
def plane_console(plane: LocalPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console in front of it, for the person at this machine."""
    with stage.console(plane, tmp_path_factory.mktemp("console"), "--as-me") as running:
        yield running


@pytest.fixture(scope="session", params=SERVERS)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A small fleet on each of the API servers, in turn."""
    with scenes(request, request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


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
