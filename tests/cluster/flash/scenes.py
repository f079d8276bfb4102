"""What scenarios of FlashJobs ask and do again and again, next to what the stage itself can: pure questions first.

The scenarios of the weak points and of jobs that meet on one device use it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import msgspec

from edgewright.api import FlashJob
from edgewright.api.flashjob import FlashedDevice
from edgewright.api.instance import Instance
from edgewright.cli.instance_registration import LABEL
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.objects import Key, ObjectMeta
from tests.cluster.flash.stage import ADDRESSES, Stage
from tests.harness import ApiServer, LocalPlane

PAUSES = "slow:65536=1"
"""Makes the first device pause while it takes its firmware: that is where the stage can hold it."""


def entries(job: FlashJob) -> dict[str, FlashedDevice]:
    """What a job shows of each device, by its uuid."""
    return {each.uuid: each for each in job.status.devices}


def outcomes(job: FlashJob) -> dict[str, str]:
    """How each device ended, by its uuid."""
    return {uuid: each.outcome for uuid, each in entries(job).items()}


def versions_written(stage: Stage, number: int) -> list[str]:
    """The versions in the firmwares that a device was given whole, the oldest first."""
    return [entry.version for entry in stage.fleet[number].journal.of(Did.WRITTEN)]


def spans(stage: Stage, *numbers: int) -> list[tuple[float, float]]:
    """From when to when the updates of these devices went on, the earliest first."""
    found = []
    for number in numbers:
        runs: dict[int, list[float]] = {}
        for entry in stage.fleet[number].journal:
            if entry.run:
                runs.setdefault(entry.run, []).append(entry.at)
        found += [(min(times), max(times)) for times in runs.values()]
    return sorted(found)


def one_after_the_other(times: Sequence[tuple[float, float]]) -> bool:
    """Whether none of them began before the one before was over."""
    return all(before[1] <= after[0] for before, after in itertools.pairwise(times))


def only_address(server: ApiServer) -> str:
    """An address that Services can ask for, and that only one of them can have."""
    return f"127.60.{os.getpid() % 250}.77" if isinstance(server, LocalPlane) else ADDRESSES[0]


async def shown(stage: Stage, uuid: str, words: str, name: str = "job") -> FlashedDevice:
    """The device as the job shows it, once its message says this."""

    async def said() -> FlashedDevice | None:
        entry = entries(await stage.get(name)).get(uuid)
        return entry if entry is not None and words in entry.message else None

    return await stage.until(said, f"{name} says of {uuid}: {words}")


async def discovered(stage: Stage) -> dict[int, str]:
    """The uids of the Instances, once there are Devices for all of them: from then on a job begins with its first."""
    uids = await stage.uids()

    async def known() -> bool:
        return {*uids.values()} <= {uid for each in await stage.devices() for uid in each.status.instances}

    await stage.until(known, "all Instances are known")
    return uids


async def another_instance(stage: Stage, number: int) -> str:
    """Another node's Instance of the same device; its uid, once it is known to be of that device."""
    made = await doubled(stage, number)

    async def recognised() -> bool:
        return made.metadata.uid in (await stage.device(number)).status.instances

    await stage.until(recognised, "both Instances are of one device")
    return made.metadata.uid


async def doubled(stage: Stage, number: int) -> Instance:
    """Makes another node's Instance of a device that is discovered."""
    api, name = stage.client.of(Instance), stage.registration.names[number]
    known = await api.get(Key(stage.namespace, name))
    spec = msgspec.structs.replace(known.spec, nodes=("elsewhere",))
    metadata = ObjectMeta(name=f"{name}-elsewhere", namespace=stage.namespace, labels={LABEL: stage.configuration})
    return await api.create(Instance(metadata=metadata, spec=spec))
