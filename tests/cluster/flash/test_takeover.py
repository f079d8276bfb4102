"""Jobs that the original operator left half done, from end to end: awaited, checked by a Pod of ours, cleared away.

What its three versions made is made here as they made it. A Pod that works runs our flasher as somebody else's program:
it has none of our marks, and nobody reads its report.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from edgewright.api import FlashJob, Pod, Service
from edgewright.api.device import Mark
from edgewright.api.flash_pod import FLASHER_IMAGE, TLS_FOLDER, Variable
from edgewright.api.flashjob import FINALIZER, FIRST_FINALIZER, TLS_SECRET, FlashedDevice
from edgewright.api.node import NODE_TAINT
from edgewright.controllers.flashjob.legacy.original import ORIGINAL_LEASE
from edgewright.devices.simulated.device import Slot
from edgewright.devices.simulated.firmware import esp_image, read_image
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.conditions import find
from edgewright.runtime.errors import NotFound
from edgewright.runtime.lease import Lease
from edgewright.runtime.objects import Key, RawObject
from tests.cluster.flash.stage import APPLICATION, LIAR, QUICK, Stage
from tests.harness import ApiServer

SAMPLES: Final = sorted((Path(__file__).parents[3] / "config" / "samples").rglob("*flashjob*.yaml"))
PAUSES: Final = "slow:65536=1"
"""Makes the first device pause while it takes its firmware: that is where the stage can hold it."""
CHECKED: Final = "checked, and not written by this run"
STUBBORN: Final = ["sh", "-c", "trap '' TERM; while true; do sleep 0.2; done"]
"""A flasher that never ends."""


@dataclass(frozen=True)
class Version:
    """How one version of the original called what it made."""

    finalizer: str
    pod: str
    service: str
    labels: tuple[str, ...]

    def named(self, pattern: str, uuid: str) -> str:
        """A name for the job `job`."""
        return pattern.format(job="job", uuid=uuid)

    def labelled(self, uuid: str) -> dict[str, str]:
        """The labels, which are the Service's selector too."""
        return {name: value for name, value in {"app": "job", "uuid": uuid}.items() if name in self.labels}


FIRST = Version(FIRST_FINALIZER, "{job}-flashing-pod", "{job}-service", ("app",))
BETWEEN = Version(FINALIZER, "{job}-flashing-pod-{uuid}", "{job}-service", ("app",))
SECOND = Version(FINALIZER, "{job}-flashing-pod-{uuid}", "{job}-service-{uuid}", ("app", "uuid"))


class Original:
    """Does what one version of the original operator did, up to where it was stopped."""

    def __init__(self, stage: Stage, version: Version) -> None:
        self.stage, self.version = stage, version
        self.firmware = stage.firmware("0.2.0")

    async def job(self, *uuids: str, **more: Any) -> None:
        """A job that it has begun with; the first version knew one device a job, and not as a list."""
        spec = {
            "uuid": uuids[0] if self.version is FIRST else list(uuids),
            "firmware": self.firmware,
            "version": "0.2.0",
            "device": "esp32",
            "hostEndpoint": None,
            "applicationType": APPLICATION,
            "timeoutSeconds": 60,
            "retries": 0,
            **more,
        }
        metadata = {"name": "job", "namespace": self.stage.namespace, "finalizers": [self.version.finalizer]}
        body = {"apiVersion": FlashJob.kind.api_version, "kind": "FlashJob", "metadata": metadata, "spec": spec}
        await self.stage.client.raw(FlashJob.kind).create(body)

    async def says(self, **status: Any) -> None:
        """What it wrote into the job's status."""
        key = Key(self.stage.namespace, "job")
        await self.stage.client.raw(FlashJob.kind).patch(key, {"status": status}, subresource="status")

    async def service(self, uuid: str, *, wait: bool = True) -> str:
        """The Service for a device; its address, where that is waited for."""
        labels = self.version.labelled(uuid)
        name = self.version.named(self.version.service, uuid)
        spec = {"type": "LoadBalancer", "selector": labels, "ports": [{"port": 4433, "protocol": "TCP"}]}
        await self._make(Service, name, labels, spec)
        if not wait:
            return ""

        async def address() -> str:
            return (await self.stage.client.of(Service).get(Key(self.stage.namespace, name))).external_address

        return await self.stage.until(address, f"{name} has an address")

    async def working_pod(self, number: int, uuid: str, address: str) -> str:
        """A Pod that flashes the device by way of its Service; its name."""
        settings = self.stage.settings
        published = {
            Variable.FIRMWARE: self.firmware,
            Variable.UUID: uuid,
            Variable.HOST_ENDPOINT: self.stage.fleet[number].endpoint,
            Variable.DEVICE: "esp32",
            Variable.APPLICATION_TYPE: APPLICATION,
            Variable.VERSION: "0.2.0",
            Variable.EXTERNAL_IP: address,
        }
        needs = {Variable.ATTESTATION: settings.attestation, Variable.PLAIN_REGISTRIES: settings.plain_registries[0]}
        address_of_pod = {"name": Variable.POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        container = {
            "image": FLASHER_IMAGE,
            "env": [
                *({"name": name, "value": value} for name, value in {**published, **needs}.items()),
                address_of_pod,
            ],
            "volumeMounts": [{"name": "tls", "mountPath": TLS_FOLDER}],
        }
        return await self._pod(uuid, container, volumes=[{"name": "tls", "secret": {"secretName": TLS_SECRET}}])

    async def idle_pod(self, uuid: str, command: list[str] | None = None, **more: Any) -> str:
        """A Pod that does nothing for its device: it ends well at once, or goes on for ever; its name."""
        published = [{"name": Variable.UUID, "value": uuid}]
        container = {"image": LIAR, "env": published, **({"command": command} if command else {})}
        return await self._pod(uuid, container, **more)

    async def _pod(self, uuid: str, container: RawObject, **more: Any) -> str:
        name = self.version.named(self.version.pod, uuid)
        containers = [{"name": "flash-container", **container}]
        # The original's Pods run on other nodes, where its images are; here is only a node of ours.
        here = [{"key": NODE_TAINT, "operator": "Exists"}]
        spec = {"restartPolicy": "Never", "containers": containers, "tolerations": here, **more}
        await self._make(Pod, name, self.version.labelled(uuid), spec)
        return name

    async def _make(self, kind: type[Pod | Service], name: str, labels: dict[str, str], spec: RawObject) -> None:
        metadata = {"name": name, "namespace": self.stage.namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": kind.kind.kind, "metadata": metadata, "spec": spec}
        await self.stage.client.raw(kind.kind).create(body)

    def has_flashed(self, number: int) -> None:
        """Gives a device the firmware, as a Pod that is gone by now has done."""
        contents = read_image(esp_image(version="0.2.0", project=APPLICATION), chip="esp32")
        self.stage.fleet[number].running = Slot(version="0.2.0", application=APPLICATION, contents=contents)


async def in_phase(stage: Stage, pod: str, phase: str) -> None:
    """Waits until a Pod is so far."""

    async def reached() -> bool:
        return (await stage.client.of(Pod).get(Key(stage.namespace, pod))).status.phase == phase

    await stage.until(reached, f"Pod {pod} is {phase}")


async def shown(stage: Stage, uuid: str, words: str) -> FlashedDevice:
    """The device as the job shows it, once its message says this."""

    async def said() -> FlashedDevice | None:
        return next(
            (each for each in (await stage.get()).status.devices if (each.uuid, words in each.message) == (uuid, True)),
            None,
        )

    return await stage.until(said, f"the job says of {uuid}: {words}")


def messages(job: FlashJob) -> dict[str, str]:
    """What the job says of each device."""
    return {each.uuid: each.message for each in job.status.devices}


async def nothing_of_ours(stage: Stage) -> bool:
    """Whether no object has our marks."""
    return not any(Mark.DEVICE in each.metadata.annotations for each in (*await stage.pods(), *await stage.services()))


@pytest.mark.parametrize("version", [FIRST, BETWEEN, SECOND], ids=["first", "between", "second"])
async def test_a_pod_of_the_original_is_awaited_and_what_it_flashed_is_only_checked(
    flash_server: ApiServer, flash_namespace: str, version: Version
) -> None:
    devices = 1 if version is FIRST else 2
    async with Stage(flash_server, flash_namespace, devices=devices, faults=[PAUSES], operator=False) as stage:
        original, uids = Original(stage, version), await stage.uids()
        await original.job(*(uids[number] for number in range(1, devices + 1)))
        with stage.devices_stand_still():
            address = await original.service(uids[1])
            pod = await original.working_pod(1, uids[1], address)
            if version is FIRST:
                await stage.change("job", externalIP=address)
            else:
                await in_phase(stage, await original.idle_pod(uids[2]), "Succeeded")
            await stage.until_did(1, Did.WRITING)
            stage.start_operator()
            await shown(stage, uids[1], f"Pod {pod} of the original operator is flashing it and is still running")
            if version is BETWEEN:  # the Service that both share would lead to our Pod as well
                await shown(stage, uids[2], "what the original operator left is cleared away")
                assert await nothing_of_ours(stage)
            assert stage.fleet[1].journal.count(Did.ASKED) == 1
        job = await stage.until_phase("Completed")
        assert CHECKED in messages(job)[uids[1]]
        assert [each.running.version for each in stage.fleet] == ["0.2.0"] * devices
        assert [each.journal.count(Did.ASKED) for each in stage.fleet] == [1] * devices
        if version is BETWEEN:
            assert stage.fleet[1].journal.of(Did.WRITTEN)[0].at < stage.fleet[2].journal.of(Did.ASKED)[0].at
        await stage.until_clean()


async def test_what_the_original_ended_or_began_or_counted_as_done_is_proven_or_done(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=5, operator=False) as stage:
        original, uids = Original(stage, SECOND), await stage.uids()
        await original.job(*uids.values(), maxConcurrent=2)
        await original.says(phase="InProgress", completedUUIDs=[uids[3], uids[4]])
        for number in (1, 3):
            original.has_flashed(number)
        for number in (1, 2):  # Pods that have ended: one did its work, one only says so
            await original.service(uids[number])
            await in_phase(stage, await original.idle_pod(uids[number]), "Succeeded")
        await original.service(uids[5], wait=False)  # it was stopped before the Pod
        stage.start_operator()
        job = await stage.until_phase("Completed")
        assert {number: CHECKED in messages(job)[uid] for number, uid in uids.items()} == {
            1: True,
            2: False,
            3: True,
            4: False,
            5: False,
        }
        assert [each.attempts for each in job.status.devices] == [1] * 5
        assert [each.running.version for each in stage.fleet] == ["0.2.0"] * 5
        assert [each.journal.count(Did.ASKED) for each in stage.fleet] == [0, 1, 0, 1, 1]
        await stage.until_clean()


async def test_a_pod_of_the_original_that_never_ends_is_ended_and_its_device_checked(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    timing = replace(QUICK, start_grace=1.0)
    async with Stage(flash_server, flash_namespace, devices=1, operator=False, timing=timing) as stage:
        original, uids = Original(stage, SECOND), await stage.uids()
        original.has_flashed(1)
        # A foreign flasher, as published jobs have one: it must not even be started.
        await original.job(uids[1], timeoutSeconds=1, retries=3, flashjobPodImage=LIAR)
        await original.service(uids[1])
        pod = await original.idle_pod(uids[1], STUBBORN, terminationGracePeriodSeconds=2)
        await in_phase(stage, pod, "Running")
        stage.start_operator()

        async def being_ended() -> bool:
            try:
                return (await stage.client.of(Pod).get(Key(stage.namespace, pod))).deleting
            except NotFound:
                return True

        await stage.until(being_ended, "the Pod is told to end")
        await stage.change("job", timeoutSeconds=60)
        job = await stage.until_phase("Completed")
        assert CHECKED in messages(job)[uids[1]]
        assert stage.fleet[1].journal.count(Did.ASKED) == 0
        await stage.until_clean()


async def test_a_half_done_job_that_is_deleted_takes_all_with_it(flash_server: ApiServer, flash_namespace: str) -> None:
    async with Stage(flash_server, flash_namespace, devices=1, operator=False) as stage:
        original, uids = Original(stage, FIRST), await stage.uids()
        await original.job(uids[1])
        await original.service(uids[1], wait=False)
        pod = await original.idle_pod(uids[1], ["sleep", "3600"], terminationGracePeriodSeconds=1)
        await in_phase(stage, pod, "Running")
        stage.start_operator()
        await shown(stage, uids[1], "is still running")
        await stage.client.of(FlashJob).delete(Key(stage.namespace, "job"))
        await stage.until(stage.jobs_are_gone, "the job is gone")
        await stage.until_clean()
        assert stage.fleet[1].journal.count(Did.ASKED) == 0


# --- an original that still runs ------------------------------------------------------------------------------------


@asynccontextmanager
async def leading(stage: Stage) -> AsyncIterator[None]:
    """The original's operator at work, as far as its Lease tells; it dies at the end."""
    api, key = stage.client.raw(Lease.kind), Key(stage.namespace, ORIGINAL_LEASE)

    def spec() -> RawObject:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"holderIdentity": "operator-controller-manager-0", "leaseDurationSeconds": 1, "renewTime": now}

    async def renew() -> None:
        while True:
            await asyncio.sleep(0.3)
            await api.patch(key, {"spec": spec()})

    metadata = {"name": key.name, "namespace": key.namespace}
    await api.create({"apiVersion": Lease.kind.api_version, "kind": "Lease", "metadata": metadata, "spec": spec()})
    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing


async def test_nothing_is_flashed_while_the_original_renews_its_lease(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=1, operator=False) as stage:
        try:
            async with leading(stage):
                stage.start_operator()
                uids = await stage.uids()
                await stage.job()
                await shown(stage, uids[1], "waits until the original operator is stopped")
                job = await stage.get()
                stop = f"kubectl -n {stage.namespace} scale deployment operator-controller-manager --replicas=0"
                assert stop in job.status.message
                reconciling = find(job.status.conditions, "Reconciling")
                assert reconciling is not None
                assert (reconciling.status, reconciling.reason) == ("True", "OriginalOperatorRuns")
                assert stop in reconciling.message
                assert (job.metadata.finalizers, await stage.pods(), await stage.services()) == ((), [], [])
                assert len(stage.fleet[1].journal) == 0
            await stage.until_phase("Completed")
            assert stage.fleet[1].running.version == "0.2.0"
            await stage.until_clean()
        finally:
            await stage.client.of(Lease).delete(Key(stage.namespace, ORIGINAL_LEASE))


# --- the published samples ------------------------------------------------------------------------------------------


async def test_the_published_samples_apply_unchanged_and_are_told_what_is_the_matter(flash_server: ApiServer) -> None:
    async with Stage(flash_server, "default", devices=1) as stage:
        try:
            for sample, way in [(path, way) for path in SAMPLES for way in ((), ("--server-side",))]:
                await _apply_and_look(stage, sample, *way)
        finally:
            await asyncio.to_thread(flash_server.kubectl, "delete", "secret", TLS_SECRET, "-n", "default")


async def _apply_and_look(stage: Stage, sample: Path, *way: str) -> None:
    await asyncio.to_thread(stage.server.kubectl, "apply", *way, "-f", str(sample))

    async def answered() -> FlashJob | None:
        job = await stage.get("flashjob")
        return job if job.status.phase else None

    job = await stage.until(answered, "the sample is answered")
    accepted = find(job.status.conditions, "Accepted")
    assert accepted is not None
    assert (job.status.phase, accepted.status) == ("InProgress", "True")
    assert set(messages(job)) == set(job.spec.uuids)
    assert all(text.startswith("waiting to be discovered") for text in messages(job).values())
    assert (job.metadata.generation, job.metadata.finalizers) == (1, ())

    await stage.change("flashjob", discoveryTimeoutSeconds=0)
    job = await stage.until_phase("Failed", "flashjob")
    assert {each.outcome for each in job.status.devices} == {"not-found"}
    stalled = find(job.status.conditions, "Stalled")
    assert stalled is not None
    assert stalled.status == "True"
    assert "spec.uuid" in stalled.message
    assert "kubectl get devices" in stalled.message
    assert (await stage.pods(), job.metadata.finalizers) == ([], ())
    await asyncio.to_thread(stage.server.kubectl, "delete", "flashjob", "flashjob", "-n", "default")
