"""Document 004 on a real kube-apiserver and on `edgewright up`: its samples, its three workflows, faults on the way.

Gateway and operator are processes with exactly the rights that the manifests give them.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edgewright.api.capabilities import EDGE
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings
from edgewright.runtime import Client, Manager, config
from tests.cluster.edge.edge_stage import (
    GROUP,
    Program,
    Provisioner,
    device_of,
    gateway_program,
    install,
    operator_program,
    until_listening,
)
from tests.cluster.support import connected, eventually, requests, running
from tests.harness import ApiServer, ControlPlane, repetition
from tests.unit.gateway.stage import Answered, Device

SAMPLES = Path(__file__).parents[3] / "config" / "samples"
PUBLISHED = [kind for kind in EDGE.kinds if kind.kind.group == GROUP]
REQUEST = "EdgeDeviceSignedRequest"
NAME = "242e48d0-286b-4170-9b97-95502066e6ae"


def kinds(namespace: str) -> str:
    """Where the objects of a namespace are."""
    return f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}"


@dataclass
class Stage:
    """What runs, and one device."""

    server: ApiServer
    namespace: str
    gateway: Program
    operator: Program
    device: Device

    def kubectl(self, *arguments: str) -> str:
        return self.server.kubectl("-n", self.namespace, *arguments).stdout

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.server.request("GET", f"{kinds(self.namespace)}/{kind.lower()}s/{name}")
        return found

    async def phases(self) -> dict[str, str]:
        status = (await asyncio.to_thread(self.get, "edgedevice", NAME)).get("status", {})
        return {each["name"]: each["phase"] for each in status.get("workloads", [])}

    async def until(self, phases: dict[str, str]) -> None:
        async def are() -> bool:
            return await self.phases() == phases

        await eventually(are, what=f"the device has {phases}")


@asynccontextmanager
async def staged(server: ApiServer, namespace: str, directory: Path, *, claims: bool = False) -> AsyncIterator[Stage]:
    await asyncio.to_thread(install, server, claims=claims)
    gateway, port = gateway_program(server, namespace, directory)
    operator = operator_program(server, namespace, directory)
    try:
        gateway.start()
        operator.start()
        await until_listening(port)
        async with connected(server) as client:
            device = await device_of(directory, client, namespace, port, NAME)
            yield Stage(server, namespace, gateway, operator, device)
    finally:
        for program in (gateway, operator):
            program.stop()
        # The devices of this namespace need not be told any more.
        release(server, namespace)


def release(server: ApiServer, namespace: str) -> None:
    """Takes the finalizers off everything that would keep the namespace from going."""
    for kind in ("edgedevices", "edgeworkloads", "edgedeployments"):
        path = f"{kinds(namespace)}/{kind}"
        for each in server.request("GET", path)["items"]:
            patch, way = {"metadata": {"finalizers": None}}, "application/merge-patch+json"
            server.request("PATCH", f"{path}/{each['metadata']['name']}", patch, content_type=way)


def test_the_published_samples_apply_with_strict_validation(api_server: ApiServer) -> None:
    install(api_server)
    for kind in PUBLISHED:
        file = SAMPLES / f"management_v1alpha1_{kind.kind.kind.lower()}.yaml"
        api_server.kubectl("apply", "--validate=strict", "-n", "default", "-f", str(file))
    shown = api_server.kubectl("get", "edgedevices", "-n", "default").stdout.splitlines()
    assert shown[0].split() == ["NAME", "PHASE", "ONLINE", "READY", "HOSTNAME", "SEEN", "AGE"]
    for kind in PUBLISHED:
        file = SAMPLES / f"management_v1alpha1_{kind.kind.kind.lower()}.yaml"
        api_server.kubectl("delete", "--wait=false", "-n", "default", "-f", str(file))
    release(api_server, "default")


async def test_the_three_workflows_of_the_document(api_server: ApiServer, namespace: str, tmp_path: Path) -> None:
    async with staged(api_server, namespace, tmp_path, claims=True) as stage:
        device = stage.device
        # Registration: the EdgeDevice, the certificate, the claim and its name in the status.
        assert (await device.register()).code == 200

        async def claimed() -> bool:
            found = await asyncio.to_thread(stage.get, "edgedevice", NAME)
            return bool(found["status"].get("dataObc") == NAME)

        await eventually(claimed, what="the status names the claim")
        assert Provisioner(api_server, namespace).fill() == [NAME]
        # Heartbeats.
        assert (await device.heartbeat()).code == 200
        found = await asyncio.to_thread(stage.get, "edgedevice", NAME)
        assert (found["status"]["phase"], found["status"]["hardware"]["hostname"]) == ("up", "fedora")
        await asyncio.to_thread(
            stage.kubectl,
            "patch",
            "edgedevice",
            NAME,
            "--type=merge",
            "-p",
            '{"spec":{"heartbeat":{"periodSeconds":7}}}',
        )

        async def period() -> bool:
            content = (await device.configuration()).content
            return bool(content["configuration"]["heartbeat"]["period_seconds"] == 7)

        await eventually(period, what="the changed period is in the configuration")
        # A workload: matched, deploying, downloaded, running, removed.
        sample = str(SAMPLES / "management_v1alpha1_edgedeployment.yaml")
        await asyncio.to_thread(stage.kubectl, "apply", "-f", sample)
        await asyncio.to_thread(stage.kubectl, "label", "edgedevice", NAME, "foo=bar")
        await stage.until({"edgedeployment-sample": "Deploying"})

        async def downloaded() -> Answered | None:
            answer = await device.configuration()
            return (
                answer if answer.content.get("workloads") and answer.content["configuration"].get("storage") else None
            )

        content = (await _given(downloaded, what="the workload and the bucket are in the configuration")).content
        assert content["workloads"][0]["data"]["egress"] == [{"source": ".", "target": "nginx"}]
        assert content["configuration"]["storage"]["s3"]["bucket_name"] == f"bucket-{NAME}"
        told = [{"name": "edgedeployment-sample", "status": "Running"}]
        assert (await device.heartbeat(version=content["version"], workloads=told)).code == 200
        assert await stage.phases() == {"edgedeployment-sample": "Running"}
        await asyncio.to_thread(
            stage.kubectl, "wait", "--for=condition=Ready", "edgedeployment/edgedeployment-sample", "--timeout=240s"
        )
        assert "1/1" in await asyncio.to_thread(stage.kubectl, "get", "edgedeployments")
        await asyncio.to_thread(stage.kubectl, "label", "edgedevice", NAME, "foo-")
        await stage.until({})
        assert not (await device.configuration()).content.get("workloads")
        # Deletion: told, and gone with its claim left for its data.
        await asyncio.to_thread(stage.kubectl, "delete", "edgedevice", NAME, "--wait=false")

        async def disconnected() -> bool:
            await device.configuration()
            body = (await device.control()).body
            return bool(body and body.get("content") == {"command": "disconnect", "arguments": {}})

        await eventually(disconnected, what="the device is told to disconnect")

        async def gone() -> bool:
            return (await device.configuration()).code == 404

        await eventually(gone, what="the EdgeDevice is gone")
        assert Provisioner(api_server, namespace).fill() == [NAME]


async def test_the_older_of_two_eras_counts_and_the_newer_says_so(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async with staged(api_server, namespace, tmp_path) as stage:
        await stage.device.register()
        for kind in ("EdgeDeployment", "EdgeWorkload"):
            spec = {
                "type": "pod",
                "device": NAME,
                "pod": {"spec": {"containers": [{"name": kind.lower(), "image": "a"}]}},
            }
            body = {"apiVersion": "management.project-flotta.io/v1alpha1", "kind": kind, "spec": spec}
            text = json.dumps(body | {"metadata": {"name": "one", "namespace": namespace}})
            api_server.kubectl("apply", "-f", "-", input=text)
            if kind == "EdgeDeployment":
                await stage.until({"one": "Deploying"})
                await asyncio.sleep(1.1)  # ages are whole seconds

        async def told() -> bool:
            found = await asyncio.to_thread(stage.get, "edgeworkload", "one")
            conditions = {each["type"]: each for each in found.get("status", {}).get("conditions", [])}
            return "Conflict" in conditions and conditions["Ready"]["status"] == "False"

        await eventually(told, what="the newer says Conflict")
        (sent,) = (await stage.device.configuration()).content["workloads"]
        assert "edgedeployment" in sent["specification"]


@pytest.mark.repeated
@pytest.mark.parametrize("seed", repetition.numbers(3, 20))
async def test_gateway_and_operator_killed_at_any_moment_reach_the_same_end(
    cluster: ControlPlane, namespace: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    async with staged(cluster, namespace, tmp_path) as stage:
        device = stage.device

        async def trouble() -> None:
            for _ in range(3):
                await asyncio.sleep(chance.uniform(0.0, 1.5))
                for program in chance.choice([(stage.gateway,), (stage.operator,), (stage.gateway, stage.operator)]):
                    program.kill()
                    await asyncio.sleep(chance.uniform(0.0, 0.3))
                    program.start()

        causing = asyncio.create_task(trouble())
        spec = {"type": "pod", "device": NAME, "pod": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}
        body = {"apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeWorkload", "spec": spec}
        admitted = {"targetNamespace": namespace, "targetSet": "shop", "approved": True}
        for manifest in (
            body | {"metadata": {"name": "w", "namespace": namespace}},
            body | {"kind": "EdgeDeviceSet", "metadata": {"name": "shop", "namespace": namespace}, "spec": {}},
            body | {"kind": REQUEST, "metadata": {"name": "second", "namespace": namespace}, "spec": admitted},
        ):
            await asyncio.to_thread(cluster.kubectl, "apply", "-f", "-", input=json.dumps(manifest))
        await _insist(device.register)

        async def runs() -> bool:
            answer = await _insist(device.configuration)
            workloads = [{"name": each["name"], "status": "Running"} for each in answer.content.get("workloads") or ()]
            await _insist(lambda: device.heartbeat(version=answer.content["version"], workloads=workloads))
            return await stage.phases() == {"w": "Running"}

        await eventually(runs, what="the workload runs", timeout=120)
        await causing
        await eventually(runs, what="the workload still runs", timeout=120)
        assert stage.get("edgedevice", NAME)["metadata"]["labels"]["workload/w"] == "true"
        rest = functools.partial(_rest_is_right, stage)
        await eventually(rest, what="the set, the request and its device are right", timeout=120)
        # A status that is wiped comes back.
        for kind, name in (("edgedevice", NAME), ("edgeworkload", "w"), ("edgedeviceset", "shop"), (REQUEST, "second")):
            cluster.kubectl(
                "patch", kind, name, "-n", namespace, "--subresource=status", "--type=json",
                "-p", '[{"op":"replace","path":"/status","value":{}}]',
            )  # fmt: skip
        await eventually(runs, what="the workload runs after its status was wiped", timeout=120)
        await eventually(rest, what="the others say the same as before", timeout=120)


async def _rest_is_right(stage: Stage) -> bool:
    """Whether the workload is counted, the approved request has its device, and the set that device as its member."""

    async def got(kind: str, name: str) -> dict[str, Any]:
        text = await asyncio.to_thread(stage.kubectl, "get", kind, name, "--ignore-not-found", "-o", "json")
        found: dict[str, Any] = json.loads(text or "{}")
        return found

    workload, request = await got("edgeworkload", "w"), await got(REQUEST, "second")
    members, second = await got("edgedeviceset", "shop"), await got("edgedevice", "second")
    return (
        workload.get("status", {}).get("progress") == "1/1"
        and members.get("status", {}).get("members") == 1
        and bool(request.get("status", {}).get("conditions"))
        and second.get("metadata", {}).get("labels", {}).get("flotta/member-of") == "shop"
    )


async def test_a_second_operator_on_settled_objects_writes_nothing(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with staged(cluster, namespace, tmp_path, claims=True) as stage:
        await stage.device.register()
        await stage.device.heartbeat()
        for kind in ("edgedeployment", "edgeworkload", "edgedevicegroup", "edgedeviceset", "edgedevicesignedrequest"):
            file = str(SAMPLES / f"management_v1alpha1_{kind}.yaml")
            await asyncio.to_thread(stage.kubectl, "apply", "-f", file)
        await asyncio.to_thread(stage.kubectl, "label", "edgedevice", NAME, "foo=bar")
        await stage.until({"edgedeployment-sample": "Deploying", "edgeworkload-sample": "Deploying"})
        await asyncio.to_thread(
            stage.kubectl, "wait", "--for=condition=Ready", "edgedeviceset", "--all", "--timeout=240s"
        )

        async def counted() -> bool:
            found = [
                await asyncio.to_thread(stage.get, f"edge{kind}", f"edge{kind}-sample")
                for kind in ("deployment", "workload")
            ]
            return all(each.get("status", {}).get("progress") == "0/1" for each in found)

        await eventually(counted, what="the workloads are counted")
        stage.operator.stop()
        loaded = config.load(kubeconfig=cluster.kubeconfig)
        manager = Manager(Client(loaded), namespaces=[namespace], health_port=0)
        add_controllers(manager, Settings(), capabilities=[EDGE])
        async with running(manager):
            await eventually(lambda: _passes(manager) >= 6, what="every object was looked at")
            assert requests(manager, "POST", "PATCH", "PUT", "DELETE") == 0


def _passes(manager: Manager) -> int:
    return sum(
        int(sample.value)
        for metric in manager.metrics.reconcile_total.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


async def _given(condition: Any, *, what: str) -> Answered:
    kept: list[Answered] = []

    async def found() -> bool:
        answer = await condition()
        kept[:] = [answer] if answer else []
        return bool(kept)

    await eventually(found, what=what)
    return kept[0]


async def _insist(attempt: Any) -> Answered:
    """What an agent does while the gateway is unavailable: it tries again."""
    kept: list[Answered] = []

    async def done() -> bool:
        try:
            answer = await attempt()
        except (OSError, TimeoutError, aiohttp.ClientError):
            return False
        kept[:] = [answer]
        return bool(answer.code == 200)

    await eventually(done, what="the gateway answers", timeout=120)
    return kept[0]
