"""What tests of the embedded control plane ask for: an `edgewright up` that all share, or one of their own to hurt.

They need nothing but Python: what takes kubectl or strace is in `tests/cluster`. A data directory never
stays behind, unless a test failed while it was used.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tests.harness import LocalPlane
from tests.harness.fixtures import run


@pytest.fixture(scope="session")
def local_plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """The `edgewright up` that all tests share, without a node; not to be hurt."""
    yield from run(request, LocalPlane)


@pytest.fixture
def namespace(local_plane: LocalPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace in the shared one; it goes afterwards, and nobody waits for that."""
    name = local_plane.create_namespace(request.node.name.removeprefix("test_"))
    yield name
    local_plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def own_plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """An `edgewright up` for one test that hurts it; an indirect parameter holds settings of LocalPlane."""
    yield from run(request, functools.partial(LocalPlane, **getattr(request, "param", {})))
