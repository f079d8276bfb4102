"""What scenarios of FlashJobs ask for: an API server with a node that runs our flasher, and a namespace in it."""

from __future__ import annotations

import compileall
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgewright
from tests.cluster.flash.stage import ADDRESSES, IMAGE
from tests.cluster.nodecommand import running_node
from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run


@pytest.fixture(scope="session")
def byte_code() -> None:
    """Our modules, compiled: a flasher is a process for every attempt, and its user may not keep what it compiles."""
    compileall.compile_dir(Path(edgewright.__file__).parent, quiet=2)


@pytest.fixture(scope="session")
def flash_cluster(request: pytest.FixtureRequest, byte_code: None) -> Iterator[ControlPlane]:
    """A real control plane with a node of ours, which runs our flasher."""
    for server in run(request, functools.partial(ControlPlane, parts={"controller-manager", "scheduler"})):
        # It is tainted: that flash Pods run there is a part of every scenario. Pods of the original name commands.
        arguments = (*IMAGE, "--allow-command", "--addresses", ",".join(ADDRESSES))
        with running_node(server, server.directory, "edge", *arguments):
            yield server


@pytest.fixture(scope="session")
def flash_plane(request: pytest.FixtureRequest, byte_code: None) -> Iterator[LocalPlane]:
    """An `edgewright up` whose node runs our flasher."""
    yield from run(request, functools.partial(LocalPlane, node=True, arguments=IMAGE))


@pytest.fixture(scope="session", params=["flash_cluster", "flash_plane"], ids=["real", "local"])
def flash_server(request: pytest.FixtureRequest) -> ApiServer:
    """Each of the API servers that can flash, in turn."""
    server: ApiServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def flash_namespace(request: pytest.FixtureRequest, flash_server: ApiServer) -> Iterator[str]:
    """A fresh namespace for one scenario; it goes afterwards."""
    name = flash_server.create_namespace(request.node.name.removeprefix("test_"))
    yield name
    flash_server.request("DELETE", f"/api/v1/namespaces/{name}")
