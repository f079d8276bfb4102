"""The rules of Services: defaults, the addresses and ports that they are given, and what goes with their type."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from edgewright.local.builtin import allocation, servicechecks
from edgewright.local.builtin.allocation import Addresses, Ports, Taken, by_lot
from edgewright.local.builtin.checks import address
from edgewright.local.errors import internal_error
from edgewright.local.errors import invalid as invalid_object
from edgewright.local.field_errors import invalid
from edgewright.local.served import Write
from edgewright.local.structs.rules import CORE, BuiltinRules, text_at
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import Kind, RawObject

KIND: Final = Kind(group="", version="v1", kind="Service", plural="services")
SELECTABLE: Final = {"spec.clusterIP": text_at("spec", "clusterIP"), "spec.type": text_at("spec", "type")}
_AFFINITY_SECONDS = 10800
_OUTSIDE = ("NodePort", "LoadBalancer")


class ServiceRules(BuiltinRules):
    """What is special about Services; addresses and ports come from the ranges that are given."""

    definition = f"{CORE}.Service"
    returns_deleted = True
    status = True
    name_rule = "label"
    create_on_update = True

    def __init__(self, *, service_range: str, node_ports: range) -> None:
        super().__init__()
        self._addresses = Addresses(service_range, draw=by_lot)
        self._ports = Ports(node_ports, draw=by_lot)

    def default(self, obj: RawObject) -> None:
        """What follows from the type and what is the same for all."""
        spec = obj["spec"]
        kind = spec.setdefault("type", "ClusterIP")
        if spec.setdefault("sessionAffinity", "None") == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            config = spec.get("sessionAffinityConfig") or {}
            if "timeoutSeconds" not in (config.get("clientIP") or {}):
                spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port["targetPort"] in (0, ""):
                port["targetPort"] = port["port"]
        if servicechecks.is_reached_from_outside(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind in ("ClusterIP", *_OUTSIDE):
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in obj["status"]["loadBalancer"].get("ingress") or ():
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """Gives a new Service its address and its ports."""
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        self._allocate(obj, None, write)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """Keeps what was given before, lets go of what the new type has not, and gives what it has."""
        super().prepare_update(obj, old, write)
        if write.subresource == "status":
            return
        spec, before = obj["spec"], old["spec"]
        _keep(spec, before)
        _drop_by_type(spec, before)
        if spec["type"] != "LoadBalancer":
            obj["status"] = {**obj["status"], "loadBalancer": {}}
        self._allocate(obj, old, write)

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """The whole spec, or for a write of the status the addresses in it."""
        if write.subresource == "status":
            return servicechecks.load_balancer(obj)
        return servicechecks.service(obj, old)

    def release(self, obj: RawObject) -> None:
        """Frees what the Service was to get."""
        if not obj.get("spec"):
            return  # it was refused before it got anything
        owner = _owner(obj)
        self._addresses.reservations.release(obj["spec"].get("clusterIPs") or (), owner)
        self._ports.reservations.release(map(str, allocation.node_ports(obj)), owner)

    def _address(self, wanted: str, used: Collection[str], write: Write) -> str:
        if wanted:
            return self._addresses.check(wanted, used)
        # What is not done in earnest is shown with an address that nobody gets, as by the real server.
        return str(self._addresses.network.network_address) if write.dry_run else self._addresses.choose(used)

    def _allocate(self, obj: RawObject, old: RawObject | None, write: Write) -> None:
        if obj["spec"]["type"] == "ExternalName" and obj["spec"].get("internalTrafficPolicy") in servicechecks.POLICIES:
            del obj["spec"]["internalTrafficPolicy"]
        if obj["spec"]["type"] != "ExternalName":
            self._fill_families(obj, old)
            self._give_address(obj, old, write)
        self._give_ports(obj, old, write)

    def _fill_families(self, obj: RawObject, old: RawObject | None) -> None:
        """Which versions of IP a Service has; there is one range, so only what needs no address may have both."""
        spec, before = obj["spec"], old["spec"] if old else {}
        everywhere = spec.get("clusterIP") == "None" and not spec.get("selector")
        if "ipFamilyPolicy" not in spec:
            spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or (
                "RequireDualStack" if everywhere else "SingleStack"
            )
        causes = servicechecks.addresses(spec)
        if not causes:
            causes = self._family_faults(spec, everywhere=everywhere)
        if causes:
            raise invalid_object(KIND, obj["metadata"].get("name", ""), causes)
        families = spec.setdefault("ipFamilies", [self._addresses.family])
        if everywhere and len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")

    def _family_faults(self, spec: RawObject, *, everywhere: bool) -> list[Cause]:
        policy, families = spec["ipFamilyPolicy"], spec.get("ipFamilies") or []
        causes = []
        if policy == "SingleStack":
            for several, what in ((spec.get("clusterIPs") or [], "cluster IPs"), (families, "IP families")):
                if len(several) == 2:
                    why = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                    causes.append(invalid("spec.ipFamilyPolicy", policy, why))
        for index, value in enumerate(spec.get("clusterIPs") or ()):
            found = address(value)
            if found is None or index < len(families):
                continue
            if f"IPv{found.version}" != self._addresses.family:
                why = f"IPv{found.version} is not configured on this cluster"
                causes.append(invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], why))
            else:
                families = spec["ipFamilies"] = [*families, self._addresses.family]
        if causes or everywhere:
            return causes
        if policy == "RequireDualStack":
            why = "this cluster is not configured for dual-stack services"
            causes.append(invalid("spec.ipFamilyPolicy", policy, why))
        return causes + [
            invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
            for index, family in enumerate(families)
            if family != self._addresses.family
        ]

    def _give_address(self, obj: RawObject, old: RawObject | None, write: Write) -> None:
        spec = obj["spec"]
        had = [] if old is None else old["spec"].get("clusterIPs") or []
        wanted = (spec.get("clusterIPs") or [""])[0]
        if wanted == "None" or had:
            return
        reservations = self._addresses.reservations
        used = reservations.used(allocation.stored_addresses(write.every("services")), write.now)
        try:
            given = self._address(wanted, used, write)
        except Taken as why:
            if not wanted:
                name = obj["metadata"].get("name", "")
                raise internal_error(f'failed to allocate a serviceIP for Service "{name}": {why}') from None
            causes = [invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {wanted}: {why}")]
            raise invalid_object(KIND, obj["metadata"].get("name", ""), causes) from None
        if not write.dry_run:
            reservations.hold(given, _owner(obj), write.now)
        spec["clusterIP"], spec["clusterIPs"] = given, [given]

    def _give_ports(self, obj: RawObject, old: RawObject | None, write: Write) -> None:
        spec = obj["spec"]
        health = servicechecks.needs_health_check(spec)
        if spec["type"] not in _OUTSIDE and not health:
            return
        had = set() if old is None else set(allocation.node_ports(old))
        stored = allocation.stored_ports(write.every("services"))
        used = self._ports.reservations.used(stored, write.now)
        given: dict[int, int] = {}  # by port: one number serves several protocols
        for index, port in enumerate(spec.get("ports") or ()):
            wanted = port.get("nodePort", 0)
            if not wanted:
                if spec.get("allocateLoadBalancerNodePorts") is False:
                    continue
                wanted = port["nodePort"] = given.get(port["port"], 0) or _wish(spec["ports"], port["port"])
            again = wanted == given.get(port["port"]) if old is None else wanted in given.values()
            if wanted not in had and not again:
                port["nodePort"] = self._give_port(obj, wanted, used, write, f"spec.ports[{index}].nodePort")
            given.setdefault(port["port"], port["nodePort"])
        if health and spec.get("healthCheckNodePort", 0) not in had:
            wanted = spec.get("healthCheckNodePort", 0)
            spec["healthCheckNodePort"] = self._give_port(obj, wanted, used, write, "")

    def _give_port(self, obj: RawObject, wanted: int, used: set[str], write: Write, path: str) -> int:
        asked = map(str, allocation.node_ports(obj))  # by the Service itself, for another of its ports
        try:
            port = self._ports.check(wanted, used) if wanted else self._ports.choose(used.union(asked))
        except Taken as why:
            if not path:
                raise internal_error(f"failed to allocate requested HealthCheck NodePort {wanted}: {why}") from None
            if not wanted:
                raise internal_error(f"failed to allocate a nodePort: {why}") from None
            raise invalid_object(KIND, obj["metadata"].get("name", ""), [invalid(path, wanted, str(why))]) from None
        used.add(str(port))
        if not write.dry_run:
            self._ports.reservations.hold(str(port), _owner(obj), write.now)
        return port


def _wish(ports: list[RawObject], number: int) -> int:
    """The node port that another entry asks for the same port."""
    return next((port["nodePort"] for port in ports if port["port"] == number and port.get("nodePort")), 0)


def _owner(obj: RawObject) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _keep(spec: RawObject, before: RawObject) -> None:
    """What was given out before and is not said again stays as it was."""
    if before["type"] != "ExternalName" and spec["type"] != "ExternalName":
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and before.get("clusterIPs") and spec.get("clusterIP") == before["clusterIP"]:
            spec["clusterIPs"] = before["clusterIPs"]
        elif spec.get("clusterIP") and spec.get("clusterIPs") in (None, [], before.get("clusterIPs")):
            spec["clusterIPs"] = [spec["clusterIP"], *(spec.get("clusterIPs") or [])[1:]]
    elif spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = before.get("clusterIPs") or [spec["clusterIP"]]
    if _has_node_ports(before) and _has_node_ports(spec):
        had = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or ()}
        used = set(had.values()) & {port.get("nodePort", 0) for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            earlier = had.get(port.get("name", ""), 0)
            if not port.get("nodePort") and earlier and earlier not in used:
                port["nodePort"] = earlier
    if servicechecks.needs_health_check(before) and servicechecks.needs_health_check(spec):
        spec.setdefault("healthCheckNodePort", before.get("healthCheckNodePort", 0))


def _has_node_ports(spec: RawObject) -> bool:
    kind = spec["type"]
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def _drop_by_type(spec: RawObject, before: RawObject) -> None:
    """What only the old type has goes, where it was sent back unchanged."""
    if before["type"] != "ExternalName" and spec["type"] == "ExternalName":
        if (spec.get("clusterIP"), spec.get("clusterIPs")) == (before.get("clusterIP"), before.get("clusterIPs")):
            _drop(spec, "clusterIP", "clusterIPs")
        _drop_same(spec, before, "ipFamilies", "ipFamilyPolicy")
    if before["type"] in _OUTSIDE and spec["type"] not in _OUTSIDE:
        had = {port.get("nodePort") for port in before.get("ports") or ()}
        if {port["nodePort"] for port in spec.get("ports") or () if "nodePort" in port} <= had:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if servicechecks.needs_health_check(before) and not servicechecks.needs_health_check(spec):
        _drop_same(spec, before, "healthCheckNodePort")
    if before["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
        _drop_same(spec, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if servicechecks.is_reached_from_outside(before) and not servicechecks.is_reached_from_outside(spec):
        _drop_same(spec, before, "externalTrafficPolicy")


def _drop_same(spec: RawObject, before: RawObject, *names: str) -> None:
    for name in names:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _drop(spec: RawObject, *names: str) -> None:
    for name in names:
        spec.pop(name, None)
