"""What a heartbeat changes, and when it changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.edge_protocol import NEVER, DeviceConfigurationMessage, Heartbeat
from edgewright.api.edgedevice import DeviceWorkload, EdgeDeviceStatus
from edgewright.gateway.assembly import Assembled
from edgewright.gateway.heartbeats import told_by
from edgewright.gateway.outcome import configured

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FULL = {
    "hostname": "fedora",
    "cpu": {"architecture": "x86_64", "flags": None, "frequency": 3400.5, "model_name": "M"},
    "disks": [{"name": "sda", "io_perf": {"sync_duration": 3}}],
    "gpus": None,
    "interfaces": [{"name": "eth0", "flags": None}],
    "memory": {"physical_bytes": 1},
    "host_devices": [{"path": "/dev/null", "uid": 1, "gid": 2}],
    "mounts": [{"device": "/dev/sda1", "directory": "/mnt"}],
    "boot": {"current_boot_mode": "uefi"},
}


def beat(**content: Any) -> Heartbeat:
    return msgspec.convert({"status": "up", "version": "v1"} | content, Heartbeat)


def told(status: EdgeDeviceStatus, heartbeat: Heartbeat, *, after: float = 0.0) -> EdgeDeviceStatus:
    return told_by(status, heartbeat, now=NOW + timedelta(seconds=after), seen_every=300)


def listed(*phases: str) -> EdgeDeviceStatus:
    entries = tuple(DeviceWorkload(name=f"w{number}", phase=phase) for number, phase in enumerate(phases))
    return EdgeDeviceStatus().with_workloads(entries)


def test_the_first_heartbeat_is_written_whole() -> None:
    status = told(EdgeDeviceStatus(), beat(hardware=FULL, upgrade={"current_commit_ID": "abc"}))
    assert (status.phase, status.last_synced_resource_version, status.last_seen_time) == ("up", "v1", NOW)
    assert status.upgrade_information is not None
    assert status.upgrade_information.current_commit_id == "abc"
    hardware = status.hardware
    assert hardware is not None
    assert hardware.cpu is not None
    assert hardware.cpu.frequency == "3400.50"
    assert hardware.disks[0].io_perf is not None
    assert (hardware.host_devices[0].owner, hardware.host_devices[0].group) == (1, 2)
    assert hardware.mounts[0].folder == "/mnt"


@pytest.mark.parametrize(
    ("content", "after", "same"),
    [
        pytest.param({}, 299, True, id="nothing new"),
        pytest.param({"workloads": None, "events": None, "hardware": None}, 10, True, id="nulls"),
        pytest.param({"upgrade": {}}, 10, True, id="no upgrade"),
        pytest.param({"hardware": {"hostname": ""}}, 10, True, id="hardware that tells nothing"),
        pytest.param({}, 300, False, id="not heard for long"),
        pytest.param({"status": "degraded"}, 1, False, id="another status"),
        pytest.param({"version": "v2"}, 1, False, id="another version"),
    ],
)
def test_only_news_are_written(content: dict[str, Any], after: float, same: bool) -> None:
    before = told(EdgeDeviceStatus(), beat(hardware=FULL))
    assert (told(before, beat(**content), after=after) is before) is same


def test_partial_hardware_does_not_overwrite_the_rest() -> None:
    before = told(EdgeDeviceStatus(), beat(hardware=FULL))
    after = told(before, beat(hardware={"hostname": "new", "disks": []}))
    assert after.hardware is not None
    assert before.hardware is not None
    assert (after.hardware.hostname, after.hardware.disks) == ("new", ())
    assert after.hardware.interfaces == before.hardware.interfaces
    assert after.hardware.cpu == before.hardware.cpu


def test_the_phase_of_a_workload_is_what_podman_says_and_strangers_are_not_taken_up() -> None:
    status = told(
        listed("Deploying", "Running"),
        beat(
            workloads=[
                {"name": "w0", "status": "Degraded", "last_data_upload": "2026-01-01T00:00:00.5Z"},
                {"name": "w1", "status": "Running", "last_data_upload": NEVER},
                {"name": "stranger", "status": "Running"},
            ]
        ),
    )
    assert status.workloads == status.deployments
    first, second = status.workloads
    assert (first.name, first.phase, first.last_transition_time, first.last_data_upload) == ("w0", "Degraded", NOW, NOW)
    assert (second.phase, second.last_transition_time, second.last_data_upload) == ("Running", None, None)


def test_a_list_that_the_first_era_wrote_is_read() -> None:
    status = EdgeDeviceStatus(deployments=(DeviceWorkload(name="w0", phase="Deploying"),))
    after = told(status, beat(workloads=[{"name": "w0", "status": "Running"}]))
    assert [each.phase for each in after.workloads] == ["Running"]


def test_what_is_left_out_is_said_and_what_is_complete_again_as_well() -> None:
    message = DeviceConfigurationMessage()
    out = Assembled(message, {"w0": "Secret a is missing"}, ("storage: ConfigMap b is missing",))
    status = configured(listed("Deploying", "Running"), out, generation=1, now=NOW)
    assert [each.message for each in status.workloads] == ["Secret a is missing", ""]
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Configured", "False", "LeftOut")
    assert condition.message == "storage: ConfigMap b is missing; workload w0: Secret a is missing"
    assert configured(status, out, generation=1, now=NOW + timedelta(1)) == status
    again = configured(status, Assembled(message), generation=1, now=NOW)
    assert (again.conditions[0].status, [each.message for each in again.workloads]) == ("True", ["", ""])
