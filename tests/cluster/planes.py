"""The three control planes on which tests of our controllers run alike, started together and shared by several modules.

`ours` is a kube-apiserver whose only controllers are ours, `kubernetes` is one with those of Kubernetes, and `up` is
`edgewright up`. The fixtures in `conftest.py` run them; each test has a namespace of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.cluster.controllers_stage import FLAGS, our_controllers
from tests.cluster.workloads_stage import Stage, ticking
from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run

NAMES = ("ours", "kubernetes", "up")


class Planes:
    """Control planes that run, and the namespace on each with a CronJob, which was begun as soon as it did."""

    def __init__(self) -> None:
        self.servers: dict[str, ApiServer] = {}
        self.ticking: dict[str, Stage] = {}


def running(request: pytest.FixtureRequest, fixture: str) -> Iterator[Planes]:
    """Those that tests ask for by a parameter of this fixture."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    wanted = {item.callspec.params.get(fixture) for item in items if hasattr(item, "callspec")}
    planes = Planes()
    with ExitStack() as stack:
        for name in filter(wanted.__contains__, NAMES):
            server = stack.enter_context(contextmanager(run)(request, functools.partial(_made, name)))
            if name == "ours":
                stack.enter_context(our_controllers(server))
            planes.servers[name] = server
            planes.ticking[name] = ticking(server)
        yield planes


def _made(name: str) -> ApiServer:
    if name == "up":
        return LocalPlane()
    parts = ("controller-manager", "scheduler") if name == "kubernetes" else ()
    return ControlPlane(parts=parts, api_flags=FLAGS)
