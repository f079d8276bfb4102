"""What a rollout would do, in words: batches, devices, bytes, who is left out and why, and when it would end.

`rollout plan` and `create --dry-run` print it. The batches come from the operator's
own plan, so that what is shown is what happens. Pure but for `outlook`, which reads and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import (
    FirmwareRolloutSpec,
)
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DEFAULT_CONCURRENT
from edgewright.api.reference import BadReference, parse_reference
from edgewright.cli import terminal
from edgewright.cli.cluster import Place, missing
from edgewright.controllers.rollout.plan import Plan, plan
from edgewright.runtime import spans
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import NotFound

ASSUMED_SECONDS: Final = 60.0
"""How long the flash of a device is taken to last where none was ever seen."""
_NAMED: Final = 8
_PULLING: Final = 20.0


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """A plan, and what else people want to know before they act."""

    plan: Plan
    spec: FirmwareRolloutSpec
    now: datetime
    seconds_each: float | None = None
    """How long the flash of a device took so far, in the middle; None: none was ever seen."""
    sizes: dict[str, int] = field(default_factory=dict)
    """How many bytes each firmware has, where its registry told."""


async def outlook(client: Client, where: Place, spec: FirmwareRolloutSpec, *, plain: Sequence[str] = ()) -> Outlook:
    """What would happen to the fleet as it is now."""
    try:
        devices = (await client.of(Device).list()).items
    except NotFound as error:
        raise missing(Device.kind, "", where, error) from None
    now = SystemClock().now()
    found = plan(spec, devices, now, namespace=where.namespace)
    types = {each.metadata.name: each.spec.type for each in devices}
    firmwares = {target.firmware: types[name] for name, target in found.targets.items()}
    sizes = await asyncio.gather(*(_size(each, device, plain) for each, device in firmwares.items()))
    known = {name: size for name, size in zip(firmwares, sizes, strict=True) if size is not None}
    return Outlook(plan=found, spec=spec, now=now, seconds_each=seconds_each(devices), sizes=known)


async def _size(firmware: str, device: str, plain: Sequence[str]) -> int | None:
    from edgewright.devices.drivers.driver import Ended  # noqa: PLC0415 - only who asks a registry needs it
    from edgewright.devices.oci import Access, Limits, pull  # noqa: PLC0415

    access, limits = Access(plain_hosts=frozenset(plain)), Limits(attempts=1)
    try:
        async with asyncio.timeout(_PULLING):
            image = await pull(parse_reference(firmware), device=device, access=access, limits=limits)
    except (BadReference, Ended, OSError):
        return None
    return len(image.content)


def seconds_each(devices: Iterable[Device]) -> float | None:
    """How long flashes took that went well, in the middle."""
    took = [
        (record.time - record.started).total_seconds()
        for device in devices
        for record in device.status.records
        if record.outcome == Outcome.SUCCEEDED and record.time is not None and record.started is not None
    ]
    return median(took) if took else None


def expected_seconds(found: Plan, spec: FirmwareRolloutSpec, each: float) -> float:
    """How long it would take if every device went well at the first attempt and nobody had to be waited for."""
    at_once = spec.max_concurrent or DEFAULT_CONCURRENT
    total = 0.0
    for number, batch in enumerate(found.batches):
        count = sum(name not in found.current for name in batch.devices)
        rounds = -(-count // at_once) * each
        paced = 60.0 * count / spec.max_per_minute if spec.max_per_minute else 0.0
        last = number == len(found.batches) - 1
        total += max(rounds, paced) + batch.soak_seconds + (0 if last else batch.interval_seconds)
    return total


def lines(name: str, seen: Outlook) -> list[str]:
    """The plan for people."""
    found, spec = seen.plan, seen.spec
    counted = sum(len(batch.devices) for batch in found.batches)
    total = terminal.count(found.total, "device")
    text = [f"Rollout {name} would bring {_brings(spec)} to {counted} of {total}; nothing was changed."]
    for batch in found.batches:
        notes = [terminal.count(len(batch.devices), "device")]
        if batch.soak_seconds:
            notes.append(f"watched for {spans.span(batch.soak_seconds)}")
        if batch.interval_seconds:
            notes.append(f"then {spans.span(batch.interval_seconds)} until the next")
        if batch.success_percent < 100:
            notes.append(f"goes on where {batch.success_percent} % succeed")
        if batch.manual:
            notes.append("goes on when somebody approves")
        text.append(f"  {batch.number}. {batch.name}: {', '.join(notes)}")
        text.append(f"     {_names(batch.devices)}")
    if found.current:
        text.append(f"  Run it already, and are only asked: {_names(sorted(found.current))}")
    if found.excluded:
        text.append(f"  Left out: {len(found.excluded)}")
        text += [f"     {device}: {reason}" for device, reason in sorted(found.excluded.items())[:_NAMED]]
        if len(found.excluded) > _NAMED:
            text.append(f"     and {len(found.excluded) - _NAMED} more")
    text.append(f"  Bytes: {_bytes(seen)}")
    if found.opens is not None:
        text.append(f"  No window is open: the next one opens at {terminal.stamp(found.opens)}")
    text.append(f"  Expected end: {_end(seen)}")
    return text


def _brings(spec: FirmwareRolloutSpec) -> str:
    if spec.recall is not None:
        return f"what each device ran before {spec.recall.name}"
    if spec.firmwares:
        return ", ".join(f"{each.version} to {each.type}" for each in spec.firmwares)
    return f"{spec.version} ({spec.firmware})"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _bytes(seen: Outlook) -> str:
    found = seen.plan
    flashed = [found.targets[name] for batch in found.batches for name in batch.devices if name not in found.current]
    if not all(target.firmware in seen.sizes for target in flashed):
        return "not known, the registry cannot be asked from here"
    total = sum(seen.sizes[target.firmware] for target in flashed)
    return f"{total:,} to {terminal.count(len(flashed), 'device')}"


def _end(seen: Outlook) -> str:
    each = seen.seconds_each if seen.seconds_each is not None else ASSUMED_SECONDS
    seconds = expected_seconds(seen.plan, seen.spec, each)
    begin = seen.plan.opens or seen.now
    basis = "as flashes took so far" if seen.seconds_each is not None else "which is assumed"
    manual = ", and the time that approvals take" if any(batch.manual for batch in seen.plan.batches) else ""
    return (
        f"{terminal.stamp(begin + timedelta(seconds=seconds))}, {spans.span(seconds)} after the start, with "
        f"{spans.span(each)} per device, {basis}{manual}"
    )
