"""What must happen to pods, as a table: from what is wanted and what podman shows to actions."""

from __future__ import annotations

import pytest

from edgewright.agent.manifest import DEVICE_LABEL, HASH_LABEL, Manifest
from edgewright.agent.plan import Action, Conflict, Play, Remove, Start, plan
from edgewright.containers import Container, Pod


def wanted(name: str = "a", *, hash: str = "1", restart: str = "Always") -> Manifest:  # noqa: A002
    return Manifest(
        name=name,
        hash=hash,
        text="",
        containers=frozenset({f"{name}-c"}),
        restart=restart,
        ports=(),
        secrets={},
        credentials={},
    )


def pod(
    name: str = "a",
    *,
    status: str = "Running",
    hash: str = "1",  # noqa: A002
    device: str = "d",
    containers: tuple[str, ...] | None = None,
) -> Pod:
    names = (f"{name}-c",) if containers is None else containers
    return Pod(
        name=name,
        status=status,
        infra_id="i",
        labels={DEVICE_LABEL: device, HASH_LABEL: hash},
        containers=[Container(id="i", name="infra"), *(Container(id=each, name=each) for each in names)],
    )


@pytest.mark.parametrize(
    ("manifests", "pods", "actions"),
    [
        ([], [], []),
        ([wanted()], [], [Play("a")]),
        ([wanted()], [pod()], []),
        ([], [pod()], [Remove("a")]),
        ([], [pod(device="other")], []),
        ([], [Pod(name="a")], []),
        ([wanted()], [pod(device="other")], [Conflict("a")]),
        ([wanted()], [Pod(name="a")], [Conflict("a")]),
        ([wanted(hash="2")], [pod()], [Remove("a"), Play("a")]),
        ([wanted()], [pod(containers=())], [Remove("a"), Play("a")]),
        ([wanted()], [pod(status="Created")], [Start("a")]),
        ([wanted()], [pod(status="Exited")], [Start("a")]),
        ([wanted()], [pod(status="Degraded")], [Start("a")]),
        ([wanted()], [pod(status="Paused")], []),
        ([wanted(restart="Never")], [pod(status="Exited")], []),
        ([wanted(restart="OnFailure")], [pod(status="Exited")], []),
        ([wanted(restart="Never")], [pod(status="Created")], [Start("a")]),
        (
            [wanted("b"), wanted("c", hash="2")],
            [pod("a"), pod("c")],
            [Remove("a"), Remove("c"), Play("b"), Play("c")],
        ),
    ],
)
def test_what_must_happen(manifests: list[Manifest], pods: list[Pod], actions: list[Action]) -> None:
    assert plan({each.name: each for each in manifests}, pods, device="d") == actions


def test_what_runs_of_a_workload_that_cannot_be_made_now_goes_on() -> None:
    assert plan({}, [pod("a"), pod("b")], device="d", keep={"a"}) == [Remove("b")]


def test_a_second_look_finds_nothing_to_do() -> None:
    manifests = {"a": wanted("a"), "b": wanted("b")}
    assert plan(manifests, [pod("a"), pod("b")], device="d") == []
