"""How devices and flash Pods find each other, what Pods are given, and how jobs end that are deleted or expire."""

from __future__ import annotations

import os
from typing import Any, Final

from edgewright.api import FlashJob, Pod
from edgewright.api.device import Mark
from edgewright.api.flash_pod import FLASH_CONTAINER, Variable
from edgewright.api.flashjob import FlashedDevice
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.objects import Key, RawObject
from tests.cluster.flash.scenes import discovered
from tests.cluster.flash.stage import ADDRESSES, Stage
from tests.harness import ApiServer, LocalPlane

PAUSES: Final = "slow:65536=1"
"""Makes the first device pause while it takes its firmware: that is where the stage can hold it."""


def wanted_address(server: ApiServer) -> str:
    """An address that the node can give."""
    return f"127.60.{os.getpid() % 250}.78" if isinstance(server, LocalPlane) else ADDRESSES[-1]


async def the_pod(stage: Stage) -> RawObject:
    """The only Pod there is, with all its fields."""
    (pod,) = (await stage.client.raw(Pod.kind).list(stage.namespace)).items
    return pod


async def test_the_address_that_was_asked_for_is_given_and_shown_and_the_pod_is_as_the_job_says(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    address = wanted_address(flash_server)
    template: dict[str, Any] = {
        "labels": {"team": "edge", "app": "not this one"},
        "annotations": {"example.com/cost": "17"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "example.com/flashers", "operator": "Exists"}],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {"capabilities": {"drop": ["NET_RAW"]}},
    }
    async with Stage(flash_server, flash_namespace, devices=1, faults=[PAUSES]) as stage:
        with stage.devices_stand_still():
            await stage.job(externalIP=address, podTemplate=template)
            await stage.until_did(1, Did.WRITING)

            async def address_is_shown() -> FlashedDevice | None:
                return next((each for each in (await stage.get()).status.devices if each.address), None)

            shown = await stage.until(address_is_shown, "the address is shown")
            (service,) = await stage.services()
            pod = await the_pod(stage)
        assert (shown.address, service.external_address, service.spec.load_balancer_ip) == (address,) * 3
        assert service.spec.load_balancer_source_ranges == (f"{stage.fleet[1].address}/32",)
        metadata, spec = pod["metadata"], pod["spec"]
        assert (metadata["labels"]["team"], metadata["labels"]["app"]) == ("edge", "job")
        assert metadata["annotations"]["example.com/cost"] == "17"
        assert metadata["annotations"][Mark.DEVICE] == shown.device
        assert {"key": "example.com/flashers", "operator": "Exists"} in spec["tolerations"]
        assert spec["nodeSelector"] == template["nodeSelector"]
        (container,) = spec["containers"]
        assert container["name"] == FLASH_CONTAINER
        assert container["resources"] == template["resources"]
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL", "NET_RAW"]
        assert {"name": Variable.EXTERNAL_IP, "value": address} in container["env"]
        # No token: neither asked for nor mounted by the server.
        assert spec["automountServiceAccountToken"] is False
        assert {name for volume in spec["volumes"] for name in volume if name != "name"} == {"emptyDir", "secret"}
        assert not [each for each in container["volumeMounts"] if "serviceaccount" in each["mountPath"]]

        await stage.until_phase("Completed")
        assert [entry.detail for entry in stage.fleet[1].journal.of(Did.ASKED)] == [address]
        await stage.until_clean()


async def test_a_device_that_nobody_has_discovered_is_flashed_where_the_job_says_and_the_job_expires(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=1, discovered=False) as stage:
        endpoint, name = stage.fleet[1].endpoint, f"on-my-desk-{stage.configuration}"
        await stage.job(uuids=[name], hostEndpoint=endpoint, device="esp32")
        job = await stage.until_phase("Completed")
        assert job.status.host_endpoint == endpoint
        assert [(each.uuid, each.device, each.outcome) for each in job.status.devices] == [(name, name, "succeeded")]
        assert stage.fleet[1].running.version == "0.2.0"
        await stage.until_clean()

        # Over and done with: it goes by itself, and what was done stays written down.
        await stage.change("job", ttlSecondsAfterFinished=0)
        await stage.until(stage.jobs_are_gone, "the job has expired")
        device = await stage.device(1)
        assert (device.metadata.name, device.status.version, device.status.claim) == (name, "0.2.0", None)
        record = device.status.record_of(job.metadata.uid)
        assert record is not None
        assert record.outcome == "succeeded"


async def test_a_running_job_that_is_deleted_ends_its_pods_waits_for_them_and_leaves_nothing(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=2, faults=[PAUSES]) as stage:
        uids = await discovered(stage)
        with stage.devices_stand_still():
            await stage.job(uuids=[uids[1], uids[2]], maxConcurrent=1)
            await stage.until_did(1, Did.WRITING)
            uid = (await stage.get()).metadata.uid
            await stage.client.of(FlashJob).delete(Key(stage.namespace, "job"))

            async def told_to_end() -> bool:
                return all(pod.deleting for pod in await stage.pods())

            await stage.until(told_to_end, "the Pod is told to end")
            assert len(await stage.pods()) == 1
            assert not await stage.jobs_are_gone()  # half a flash is worse than a late end: it is waited for
        await stage.until(stage.jobs_are_gone, "the job is gone")
        await stage.until_clean()
        devices = [await stage.device(number) for number in (1, 2)]
        assert [each.status.claim for each in devices] == [None, None]
        record = devices[0].status.record_of(uid)
        assert record is not None
        assert (record.outcome, record.version) == ("succeeded", "0.2.0")
        assert [each.running.version for each in stage.fleet] == ["0.2.0", "0.1.0"]
        assert stage.fleet[2].journal.count(Did.ASKED) == 0
