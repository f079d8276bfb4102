"""A rollout in words: the tree of rollout, batches and devices for a terminal, and a line per change for a log.

`rollout watch`, `get` and `status` show it; both forms say the same. Pure: it prints nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from edgewright.api.firmwarerollout import (
    BATCH_ANNOTATION,
    REVISION_ANNOTATION,
    BatchStatus,
    FirmwareRollout,
    RolloutPhase,
)
from edgewright.api.flashjob import DeviceState, FlashedDevice, FlashJob
from edgewright.cli import terminal
from edgewright.cli.failure import Failed, NeedsPerson, RolloutFailed
from edgewright.controllers.rollout import changes
from edgewright.runtime import spans
from edgewright.runtime.text import cut

DEVICES_SHOWN: Final = 12
"""How many devices of a batch stand in the tree one by one."""
_ORDER: Final = {DeviceState.FLASHING: 0, DeviceState.FAILED: 1, DeviceState.WAITING: 2, DeviceState.DONE: 3}
_BATCHES_SHOWN: Final = 20


@dataclass(frozen=True)
class Twigs:
    """How the branches of a tree are drawn."""

    branch: str
    last: str
    through: str
    glyphs: Mapping[str, str]


UNICODE: Final = Twigs(
    "├─ ", "└─ ", "│  ", {"Passed": "✔", "Done": "✔", "Completed": "✔", "Failed": "✖", "Aborted": "✖", "Recalled": "✖"}
)
ASCII: Final = Twigs("|- ", "`- ", "|  ", {})


def headline(rollout: FirmwareRollout) -> str:
    """Where it stands, in a few words."""
    status = rollout.status
    parts = [status.phase or "Pending"]
    if status.progress:
        parts.append(f"{status.progress} done")
    counts = status.counts
    if counts is not None:
        parts += [
            f"{number} {word}"
            for word, number in (
                ("failed", counts.failed),
                ("regressed", counts.regressed),
                ("quarantined", counts.quarantined),
                ("flashing", counts.flashing),
            )
            if number
        ]
    return ", ".join(parts)


def verdict(rollout: FirmwareRollout, *, frozen: str = "") -> Failed | None:
    """Why a person or a program must not take the rollout for a success; None where it is one, or goes on."""
    name, status = rollout.metadata.name, rollout.status
    if status.observed_generation < rollout.metadata.generation:
        return None
    told = f": {status.message.rstrip('.')}" if status.message else ""
    if changes.has_ended(rollout) and status.phase != RolloutPhase.COMPLETED:
        return RolloutFailed(
            f"rollout {name} has ended as {status.phase}{told}; `edgewright rollout get {name}` tells more"
        )
    if status.phase == RolloutPhase.PAUSED:
        return NeedsPerson(f"rollout {name} is paused{told}; `edgewright rollout resume {name}` lets it go on")
    waiting = changes.awaited(rollout)
    if waiting is not None:
        return NeedsPerson(
            f"rollout {name} waits for approval after batch {waiting.name}; "
            f"`edgewright rollout approve {name}` lets it go on"
        )
    if status.phase == RolloutPhase.WAITING and frozen:
        return NeedsPerson(
            f"rollout {name} waits because the fleet is frozen ({frozen}); `edgewright unfreeze` ends that"
        )
    return None


def devices_by_batch(rollout: FirmwareRollout, jobs: Iterable[FlashJob]) -> dict[int, list[FlashedDevice]]:
    """The devices of the present revision that have a FlashJob, by the number of their batch."""
    found: dict[int, list[FlashedDevice]] = {}
    revision = str(rollout.status.revision or 1)
    for job in jobs:
        if job.metadata.annotations.get(REVISION_ANNOTATION, revision) != revision:
            continue
        number = job.metadata.annotations.get(BATCH_ANNOTATION, "")
        found.setdefault(int(number) if number.isdigit() else 0, []).extend(job.status.devices)
    for devices in found.values():
        devices.sort(key=lambda each: (_ORDER.get(DeviceState(each.state), 9) if each.state else 9, name_of(each)))
    return found


def name_of(device: FlashedDevice) -> str:
    """What people call a device of a job."""
    return device.device or device.uuid


def batch_text(batch: BatchStatus) -> str:
    """Where a batch stands, in a few words."""
    parts = [batch.phase or "Planned", f"{batch.done}/{batch.size} done"]
    if batch.failed:
        parts.append(f"{batch.failed} failed")
    return ", ".join(parts) + (f": {batch.message}" if batch.message else "")


def device_text(device: FlashedDevice) -> str:
    """Where a device stands, in a few words."""
    state = device.state or "Waiting"
    outcome = f" ({device.outcome})" if device.outcome and device.state == DeviceState.FAILED else ""
    told = f": {device.message}" if device.message and device.state != DeviceState.DONE else ""
    version = f", runs {device.version}" if device.version and device.state == DeviceState.DONE else ""
    return f"{state}{outcome}{version}{told}"


def tree(
    rollout: FirmwareRollout,
    jobs: Sequence[FlashJob],
    *,
    now: datetime,
    twigs: Twigs = UNICODE,
    colour: bool = False,
    width: int | None = None,
) -> list[str]:
    """Rollout, batches and devices, a line each, none wider than the terminal."""
    status = rollout.status
    brings = f"{rollout.spec.version} ({rollout.spec.firmware})" if rollout.spec.firmware else "firmware per type"
    if rollout.spec.recall is not None:
        brings = f"a recall of {rollout.spec.recall.name}"
    lines = [
        _line(f"{rollout.kind.kind} {rollout.key}: ", headline(rollout), twigs, colour, width),
        *_cut([f"  brings {brings}"], width),
    ]
    if status.message:
        lines += _cut([f"  {status.message}"], width)
    if status.next_opening is not None:
        lines += _cut([f"  the next window opens at {terminal.stamp(status.next_opening)}"], width)
    if status.estimated_end is not None and not changes.has_ended(rollout):
        left = spans.span((status.estimated_end - now).total_seconds())
        lines += _cut([f"  estimated end at {terminal.stamp(status.estimated_end)}, in {left}"], width)
    devices = devices_by_batch(rollout, jobs)
    batches = _batches_shown(status.batches)
    omitted = status.batches_omitted + len(status.batches) - len(batches)
    for at, batch in enumerate(batches):
        final = at == len(batches) - 1 and not omitted
        head = (twigs.last if final else twigs.branch) + f"{batch.name or 'batch'} ({batch.number}): "
        lines.append(_line(head, batch_text(batch), twigs, colour, width))
        indent = " " * len(twigs.through) if final else twigs.through
        lines += _device_lines(devices.get(batch.number, []), indent, twigs, colour, width)
    if omitted:
        lines.append(f"{twigs.last}and {omitted} more batches")
    return lines


def _batches_shown(batches: Sequence[BatchStatus]) -> list[BatchStatus]:
    """All where they are few; of many, those that are open or went wrong, and the next."""
    if len(batches) <= _BATCHES_SHOWN:
        return list(batches)
    active = [each for each in batches if each.phase not in {"Passed", "Planned", ""}]
    planned = [each for each in batches if each.phase in {"Planned", ""}][:2]
    passed = [each for each in batches if each.phase == "Passed"][-3:]
    return sorted([*passed, *active, *planned], key=lambda each: each.number)


def _device_lines(
    devices: Sequence[FlashedDevice], indent: str, twigs: Twigs, colour: bool, width: int | None
) -> list[str]:
    shown = devices if len(devices) <= DEVICES_SHOWN else devices[: DEVICES_SHOWN - 1]
    lines = []
    for at, device in enumerate(shown):
        final = at == len(shown) - 1 and len(shown) == len(devices)
        head = indent + (twigs.last if final else twigs.branch) + f"{name_of(device)}: "
        lines.append(_line(head, device_text(device), twigs, colour, width))
    if len(shown) < len(devices):
        lines.append(f"{indent}{twigs.last}and {len(devices) - len(shown)} more devices")
    return lines


def _line(head: str, told: str, twigs: Twigs, colour: bool, width: int | None) -> str:
    word = told.partition(",")[0].partition(":")[0].partition(" ")[0]
    glyph = twigs.glyphs.get(word, "")
    told = f"{glyph} {told}" if glyph else told
    (whole,) = _cut([head + told], width)
    if colour and word in whole[len(head) :]:
        return whole[: len(head)] + whole[len(head) :].replace(word, terminal.state(word, on=True), 1)
    return whole


def _cut(lines: Iterable[str], width: int | None) -> list[str]:
    return [line if width is None else cut(line, max(width - 1, 20)) for line in lines]


def facts(rollout: FirmwareRollout, jobs: Iterable[FlashJob]) -> dict[str, str]:
    """What a log tells, each thing by its name: what is new in it is worth a line."""
    status = rollout.status
    told = {f"rollout {rollout.metadata.name}": headline(rollout) + (f". {status.message}" if status.message else "")}
    for batch in status.batches:
        if batch.phase not in {"Planned", ""}:
            told[f"batch {batch.name} ({batch.number})"] = batch_text(batch)
    for devices in devices_by_batch(rollout, jobs).values():
        for device in devices:
            if device.state and device.state != DeviceState.WAITING:
                told[f"device {name_of(device)}"] = device_text(device)
    return told


def news(before: Mapping[str, str], after: Mapping[str, str], now: datetime) -> list[str]:
    """A dated line for each thing that has changed."""
    return [f"{terminal.stamp(now)} {name}: {text}" for name, text in after.items() if before.get(name) != text]
