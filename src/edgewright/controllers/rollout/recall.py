"""Going back: which devices a rollout has changed, and what each of them ran before.

A rollout with spec.recall takes its targets from here in place of a selector. It reads the records on the Devices only,
so it works when the FlashJobs of the other rollout are gone. What a device ran before is never guessed: where nobody
knows it, the device is told apart. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from edgewright.api.device import Device, Firmware, FlashRecord
from edgewright.api.firmwarerollout import FirmwareRollout, FirmwareRolloutSpec, RolloutReference
from edgewright.api.flash_pod import Outcome
from edgewright.api.reference import BadReference, is_digest, parse_reference
from edgewright.controllers.rollout.targets import Barred, Target
from edgewright.runtime.objects import ObjectMeta

RECALL_SUFFIX: Final = "-recall"
_MAX_NAME: Final = 253
_HASH: Final = 5

RecallTargets: TypeAlias = Callable[[Device], Target | Barred | None]
"""What a device goes back to; None where the other rollout did not change it."""


def recall_targets(recalled: RolloutReference) -> RecallTargets:
    """What each device that this rollout changed goes back to.

    It is not for devices that the recall has in a batch already: one that the recall itself is flashing is `busy`, too.
    """
    uid = recalled.uid

    def before(device: Device) -> Target | Barred | None:
        changed = _changes(device, uid)
        if not changed:
            return None
        last = changed[-1]
        other = _changed_since(device, last, uid)
        if other:
            return Barred(other)
        claim = device.status.claim
        if claim is not None and claim.rollout != uid:
            # What it runs may be the other's work already, which is written down when that ends.
            return Barred(f"job {claim.job.name} in namespace {claim.job.namespace} is flashing it", busy=True)
        first = next((record.before for record in changed if record.before is not None), None)
        if changed[0].before is None or first is None:
            return Barred("nobody knows what it ran before", unknown=True)
        return _target(first)

    return before


def recall_of(rollout: FirmwareRollout, name: str) -> FirmwareRollout:
    """The rollout that takes the devices of another one back, as careful with them as that one."""
    spec, metadata = rollout.spec, rollout.metadata
    return FirmwareRollout(
        metadata=ObjectMeta(name=name, namespace=metadata.namespace),
        spec=FirmwareRolloutSpec(
            recall=RolloutReference(name=metadata.name, uid=metadata.uid),
            template=spec.template,
            max_concurrent=spec.max_concurrent,
            max_per_minute=spec.max_per_minute,
            budgets=spec.budgets,
            windows=spec.windows,
            quarantine_after=spec.quarantine_after,
        ),
    )


def recall_names(rollout: FirmwareRollout) -> tuple[str, str]:
    """What the recall of a rollout is called, and what where another one's has that name."""
    name, digest = rollout.metadata.name, hashlib.sha256(rollout.metadata.uid.encode()).hexdigest()[:_HASH]
    suffix = f"{RECALL_SUFFIX}-{digest}"
    return (
        f"{name[: _MAX_NAME - len(RECALL_SUFFIX)].rstrip('.-')}{RECALL_SUFFIX}",
        f"{name[: _MAX_NAME - len(suffix)].rstrip('.-')}{suffix}",
    )


def _changes(device: Device, uid: str) -> list[FlashRecord]:
    """The records of the flashes by which the rollout changed the device, the earliest first."""
    found = [
        record
        for record in device.status.records
        if record.rollout == uid and uid and record.outcome == Outcome.SUCCEEDED
    ]
    return sorted(found, key=lambda record: record.time.timestamp() if record.time is not None else 0.0)


def _changed_since(device: Device, ours: FlashRecord, uid: str) -> str:
    """Who has changed the device after the rollout, in a sentence; empty where nobody has."""
    status = device.status
    for record in status.records:
        later = record.time is not None and ours.time is not None and record.time > ours.time
        if later and record.rollout != uid and record.outcome == Outcome.SUCCEEDED:
            return f"job {record.job.name} in namespace {record.job.namespace} has flashed it since"
    last = status.last_flash
    if last is not None and last.outcome == Outcome.SUCCEEDED and last.job.uid != ours.job.uid:
        later = last.time is None or ours.time is None or last.time > ours.time
        if later:
            return f"job {last.job.name} in namespace {last.job.namespace} has flashed it since"
    firmware = status.firmware
    if firmware is not None and firmware.digest and ours.digest and firmware.digest != ours.digest:
        return "it was proven to run another firmware since"
    if status.version and ours.version and status.version != ours.version:
        return f"it runs {status.version} by now, and not {ours.version}"
    return ""


def _target(firmware: Firmware) -> Target | Barred:
    """The firmware as a target: pinned to its digest, for its tag may stand for something else by now."""
    if not firmware.reference or not firmware.version:
        return Barred("nobody knows what it ran before", unknown=True)
    try:
        reference = parse_reference(firmware.reference)
    except BadReference:
        return Barred(f"what it ran before, {firmware.reference[:100]}, is no reference of an image", unknown=True)
    if is_digest(firmware.digest):
        reference = replace(reference, digest=firmware.digest)
    return Target(str(reference), firmware.version)
