"""What a rollout would do, and that it then does just that."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.controllers.rollout.plan import plan
from tests.unit.controllers.rollout.rollout_world import BEGIN, World, device_of, fleet_of, rollout_of, spec_of

FORMS: list[dict[str, Any]] = [
    {},
    {"batchSize": 3},
    {"batches": [{"name": "canary", "size": 2}, {"name": "half", "size": "50%"}]},
    {
        "batches": [
            {"name": "lab", "selector": {"labels": {"matchLabels": {"site": "lab"}}}},
            {"name": "none", "selector": {"names": ["nobody"]}},
            {"name": "two", "size": 2},
        ]
    },
]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_planned_is_what_happens(form: dict[str, Any]) -> None:
    devices = [*fleet_of(9), *(device_of(f"lab{number}", labels={"site": "lab"}) for number in range(3))]
    planned = plan(spec_of(**form), devices, BEGIN)
    world = World(rollout_of(**form), devices)
    for _ in range(6):
        world.settle()
        world.flash()
    assert [batch.devices for batch in planned.batches] == world.batches()
    assert sum(len(batch.devices) for batch in planned.batches) == planned.total == 12
    assert world.settle().phase == "Completed"


def test_who_is_left_out_is_told_with_the_reason() -> None:
    devices = [
        device_of("well"),
        device_of("current", version="2.0.0"),
        device_of("foreign", type="nrf52"),
        device_of("private", allowed=("other",)),
        device_of("broken"),
        device_of("museum", labels={"site": "museum"}),
        device_of("elsewhere", labels={"site": "elsewhere"}, type="none"),
    ]
    world = World(rollout_of(), devices)
    world.quarantine("broken")
    esp = [{"type": "esp32", "firmware": "r.example/a:2", "version": "2.0.0"}]
    spec = spec_of(
        firmwares=esp, exclude={"labels": {"matchLabels": {"site": "museum"}}}, selector={"types": ["esp32", "nrf52"]}
    )
    found = plan(spec, world.devices.values(), BEGIN)
    assert [batch.devices for batch in found.batches] == [("well", "current")]
    assert found.current == {"current"}
    assert found.targets["well"].firmware == "r.example/a:2"
    assert found.excluded == {
        "foreign": "spec.firmwares has none for its type nrf52",
        "private": "its spec.allowedNamespaces does not name default",
        "broken": "it is quarantined: its flashes keep failing",
        "museum": "spec.exclude names it",
    }
    assert found.total == 5
    assert plan(spec, world.devices.values(), BEGIN, namespace="other").excluded.keys() >= {"foreign"}


def test_a_plan_tells_when_the_next_window_opens() -> None:
    window = {"cron": "0 22 * * *", "durationSeconds": 60}
    assert plan(spec_of(windows=[window]), [], BEGIN).opens == BEGIN.replace(hour=22)
    assert plan(spec_of(), [], BEGIN).opens is None


def test_a_plan_of_what_cannot_be_acted_on_is_what_is_wrong() -> None:
    found = plan(spec_of(batches=[{"name": "a", "size": "x"}]), fleet_of(2), BEGIN)
    assert found.batches == ()
    assert found.problems[0].startswith("spec.batches[0].size:")


def test_a_recall_is_planned_too() -> None:
    world = World(rollout_of(), fleet_of(3))
    world.settle()
    world.flash("d001")
    found = plan(spec_of(recall={"name": "rollout", "uid": "uid-rollout"}), world.devices.values(), BEGIN)
    assert [batch.devices for batch in found.batches] == [("d001",)]
    assert found.targets["d001"].version == "1.0.0"


def test_of_a_rollout_that_is_under_way_the_rest_is_planned_and_shares_are_of_all() -> None:
    spec = spec_of(batches=[{"name": "canary", "size": 1}, {"name": "half", "size": "50%"}])
    devices = fleet_of(6)
    whole = plan(spec, devices, BEGIN)
    (first,) = whole.batches[0].devices
    rest = plan(spec, devices, BEGIN, opened=1, taken={first})
    assert [(each.number, each.name, each.devices) for each in rest.batches] == [
        (each.number, each.name, each.devices) for each in whole.batches[1:]
    ]
    assert len(rest.batches[0].devices) == 3
