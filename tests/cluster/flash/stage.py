"""A stage for scenarios of FlashJobs: simulated devices, their registry and attestation, a node and the operator.

`async with Stage(server, ...)` has all of it next to an API server that runs Pods (the fixture `flash_server`). The
node runs our flasher as processes; devices and flashers live in scaled time. The operator runs in the test's own loop,
or as a process that can be killed.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import itertools
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, TypeVar
from weakref import WeakSet

from edgewright.api import CUSTOM_KINDS, Device, FlashJob, Pod, Service, custom_resource_definitions
from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.api.flashjob import TLS_SECRET
from edgewright.cli.instance_registration import SECRET, Registration, install_instances
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings, Timing
from edgewright.devices.simulated.attestation import AttestationService
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.device import HTTP_PORT, Times
from edgewright.devices.simulated.device import Device as SimulatedDevice
from edgewright.devices.simulated.faults import parse_fault
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did, Entry
from edgewright.devices.simulated.registry import Registry
from edgewright.runtime import Client, Key, Manager, config
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.definitions import install
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import RawObject, Resource
from edgewright.runtime.transport import Transport
from tests.harness import ApiServer, Process, wait_until_async

T = TypeVar("T")
R = TypeVar("R", bound=Resource)

SCALE = 0.03
"""How fast devices and flashers live."""
DIALS = 80
"""How often a device dials: a node that has much to do does not make a Pod's address known faster than it can."""
FLASHER = f"env EDGEWRIGHT_TIME_SCALE={SCALE} {sys.executable} -m edgewright.devices.flasher"
LIAR, FOREIGN = "example/liar", "example/ota-agent"
"""Flashers of others: one that does nothing and says that all is well, and one that works."""
_FOREIGN_PROGRAM = Path(__file__).with_name("foreign_flasher.py")
IMAGE = (
    *("--image", f"{FLASHER_IMAGE}={FLASHER}"),
    *("--image", f"{LIAR}=true"),
    *("--image", f"{FOREIGN}={sys.executable} {_FOREIGN_PROGRAM}"),
)
"""What a node needs to run our flasher, and those of others."""
_OWN = 2 + os.getpid() % 250
ADDRESSES = tuple(f"127.61.{_OWN}.{number}" for number in range(1, 25))
"""What the node next to the real API server gives Services: apart from that of another run of the tests."""
QUICK = Timing(
    status_every=0.1,
    first_backoff=0.2,
    longest_backoff=0.5,
    start_grace=10.0,
    grace=5,
    foreign_grace=2.0,
    recheck=0.3,
    original_every=0.3,
)
PATIENCE = 240.0
APPLICATION = "thermometer"
PROGRAM = Path(__file__).with_name("operator_program.py")
_numbers = itertools.count(os.getpid() % 200)
_with_our_kinds: WeakSet[ApiServer] = WeakSet()
"""The servers that were given our kinds: to write them again takes as long as many a scenario, and changes nothing."""


class _Listened(Transport):
    """The connections of an operator, which tell what it writes."""

    def __init__(self, settings: config.Config, writes: list[tuple[str, str]]) -> None:
        super().__init__(settings)
        self._writes = writes

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        """As the other one."""
        if method != "GET":
            self._writes.append((method, path))
        return await super().request(method, path, **more)


class _DeviceClock(SystemClock):
    """The clock of the devices, which a test can stop."""

    def __init__(self) -> None:
        self.going = asyncio.Event()
        self.going.set()
        self.stops_at_writing = False

    def noted(self, _: SimulatedDevice, entry: Entry) -> None:
        """Stops when a device begins to take its firmware, if it is to: never while one still has to dial again."""
        if self.stops_at_writing and entry.did is Did.WRITING:
            self.going.clear()

    async def sleep(self, seconds: float) -> None:
        """Waits for that long, and while the clock stands still."""
        await super().sleep(seconds)
        await self.going.wait()


class Stage:
    """One scene: everything that is there for one test."""

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        *,
        devices: int = 1,
        faults: Sequence[str] = (),
        tells_boot: Collection[int] = (),
        seed: int = 0,
        operator: bool = True,
        timing: Timing = QUICK,
        nat: bool = False,
        local: bool = True,
        discovered: bool = True,
        scale: float = SCALE,
        also: Sequence[str] = (),
    ) -> None:
        """`operator=False` leaves it to the test to start one; without `discovered` no device gets an Instance.

        Devices are on the wire like the published firmware, but for those `tells_boot`: they count their restarts too.

        There may be jobs in the namespaces `also`; the Instances are in the first one.

        `local=False` is an operator as in a cluster, to which the devices, which are on this machine, are forbidden.
        """
        self.server, self.namespace = server, namespace
        self.namespaces = (namespace, *also)
        """All in which the operator works."""
        self.client = Client(config.load(kubeconfig=server.kubeconfig))
        self.registry = Registry()
        number = next(each for each in _numbers if not _taken(_first_address(each), devices))
        pair = server_pair()
        self.pair = pair
        """The certificate that the devices pin, and its key."""
        self.configuration = f"stage-{number}"
        self._clock = _DeviceClock()
        self.fleet = Fleet(
            count=devices,
            pinned=pair.certificate,
            seed=seed,
            application=APPLICATION,
            first_address=_first_address(number),
            faults=[parse_fault(each) for each in faults],
            tells_boot=tells_boot,
            times=Times(scale=scale, dials=DIALS),
            clock=self._clock,
            told=self._clock.noted,
        )
        self.attestation = AttestationService(self.fleet.recognises)
        self.timing, self._nat, self._local = timing, nat, local
        self._discovered = discovered
        self._wants_operator = operator
        self.writes: list[tuple[str, str]] = []
        """What operators in this loop asked the server to write: the verb and the path of each request."""
        self._operator: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()
        self.registration = Registration(
            self.client,
            self.fleet,
            namespace=namespace,
            configuration=self.configuration,
            node="edge",
            every=0.2,
        )

    # --- its life --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        stack = self._stack
        await stack.enter_async_context(self.client)
        if self.server not in _with_our_kinds:
            for document in custom_resource_definitions(CUSTOM_KINDS):
                await install(self.client, document)
            await install_instances(self.client)
            _with_our_kinds.add(self.server)
        for namespace in self.namespaces:
            pair = {"tls.crt": self.pair.certificate, "tls.key": self.pair.key}
            await self.make_secret(TLS_SECRET, pair, namespace=namespace)
        for part in (self.fleet, self.attestation, self.registry):
            await stack.enter_async_context(part)
        if self._discovered:
            stack.push_async_callback(self.registration.end)
            await self.registration.begin()
            looking = asyncio.create_task(self.registration.run())
            stack.push_async_callback(_cancelled, looking)
        if self._wants_operator:
            self.start_operator()
        stack.push_async_callback(self.clear)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def settings(self) -> Settings:
        """How the operator works here."""
        return Settings(
            local=self._local,
            nat=self._nat,
            plain_registries=(self.registry.host,),
            attestation=self.attestation.url,
            timing=self.timing,
        )

    @contextmanager
    def devices_stand_still(self) -> Iterator[None]:
        """Once a device is in mid-transfer, none goes on after its next pause; slow ones (`slow:65536=N`) make some.

        A device that still has to dial is not held up.
        """
        self._clock.stops_at_writing = True
        try:
            yield
        finally:
            self._clock.stops_at_writing = False
            self._clock.going.set()

    def start_operator(self) -> None:
        """Starts an operator in this loop."""
        client = Client(config.load(kubeconfig=self.server.kubeconfig))
        client.transport = _Listened(client.config, self.writes)
        manager = Manager(client, namespaces=self.namespaces)
        add_controllers(manager, self.settings)
        self._operator = asyncio.create_task(manager.run(), name="operator")

    async def stop_operator(self) -> None:
        """Ends it at once, wherever it is, as far as a loop can do that."""
        if self._operator is not None:
            await _cancelled(self._operator)
            self._operator = None

    def operator_process(
        self, directory: Path, *, name: str = "operator", lease: bool = True, behind: float = 0.0
    ) -> Process:
        """An operator as a process, not started yet, that can be killed.

        Without a lease one that follows need not wait; with one its `name` is told by the Lease that it holds. `behind`
        is by how many seconds its caches are, at the most.
        """
        file, ready = directory / f"{name}.json", directory / f"{name}.ready"
        settings = asdict(self.settings)
        file.write_text(
            json.dumps(
                {
                    "kubeconfig": str(self.server.kubeconfig),
                    "namespaces": self.namespaces,
                    "name": name,
                    "settings": settings,
                    "ready": str(ready),
                    "lease": lease,
                    "behind": behind,
                }
            )
        )
        return Process(name, [sys.executable, PROGRAM, file], log=directory / f"{name}.log", ready=ready.exists)

    async def clear(self) -> None:
        """Deletes jobs and Devices of this stage; the operator cleans up behind them where there is one."""
        jobs = self.client.of(FlashJob)
        for job in await self.jobs():
            await _unless_gone(jobs.delete(job.key))
        if self._operator is not None and not self._operator.done():
            await self.until(self.jobs_are_gone, "the jobs are gone")
        await self.stop_operator()
        devices = self.client.of(Device)
        for device in await self.devices():
            await _unless_gone(devices.delete(device.key))

    async def jobs_are_gone(self) -> bool:
        """Whether no FlashJob of this stage is left."""
        return not await self.jobs()

    # --- what a test declares --------------------------------------------------------------------------------------

    def firmware(
        self, version: str, *, tag: str = "", chip: str = "esp32", project: str = APPLICATION, **more: Any
    ) -> str:
        """Puts a firmware of that version into the registry; its reference."""
        tag = tag or version
        content = esp_image(chip=chip, version=version, project=project, **more)
        self.registry.add_image("fleet/firmware", tag, {chip: content})
        return f"{self.registry.host}/fleet/firmware:{tag}"

    async def uids(self) -> dict[int, str]:
        """The uid of the Instance of each device that is discovered now."""
        names = {name: number for number, name in self.registration.names.items()}
        found = await self.client.raw(_instances()).list(self.namespace)
        return {
            names[each["metadata"]["name"]]: each["metadata"]["uid"]
            for each in found.items
            if each["metadata"]["name"] in names
        }

    async def job(
        self,
        name: str = "job",
        *,
        version: str = "0.2.0",
        uuids: Sequence[str] | None = None,
        namespace: str = "",
        **spec: Any,
    ) -> str:
        """Makes a FlashJob for all devices (or those named) and gives its name back."""
        if uuids is None:
            uuids = list((await self.uids()).values())
        body: RawObject = {
            "apiVersion": FlashJob.kind.api_version,
            "kind": "FlashJob",
            "metadata": {"name": name, "namespace": namespace or self.namespace},
            "spec": {
                "uuid": list(uuids),
                "firmware": spec.pop("firmware", None) or self.firmware(version),
                "version": version,
                "timeoutSeconds": 60,
                **spec,
            },
        }
        await self.client.raw(FlashJob.kind).create(body)
        return name

    async def change(self, name: str, **spec: Any) -> None:
        """Changes fields of a FlashJob's spec."""
        await self.client.raw(FlashJob.kind).patch(Key(self.namespace, name), {"spec": spec})

    async def make_secret(self, name: str, data: dict[str, str], kind: str = "Opaque", *, namespace: str = "") -> None:
        """Makes a Secret in the stage's namespace, or another one."""
        metadata = {"name": name, "namespace": namespace or self.namespace}
        body = {"metadata": metadata, "stringData": data, "type": kind}
        await self.client.raw(SECRET).create({"apiVersion": "v1", "kind": "Secret", **body})

    # --- what a test asks ------------------------------------------------------------------------------------------

    async def get(self, name: str = "job", namespace: str = "") -> FlashJob:
        """A FlashJob as it is now."""
        return await self.client.of(FlashJob).get(Key(namespace or self.namespace, name))

    async def jobs(self) -> list[FlashJob]:
        """All FlashJobs in the stage's namespaces."""
        return await self._all(FlashJob)

    async def devices(self) -> list[Device]:
        """The Devices of this stage's fleet."""
        endpoints = {each.endpoint for each in self.fleet}
        return [each for each in (await self.client.of(Device).list()).items if each.spec.endpoint in endpoints]

    async def device(self, number: int = 1) -> Device:
        """The Device of one simulated device."""
        endpoint = self.fleet[number].endpoint
        return await self.until(lambda: self._device_at(endpoint), f"there is a Device for {endpoint}")

    async def _device_at(self, endpoint: str) -> Device | None:
        return next((each for each in await self.devices() if each.spec.endpoint == endpoint), None)

    async def pods(self) -> list[Pod]:
        """All Pods in the stage's namespaces."""
        return await self._all(Pod)

    async def services(self) -> list[Service]:
        """All Services in the stage's namespaces."""
        return await self._all(Service)

    async def _all(self, kind: type[R]) -> list[R]:
        api = self.client.of(kind)
        return [each for namespace in self.namespaces for each in (await api.list(namespace)).items]

    async def until(self, condition: Callable[[], Awaitable[T | None]], what: str, patience: float = PATIENCE) -> T:
        """The first true answer; the operator must live meanwhile."""

        async def asked() -> T | None:
            if self._operator is not None and self._operator.done():
                self._operator.result()
                raise AssertionError("the operator has ended by itself")
            return await condition()

        return await wait_until_async(asked, timeout=patience, what=what)

    async def until_phase(self, phase: str, name: str = "job", patience: float = PATIENCE) -> FlashJob:
        """The job once it is in that phase, for this generation of its spec."""

        async def reached() -> FlashJob | None:
            job = await self.get(name)
            seen = job.status.observed_generation == job.metadata.generation
            return job if seen and job.status.phase == phase else None

        try:
            return await self.until(reached, f"{name} is {phase}", patience)
        except AssertionError as error:
            raise AssertionError(f"{error}; its status is {(await self.get(name)).status.to_raw()}") from None

    async def until_clean(self) -> None:
        """Waits until no Pod, no Service and no finalizer is left."""

        async def clean() -> bool:
            jobs = await self.jobs()
            return not (await self.pods() or await self.services() or any(job.metadata.finalizers for job in jobs))

        await self.until(clean, "nothing is left")

    async def until_did(self, number: int, did: Did) -> None:
        """Waits until this has happened to a simulated device."""

        async def happened() -> bool:
            return self.fleet[number].journal.count(did) > 0

        await self.until(happened, f"device {number} was seen: {did}")

    def outcomes(self, job: FlashJob) -> dict[int, str]:
        """How each simulated device ended, as the job's status tells it."""
        return {self.number_of(each.device): each.outcome for each in job.status.devices}

    def number_of(self, device: str) -> int:
        """The number of the simulated device behind a Device's name."""
        return self._numbers_by_name[device]

    async def learn_names(self) -> None:
        """Reads which Device is which simulated device."""
        by_endpoint = {each.endpoint: each.number for each in self.fleet}
        self._numbers_by_name = {each.metadata.name: by_endpoint[each.spec.endpoint] for each in await self.devices()}

    def flashed(self, device: SimulatedDevice) -> int:
        """How often a whole firmware was written to a simulated device."""
        return len(device.journal.written)


def _first_address(number: int) -> str:
    """Where the devices of a stage begin: not among the addresses that pages, the demo and other tests name."""
    return f"127.32.{number % 100 + 101}.1"


def _taken(first: str, devices: int) -> bool:
    """Whether another run of the tests has devices at one of these addresses."""
    return any(_listened_at(str(ipaddress.ip_address(first) + number)) for number in range(devices))


def _listened_at(address: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, HTTP_PORT))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _instances() -> Any:
    from edgewright.api.instance import Instance

    return Instance.kind


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _unless_gone(work: Awaitable[None]) -> None:
    try:
        await work
    except NotFound:
        return
