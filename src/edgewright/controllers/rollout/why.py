"""Why a device is not updated, in one sentence, and what would change that.

`why_world` asks it, for the command line and the REST API. Pure: it looks at objects that somebody has read, in the
order in which they keep a device from being started, and names the first that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from edgewright.api.device import QUARANTINED, STALE, Device, FlashRecord
from edgewright.api.firmwarerollout import FirmwareRollout, RolloutPhase
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState, FlashedDevice, FlashJob
from edgewright.api.fleet import Fleet
from edgewright.runtime.objects import Condition
from edgewright.runtime.spans import ago


@dataclass(frozen=True, kw_only=True)
class World:
    """What is known around a device."""

    device: Device | None
    rollout: FirmwareRollout | None = None
    """The rollout that is asked about: of several, the latest that selects the device."""
    selected: bool = True
    """Whether that rollout selects the device."""
    reason: str = ""
    """Why that rollout leaves the device out, where it does, as its plan says."""
    batch: str = ""
    """The batch that the device is in, where that is known."""
    jobs: Sequence[FlashJob] = ()
    """The FlashJobs that name the device."""
    fleet: Fleet | None = None


_FIRST: Final = datetime.min.replace(tzinfo=UTC)


def why(name: str, world: World, now: datetime) -> str:
    """The sentence."""
    device, rollout = world.device, world.rollout
    if device is None:
        return f"There is no Device {name}: `edgewright devices list` shows those that there are."
    for answer in (
        _under_way(name, device, world, now),
        _done(name, device, world),
        _nobody_asked(name, world),
        _quarantined(name, device, rollout),
        _left_out(name, device, world),
        _frozen(name, world.fleet, now),
        _stopped(name, rollout),
        _failed(name, device, world),
        _waiting(name, device, world, now),
    ):
        if answer:
            return answer
    return f"{name} has not had its turn yet, and nothing is in its way: wait, or look with `edgewright devices show`."


def _place(world: World) -> str:
    """In which batch of which rollout the device is, where that is known."""
    if world.rollout is None or not world.batch:
        return ""
    return f" in batch {world.batch} of rollout {world.rollout.metadata.name}"


def _under_way(name: str, device: Device, world: World, now: datetime) -> str:
    claim = device.status.claim
    if claim is None or claim.not_before is not None or claim.waits:
        return ""
    return (
        f"{name} is being flashed{_place(world)} by FlashJob {claim.job.namespace}/{claim.job.name} "
        f"(attempt {claim.attempt}, for {ago(claim.since, now)}): wait for its end."
    )


def _record(device: Device, world: World) -> FlashRecord | None:
    """The latest outcome on the device of the rollout, or else of the jobs that name it."""
    if world.rollout is not None:
        mine = [each for each in device.status.records if each.rollout == world.rollout.metadata.uid]
    else:
        jobs = {each.metadata.uid for each in world.jobs}
        mine = [each for each in device.status.records if each.job.uid in jobs]
    timed = [each for each in mine if each.time is not None]
    return max(timed, key=lambda each: each.time or _FIRST) if timed else mine[-1] if mine else None


def _done(name: str, device: Device, world: World) -> str:
    record = _record(device, world)
    if record is not None and record.outcome in set(Outcome) and Outcome(record.outcome).good:
        version = record.version or record.image_version
        if device.status.version in {version, ""}:
            return f"{name} is updated: it runs {version}, by proof."
        return (
            f"{name} was updated to {version} and runs {device.status.version} now: somebody else changed it, or it "
            "fell back; `edgewright devices show` tells its history."
        )
    wanted = world.rollout.spec.version if world.rollout is not None else ""
    if record is None and wanted and world.selected and device.status.version == wanted and not world.reason:
        return f"{name} is updated: it says that it runs {wanted}."
    return ""


def _nobody_asked(name: str, world: World) -> str:
    if world.rollout is None and not world.jobs:
        return (
            f"{name} is in no rollout and in no FlashJob: `edgewright rollout create` or `edgewright flash {name}` "
            "would update it."
        )
    if world.rollout is not None and not world.selected:
        return (
            f"Rollout {world.rollout.metadata.name} does not select {name}"
            f"{f' ({world.reason})' if world.reason else ''}: change its selector, or the labels of the device."
        )
    return ""


def _left_out(name: str, device: Device, world: World) -> str:
    rollout = world.rollout
    namespaces = {each.metadata.namespace for each in (*world.jobs, *((rollout,) if rollout else ()))}
    allowed = device.spec.allowed_namespaces
    if allowed and not namespaces & set(allowed):
        return (
            f"{name} may be flashed from {_listed(allowed)} only, and not from {_listed(sorted(namespaces))}: its "
            "spec.allowedNamespaces would have to name that."
        )
    if rollout is not None and rollout.spec.firmwares:
        known = [each.type for each in rollout.spec.firmwares]
        if device.spec.type.lower() not in {each.lower() for each in known}:
            return (
                f"Rollout {rollout.metadata.name} has firmware for {_listed(known)} and {name} is "
                f"{device.spec.type or 'of no known type'}: add one to spec.firmwares."
            )
    return f"{name} is left out: {world.reason}." if world.reason else ""


def _frozen(name: str, fleet: Fleet | None, now: datetime) -> str:
    if fleet is None or not fleet.spec.frozen:
        return ""
    by = f" by {fleet.spec.by}" if fleet.spec.by else ""
    since = f" for {ago(fleet.spec.since, now)}" if fleet.spec.since else ""
    reason = f" ({fleet.spec.reason})" if fleet.spec.reason else ""
    return f"{name} waits because the fleet has been frozen{by}{since}{reason}: `edgewright unfreeze` ends that."


def _stopped(name: str, rollout: FirmwareRollout | None) -> str:
    if rollout is None:
        return ""
    mine, command = rollout.metadata.name, f"edgewright rollout {{}} {rollout.metadata.name}"
    told = f" ({rollout.status.message.rstrip('.')})" if rollout.status.message else ""
    if rollout.spec.aborted or rollout.status.phase in {RolloutPhase.ABORTED, RolloutPhase.RECALLED}:
        again = command.format("undo")
        return (
            f"{name} is not started any more because rollout {mine} was aborted{told}: create a new one, or `{again}`."
        )
    if rollout.spec.paused or rollout.status.phase == RolloutPhase.PAUSED:
        return f"{name} waits because rollout {mine} is paused{told}: `{command.format('resume')}` lets it go on."
    return ""


def _quarantined(name: str, device: Device, rollout: FirmwareRollout | None) -> str:
    """Quarantine keeps a device from rollouts only: who names it in a FlashJob means it."""
    found = _condition(device.status.conditions, QUARANTINED)
    if found is None or rollout is None:
        return ""
    last = device.status.last_flash
    how = f", the last time: {last.message.rstrip('.')}" if last is not None and last.message else ""
    return (
        f"{name} is in quarantine after {device.status.failures or 'several'} failed flashes in a row{how}: "
        f"`edgewright devices release {name}` ends that."
    )


def _failed(name: str, device: Device, world: World) -> str:
    record = _record(device, world)
    shown = _shown(world.jobs, device)
    if record is None and (shown is None or shown.state != DeviceState.FAILED):
        return ""
    outcome = record.outcome if record is not None else shown.outcome if shown is not None else ""
    message = (record.message if record is not None else shown.message if shown is not None else "").rstrip(".")
    attempts = record.attempts if record is not None else shown.attempts if shown is not None else 0
    tries = f" after {attempts} attempts" if attempts > 1 else ""
    if world.rollout is not None:
        again = f"`edgewright rollout retry {world.rollout.metadata.name}` tries it again"
    else:
        again = f"`edgewright flash {name}` tries it again"
    return f"{name} failed{_place(world)}{tries} ({outcome}): {message}; once that is put right, {again}."


def _waiting(name: str, device: Device, world: World, now: datetime) -> str:
    claim = device.status.claim
    if claim is not None and claim.not_before is not None:
        before = f" ({claim.last_message.rstrip('.')})" if claim.last_message else ""
        left = ago(now, claim.not_before) if claim.not_before > now else "0s"
        return f"{name} is tried again{_place(world)} in {left}, as attempt {claim.attempt}{before}: wait."
    stale = _condition(device.status.conditions, STALE)
    note = f"; it has not been seen for {ago(device.status.last_seen, now)}" if stale is not None else ""
    if claim is not None and claim.waits_for:
        return f"{name} waits{_place(world)}: {claim.waits_for.rstrip('.')}{note}."
    shown = _shown(world.jobs, device)
    if shown is not None and shown.message:
        return f"{name} waits{_place(world)}: {shown.message.rstrip('.')}{note}."
    return _not_open(name, world, note)


def _not_open(name: str, world: World, note: str) -> str:
    rollout = world.rollout
    if rollout is not None:
        where = f"its batch, {world.batch}," if world.batch else "its batch"
        next_step = rollout.status.message.rstrip(".") or "the operator has not said anything of it yet"
        return f"{name} waits because {where} of rollout {rollout.metadata.name} is not open: {next_step}{note}."
    for job in world.jobs:
        if job.spec.paused:
            return f"{name} waits because FlashJob {job.key} is paused: set its spec.paused to false."
        if job.status.message:
            return f"{name} waits in FlashJob {job.key}: {job.status.message.rstrip('.')}{note}."
    return ""


def _shown(jobs: Iterable[FlashJob], device: Device) -> FlashedDevice | None:
    for job in jobs:
        for each in job.status.devices:
            if each.device == device.metadata.name or each.uuid in {device.metadata.name, device.metadata.uid}:
                return each
    return None


def _condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((each for each in conditions if each.type == kind and each.status == "True"), None)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "nowhere"
