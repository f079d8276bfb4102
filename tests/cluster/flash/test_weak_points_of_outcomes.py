"""The first six of the twelve weak points of the original operator: a scenario for each, numbered and named after it.

On both servers. What an operator says of a device is believed only where the device's own journal agrees.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from tempfile import NamedTemporaryFile

from edgewright.api import Service
from edgewright.api.flashjob import DeviceState
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.conditions import find
from edgewright.runtime.objects import Key, RawObject
from tests.cluster.flash.foreign_flasher import WORTHLESS
from tests.cluster.flash.scenes import (
    PAUSES,
    another_instance,
    entries,
    one_after_the_other,
    only_address,
    outcomes,
    shown,
    spans,
    versions_written,
)
from tests.cluster.flash.stage import APPLICATION, FOREIGN, LIAR, QUICK, Stage
from tests.harness import ApiServer

LONG = 2 << 20
"""The bytes of a firmware that is not on its way as a whole when a device drops it."""
OTA_SERVER = f"127.62.{os.getpid() % 250}.1"
"""Where a foreign flasher has its firmware."""


def server_side(stage: Stage) -> ssl.SSLContext:
    """The TLS of a server that the devices trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(stage.pair.certificate + stage.pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


@asynccontextmanager
async def ota_server(stage: Stage, content: bytes) -> AsyncIterator[None]:
    """A server that gives the firmware to whoever dials, as those of foreign flashers do."""

    calls: set[asyncio.Task[None]] = set()

    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(4096)
            writer.write(content)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except OSError:
            return  # whether the device has it is not this server's question
        finally:
            writer.transport.abort()

    def call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.add(asyncio.create_task(give(reader, writer)))

    async with await asyncio.start_server(call, OTA_SERVER, 4433, ssl=server_side(stage)):
        try:
            yield
        finally:
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0)  # what was aborted is closed in the next turn of the loop


# --- 1 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_1_no_failure_counts_as_success(flash_server: ApiServer, flash_namespace: str) -> None:
    faults = ["refuse-attestation=1", "drop-transfer:10=2", "wrong-version=3"]
    async with Stage(flash_server, flash_namespace, devices=4, faults=faults) as stage:
        uids = await stage.uids()
        nobody = "d95c7c2d-7dc5-427b-9bf7-000000000000"
        await stage.job(
            uuids=[*uids.values(), nobody],
            retries=0,
            discoveryTimeoutSeconds=1,
            firmware=stage.firmware("0.2.0", size=LONG),
        )
        job = await stage.until_phase("Failed")
        assert outcomes(job) == {
            uids[1]: "refused",
            uids[2]: "failed",
            uids[3]: "failed",
            uids[4]: "succeeded",
            nobody: "not-found",
        }
        assert job.status.completed_uuids == (uids[4],)
        assert "0.0.0-wrong" in entries(job)[uids[3]].message
        ready = find(job.status.conditions, "Ready")
        assert ready is not None
        assert ready.status == "False"
        assert [each.running.version for each in stage.fleet] == ["0.1.0", "0.1.0", "0.0.0-wrong", "0.2.0"]
        await stage.until_clean()


async def test_weak_point_1_a_foreign_flasher_is_not_taken_at_its_word(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    content = esp_image(version="0.2.0", project=APPLICATION)
    async with Stage(flash_server, flash_namespace, devices=2) as stage, ota_server(stage, content):
        uids = await stage.uids()
        await stage.job("liar", uuids=[uids[1]], flashjobPodImage=LIAR, retries=0, timeoutSeconds=3)
        where: RawObject = {"exposure": "None", "externalIP": OTA_SERVER}
        await stage.job("worker", uuids=[uids[2]], flashjobPodImage=FOREIGN, retries=0, **where)
        working = await stage.until_phase("Completed", "worker")
        assert f"exit code {WORTHLESS}" in entries(working)[uids[2]].message
        lying = await stage.until_phase("Failed", "liar")
        assert outcomes(lying) == {uids[1]: "timed-out"}
        assert "exit code 0" in entries(lying)[uids[1]].message
        assert [each.running.version for each in stage.fleet] == ["0.1.0", "0.2.0"]
        # Who has the firmware already is not even given to the foreign flasher.
        await stage.job("again", uuids=[uids[2]], flashjobPodImage=LIAR, retries=0)
        again = await stage.until_phase("Completed", "again")
        assert outcomes(again) == {uids[2]: "already-current"}
        await stage.until_clean()


# --- 2 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_2_a_service_without_an_address_holds_up_nobody_else(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    address = only_address(flash_server)
    async with Stage(flash_server, flash_namespace, devices=2) as stage:
        blocker = await block(stage, address)
        uids = await stage.uids()
        await stage.job("stuck", uuids=[uids[1]], externalIP=address, retries=0)
        await shown(stage, uids[1], "waiting for the address", "stuck")
        await stage.job("other", uuids=[uids[2]])
        await stage.until_phase("Completed", "other")
        stuck = await stage.get("stuck")
        entry = entries(stuck)[uids[1]]
        assert (stuck.status.phase, entry.state, entry.attempts) == ("InProgress", DeviceState.WAITING, 1)
        assert stage.fleet[1].journal.count(Did.ASKED) == 0
        await stage.client.of(Service).delete(blocker)
        job = await stage.until_phase("Completed", "stuck")
        assert entries(job)[uids[1]].attempts == 1
        await stage.until_clean()


async def block(stage: Stage, address: str) -> Key:
    """Somebody else's Service that has this address, for everybody."""
    body: RawObject = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "blocker", "namespace": stage.namespace},
        "spec": {
            "type": "LoadBalancer",
            "loadBalancerIP": address,
            "selector": {"app": "nothing"},
            "ports": [{"port": 4433, "protocol": "TCP"}],
        },
    }
    made = await stage.client.of(Service).create(body)  # type: ignore[arg-type]  # a raw object is as good

    async def has_it() -> bool:
        return (await stage.client.of(Service).get(made.key)).external_address == address

    await stage.until(has_it, f"the blocker has {address}")
    return made.key


# --- 3 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_3_what_happens_is_noticed_by_watching_and_a_settled_job_writes_nothing(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    timing = replace(QUICK, recheck=3600.0, seen_every=3600.0)
    async with Stage(flash_server, flash_namespace, devices=2, timing=timing) as stage:
        uids = await stage.uids()
        await stage.job("settled", uuids=[uids[1]])
        await stage.until_phase("Completed", "settled")
        await stage.until_clean()

        async def discovered_after_its_restart() -> bool:
            return (await stage.uids()).get(1) in (await stage.device(1)).status.instances

        await stage.until(discovered_after_its_restart, "its Instance is known")
        await stage.stop_operator()
        stage.writes.clear()
        before = await stage.get("settled")
        device = await stage.device(1)

        # A new operator looks at all of it again; when it has flashed another device, it has done so long since.
        stage.start_operator()
        await stage.job("other", uuids=[uids[2]])
        await stage.until_phase("Completed", "other")
        await stage.until_clean()
        about = {"settled", uids[1], device.metadata.name}
        assert [write for write in stage.writes if any(word in write[1] for word in about)] == []
        assert (await stage.get("settled")).metadata.resource_version == before.metadata.resource_version
        other = (await stage.device(2)).metadata.name
        made_for_it = [write for write in stage.writes if uids[2] in write[1] or other in write[1]]
        assert len(made_for_it) <= 7, made_for_it


# --- 4 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_4_a_device_that_comes_back_as_another_instance_is_completed(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=2, faults=["vanish:once=2"]) as stage:
        uids = await stage.uids()
        await stage.job(firmware=stage.firmware("0.2.0", project="hygrometer"))
        job = await stage.until_phase("Completed")
        assert outcomes(job) == dict.fromkeys(uids.values(), "succeeded")
        await stage.until_clean()

        async def discovered_again() -> bool:
            return set(await stage.uids()) == {1, 2} and not {*uids.values()} & {*(await stage.uids()).values()}

        await stage.until(discovered_again, "both have other Instances")
        new = await stage.uids()

        async def the_same_devices() -> bool:
            known = [(await stage.device(number)).status.instances for number in (1, 2)]
            return all({uids[n], new[n]} <= {*known[n - 1]} for n in (1, 2))

        await stage.until(the_same_devices, "they are known as the same devices")
        assert len(await stage.devices()) == 2
        assert [each.running.application for each in stage.fleet] == ["hygrometer"] * 2
        assert (await stage.get()).status.phase == "Completed"


# --- 5 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_5_failures_are_tried_again_and_then_final_and_a_job_can_be_limited_and_paused(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=3, faults=["drop-transfer:10:once=1", "slow:1=3"]) as stage:
        uids = await stage.uids()
        firmware = stage.firmware("0.2.0", size=LONG)
        await stage.job("limited", uuids=[uids[1], uids[2]], maxConcurrent=1, paused=True, firmware=firmware)
        await stage.job("slow", uuids=[uids[3]], timeoutSeconds=2, retries=1)
        await shown(stage, uids[1], "paused", "limited")
        assert (await stage.get("limited")).metadata.finalizers == ()
        pods = await stage.until(stage.pods, "another job goes on meanwhile")
        assert [each.metadata.labels["app"] for each in pods] == ["slow"]
        assert spans(stage, 1, 2) == []

        await stage.change("limited", paused=False)
        job = await stage.until_phase("Completed", "limited")
        assert {n: entries(job)[uids[n]].attempts for n in (1, 2)} == {1: 2, 2: 1}
        assert one_after_the_other(spans(stage, 1, 2))

        slow = await stage.until_phase("Failed", "slow")
        assert (outcomes(slow), entries(slow)[uids[3]].attempts) == ({uids[3]: "timed-out"}, 2)
        assert slow.status.completion_time is not None
        assert versions_written(stage, 3) == []
        await stage.until_clean()


# --- 6 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_6_two_jobs_and_two_instances_of_a_device_wait_for_each_other(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=1, faults=[PAUSES]) as stage:
        first = (await stage.uids())[1]
        second = await another_instance(stage, 1)
        with stage.devices_stand_still():
            await stage.job("one", version="0.2.0", uuids=[first])
            await stage.until_did(1, Did.WRITING)
            await stage.job("two", version="0.3.0", uuids=[second, first])
            await shown(stage, second, f"waiting for job one in namespace {stage.namespace}", "two")
        one, two = await stage.until_phase("Completed", "one"), await stage.until_phase("Completed", "two")
        assert outcomes(one) == {first: "succeeded"}
        assert outcomes(two) == {second: "succeeded", first: "succeeded"}
        assert versions_written(stage, 1) == ["0.2.0", "0.3.0"]
        assert not stage.fleet[1].journal.written_by_two_at_once
        assert len(await stage.devices()) == 1
        await stage.until_clean()
