"""Who may start now: the one place where all limits are held.

The loop over FlashJobs asks it with what its job wishes and with every claim on every Device, its own writes included,
and writes the claims that it allows. Pure, so that each limit is a line in a table test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from edgewright.api.device import Claim, JobReference
from edgewright.api.flashjob import DEFAULT_CONCURRENT


class Wait(StrEnum):
    """What a device waits for, in a word for metrics; the status tells the same in a sentence."""

    DISCOVERY = "discovery"
    """Nobody has discovered it."""
    START = "start"
    """The next pass over its job."""
    SLOT = "slot"
    """Others of its job to end: spec.maxConcurrent is reached."""
    OTHER_JOB = "other-job"
    """Another job that flashes it, or a Device at the same address."""
    OTHER_OPERATOR = "other-operator"
    """Another operator that flashes it, or that has to be stopped."""
    RETRY = "retry"
    """The time of its next attempt."""
    ADDRESS = "address"
    """An address for its Service."""
    POD = "pod"
    """Its Pod to be created, scheduled and started, or a quota to have room for it."""
    CLEANUP = "cleanup"
    """What is left of an earlier flash to go."""
    ROOM = "room"
    """Room on its Device for another outcome."""
    PAUSED = "paused"
    SECRET = "secret"  # noqa: S105 - no secret, but the word
    """A Secret that is missing or cannot be read."""
    SPEC = "spec"
    """Somebody to correct the spec."""
    DEVICE = "device"
    """Its Device, which cannot be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A job wants to begin with a device, or to go on with one that it has claimed."""

    device: str
    """The name of the Device."""
    job: JobReference
    endpoint: str = ""
    """Where the device is, in one spelling."""
    limit: int = DEFAULT_CONCURRENT
    """How many devices of the job may be under way at once."""


@dataclass(frozen=True, slots=True)
class Held:
    """A claim and the name of the Device that it is on."""

    device: str
    claim: Claim
    endpoint: str = ""
    """Where the device is, in one spelling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFlash:
    """A flash that another operator has under way: its device is nobody else's until it has ended."""

    why: str
    """Why others wait for it, in a sentence."""
    job: str
    """The uid of the job that it was made for."""
    devices: frozenset[str]
    """The names of the Devices that it may be for."""
    endpoint: str = ""
    """Where it was told that the device is, in one spelling."""
    overdue: bool = False
    """Whether it has had its time: it is ended as soon as its own job has claimed the device, not before."""

    def keeps_from(self, wish: Wish) -> bool:
        """Whether a wish that is for the same device, or the same address, has to wait for it."""
        return not (self.overdue and self.job == wish.job.uid and wish.device in self.devices)


@dataclass(frozen=True)
class Admission:
    """What was decided: which wishes come true now, and why the others wait."""

    start: tuple[Wish, ...] = ()
    waiting: dict[str, str] = field(default_factory=dict)
    """Why it waits, in a sentence, by the name of the Device."""
    waits: dict[str, Wait] = field(default_factory=dict)
    """The same in a word."""
    unannounced: bool = False
    """Whether one waits for something that its job does not name, so that nobody tells the job when it is free."""


def admit(
    wishes: Sequence[Wish],
    claims: Iterable[Held],
    *,
    now: datetime,
    lingering: Mapping[str, int] | None = None,
    foreign: Iterable[ForeignFlash] = (),
) -> Admission:
    """Which wishes may start: one claim a device, one device an address, so many devices a job. The earlier come first.

    Two Devices at one address are one device that was written down twice, by discovery and by hand.

    `lingering` says of how many devices a Service or Pod is left whose claim is freed, by the uid of their job: they
    take up a place until it is gone, because addresses and room on nodes are what the limit is there to spare.
    `foreign` are flashes without a claim on the Device, which have it all the same.
    """
    held: dict[str, Claim] = {}
    under_way: Counter[str] = Counter(lingering or {})
    at: dict[str, Held] = {}
    for each in claims:
        held[each.device] = each.claim
        if each.claim.not_before is None:
            under_way[each.claim.job.uid] += 1
            at[each.endpoint] = each
    names, places = _by_device_and_place(foreign)
    start: list[Wish] = []
    waiting: dict[str, tuple[Wait, str]] = {}
    unannounced = False
    for wish in wishes:
        why = _refusal(wish, held.get(wish.device), under_way[wish.job.uid], now)
        there = at.get(wish.endpoint) if wish.endpoint else None
        if why is None and there is not None and there.device != wish.device:
            why = Wait.OTHER_JOB, _same_address(there)
            unannounced = True
        others = (*names.get(wish.device, ()), *places.get(wish.endpoint, ())) if why is None else ()
        other = next((each.why for each in others if each.keeps_from(wish)), None)
        if other is not None:
            why = Wait.OTHER_OPERATOR, other
            unannounced = True
        if why is None:
            start.append(wish)
            under_way[wish.job.uid] += 1
            held[wish.device] = claim = Claim(job=wish.job)
            at[wish.endpoint] = Held(wish.device, claim, wish.endpoint)
        else:
            waiting[wish.device] = why
    texts = {name: text for name, (_, text) in waiting.items()}
    return Admission(tuple(start), texts, {name: word for name, (word, _) in waiting.items()}, unannounced)


def _by_device_and_place(
    foreign: Iterable[ForeignFlash],
) -> tuple[dict[str, list[ForeignFlash]], dict[str, list[ForeignFlash]]]:
    names: dict[str, list[ForeignFlash]] = {}
    places: dict[str, list[ForeignFlash]] = {}
    for each in foreign:
        for name in each.devices:
            names.setdefault(name, []).append(each)
        if each.endpoint:
            places.setdefault(each.endpoint, []).append(each)
    return names, places


def _refusal(wish: Wish, claim: Claim | None, under_way: int, now: datetime) -> tuple[Wait, str] | None:
    if claim is not None and claim.job.uid != wish.job.uid:
        return Wait.OTHER_JOB, flashed_by(claim.job)
    if claim is not None and claim.not_before is None:
        return Wait.START, "it is claimed already"
    if claim is not None and claim.not_before is not None and claim.not_before > now:
        return Wait.RETRY, f"it is tried again at {claim.not_before:%H:%M:%S}"
    if under_way >= wish.limit:
        return Wait.SLOT, f"waiting for a free slot: spec.maxConcurrent is {wish.limit}"
    return None


def _same_address(there: Held) -> str:
    job = there.claim.job
    return (
        f"waits for Device {there.device}, which has the same address and is being flashed by job {job.name}"
        f" in namespace {job.namespace}"
    )


def flashed_by(job: JobReference) -> str:
    """Why a device is not to be had, in a sentence."""
    return f"waiting for job {job.name} in namespace {job.namespace}, which is flashing it"
