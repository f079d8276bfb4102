"""An edge device in words, and tables of edge devices and of what runs on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from edgewright.api.edgedevice import ONLINE, READY, EdgeDevice
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.cli import terminal
from edgewright.runtime import spans
from edgewright.runtime.objects import Key

HEAD = ("NAME", "STATE", "SEEN", "WORKLOADS", "HOSTNAME", "WHY")
"""The columns of the list of devices."""
WORKLOADS_HEAD = ("DEVICE", "WORKLOAD", "PHASE", "FOR", "UPLOADED", "MESSAGE")
REVISIONS_HEAD = ("DEVICE", "WORKLOAD", "PHASE", "FOR", "UPLOADED", "REVISION", "MESSAGE")
"""The columns where a workload has a rollout: devices have different versions of it."""
ROLLOUTS_HEAD = ("WORKLOAD", "ROLLOUT", "REVISION", "DONE", "BATCH", "MESSAGE")


def state(device: EdgeDevice) -> str:
    """A device's state in one word."""
    conditions = {each.type: each.status for each in device.status.conditions}
    if device.deleting:
        return "Leaving"
    if conditions.get(ONLINE) == "False":
        return "Offline"
    if ONLINE not in conditions:
        return "New"
    return "Ready" if conditions.get(READY) == "True" else "NotReady"


def waiting(request: EdgeDeviceSignedRequest) -> str:
    """Where an id that has no EdgeDevice stands, in one word; empty where nobody has to know."""
    spec = request.spec
    if spec.decommissioned:
        return "Decommissioned"
    if spec.denied:
        return "Denied"
    return "" if spec.approved else "Pending"


def rows(
    devices: Iterable[EdgeDevice],
    requests: Iterable[EdgeDeviceSignedRequest],
    heard: Mapping[Key, datetime],
    now: datetime,
) -> list[list[str]]:
    """The devices, and those that ask to be let in or are kept out, by name."""
    made: list[list[str]] = []
    known: set[str] = set()
    for device in devices:
        known.add(device.metadata.name)
        workloads = device.status.known_workloads
        running = sum(1 for each in workloads if each.phase == "Running")
        hardware = device.status.hardware
        made.append(
            [
                device.metadata.name,
                state(device),
                spans.ago(seen(device, heard), now),
                f"{running}/{len(workloads)}",
                "" if hardware is None else hardware.hostname,
                _why(device),
            ]
        )
    for request in requests:
        word = waiting(request)
        if word and request.metadata.name not in known:
            made.append([request.metadata.name, word, "", "", "", request.spec.reason])
    return sorted(made)


def seen(device: EdgeDevice, heard: Mapping[Key, datetime]) -> datetime | None:
    """When a device was last heard, by whoever knows it best."""
    times = [each for each in (device.status.last_seen_time, heard.get(device.key)) if each is not None]
    return max(times, default=None)


def described(
    device: EdgeDevice,
    record: EdgeDeviceSignedRequest | None,
    heard: Mapping[Key, datetime],
    now: datetime,
    *,
    colour: bool = False,
) -> list[str]:
    """All that people want to know of a device, a line each."""
    meta, status = device.metadata, device.status
    last = seen(device, heard)
    certificate, hardware = status.certificate, status.hardware
    facts = {
        "Device": str(device.key),
        "State": terminal.state(state(device), on=colour),
        "Labels": ", ".join(f"{key}={value}" for key, value in sorted(meta.labels.items())),
        "Hostname": "" if hardware is None else hardware.hostname,
        "Seen": f"{spans.ago(last, now)} ago" if last else "never",
        "Version": status.last_synced_resource_version,
        "Bucket": status.data_obc,
        "Certificate": ""
        if certificate is None
        else f"{certificate.serial_number}, until {certificate.not_after:%Y-%m-%d}, by {certificate.issuer}",
        "Revoked": ""
        if record is None or record.spec.revoked_before is None
        else f"certificates before {record.spec.revoked_before:%Y-%m-%d %H:%M:%S}",
        "Denied": (record.spec.reason or "yes") if record is not None and record.spec.denied else "",
    }
    lines = [f"{f'{name}:':<13} {value}" for name, value in facts.items() if value]
    lines += [
        f"{f'{each.type}:':<13} {terminal.state(each.status, on=colour)}: {each.message}" for each in status.conditions
    ]
    if status.known_workloads:
        lines.append("Workloads:")
        lines += [
            f"  {each.name}: {terminal.state(each.phase, on=colour)}"
            + (f": {each.message or each.told}" if each.message or each.told else "")
            + (" (went back to its last good version)" if each.rolled_back else "")
            for each in status.known_workloads
        ]
    return lines


def workload_rows(devices: Iterable[EdgeDevice], name: str, now: datetime) -> tuple[tuple[str, ...], list[list[str]]]:
    """The columns and lines of which workload is how on which device; of one workload, or of all."""
    found = [(device, each) for device in devices for each in device.status.known_workloads if name in {"", each.name}]
    staged = any(each.revision for _, each in found)
    rows = [
        [
            device.metadata.name,
            each.name,
            each.phase,
            spans.ago(each.last_transition_time, now),
            spans.ago(each.last_data_upload, now),
            *([each.revision] if staged else []),
            each.message or each.told,
        ]
        for device, each in found
    ]
    return REVISIONS_HEAD if staged else WORKLOADS_HEAD, sorted(rows)


def rollout_rows(workloads: Iterable[EdgeWorkload], name: str) -> list[list[str]]:
    """How far the newest version of each workload with a rollout is; of one workload, or of all."""
    return sorted(
        [each.metadata.name, rollout.phase, rollout.revision, rollout.progress, rollout.batch, rollout.message]
        for each in workloads
        if name in {"", each.metadata.name} and (rollout := each.status.rollout) is not None
    )


def _why(device: EdgeDevice) -> str:
    found = next((each for each in device.status.conditions if each.type == READY and each.status != "True"), None)
    return "" if found is None else found.message
