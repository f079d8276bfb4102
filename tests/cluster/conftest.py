"""What tests on an API server ask for: one that all share, a namespace in it, or a control plane of their own.

A test that takes `api_server` runs twice, on the real kube-apiserver and on `edgewright up`; one that takes `cluster`
needs what only the real one has. The fixtures are synchronous and hold nothing of an event loop, so synchronous and
asynchronous tests use them alike.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The real control plane that all tests share, with its controller manager; not to be hurt."""
    yield from run(request, functools.partial(ControlPlane, parts={"controller-manager"}))


@pytest.fixture(scope="session")
def counterpart(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """The real control plane with only those controllers that `edgewright up` has as well, to be compared with it."""
    controllers = (
        "garbage-collector-controller",
        "namespace-controller",
        "serviceaccount-controller",
        "root-ca-certificate-publisher-controller",
        "endpointslice-controller",
    )
    # Without the controller that takes it away, no new Node may get the taint of one that is not ready.
    flags = ("--disable-admission-plugins=TaintNodesByCondition",)
    make = functools.partial(ControlPlane, parts={"controller-manager"}, controllers=controllers, api_flags=flags)
    yield from run(request, make)


@pytest.fixture(scope="session")
def local_plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """The `edgewright up` that all tests share, without a node; not to be hurt."""
    yield from run(request, LocalPlane)


@pytest.fixture(scope="session")
def compared_plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """The `edgewright up` that is compared with `counterpart`: it has what those tests make, and no other kinds."""
    yield from run(request, LocalPlane)


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
