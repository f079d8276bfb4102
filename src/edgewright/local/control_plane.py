"""The embedded control plane as a whole: store, kinds, server, controllers and node, in one process and one loop.

`edgewright up` opens one and runs it until it is told to stop. Everything but the server speaks to it as any client
does, over TLS and with a certificate of its own. This module only joins the parts.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgewright.local import bootstrap, builtin, controllers
from edgewright.local.access.entrance import Entrance
from edgewright.local.custom.crd_controller import Definitions
from edgewright.local.kinds import Kinds
from edgewright.local.node.pod_ids import PodIds
from edgewright.local.serving.listener import Listener, listen
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.pages import Pages
from edgewright.local.serving.podlogs import PodLogs
from edgewright.local.serving.server import Server
from edgewright.local.store import Store
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.health import Health
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Kind

if TYPE_CHECKING:
    from edgewright.local.node.services import ServiceForwarder

SERVICE_RANGE: Final = "127.96.0.0/16"
"""Where Services get their addresses from: loopback addresses, which work on this machine without any set-up."""
_TRIM_SECONDS: Final = 60.0
_RENEW_SECONDS: Final = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one control plane is to be."""

    data: Path
    """Where everything is kept; it belongs to this process alone while it runs."""
    host: str = "127.0.0.1"
    port: int = 6443
    """0 picks a free port."""
    node: str | None = None
    """The name of the node that runs Pods here; none: Pods stay Pending."""
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The programs that stand for images on the node."""
    told: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """The images whose programs can do without mounts; see `Containers`."""
    addresses: Sequence[str] = ()
    """Addresses of this machine that Services get; without any they get loopback addresses."""
    podman: bool = False
    """Whether images that stand for no program are pulled, and run by podman."""
    pod_ids: PodIds = field(default_factory=PodIds)
    """The users and groups that Pods may have where this process is root."""


class Running:
    """A control plane that answers."""

    def __init__(
        self, *, entrance: Entrance, store: Store, listener: Listener, host: str, serving: asyncio.Event
    ) -> None:
        self.entrance = entrance
        self.store = store
        self.port = listener.port
        self.url = f"https://{f'[{host}]' if ':' in host else host}:{self.port}"
        """How it is reached from this machine."""
        self._serving = serving
        self._parts: list[asyncio.Task[None]] = []

    def go_on(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Runs a part in the background, until the control plane stops."""
        self._parts.append(asyncio.create_task(work, name=name))

    async def serve_until(self, stop: asyncio.Event) -> None:
        """Serves until told to stop, and is ready from now on; raises what ended a part that must go on."""
        self._serving.set()
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([stopping, *self._parts], return_when=asyncio.FIRST_COMPLETED)
            for part in self._parts:
                if part in done:
                    part.result()
                    raise RuntimeError(f"{part.get_name()} ended by itself")
        finally:
            stopping.cancel()

    async def end(self) -> None:
        """Ends the parts that run in the background."""
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)


@asynccontextmanager
async def open(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[Running]:  # noqa: A001  as for files
    """A control plane that answers, and ends in good order."""
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        store = await Store.open(settings.data, clock=clock)
        stack.push_async_callback(store.close)
        network = ipaddress.ip_network(SERVICE_RANGE)
        entrance = Entrance(settings.data, host=settings.host, names=[str(network[1])], clock=clock)
        kinds = Kinds(builtin.served(service_range=SERVICE_RANGE, loopback=True), builtin.definitions())
        definitions = Definitions(store, kinds, clock=clock)
        definitions.load()
        objects = Objects(store, kinds, clock)
        health, serving = Health(), asyncio.Event()
        # Set once whoever opened it has done the rest, such as a kubeconfig: who finds it ready finds that too.
        health.add_readiness("start", lambda: None if serving.is_set() else "is not complete yet")
        pages = Pages(kinds, health)
        accounts = entrance.accounts(objects.find)
        objects.recognise = entrance.authentication.recognise
        pages.keys = accounts.keys
        server = Server(objects, entrance.authentication, pages, PodLogs(objects, entrance.logs_client), accounts)
        listener = await listen(server.handle, host=settings.host, port=settings.port, tls=entrance.tls)
        stack.push_async_callback(listener.close, store.history.close)
        running = Running(
            entrance=entrance, store=store, listener=listener, host=_dialled(settings.host), serving=serving
        )
        pages.address = f"{_dialled(settings.host)}:{running.port}"
        stack.push_async_callback(running.end)
        await bootstrap.make(objects, service_range=SERVICE_RANGE, host=_dialled(settings.host), port=running.port)
        running.go_on("definitions", definitions.run())
        running.go_on("house-keeping", _keep_house(store, entrance, clock))
        manager = _controllers(running, kinds, settings.data, clock)
        if settings.node:
            stack.push_async_callback(_add_node(running, manager, health, settings, clock).close)
        running.go_on("controllers", manager.run())
        health.add_readiness("controllers", lambda: _problem(manager))
        yield running


def _controllers(running: Running, kinds: Kinds, data: Path, clock: Clock) -> Manager:
    """The controllers of the control plane itself; who gets the manager runs it."""
    config = Config(server=running.url, tls=running.entrance.component("controllers"), source="edgewright up")
    manager = Manager(Client(config, clock=clock), name="edgewright-controllers", clock=clock)

    def listed() -> Sequence[Kind]:
        wanted = {"list", "watch", "delete"}
        return [each.kind for each in kinds.all() if wanted <= set(each.verbs)]

    companions = controllers.add_all(
        manager,
        root_ca=running.entrance.authority.certificate.encode(),
        kinds=listed,
        folders=data.absolute() / "node" / "claims",
        clock=clock,
    )

    async def tell() -> None:
        while True:
            await kinds.changed()
            companions.kinds.changed()

    running.go_on("controllers of all kinds", companions.run())
    running.go_on("news of kinds", tell())
    return manager


def _add_node(running: Running, manager: Manager, health: Health, settings: Settings, clock: Clock) -> ServiceForwarder:
    """Starts the node, whose Pods see nothing of the data directory; what is returned must be closed at the end."""
    from edgewright.local.node.node import Containers, Network, Node  # noqa: PLC0415 - not all have a node
    from edgewright.local.node.services import ServiceForwarder  # noqa: PLC0415

    name, forwarder = settings.node or "", ServiceForwarder(addresses=settings.addresses)
    forwarder.add(manager)
    config = Config(server=running.url, tls=running.entrance.node(name), source="edgewright up")
    node = Node(
        Client(config, clock=clock),
        name=name,
        directory=settings.data / "node",
        containers=Containers(
            images=settings.images,
            ids=settings.pod_ids,
            covered=[settings.data],
            told=settings.told,
            claims=True,
            podman=settings.podman,
        ),
        network=Network(log_tls=running.entrance.node_logs(name), services=True),
        clock=clock,
    )
    registered = asyncio.create_task(node.ready())
    health.add_readiness("node", lambda: None if registered.done() else "is not registered yet")
    running.go_on("node", node.run())
    running.go_on("registration of the node", _forever_after(registered))
    return forwarder


async def _forever_after(first: Awaitable[None]) -> None:
    """Waits for something and then for the end, as a part that must go on does."""
    await first
    await asyncio.Event().wait()


def _problem(manager: Manager) -> str | None:
    return next((f"{each.name}: {each.why}" for each in manager.health.ready() if each.why is not None), None)


async def _keep_house(store: Store, entrance: Entrance, clock: Clock) -> None:
    """Forgets old history and renews certificates, now and then."""
    renew = clock.elapsed() + _RENEW_SECONDS
    while True:
        await clock.sleep(_TRIM_SECONDS)
        await store.trim()
        if clock.elapsed() >= renew:
            renew += _RENEW_SECONDS
            await asyncio.to_thread(entrance.renew)


def _dialled(host: str) -> str:
    """The address under which this machine reaches what listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  nothing is bound here
