"""What is to be done next for one device: from what is known of it to a list of actions.

`device_loop` asks it in every pass and carries the actions out in their order. Each may be cut off by a crash before or
after: what is left then is a situation as any other. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, TypeAlias

from edgewright.api.device import Claim, Device, Mark
from edgewright.api.flash_pod import Outcome, Report
from edgewright.api.flashjob import Exposure, FlashJob
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.manifests import exposure_of, made_for, service_key
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.flashjob.outcomes import (
    attempt_of,
    claim_of,
    flasher_failed,
    next_attempt,
    recorded,
    report_of,
    set_aside,
    without_flasher,
)
from edgewright.controllers.settings import Settings
from edgewright.runtime.objects import Resource

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_NO_DEADLINE: Final = 86_400
"""For a Pod whose active deadline somebody took away, in seconds."""


class NodeState(Enum):
    """What is known of a Pod's node."""

    THERE = "there"
    GONE = "gone"
    """It is no more, or its administrator says that it is out of service: nothing runs on it."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that counts for one device at one moment."""

    device: Device
    job: FlashJob | None = None
    """The claim's job; None where there is no claim, or where the job is gone."""
    named: bool = True
    """Whether the job still names the claim's uuid."""
    accepted: bool = True
    """Whether the job's spec, as it is now, and the address of the device can be acted on."""
    held: bool = False
    """Whether nothing may be started now: another operator works on the same devices, the fleet is frozen, or the job's
    rollout stopped."""
    until: datetime | None = None
    """When the window closes in which the device may be started."""
    pod: Pod | None = None
    """What has the name of the claim's Pod, whoever made it."""
    service: Service | None = None
    """What has the name of the claim's Service, whoever made it."""
    pods: tuple[Pod, ...] = ()
    """All Pods that are marked for this device."""
    services: tuple[Service, ...] = ()
    """All Services that are marked for this device."""
    strangers: frozenset[str] = frozenset()
    """The uids of marked Pods whose namespace does not have the job that they name: nothing that they say counts."""
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    """What is known of the nodes about which AskNode asked, by their names."""
    now: datetime
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class CreateService:
    """Make the Service at which the device finds its Pod."""


@dataclass(frozen=True)
class CreatePod:
    """Make the Pod that flashes the device; the device finds it at `address`, where it has to."""

    address: str = ""


@dataclass(frozen=True)
class NoAddress:
    """Give the place of a claim to others, because its Service has had no address for as long as an attempt may take.

    `claim` is what is written down in its stead: the same attempt, to be gone on with later.
    """

    service: Service
    claim: Claim


@dataclass(frozen=True)
class Release:
    """Free the claim without a record: nothing has been done for it, and nobody wants it any more."""


@dataclass(frozen=True)
class Record:
    """Write the final outcome down, which frees the claim."""

    claim: Claim
    report: Report
    pod: Pod | None = None


@dataclass(frozen=True)
class Retry:
    """Write the claim of the next attempt down, in the place of the one that failed."""

    claim: Claim
    report: Report
    pod: Pod | None = None


@dataclass(frozen=True)
class Adopt:
    """Write a claim down again that a running Pod tells of and the Device has lost."""

    claim: Claim


@dataclass(frozen=True)
class GiveUp:
    """Mark a Pod with why it never started; its end follows."""

    pod: Pod
    why: str


@dataclass(frozen=True)
class EndPod:
    """Ask a Pod to stop, with the grace that it was promised."""

    pod: Pod


@dataclass(frozen=True)
class RemovePod:
    """Delete a Pod whose outcome is known and let it go; at once, where its node will never say that it has ended."""

    pod: Pod
    at_once: bool = False


@dataclass(frozen=True)
class RemoveService:
    """Delete a Service."""

    service: Service


@dataclass(frozen=True)
class AskNode:
    """Find out about the node of a Pod that should have ended, and decide again."""

    pod: Pod


Action: TypeAlias = (
    CreateService
    | CreatePod
    | NoAddress
    | Release
    | Record
    | Retry
    | Adopt
    | GiveUp
    | EndPod
    | RemovePod
    | RemoveService
    | AskNode
)


@dataclass(frozen=True)
class Decision:
    """What is to be done now, in this order, and when to look again if nothing happens until then."""

    actions: tuple[Action, ...] = ()
    after: float | None = None


@dataclass(frozen=True)
class Life:
    """How a Pod stands: over, with what came of it; or going on until it is to be looked at again."""

    report: Report | None = None
    lost: bool = False
    """Over as far as we can know, though its node has not said so."""
    ask: bool = False
    """Whether it should be over, and its node is to be looked at."""
    until: datetime | None = None
    """When to look at it again."""


def decide(situation: Situation) -> Decision:
    """What is to be done for a device: for its claim, and about whatever else is there for it."""
    device, claim = situation.device, situation.device.status.claim
    at_name = situation.pod
    mine = at_name if claim is not None and at_name is not None and _is_of(at_name, device, claim) else None
    lives = {pod.metadata.uid: life_of(pod, situation) for pod in situation.pods}
    others = [pod for pod in situation.pods if mine is None or pod.metadata.uid != mine.metadata.uid]
    actions: list[Action] = []
    for pod in others:
        actions += _leftover(pod, lives[pod.metadata.uid], situation, flashing=mine is not None)
    if claim is not None and mine is not None:
        lives[mine.metadata.uid] = life = life_of(mine, situation)
        actions += _under_way(claim, mine, life, situation)
    elif claim is not None:
        busy = any(lives[pod.metadata.uid].report is None for pod in others)
        actions += _not_started(claim, situation, busy=busy)
    actions += _needless_services(situation, actions, lives)
    afters = [_soonest(lives, situation.now)]
    if claim is not None and mine is None:
        afters += _waits(claim, situation)
    return Decision(tuple(actions), min((after for after in afters if after is not None), default=None))


def decide_orphans(situation: Situation) -> Decision:
    """What is to be done about Pods and Services of a Device that is no more: they are ended and go."""
    lives = {pod.metadata.uid: life_of(pod, situation) for pod in situation.pods}
    actions: list[Action] = []
    for pod in situation.pods:
        life = lives[pod.metadata.uid]
        if life.report is not None:
            actions.append(RemovePod(pod, at_once=life.lost))
        else:
            actions += _ending(pod, life)
    actions += (RemoveService(service) for service in situation.services if not service.deleting)
    return Decision(tuple(actions), _soonest(lives, situation.now))


def called_off(situation: Situation) -> bool:
    """Whether the claim's job is gone or going: what runs for it is ended."""
    return situation.job is None or situation.job.deleting


def wanted(claim: Claim, situation: Situation) -> bool:
    """Whether the claim's job still wants this state on this device."""
    job = situation.job
    return job is not None and not job.deleting and situation.named and state_of(job.spec) == claim.state


# --- a Pod's life ---------------------------------------------------------------------------------------------------


def life_of(pod: Pod, situation: Situation) -> Life:
    """Whether a Pod is over and what came of it, or when to look at it again."""
    now, timing = situation.now, situation.settings.timing
    if pod.finished:
        return Life(report_of(pod))
    node = pod.spec.node_name
    if pod.deleting and not node:
        return Life(report_of(pod), lost=True)  # it cannot be given a node any more
    created = pod.metadata.creation_timestamp or now
    deadline = timedelta(seconds=pod.spec.active_deadline_seconds or _NO_DEADLINE)
    grace = timedelta(seconds=timing.grace)
    # A node that has not said when it began may have begun at any time until it should have.
    overdue = (pod.status.start_time or created + deadline) + deadline + 2 * grace
    lost = ""
    if node and now >= overdue:
        lost = f"the flash Pod should have ended long ago, and node {node} has not said that it has"
    elif pod.metadata.deletion_timestamp is not None:
        expected = pod.metadata.deletion_timestamp + grace
        if now < expected:
            return Life(until=expected)
        known = situation.nodes.get(node)
        if known is not NodeState.GONE:
            return Life(ask=known is None, until=min(overdue, now + timedelta(seconds=timing.recheck)))
        lost = f"node {node}, on which the flash Pod ran, is gone"
    if lost:
        return Life(report_of(pod, lost=lost), lost=True)
    start_by = created + deadline
    until = overdue if pod.began or now >= start_by else start_by
    failed = flasher_failed(pod)
    waited = until if failed is None else failed + timedelta(seconds=timing.failure_grace)
    return Life(until=min(until, waited) if now < waited else until)


def _ending(pod: Pod, life: Life) -> Iterator[Action]:
    """How a Pod that is not over is brought to its end."""
    if life.ask:
        yield AskNode(pod)
    elif not pod.deleting:
        yield EndPod(pod)


def _never_started(pod: Pod, now: datetime) -> bool:
    """Whether a Pod has had all its time and not begun, or only begun to look for what another's flasher would do."""
    if without_flasher(pod):
        return True
    if pod.began or pod.metadata.creation_timestamp is None or pod.spec.active_deadline_seconds is None:
        return False
    return now >= pod.metadata.creation_timestamp + timedelta(seconds=pod.spec.active_deadline_seconds)


def _waited_in_vain(pod: Pod, situation: Situation) -> bool:
    """Whether a flasher of others has failed, and the device has had time to show what it was given all the same."""
    failed = flasher_failed(pod)
    grace = timedelta(seconds=situation.settings.timing.failure_grace)
    return failed is not None and situation.now >= failed + grace


# --- the claim ------------------------------------------------------------------------------------------------------


def _is_of(pod: Pod, device: Device, claim: Claim) -> bool:
    """Whether a Pod is this claim's, and this attempt's."""
    state = pod.metadata.annotations.get(Mark.STATE)
    return made_for(pod, device, claim) and attempt_of(pod) == claim.attempt and state == claim.state


def _under_way(claim: Claim, pod: Pod, life: Life, situation: Situation) -> Iterator[Action]:
    """What a claim with a Pod needs."""
    if life.report is not None:
        yield _after(claim, life.report, situation, pod)
        yield RemovePod(pod, at_once=life.lost)
    elif life.ask or called_off(situation):
        yield from _ending(pod, life)
    elif _never_started(pod, situation.now) and not pod.deleting:
        yield GiveUp(pod, pod.why_waiting() or "its status does not say why: see the Events of the Pod")
        yield EndPod(pod)
    elif _waited_in_vain(pod, situation) and not pod.deleting:
        yield EndPod(pod)  # what waits next to it asks the device a last time, and reports that


def _after(claim: Claim, report: Report, situation: Situation, pod: Pod | None = None) -> Record | Retry:
    """What to write once an attempt is over."""
    if wanted(claim, situation) and situation.job is not None:
        timing = situation.settings.timing
        following = next_attempt(situation.job, claim, report, now=situation.now, timing=timing)
        if following is not None:
            return Retry(following, report, pod)
    return Record(claim, report, pod)


def after_failure(claim: Claim, message: str, situation: Situation) -> Record | Retry:
    """What to write where an attempt failed before there was a Pod."""
    return _after(claim, Report(outcome=Outcome.FAILED, message=message), situation)


def _not_started(claim: Claim, situation: Situation, *, busy: bool) -> Iterator[Action]:
    """What a claim without a Pod needs."""
    job = situation.job
    if job is None or not wanted(claim, situation) or not situation.accepted or job.spec.paused or situation.held:
        yield Release()
        return
    if _given_back(claim, job, situation.settings) <= situation.now:
        yield _give_back(claim)
        return
    if claim.not_before is not None or busy:
        return  # `job_loop` lets it go on when its time has come; or another Pod still has the device
    if situation.pod is not None:
        yield from _in_the_way(claim, situation.pod, situation)
        return
    if exposure_of(job.spec, situation.device) is Exposure.NONE:
        yield CreatePod()
        return
    service = situation.service
    if service is None:
        yield CreateService()
    elif not made_for(service, situation.device, claim):
        yield from _in_the_way(claim, service, situation)
    elif not service.deleting and service.external_address:
        yield CreatePod(service.external_address)
    elif not service.deleting and _time_for_address(service, job, situation.now) <= 0:
        yield NoAddress(service, set_aside(claim, now=situation.now, timing=situation.settings.timing))


def _given_back(claim: Claim, job: FlashJob, settings: Settings) -> datetime:
    """When a claim that has no Pod is given back: it has kept others from the device for long enough."""
    wait = timedelta(seconds=max(settings.timing.longest_wait, job.spec.timeout if claim.not_before is None else 0))
    if claim.attempt > 1:
        return _NEVER if claim.not_before is None else claim.not_before + wait
    return claim.since + wait if claim.waits and claim.since is not None else _NEVER


def _give_back(claim: Claim) -> Release | Record:
    """Frees a claim that cannot go on; one of which an attempt was made ends as that did."""
    if claim.attempt == 1:
        return Release()
    why = f"; {claim.waits_for}" if claim.waits_for else ""
    message = f"attempt {claim.attempt} could not be started for too long{why}; the one before: {claim.last_message}"
    return Record(claim, Report(outcome=Outcome.FAILED, message=message))


def in_the_way(obj: Resource) -> str:
    """What to tell somebody whose object has the name that ours needs."""
    return f"{obj.kind.kind} {obj.key} is in the way: it is not Edgewright's; delete it or rename the job"


def _in_the_way(claim: Claim, obj: Resource, situation: Situation) -> Iterator[Action]:
    """An object has the name that we need: one of ours goes by itself, anybody else's fails the attempt."""
    if Mark.DEVICE in obj.metadata.annotations:
        return
    yield after_failure(claim, in_the_way(obj), situation)


def _waits(claim: Claim, situation: Situation) -> Iterator[float]:
    """In how many seconds a claim without a Pod is to be looked at again, though nothing happens to its Device."""
    at_names = [obj for obj in (situation.pod, situation.service) if obj is not None]
    marks = [obj.metadata.annotations.get(Mark.DEVICE) for obj in at_names]
    if claim.not_before is None and any(mark and mark != situation.device.metadata.name for mark in marks):
        # Something of ours has a name that this claim needs; that it goes is told to the other Device only.
        yield situation.settings.timing.recheck
    bound = _given_back(claim, situation.job, situation.settings) if situation.job is not None else _NEVER
    if situation.now < bound < _NEVER:
        yield (bound - situation.now).total_seconds()
    if situation.until is not None and situation.until > situation.now:
        yield (situation.until - situation.now).total_seconds()
    service, job = situation.service, situation.job
    if service is not None and job is not None and not service.external_address:
        left = _time_for_address(service, job, situation.now)
        if left > 0:
            yield left


def _time_for_address(service: Service, job: FlashJob, now: datetime) -> float:
    """In how many seconds a Service has waited too long for its address."""
    created = service.metadata.creation_timestamp or now
    return job.spec.timeout - (now - created).total_seconds()


# --- what is left over ----------------------------------------------------------------------------------------------


def _leftover(pod: Pod, life: Life, situation: Situation, *, flashing: bool) -> Iterator[Action]:
    """What is to be done about a Pod that is not the claim's; `flashing` says whether the claim has a Pod."""
    status = situation.device.status
    claim, its = status.claim, claim_of(pod)
    followed = claim is not None and claim.job.uid == its.job.uid and claim.attempt > its.attempt
    # A Pod that no job of its namespace has made is ended and removed, and nothing is written down of it.
    known = followed or recorded(status, its) or pod.metadata.uid in situation.strangers
    if not known and claim is None:
        yield Adopt(its)  # the Device has lost it; from there on it is as any other
    elif life.report is not None:
        if not known:
            yield Record(its, life.report, pod)
        yield RemovePod(pod, at_once=life.lost)
    elif known or flashing or life.ask:
        yield from _ending(pod, life)
    # Else it has the device, though another job has the claim: that one waits.


def _needless_services(situation: Situation, actions: list[Action], lives: dict[str, Life]) -> Iterator[Action]:
    """The Services that nobody needs any more: they hold addresses."""
    claim = situation.device.status.claim
    if any(isinstance(action, Adopt) for action in actions):
        return
    over = any(isinstance(action, Release | Retry | NoAddress) or _is_final(action, claim) for action in actions)
    for service in situation.services:
        if service.deleting:
            continue
        needed = any(_behind(service, pod) and lives[pod.metadata.uid].report is None for pod in situation.pods)
        if claim is not None and not over and service.key == service_key(claim):
            needed = needed or claim.not_before is None or not made_for(service, situation.device, claim)
        if not needed:
            yield RemoveService(service)


def _is_final(action: Action, claim: Claim | None) -> bool:
    return isinstance(action, Record) and action.claim is claim


def _behind(service: Service, pod: Pod) -> bool:
    selector = service.spec.selector
    same = service.metadata.namespace == pod.metadata.namespace
    return same and all(pod.metadata.labels.get(name) == value for name, value in selector.items())


def _soonest(lives: dict[str, Life], now: datetime) -> float | None:
    untils = [(life.until - now).total_seconds() for life in lives.values() if life.until is not None]
    return max(0.0, min(untils)) if untils else None
