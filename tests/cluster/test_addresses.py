"""Services on this machine: devices in network namespaces of their own dial LoadBalancer addresses.

Each device has its own network and address, made with iproute2 and removed again; that needs root. On `edgewright up`
the Pods are real ones; on the real kube-apiserver they are listeners of this process, with EndpointSlices written by
hand, because it takes no loopback addresses in those.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from edgewright.local.controllers.resources import EndpointSlice, Service
from edgewright.local.node.services import ServiceForwarder
from edgewright.runtime import Client, Event, Key, Manager, config
from tests.cluster.support import eventually, running
from tests.harness import ControlPlane, LocalPlane

PORT = 4433
DIAL = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as connection:
    connection.settimeout(60)
    try:
        connection.sendall(b"hello")
        connection.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: connection.recv(4096), b""))
    except TimeoutError:
        raise
    except OSError:  # reset, or closed before the end of the sentence
        said = b""
sys.stdout.write(said.decode() or "closed")
"""
SERVE = """
import os, socket
with socket.create_server((os.environ["ADDRESS"], 4433)) as listener:
    while True:
        connection, _ = listener.accept()
        with connection:
            said = b"".join(iter(lambda: connection.recv(4096), b""))
            connection.sendall(os.environ["NAME"].encode() + b" heard " + said)
"""
_numbers = itertools.count()


@dataclass(frozen=True)
class Device:
    """A network of its own, in which programs can be run."""

    name: str
    address: str
    gateway: str

    async def dial(self, address: str, port: int = PORT) -> str:
        """What the other side says; `closed` where it hangs up without a word."""
        process = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", self.name, sys.executable, "-c", DIAL, address, str(port)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return output.decode()


def ip(*args: str) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(args)}: {done.stderr}"


@contextmanager
def device() -> Iterator[Device]:
    """A network namespace, joined to this machine by a pair of interfaces."""
    number = next(_numbers)
    name = f"ew{os.getpid()}d{number}"
    network = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}.{number * 4}"
    host, own = (f"{network.rpartition('.')[0]}.{number * 4 + last}" for last in (1, 2))
    ip("netns", "add", name)
    try:
        ip("link", "add", f"{name}h", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("addr", "add", f"{host}/30", "dev", f"{name}h")
        ip("link", "set", f"{name}h", "up")
        ip("-n", name, "addr", "add", f"{own}/30", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "route", "add", "default", "via", host)
        yield Device(name, own, host)
    finally:
        ip("netns", "del", name)


@pytest.fixture
def devices() -> Iterator[list[Device]]:
    """Three devices; the machine has an address in the network of each."""
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root")
    with device() as one, device() as two, device() as three:
        yield [one, two, three]


@asynccontextmanager
async def program(name: str, address: str) -> AsyncIterator[int]:
    """A Pod's program: tells its name and what it was told, after the other side has ended its sentence."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await reader.read()
        writer.write(f"{name} heard {said.decode()}".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, address, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def forwarding(cluster: ControlPlane, **settings: Any) -> AsyncIterator[tuple[Client, ServiceForwarder]]:
    """Runs a ServiceForwarder, and gives a client next to it."""
    loaded = config.load(kubeconfig=cluster.kubeconfig)
    manager = Manager(Client(loaded), health_port=0)
    services = ServiceForwarder(**settings)
    services.add(manager)
    async with Client(loaded) as client, running(manager):
        try:
            yield client, services
        finally:
            await services.close()


async def make_service(client: Client, name: str, backends: list[tuple[str, int]], **spec: Any) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": PORT}], **spec},
    }
    await client.raw(Service.kind).create(body)
    await client.raw(EndpointSlice.kind).create(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address]} for address, _ in backends],
            "ports": [{"name": "", "port": port} for port in {port for _, port in backends}],
        }
    )


async def address_of(client: Client, name: str) -> str:
    async def given() -> str:
        found = await client.of(Service).get(Key("default", name))
        return next((each.ip for each in found.status.load_balancer.ingress), "")

    await eventually(given, what=f"{name} has an address")
    return await given()


def pod(name: str) -> Any:
    """A Pod that listens on its own address only, and says its name."""
    container = {
        "name": "main",
        "image": "any",
        "command": ["/usr/bin/env", "python3", "-c", SERVE],
        "env": [
            {"name": "NAME", "value": name},
            {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [{"name": "flash", "containerPort": PORT}],
    }
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def load_balancer(name: str, **spec: Any) -> Any:
    port = {"port": PORT, "targetPort": "flash"}
    return {
        "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [port], **spec},
    }


async def test_on_edgewright_up_each_device_reaches_its_own_pod_and_a_stranger_is_refused(
    devices: list[Device],
) -> None:
    one, two, stranger = devices
    lan = one.gateway
    arguments = ["--addresses", lan, "--image", "any=sleep 60"]
    with LocalPlane(node=True, arguments=arguments) as plane:
        namespace = f"/api/v1/namespaces/{plane.create_namespace('addresses')}"
        for name, device in (("one", one), ("two", two)):
            plane.request("POST", f"{namespace}/pods", pod(name))
            wanted = load_balancer(name, loadBalancerSourceRanges=[f"{device.address}/32"])
            plane.request("POST", f"{namespace}/services", wanted)

        async def served(each: Device, name: str) -> bool:
            return await each.dial(lan) == f"{name} heard hello"

        await eventually(lambda: served(one, "one"), what="the first device reaches its Pod")
        await eventually(lambda: served(two, "two"), what="the second device reaches its Pod")
        assert await stranger.dial(lan) == "closed"
        # On the machine itself both are reached by their cluster addresses and node ports, whatever the ranges.
        for name in ("one", "two"):
            found = plane.request("GET", f"{namespace}/services/{name}")["spec"]
            for place in ((found["clusterIP"], PORT), ("127.0.0.1", found["ports"][0]["nodePort"])):
                assert await spoken(*place) == f"{name} heard hello"


async def spoken(address: str, port: int) -> str:
    """What is heard on this machine."""
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(b"hello")
    writer.write_eof()
    said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return said.decode()


async def test_devices_that_share_an_address_reach_their_own_pods_and_a_stranger_is_refused(
    own_cluster: ControlPlane, devices: list[Device]
) -> None:
    one, two, stranger = devices
    lan = one.gateway
    async with (
        program("pod-one", lan) as port_one,
        program("pod-two", lan) as port_two,
        forwarding(own_cluster, addresses=[lan]) as (client, services),
    ):
        await make_service(client, "one", [(lan, port_one)], loadBalancerSourceRanges=[f"{one.address}/32"])
        await make_service(client, "two", [(lan, port_two)], loadBalancerSourceRanges=[f"{two.address}/32"])
        assert [await address_of(client, name) for name in ("one", "two")] == [lan, lan]

        async def served(each: Device, name: str) -> bool:
            return await each.dial(lan) == f"{name} heard hello"

        await eventually(lambda: served(one, "pod-one"), what="the first device reaches its Pod")
        await eventually(lambda: served(two, "pod-two"), what="the second device reaches its Pod")
        refused = services.forwarder.counts["refused"]
        assert await stranger.dial(lan) == "closed"
        assert services.forwarder.counts["refused"] == refused + 1

        # Who would have to share with the stranger's neighbours waits, and is told what would help.
        await make_service(client, "everybody", [(lan, port_one)])

        async def told() -> list[str]:
            events = (await client.of(Event).list("default")).items
            return [each.message for each in events if each.involved_object.name == "everybody"]

        await eventually(told, what="an event says what the Service waits for")
        assert all("--addresses" in message for message in await told())
        for name in ("one", "two"):
            await client.of(Service).delete(Key("default", name))
        assert await address_of(client, "everybody") == lan
        await eventually(lambda: served(stranger, "pod-one"), what="everybody is let in")


async def test_without_addresses_many_services_have_the_same_port_each_on_its_own_loopback_address(
    own_cluster: ControlPlane, devices: list[Device]
) -> None:
    lan = devices[0].gateway
    async with program("pod", lan) as port, forwarding(own_cluster) as (client, services):
        names = [f"flash-{number}" for number in range(5)]
        for name in names:
            await make_service(client, name, [(lan, port)])
        addresses = [await address_of(client, name) for name in names]
        assert len(set(addresses)) == len(names)
        assert all(address.startswith("127.60.") for address in addresses)
        node_port = (await client.of(Service).get(Key("default", names[0]))).spec.ports[0].node_port
        places = [*((address, PORT) for address in addresses), ("127.0.0.1", node_port)]
        for place in places:

            async def served(place: tuple[str, int] = place) -> bool:
                return await spoken(*place) == "pod heard hello"

            await listened_on(services, place)
            await eventually(served, what=f"the Pod is reached at {place}")
        assert await devices[0].dial(lan, node_port) != "pod heard hello"  # loopback is for this machine only
        await client.of(Service).delete(Key("default", names[0]))
        await eventually(lambda: places[0] not in _places(services), what="the address is free again")


async def listened_on(services: ServiceForwarder, place: tuple[str, int]) -> None:
    await eventually(lambda: place in _places(services), what=f"{place} is listened on")


def _places(services: ServiceForwarder) -> set[tuple[str, int]]:
    return {(bind.address, bind.port) for bind in services.forwarder.binds}
