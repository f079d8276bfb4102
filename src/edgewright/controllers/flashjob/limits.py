"""The limits of a rollout, and what stops every start: pure, each a line in a table test.

`admission` asks a `Tally` for each wish of a rollout's job, and both loops ask `stop_of` before anything is started.
What is counted comes from `starts`, which reads the caches. A start is the creation of a flash Pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from edgewright.api.device import QUARANTINED, STALE, Claim, Device
from edgewright.api.firmwarerollout import Budget, FirmwareRollout
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import Fleet
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.controllers.flashjob.waits import Wait
from edgewright.controllers.flashjob.windows import is_open, next_opening
from edgewright.runtime.conditions import is_true
from edgewright.runtime.objects import Key
from edgewright.runtime.text import cut

Group: TypeAlias = tuple[str, str]
"""A label and its value: the devices that have it are a group of a budget."""
Refusal: TypeAlias = tuple[Wait, str]
"""Why a device waits, in a word and in a sentence."""

MINUTE: Final = timedelta(seconds=61)
"""What counts as within a minute: times are written down in whole seconds."""
_HARMLESS: Final = frozenset({Outcome.SUCCEEDED, Outcome.ALREADY_CURRENT, Outcome.CANCELLED})
_MAX_REASON: Final = 300


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Why nothing of a job is started now."""

    wait: Wait
    reason: Reason
    message: str
    until: datetime | None = None
    """When that ends by itself."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The rollout that a job belongs to."""

    key: Key
    uid: str


def owner_of(job: FlashJob) -> Owner | None:
    """The rollout that made a job; None where people or others did."""
    for each in job.metadata.owner_references:
        group = each.api_version.partition("/")[0]
        if each.controller and each.kind == FirmwareRollout.kind.kind and group == FirmwareRollout.kind.group:
            return Owner(Key(job.metadata.namespace, each.name), each.uid)
    return None


def stop_of(fleet: Fleet | None, owner: Owner | None, rollout: FirmwareRollout | None, now: datetime) -> Stop | None:
    """What stops every start of a job: the frozen fleet, or its rollout, where it has one."""
    if fleet is not None and fleet.spec.frozen:
        return Stop(wait=Wait.FROZEN, reason=Reason.FROZEN, message=_frozen(fleet))
    return _stop_of_rollout(owner, rollout, now) if owner is not None else None


def _stop_of_rollout(owner: Owner, rollout: FirmwareRollout | None, now: datetime) -> Stop | None:
    name = owner.key.name
    if rollout is None or rollout.metadata.uid != owner.uid or rollout.deleting:
        message = f"rollout {name} is gone: nothing more is started for it"
        return Stop(wait=Wait.ABORTED, reason=Reason.ROLLOUT_ABORTED, message=message)
    spec = rollout.spec
    if spec.aborted:
        message = f"rollout {name} is aborted: no further device is started"
        return Stop(wait=Wait.ABORTED, reason=Reason.ROLLOUT_ABORTED, message=message)
    if spec.paused:
        message = f"rollout {name} is paused: no further device is started until it is resumed"
        return Stop(wait=Wait.PAUSED, reason=Reason.PAUSED, message=message)
    if not is_open(spec.windows, now):
        opening = next_opening(spec.windows, now)
        when = "never again" if opening is None else f"at {opening:%Y-%m-%d %H:%M} UTC"
        message = f"waiting for a window: the next one of rollout {name} opens {when}"
        return Stop(wait=Wait.WINDOW, reason=Reason.WINDOW_CLOSED, message=message, until=opening)
    return None


def _frozen(fleet: Fleet) -> str:
    spec = fleet.spec
    why = f": {cut(spec.reason, _MAX_REASON)}" if spec.reason else ""
    who = f" by {spec.by}" if spec.by else ""
    return f"the fleet is frozen{who}{why}"


# --- counting -------------------------------------------------------------------------------------------------------


def is_broken(device: Device) -> bool:
    """Whether a device counts as broken: its last flash ended badly, it is quarantined, or nobody sees it."""
    status = device.status
    last = status.last_flash
    if last is not None and last.outcome and last.outcome not in _HARMLESS:
        return True
    return is_true(status.conditions, QUARANTINED) or is_true(status.conditions, STALE)


def groups_of(rollout: FirmwareRollout, device: Device) -> tuple[Group, ...]:
    """The groups of a rollout's budgets that a Device is in."""
    labels = device.metadata.labels
    return tuple((each.label, labels[each.label]) for each in rollout.spec.budgets if each.label in labels)


def allowed_in(budget: Budget, size: int) -> int:
    """How many devices of a group of this size may be updating or broken at once; one that cannot be read allows none.

    A share is rounded down, but to 1 at least.
    """
    limit = budget.max_unavailable
    if isinstance(limit, int):
        return max(0, limit)
    text = (limit or "").strip()
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdigit()):
        return 0
    return max(1, size * int(number) // 100) if text.endswith("%") else int(number)


@dataclass(frozen=True, kw_only=True)
class GroupCount:
    """A group of a budget, as it is now."""

    size: int
    allowed: int
    claimed: frozenset[str] = frozenset()
    """The names of its Devices that are being flashed, by whichever job, or between two attempts."""
    broken: frozenset[str] = frozenset()
    """The names of its Devices that are broken."""


@dataclass(frozen=True, kw_only=True)
class RolloutLimits:
    """The limits of one rollout, and what counts against them besides claims."""

    name: str
    max_concurrent: int | None = None
    max_per_minute: int | None = None
    lingering: int = 0
    """Of how many of its devices something is left whose claim is freed."""
    starts: Mapping[str, datetime] = field(default_factory=dict)
    """When the latest flash Pod of a Device was made for it, by the Device's name, as far as within a minute."""
    pending: frozenset[str] = frozenset()
    """The names of the Devices that are claimed for it and have no Pod yet: each may get one at any moment."""
    groups: Mapping[Group, GroupCount] = field(default_factory=dict)
    """The groups that its wishes are in."""


class Tally:
    """The limits of one rollout while wishes are admitted one after the other."""

    def __init__(self, limits: RolloutLimits, claims: Iterable[Claim], now: datetime) -> None:
        """`claims` are those of the rollout."""
        self._limits = limits
        self._under_way = limits.lingering + sum(claim.not_before is None for claim in claims)
        self._recent = {name: time for name, time in limits.starts.items() if time > now - MINUTE}
        self._started = self._recent.keys() | limits.pending
        self._claimed = {group: set(count.claimed) for group, count in limits.groups.items()}
        self._unavailable = {group: set(count.claimed | count.broken) for group, count in limits.groups.items()}
        self.due: datetime | None = None
        """When one may start that was refused for the rate."""

    def refusal(self, device: str, groups: Iterable[Group]) -> Refusal | None:
        """Why a device may not start now; None where it may."""
        limits = self._limits
        if limits.max_concurrent is not None and self._under_way >= limits.max_concurrent:
            return Wait.SLOT, f"waiting for a free slot: maxConcurrent of rollout {limits.name} is {self._most}"
        if limits.max_per_minute is not None and _others(self._started, device) >= limits.max_per_minute:
            return Wait.RATE, self._rate()
        for group in groups:
            refusal = self._over_budget(device, group)
            if refusal is not None:
                return refusal
        return None

    def start(self, device: str, groups: Iterable[Group]) -> None:
        """Counts a device that starts."""
        self._under_way += 1
        self._started.add(device)
        for group in groups:
            if group in self._claimed:
                self._claimed[group].add(device)
                self._unavailable[group].add(device)

    @property
    def _most(self) -> int | None:
        return self._limits.max_concurrent

    def _rate(self) -> str:
        limits = self._limits
        if self.due is None:
            past = (time for name, time in self._recent.items() if name not in limits.pending)
            self.due = min((time + MINUTE for time in past), default=None)
        told = f"waiting for its turn: rollout {limits.name} starts at most {limits.max_per_minute} devices per minute"
        return told if self.due is None else f"{told}; the next one at {self.due:%H:%M:%S}"

    def _over_budget(self, device: str, group: Group) -> Refusal | None:
        count = self._limits.groups.get(group)
        if count is None:
            return None
        label, value = group
        if device in self._unavailable[group]:
            # It is broken already: that it is updated makes none more, but no more are updated at once than may be.
            others = _others(self._claimed[group], device)
        else:
            others = len(self._unavailable[group])
        if others < count.allowed:
            return None
        return Wait.BUDGET, (
            f"waiting for others of {label}={value}: {others} of {count.size} are being updated or broken, and rollout"
            f" {self._limits.name} allows {count.allowed} at once"
        )


def _others(names: Set[str], device: str) -> int:
    """How many there are besides this one."""
    return len(names) - (device in names)
