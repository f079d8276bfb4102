"""The limit for `bench/flashjob.py`: the seven writes per device, one after the other, with nothing around them.

Called by the driver as the operator is. So many workers, each with one device at a time, on the same client; two
watches tell of addresses and ended Pods. No cache, no ledger, no decision, no status of the job, and no idea what to do
if anything goes wrong. What it writes is made before the clock starts. What the operator needs beyond this is its own
cost.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from bench.peers.flashing import JOB, REPORT, cpu_seconds, last_line, parse_arguments, say_ready
from edgewright.api import Device, FlashJob, Pod, Service
from edgewright.api.device import Claim, JobReference
from edgewright.controllers.flashjob.manifests import OUTCOME_FINALIZER, pod_for, service_for
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.flashjob.outcomes import record
from edgewright.controllers.settings import Settings
from edgewright.runtime import Client, Key, config
from edgewright.runtime.objects import RawObject
from edgewright.runtime.patches import merge_diff

R = TypeVar("R", Pod, Service)

_LONG = 3600.0
_ADDRESS = "the address"


class Waiting:
    """Who waits for which object to be as they need it."""

    def __init__(self) -> None:
        self._waiters: dict[str, asyncio.Future[str]] = {}

    async def until(self, name: str) -> str:
        """What the watch told of the object of that name; to be called before it can be told."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiters[name] = future
        return await future

    def told(self, name: str, what: str) -> None:
        """The object is as somebody needs it."""
        future = self._waiters.pop(name, None)
        if future is not None:
            future.set_result(what)


class Bodies:
    """What is written for one device."""

    def __init__(self, job: FlashJob, device: Device) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        metadata = job.metadata
        reference = JobReference(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
        claim = Claim(job=reference, uuid=device.metadata.name, state=state_of(job.spec), attempt=1, since=now)
        settings = Settings()
        self.device = device
        self.claim: RawObject = {"status": {"claim": msgspec.to_builtins(claim)}}
        claimed = msgspec.structs.replace(device, status=msgspec.structs.replace(device.status, claim=claim))
        self.service: RawObject = service_for(job, claimed, claim, settings)
        self.pod: RawObject = pod_for(job, claimed, claim, address=_ADDRESS, digest="", settings=settings)
        after = record(claimed, claim, REPORT, firmware=job.spec.firmware, forced=False, now=now, living=lambda _: True)
        change = merge_diff(msgspec.to_builtins(claimed.status), msgspec.to_builtins(after))
        self.outcome: RawObject = {"status": change}


_UNPROTECTED: list[RawObject] = [
    {"op": "test", "path": "/metadata/finalizers/0", "value": OUTCOME_FINALIZER},
    {"op": "remove", "path": "/metadata/finalizers/0"},
]


async def flash(client: Client, bodies: Bodies, addresses: Waiting, ends: Waiting) -> None:
    """The writes for one device."""
    devices, services, pods = client.of(Device), client.of(Service), client.of(Pod)
    key, version = bodies.device.key, bodies.device.metadata.resource_version
    claimed = await devices.patch(key, bodies.claim, resource_version=version, subresource="status")
    addressed = asyncio.create_task(addresses.until(bodies.service["metadata"]["name"]))
    await asyncio.sleep(0)
    service = await _create(services, bodies.service)
    address = await addressed
    for variable in bodies.pod["spec"]["containers"][0]["env"]:
        if variable.get("value") == _ADDRESS:
            variable["value"] = address
    ended = asyncio.create_task(ends.until(bodies.pod["metadata"]["name"]))
    await asyncio.sleep(0)
    pod = await _create(pods, bodies.pod)
    await ended
    version = claimed.metadata.resource_version
    await devices.patch(key, bodies.outcome, resource_version=version, subresource="status")
    await pods.delete(pod.key, uid=pod.metadata.uid)
    await pods.patch(pod.key, _UNPROTECTED, uid=pod.metadata.uid)
    await services.delete(service.key, uid=service.metadata.uid)


async def _create(api: Any, body: RawObject) -> Any:
    return await api.create(body)


async def watch(
    client: Client, kind: type[R], namespace: str, tell: Callable[[R], None], standing: asyncio.Event
) -> None:
    """Tells of each object that somebody has changed."""
    api = client.of(kind)
    version = (await api.list(namespace)).resource_version
    async with aclosing(api.watch(namespace, resource_version=version, seconds=_LONG)) as batches:
        async for batch in batches:
            standing.set()
            for event in batch:
                if event.type == "MODIFIED":
                    tell(msgspec.json.decode(event.object, type=kind))


async def run(args: argparse.Namespace) -> str:
    """Flashes every Device there is."""
    async with Client(config.load(kubeconfig=args.kubeconfig), connections=args.connections) as client:
        job = await client.of(FlashJob).get(Key(args.namespace, JOB))
        todo = iter([Bodies(job, device) for device in (await client.of(Device).list()).items])
        addresses, ends = Waiting(), Waiting()

        def of_service(service: Service) -> None:
            if service.external_address:
                addresses.told(service.metadata.name, service.external_address)

        def of_pod(pod: Pod) -> None:
            if pod.finished:
                ends.told(pod.metadata.name, pod.status.phase)

        standing = [asyncio.Event(), asyncio.Event()]
        watches = [
            asyncio.create_task(watch(client, Service, args.namespace, of_service, standing[0])),
            asyncio.create_task(watch(client, Pod, args.namespace, of_pod, standing[1])),
        ]
        await asyncio.gather(*(each.wait() for each in standing))
        say_ready()
        before = cpu_seconds()
        started = time.monotonic()

        async def work() -> None:
            for bodies in todo:
                await flash(client, bodies, addresses, ends)

        async def all_work() -> None:
            await asyncio.gather(*(work() for _ in range(args.workers)))

        working = asyncio.create_task(all_work())
        await asyncio.wait([working, *watches], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RuntimeError("a watch ended before the work was done")
        await working
        numbers = {"seconds": time.monotonic() - started, "cpu_until_finished": cpu_seconds() - before}
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        return last_line(**numbers)


if __name__ == "__main__":
    print(
        asyncio.run(
            run(
                parse_arguments(
                    __doc__,
                    workers={"type": int, "default": 200, "help": "how many devices are under way at once"},
                    connections={"type": int, "default": 32, "help": "how many requests are under way at once"},
                )
            )
        )
    )
