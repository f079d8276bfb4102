"""What tests on an API server ask for: one that all share, a namespace in it, or a control plane of their own.

A test that takes `api_server` runs twice, on the real kube-apiserver and on `edgewright up`; one that takes `cluster`
needs what only the real one has. The fixtures are synchronous and hold nothing of an event loop, so synchronous and
asynchronous tests use them alike.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import pytest

from tests.cluster.nodes import Pods, RunningNode
from tests.cluster.planes import NAMES, Planes, running
from tests.cluster.undisturbed import undisturbed_cluster
from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The real control plane that all tests share, with its controller manager; not to be hurt."""
    yield from run(request, functools.partial(ControlPlane, parts={"controller-manager"}))


@pytest.fixture(scope="session")
def counterpart(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The real control plane whose controllers write nothing that a test makes: `edgewright up` is compared with it."""
    yield from run(request, undisturbed_cluster)


@pytest.fixture(scope="session")
def local_plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """The `edgewright up` that all tests share, without a node; not to be hurt."""
    yield from run(request, LocalPlane)


@pytest.fixture(scope="session")
def compared_plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """The `edgewright up` that is compared with `counterpart`: it has what those tests make, and no other kinds."""
    yield from run(request, LocalPlane)


@pytest.fixture(scope="session")
def workload_planes(request: pytest.FixtureRequest) -> Iterator[Planes]:
    """Three control planes for controllers, each with a CronJob: what is due comes while other tests run.

    One set for all modules: a second one would be two more real API servers with their etcd, until the session ends.
    """
    yield from running(request, "workload_plane")


@pytest.fixture(scope="session", params=NAMES)
def workload_plane(request: pytest.FixtureRequest, workload_planes: Planes) -> ApiServer:
    """Each of them in turn; a test makes the Nodes that it needs, and removes them."""
    return workload_planes.servers[request.param]


@pytest.fixture(scope="session", params=["cluster", "local_plane"], ids=["real", "local"])
def api_server(request: pytest.FixtureRequest) -> ApiServer:
    """Each of the shared API servers in turn: what is tested must be the same on both."""
    server: ApiServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace in the API server of the test; it goes afterwards, and nobody waits for that."""
    server: ApiServer = request.getfixturevalue("api_server" if "api_server" in request.fixturenames else "cluster")
    name = server.create_namespace(request.node.name.removeprefix("test_"))
    yield name
    server.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def own_cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane for one test that hurts it: etcd and API server, or what an indirect parameter says."""
    yield from run(request, functools.partial(ControlPlane, **getattr(request, "param", {})))


@pytest.fixture(scope="module")
def node(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """The node that the tests of a module share, with an own user for Pods where we run as root."""
    running = RunningNode(
        cluster,
        tmp_path_factory.mktemp("node"),
        name="edge-1",
        ids="1000-9999" if os.geteuid() == 0 else None,
        environment={"KUBERNETES_SERVICE_HOST": "127.0.0.1"},
    )
    try:
        running.start()
        yield running
    finally:
        running.stop()
        cluster.request("DELETE", f"/api/v1/nodes/{running.name}")


@pytest.fixture
def pods(node: RunningNode, namespace: str) -> Iterator[Pods]:
    """The Pods of one test."""
    found = Pods(node, namespace)
    yield found
    found.clean()
