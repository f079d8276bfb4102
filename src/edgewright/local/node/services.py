"""Makes Services work on this machine: gives LoadBalancer Services an address, and forwards all their addresses.

`ServiceForwarder.add` registers a controller that reads Services and EndpointSlices, writes the address to the
Service's status, and tells `forwarding` what to listen for: the LoadBalancer address, the ClusterIP where that is a
loopback address, and node ports on 127.0.0.1. Next to a real API server, which takes no loopback address into an
EndpointSlice, it also reads the Pods of its own node. What a Service waits for is an Event on it. It never writes Pods.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from prometheus_client import Counter

from edgewright.local.controllers.resources import SERVICE_NAME, EndpointSlice, Pod, Service, ServicePort
from edgewright.local.controllers.slices import endpoint, ports, selects
from edgewright.local.node.forwarding import Backend, Bind, Forwarder, Limits, Route
from edgewright.local.node.pool import LOOPBACK, Claim, Pool, ranges_of
from edgewright.runtime import DONE, Change, For, Key, Manager, Maps, Result, requeue_after
from edgewright.runtime.cache import Cache
from edgewright.runtime.controller import Source
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Resource
from edgewright.runtime.predicates import anything

NODE_ADDRESS = "127.0.0.1"
_LOOPBACK = ipaddress.IPv4Network("127.0.0.0/8")
_PROTOCOLS = frozenset({"TCP", "UDP"})
_TRY_AGAIN_SECONDS = 30.0


def balanced(service: Service) -> bool:
    """Whether the Service wants an address from us: a class names another implementation."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None and not service.deleting


def address_of(service: Service) -> str:
    """The address in the Service's status; empty where there is none."""
    return next((each.ip for each in service.status.load_balancer.ingress if each.ip), "")


def claim_of(service: Service) -> Claim:
    """What the Service asks of an address."""
    made = service.metadata.creation_timestamp
    return Claim(
        key=service.key,
        ports=frozenset((port.protocol, port.port) for port in service.spec.ports),
        ranges=ranges_of(service.spec.load_balancer_source_ranges),
        age=(made.isoformat() if made else "", service.metadata.uid),
        wanted=service.spec.load_balancer_ip,
        held=address_of(service),
    )


def backends(port: ServicePort, slices: Iterable[EndpointSlice]) -> tuple[Backend, ...]:
    """Who serves a port: those that are ready, or, where none is, those that end and still serve."""
    ready: set[Backend] = set()
    ending: set[Backend] = set()
    for found in slices:
        numbers = [each.port for each in found.ports or () if (each.name or "") == port.name and each.port]
        for each in found.endpoints or ():
            said = each.conditions
            reached = {Backend(each.addresses[0], number) for number in numbers if each.addresses}
            if said.ready is not False:
                ready |= reached
            elif said.serving and said.terminating:
                ending |= reached
    return tuple(sorted(ready or ending))


def routes(service: Service, slices: Sequence[EndpointSlice], *, address: str) -> dict[Bind, Route]:
    """Where the Service is to be reached, and by whom; `address` is its LoadBalancer address, where it has one."""
    wanted: dict[Bind, Route] = {}
    if service.deleting or service.spec.type == "ExternalName":
        return wanted
    for port in service.spec.ports:
        if port.protocol not in _PROTOCOLS:
            continue
        route = Route(backends(port, slices))
        if _on_loopback(service.spec.cluster_ip):
            wanted[Bind(port.protocol, service.spec.cluster_ip, port.port)] = route
        if port.node_port and service.spec.type in {"NodePort", "LoadBalancer"}:
            wanted[Bind(port.protocol, NODE_ADDRESS, port.node_port)] = route
        if address:
            ranges = ranges_of(service.spec.load_balancer_source_ranges)
            wanted[Bind(port.protocol, address, port.port)] = replace(route, ranges=ranges)
    return wanted


def ports_of_services(services: Iterable[Service]) -> dict[str, list[int]]:
    """The ports that Services have on this machine, by protocol, at whatever address: nobody else has all of them."""
    binds = {bind for each in services for bind in routes(each, (), address=NODE_ADDRESS if balanced(each) else "")}
    return {
        protocol: sorted({bind.port for bind in binds if bind.protocol == protocol}) for protocol in sorted(_PROTOCOLS)
    }


def waiting_for(claim: Claim, pool: Pool) -> str:
    """What a Service without an address is told."""
    ports = ", ".join(f"{number}/{protocol}" for protocol, number in sorted(claim.ports))
    where = f"address {claim.wanted} has" if claim.wanted in pool else "no address has"
    return (
        f"{where} {'no ' if claim.wanted in pool else ''}room for port {ports}: other Services with overlapping "
        "loadBalancerSourceRanges use it; give this machine more addresses with --addresses, or narrow the ranges"
    )


class ServiceForwarder:
    """Addresses and forwarding for all Services; `close` ends what `add` began."""

    def __init__(
        self, *, addresses: Sequence[str] = (), loopback: str = LOOPBACK, limits: Limits | None = None
    ) -> None:
        """With `addresses` of this machine LoadBalancer Services share these; else each gets one of `loopback`."""
        self.pool = Pool(addresses, loopback=loopback)
        self.forwarder = Forwarder(limits=limits, count=self._count)
        self._total: Counter | None = None
        self._given: dict[Key, tuple[str, str]] = {}  # uid and address, until the cache has them
        self._waiting: dict[Key, str] = {}  # who waits, and what it was told
        self._told: dict[tuple[Key, Bind], str] = {}
        self._pods: Cache[Pod] | None = None

    def add(self, manager: Manager, *, node: str = "") -> None:
        """Registers the controller; `node` is whose Pods are found though no EndpointSlice may name them."""
        self._client = manager.client
        self._recorder = manager.recorder
        self._services = manager.cache(Service)
        self._slices = manager.cache(EndpointSlice)
        self._services.add_index("load balancer address", lambda each: (address_of(each),) if balanced(each) else ())
        self._slices.add_index("service", _service_of)
        self._services.subscribe(self._seen)
        self._total = Counter(
            "edgewright_local_connections_total",
            "Connections to addresses of Services, by what became of them.",
            ("outcome",),
            registry=manager.metrics.registry,
        )
        sources: list[Source] = [
            For(self._services, when=anything),
            Maps(self._slices, _service_of),
            Maps(self._services, self._affected, when=_claims_differ),
        ]
        if node:
            self._pods = manager.cache(Pod, fields=f"spec.nodeName={node}")
            self._pods.add_index("namespace", _namespace_of)
            self._services.add_index("namespace", _namespace_of)
            sources.append(Maps(self._pods, self._services_of))
        manager.controller("services", self._reconcile, *sources)

    async def close(self) -> None:
        """Stops listening and ends every connection."""
        await self.forwarder.close()

    def _count(self, outcome: str) -> None:
        if self._total is not None:
            self._total.labels(outcome).inc()

    def _seen(self, change: Change[Service]) -> None:
        key = change.latest.key
        given = self._given.get(key)
        if given and (change.new is None or (change.new.metadata.uid, address_of(change.new)) == given):
            del self._given[key]

    def _affected(self, service: Service) -> Iterable[Key]:
        """Whom a change of a Service's claim may concern: those that wait, and those at the same address."""
        address = address_of(service)
        return [*self._waiting, *(each.key for each in self._services.by("load balancer address", address) if address)]

    async def _reconcile(self, key: Key) -> Result:
        service = self._services.get(key)
        if service is None:
            self._waiting.pop(key, None)
            await self.forwarder.offer(key, {})
            return DONE
        address = await self._settle_address(service)
        wanted = routes(service, [*self._slices.by("service", key), *self._own_pods(service)], address=address)
        faults = await self.forwarder.offer(key, wanted)
        self._tell(service, faults)
        return requeue_after(_TRY_AGAIN_SECONDS) if faults else DONE

    def _services_of(self, pod: Pod) -> Iterable[Key]:
        return [each.key for each in self._services.by("namespace", pod.metadata.namespace) if selects(each, pod)]

    def _own_pods(self, service: Service) -> list[EndpointSlice]:
        """The Pods of our own node with loopback addresses, in the form in which others are found."""
        if self._pods is None:
            return []
        found = (each for each in self._pods.by("namespace", service.metadata.namespace) if selects(service, each))
        served = ((endpoint(service, pod), ports(service, pod)) for pod in found)
        return [
            EndpointSlice(endpoints=(each,), ports=numbers)
            for each, numbers in served
            if each is not None and _on_loopback(each.addresses[0])
        ]

    async def _settle_address(self, service: Service) -> str:
        """The address that the Service has now, in its status too; empty where it has none."""
        key, held = service.key, address_of(service)
        if not balanced(service):
            self._waiting.pop(key, None)
            if held in self.pool and service.spec.type != "LoadBalancer" and not service.deleting:
                await self._write(service, "")
            return ""
        given = self._given.get(key)
        claim = claim_of(service)
        if given and given[0] == service.metadata.uid:
            claim = replace(claim, held=given[1])
        chosen = self.pool.choose(claim, self._holders)
        if chosen is None:
            why = waiting_for(claim, self.pool)
            if self._waiting.get(key) != why:
                self._recorder.record(service, "Warning", "WaitingForAddress", why)
            self._waiting[key] = why
        else:
            self._waiting.pop(key, None)
        if (chosen or "") != claim.held and not (chosen is None and held not in self.pool):
            await self._write(service, chosen or "")
        return chosen or ""

    def _holders(self, address: str) -> list[Claim]:
        """Who has the address, by the cache and by what was written since."""
        found = {each.key: claim_of(each) for each in self._services.by("load balancer address", address)}
        for key, (uid, given) in self._given.items():
            service = self._services.get(key)
            if given == address and service is not None and service.metadata.uid == uid:
                found[key] = replace(claim_of(service), held=given)
        return list(found.values())

    async def _write(self, service: Service, address: str) -> None:
        status = {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}] if address else None}}
        self._given[service.key] = (service.metadata.uid, address)
        try:
            await self._client.of(Service).patch(
                service.key,
                {"status": status},
                resource_version=service.metadata.resource_version,
                subresource="status",
            )
        except BaseException as error:
            self._given.pop(service.key, None)
            if not isinstance(error, NotFound):
                raise

    def _tell(self, service: Service, faults: dict[Bind, str]) -> None:
        """An Event for each address at which this machine cannot listen, once."""
        for bind, why in faults.items():
            if self._told.get((service.key, bind)) != why:
                self._recorder.record(service, "Warning", "CannotListen", f"cannot listen on {bind}: {why}")
        self._told = {known: why for known, why in self._told.items() if known[0] != service.key}
        self._told |= {(service.key, bind): why for bind, why in faults.items()}


def _service_of(found: EndpointSlice) -> Iterable[Key]:
    name = found.metadata.labels.get(SERVICE_NAME)
    return (Key(found.metadata.namespace, name),) if name else ()


def _namespace_of(found: Resource) -> Iterable[str]:
    return (found.metadata.namespace,)


def _claims_differ(change: Change[Any]) -> bool:
    """Whether a change may make room at an address, or take it."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return bool(old.spec != new.spec or old.deleting != new.deleting or address_of(old) != address_of(new))


def _on_loopback(address: str) -> bool:
    try:
        return ipaddress.IPv4Address(address) in _LOOPBACK
    except ValueError:
        return False
