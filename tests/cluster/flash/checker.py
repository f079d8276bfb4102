"""What must be true of a fleet after FlashJobs, whatever went wrong meanwhile: asked of the devices themselves.

A test lets `Witness.watch` run next to the jobs and calls `problems` when they have ended. The devices' journals and
what they run now are the truth; Devices and FlashJobs are what is checked against it. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from edgewright.api import Device, FlashJob
from edgewright.api.device import FlashRecord
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState, FlashedDevice
from edgewright.devices.simulated.device import Device as SimulatedDevice
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did, Entry
from edgewright.runtime import Api, Cache

TOO_SLOW = frozenset({Outcome.UNREACHABLE, Outcome.TIMED_OUT})
"""How a single attempt may end on a machine that has too much else to do: then it is told so, and no fault of ours."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a job must have come to."""

    version: str
    sha256: str
    """The hash of its firmware, as the devices tell it."""
    retries: int
    numbers: Mapping[str, int]
    """The simulated device behind each of its uuids."""
    certain: Collection[int]
    """The devices that nothing keeps from being flashed: to fail on one of them is a fault of ours."""
    outcomes: Mapping[int, Collection[Outcome]] = field(default_factory=dict)
    """How devices with faults may end; another end than that, or than too slow, is not the truth about them."""
    alone: bool = True
    """Whether no other job flashes its devices: then all that is done to them is its doing, and they run its firmware.
    Else only what came of its own firmware is."""

    def tries(self, journal: Iterable[Entry]) -> int:
        """How often the job has begun with a device, as far as that can be told."""
        return sum(
            entry.did is Did.ASKED if self.alone else entry.did is Did.WRITTEN and entry.sha256 == self.sha256
            for entry in journal
        )

    def met(self, job: FlashJob) -> set[int]:
        """The devices that ended as they may, and not too slow."""
        ends = {self.numbers[each.uuid]: each.outcome for each in job.status.devices if each.uuid in self.numbers}
        return {number for number, outcome in ends.items() if outcome in self.outcomes.get(number, ())}


class Witness:
    """Sees when each success is recorded, and says in the end what is not as it must be."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._by_then: dict[tuple[str, int], int] = {}

    async def watch(self, api: Api[Device]) -> None:
        """Looks at the Devices of a server as they change, until cancelled."""
        cache = Cache(api)
        cache.subscribe(lambda change: self.look(change.latest))
        await cache.run()

    def look(self, device: Device) -> None:
        """Notes how much had happened to a device when a job's success on it was recorded."""
        good = [record for record in device.status.records if Outcome(record.outcome).good]
        for simulated in self._fleet if good else ():
            if simulated.endpoint == device.spec.endpoint:
                for record in good:
                    self._by_then.setdefault((record.job.uid, simulated.number), len(simulated.journal))

    def problems(self, job: FlashJob, devices: Iterable[Device], expected: Expected) -> list[str]:
        """Everything that is wrong with a job that has ended and with its devices, a sentence for each."""
        at = {each.spec.endpoint: each for each in devices}
        shown = {each.uuid: each for each in job.status.devices}
        found = [f"{uuid} is not shown" for uuid in expected.numbers if uuid not in shown]
        done = {uuid for uuid, each in shown.items() if each.state == DeviceState.DONE}
        if set(job.status.completed_uuids) != done:
            found.append(f"completedUUIDs are {sorted(job.status.completed_uuids)}, and done are {sorted(done)}")
        for uuid, number in expected.numbers.items():
            simulated = self._fleet[number]
            device = at.get(simulated.endpoint)
            if device is None:
                found.append(f"device {number} has no Device")
            elif uuid in shown:
                for problem in self._of_device(job, expected, shown[uuid], device, simulated):
                    faults = ", ".join(map(str, simulated.faults)) or "no fault"
                    happened = ", ".join(f"{each.did} {each.detail}".strip() for each in simulated.journal)
                    found.append(f"device {number} ({faults}; {shown[uuid].outcome}; {happened}): {problem}")
        return found

    def _of_device(
        self, job: FlashJob, expected: Expected, shown: FlashedDevice, device: Device, simulated: SimulatedDevice
    ) -> Iterator[str]:
        record = device.status.record_of(job.metadata.uid)
        if device.status.claim is not None:
            yield f"it is still claimed by {device.status.claim.job.name}"
        if simulated.journal.written_by_two_at_once:
            yield "it was written by two at once"
        if record is None:
            yield "no outcome is recorded"
            return
        if shown.state not in {DeviceState.DONE, DeviceState.FAILED}:
            yield f"it is stranded: {shown.state}, {shown.message}"
        if shown.outcome != record.outcome:
            yield f"{record.outcome} is recorded"
        may = expected.outcomes.get(simulated.number)
        if may is not None and record.outcome not in {*may, *TOO_SLOW}:
            yield f"it may end as {' or '.join(sorted(may))}, and not so: {record.message}"
        yield from self._of_attempts(expected, record, simulated)
        if shown.state == DeviceState.DONE:
            yield from _of_success(expected, record, simulated)
            by_then = self._by_then.get((job.metadata.uid, simulated.number))
            if by_then is None:
                yield "nobody saw its success recorded"
            elif again := expected.tries([*simulated.journal][by_then:]):
                yield f"it was begun with {again} times more after its success was recorded"
        elif simulated.number in expected.certain and not (expected.retries == 0 and record.outcome in TOO_SLOW):
            yield f"nothing kept it from being flashed: {record.message}"

    def _of_attempts(self, expected: Expected, record: FlashRecord, simulated: SimulatedDevice) -> Iterator[str]:
        if not 1 <= record.attempts <= expected.retries + 1:
            yield f"it has had {record.attempts} attempts"
        tries = expected.tries(simulated.journal)
        if tries > record.attempts:
            yield f"it was begun with {tries} times in {record.attempts} attempts"


def _of_success(expected: Expected, record: FlashRecord, simulated: SimulatedDevice) -> Iterator[str]:
    running = simulated.running
    if not simulated.present:
        yield "it is counted as completed and does not answer"
    if not expected.alone:
        if record.outcome == Outcome.SUCCEEDED and expected.tries(simulated.journal) == 0:
            yield "it is counted as flashed and was never given the firmware"
        return
    if running.sha256 != expected.sha256:
        yield f"it is counted as completed and runs {running.version}, which is not the firmware"
    if running.version != expected.version:
        yield f"it is counted as completed and reports {running.version}"
