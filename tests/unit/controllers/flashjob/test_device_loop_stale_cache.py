"""The loop for Devices with caches that are behind the server, and with a server that says no."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from edgewright.api import Device, FlashJob, Lease, Pod, Service
from edgewright.api.device import Mark
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.device_loop import add_flashes
from edgewright.controllers.flashjob.legacy.original import ORIGINAL_LEASE, Original
from edgewright.controllers.flashjob.legacy.takeover import Takeover
from edgewright.controllers.flashjob.manifests import OUTCOME_FINALIZER, pod_for, service_for
from edgewright.controllers.flashjob.outcomes import record
from edgewright.runtime.clock import SystemClock, VirtualClock
from edgewright.runtime.manager import LeaseSettings, Manager
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.behind import D1, behind, made_pod, quiet
from tests.unit.controllers.flashjob.harness import GOOD, QUICK, operating, plane, stage


async def test_a_claim_is_not_released_from_a_pod_that_our_cache_has_not_seen(tmp_path: Path) -> None:
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        job = await on.job("job", "d1", paused=True)
        claimed = await on.claim(job, await on.device("d1"))
        await made_pod(on, job, claimed)
        operator.sees(job, claimed)
        result = await operator.flashes.reconcile(D1)
        assert result.after == 0
        await operator.flashes.reconcile(D1)
        assert operator.mortal.writes == []


async def test_a_pod_that_our_cache_has_not_seen_is_not_made_again(tmp_path: Path) -> None:
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        job = await on.job("job", "d1", exposure="None")
        claimed = await on.claim(job, await on.device("d1"))
        pod = await made_pod(on, job, claimed)
        operator.sees(job, claimed)
        assert (await operator.flashes.reconcile(D1)).after == 0
        assert await operator.flashes.reconcile(D1) is not None
        assert [method for method, _ in operator.mortal.writes] == ["POST"]
        assert [each.metadata.uid for each in await on.pods()] == [pod.metadata.uid]


async def test_a_pod_is_not_ended_because_our_cache_has_not_seen_its_job(tmp_path: Path) -> None:
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        job = await on.job("job", "d1")
        claimed = await on.claim(job, await on.device("d1"))
        operator.sees(claimed, await made_pod(on, job, claimed))
        await operator.flashes.reconcile(D1)
        assert operator.mortal.writes == []


async def test_a_pod_is_not_ended_because_our_cache_has_not_seen_its_device(tmp_path: Path) -> None:
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        job = await on.job("job", "d1")
        claimed = await on.claim(job, await on.device("d1"))
        operator.sees(job, await made_pod(on, job, claimed))
        await operator.flashes.reconcile(D1)
        assert operator.mortal.writes == []


async def test_what_is_gone_already_is_as_good_as_removed(tmp_path: Path) -> None:
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        job = await on.job("job", "d1")
        claimed = await on.claim(job, await on.device("d1"))
        assert claimed.status.claim is not None
        pod = await made_pod(on, job, claimed, finalizers=[])
        body = service_for(job, claimed, claimed.status.claim, QUICK)
        service = msgspec.convert(await on.client.raw(Service.kind).create(body), Service)
        device = await on.client.of(Device).write_status(claimed, msgspec.structs.replace(claimed.status, claim=None))
        await on.client.of(Device).delete(device.key)
        await on.client.of(Pod).delete(pod.key, grace_seconds=0)
        await on.client.of(Service).delete(service.key)
        finished = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded"))
        operator.sees(job, finished, service)
        await operator.flashes.reconcile(D1)
        assert operator.context.pods.get(pod.key) is None
        assert operator.context.services.get(service.key) is None
        operator.context.pods.cache.drop(pod.key)
        alive = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid="another"))
        operator.sees(alive)
        await operator.flashes.reconcile(D1)
        assert operator.context.pods.get(pod.key) is None


async def test_a_finalizer_that_somebody_else_moved_is_still_taken_off(tmp_path: Path) -> None:
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        job = await on.job("job", "d1")
        claimed = await on.claim(job, await on.device("d1"))
        pod = await made_pod(on, job, claimed)
        await on.client.of(Device).delete(D1)
        moved = {"metadata": {"finalizers": ["example.com/theirs", OUTCOME_FINALIZER]}}
        await on.client.of(Pod).patch(pod.key, moved)
        finished = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded"))
        operator.sees(job, finished)
        assert (await operator.flashes.reconcile(D1)).after == 0
        await operator.flashes.reconcile(D1)
        (left,) = await on.pods()
        assert left.metadata.finalizers == ("example.com/theirs",)
        await on.client.of(Pod).patch(pod.key, {"metadata": {"finalizers": None}})


async def test_a_pod_on_a_node_that_is_gone_or_out_of_service_is_over(tmp_path: Path) -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    for name, node in (("gone", None), ("out", {"spec": {"taints": [taint]}}), ("there", {})):
        (tmp_path / name).mkdir()
        clock = VirtualClock(SystemClock().now())
        async with quiet(tmp_path / name) as (config, on), behind(config, clock) as operator:
            if node is not None:
                about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
                await on.client.transport.request("POST", "/api/v1/nodes", body=msgspec.json.encode({**about, **node}))
            job = await on.job("job", "d1", retries=0)
            claimed = await on.claim(job, await on.device("d1"))
            pod = await made_pod(on, job, claimed)
            metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=clock.now() - timedelta(seconds=10))
            spec = msgspec.structs.replace(pod.spec, node_name="node-1")
            operator.sees(job, claimed, msgspec.structs.replace(pod, metadata=metadata, spec=spec))
            result = await operator.flashes.reconcile(D1)
            status = await on.status("d1")
            if name == "there":
                assert status.records == ()
                assert result.after == QUICK.timing.recheck
            else:
                assert [each.outcome for each in status.records] == [Outcome.FAILED]
                assert "node-1" in status.records[0].message
                assert await on.pods() == []


async def test_a_server_that_will_not_make_a_pod_fails_the_attempt_with_its_words(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        await on.client.transport.request("DELETE", account)
        await on.claim(await on.job("job", "d1", retries=0), await on.device("d1"))
        async with operating(config):
            await on.settled("d1")
        (one,) = (await on.status("d1")).records
        assert one.outcome == Outcome.FAILED
        assert "the Pod cannot be created" in one.message
        assert "serviceaccount" in one.message


async def test_every_write_is_conditional_so_a_leader_under_a_lease_can_do_all_of_it(tmp_path: Path) -> None:
    lease = LeaseSettings(name="test", namespace="default")
    async with plane(tmp_path) as config, stage(config) as on:
        await on.claim(await on.job("job", "d1"), await on.device("d1"))
        async with operating(config, lease=lease):
            await on.settled("d1")
        assert (await on.status("d1")).records[0].outcome == Outcome.SUCCEEDED


async def test_a_digest_of_an_older_spec_is_not_pulled_for_a_newer_one(tmp_path: Path) -> None:
    for observed, expected in ((1, "sha256:1"), (0, "")):
        (tmp_path / str(observed)).mkdir()
        async with quiet(tmp_path / str(observed)) as (config, on), behind(config) as operator:
            job = await on.job("job", "d1", exposure="None")
            status = msgspec.structs.replace(job.status, digest="sha256:1", observed_generation=observed)
            operator.sees(msgspec.structs.replace(job, status=status), await on.claim(job, await on.device("d1")))
            await operator.flashes.reconcile(D1)
            (pod,) = await on.pods()
            assert pod.variable("EDGEWRIGHT_DIGEST") == expected
            assert pod.metadata.annotations[Mark.DEVICE] == "d1"


async def test_a_pod_in_a_namespace_that_does_not_have_its_job_proves_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        job = await on.job("job", "d1")
        device = await on.claim(job, await on.device("d1"), not_before=SystemClock().now() + timedelta(hours=1))
        claim = device.status.claim
        assert claim is not None
        for path, kind in (("namespaces", "Namespace"), ("namespaces/elsewhere/serviceaccounts", "ServiceAccount")):
            name = "elsewhere" if kind == "Namespace" else "default"
            body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
            await on.client.transport.request("POST", f"/api/v1/{path}", body=msgspec.json.encode(body))
        raw = pod_for(job, device, claim, address="", digest="", settings=QUICK)
        raw["metadata"].update(namespace="elsewhere", annotations={**raw["metadata"]["annotations"], Mark.STATE: "x"})
        forged = msgspec.convert(await on.client.raw(Pod.kind).create(raw), Pod)
        await on.node.end(forged, GOOD)
        async with operating(config):

            async def gone() -> bool:
                return not (await on.client.of(Pod).list("elsewhere")).items

            await wait_until_async(gone, what="the forged Pod is removed")
        status = await on.status("d1")
        assert (status.records, status.last_flash) == ((), None)
        assert status.claim == claim


async def test_a_mark_that_names_no_possible_device_is_no_matter_of_ours(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        labels, marks = {"uuid": "x"}, {Mark.DEVICE.value: "../nodes/x"}
        metadata = {"name": "odd", "namespace": "default", "labels": labels, "annotations": marks}
        spec = {"type": "LoadBalancer", "ports": [{"port": 1}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        await on.client.raw(Service.kind).create(body)
        await on.claim(await on.job("job", "d1"), await on.device("d1"))

        async def flashed() -> bool:
            return bool((await on.status("d1")).records) and len(await on.services()) == 1

        async with operating(config):
            await wait_until_async(flashed, what="the device is flashed and its Service gone")
        assert [service.metadata.name for service in await on.services()] == ["odd"]


async def test_records_of_living_jobs_are_kept_and_many_jobs_are_no_burden(tmp_path: Path) -> None:
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        jobs = [await on.job(f"job-{number}", "d1", paused=True) for number in range(70)]
        device = await on.device("d1")
        for job in jobs:
            device = await on.claim(job, device)
            operator.sees(job, device)
            operator.context.devices.wrote(device)
            await operator.flashes.reconcile(D1)
            device = operator.context.devices.get(D1) or device
            assert device.status.claim is None


async def test_the_record_of_another_living_job_stays_and_nothing_starts_next_to_the_original(tmp_path: Path) -> None:
    old = SystemClock().now() - timedelta(days=1)
    async with plane(tmp_path) as config, stage(config) as on:
        first, second, third = [await on.job(name, "d1") for name in ("first", "second", "third")]
        device = await on.device("d1")
        for job in (first, second):
            claimed = (await on.claim(job, device)).status.claim
            assert claimed is not None
            device = await on.client.of(Device).get(D1)
            status = record(device, claimed, GOOD, firmware="f", forced=False, now=old, living=lambda _: True)
            device = await on.client.of(Device).write_status(device, status)
        await on.client.of(FlashJob).delete(second.key)
        await on.claim(third, device)
        renewed = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {"holderIdentity": "theirs", "leaseDurationSeconds": 15, "renewTime": renewed}
        about = {"name": ORIGINAL_LEASE, "namespace": "default"}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about, "spec": lease}
        await on.client.raw(Lease.kind).create(body)

        def watched(manager: Manager, context: Context) -> object:
            original = Original(context.client, context.clock, every=0.01)
            return add_flashes(manager, context, predecessor=Takeover(context, original))

        async with operating(config, add=watched):
            await on.settled("d1")
        assert on.node.ran == []
        await on.client.of(Lease).delete(Key("default", ORIGINAL_LEASE))
        await on.claim(third, await on.device("d1"))
        async with operating(config, add=watched):
            await on.settled("d1")
        records = (await on.status("d1")).records
        assert [each.job.name for each in records] == ["first", "third"]


async def test_a_service_that_its_load_balancer_still_cleans_up_is_known_to_be_going(tmp_path: Path) -> None:
    later = SystemClock().now() + timedelta(minutes=5)
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        job = await on.job("job", "d1")
        claimed = await on.claim(job, await on.device("d1"), attempt=2, not_before=later)
        assert claimed.status.claim is not None
        raw = service_for(job, claimed, claimed.status.claim, QUICK)
        raw["metadata"]["finalizers"] = ["service.kubernetes.io/load-balancer-cleanup"]
        made = msgspec.convert(await on.client.raw(Service.kind).create(raw), Service)
        operator.sees(job, claimed, made)
        await operator.flashes.reconcile(D1)
        known = operator.context.services.get(made.key)
        assert known is not None
        assert known.deleting


async def test_a_device_that_a_job_of_another_namespace_has_is_left_to_its_operator(tmp_path: Path) -> None:
    """An operator of one namespace sees no jobs elsewhere, and must not take them for gone."""
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        job = await on.job("job", "d1", exposure="None")
        claimed = await on.claim(job, await on.device("d1"))
        assert claimed.status.claim is not None
        reference = claimed.status.claim.job
        operator.sees(claimed)
        assert not operator.context.lives(reference)
        operator.context.watches = Manager(operator.client, namespaces=("elsewhere",)).watches
        assert operator.context.lives(reference)
        await operator.flashes.reconcile(D1)
        assert operator.mortal.writes == []
        operator.context.watches = Manager(operator.client, namespaces=(reference.namespace,)).watches
        operator.sees(job)
        await operator.flashes.reconcile(D1)
        assert operator.mortal.writes != []
