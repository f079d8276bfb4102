"""What a heartbeat changes of an EdgeDevice's status: a pure function, so that nothing is written when nothing changed.

The server calls it for each heartbeat. What the device did not tell stays as it was known; a workload that it tells of
and that is not its own (any more) is not taken up; that it was heard is refreshed rarely.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from edgewright.api.edge_protocol import Heartbeat, UpgradeStatus, WorkloadStatus, parsed_time
from edgewright.api.edgedevice import DeviceWorkload, EdgeDeviceStatus, UpgradeInformation
from edgewright.api.edgedevice_hardware import hardware_with


def told_by(
    status: EdgeDeviceStatus,
    heartbeat: Heartbeat,
    *,
    now: datetime,
    seen_every: float,
    max_workloads: int = 500,
    revisions: Mapping[str, str] | None = None,
) -> EdgeDeviceStatus:
    """The status after a heartbeat; the very same one where there is nothing to write.

    `revisions` says which version of its workloads the device has applied, by their names; None where nobody knows.
    """
    told = {each.name: each for each in (heartbeat.workloads or ())[:max_workloads]}
    now = now.astimezone(UTC).replace(microsecond=0)
    workloads = tuple(_workload(each, told, now, revisions) for each in status.known_workloads)
    after = msgspec.structs.replace(
        status,
        phase=heartbeat.status or status.phase,
        last_synced_resource_version=heartbeat.version or status.last_synced_resource_version,
        hardware=status.hardware if heartbeat.hardware is None else hardware_with(status.hardware, heartbeat.hardware),
        upgrade_information=_upgrade(status.upgrade_information, heartbeat.upgrade),
    ).with_workloads(workloads)
    if after == status and not _is_old(status.last_seen_time, now, seen_every):
        return status
    return msgspec.structs.replace(after, last_seen_time=now)


def _workload(
    known: DeviceWorkload, told: Mapping[str, WorkloadStatus], now: datetime, revisions: Mapping[str, str] | None
) -> DeviceWorkload:
    new = told.get(known.name)
    if new is None:
        return known
    revision = known.revision if revisions is None else revisions.get(known.name, "")
    same = new.status in {known.phase, ""} and revision == known.revision
    uploaded = parsed_time(new.last_data_upload)
    return msgspec.structs.replace(
        known,
        phase=new.status or known.phase,
        last_transition_time=known.last_transition_time if same else now,
        last_data_upload=known.last_data_upload
        if uploaded is None
        else uploaded.astimezone(UTC).replace(microsecond=0),
        rolled_back=new.rolled_back,
        told=new.message[:1024],
        revision=revision,
    )


def _upgrade(known: UpgradeInformation | None, told: UpgradeStatus | None) -> UpgradeInformation | None:
    if told is None or told == UpgradeStatus():
        return known
    return UpgradeInformation(
        current_commit_id=told.current_commit_id,
        last_upgrade_status=told.last_upgrade_status,
        last_upgrade_time=told.last_upgrade_time,
    )


def _is_old(seen: datetime | None, now: datetime, seen_every: float) -> bool:
    return seen is None or (now - seen).total_seconds() >= seen_every
