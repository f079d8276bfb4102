"""What came before a rollout, to be brought to the same devices again. Pure.

`edgewright rollout undo` and the console ask it. A recall takes each device back to what it ran itself; this brings one
firmware to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from edgewright.api.firmwarerollout import REVISION_ANNOTATION, FirmwareFor, FirmwareRollout, FirmwareRolloutSpec
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.rollout.changes import refuse_recall


def previous(
    rollout: FirmwareRollout, jobs: Sequence[FlashJob], others: Sequence[FirmwareRollout]
) -> FirmwareRolloutSpec | None:
    """The spec of a rollout that brings what came before: an earlier revision, or an earlier rollout to the same.

    None where nothing is known of it; NotPossible where the rollout itself goes back.
    """
    refuse_recall(rollout, "undo")
    now = rollout.status.revision or 1
    earlier = {int(job.metadata.annotations.get(REVISION_ANNOTATION, "1")) for job in jobs}
    numbers = [number for number in earlier if number < now]
    if numbers:
        last = str(max(numbers))
        mine = [job for job in jobs if job.metadata.annotations.get(REVISION_ANNOTATION, "1") == last]
        return _as_brought(rollout.spec, mine)
    made = rollout.metadata.creation_timestamp
    before = [
        each
        for each in others
        if each.metadata.uid != rollout.metadata.uid
        and each.spec.selector == rollout.spec.selector
        and each.spec.recall is None
        and (each.spec.firmware or each.spec.firmwares)
        and each.metadata.creation_timestamp is not None
        and made is not None
        and each.metadata.creation_timestamp <= made
        and (each.spec.firmware, each.spec.version) != (rollout.spec.firmware, rollout.spec.version)
    ]
    if not before:
        return None
    latest = max(before, key=lambda each: (each.metadata.creation_timestamp or made, each.metadata.name))
    return _with_firmware(rollout.spec, latest.spec.firmware, latest.spec.version, latest.spec.firmwares)


def _as_brought(spec: FirmwareRolloutSpec, jobs: Sequence[FlashJob]) -> FirmwareRolloutSpec:
    """The spec with the firmware that these jobs brought: one for all, or one for each type of device."""
    brought = {(job.spec.device or "", job.spec.firmware, job.spec.version) for job in jobs}
    if len({each[1:] for each in brought}) == 1:
        _, firmware, version = next(iter(brought))
        return _with_firmware(spec, firmware, version, ())
    by_type = tuple(FirmwareFor(type=each[0], firmware=each[1], version=each[2]) for each in sorted(brought))
    return _with_firmware(spec, "", "", by_type)


def _with_firmware(
    spec: FirmwareRolloutSpec, firmware: str, version: str, firmwares: tuple[FirmwareFor, ...]
) -> FirmwareRolloutSpec:
    """The spec with this firmware, without what was asked of the rollout since it was made."""
    return msgspec.structs.replace(
        spec,
        firmware=firmware,
        version=version,
        firmwares=firmwares,
        paused=None,
        aborted=None,
        approvals=(),
        resume_request="",
        retry_request="",
    )


def undo_name(name: str) -> str:
    """What the rollout is called that brings back what came before another one."""
    return f"{name}-undo"
