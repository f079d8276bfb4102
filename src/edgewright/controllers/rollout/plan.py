"""What a rollout would do: its batches with their devices, who is left out and why. It changes nothing.

`edgewright rollout plan` and `create --dry-run` call it with the spec and the Devices. It takes the same steps as the
decisions do, on the fleet as it is now. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import FirmwareRolloutSpec
from edgewright.controllers.flashjob.windows import is_open, next_opening
from edgewright.controllers.rollout.batches import Steps, ordered, taken_by
from edgewright.controllers.rollout.recall import recall_targets
from edgewright.controllers.rollout.selection import choice_of, selects
from edgewright.controllers.rollout.targets import Barred, Target, targets_of
from edgewright.controllers.rollout.validation import problems


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """One batch as it would open if all went well until then."""

    number: int
    name: str
    devices: tuple[str, ...]
    """The names of its Devices, in the order in which they are started."""
    soak_seconds: int = 0
    interval_seconds: int = 0
    success_percent: int = 100
    manual: bool = False
    """Whether somebody has to approve before the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would happen. Every device that the rollout means is in one batch, quarantined, or excluded."""

    problems: tuple[str, ...] = ()
    """What is wrong with the spec, each with its field; then there is nothing else in the plan."""
    total: int = 0
    """How many devices the rollout means."""
    batches: tuple[PlannedBatch, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Those that are left out and why: no firmware for their type, not allowed here, quarantined, spec.exclude."""
    current: frozenset[str] = frozenset()
    """Those in batches that say that they run the wanted version already; they are asked, and not flashed."""
    targets: Mapping[str, Target] = field(default_factory=dict)
    """What each device in a batch is to run."""
    opens: datetime | None = None
    """When the next window opens, where none is open now."""


def plan(
    spec: FirmwareRolloutSpec,
    devices: Iterable[Device],
    now: datetime,
    *,
    namespace: str = "default",
    opened: int = 0,
    taken: Collection[str] = (),
) -> Plan:
    """The batches of a rollout with this spec in this namespace, on these devices; it changes nothing.

    Of one that is under way, so many batches are `opened` and have `taken` these devices: the rest is planned.
    """
    found = problems(spec)
    if found:
        return Plan(problems=tuple(map(str, found)))
    chosen = choice_of(spec) if spec.recall is None else None
    inside = selects(spec.selector)
    target_of = recall_targets(spec.recall) if spec.recall is not None else targets_of(spec)
    excluded: dict[str, str] = {}
    targets: dict[str, Target] = {}
    candidates: list[Device] = []
    total = 0
    for device in devices:
        if device.deleting:
            continue
        name = device.metadata.name
        if chosen is not None and not chosen(device):
            if spec.exclude is not None and inside(device):
                excluded[name] = "spec.exclude names it"
            continue
        target = target_of(device)
        if target is None:
            continue
        total += 1
        if isinstance(target, Barred):
            if not (target.busy and name in taken):
                excluded[name] = target.why
        elif not device.spec.allows(namespace):
            excluded[name] = f"its spec.allowedNamespaces does not name {namespace}"
        elif device.status.quarantined:
            excluded[name] = "it is quarantined: its flashes keep failing"
        elif name not in taken:
            candidates.append(device)
            targets[name] = target
    current = frozenset(
        name for device in candidates if device.status.version == targets[(name := device.metadata.name)].version
    )
    return Plan(
        total=total,
        batches=tuple(_batches(Steps(spec), candidates, current, total, opened)),
        excluded=excluded,
        current=current,
        targets=targets,
        opens=None if is_open(spec.windows, now) else next_opening(spec.windows, now),
    )


def _batches(
    steps: Steps, candidates: list[Device], current: frozenset[str], total: int, opened: int
) -> list[PlannedBatch]:
    left = ordered(candidates, simple=steps.simple, current=lambda device: device.metadata.name in current)
    batches: list[PlannedBatch] = []
    number, at = opened, 0
    while at < len(left):
        number += 1
        step = steps.get(number)
        taken = taken_by(step, left, total=total, start=at)
        if not taken:
            continue
        names = tuple(device.metadata.name for device in taken)
        if step.chooses is None:
            at += len(taken)
        else:
            gone = frozenset(names)
            left, at = [device for device in left[at:] if device.metadata.name not in gone], 0
        batches.append(
            PlannedBatch(
                number=number,
                name=step.name,
                devices=names,
                soak_seconds=step.soak,
                interval_seconds=step.interval,
                success_percent=step.success,
                manual=step.manual,
            )
        )
    return batches
