"""A changed workload goes from batch to batch on a real kube-apiserver and on `edgewright up`.

Gateway and operator are processes with exactly the rights that the manifests give them, and are killed on the way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.edge.edge_stage import device_of, until_listening
from tests.cluster.edge.test_edge_scenarios import NAME, Stage, staged
from tests.cluster.support import connected, eventually
from tests.harness import ApiServer
from tests.unit.gateway.stage import Device

BATCHES = [
    {"name": "canary", "size": 1, "soakSeconds": 0},
    {"name": "pilot", "selector": {"matchLabels": {"flotta/member-of": "pilot"}}, "soakSeconds": 0},
    {"name": "everybody", "soakSeconds": 0},
]


def body(namespace: str, image: str, **rollout: Any) -> str:
    """The workload in this version, as people write it."""
    return json.dumps(
        {
            "apiVersion": "management.project-flotta.io/v1alpha1",
            "kind": "EdgeWorkload",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "type": "pod",
                "deviceSelector": {"matchLabels": {"line": "one"}},
                "pod": {"spec": {"containers": [{"name": "web", "image": image}]}},
                "rollout": {"batches": BATCHES, **rollout},
            },
        }
    )


async def apply(stage: Stage, image: str, **rollout: Any) -> None:
    """Writes the workload with strict validation."""
    text = body(stage.namespace, image, **rollout)
    await asyncio.to_thread(stage.server.kubectl, "apply", "--validate=strict", "-f", "-", input=text)


async def work(devices: Sequence[Device], *, broken: str = "") -> dict[str, str]:
    """Every device downloads, does what it is told and says so; which image each was sent."""
    found = {}
    for device in devices:
        content = (await device.configuration()).content
        for each in content.get("workloads") or []:
            image = each["specification"].split("image: ")[1].split()[0]
            found[device.name] = image
            failed = {"rolled_back": True, "message": "exit code 1"} if image == broken else {}
            told = [{"name": "web", "status": "Running", **failed}]
            assert (await device.heartbeat(version=content["version"], workloads=told)).code == 200
    return found


async def until(devices: Sequence[Device], images: dict[str, int], *, broken: str = "") -> dict[str, str]:
    """Waits until so many devices are sent each image."""

    async def are() -> dict[str, str]:
        found = await work(devices, broken=broken)
        counts = {image: list(found.values()).count(image) for image in {*images, *found.values()}}
        return found if counts == images else {}

    last: dict[str, str] = {}

    async def seen() -> bool:
        last.clear()
        last.update(await are())
        return bool(last)

    await eventually(seen, what=f"devices are sent {images}")
    return last


async def phase(stage: Stage, wanted: str, number: int) -> dict[str, Any]:
    """Waits until the rollout is there; the status of the workload."""
    found: dict[str, Any] = {}

    async def there() -> bool:
        found.clear()
        found.update((await asyncio.to_thread(stage.get, "edgeworkload", "web")).get("status", {}))
        rollout = found.get("rollout", {})
        return (rollout.get("phase"), rollout.get("number")) == (wanted, number)

    await eventually(there, what=f"the rollout of version {number} is {wanted}")
    return found


async def test_a_changed_workload_goes_from_batch_to_batch_pauses_and_survives_kills(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async with staged(api_server, namespace, tmp_path) as stage, connected(api_server) as client:
        port = stage.device.port
        names = [NAME, "b", "c", "d", "e"]
        devices = [stage.device] + [await device_of(tmp_path, client, namespace, port, each) for each in names[1:]]
        for device in devices:
            assert (await device.register()).code == 200
            await asyncio.to_thread(stage.kubectl, "label", "edgedevice", device.name, "line=one")
        await asyncio.to_thread(stage.kubectl, "label", "edgedevice", "b", "flotta/member-of=pilot")
        await asyncio.to_thread(stage.kubectl, "label", "edgedevice", "c", "flotta/member-of=pilot")
        await apply(stage, "one")
        await until(devices, {"one": 5})
        await phase(stage, "Completed", 1)
        # A bad version stops at its canary, says why, and is still there when everything was killed.
        await apply(stage, "bad")
        sent = await until(devices, {"bad": 1, "one": 4}, broken="bad")
        status = await phase(stage, "Paused", 2)
        (canary,) = (name for name, image in sent.items() if image == "bad")
        assert f"{canary}: exit code 1" in status["rollout"]["message"]
        conditions = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
        assert conditions["RolledOut"] == ("False", "RolloutStopped")
        stage.operator.kill()
        stage.gateway.kill()
        patch = '{"status":null}'
        await asyncio.to_thread(
            stage.kubectl, "patch", "edgeworkload", "web", "--subresource=status", "--type=merge", "-p", patch
        )
        stage.gateway.start()
        await until_listening(port)
        assert await work(devices, broken="bad") == sent
        stage.operator.start()
        await phase(stage, "Paused", 2)
        assert await work(devices, broken="bad") == sent

        async def told() -> bool:
            events = await asyncio.to_thread(stage.kubectl, "get", "events", "--field-selector=type=Warning")
            return "RolloutStopped" in events and "exit code 1" in events

        await eventually(told, what="an Event says why")
        # A better one goes on from the same canary to the pilot's set and to everybody, over another kill.
        await apply(stage, "good", paused=True)
        await asyncio.to_thread(stage.kubectl, "wait", "--for=jsonpath={.status.rollout.number}=3", "edgeworkload/web")
        assert await work(devices, broken="bad") == sent
        await apply(stage, "good", paused=False)

        async def pilot() -> bool:
            found = await work(devices)
            return found[canary] == "good" and (found["b"], found["c"]) == ("good", "good")

        await eventually(pilot, what="the canary and the pilot have it")
        stage.operator.kill()
        stage.operator.start()
        await until(devices, {"good": 5})
        await phase(stage, "Completed", 3)
        await asyncio.to_thread(stage.kubectl, "wait", "--for=condition=RolledOut", "edgeworkload/web", "--timeout=60s")
        revisions = (await asyncio.to_thread(stage.kubectl, "get", "ewr", "--no-headers")).splitlines()
        assert [line.split()[1:3] for line in revisions] == [["web", "3"]]
        # The workload takes its revisions with it.
        await asyncio.to_thread(stage.kubectl, "delete", "edgeworkload", "web", "--timeout=60s")

        async def gone() -> bool:
            return "edgeworkload" not in await asyncio.to_thread(stage.kubectl, "get", "ewr", "-o", "name")

        await eventually(gone, what="the revisions are gone")
