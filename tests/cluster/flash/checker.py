"""What must be true of a fleet after FlashJobs, whatever went wrong meanwhile: asked of the devices themselves.

A test lets `Witness.watch` run beside the jobs and calls `problems` when they have ended. The devices' journals and
what they run now are the truth; Devices and FlashJobs are what is checked against it. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from edgewright.api import Device, FlashJob
from edgewright.api.device import FlashRecord
from edgewright.api.flashing import Outcome
from edgewright.api.flashjob import DeviceState, FlashedDevice
from edgewright.devices.simulated.device import Device as SimulatedDevice
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did
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


class Witness:
    """Sees when each success is recorded, and says in the end what is not as it must be."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._asked: dict[tuple[str, int], int] = {}

    async def watch(self, api: Api[Device]) -> None:
        """Looks at the Devices of a server as they change, until cancelled."""
        cache = Cache(api)
        cache.subscribe(lambda change: self.look(change.latest))
        await cache.run()

    def look(self, device: Device) -> None:
        """Notes how often a device had been told to update when a job's success on it was recorded."""
        good = [record for record in device.status.records if Outcome(record.outcome).good]
        for simulated in self._fleet if good else ():
            if simulated.endpoint == device.spec.endpoint:
                for record in good:
                    self._asked.setdefault((record.job.uid, simulated.number), simulated.journal.count(Did.ASKED))

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
        yield from self._of_attempts(expected, record, simulated)
        if shown.state == DeviceState.DONE:
            yield from _of_success(expected, simulated)
            noted = self._asked.get((job.metadata.uid, simulated.number))
            asked = simulated.journal.count(Did.ASKED)
            if noted != asked:
                yield f"it had been told to update {noted} times when its success was recorded, and has been {asked}"
        elif simulated.number in expected.certain and not (expected.retries == 0 and record.outcome in TOO_SLOW):
            yield f"nothing kept it from being flashed: {record.message}"

    def _of_attempts(self, expected: Expected, record: FlashRecord, simulated: SimulatedDevice) -> Iterator[str]:
        if not 1 <= record.attempts <= expected.retries + 1:
            yield f"it has had {record.attempts} attempts"
        asked = simulated.journal.count(Did.ASKED)
        if asked > record.attempts:
            yield f"it was told to update {asked} times in {record.attempts} attempts"


def _of_success(expected: Expected, simulated: SimulatedDevice) -> Iterator[str]:
    running = simulated.running
    if not simulated.present:
        yield "it is counted as completed and does not answer"
    if running.sha256 != expected.sha256:
        yield f"it is counted as completed and runs {running.version}, which is not the firmware"
    if running.version != expected.version:
        yield f"it is counted as completed and reports {running.version}"
