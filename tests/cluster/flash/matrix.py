"""A run of the fault matrix: a fleet with every fault, a job for each part of it, and a witness, in whatever trouble.

`test_fault_matrix` and `test_leader_change` make runs of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewright.api import Device, FlashJob
from edgewright.api.flash_pod import Outcome
from edgewright.devices.simulated.faults import FaultKind
from edgewright.devices.simulated.firmware import esp_image
from tests.cluster.flash.checker import Expected, Witness
from tests.cluster.flash.operators import PATIENCE, Trouble, at_work
from tests.cluster.flash.stage import APPLICATION, Stage
from tests.harness import ApiServer, wait_until_async
from tests.unit.runtime.fakeserver import running

VERSION = "0.2.0"
FLEET = ("", "vanish:before", *(f"{kind}{times}" for kind in FaultKind for times in ("", ":once")))
"""The fault of each of the 20 devices of a job."""
HARMLESS = {"", *(f"{kind}{times}" for kind in ("slow", "change-application") for times in ("", ":once"))}
"""With these a device is flashed at the first attempt."""
PASSING = {f"{kind}:once" for kind in ("drop-transfer", "wrong-version", "boot-loop", "corrupt", "same-version")}
"""With these it is flashed at the second. One that vanishes once may be back too late for all attempts."""
LASTING = {each.removesuffix(":once") for each in PASSING} | {"vanish", "vanish:before"}
"""With these every attempt fails, and another follows as long as there is one."""
FAILURES = {
    "refuse-attestation": {Outcome.REFUSED},
    "drop-transfer": {Outcome.FAILED},
    "wrong-version": {Outcome.FAILED},
    "boot-loop": {Outcome.REVERTED},
    "vanish": {Outcome.TIMED_OUT},
    "vanish:before": {Outcome.UNREACHABLE, Outcome.TIMED_OUT},
    "corrupt": {Outcome.FAILED},
    "same-version": {Outcome.REVERTED},
}
"""How an attempt ends that meets a fault."""
UNSEEN = {"boot-loop", "same-version"}
"""Faults that only a restart tells from a firmware that was not taken. A device that counts its restarts always tells.
Of one that does not, like the published firmware, the flasher must see that it is gone: in scaled time it is for 0.2 s,
in which a process on a busy machine may not have its turn. What was not seen is not proven: the flash has failed then.
"""
LATER = {"vanish": {Outcome.UNREACHABLE}, "wrong-version": {Outcome.REVERTED}}
"""How one may end that follows another: the device is still gone, or reports the same wrong version again."""
AT_ONCE = 5
"""How many devices a job flashes at once, of which two run on each of two servers: each is a process."""
TIMEOUT = 20
"""Of an attempt, in seconds: what a device that vanishes for good takes."""


@dataclass(frozen=True)
class Part:
    """One job of a run: how often it tries again, and the faults of its devices."""

    retries: int
    fleet: tuple[str, ...] = FLEET

    @property
    def least(self) -> int:
        """The fewest attempts that it can take."""
        each = {**dict.fromkeys(LASTING, self.retries + 1), **dict.fromkeys(PASSING, min(2, self.retries + 1))}
        return sum(each.get(fault, 1) for fault in self.fleet)

    @property
    def certain(self) -> set[str]:
        """The faults with which a device is flashed all the same."""
        return HARMLESS | PASSING if self.retries else HARMLESS

    def outcomes(self, fault: str, *, counts: bool) -> set[Outcome]:
        """How a device with this fault may end; `counts` says that it counts its restarts."""
        kind = fault.removesuffix(":once")
        if fault in self.certain or fault == "vanish:once":  # which is back soon enough for the same attempt
            return {Outcome.SUCCEEDED}
        failures = FAILURES[kind] | (LATER.get(kind, set()) if self.retries else set())
        if kind in UNSEEN and not counts:
            failures |= {Outcome.FAILED}
        # What it shows once may have been in an attempt that was too slow.
        return failures | ({Outcome.SUCCEEDED} if self.retries and fault != kind else set())

    def shuffled(self, chance: random.Random) -> list[str]:
        """The faults of its devices in their order; those that take longest begin, and the others do not wait."""
        return sorted(chance.sample(self.fleet, len(self.fleet)), key=lambda fault: not fault.startswith("vanish"))


WHOLE = {"once": Part(0), "again": Part(3)}
"""The jobs of a run of the matrix, by their names."""


async def side_by_side(
    servers: Mapping[str, ApiServer],
    directory: Path,
    trouble: Trouble,
    *,
    seed: int | str,
    parts: Mapping[str, Part] = WHOLE,
) -> None:
    """A run on each server at the same time: while the devices of one take their time, the other's use the cores."""
    async with asyncio.TaskGroup() as runs:
        for name, server in servers.items():
            (directory / name).mkdir()
            runs.create_task(run(server, directory / name, trouble, seed=f"{name} {seed}", parts=parts), name=name)


async def run(
    server: ApiServer, directory: Path, trouble: Trouble, *, seed: str, parts: Mapping[str, Part] = WHOLE
) -> None:
    """One run, from its namespace to the witness's judgement."""
    chance = random.Random(seed)
    fleet = {name: part.shuffled(chance) for name, part in parts.items()}
    every = [fault for faults in fleet.values() for fault in faults]
    faults = [f"{fault}={number}" for number, fault in enumerate(every, start=1) if fault]
    namespace = await asyncio.to_thread(server.create_namespace, "fault-matrix")
    counting = chance.sample(range(1, len(every) + 1), len(every) // 2)
    async with Stage(
        server, namespace, devices=len(every), faults=faults, tells_boot=counting, operator=False
    ) as stage:
        witness = Witness(stage.fleet)
        expected = await declare(stage, fleet, parts, counting)
        async with running(witness.watch(stage.client.of(Device))), at_work(stage, directory, trouble, chance):
            jobs = [await ended(stage, directory, name) for name in expected]
            await stage.until_clean()
        devices = await stage.devices()
        problems = [each for job in jobs for each in witness.problems(job, devices, expected[job.metadata.name])]
        assert not problems, f"seed {seed!r}, {trouble}:\n" + "\n".join(problems)
        ends = [(expected[job.metadata.name], job) for job in jobs]
        met = {each for goal, job in ends for each in sorts(goal, every, goal.met(job))}
        wanted = {each for goal, _ in ends for each in sorts(goal, every, goal.outcomes)}
        assert met == wanted, f"seed {seed!r}, {trouble}: every device was too slow with {wanted - met}"
        least = sum(part.least for part in parts.values())
        assert sum(each.attempts for job in jobs for each in job.status.devices) >= least
    server.request("DELETE", f"/api/v1/namespaces/{namespace}")


def sorts(expected: Expected, faults: Sequence[str], numbers: Iterable[int]) -> Iterator[tuple[str, bool]]:
    """What is wrong with these devices, and whether they may be flashed all the same."""
    for number in numbers:
        yield faults[number - 1].partition(":")[0], Outcome.SUCCEEDED in expected.outcomes[number]


async def declare(
    stage: Stage, fleet: Mapping[str, list[str]], parts: Mapping[str, Part], counting: Collection[int]
) -> dict[str, Expected]:
    """Makes the jobs, each for a part of the fleet, and says what they must come to; some count their restarts."""
    firmware = stage.firmware(VERSION)
    sha256 = hashlib.sha256(esp_image(version=VERSION, project=APPLICATION)).hexdigest()
    uids = await stage.uids()
    expected = {}
    first = 1
    for name, faults in fleet.items():
        numbers = dict(enumerate(faults, start=first))
        first += len(faults)
        await stage.job(
            name,
            version=VERSION,
            firmware=firmware,
            uuids=[uids[number] for number in numbers],
            retries=parts[name].retries,
            maxConcurrent=AT_ONCE,
            timeoutSeconds=TIMEOUT,
        )
        expected[name] = Expected(
            version=VERSION,
            sha256=sha256,
            retries=parts[name].retries,
            numbers={uids[number]: number for number in numbers},
            certain={number for number, fault in numbers.items() if fault in parts[name].certain},
            outcomes={
                number: parts[name].outcomes(fault, counts=number in counting) for number, fault in numbers.items()
            },
        )
    return expected


async def ended(stage: Stage, logs: Path, name: str, namespace: str = "") -> FlashJob:
    """The job once it is over."""

    async def over() -> FlashJob | None:
        job = await stage.get(name, namespace)
        return job if job.status.completion_time is not None else None

    try:
        # Seldom: many processes share the machine's cores with whoever asks.
        return await wait_until_async(over, timeout=PATIENCE, what=f"{name} is over, see {logs}", interval=0.3)
    except AssertionError as error:
        raise AssertionError(f"{error}; its status is {(await stage.get(name, namespace)).status.to_raw()}") from None
