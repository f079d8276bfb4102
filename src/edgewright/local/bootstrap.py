"""What a control plane has from the start: its namespaces, and the Service under which it is found itself.

`control_plane` calls it when the port is open. What is there already stays, but for where the server listens, which a
new start may change.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Final

from edgewright.local.access import User, default_roles
from edgewright.local.served import Served
from edgewright.local.serving import metadata
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.write_request import WriteRequest
from edgewright.local.serving.writes import Writes
from edgewright.runtime.objects import RawObject

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_AGENT: Final = "edgewright"
# Who writes from within: as the server itself, and not as somebody who asks it to, one may name a loopback address.
_NOBODY: Final = User(name="", groups=())
_SERVER: Final = User(name="system:apiserver", groups=("system:masters",))
_NAME: Final = "kubernetes"


async def make(objects: Objects, *, service_range: str, host: str, port: int) -> None:
    """Makes what is missing."""
    writes = Writes(objects)
    for name in NAMESPACES:
        await _make(
            objects, writes, "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
    await make_roles(objects, writes)
    address = str(ipaddress.ip_network(service_range)[1])
    await _make(objects, writes, "services", _service(address, port))
    await _make(objects, writes, "endpointslices", _endpoints(host, port))


async def make_roles(objects: Objects, writes: Writes) -> None:
    """Makes the roles and bindings that every cluster has, and puts back what was taken from them."""
    await asyncio.gather(*(_make_role(objects, writes, wanted) for wanted in default_roles.load()))


async def _make_role(objects: Objects, writes: Writes, wanted: RawObject) -> None:
    served = _served(objects, wanted, f"{wanted['kind'].lower()}s")
    name = wanted["metadata"]["name"]
    asked = WriteRequest(served=served, namespace="", name=name, user=_SERVER, agent=_AGENT)
    stored = objects.get(served, "", name)
    if stored is None:
        await writes.create(asked, wanted)
    elif default_roles.completed(objects.read(served, stored), wanted) is not None:
        await writes.patch(asked, lambda live: default_roles.completed(live, wanted) or live)


def _service(address: str, port: int) -> RawObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": _NAME,
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }


def _endpoints(host: str, port: int) -> RawObject:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": _NAME,
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": _NAME},
        },
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


async def _make(objects: Objects, writes: Writes, resource: str, wanted: RawObject) -> None:
    served = _served(objects, wanted, resource)
    name, namespace = wanted["metadata"]["name"], wanted["metadata"].get("namespace", "")
    asked = WriteRequest(served=served, namespace=namespace, name=name, user=_NOBODY, agent=_AGENT)
    if objects.get(served, namespace, name) is None:
        await writes.create(asked, wanted)
        return

    def moved(live: RawObject) -> RawObject:
        if resource == "services":
            live["spec"]["ports"] = wanted["spec"]["ports"]
        elif resource == "endpointslices":
            metadata.of(live).update(labels=metadata.of(wanted)["labels"])
            live.update(endpoints=wanted["endpoints"], ports=wanted["ports"])
        return live

    await writes.patch(asked, moved)


def _served(objects: Objects, wanted: RawObject, resource: str) -> Served:
    group, _, version = wanted["apiVersion"].rpartition("/")
    served = objects.kinds.find(group, version, resource)
    assert served is not None  # noqa: S101  these are built in
    return served
