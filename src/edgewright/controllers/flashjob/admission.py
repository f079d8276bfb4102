"""Who may start now: the one place where all limits are held.

The loop over FlashJobs asks it with what its job wishes and with every claim on every Device, its own writes included,
and writes the claims that it allows. Pure, so that each limit is a line in a table test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from edgewright.api.device import Claim, JobReference
from edgewright.api.flashjob import DEFAULT_CONCURRENT
from edgewright.controllers.flashjob.limits import Group, Refusal, RolloutLimits, Tally
from edgewright.controllers.flashjob.waits import Wait


class Wish(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job wants to begin with a device, or to go on with one that it has claimed."""

    device: str
    """The name of the Device."""
    job: JobReference
    endpoint: str = ""
    """Where the device is, in one spelling."""
    limit: int = DEFAULT_CONCURRENT
    """How many devices of the job may be under way at once."""
    rollout: str = ""
    """The uid of the rollout that the job belongs to."""
    groups: tuple[Group, ...] = ()
    """The groups of the rollout's budgets that the device is in."""
    barred: Refusal | None = None
    """Why the job may not have the device at all, as things are."""


class Held(msgspec.Struct, frozen=True, gc=False):
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
    namespace: str = ""
    """Where it runs: people of other namespaces may not know its name."""
    overdue: bool = False
    """Whether it has had its time: it is ended as soon as its own job has claimed the device, not before."""

    def told(self, wish: Wish) -> str:
        """Why a wish waits for it, for people of the wish's namespace."""
        known = self.namespace in ("", wish.job.namespace)
        return self.why if known else "waiting for another job of the original operator, which is flashing it"

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
    due: datetime | None = None
    """When one may start that waits for its turn."""


def admit(
    wishes: Sequence[Wish],
    claims: Iterable[Held],
    *,
    now: datetime,
    lingering: Mapping[str, int] | None = None,
    foreign: Iterable[ForeignFlash] = (),
    limits: Mapping[str, RolloutLimits] | None = None,
) -> Admission:
    """Which wishes may start: one claim per device, one device per address, and no limit exceeded; earlier ones first.

    Two Devices at one address are one device that was written down twice, by discovery and by hand.

    `lingering` says of how many devices a Service or Pod is left whose claim is freed, by the uid of their job: they
    take up a place until it is gone, because addresses and room on nodes are what the limit is there to spare.
    `foreign` are flashes without a claim on the Device, which have it all the same. `limits` are those of rollouts, by
    their uids; a wish of a rollout whose limits are not known waits.
    """
    held: dict[str, Claim] = {}
    under_way: Counter[str] = Counter(lingering or {})
    at: dict[str, Held] = {}
    rollouts: dict[str, list[Claim]] = {uid: [] for uid in limits or {}}
    for each in claims:
        held[each.device] = each.claim
        if each.claim.rollout in rollouts:
            rollouts[each.claim.rollout].append(each.claim)
        if each.claim.not_before is None:
            under_way[each.claim.job.uid] += 1
            at[each.endpoint] = each
    tallies = {uid: Tally(each, rollouts[uid], now) for uid, each in (limits or {}).items()}
    names, places = _by_device_and_place(foreign)
    start: list[Wish] = []
    waiting: dict[str, tuple[Wait, str]] = {}
    unannounced = False
    for wish in wishes:
        why = _refusal(wish, held.get(wish.device), under_way[wish.job.uid], now)
        there = at.get(wish.endpoint) if wish.endpoint else None
        if why is None and there is not None and there.device != wish.device:
            why = Wait.OTHER_JOB, _same_address(there, wish.job.namespace)
            unannounced = True
        others = (*names.get(wish.device, ()), *places.get(wish.endpoint, ())) if why is None else ()
        other = next((each.told(wish) for each in others if each.keeps_from(wish)), None)
        if other is not None:
            why = Wait.OTHER_OPERATOR, other
            unannounced = True
        if why is None and wish.rollout:
            tally = tallies.get(wish.rollout)
            why = (Wait.ABORTED, "its rollout is gone") if tally is None else tally.refusal(wish.device, wish.groups)
            if why is None and tally is not None:
                tally.start(wish.device, wish.groups)
        if why is None:
            start.append(wish)
            under_way[wish.job.uid] += 1
            held[wish.device] = claim = Claim(job=wish.job)
            at[wish.endpoint] = Held(wish.device, claim, wish.endpoint)
        else:
            waiting[wish.device] = why
    texts = {name: text for name, (_, text) in waiting.items()}
    words = {name: word for name, (word, _) in waiting.items()}
    due = min((tally.due for tally in tallies.values() if tally.due is not None), default=None)
    return Admission(tuple(start), texts, words, unannounced, due)


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


def _refusal(wish: Wish, claim: Claim | None, under_way: int, now: datetime) -> Refusal | None:
    if wish.barred is not None:
        return wish.barred
    if claim is not None and claim.job.uid != wish.job.uid:
        return Wait.OTHER_JOB, flashed_by(claim.job, wish.job.namespace)
    if claim is not None and claim.not_before is None:
        return Wait.START, "it is claimed already"
    if claim is not None and claim.not_before is not None and claim.not_before > now:
        return Wait.RETRY, f"it is tried again at {claim.not_before:%H:%M:%S}"
    if under_way >= wish.limit:
        return Wait.SLOT, f"waiting for a free slot: spec.maxConcurrent is {wish.limit}"
    return None


def _same_address(there: Held, namespace: str) -> str:
    job = there.claim.job
    if job.namespace != namespace:
        return "waits for another Device, which has the same address and is being flashed by another job"
    return (
        f"waits for Device {there.device}, which has the same address and is being flashed by job {job.name}"
        f" in namespace {job.namespace}"
    )


def flashed_by(job: JobReference, namespace: str) -> str:
    """Why a device is not to be had, in a sentence for people of a namespace: they may not know the jobs of others."""
    if job.namespace != namespace:
        return "waiting for another job, which is flashing it"
    return f"waiting for job {job.name} in namespace {job.namespace}, which is flashing it"
