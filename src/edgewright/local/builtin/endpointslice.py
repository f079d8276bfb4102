"""The rules of EndpointSlices: where the Pods of a Service are reached."""

from __future__ import annotations

from typing import Any

from edgewright.local.builtin import checks
from edgewright.local.field_errors import duplicate, invalid, required, too_many
from edgewright.local.selectors import label_value_faults
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS, _MAX_ADDRESSES, _MAX_PORTS, _MAX_HINTS = 1000, 100, 20000, 8


OURSELVES = frozenset({"", "system:controllers"})
"""Who writes from within this process: the server itself, which is no user, and its controllers."""


class EndpointSliceRules(BuiltinRules):
    """What is special about EndpointSlices."""

    definition = "io.k8s.api.discovery.v1.EndpointSlice"
    generations = True

    def __init__(self, *, loopback: bool = False) -> None:
        """With `loopback` our controllers may name addresses that only this machine reaches, as Pods here have."""
        super().__init__()
        self._loopback = loopback

    def decode(self, obj: RawObject) -> tuple[RawObject, list[str]]:
        """As every kind, but empty lists are somebody's until they are stored."""
        read, unknown = super().decode(obj)
        for name in ("endpoints", "ports"):
            if obj.get(name) == []:
                read[name] = []
        return read, unknown

    def default(self, obj: RawObject) -> None:
        """A port has a name, be it empty, and a protocol."""
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """The topology of older versions is not taken any more, and an empty list is as good as none."""
        for name in ("endpoints", "ports"):
            obj[name] = obj.get(name) or None
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """As for a new one."""
        self.prepare_create(obj, write)

    def desired(self, obj: RawObject) -> RawObject:
        """All but metadata counts, and of metadata the labels."""
        return {**super().desired(obj), "labels": obj["metadata"].get("labels") or {}}

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """Addresses must be of the slice's type, which never changes."""
        kind = obj["addressType"]
        causes = checks.one_of("addressType", kind, _ADDRESS_TYPES)
        causes += _ports(obj.get("ports") or [])
        if old is None or obj.get("endpoints") != old.get("endpoints"):
            causes += _endpoints(obj.get("endpoints") or [], kind, loopback=self._loopback and write.user in OURSELVES)
        if old is not None:
            causes += checks.immutable("addressType", kind, old["addressType"])
        return causes

    def warnings(self, obj: RawObject, old: RawObject | None, write: Write) -> list[str]:
        """Names instead of addresses go out of use."""
        named = old is None and obj["addressType"] == "FQDN"
        return ["spec.addressType: FQDN endpoints are deprecated"] if named else []


def _ports(ports: list[RawObject]) -> list[Cause]:
    if len(ports) > _MAX_PORTS:
        return [too_many("ports", len(ports), _MAX_PORTS)]
    causes, seen = [], set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port["name"]
        if name:
            causes += checks.label(f"{path}.name", name)
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
        causes += checks.supported(f"{path}.protocol", port["protocol"], checks.PROTOCOLS)
        if "appProtocol" in port:
            causes += checks.qualified_name(f"{path}.appProtocol", port["appProtocol"])
    return causes


def _endpoints(endpoints: list[RawObject], kind: str, *, loopback: bool) -> list[Cause]:
    if len(endpoints) > _MAX_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
    causes = []
    for index, endpoint in enumerate(endpoints):
        path = f"endpoints[{index}]"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            causes.append(required(f"{path}.addresses", "must contain at least 1 address"))
        elif len(addresses) > _MAX_ADDRESSES:
            causes.append(too_many(f"{path}.addresses", len(addresses), _MAX_ADDRESSES))
        for place, address in enumerate(addresses):
            causes += _address(f"{path}.addresses[{place}]", address, kind, loopback=loopback)
        if "nodeName" in endpoint:
            causes += checks.subdomain(f"{path}.nodeName", endpoint["nodeName"])
        if "hostname" in endpoint:
            causes += checks.label(f"{path}.hostname", endpoint["hostname"])
        causes += _hints(f"{path}.hints", endpoint.get("hints") or {})
    return causes


def _address(path: str, address: str, kind: str, *, loopback: bool) -> list[Cause]:
    if kind == "FQDN":
        return _domain(path, address)
    if kind not in ("IPv4", "IPv6"):
        return []
    found = checks.address(address)
    if found is None:
        return checks.ip(path, address)
    whole = path.rpartition("[")[0]
    causes = [] if f"IPv{found.version}" == kind else [invalid(whole, address, f"must be an {kind} address")]
    return causes + checks.reachable_ip(path, address, loopback=loopback)


def _domain(path: str, name: str) -> list[Cause]:
    if not name:
        return [required(path)]
    causes = checks.subdomain(path, name.removesuffix("."))
    if not causes and "." not in name.removesuffix("."):
        causes = [invalid(path, name, "should be a domain with at least two segments separated by dots")]
    return causes


def _hints(path: str, hints: RawObject) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("forZones", "forNodes"):
        listed: list[dict[str, Any]] = hints.get(field) or []
        if len(listed) > _MAX_HINTS:
            return [*causes, too_many(f"{path}.{field}", len(listed), _MAX_HINTS)]
        seen = set()
        for index, hint in enumerate(listed):
            place, name = f"{path}.{field}[{index}].name", hint["name"]
            if name in seen:
                causes.append(duplicate(place, name))
            seen.add(name)
            if field == "forNodes":
                causes += checks.subdomain(place, name)
            else:
                causes += [invalid(place, name, why) for why in label_value_faults(name)]
    return causes
