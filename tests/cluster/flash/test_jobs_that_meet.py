"""Jobs of two namespaces that want the same devices, each by another node's Instance, while the leader changes.

Each device is flashed once for either job, never by both at once, whoever of two operators began with it.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Mapping
from pathlib import Path

from edgewright.api import Device
from edgewright.devices.simulated.firmware import esp_image
from tests.cluster.flash.checker import Expected, Witness
from tests.cluster.flash.matrix import AT_ONCE, TIMEOUT, ended
from tests.cluster.flash.operators import Trouble, at_work
from tests.cluster.flash.scenes import doubled, one_after_the_other, spans, versions_written
from tests.cluster.flash.stage import APPLICATION, Stage
from tests.harness import ApiServer
from tests.unit.runtime.fakeserver import running

DEVICES = 8
RETRIES = 2
VERSIONS = {"first": "0.2.0", "second": "0.3.0"}
"""What the jobs give the devices, by their names."""
SLOW = f"slow:65536={','.join(map(str, range(1, DEVICES + 1, 2)))}"


async def test_two_jobs_in_two_namespaces_meet_on_the_instances_of_one_device_while_the_leader_changes(
    flash_cluster: ApiServer, flash_plane: ApiServer, tmp_path: Path
) -> None:
    async with asyncio.TaskGroup() as runs:
        for name, server in {"real": flash_cluster, "local": flash_plane}.items():
            (tmp_path / name).mkdir()
            runs.create_task(meet(server, tmp_path / name, Trouble(changes=2), seed=name), name=name)


async def meet(server: ApiServer, directory: Path, trouble: Trouble, *, seed: str) -> None:
    """Both jobs, from their beginning to what the witness says."""
    chance = random.Random(seed)
    namespaces = [await asyncio.to_thread(server.create_namespace, f"meet-{name}") for name in VERSIONS]
    first, *others = namespaces
    async with Stage(server, first, devices=DEVICES, faults=[SLOW], operator=False, also=others) as stage:
        witness = Witness(stage.fleet)
        uids = await stage.uids()
        elsewhere = {number: (await doubled(stage, number)).metadata.uid for number in uids}
        expected = {}
        for name, namespace, known in zip(VERSIONS, namespaces, (uids, elsewhere), strict=True):
            expected[name] = await declare(stage, name, namespace, known)
        async with running(witness.watch(stage.client.of(Device))), at_work(stage, directory, trouble, chance):
            jobs = [await ended(stage, directory, *each) for each in zip(VERSIONS, namespaces, strict=True)]
            await stage.until_clean()
        devices = await stage.devices()
        assert len(devices) == DEVICES
        problems = [each for job in jobs for each in witness.problems(job, devices, expected[job.metadata.name])]
        assert not problems, f"seed {seed!r}:\n" + "\n".join(problems)
        for number in uids:
            assert one_after_the_other(spans(stage, number)), f"device {number} was updated twice at once"
            assert {*versions_written(stage, number)} == {*VERSIONS.values()}
            firmware = (await stage.device(number)).status.firmware
            assert firmware is not None
            assert firmware.version == stage.fleet[number].running.version == versions_written(stage, number)[-1]
    for namespace in namespaces:
        server.request("DELETE", f"/api/v1/namespaces/{namespace}")


async def declare(stage: Stage, name: str, namespace: str, uids: Mapping[int, str]) -> Expected:
    """Makes one of the jobs, and says what it must come to."""
    version = VERSIONS[name]
    await stage.job(
        name,
        version=version,
        uuids=[*uids.values()],
        namespace=namespace,
        retries=RETRIES,
        maxConcurrent=AT_ONCE,
        timeoutSeconds=TIMEOUT,
    )
    return Expected(
        version=version,
        sha256=hashlib.sha256(esp_image(version=version, project=APPLICATION)).hexdigest(),
        retries=RETRIES,
        numbers={uid: number for number, uid in uids.items()},
        certain=set(uids),
        alone=False,
    )
