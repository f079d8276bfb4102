"""Services on this machine: who gets an address, what is forwarded where, and what a Service that waits is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from edgewright.local.controllers.resources import EndpointSlice, Service
from edgewright.local.node.forwarding import Backend, Bind
from edgewright.local.node.pool import ANYWHERE, Pool, ranges_of
from edgewright.local.node.services import (
    ServiceForwarder,
    backends,
    balanced,
    claim_of,
    ports_of_services,
    routes,
    waiting_for,
)
from edgewright.runtime import Manager
from tests.unit.local.controllers.miniature import (
    EVENT,
    POD,
    SERVICE,
    SLICE,
    Miniature,
    controlled,
    miniature,
    settled,
    until,
)

LAN = "127.61.0.1"  # an address of this machine that is not the pool's own


def service(**spec: Any) -> Service:
    return msgspec.convert({"metadata": {"name": "web", "namespace": "ns", "uid": "u"}, "spec": spec}, Service)


def slice_of(*endpoints: Any, port: int = 8080, name: str | None = "") -> EndpointSlice:
    return msgspec.convert({"endpoints": list(endpoints), "ports": [{"name": name, "port": port}]}, EndpointSlice)


def endpoint(address: str, **conditions: bool) -> Any:
    return {"addresses": [address], "conditions": conditions}


PORT = {"port": 80, "nodePort": 30080}


def test_the_ports_that_services_have_are_those_that_are_listened_at_here() -> None:
    balancer = service(type="LoadBalancer", clusterIP="10.0.0.1", ports=[{"port": 4433, "nodePort": 30443}])
    inside = service(clusterIP="127.1.0.1", ports=[{"port": 80}, {"port": 53, "protocol": "UDP"}])
    elsewhere = service(clusterIP="10.0.0.2", ports=[{"port": 8080}])
    headless = service(clusterIP="None", ports=[{"port": 9090}])
    others = service(type="LoadBalancer", loadBalancerClass="theirs", clusterIP="10.0.0.3", ports=[{"port": 1}])
    found = ports_of_services([balancer, inside, elsewhere, headless, others])
    assert found == {"TCP": [80, 4433, 30443], "UDP": [53]}


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([], ()),
        ([slice_of(endpoint("10.0.0.2"), endpoint("10.0.0.1", ready=True))], ("10.0.0.1", "10.0.0.2")),
        ([slice_of(endpoint("10.0.0.1", ready=False, serving=False))], ()),
        ([slice_of(endpoint("10.0.0.1", ready=False, serving=True, terminating=True))], ("10.0.0.1",)),
        (
            [
                slice_of(endpoint("10.0.0.1", ready=False, serving=True, terminating=True)),
                slice_of(endpoint("10.0.0.2", ready=True)),
            ],
            ("10.0.0.2",),
        ),
        ([slice_of(endpoint("10.0.0.1"), name="other")], ()),
        ([slice_of(endpoint("10.0.0.1"), name=None)], ("10.0.0.1",)),
        ([slice_of({"addresses": []})], ()),
        ([msgspec.convert({"endpoints": None, "ports": None}, EndpointSlice)], ()),
    ],
    ids=[
        "none",
        "ready",
        "not ready",
        "ending, but nobody else",
        "ending",
        "other port",
        "no name",
        "no address",
        "empty",
    ],
)
def test_who_serves_a_port(slices: list[EndpointSlice], expected: tuple[str, ...]) -> None:
    (port,) = service(ports=[PORT]).spec.ports
    assert backends(port, slices) == tuple(Backend(address, 8080) for address in expected)


@pytest.mark.parametrize(
    ("spec", "address", "binds"),
    [
        ({"clusterIP": "127.96.0.5", "ports": [{"port": 80}]}, "", ["127.96.0.5:80/TCP"]),
        ({"clusterIP": "10.96.0.5", "ports": [{"port": 80}]}, "", []),
        ({"clusterIP": "None", "ports": [{"port": 80}]}, "", []),
        (
            {"clusterIP": "127.96.0.5", "type": "NodePort", "ports": [PORT]},
            "",
            ["127.96.0.5:80/TCP", "127.0.0.1:30080/TCP"],
        ),
        (
            {"type": "LoadBalancer", "ports": [{**PORT, "protocol": "UDP"}]},
            "127.60.0.9",
            ["127.0.0.1:30080/UDP", "127.60.0.9:80/UDP"],
        ),
        ({"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "SCTP"}]}, "127.60.0.9", []),
        ({"type": "ExternalName", "clusterIP": "127.96.0.5", "ports": [PORT]}, "", []),
    ],
    ids=["cluster", "not loopback", "headless", "node port", "load balancer", "no SCTP", "a mere name"],
)
def test_where_a_service_is_reached(spec: Any, address: str, binds: list[str]) -> None:
    assert [str(bind) for bind in routes(service(**spec), [], address=address)] == binds


def test_only_the_load_balancer_address_is_for_some_peers() -> None:
    wanted = service(type="LoadBalancer", clusterIP="127.96.0.5", ports=[PORT], loadBalancerSourceRanges=["10.0.0.0/8"])
    found = {bind.address: route.ranges for bind, route in routes(wanted, [], address="127.60.0.9").items()}
    assert found == {"127.96.0.5": (ANYWHERE,), "127.0.0.1": (ANYWHERE,), "127.60.0.9": ranges_of(["10.0.0.0/8"])}


@pytest.mark.parametrize(
    ("spec", "ours"),
    [
        ({"type": "LoadBalancer"}, True),
        ({"type": "NodePort"}, False),
        ({"type": "LoadBalancer", "loadBalancerClass": "example.dev/other"}, False),
    ],
    ids=["load balancer", "another type", "another class"],
)
def test_which_services_want_an_address(spec: Any, ours: bool) -> None:
    assert balanced(service(**spec)) is ours


def test_one_that_waits_is_told_the_flag_that_helps() -> None:
    anywhere = waiting_for(claim_of(service(type="LoadBalancer", ports=[{"port": 4433}])), Pool([LAN]))
    assert anywhere.startswith("no address has room for port 4433/TCP: ")
    assert "--addresses" in anywhere
    wanted = service(type="LoadBalancer", ports=[{"port": 4433}], loadBalancerIP=LAN)
    assert waiting_for(claim_of(wanted), Pool([LAN])).startswith(f"address {LAN} has no room for port 4433/TCP: ")


@asynccontextmanager
async def forwarding(server: Miniature, *, node: str = "", **settings: Any) -> AsyncIterator[ServiceForwarder]:
    services = ServiceForwarder(**settings)

    def add(manager: Manager) -> None:
        services.add(manager, node=node)

    async with controlled(server, add):
        try:
            yield services
        finally:
            await services.close()


def make(server: Miniature, name: str, **spec: Any) -> None:
    server.make(SERVICE, name, spec={"type": "LoadBalancer", "ports": [{"port": 4433}], **spec})


def address_of(server: Miniature, name: str) -> str:
    found = server.get(SERVICE, name) or {}
    ingress = found.get("status", {}).get("loadBalancer", {}).get("ingress") or [{"ip": ""}]
    return str(ingress[0]["ip"])


def has(server: Miniature, name: str, address: str) -> Callable[[], bool]:
    return lambda: address_of(server, name) == address


def told(server: Miniature, name: str) -> list[str]:
    return [
        f"{each['reason']}: {each['message']}"
        for each in server.all(EVENT).values()
        if each["involvedObject"]["name"] == name
    ]


async def forwarded(services: ServiceForwarder, bind: Bind) -> None:
    """Waits until connections there have somewhere to go."""
    listeners = services.forwarder._listeners
    await until(lambda: bind in listeners and any(route.backends for route in listeners[bind].routes.values()))


async def test_each_service_gets_an_own_address_that_is_forwarded_to_its_pod() -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"pod")
        writer.close()

    pod = await asyncio.start_server(answer, "127.61.0.9", 0)
    async with pod, miniature() as server, forwarding(server) as services:
        port = pod.sockets[0].getsockname()[1]
        for name in ("one", "two"):
            make(server, name)
            server.make(
                SLICE,
                name,
                metadata={"labels": {"kubernetes.io/service-name": name}},
                endpoints=[{"addresses": ["127.61.0.9"]}],
                ports=[{"name": "", "port": port}],
            )
        await until(lambda: address_of(server, "one") and address_of(server, "two"))
        addresses = [address_of(server, name) for name in ("one", "two")]
        assert addresses[0] != addresses[1]
        for address in addresses:
            await forwarded(services, Bind("TCP", address, 4433))
            reader, writer = await asyncio.open_connection(address, 4433)
            assert await reader.read() == b"pod"
            writer.close()
            await writer.wait_closed()
        writes = len(server.writes)
        server.make(SERVICE, "one", metadata={"annotations": {"seen": "yes"}})
        await settled(server)
        assert len(server.writes) == writes
        server.delete(SERVICE, "one")
        await until(lambda: Bind("TCP", addresses[0], 4433) not in services.forwarder.binds)


def pod_at(address: str, *, ready: bool) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready), "reason": "Test"}
    return {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}


async def test_pods_of_ones_own_node_are_found_though_no_slice_may_name_their_loopback_addresses() -> None:
    async with miniature() as server, forwarding(server, node="edge", addresses=[LAN]) as services:
        make(server, "one", selector={"app": "one"}, ports=[{"port": 4433, "targetPort": 4433}])
        place: dict[str, Any] = {"spec": {"nodeName": "edge"}, "metadata": {"labels": {"app": "one"}}}
        server.make(POD, "here", **place, status=pod_at("127.128.0.9", ready=True))
        server.make(POD, "elsewhere", **place, status=pod_at("10.0.0.9", ready=True))
        server.make(POD, "later", **place, status=pod_at("127.128.0.10", ready=False))
        bind = Bind("TCP", LAN, 4433)
        await forwarded(services, bind)

        def reached() -> list[str]:
            return [each.address for each in next(iter(services.forwarder._listeners[bind].routes.values())).backends]

        assert reached() == ["127.128.0.9"]
        server.make(POD, "later", **place, status=pod_at("127.128.0.10", ready=True))
        await until(lambda: reached() == ["127.128.0.10", "127.128.0.9"])


async def test_services_share_an_address_by_their_ranges_and_others_wait_until_there_is_room() -> None:
    async with miniature() as server, forwarding(server, addresses=[LAN]):
        make(server, "one", loadBalancerSourceRanges=["10.0.0.1/32"])
        make(server, "two", loadBalancerSourceRanges=["10.0.0.2/32"])
        await until(has(server, "one", LAN))
        await until(has(server, "two", LAN))
        make(server, "all")
        await until(lambda: told(server, "all"))
        assert address_of(server, "all") == ""
        assert "--addresses" in told(server, "all")[0]
        await settled(server)
        server.delete(SERVICE, "one")
        await settled(server)
        assert len(told(server, "all")) == 1
        server.make(SERVICE, "two", spec={"type": "ClusterIP", "ports": [{"port": 4433}]})
        await until(has(server, "two", ""))
        await until(has(server, "all", LAN))


async def test_a_service_that_widens_its_ranges_makes_way_for_an_older_one() -> None:
    async with miniature() as server, forwarding(server, addresses=[LAN]):
        make(server, "old", loadBalancerSourceRanges=["10.0.0.1/32"])
        await until(has(server, "old", LAN))
        server.make(SERVICE, "young", metadata={"creationTimestamp": "2026-02-01T00:00:00Z"})
        make(server, "young", loadBalancerSourceRanges=["10.0.0.2/32"])
        await until(has(server, "young", LAN))
        make(server, "young", loadBalancerSourceRanges=["10.0.0.0/8"])
        await until(has(server, "young", ""))
        assert address_of(server, "old") == LAN
        make(server, "young", loadBalancerSourceRanges=["10.0.0.2/32"])
        await until(has(server, "young", LAN))


async def test_an_address_that_is_asked_for_is_given_where_it_is_in_the_pool() -> None:
    async with miniature() as server, forwarding(server, addresses=[LAN, "127.61.0.2"]):
        make(server, "second", loadBalancerIP="127.61.0.2")
        make(server, "other", loadBalancerIP="203.0.113.1")
        await until(has(server, "second", "127.61.0.2"))
        await until(has(server, "other", LAN))


async def test_one_that_asks_for_a_loopback_address_of_another_gets_it_when_that_one_goes() -> None:
    async with miniature() as server, forwarding(server):
        make(server, "first", loadBalancerIP="127.60.0.9")
        await until(has(server, "first", "127.60.0.9"))
        make(server, "second", loadBalancerIP="127.60.0.9")
        await until(lambda: told(server, "second"))
        assert address_of(server, "second") == ""
        server.delete(SERVICE, "first")
        await until(has(server, "second", "127.60.0.9"))


async def test_many_at_once_never_get_the_same_address_twice() -> None:
    addresses = [f"127.61.1.{number}" for number in range(1, 6)]
    async with miniature() as server, forwarding(server, addresses=addresses):
        for number in range(5):
            make(server, f"s{number}")
        await until(lambda: all(address_of(server, f"s{number}") for number in range(5)))
        assert sorted(address_of(server, f"s{number}") for number in range(5)) == addresses


async def test_a_write_that_fails_is_tried_again_and_one_for_a_service_that_is_gone_is_not() -> None:
    async with miniature() as server, forwarding(server):
        server.refuse("PATCH", "/api/v1/namespaces/default/services/one/status", 409, "Conflict")
        server.refuse("PATCH", "/api/v1/namespaces/default/services/two/status", 404, "NotFound")
        make(server, "one")
        make(server, "two")
        await until(lambda: address_of(server, "one"))


async def test_an_address_of_somebody_else_is_left_alone() -> None:
    status = {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}
    async with miniature() as server, forwarding(server, addresses=[LAN]):
        spec = {"type": "LoadBalancer", "loadBalancerClass": "example.dev/other", "ports": [{"port": 4433}]}
        server.make(SERVICE, "foreign", spec=spec, status=status)
        make(server, "ours")
        await until(has(server, "ours", LAN))
        assert address_of(server, "foreign") == "203.0.113.1"


async def test_where_this_machine_cannot_listen_the_service_is_told_once() -> None:
    with socket.socket() as taken:
        taken.bind((LAN, 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with miniature() as server, forwarding(server, addresses=[LAN]):
            make(server, "web", ports=[{"port": port}])
            await until(lambda: told(server, "web"))
            server.make(SERVICE, "web", metadata={"labels": {"touched": "yes"}})
            await settled(server)
            (event,) = told(server, "web")
            assert event.startswith(f"CannotListen: cannot listen on {LAN}:{port}/TCP: ")
