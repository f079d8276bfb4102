"""What came of a flash: read from a Pod that has ended, and written down on the Device.

`decisions` and `device_loop` use it. A report of ours is believed; where there is none, the Pod's own end says what is
known. Whatever is uncertain counts against the flash, never for it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from edgewright.api.device import (
    MAX_RECORDS,
    QUARANTINED,
    Claim,
    Device,
    DeviceStatus,
    Discovered,
    Firmware,
    FlashRecord,
    JobReference,
    LastFlash,
    Mark,
)
from edgewright.api.firmwarerollout import ROLLOUT_UID_LABEL
from edgewright.api.flash_pod import (
    FLASH_CONTAINER,
    INSPECT_CONTAINER,
    LOG_LINES,
    VERIFY_CONTAINER,
    Outcome,
    Report,
    Role,
    Variable,
    decode_report,
)
from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import ContainerTerminated, Pod
from edgewright.controllers.settings import Timing
from edgewright.runtime.conditions import TRUE, condition, remove, set_condition
from edgewright.runtime.objects import Resource
from edgewright.runtime.text import cut

FORGET_AFTER: Final = timedelta(minutes=10)
"""A record whose job is not in the cache is kept for so long: the cache may be behind, and the job new."""

_TEXT: Final = 256
_MESSAGE: Final = 2048
_REFERENCE: Final = 1024
_LINE: Final = 1024

Living = Callable[[FlashRecord], bool]
"""Whether an outcome is still needed."""


# --- reading a Pod --------------------------------------------------------------------------------------------------


def attempt_of(obj: Resource) -> int:
    """Which attempt a Pod is, by its mark; 0 where it says none."""
    text = obj.metadata.annotations.get(Mark.ATTEMPT, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def claim_of(pod: Pod) -> Claim:
    """The claim for which a Pod of ours was made, from its marks."""
    metadata = pod.metadata
    owner = pod.controller.name if pod.controller else ""
    return Claim(
        job=JobReference(namespace=metadata.namespace, name=owner, uid=metadata.labels.get(Mark.JOB_UID, "")),
        uuid=pod.variable(Variable.UUID),
        state=metadata.annotations.get(Mark.STATE, ""),
        attempt=max(1, attempt_of(pod)),
        since=metadata.creation_timestamp,
        rollout=metadata.labels.get(ROLLOUT_UID_LABEL, ""),
        check=pod.variable(Variable.ROLE) == Role.CHECK or pod.variable(Variable.CHECK) == "true",
    )


def report_of(pod: Pod, *, lost: str = "") -> Report:
    """What came of a Pod that has ended, or that is given up because of what `lost` says."""
    told = _told(pod)
    if told is not None:
        return told
    given_up = pod.metadata.annotations.get(Mark.GIVEN_UP, "")
    if given_up or not pod.began:
        return _never_started(pod, given_up, lost)
    if lost:
        return Report(outcome=Outcome.TIMED_OUT, message=lost, written=True)
    if pod.status.reason == "DeadlineExceeded":
        return Report(outcome=Outcome.TIMED_OUT, message="the flash Pod ran until its deadline", written=True)
    return Report(outcome=Outcome.FAILED, message=f"the flash Pod ended without a report: {_end(pod)}", written=True)


def _told(pod: Pod) -> Report | None:
    """The report in the termination message of whichever container of ours decides."""
    if not any(container.name == VERIFY_CONTAINER for container in pod.spec.containers):
        return _report_in(pod.terminated(FLASH_CONTAINER))
    inspected = pod.terminated(INSPECT_CONTAINER)
    if inspected is not None and inspected.exit_code != 0:
        return _report_in(inspected)
    report = _report_in(pod.terminated(VERIFY_CONTAINER))
    foreign = pod.terminated(FLASH_CONTAINER)
    if report is None:
        return None
    # What was given up is forgotten by its node in the end; what still waits when all is over never ran.
    absent = pod.metadata.annotations.get(Mark.GIVEN_UP, "") or ("" if foreign else pod.why_waiting())
    if absent and (foreign is None or foreign.started_at is None):
        told = f"{report.message} (the flasher itself never started: {absent})".strip()
        return msgspec.structs.replace(report, message=told, written=False)
    if foreign is None:
        return report
    told = f"{report.message} (the flasher itself ended with {_exit(foreign)})".strip()
    # Whatever the flasher of others did, it may have changed the device.
    return msgspec.structs.replace(report, message=told, written=True)


def without_flasher(pod: Pod) -> bool:
    """Whether the flasher of others could not be started, and what waits next to it for its work has ended."""
    waits = any(each.name == FLASH_CONTAINER and each.state.waiting for each in pod.status.container_statuses)
    return waits and pod.terminated(VERIFY_CONTAINER) is not None


def flasher_failed(pod: Pod) -> datetime | None:
    """When the flasher of others ended with an error while ours next to it still waits for the device; else None."""
    if not any(container.name == VERIFY_CONTAINER for container in pod.spec.containers):
        return None
    foreign = pod.terminated(FLASH_CONTAINER)
    if foreign is None or not (foreign.exit_code or foreign.signal) or pod.terminated(VERIFY_CONTAINER) is not None:
        return None
    return foreign.finished_at


def _report_in(ended: ContainerTerminated | None) -> Report | None:
    report = decode_report(ended.message) if ended is not None else None
    if report is not None and report.outcome is Outcome.NOT_FOUND:
        return msgspec.structs.replace(report, outcome=Outcome.FAILED)  # not for a flasher to say
    return report


def _never_started(pod: Pod, given_up: str, lost: str) -> Report:
    why = given_up or lost or pod.why_waiting() or _described(pod.status.reason, pod.status.message)
    # A node that took it on and never told of any container may have run it all the same.
    silent = bool(pod.spec.node_name) and not pod.status.container_statuses
    # One that was given up may have started at the last moment: what never ran has no time at which it did.
    ran = pod.ran
    if pod.deleting and not why:
        return Report(outcome=Outcome.CANCELLED, message="the flash Pod was deleted before it started", written=silent)
    message = f"the flash Pod never started: {why or 'nobody said why'}"
    return Report(outcome=Outcome.FAILED, message=message, written=silent or ran or bool(lost))


def _end(pod: Pod) -> str:
    ended = pod.terminated(VERIFY_CONTAINER) or pod.terminated(FLASH_CONTAINER) or pod.terminated(INSPECT_CONTAINER)
    parts = (_described(pod.status.reason, pod.status.message), _exit(ended) if ended is not None else "")
    return ", ".join(filter(None, parts)) or "its node said nothing more"


def _exit(ended: ContainerTerminated) -> str:
    text = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
    return f"{text} ({ended.reason})" if ended.reason not in {"", "Error", "Completed"} else text


def _described(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message


# --- what follows ---------------------------------------------------------------------------------------------------


def next_attempt(job: FlashJob, claim: Claim, report: Report, *, now: datetime, timing: Timing) -> Claim | None:
    """The claim for another attempt after this outcome, or None where the outcome is final.

    For a job that still wants the device: then somebody else called a cancelled Pod off (a drained node, say), and it
    is worth another try.
    """
    worth = report.outcome.worth_another_try or report.outcome is Outcome.CANCELLED
    if not worth or claim.attempt >= job.spec.attempts:
        return None
    if claim.since is not None and now - claim.since >= timedelta(seconds=timing.longest_claim):
        return None
    return msgspec.structs.replace(
        claim,
        attempt=claim.attempt + 1,
        not_before=now + _pause(claim.attempt, timing),
        last_message=cut(f"{report.outcome}: {report.message}", _MESSAGE),
        waits=0,
        waits_for="",
        check=claim.check or _may_have_it(job, report),
    )


def _may_have_it(job: FlashJob, report: Report) -> bool:
    """Whether the device may run what the job wants by this attempt although nobody saw it.

    A flasher that was killed has told what it began. Only where the device ran another version before: else its answer
    would prove nothing.
    """
    before = report.version_before.strip()
    return report.written and bool(before) and before not in {job.spec.version, report.image_version}


def set_aside(claim: Claim, *, now: datetime, timing: Timing, why: str = "") -> Claim:
    """The claim once it cannot go on for now: the same attempt, which waits without a place.

    `why` is empty where its Service has had no address for too long.
    """
    waits = claim.waits + 1
    not_before = now + _pause(waits, timing)
    return msgspec.structs.replace(claim, waits=waits, waits_for=cut(why, _MESSAGE), not_before=not_before)


def _pause(times: int, timing: Timing) -> timedelta:
    """How long to wait after something went wrong for the n-th time."""
    # The exponent has a bound of its own: a float overflows where a job allows a thousand retries.
    return timedelta(seconds=min(timing.longest_backoff, timing.first_backoff * 2.0 ** min(times - 1, 32)))


def retried(device: Device, claim: Claim, report: Report, *, firmware: str, now: datetime) -> DeviceStatus:
    """The Device's status once an attempt has failed and `claim` is there for the next one.

    What came of the attempt is written down too: the next one may never be made, and this one may have written.
    """
    last = _last_flash(claim, report, firmware=firmware, now=now)
    return msgspec.structs.replace(_learnt(device.status, report, last.observed), claim=claim, last_flash=last)


def record(
    device: Device,
    claim: Claim,
    report: Report,
    *,
    firmware: str,
    forced: bool,
    now: datetime,
    living: Living,
    made: datetime | None = None,
    quarantine_after: int = 0,
) -> DeviceStatus:
    """The Device's status with the final outcome of a claim; the claim, where the Device has it, is free.

    `firmware` is the reference that was flashed, `forced` whether the flasher was told to flash what was current,
    `made` when the Pod was; so many failures in a row put the Device into quarantine.
    """
    last = _last_flash(claim, report, firmware=firmware, now=now)
    status = _learnt(device.status, report, last.observed)
    new = FlashRecord(
        job=claim.job,
        uuid=claim.uuid,
        state=claim.state,
        outcome=report.outcome,
        message=last.message,
        digest=last.digest,
        version=last.version_after,
        image_version=cut(report.image_version, _TEXT),
        attempts=claim.attempt,
        forced=forced,
        time=now,
        observed=last.observed,
        started=claim.since,
        last_started=made or claim.last_started,
        rollout=claim.rollout,
        before=_before(device.status, status, claim, report),
    )
    status = msgspec.structs.replace(status, last_flash=last, records=_records(status.records, new, now, living))
    if report.outcome.good:
        proven = Firmware(reference=last.firmware, digest=last.digest, version=last.version_after)
        before = status.firmware
        same = before is not None and before.digest == proven.digest
        previous = status.previous_firmware if same or before is None else before
        status = msgspec.structs.replace(status, firmware=proven, previous_firmware=previous)
    status = _counted(status, device.metadata.generation, report, quarantine_after, now)
    if status.claim is not None and _same(status.claim, claim):
        status = msgspec.structs.replace(status, claim=None)
    return status


def _before(known: DeviceStatus, learnt: DeviceStatus, claim: Claim, report: Report) -> Firmware | None:
    """What the device was proven to run before, where a flash for this claim changed it or may have."""
    before = claim.before or known.firmware
    if before is None or report.outcome is Outcome.ALREADY_CURRENT:
        return None
    changed = report.digest != before.digest if report.outcome.good else learnt.firmware is None
    return before if changed else None


def _counted(
    status: DeviceStatus, generation: int, report: Report, quarantine_after: int, now: datetime
) -> DeviceStatus:
    """The status with another failure counted, or none any more; what was called off is neither."""
    if report.outcome.good:
        conditions = remove(status.conditions, QUARANTINED)
        return msgspec.structs.replace(status, failures=0, conditions=conditions)
    if report.outcome is Outcome.CANCELLED:
        return status
    failures, conditions = status.failures + 1, status.conditions
    if 0 < quarantine_after <= failures:
        message = f"{failures} flashes in a row have failed: rollouts leave it alone until somebody releases it"
        said = condition(QUARANTINED, TRUE, "FlashesFailed", message, generation=generation)
        conditions = set_condition(conditions, said, now=now)
    return msgspec.structs.replace(status, failures=failures, conditions=conditions)


def _last_flash(claim: Claim, report: Report, *, firmware: str, now: datetime) -> LastFlash:
    """What came of an attempt."""
    version = report.version_after or (report.version_before if report.outcome is Outcome.ALREADY_CURRENT else "")
    return LastFlash(
        job=claim.job,
        outcome=report.outcome,
        message=cut(report.message, _MESSAGE),
        firmware=cut(firmware, _REFERENCE),
        digest=cut(report.digest, _TEXT),
        version_before=cut(report.version_before, _TEXT),
        version_after=cut(version, _TEXT),
        time=now,
        observed=_observed(claim, report, now),
        log=() if report.outcome.good else tuple(cut(line, _LINE) for line in report.log[-LOG_LINES:]),
    )


def _observed(claim: Claim, report: Report, now: datetime) -> datetime | None:
    """When the flasher read what it reports; None where it does not say, or where its clock cannot be right."""
    told = report.observed
    if told is None or told.tzinfo is None or told > now:
        return None
    return None if claim.since is not None and told < claim.since else told


def recorded(status: DeviceStatus, claim: Claim) -> bool:
    """Whether the outcome of this claim stands on the Device already."""
    found = status.record_of(claim.job.uid)
    return found is not None and found.state == claim.state and found.attempts >= claim.attempt


def _learnt(status: DeviceStatus, report: Report, observed: datetime | None) -> DeviceStatus:
    """What a report tells of the device, whatever came of the flash.

    Between what the flasher `observed` and now the device may have fallen back: what discovery has told of it since
    then is the later word, although it came first.
    """
    changes: dict[str, object] = {}
    found = status.discovered
    later = found if found and found.time and observed and found.time > observed else Discovered()
    for field, value in (
        ("version", later.version or report.version_after or report.version_before),
        ("application", later.application or report.application),
        ("certificate", report.certificate),
    ):
        if value:
            changes[field] = cut(value, _TEXT)
    uncertain = report.written and report.outcome is not Outcome.REVERTED
    another = bool(report.certificate and status.certificate) and report.certificate != status.certificate
    if (uncertain or another) and not report.outcome.good and status.firmware is not None:
        # Something was sent and nothing was proven: it may run either, so it is known to run neither. And what was
        # proven of one board is not known of the next, by whose certificate the Device goes from now on.
        changes.update(firmware=None, previous_firmware=status.firmware)
    return msgspec.structs.replace(status, **changes)


def _records(
    records: tuple[FlashRecord, ...], new: FlashRecord, now: datetime, living: Living
) -> tuple[FlashRecord, ...]:
    """The records with the new one; those of jobs that are gone go."""
    others = [each for each in records if each.job.uid != new.job.uid]
    kept = [each for each in others if living(each) or (each.time is not None and now - each.time < FORGET_AFTER)]
    if len(kept) >= MAX_RECORDS:
        kept = [each for each in kept if living(each)]
    return (*kept[-(MAX_RECORDS - 1) :], new)


def _same(one: Claim, other: Claim) -> bool:
    return (one.job.uid, one.state, one.attempt) == (other.job.uid, other.state, other.attempt)
