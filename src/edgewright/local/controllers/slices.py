"""Which EndpointSlices a Service should have, and how to get there from those that it has: pure decisions.

`endpoints` asks `plan` with what its caches hold. Endpoints stay in the slice in which they are, so that a change of
one Pod changes one slice. Only IPv4 is served, and a slice holds at most 100 endpoints, as in Kubernetes.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from edgewright.local.controllers.resources import (
    SERVICE_NAME,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Pod,
    Service,
    ServicePort,
    TargetReference,
)
from edgewright.runtime import Key, RawObject

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
TRIGGERED = "endpoints.kubernetes.io/last-change-trigger-time"
LARGEST = 100

Ports: TypeAlias = tuple[EndpointPort, ...]

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # those of generated names in Kubernetes: they spell nothing
_OURS = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})


@dataclass
class Plan:
    """What is to be done: slices to create (whole), to patch (with the change), and to delete."""

    create: list[RawObject] = field(default_factory=list)
    patch: list[tuple[EndpointSlice, RawObject]] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)


def selects(service: Service, pod: Pod) -> bool:
    """Whether the Pod is one of the Service's, by its labels."""
    labels = pod.metadata.labels
    selector = service.spec.selector
    return (
        bool(selector)
        and pod.metadata.namespace == service.metadata.namespace
        and all(labels.get(key) == value for key, value in selector.items())
    )


def concerned(service: Service) -> bool:
    """Whether we keep slices for the Service: one without a selector has those that its user writes."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName" and not service.deleting


def endpoint(service: Service, pod: Pod) -> Endpoint | None:
    """The Pod as an endpoint of the Service; None where it has no address or has ended for good."""
    addresses = tuple(each.ip for each in pod.status.pod_ips if _is_ipv4(each.ip))
    if not addresses or pod.status.phase in {"Succeeded", "Failed"}:
        return None
    serving, terminating = pod.ready, pod.deleting
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    named = pod.spec.hostname and pod.spec.subdomain == service.metadata.name
    return Endpoint(
        addresses=addresses,
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=pod.spec.hostname if named else None,
        node_name=pod.spec.node_name or None,
        target_ref=TargetReference(
            kind="Pod", namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid
        ),
    )


def target_port(port: ServicePort, pod: Pod) -> int | None:
    """The port of the Pod that a Service's port leads to; None where the Pod has none of that name."""
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    serving = [*pod.spec.containers, *(each for each in pod.spec.init_containers if each.restart_policy == "Always")]
    return next(
        (
            each.container_port
            for container in serving
            for each in container.ports
            if each.name == port.target_port and each.protocol == port.protocol
        ),
        None,
    )


def ports(service: Service, pod: Pod) -> Ports:
    """The Service's ports as this Pod serves them."""
    found = ((each, target_port(each, pod)) for each in service.spec.ports)
    return tuple(
        EndpointPort(name=each.name, protocol=each.protocol, port=number, app_protocol=each.app_protocol)
        for each, number in found
        if number is not None
    )


class Triggers:
    """When the changes happened that create a Service's slices change: who measures delays reads it from the slices."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[datetime | None, dict[str, datetime]]] = {}

    def changed(self, service: Service, pods: Iterable[Pod]) -> datetime | None:
        """The earliest time of what has changed since the last call; of a new Service when it was made."""
        times = {pod.metadata.name: at for pod in pods if (at := _ready_since(pod)) is not None}
        created = service.metadata.creation_timestamp
        before = self._known.get(service.key)
        self._known[service.key] = created, times
        if before is None:
            return created
        was_created, seen = before
        changed = [at for name, at in times.items() if name not in seen or at > seen[name]]
        if created is not None and (was_created is None or created > was_created):
            changed.append(created)
        return min(changed, default=None)

    def forget(self, key: Key) -> None:
        """The Service is gone."""
        self._known.pop(key, None)


def _ready_since(pod: Pod) -> datetime | None:
    return next((each.last_transition_time for each in pod.status.conditions if each.type == "Ready"), None)


def plan(
    service: Service,
    pods: Iterable[Pod],
    existing: Collection[EndpointSlice],
    *,
    triggered: datetime | None = None,
) -> Plan:
    """What makes the slices right; nothing where they are. Those that change say when it was `triggered`."""
    result = _plan(service, pods, existing)
    for made in result.create:
        if triggered is not None:
            made["metadata"]["annotations"] = {TRIGGERED: _written(triggered)}
    for found, change in result.patch:
        said = None if triggered is None else _written(triggered)
        if found.metadata.annotations.get(TRIGGERED) != said:
            change.setdefault("metadata", {})["annotations"] = {TRIGGERED: said}
    return result


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _plan(service: Service, pods: Iterable[Pod], existing: Collection[EndpointSlice]) -> Plan:
    wanted: dict[Ports, dict[str, Endpoint]] = {}
    for pod in pods:
        found = endpoint(service, pod)
        if found is not None and selects(service, pod):
            wanted.setdefault(ports(service, pod), {})[pod.metadata.uid] = found
    result = Plan()
    usable = [each for each in existing if not each.deleting and each.address_type == "IPv4"]
    result.delete += [each for each in existing if not each.deleting and each.address_type != "IPv4"]
    by_ports: dict[Ports, list[EndpointSlice]] = {}
    for each in usable:
        by_ports.setdefault(_ports_of(each), []).append(each)
    spare: list[EndpointSlice] = []
    missing: list[tuple[Ports, list[Endpoint]]] = []
    for slice_ports in sorted({*wanted, *by_ports}, key=repr):
        kept, emptied, new = _arrange(by_ports.get(slice_ports, []), wanted.get(slice_ports, {}))
        spare += emptied
        missing += [(slice_ports, endpoints) for endpoints in new]
        for each, endpoints in kept:
            _patch(result, service, each, slice_ports, endpoints)
    if not wanted:
        missing.append(((), []))  # one who selects nobody has an empty slice, which says that
    for slice_ports, endpoints in missing:
        if spare:
            _patch(result, service, spare.pop(0), slice_ports, endpoints)
        else:
            result.create.append(_new(service, slice_ports, endpoints, taken=existing, made=result.create))
    result.delete += spare
    return result


def labels_for(service: Service) -> dict[str, str]:
    """The labels of the Service's slices: its own, and those by which they are found."""
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _OURS}
    if service.spec.cluster_ip in {"", "None"}:
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}


def _arrange(
    slices: Sequence[EndpointSlice], wanted: dict[str, Endpoint]
) -> tuple[list[tuple[EndpointSlice, list[Endpoint]]], list[EndpointSlice], list[list[Endpoint]]]:
    """What each slice is to hold, those that would hold nothing, and what finds no room: each endpoint stays put."""
    left = dict(wanted)
    held: list[tuple[EndpointSlice, list[Endpoint]]] = []
    for each in slices:
        uids = [old.target_ref.uid for old in each.endpoints or () if old.target_ref is not None]
        held.append((each, [left.pop(uid) for uid in uids if uid in left]))
    rest = list(left.values())
    for _, endpoints in held:
        room = LARGEST - len(endpoints)
        if endpoints and room > 0:
            endpoints.extend(rest[:room])
            rest = rest[room:]
    new = [rest[start : start + LARGEST] for start in range(0, len(rest), LARGEST)]
    return [pair for pair in held if pair[1]], [each for each, endpoints in held if not endpoints], new


def _patch(
    result: Plan, service: Service, found: EndpointSlice, slice_ports: Ports, endpoints: Sequence[Endpoint]
) -> None:
    """Adds the change that makes the slice so, if it is not."""
    change: RawObject = {}
    if tuple(found.endpoints or ()) != tuple(endpoints):
        change["endpoints"] = [_raw(each) for each in endpoints] or None
    if _ports_of(found) != slice_ports:
        change["ports"] = [_raw(each) for each in slice_ports] or None
    labels = labels_for(service)
    if found.metadata.labels != labels:
        change["metadata"] = {"labels": {**dict.fromkeys(found.metadata.labels), **labels}}
    if change:
        result.patch.append((found, change))


def _new(
    service: Service,
    slice_ports: Ports,
    endpoints: Sequence[Endpoint],
    *,
    taken: Iterable[EndpointSlice],
    made: Iterable[RawObject],
) -> RawObject:
    prefix = f"{service.metadata.name}-"
    names = {each.metadata.name for each in taken} | {each["metadata"]["name"] for each in made}
    name = next(name for name in _names(service) if name not in names)
    return {
        "apiVersion": EndpointSlice.kind.api_version,
        "kind": EndpointSlice.kind.kind,
        "metadata": {
            "name": name,
            "generateName": prefix,
            "namespace": service.metadata.namespace,
            "labels": labels_for(service),
            "ownerReferences": [
                {
                    "apiVersion": Service.kind.api_version,
                    "kind": Service.kind.kind,
                    "name": service.metadata.name,
                    "uid": service.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "addressType": "IPv4",
        "endpoints": [_raw(each) for each in endpoints] or None,
        "ports": [_raw(each) for each in slice_ports] or None,
    }


def _names(service: Service) -> Iterable[str]:
    """Names that look generated and are the same each time, so that a pass that is repeated creates nothing twice."""
    number = 0
    while True:
        digest = hashlib.sha256(f"{service.metadata.uid} {number}".encode()).digest()
        yield f"{service.metadata.name}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])}"
        number += 1


def _raw(each: Endpoint | EndpointPort) -> RawObject:
    return each.to_raw()


def _ports_of(found: EndpointSlice) -> Ports:
    return tuple(found.ports or ())


def _is_ipv4(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 4
    except ValueError:
        return False
