"""The last six of the twelve weak points of the original operator: a scenario for each, numbered and named after it.

On both servers. What an operator says of a device is believed only where the device's own journal agrees.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from edgewright.api import FlashJob
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.conditions import find
from edgewright.runtime.objects import RawObject
from tests.cluster.flash.scenes import (
    PAUSES,
    discovered,
    entries,
    one_after_the_other,
    only_address,
    outcomes,
    spans,
    versions_written,
)
from tests.cluster.flash.stage import APPLICATION, QUICK, Stage
from tests.harness import ApiServer

# --- 7 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_7_a_crash_between_the_pods_deletion_and_the_status_write_flashes_nothing_again(
    flash_server: ApiServer, flash_namespace: str, tmp_path: Path
) -> None:
    # The status is written once, when the job is accepted, and then not for an hour: the crash is before the next.
    timing = replace(QUICK, status_every=3600.0)
    async with Stage(flash_server, flash_namespace, devices=2, operator=False, timing=timing) as stage:
        operator = stage.operator_process(tmp_path)
        operator.start()
        try:
            await stage.job()

            async def all_but_the_status() -> bool:
                recorded = [each.status.record_of(job_uid) for each in await stage.devices()]
                return len(recorded) == 2 and all(recorded) and not await stage.pods() and not await stage.services()

            job_uid = (await stage.get()).metadata.uid
            await stage.until(all_but_the_status, "both devices are done, and their Pods and Services gone")
        finally:
            operator.kill()
        assert (await stage.get()).status.completed_uuids == ()
        stage.timing = QUICK
        stage.start_operator()
        job = await stage.until_phase("Completed")
        assert set(outcomes(job).values()) == {"succeeded"}
        await stage.until_clean()
        assert [each.journal.count(Did.ASKED) for each in stage.fleet] == [1, 1]


# --- 8 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_8_a_running_job_can_be_changed_and_stays_when_it_is_done(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=3, faults=[PAUSES]) as stage:
        uids = await discovered(stage)
        with stage.devices_stand_still():
            await stage.job(uuids=[uids[1], uids[2]], maxConcurrent=1)
            await stage.until_did(1, Did.WRITING)
            await stage.change("job", uuid=[uids[1], uids[3]], firmware=stage.firmware("0.3.0"), version="0.3.0")
        job = await stage.until_phase("Completed")
        assert [*entries(job)] == [uids[1], uids[3]]
        assert versions_written(stage, 1) == ["0.2.0", "0.3.0"]
        assert spans(stage, 2) == []
        assert versions_written(stage, 3) == ["0.3.0"]
        await stage.until_clean()

        await stage.change("job", uuid=[uids[1], uids[3], uids[2]])
        job = await stage.until_phase("Completed")
        assert [*entries(job)] == [uids[1], uids[3], uids[2]]
        assert [len(versions_written(stage, n)) for n in (1, 2, 3)] == [2, 1, 1]
        await stage.until_clean()
        assert (await stage.get()).metadata.uid == job.metadata.uid


# --- 9 --------------------------------------------------------------------------------------------------------------


async def test_weak_point_9_a_jobs_name_may_be_as_long_as_names_can_be(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=2) as stage:
        uids = await stage.uids()
        long, longest = "a" * 63, f"{'b' * 60}.{'c' * 192}"
        await stage.job(long, uuids=[uids[1]])
        await stage.job(longest, uuids=[uids[2]])
        for name in (long, longest):
            await stage.until_phase("Completed", name)
        assert [each.running.version for each in stage.fleet] == ["0.2.0"] * 2
        await stage.until_clean()


# --- 10 -------------------------------------------------------------------------------------------------------------


async def test_weak_point_10_a_pool_of_one_address_flashes_one_device_after_the_other(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    address = only_address(flash_server)
    # Open to all, as behind NAT, no two Services can have one address.
    async with Stage(flash_server, flash_namespace, devices=3, nat=True) as stage:
        uids = await stage.uids()
        await stage.job(externalIP=address, maxConcurrent=3, retries=0)
        job = await stage.until_phase("Completed")
        assert {uuid: each.attempts for uuid, each in entries(job).items()} == dict.fromkeys(uids.values(), 1)
        asked = [entry.detail for each in stage.fleet for entry in each.journal.of(Did.ASKED)]
        assert asked == [address] * 3
        assert one_after_the_other(spans(stage, 1, 2, 3))
        await stage.until_clean()


# --- 11 -------------------------------------------------------------------------------------------------------------


async def test_weak_point_11_a_batch_that_is_overwritten_leaves_no_orphans(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=3, faults=[PAUSES]) as stage:
        uids = await discovered(stage)
        spec = {"firmware": stage.firmware("0.2.0"), "version": "0.2.0", "maxConcurrent": 1}
        with stage.devices_stand_still():
            await apply(stage, {**spec, "uuid": [uids[1], uids[2]]})
            await stage.until_did(1, Did.WRITING)
            await apply(stage, {**spec, "uuid": [uids[3]]})
        job = await stage.until_phase("Completed")
        assert outcomes(job) == {uids[3]: "succeeded"}
        await stage.until_clean()
        devices = [await stage.device(number) for number in (1, 2, 3)]
        assert [each.status.claim for each in devices] == [None] * 3
        records = [each.status.record_of(job.metadata.uid) for each in devices]
        assert [each and each.outcome for each in records] == ["succeeded", None, "succeeded"]
        assert [each.running.version for each in stage.fleet] == ["0.2.0", "0.1.0", "0.2.0"]

        # Applied once more, a batch shows what became of it; only what had not been started is flashed now.
        await apply(stage, {**spec, "uuid": [uids[1], uids[2]]})
        job = await stage.until_phase("Completed")
        assert outcomes(job) == dict.fromkeys((uids[1], uids[2]), "succeeded")
        assert [each.journal.count(Did.ASKED) for each in stage.fleet] == [1, 1, 1]
        await stage.until_clean()


async def apply(stage: Stage, spec: RawObject) -> None:
    """Does what the published script does with each batch."""
    body = {
        "apiVersion": FlashJob.kind.api_version,
        "kind": "FlashJob",
        "metadata": {"name": "job", "namespace": stage.namespace},
        "spec": spec,
    }
    await asyncio.to_thread(stage.server.kubectl, "apply", "-f", "-", input=json.dumps(body))


# --- 12 -------------------------------------------------------------------------------------------------------------


async def test_weak_point_12_firmware_that_is_not_right_reaches_no_device(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=5) as stage:
        uids = await stage.uids()
        key = ec.generate_private_key(ec.SECP256R1()).public_key()
        public = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        await stage.make_secret("signers", {"cosign.pub": public})
        other_chip = esp_image(chip="esp32s3", version="0.2.0", project=APPLICATION)
        stage.registry.add_image("fleet/firmware", "other-chip", other_chip)
        stage.registry.add_image("fleet/firmware", "cut", esp_image(version="0.2.0", project=APPLICATION)[:-100])
        stage.registry.add_image("fleet/firmware", "nonsense", b"\x7fELF" + bytes(10_000))
        jobs: dict[str, dict[str, Any]] = {
            "chip": {"firmware": f"{stage.registry.host}/fleet/firmware:other-chip"},
            "cut": {"firmware": f"{stage.registry.host}/fleet/firmware:cut"},
            "nonsense": {"firmware": f"{stage.registry.host}/fleet/firmware:nonsense"},
            "unsigned": {"signaturePublicKeySecret": "signers"},
            "reference": {"firmware": "fsdsdsd"},
        }
        for number, (name, spec) in enumerate(jobs.items(), start=1):
            await stage.job(name, uuids=[uids[number]], retries=0, **spec)
        ended = {name: await stage.until_phase("Failed", name) for name in jobs}
        told = {name: [*outcomes(job).values()] for name, job in ended.items()}
        assert told == {
            "chip": ["incompatible"],
            "cut": ["corrupt"],
            "nonsense": ["corrupt"],
            "unsigned": ["refused"],
            "reference": [""],
        }
        accepted = find(ended["reference"].status.conditions, "Accepted")
        assert accepted is not None
        assert (accepted.status, accepted.reason) == ("False", "InvalidFirmware")
        assert "spec.firmware" in accepted.message
        assert [each.journal.count(Did.ASKED) for each in stage.fleet] == [0] * 5
        await stage.until_clean()
