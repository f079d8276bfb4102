"""What a FlashJob's status says, made from the survey of its devices.

The loop over FlashJobs writes it, at most once a second. Whatever is in a status can be made again from the Devices;
only when a generation was first seen is taken over from the status before. Pure.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final
from urllib.parse import urlsplit

from edgewright.api.device import Device, FlashRecord
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import (
    ACCEPTED,
    MAX_DEVICE_NAME,
    MAX_ENDPOINT,
    MAX_SHOWN,
    DeviceState,
    FlashCounts,
    FlashedDevice,
    FlashJob,
    FlashJobPhase,
    FlashJobStatus,
)
from edgewright.controllers.flashjob.progress import DeviceStanding, Need
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.runtime import conditions as conditions_of
from edgewright.runtime.conditions import condition, done, progressing, remove, retrying, set_condition, stuck
from edgewright.runtime.objects import Condition
from edgewright.runtime.text import cut

ALL_WELL: Final = "All flashing pods completed successfully"
"""The message of a completed job, as published."""

_MAX_BYTES: Final = 1_000_000
"""The stored object stays below this; 1 MiB is what it may never reach."""
_FIXED_BYTES: Final = 40_000
"""For everything in the object but its devices: conditions, managedFields and the rest."""
_ENTRY_BYTES: Final = 220
"""The field names and numbers of one entry of status.devices."""
_MAX_MESSAGE: Final = 512
_NAMED: Final = 3


@dataclass(frozen=True, kw_only=True)
class Hold:
    """What keeps the whole job from going on."""

    reason: Reason
    message: str
    refused: bool = False
    """Whether the spec itself is wrong: nothing happens until somebody changes it."""
    accepted: bool = True
    """Whether the condition Accepted stays true."""


def status_of(
    job: FlashJob,
    standings: Sequence[DeviceStanding],
    *,
    observed: datetime,
    now: datetime,
    hold: Hold | None = None,
    waiting: Mapping[str, str] | None = None,
    attestation: str = "",
) -> FlashJobStatus:
    """The status that the job must have; equal to the one that it has where nothing has changed.

    `waiting` says why devices wait, by the names of their Devices, where admission knows more than the survey.
    `attestation` is the URL of the service that devices are attested by, where the operator names one.
    """
    before = job.status
    tally = Counter(standing.state for standing in standings)
    counts = FlashCounts(
        total=len(standings),
        done=tally[DeviceState.DONE],
        failed=tally[DeviceState.FAILED],
        flashing=tally[DeviceState.FLASHING],
        waiting=tally[DeviceState.WAITING],
    )
    phase, message, overall = _phase(standings, counts, hold, observed)
    records = [standing.record for standing in standings if standing.record is not None]
    digest = first_digest(records)
    finished = phase is not FlashJobPhase.IN_PROGRESS and not (hold is not None and hold.refused)
    shown = _shown(job, standings, waiting or {}, observed)
    return FlashJobStatus(
        phase=phase,
        message=message,
        host_endpoint=_host_endpoint(job, standings),
        completed_uuids=tuple(standing.uuid for standing in standings if standing.state is DeviceState.DONE),
        observed_generation=job.metadata.generation,
        observed_time=observed,
        start_time=before.start_time or _earliest(standings),
        completion_time=_completion_time(before, standings, now) if finished else None,
        counts=counts,
        progress=f"{counts.done}/{counts.total}",
        digest=digest,
        devices=shown,
        devices_omitted=len(standings) - len(shown),
        conditions=_conditions(
            job, standings, records, digest, hold=hold, overall=overall, now=now, attestation=attestation
        ),
    )


def first_digest(records: Iterable[FlashRecord]) -> str:
    """The digest that the firmware stood for when the first device ended; empty while none has told one."""
    told = [record for record in records if record.digest and record.time is not None]
    return min(told, key=lambda record: (record.time, record.digest)).digest if told else ""


def superseded(standing: DeviceStanding) -> bool:
    """Whether another job has flashed the device since this one was done with it."""
    record, device = standing.record, standing.device
    if record is None or device is None:
        return False
    last = device.status.last_flash
    if last is not None and last.job.uid != record.job.uid and last.outcome == Outcome.SUCCEEDED:
        return last.time is None or record.time is None or last.time >= record.time
    firmware = device.status.firmware
    return (
        standing.state is DeviceState.DONE
        and firmware is not None
        and bool(firmware.digest and record.digest)
        and firmware.digest != record.digest
    )


def drifted(standing: DeviceStanding) -> bool:
    """Whether the device runs another version than the job left it with, and no job of ours brought that about."""
    record, device = standing.record, standing.device
    if record is None or device is None or standing.state is not DeviceState.DONE or not record.version:
        return False
    status = device.status
    news = bool(status.version) and status.version != record.version and record.precedes(status.last_seen)
    return news and not superseded(standing)


def _phase(
    standings: Sequence[DeviceStanding], counts: FlashCounts, hold: Hold | None, observed: datetime
) -> tuple[FlashJobPhase, str, conditions_of.Outcome]:
    """The published phase and message, and what Ready, Reconciling and Stalled say."""
    if hold is not None and hold.refused:
        return FlashJobPhase.FAILED, hold.message, stuck(hold.reason, hold.message)
    if counts.total and counts.done == counts.total:
        return FlashJobPhase.COMPLETED, ALL_WELL, done(Reason.COMPLETED, ALL_WELL)
    if counts.total and not counts.waiting and not counts.flashing:
        message = _failures(standings, counts, observed)
        return FlashJobPhase.FAILED, message, stuck(Reason.DEVICES_FAILED, message)
    if hold is not None:
        make = progressing if hold.accepted else retrying
        return FlashJobPhase.IN_PROGRESS, hold.message, make(hold.reason, hold.message)
    message = _in_progress(counts)
    in_vain = _in_vain(standings)
    if in_vain is not None:
        reason, why = in_vain
        message = f"{message}: {why}; it is tried again and again"
        return FlashJobPhase.IN_PROGRESS, message, retrying(reason, message)
    return FlashJobPhase.IN_PROGRESS, message, progressing(Reason.FLASHING, message)


def _in_vain(standings: Iterable[DeviceStanding]) -> tuple[Reason, str] | None:
    """Why nothing that is under way gets on, as a reason and in words, where some of it has waited in vain before."""
    waited, refused = False, ""
    for standing in standings:
        claim = standing.claim
        if standing.state is DeviceState.FLASHING:
            return None
        if claim is None:
            continue
        if not standing.addressless and not claim.waits_for:
            return None
        waited = waited or claim.waits > 0
        refused = refused or claim.waits_for
    if refused:
        return Reason.NOT_MADE, refused
    if waited:
        return Reason.NO_ADDRESS, "their Services get no address: is there a load balancer, and has it a free address"
    return None


def _in_progress(counts: FlashCounts) -> str:
    parts = [f"{counts.done} of {counts.total} devices done"]
    parts += [
        f"{number} {what}"
        for number, what in (
            (counts.flashing, "being flashed"),
            (counts.waiting, "waiting"),
            (counts.failed, "failed"),
        )
        if number
    ]
    return ", ".join(parts)


def _failures(standings: Sequence[DeviceStanding], counts: FlashCounts, observed: datetime) -> str:
    failed = [standing for standing in standings if standing.state is DeviceState.FAILED]
    told = "; ".join(f"{each.uuid}: {each.outcome}: {each.message}" for each in failed[:_NAMED])
    more = f"; and {counts.failed - _NAMED} more" if counts.failed > _NAMED else ""
    advice = next(filter(None, (_advice(each, observed) for each in failed)), "")
    # What to do stands at the end, where it must not be cut off.
    text = cut(f"{counts.failed} of {counts.total} devices failed: {told}{more}", 4096 - len(advice) - 2)
    return f"{text}; {advice}" if advice else text


def _advice(standing: DeviceStanding, observed: datetime) -> str:
    """What to do about an outcome that is final, where the spec was changed after it; `observed` is when it was."""
    record = standing.record
    if record is None or standing.state is not DeviceState.FAILED or record.time is None or record.time >= observed:
        return ""
    if record.forced:
        return "this stays final, with the changed spec too, for spec.force has been used: make another FlashJob"
    return (
        "this is final for the same firmware, version and device: set spec.force: true to try again with the changed"
        " spec, which flashes all devices of the job once more, or make another FlashJob"
    )


def _host_endpoint(job: FlashJob, standings: Sequence[DeviceStanding]) -> str:
    """The address of the device; of several, of the one that was started or ended last."""
    if len(standings) == 1:
        return _endpoint(job, standings[0])
    latest = max((each for each in standings if each.time is not None), key=_when, default=None)
    return _endpoint(job, latest) if latest is not None else ""


def _endpoint(job: FlashJob, standing: DeviceStanding) -> str:
    found = standing.device.spec.endpoint if standing.device is not None else ""
    return cut(job.spec.host_endpoint or found, MAX_ENDPOINT)


def _earliest(standings: Iterable[DeviceStanding]) -> datetime | None:
    times = (standing.time for standing in standings if standing.claim is not None or standing.record is not None)
    return min((time.replace(microsecond=0) for time in times if time is not None), default=None)


def _completion_time(before: FlashJobStatus, standings: Iterable[DeviceStanding], now: datetime) -> datetime:
    """When the last device ended or was given up; where that has no time (a bad address), when it was first said."""
    latest = max((standing.time for standing in standings if standing.time is not None), default=None)
    return (latest or before.completion_time or now).replace(microsecond=0)


def _shown(
    job: FlashJob, standings: Sequence[DeviceStanding], waiting: Mapping[str, str], observed: datetime
) -> tuple[FlashedDevice, ...]:
    """The devices one by one, as many as there is room for: under way, failed, waiting, then the latest."""
    groups: dict[DeviceState, list[DeviceStanding]] = {state: [] for state in DeviceState}
    for standing in standings:
        groups[standing.state].append(standing)
    if len(standings) > MAX_SHOWN:  # where all are shown, the order of the spec reads better than that of time
        groups[DeviceState.DONE].sort(key=_when, reverse=True)
    order = chain(*(groups[state] for state in (DeviceState.FLASHING, DeviceState.FAILED, DeviceState.WAITING)))
    room = _MAX_BYTES - _FIXED_BYTES - 2 * sum(len(each.uuid) + 3 for each in standings)
    room -= sum(map(len, job.metadata.annotations.values())) * 11 // 10  # an applied spec stands there quoted
    shown: list[FlashedDevice] = []
    for standing in chain(order, groups[DeviceState.DONE]):
        entry = _entry(job, standing, waiting, observed)
        texts = (entry.uuid, entry.device, entry.version, entry.host_endpoint)
        room -= _ENTRY_BYTES + len(entry.message.encode()) + sum(map(len, texts))
        if len(shown) == MAX_SHOWN or room < 0:
            break
        shown.append(entry)
    return tuple(shown)


def _when(standing: DeviceStanding) -> float:
    return standing.time.timestamp() if standing.time is not None else 0.0


def _entry(job: FlashJob, standing: DeviceStanding, waiting: Mapping[str, str], observed: datetime) -> FlashedDevice:
    record, claim, device = standing.record, standing.claim, standing.device
    message = standing.message
    known = standing.due is not None or standing.addressless or (claim is not None and bool(claim.waits_for))
    if device is not None and standing.need is not Need.NOTHING and not known:
        message = waiting.get(device.metadata.name, message)
    advice = _advice(standing, observed)
    if advice:
        message = f"{cut(message, _MAX_MESSAGE - len(advice) - 2)}; {advice}"
    return FlashedDevice(
        # The original's schema took longer ones: then the job is refused, and that must be told.
        uuid=cut(standing.uuid, MAX_DEVICE_NAME),
        device=device.metadata.name if device is not None else "",
        state=standing.state,
        outcome=standing.outcome,
        message=cut(message, _MAX_MESSAGE),
        version=record.version if record is not None else "",
        attempts=record.attempts if record is not None else claim.attempt if claim is not None else 0,
        host_endpoint=_endpoint(job, standing),
        address=standing.address,
        drifted=drifted(standing),
        superseded=superseded(standing),
        time=standing.time,
    )


def _conditions(
    job: FlashJob,
    standings: Sequence[DeviceStanding],
    records: Sequence[FlashRecord],
    digest: str,
    *,
    hold: Hold | None,
    overall: conditions_of.Outcome,
    now: datetime,
    attestation: str,
) -> tuple[Condition, ...]:
    conditions = job.status.conditions
    generation = job.metadata.generation
    if hold is not None and not hold.accepted:
        said = condition(ACCEPTED, "False", hold.reason, hold.message, generation=generation)
    else:
        said = condition(ACCEPTED, "True", Reason.ACCEPTED, "", generation=generation)
    conditions = set_condition(conditions, said, now=now)
    for reason, message in (
        (Reason.TAG_MOVED, _tag_moved(job, records, digest)),
        (Reason.VERSION_DIFFERS, _version_differs(job, records)),
        (Reason.APPLICATION_DIFFERS, _application_differs(job, standings)),
        (Reason.ATTESTATION_UNPROTECTED, _unprotected(attestation)),
    ):
        if message:  # each of these is a condition of its own, which has its reason for a type
            said = condition(reason, "True", reason, message, generation=generation)
            conditions = set_condition(conditions, said, now=now)
        else:
            conditions = remove(conditions, reason)
    return conditions_of.with_outcome(conditions, overall, generation=generation, now=now)


def _unprotected(attestation: str) -> str:
    """What to say of a service that anybody on the way can answer for; nothing of one that no network lies before."""
    try:
        origin = urlsplit(attestation)
        host = origin.hostname or ""
    except ValueError:
        return ""
    if origin.scheme != "http" or host == "localhost" or _is_loopback(host):
        return ""
    return (
        f"{attestation} is asked over plain HTTP, which anybody on the way can answer: name it by https (--attestation)"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tag_moved(job: FlashJob, records: Iterable[FlashRecord], digest: str) -> str:
    others = sorted({record.digest for record in records if record.digest and record.digest != digest})
    if not others:
        return ""
    return f"{job.spec.firmware} stood for {digest} when the first device ended, and for {', '.join(others[:_NAMED])}"


def _version_differs(job: FlashJob, records: Iterable[FlashRecord]) -> str:
    others = sorted({each.image_version for each in records if each.image_version} - {job.spec.version})
    if not others:
        return ""
    return f"the firmware carries version {', '.join(others[:_NAMED])}, spec.version is {job.spec.version}"


def _application_differs(job: FlashJob, standings: Iterable[DeviceStanding]) -> str:
    wanted = job.spec.application_type
    if not wanted:
        return ""
    others = [
        standing
        for standing in standings
        if standing.state is DeviceState.DONE
        and standing.device is not None
        and (told := _application(standing.device, job)) is not None
        and told.casefold() != wanted.casefold()
    ]
    if not others:
        return ""
    first = others[0]
    application = first.device.status.application if first.device is not None else ""
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"spec.applicationType is {wanted}; {first.uuid} reports {application}{more}"


def _application(device: Device, job: FlashJob) -> str | None:
    """What the device told after this job's flash; None where another job came after it, or it told nothing."""
    last = device.status.last_flash
    if last is None or last.job.uid != job.metadata.uid:
        return None
    return device.status.application or None
