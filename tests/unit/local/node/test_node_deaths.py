"""A node that dies at any step of starting a Pod: the next one on the same folder runs it to its end, exactly once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node import container_start
from edgewright.local.node.folders import AttemptFolder, PodFolder
from edgewright.local.node.node import Containers, Node
from edgewright.local.node.pod_loop import Reconciler
from edgewright.local.node.runs import Runs
from tests.harness import wait_until_async
from tests.unit.local.node.fakeapi import FakeApi
from tests.unit.local.node.test_node_runs import IMAGES, QUICK, directory, running, until_phase

__all__ = ["directory"]


class Death(BaseException):
    """What kill -9 is to a process, this is to everything that runs in the loop."""


def before(real: Callable[..., Any]) -> Callable[..., Any]:
    def die(*_: Any, **__: Any) -> Any:
        raise Death

    return die


def after(real: Callable[..., Any]) -> Callable[..., Any]:
    def do_and_die(*given: Any, **named: Any) -> Any:
        real(*given, **named)
        raise Death

    return do_and_die


def halfway(real: Callable[..., Any]) -> Callable[..., Any]:
    """The attempt's folder is made, and its order is not written."""

    def die(self: AttemptFolder, order: dict[str, Any]) -> None:
        self.path.with_name(f".{self.path.name}").mkdir(parents=True)
        raise Death

    return die


DEATHS = {
    "before it is taken in": (PodFolder, "take_in", before),
    "after it is taken in": (PodFolder, "take_in", after),
    "before its volumes": (container_start.Starter, "make_volumes", before),
    "before its order": (AttemptFolder, "prepare", before),
    "within its order": (AttemptFolder, "prepare", halfway),
    "after its order": (AttemptFolder, "prepare", after),
    "before its shim": (os, "posix_spawn", before),
    "after its shim": (os, "posix_spawn", after),
    "before its shim is watched": (Runs, "_look_after", before),
    "before it is told": (Reconciler, "_write", before),
}


async def lives_until_it_dies(api: FakeApi, place: Path) -> None:
    node = Node(api.client(), name="edge", directory=place, containers=Containers(images=IMAGES), timing=QUICK)
    died = False
    try:
        async with asyncio.timeout(120):
            await node.run()
    except* Death:
        died = True
    assert died


@pytest.mark.parametrize("moment", DEATHS)
async def test_a_pod_runs_once_wherever_the_node_dies(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    api = FakeApi()
    script = "echo once >> /e/runs; until test -e /e/go; do sleep 0.02; done"
    pod = api.add_pod(
        restartPolicy="Never",
        volumes=[{"name": "e", "emptyDir": {}}],
        containers=[
            {"name": "main", "image": "sh", "args": [script], "volumeMounts": [{"name": "e", "mountPath": "/e"}]}
        ],
    )
    where, name, how = DEATHS[moment]
    with monkeypatch.context() as dying:
        dying.setattr(where, name, how(getattr(where, name)))
        await lives_until_it_dies(api, directory)
    volume = directory / "pods" / pod["metadata"]["uid"] / "volumes" / "e"
    async with running(api, directory):
        await wait_until_async((volume / "runs").exists, what="it runs")
        (volume / "go").touch()
        await until_phase(api, "Succeeded")
    assert (volume / "runs").read_text() == "once\n"
    assert api.pod()["status"]["containerStatuses"][0]["restartCount"] == 0
