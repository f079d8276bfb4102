"""The fault matrix: every fault of a device, tried again or not, while the operator is killed or sees all too late.

A run is 20 devices with every fault for a job that tries nothing again, and 20 for a job that does. A witness asks the
devices what happened to them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgewright.api import Device, FlashJob
from edgewright.devices.simulated.faults import FaultKind
from edgewright.devices.simulated.firmware import esp_image
from tests.cluster.flash.checker import Expected, Witness
from tests.cluster.flash.stage import APPLICATION, Stage
from tests.harness import ApiServer, Process, wait_until_async
from tests.unit.runtime.fakeserver import running

VERSION = "0.2.0"
RETRIES = {"once": 0, "again": 3}
"""How often the jobs of a run try again, by their names."""
FLEET = ("", "vanish:before", *(f"{kind}{times}" for kind in FaultKind for times in ("", ":once")))
"""The fault of each of the 20 devices of a job."""
HARMLESS = {"", *(f"{kind}{times}" for kind in ("slow", "change-application") for times in ("", ":once"))}
"""With these a device is flashed at the first attempt."""
PASSING = {f"{kind}:once" for kind in ("drop-transfer", "wrong-version", "boot-loop", "corrupt", "same-version")}
"""With these it is flashed at the second. One that vanishes once may be back too late for all attempts."""
LEAST_ATTEMPTS = 66
"""Of a run: 20 of the one job; of the other 4 for each of 7 faults that stay, 2 for each of PASSING, and 8 more. Eight
runs have more than 500."""
AT_ONCE = 5
"""How many devices a job flashes at once, of which two run on each of two servers: each is a process."""
TIMEOUT = 20
"""Of an attempt, in seconds: what a device that vanishes for good takes."""
PATIENCE = 300.0


@dataclass(frozen=True)
class Trouble:
    """What befalls the operator in a run."""

    kills: int = 0
    behind: float = 0.0


TROUBLES = {
    "steady": Trouble(),
    "killed": Trouble(kills=4),
    "behind": Trouble(behind=2.0),
    "both": Trouble(kills=3, behind=2.0),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_every_fault_is_told_as_it_was_whatever_befalls_the_operator(
    flash_cluster: ApiServer, flash_plane: ApiServer, tmp_path: Path, trouble: Trouble
) -> None:
    await side_by_side(flash_cluster, flash_plane, tmp_path, trouble, seed=list(TROUBLES.values()).index(trouble))


@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, 11))
async def test_every_fault_is_told_as_it_was_many_times_over(
    flash_cluster: ApiServer, flash_plane: ApiServer, tmp_path: Path, number: int
) -> None:
    seed = f"{os.environ.get('EDGEWRIGHT_SEED') or random.randrange(1 << 32)} {number}"
    chance = random.Random(seed)
    trouble = Trouble(kills=chance.randrange(8), behind=chance.choice((0.0, chance.uniform(0, 6))))
    await side_by_side(flash_cluster, flash_plane, tmp_path, trouble, seed=seed)


async def side_by_side(
    real: ApiServer, local: ApiServer, directory: Path, trouble: Trouble, *, seed: int | str
) -> None:
    """A run on each server at the same time: while the devices of one take their time, the other's use the cores."""
    async with asyncio.TaskGroup() as runs:
        for name, server in {"real": real, "local": local}.items():
            (directory / name).mkdir()
            runs.create_task(run(server, directory / name, trouble, seed=f"{name} {seed}"), name=name)


async def run(server: ApiServer, directory: Path, trouble: Trouble, *, seed: str) -> None:
    """One run, from its beginning to what the witness says."""
    chance = random.Random(seed)
    fleet = [fault for _ in RETRIES for fault in chance.sample(FLEET, len(FLEET))]
    faults = [f"{fault}={number}" for number, fault in enumerate(fleet, start=1) if fault]
    namespace = server.create_namespace("fault-matrix")
    async with Stage(server, namespace, devices=len(fleet), faults=faults, operator=False) as stage:
        witness = Witness(stage.fleet)
        expected = await declare(stage, fleet)
        operator = stage.operator_process(directory, lease=False, behind=trouble.behind)
        operator.start()
        try:
            async with (
                running(witness.watch(stage.client.of(Device))),
                running(killing(stage, operator, trouble.kills, chance)),
            ):
                jobs = [await ended(stage, operator, name) for name in expected]
                await stage.until_clean()
        finally:
            operator.kill()
        devices = await stage.devices()
        problems = [each for job in jobs for each in witness.problems(job, devices, expected[job.metadata.name])]
        assert not problems, f"seed {seed!r}, {trouble}:\n" + "\n".join(problems)
        assert sum(each.attempts for job in jobs for each in job.status.devices) >= LEAST_ATTEMPTS
    server.request("DELETE", f"/api/v1/namespaces/{namespace}")


async def declare(stage: Stage, fleet: Sequence[str]) -> dict[str, Expected]:
    """Makes the jobs, each for a part of the fleet, and says what they must come to."""
    firmware = stage.firmware(VERSION)
    sha256 = hashlib.sha256(esp_image(version=VERSION, project=APPLICATION)).hexdigest()
    uids = await stage.uids()
    expected = {}
    for part, (name, retries) in enumerate(RETRIES.items()):
        numbers = range(part * len(FLEET) + 1, (part + 1) * len(FLEET) + 1)
        await stage.job(
            name,
            version=VERSION,
            firmware=firmware,
            uuids=[uids[number] for number in numbers],
            retries=retries,
            maxConcurrent=AT_ONCE,
            timeoutSeconds=TIMEOUT,
        )
        expected[name] = Expected(
            version=VERSION,
            sha256=sha256,
            retries=retries,
            numbers={uids[number]: number for number in numbers},
            certain={n for n in numbers if fleet[n - 1] in (HARMLESS | PASSING if retries else HARMLESS)},
        )
    return expected


async def ended(stage: Stage, operator: Process, name: str) -> FlashJob:
    """The job once it is over."""

    async def over() -> FlashJob | None:
        job = await stage.get(name)
        return job if job.status.completion_time is not None else None

    try:
        # Seldom: many processes share the machine's cores with whoever asks.
        return await wait_until_async(over, timeout=PATIENCE, what=f"{name} is over, see {operator.log}", interval=0.3)
    except AssertionError as error:
        raise AssertionError(f"{error}; its status is {(await stage.get(name)).status.to_raw()}") from None


async def killing(stage: Stage, operator: Process, times: int, chance: random.Random) -> None:
    """Kills the operator at random moments and starts another at once; afterwards it must only not end by itself."""
    moment = 0

    def reached() -> bool:
        return sum(len(device.journal) for device in stage.fleet) >= moment

    # Of what happens to the devices of a run there are some 300 entries, and much happens before the first of them.
    for moment in [0, *sorted(chance.randrange(250) for _ in range(times - 1))][:times]:
        await wait_until_async(reached, timeout=PATIENCE, what=f"{moment} things have happened to the devices")
        await asyncio.sleep(chance.uniform(0, 1.5))
        assert operator.running, f"the operator has ended by itself, see {operator.log}"
        await asyncio.to_thread(operator.kill)
        operator.start()
    while True:
        assert operator.running, f"the operator has ended by itself, see {operator.log}"
        await asyncio.sleep(1)
