"""From the questions of `filter_uuid.py` to one FirmwareRollout that is followed to its end.

`rollout create` without flags and the script call it. Nothing is written before the last answer; afterwards the rollout
goes on by itself, whoever watches, so no batch is ever orphaned, and the same can be had again by the command that is
printed. What is said besides the lines of the script goes to standard error.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from edgewright.api.device import Device, FlashRecord
from edgewright.api.firmwarerollout import BATCH_ANNOTATION, DeviceSelector, FirmwareRollout, FirmwareRolloutSpec
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob, FlashJobTemplate
from edgewright.cli import (
    rollout_change,
    rollout_create,
    rollout_flags,
    rollout_follow,
    rollout_questions,
    rollout_text,
    terminal,
)
from edgewright.cli.cluster import Place
from edgewright.cli.failure import Failed, RolloutFailed, WrongUsage
from edgewright.controllers.rollout import changes
from edgewright.runtime.client import Client
from edgewright.runtime.errors import AlreadyExists, NotFound

_TRIES: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a rollout of the dialogue has ended."""

    rollout: FirmwareRollout
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why each device failed that did, by its uuid."""


def asked(
    where: Place,
    *,
    narrowed: str | None,
    file: str,
    flasher_image: str | None,
    plain: Sequence[str] | None,
    name: str,
    piped: bool = False,
) -> None:
    """Asks everything, creates the rollout, and follows it to its end; the script takes answers from a pipe too."""
    if not piped and not terminal.is_terminal(sys.stdin):
        raise WrongUsage(
            "name at least --firmware, since questions are asked on a terminal only: `edgewright rollout create --help`"
        )
    target = file or rollout_questions.FILE
    rollout_questions.demand_untracked(Path(target))
    options = rollout_questions.Options(
        namespace=where.namespace, file=target, flasher_image=flasher_image, plain_registries=plain or ()
    )
    instances = rollout_questions.get_akri_instances(narrowed, settings=where.settings)
    choice = rollout_questions.dialogue(instances, options)
    if choice is None:
        raise Failed("nothing was chosen, and nothing was changed")
    ended = rolled_out(where, choice, name=name)
    for uuid, why in ended.failed.items():
        print(f"{uuid} failed: {why}", flush=True)
    if ended.failed:
        raise RolloutFailed(f"{len(ended.failed)} of {len(choice.uuids)} devices failed")
    if (problem := rollout_text.verdict(ended.rollout)) is not None:
        raise problem
    print(f"All {len(choice.uuids)} devices run {choice.job.version}", flush=True)


def rolled_out(where: Place, choice: rollout_questions.Choice, *, name: str = "") -> Ended:
    """Saves the FlashJob of all devices, creates the one rollout, and follows it to its end."""
    rollout_questions.save(choice.uuids, choice.job, choice.job.file)
    spec = spec_of(choice)
    base = name or rollout_flags.name_from(choice.job.firmware, choice.job.version)
    rollout = where.run(lambda client: made(client, where, spec, base, unique=bool(name)))
    called = rollout.metadata.name
    again = rollout_create.Wanted(name=called, spec=spec)
    terminal.say(f"Rollout {called}. Follow it elsewhere with: {rollout_change.hint(where, called)}")
    terminal.say(f"The same without questions: {command_of(again, where)}")
    told = Lines(choice, where.run(lambda client: uuids_of(client, choice.uuids)))
    try:
        ended = where.run(
            lambda client: rollout_follow.follow(client, where, called, show=told.show, until=changes.has_ended)
        )
    except KeyboardInterrupt:
        stop = rollout_change.hint(where, called, "pause")
        terminal.say(f"\nInterrupted: rollout {called} goes on by itself with all chosen devices; `{stop}` stops it")
        raise
    devices = where.run(_devices)
    return Ended(rollout=ended, failed=failures(ended, devices, choice.uuids))


async def made(
    client: Client, where: Place, spec: FirmwareRolloutSpec, name: str, *, unique: bool = False
) -> FirmwareRollout:
    """The rollout, which is made unless the same one is under way; where others have its name, it gets a number.

    `unique` says that it may have this name only, for somebody chose it.
    """
    for number in range(1, _TRIES):
        called = name if number == 1 else f"{name}-{number}"
        wanted = rollout_create.Wanted(name=called, spec=spec)
        try:
            await client.raw(FirmwareRollout.kind).create(rollout_create.manifest(wanted, where))
        except AlreadyExists:
            present = await rollout_follow.get(client, where, called)
            if present.spec == spec and not changes.has_ended(present) and not present.deleting:
                return present
            if unique:
                raise rollout_create.taken(wanted, where) from None
            continue
        except NotFound as error:
            raise rollout_create.unserved(wanted, where, error) from None
        return await rollout_follow.get(client, where, called)
    raise Failed(f"there are too many rollouts called {name}: choose another name with --name")


def spec_of(choice: rollout_questions.Choice) -> FirmwareRolloutSpec:
    """The rollout that the answers ask for: these devices and no others, so many at a time."""
    spec = FirmwareRolloutSpec(
        selector=DeviceSelector(uuids=tuple(choice.uuids)),
        dynamic=False,
        firmware=choice.job.firmware,
        version=choice.job.version,
        batch_size=choice.step,
        interval_seconds=choice.delay,
    )
    image = choice.job.flasher_image
    return msgspec.structs.replace(spec, template=FlashJobTemplate(flashjob_pod_image=image)) if image else spec


def command_of(wanted: rollout_create.Wanted, where: Place) -> str:
    """The command without questions that creates the same rollout."""
    spec = wanted.spec
    words = ["edgewright", "rollout", "create", wanted.name, "--firmware", spec.firmware, "--version", spec.version]
    words += ["--batch-size", str(spec.batch_size), "--interval", f"{spec.interval_seconds}s"]
    if spec.template.flashjob_pod_image:
        words += ["--flasher-image", spec.template.flashjob_pod_image]
    for uuid in spec.selector.uuids:
        words += ["--uuid", uuid]
    return shlex.join(words) + where.typed


def failures(rollout: FirmwareRollout, devices: Iterable[Device], chosen: Sequence[str]) -> dict[str, str]:
    """Why each of the chosen devices failed that did; one that nobody knows has not got its firmware either."""
    by_uuid = {uuid: device for device in devices for uuid in (device.metadata.uid, *device.status.instances)}
    found = {}
    for uuid in chosen:
        device = by_uuid.get(uuid)
        if device is None:
            found[uuid] = "there is no Device for it: is the operator running, and does Akri still see it?"
            continue
        record = _latest(each for each in device.status.records if each.rollout == rollout.metadata.uid)
        if record is None:
            found[uuid] = _left_out(device, rollout)
        elif record.outcome in _BAD:
            found[uuid] = record.message or record.outcome
    return found


def _left_out(device: Device, rollout: FirmwareRollout) -> str:
    name, namespace = device.metadata.name, rollout.metadata.namespace
    if not device.spec.allows(namespace):
        return f"spec.allowedNamespaces of its Device {name} does not name {namespace}"
    if device.status.quarantined:
        return f"it is quarantined: look at it, then run `edgewright devices release {name}`"
    return rollout.status.message


_BAD: Final = frozenset(outcome.value for outcome in Outcome if not outcome.good)


def _latest(records: Iterable[FlashRecord]) -> FlashRecord | None:
    return max(records, key=lambda each: each.time.timestamp() if each.time is not None else 0.0, default=None)


async def _devices(client: Client) -> list[Device]:
    return (await client.of(Device).list()).items


async def uuids_of(client: Client, chosen: Sequence[str]) -> dict[str, str]:
    """The uuid by which each Device was chosen, by its name: a rollout calls devices by their names."""
    wanted = set(chosen)
    found = {}
    for device in await _devices(client):
        for uuid in (device.metadata.uid, *device.status.instances):
            if uuid in wanted:
                found[device.metadata.name] = uuid
    return found


class Lines:
    """The lines that the script printed for each batch, while a rollout goes on."""

    def __init__(self, choice: rollout_questions.Choice, uuids: Mapping[str, str]) -> None:
        self._delay = choice.delay
        self._file = choice.job.file
        self._uuids = uuids
        self._opened: set[int] = set()
        self._ended: set[int] = set()
        self._said = ""

    def show(self, rollout: FirmwareRollout, jobs: list[FlashJob]) -> None:
        """Prints what is new."""
        counts = rollout.status.counts
        taken = {each for job in jobs for each in job.spec.uuids}
        untaken = counts is not None and counts.total - counts.excluded - counts.quarantined > len(taken)
        ended = {batch.number for batch in rollout.status.batches if batch.ended is not None}
        by_batch = {number: job for job in reversed(jobs) if (number := _batch_of(job))}
        # One look may show the end of a batch and the next batch at once: the wait is over then, and told all the same.
        for number, job in sorted(by_batch.items()):
            if number not in self._opened:
                self._open(number, [self._uuids.get(each, each) for each in job.spec.uuids])
            if number in ended - self._ended:
                self._ended.add(number)
                if self._delay and (untaken or number < max(by_batch)):
                    print(f"Waiting for {self._delay} seconds before the next batch...", flush=True)
        if rollout.status.message and rollout.status.message != self._said:
            self._said = rollout.status.message
            terminal.say(f"Rollout {rollout.metadata.name}: {self._said}")

    def _open(self, number: int, uuids: list[str]) -> None:
        print(f"Applying batch {number} with UUIDs: {uuids}", flush=True)
        if not self._opened:
            # One file and one rollout for all batches: both stand when the first one opens.
            print(rollout_questions.saved(self._file), flush=True)
            print(f"Successfully applied {self._file}", flush=True)
        self._opened.add(number)


def _batch_of(job: FlashJob) -> int:
    """The number of the batch that a job belongs to; 0 where it does not say."""
    return int(job.metadata.annotations.get(BATCH_ANNOTATION, "0"))
