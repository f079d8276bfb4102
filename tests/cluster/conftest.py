"""What tests on a real API server ask for: a shared control plane, a namespace, or a control plane of their own.

pytest calls these fixtures. They are synchronous and hold nothing of an event loop, so synchronous and asynchronous
tests use them alike. A control plane's directory never stays behind, unless a test failed while it ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ControlPlane, NotBuiltError

_kept = pytest.StashKey[list[Path]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says where the logs are that were kept."""
    for directory in config.stash.get(_kept, []):
        terminalreporter.write_line(f"logs and data of the control plane are kept in {directory}")


def _run(request: pytest.FixtureRequest, **settings: Any) -> Iterator[ControlPlane]:
    """A control plane while the fixture lives; its directory stays when something failed meanwhile."""
    try:
        control_plane = ControlPlane(**settings)
    except NotBuiltError as missing:
        raise pytest.fail.Exception(str(missing), pytrace=False) from None
    failed_before = request.session.testsfailed
    keep = True
    try:
        control_plane.start()
        yield control_plane
        keep = request.session.testsfailed > failed_before
    finally:
        control_plane.stop(keep=keep)
        if keep:
            request.config.stash.setdefault(_kept, []).append(control_plane.directory)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The control plane that all tests share, with its controller manager; not to be hurt."""
    yield from _run(request, parts={"controller-manager"})


@pytest.fixture
def namespace(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace in the shared control plane; it goes afterwards, and nobody waits for that."""
    name = cluster.create_namespace(request.node.name.removeprefix("test_"))
    yield name
    cluster.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def own_cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane for one test that hurts it: etcd and API server, or what an indirect parameter says."""
    yield from _run(request, **getattr(request, "param", {}))
