"""The three control planes on which tests of our controllers run alike, started together and shared by several modules.

`ours` is a kube-apiserver whose only controllers are ours, `kubernetes` is one with those of Kubernetes, and `up` is
`edgewright up`. The fixtures in `conftest.py` run them; each test has a namespace of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Generic, TypeVar

import pytest

from tests.cluster.controllers_stage import FLAGS, our_controllers
from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run

NAMES = ("ours", "kubernetes", "up")
T = TypeVar("T")


class Planes(Generic[T]):
    """Control planes that run, and what was begun on each as soon as it did."""

    def __init__(self) -> None:
        self.servers: dict[str, ApiServer] = {}
        self.begun: dict[str, T] = {}


def running(
    request: pytest.FixtureRequest, fixture: str, *, parts: Collection[str], begin: Callable[[ApiServer], T]
) -> Iterator[Planes[T]]:
    """Those that tests ask for by a parameter of this fixture; Kubernetes' own controllers are `parts`."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    wanted = {item.callspec.params.get(fixture) for item in items if hasattr(item, "callspec")}
    planes: Planes[T] = Planes()
    with ExitStack() as stack:
        for name in filter(wanted.__contains__, NAMES):
            server = stack.enter_context(contextmanager(run)(request, functools.partial(_made, name, parts)))
            if name == "ours":
                stack.enter_context(our_controllers(server))
            planes.servers[name] = server
            planes.begun[name] = begin(server)
        yield planes


def _made(name: str, parts: Collection[str]) -> ApiServer:
    if name == "up":
        return LocalPlane()
    return ControlPlane(parts=parts if name == "kubernetes" else (), api_flags=FLAGS)
