"""A node and an operator for tests of the FlashJob loops, on any API server, and an operator that dies at a write.

`FakeNode` stands for kubelet, scheduler and load balancer: it gives addresses and runs Pods to the end that a test
asks for, and remembers what it ran. `Operator` is one process with caches of its own; `Mortal` ends it before or after
its n-th write, as a crash would. `Activating` stands for the loop for FlashJobs where a test has only the other one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from edgewright.api import CUSTOM_KINDS, Device, FlashJob, Pod, Service, custom_resource_definitions
from edgewright.api.device import Claim, DeviceSpec, DeviceStatus, JobReference
from edgewright.api.flash_pod import (
    EXIT_CODES,
    FLASH_CONTAINER,
    INSPECT_CONTAINER,
    VERIFY_CONTAINER,
    Outcome,
    Report,
    encode_report,
)
from edgewright.api.flashjob import FlashJobSpec
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.device_loop import add_flashes
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.settings import Settings, Timing
from edgewright.local import custom
from edgewright.local.served import Served
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import AlreadyExists, Conflict, NotFound
from edgewright.runtime.manager import LeaseSettings, Manager
from edgewright.runtime.objects import Key, ObjectMeta
from tests.harness.waiting import wait_until_async
from tests.unit.local.serving.inprocess import serving
from tests.unit.runtime.fakeserver import running

QUICK = Settings(
    timing=Timing(first_backoff=0.02, longest_backoff=0.1, start_grace=5.0, grace=1, recheck=0.2, original_every=0.2)
)
"""Times that a test can wait for."""
DIGEST = "sha256:" + "a" * 64
GOOD = Report(outcome=Outcome.SUCCEEDED, message="runs 1.1.0", digest=DIGEST, version_after="1.1.0", written=True)


@asynccontextmanager
async def plane(directory: Path) -> AsyncIterator[Config]:
    """An API server of ours in this process that serves our kinds."""
    async with serving(directory) as api:
        api.kinds.set_custom(our_kinds())
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await api.made("/api/v1/namespaces/default/serviceaccounts", account)
        yield Config(server=api.url, tls=api.tls)


@cache
def our_kinds() -> list[Served]:
    """Our kinds as a server of ours serves them: made once, for it takes longer than most tests."""
    return [served for each in custom_resource_definitions(CUSTOM_KINDS) for served in custom.served(each)]


# --- the operator ---------------------------------------------------------------------------------------------------

Added = Callable[[Manager, Context], object]


class Mortal:
    """Ends a process before or after its n-th write; events do not count, because nobody waits for them."""

    def __init__(self, client: Client, *, at: int = 0, after: bool = False) -> None:
        self.writes: list[tuple[str, str]] = []
        self.died = asyncio.Event()
        self._at = at
        self._after = after
        self._counts: Callable[[str, str], bool] = lambda _method, _path: True
        self._send = client.transport.request
        client.transport.request = self._request  # type: ignore[method-assign] # the one door to the server

    def arm(self, at: int, *, after: bool, counts: Callable[[str, str], bool]) -> None:
        """Lets it die at its write number `at` from now on, of those whose method and path count."""
        self.writes.clear()
        self._at, self._after, self._counts = at, after, counts

    async def _request(self, method: str, path: str, **given: Any) -> bytes:
        if self.died.is_set():
            await asyncio.Event().wait()  # the dead send nothing
        if method == "GET" or path.rsplit("/", 1)[-1] == "events" or "/events/" in path:
            return await self._send(method, path, **given)
        if not self._counts(method, path):
            return await self._send(method, path, **given)
        self.writes.append((method, path))
        fatal = len(self.writes) == self._at
        if fatal and not self._after:
            self.died.set()
            await asyncio.Event().wait()
        answer = await self._send(method, path, **given)
        if fatal:
            self.died.set()
            await asyncio.Event().wait()
        return answer


@dataclass
class Operator:
    """One process of the operator while it runs."""

    context: Context
    mortal: Mortal
    task: asyncio.Task[None]


@asynccontextmanager
async def operating(
    config: Config,
    *,
    settings: Settings = QUICK,
    add: Added = add_flashes,
    at: int = 0,
    after: bool = False,
    lease: LeaseSettings | None = None,
) -> AsyncIterator[Operator]:
    """Runs an operator with fresh caches next to the block; it dies at its write number `at`, where there is one."""
    manager = Manager(Client(config), lease=lease)
    mortal = Mortal(manager.client, at=at, after=after)
    context = Context(manager, settings, SystemClock())
    add(manager, context)
    async with running(manager.run()) as task:
        yield Operator(context, mortal, task)


# --- the node -------------------------------------------------------------------------------------------------------

Ending = Callable[[Pod], Report | str | None]
"""What a Pod's flasher reports; a text is a termination message that is no report, None lets it run on."""


def succeeding(_: Pod) -> Report:
    """Every flash goes well."""
    return GOOD


@dataclass
class FakeNode:
    """Gives Services addresses and runs Pods."""

    client: Client
    namespace: str = "default"
    ending: Ending = succeeding
    addresses: list[str] = field(default_factory=lambda: [f"127.40.0.{number}" for number in range(1, 200)])
    bound: bool = False
    """Whether Pods are given to a node, so that their deletion waits for it."""
    starting: bool = True
    """Whether Pods start at all."""
    ran: list[Pod] = field(default_factory=list)
    most_services: int = 0
    most_pods: Counter[str] = field(default_factory=Counter)
    """The most Pods of a Device that ran at one time, by the Device's name."""
    _given: dict[str, str] = field(default_factory=dict)
    _running: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        """Works until it is cancelled."""
        where: dict[str, Any] = {"namespaces": (self.namespace,), "labels": "uuid"}
        pods, services = Cache(self.client.of(Pod), **where), Cache(self.client.of(Service), **where)
        wishes: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()

        def on_pod(change: Change[Pod]) -> None:
            if change.new is None:
                self._running.pop(change.latest.metadata.uid, None)
            else:
                wishes.put_nowait(lambda: self._pod(pods, change.latest.key))

        def on_service(change: Change[Service]) -> None:
            self.most_services = max(self.most_services, len(services))
            if change.new is None and (address := self._given.pop(change.latest.metadata.uid, None)):
                self.addresses.append(address)
            for service in services:
                if not service.external_address:
                    wishes.put_nowait(lambda key=service.key: self._service(services, key))  # type: ignore[misc]

        pods.subscribe(on_pod)
        services.subscribe(on_service)
        async with running(pods.run()), running(services.run()):
            while True:
                wish = await wishes.get()
                with suppress(NotFound, Conflict):
                    await wish()

    async def _service(self, services: Cache[Service], key: Key) -> None:
        service = services.get(key)
        if service is None or service.metadata.uid in self._given or not self.addresses:
            return
        self._given[service.metadata.uid] = address = self.addresses.pop(0)
        status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        await self.client.of(Service).patch(key, status, subresource="status")

    async def _pod(self, pods: Cache[Pod], key: Key) -> None:
        pod = pods.get(key)
        if pod is None or pod.finished or not self.starting:
            return
        if self.bound and not pod.spec.node_name:
            if not pod.deleting:
                await self._bind(pod)
            return
        uid, device = pod.metadata.uid, pod.metadata.annotations.get("edgewright.dev/device", "")
        if uid not in self._running:
            self._running[uid] = device
            self.ran.append(pod)
            together = sum(each == device for each in self._running.values())
            self.most_pods[device] = max(self.most_pods[device], together)
        report = self.ending(pod)
        if report is None and pod.deleting:
            report = "ended by a signal"
        if report is not None:
            await self.end(pod, report)
            self._running[uid] = ""
        elif not pod.began:
            await self._status(pod, "Running", {"running": {"startedAt": _now()}})

    async def end(self, pod: Pod, report: Report | str) -> None:
        """Lets a Pod end with a report of our flasher, or with some other text."""
        code = EXIT_CODES[report.outcome] if isinstance(report, Report) else 143
        text = encode_report(report).decode() if isinstance(report, Report) else report
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "message": text}
        await self._status(pod, "Succeeded" if code == 0 else "Failed", {"terminated": ended})

    async def _bind(self, pod: Pod) -> None:
        path = Pod.kind.path(pod.metadata.namespace, pod.metadata.name, "binding")
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.metadata.name}, "target": target}
        await self.client.transport.request("POST", path, body=msgspec.json.encode(body))

    async def _status(self, pod: Pod, phase: str, state: dict[str, Any]) -> None:
        foreign = any(each.name == VERIFY_CONTAINER for each in pod.spec.containers)
        names = [FLASH_CONTAINER, VERIFY_CONTAINER] if foreign else [FLASH_CONTAINER]
        common = {"image": "flasher", "imageID": "", "ready": False, "restartCount": 0}
        status: dict[str, Any] = {
            "phase": phase,
            "startTime": _now(),
            "containerStatuses": [{"name": name, "state": state, **common} for name in names],
        }
        if foreign:
            done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
            status["initContainerStatuses"] = [{"name": INSPECT_CONTAINER, "state": done, **common}]
        await self.client.of(Pod).patch(pod.key, {"status": status}, subresource="status")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- what tests make and see ----------------------------------------------------------------------------------------


@dataclass
class Stage:
    """A namespace of a server, with a node, in the hands of a test."""

    client: Client
    namespace: str
    node: FakeNode

    async def job(self, name: str, *uuids: str, **spec: Any) -> FlashJob:
        """Makes a FlashJob."""
        given = {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0", "uuid": uuids, **spec}
        metadata = ObjectMeta(name=name, namespace=self.namespace)
        return await self.client.of(FlashJob).create(FlashJob(metadata=metadata, spec=FlashJobSpec(**given)))

    async def device(self, name: str, **spec: Any) -> Device:
        """Makes a Device."""
        given = {"type": "esp32", "endpoint": f"{name}.example", **spec}
        made = Device(metadata=ObjectMeta(name=name), spec=DeviceSpec(**given))
        with suppress(AlreadyExists):
            return await self.client.of(Device).create(made)
        return await self.client.of(Device).get(Key("", name))

    async def claim(self, job: FlashJob, device: Device, **changes: Any) -> Device:
        """Gives a Device to a job, as the loop for FlashJobs would."""
        metadata = job.metadata
        reference = JobReference(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
        uuid = device.metadata.name if device.metadata.name in job.spec.uuids else job.spec.uuids[0]
        claim = Claim(job=reference, uuid=uuid, state=state_of(job.spec), since=datetime.now(UTC))
        claim = msgspec.structs.replace(claim, **changes)
        status = msgspec.structs.replace(device.status, claim=claim)
        return await self.client.of(Device).write_status(device, status)

    async def status(self, device: str) -> DeviceStatus:
        """The status of a Device, as the server has it."""
        return (await self.client.of(Device).get(Key("", device))).status

    async def pods(self) -> list[Pod]:
        """The Pods in the namespace."""
        return (await self.client.of(Pod).list(self.namespace)).items

    async def services(self) -> list[Service]:
        """The Services of devices in the namespace."""
        return (await self.client.of(Service).list(self.namespace, labels="uuid")).items

    async def settled(self, *devices: str) -> None:
        """Returns when no device has a claim and nothing that was made for one is left."""

        async def free() -> bool:
            if any([(await self.status(device)).claim for device in devices]):
                return False
            return not await self.pods() and not await self.services()

        await wait_until_async(free, what=f"{devices} are free and nothing is left", timeout=120)


@asynccontextmanager
async def stage(config: Config, *, namespace: str = "default", **node: Any) -> AsyncIterator[Stage]:
    """A node at work in a namespace, and the hands of a test."""
    async with Client(config) as client, Client(config) as other:
        worker = FakeNode(other, namespace, **node)
        async with running(worker.run()):
            yield Stage(client, namespace, worker)


@asynccontextmanager
async def activating(config: Config) -> AsyncIterator[None]:
    """Lets claims between two attempts go on when their time has come, as the loop for FlashJobs would."""

    async def activate(client: Client) -> None:
        while True:
            for device in (await client.of(Device).list()).items:
                claim = device.status.claim
                if claim is not None and claim.not_before is not None and claim.not_before <= datetime.now(UTC):
                    claim = msgspec.structs.replace(claim, not_before=None)
                    with suppress(Conflict):
                        status = msgspec.structs.replace(device.status, claim=claim)
                        await client.of(Device).write_status(device, status)
            await asyncio.sleep(0.01)

    async with Client(config) as client, running(activate(client)):
        yield
