"""What an EdgeDevice should say of itself: labels, workloads, whether it needs a bucket, when it may go; all pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from edgewright.api.edge_tombstone import without_device
from edgewright.api.edgedevice import (
    CONFIGURED,
    DEPLOYING,
    DEVICE_FINALIZER,
    FINALIZERS,
    ONLINE,
    READY,
    REGISTERED,
    WORKLOAD_LABEL,
    DeviceSettings,
    DeviceWorkload,
    EdgeDevice,
    EdgeDeviceStatus,
)
from edgewright.api.edgedevice_hardware import Hardware
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.runtime.conditions import condition, set_condition
from edgewright.runtime.objects import Condition

RUNNING: Final = "Running"
"""The phase of a workload that is well."""
OURS: Final = frozenset({*FINALIZERS, DEVICE_FINALIZER})
"""The finalizers that we answer for: those of every published era."""
_UNFIT: Final = re.compile(r"[^a-z0-9_.-]")
_MAX_LABEL: Final = 63
_NAMED: Final = 5


def labels_of(device: EdgeDevice, workloads: Iterable[EdgeWorkload]) -> dict[str, str]:
    """The labels that the device should have: people's own, those of its hardware, and one for each workload."""
    kept = {name: value for name, value in device.metadata.labels.items() if not name.startswith(WORKLOAD_LABEL)}
    return (
        kept
        | hardware_labels(device.status.hardware)
        | {f"{WORKLOAD_LABEL}{each.metadata.name}": "true" for each in workloads}
    )


def hardware_labels(hardware: Hardware | None) -> dict[str, str]:
    """The published labels by which workloads select devices; what is not known gives none."""
    if hardware is None:
        return {}
    cpu, vendor = hardware.cpu, hardware.system_vendor
    told = {
        "device.hostname": hardware.hostname,
        "device.cpu-architecture": "" if cpu is None else cpu.architecture,
        "device.cpu-model": "" if cpu is None else cpu.model_name,
        "device.system-manufacturer": "" if vendor is None else vendor.manufacturer,
        "device.system-product": "" if vendor is None else vendor.product_name,
        "device.system-serial": "" if vendor is None else vendor.serial_number,
    }
    return {name: value for name, text in told.items() if (value := label_value(text))}


def label_value(text: str) -> str:
    """A text as the value of a label: in lower case, without what may not stand there."""
    return _UNFIT.sub("", text.lower())[:_MAX_LABEL].strip("-_.")


def status_of(device: EdgeDevice, workloads: Iterable[EdgeWorkload], *, now: datetime) -> EdgeDeviceStatus:
    """The status with exactly these workloads in it: a new one is Deploying, the others are as they were."""
    known = {each.name: each for each in device.status.known_workloads}
    since = now.astimezone(UTC).replace(microsecond=0)
    listed = tuple(
        known.get(each.metadata.name)
        or DeviceWorkload(name=each.metadata.name, phase=DEPLOYING, last_transition_time=since)
        for each in workloads
    )
    status = device.status.with_workloads(listed)
    generation = device.metadata.generation
    return msgspec.structs.replace(
        status, conditions=set_condition(status.conditions, ready(status, generation), now=now)
    )


def ready(status: EdgeDeviceStatus, generation: int) -> Condition:
    """The condition that sums up the others and the workloads: what is wrong first, in the order of causes."""
    for name, otherwise in ((REGISTERED, "it has not registered yet"), (ONLINE, "it has not been heard yet")):
        found = next((each for each in status.conditions if each.type == name), None)
        if found is None or found.status != "True":
            text = otherwise if found is None else found.message
            return condition(READY, "False", f"Not{name}", text, generation=generation)
    left_out = next((each for each in status.conditions if each.type == CONFIGURED and each.status == "False"), None)
    if left_out is not None:
        return condition(READY, "False", "NotConfigured", left_out.message, generation=generation)
    down = sorted(f"{each.name}: {each.standing}" for each in status.known_workloads if each.phase != RUNNING)
    if down:
        shown = "; ".join(down[:_NAMED]) + (f"; and {len(down) - _NAMED} more" if len(down) > _NAMED else "")
        return condition(READY, "False", "WorkloadsNotRunning", shown, generation=generation)
    return condition(READY, "True", "Ready", "it is heard and runs what it is to run", generation=generation)


def needs_claim(device: EdgeDevice, settings: DeviceSettings, *, automatic: bool) -> bool:
    """Whether a bucket is to be claimed for the device: where it names none, and has none yet."""
    if device.status.data_obc:
        return False
    s3 = None if settings.storage is None else settings.storage.s3
    if s3 is None:
        return automatic
    if s3.secret_name or s3.config_map_name:
        return False
    return automatic or s3.create_obc


def held_until(device: EdgeDevice, *, grace: float) -> float | None:
    """How many seconds after its deletion was asked for the device may still be told; None where it need not be."""
    if not OURS & set(device.metadata.finalizers):
        return None
    return 0.0 if without_device(device) else grace
