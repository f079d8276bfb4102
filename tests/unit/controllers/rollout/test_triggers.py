"""Which changes are a reason to look at a rollout, and what is counted for Prometheus."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from edgewright.api.device import Claim, DeviceStatus, FlashRecord
from edgewright.api.firmwarerollout import FirmwareRolloutStatus, OutcomeCounts
from edgewright.api.flashjob import FlashCounts, FlashJob, FlashJobStatus
from edgewright.controllers.metrics import ROLLOUT_DECLARED, RolloutMetrics
from edgewright.controllers.rollout.loop import progress_only
from edgewright.controllers.rollout.triggers import Watchers, tells_of_device, tells_of_job
from edgewright.runtime.cache import Change
from edgewright.runtime.objects import Condition, ObjectMeta
from edgewright.runtime.predicates import intent_changed_or_wiped
from tests.unit.controllers.rollout.rollout_world import BEGIN, device_of, replace, rollout_of

DEVICE = device_of("d", labels={"a": "b"})
JOB = FlashJob(metadata=ObjectMeta(name="j", generation=1), status=FlashJobStatus(phase="InProgress"))


@pytest.mark.parametrize(
    ("changes", "tells"),
    [
        ({"last_seen": BEGIN}, False),
        ({"certificate": "c"}, False),
        ({"claim": Claim()}, True),
        ({"records": (FlashRecord(),)}, True),
        ({"version": "3"}, True),
        ({"application": "x"}, True),
        ({"instances": ("i",)}, True),
        ({"conditions": (Condition(type="Stale", status="True"),)}, True),
    ],
)
def test_a_change_of_a_device_tells(changes: dict[str, Any], tells: bool) -> None:
    after: DeviceStatus = replace(DEVICE.status, **changes)
    assert tells_of_device(Change(DEVICE, replace(DEVICE, status=after))) is tells


def test_devices_that_come_go_or_get_other_labels_tell() -> None:
    assert tells_of_device(Change(None, DEVICE))
    assert tells_of_device(Change(DEVICE, None))
    assert tells_of_device(Change(DEVICE, device_of("d", labels={"a": "c"})))


def test_a_job_tells_when_it_ends_fails_or_is_refused_and_not_with_its_progress() -> None:
    going = replace(JOB, status=FlashJobStatus(phase="InProgress", progress="1/2", counts=FlashCounts(done=1)))
    assert not tells_of_job(Change(JOB, going))
    assert tells_of_job(Change(JOB, None))
    assert tells_of_job(Change(JOB, replace(JOB, status=FlashJobStatus(phase="Completed"))))
    assert tells_of_job(
        Change(JOB, replace(JOB, status=FlashJobStatus(phase="InProgress", counts=FlashCounts(failed=1))))
    )
    refused = (Condition(type="Accepted", status="False", message="no"),)
    assert tells_of_job(Change(JOB, replace(JOB, status=FlashJobStatus(phase="InProgress", conditions=refused))))
    assert tells_of_job(Change(JOB, replace(JOB, metadata=ObjectMeta(name="j", generation=2))))


def test_a_rollout_is_looked_at_when_it_asks_for_something_else_or_its_status_is_gone() -> None:
    asked = rollout_of()
    shown = replace(asked, status=FirmwareRolloutStatus(phase="Completed"))
    assert intent_changed_or_wiped(Change(None, asked))
    assert not intent_changed_or_wiped(Change(asked, shown))
    assert intent_changed_or_wiped(Change(shown, asked))


def test_a_device_concerns_those_that_select_it_have_flashed_it_or_take_it_back() -> None:
    rollouts = [
        rollout_of("selects", selector={"labels": {"matchLabels": {"a": "b"}}}),
        rollout_of("other", selector={"labels": {"matchLabels": {"a": "c"}}}),
        rollout_of("recalls", recall={"name": "other", "uid": "uid-other"}),
    ]
    watchers = Watchers(rollouts)  # type: ignore[arg-type] # a list is walked as a cache is

    def concerns(**status: Any) -> list[str]:
        device = replace(DEVICE, status=replace(DEVICE.status, **status))
        return [key.name for key in watchers.of_device(device)]

    assert concerns() == ["selects"]
    assert concerns(records=(FlashRecord(rollout="uid-other"),)) == ["selects", "other", "recalls"]
    assert concerns(claim=Claim(rollout="uid-other")) == ["selects", "other", "recalls"]
    metadata = replace(rollouts[0].metadata, generation=2)
    rollouts[0] = replace(rollout_of("selects", selector={"names": ["x"]}), metadata=metadata)
    assert concerns() == []


def test_rollouts_are_counted_by_phase_and_their_devices_by_place() -> None:
    registry = CollectorRegistry()
    counts = OutcomeCounts(total=3, succeeded=1, waiting=2)
    going = replace(rollout_of(), status=FirmwareRolloutStatus(phase="Progressing", counts=counts))
    ended = FirmwareRolloutStatus(phase="Completed", counts=counts, completion_time=BEGIN)
    leads = [True]
    metrics = RolloutMetrics(
        registry, rollouts=[going, replace(rollout_of("b"), status=ended), rollout_of("c")], leading=lambda: leads[0]
    )
    metrics.opened()
    metrics.stopped("abort")

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("edgewright_rollouts", phase="Progressing") == value("edgewright_rollouts", phase="Pending") == 1
    assert value("edgewright_rollout_devices", place="waiting") == 2
    assert value("edgewright_rollout_devices", place="total") is None
    assert value("edgewright_rollout_batches_opened_total") == 1
    assert value("edgewright_rollout_stops_total", action="abort") == 1
    told = {each.name for each in registry.collect()}
    assert told == {each.name.removesuffix("_total") for each in ROLLOUT_DECLARED}
    leads[0] = False
    assert value("edgewright_rollouts", phase="Pending") is None


def test_the_progress_of_a_large_rollout_alone_is_shown_seldom() -> None:
    def shown(succeeded: int, total: int, **more: Any) -> FirmwareRolloutStatus:
        return FirmwareRolloutStatus(
            phase="Progressing", counts=OutcomeCounts(total=total, succeeded=succeeded), **more
        )

    assert not progress_only(shown(0, 100), shown(1, 100)), "a small one tells all"
    assert progress_only(shown(0, 1000), shown(39, 1000))
    assert not progress_only(shown(0, 1000), shown(40, 1000))
    assert not progress_only(shown(0, 1000), shown(0, 1001))
    assert not progress_only(shown(0, 1000), shown(0, 1000, batch="b (2/2)"))
    stalled = (Condition(type="Stalled", status="True", reason="Paused"),)
    assert not progress_only(shown(0, 1000), shown(0, 1000, conditions=stalled))
    assert not progress_only(FirmwareRolloutStatus(), shown(0, 1000))
