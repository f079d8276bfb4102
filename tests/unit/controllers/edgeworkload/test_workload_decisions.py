"""What a workload says of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.controllers.edgeworkload.decisions import status_of
from edgewright.runtime.conditions import find

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = {"spec": {"containers": [{"name": "a", "image": "a"}]}}


def workload(**spec: Any) -> EdgeWorkload:
    raw = {"metadata": {"name": "w", "namespace": "d"}, "spec": {"type": "pod", "device": "one", "pod": POD} | spec}
    return msgspec.convert(raw, EdgeWorkload)


def device(number: int, phase: str | None, message: str = "", told: str = "") -> EdgeDevice:
    entries = [] if phase is None else [{"name": "w", "phase": phase, "message": message, "told": told}]
    raw = {"metadata": {"name": f"d{number}", "namespace": "d"}, "status": {"workloads": entries}}
    return msgspec.convert(raw, EdgeDevice)


@pytest.mark.parametrize(
    ("phases", "status", "reason", "message", "progress"),
    [
        ([], "Unknown", "NoDevices", "no device matches", "0/0"),
        (["Deploying"], "Unknown", "Deploying", "runs on 0 of 1 devices", "0/1"),
        ([None], "Unknown", "Deploying", "runs on 0 of 1 devices", "0/1"),
        (["Running"], "True", "Running", "runs on 1 device", "1/1"),
        (["Running", "Running"], "True", "Running", "runs on 2 devices", "2/2"),
        (["Running", "Exited"], "False", "NotRunning", "d1: Exited", "1/2"),
        (["Exited"] * 7, "False", "NotRunning", "d4: Exited; and 2 more", "0/7"),
    ],
)
def test_a_workload_is_ready_when_it_runs_on_all_its_devices(
    phases: list[str | None], status: str, reason: str, message: str, progress: str
) -> None:
    devices = [device(number, phase) for number, phase in enumerate(phases)]
    after = status_of(workload(), devices, winner=None, now=NOW)
    ready = find(after.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason, after.progress) == (status, reason, progress)
    assert message in ready.message
    settled = msgspec.structs.replace(workload(), status=after)
    assert status_of(settled, devices, winner=None, now=NOW + timedelta(hours=1)) == after


def test_what_is_missing_is_said() -> None:
    after = status_of(workload(), [device(0, "Deploying", "Secret a is missing")], winner=None, now=NOW)
    ready = find(after.conditions, "Ready")
    assert ready is not None
    assert (ready.reason, ready.message) == ("LeftOut", "d0: Secret a is missing")


def test_what_a_device_says_of_its_failure_is_in_the_condition() -> None:
    devices = [device(0, "Running"), device(1, "Created", told="podman: no such image a:1")]
    after = status_of(workload(), devices, winner=None, now=NOW)
    ready = find(after.conditions, "Ready")
    assert ready is not None
    assert (ready.reason, ready.message) == ("NotRunning", "d1: Created: podman: no such image a:1")


def test_a_bad_spec_is_shown_with_its_field() -> None:
    after = status_of(workload(type="helm"), [device(0, "Running")], winner=None, now=NOW)
    accepted, ready = find(after.conditions, "Accepted"), find(after.conditions, "Ready")
    assert accepted is not None
    assert ready is not None
    assert (accepted.status, accepted.reason) == ("False", "Invalid")
    assert accepted.message == "spec.type: 'helm' is not a type of workload: use pod"
    assert (ready.status, after.devices) == ("False", 0)


def test_the_newer_of_two_says_who_counts_and_stops_saying_so() -> None:
    winner = msgspec.convert({"metadata": {"name": "w", "namespace": "d"}}, EdgeDeployment)
    after = status_of(workload(), [device(0, "Running")], winner=winner, now=NOW)
    conflict = find(after.conditions, "Conflict")
    assert conflict is not None
    assert (conflict.status, conflict.reason) == ("True", "OlderObjectCounts")
    assert "EdgeDeployment w is older" in conflict.message
    assert after.progress == "0/0"
    alone = msgspec.structs.replace(workload(), status=after)
    again = status_of(alone, [device(0, "Running")], winner=None, now=NOW)
    assert find(again.conditions, "Conflict") is None
    assert again.progress == "1/1"
