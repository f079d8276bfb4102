"""Checks of Services: ports, addresses, traffic policies, and what may not change.

The rules of Services call it after addresses and ports were given out.
"""

from __future__ import annotations

import ipaddress

from edgewright.local.builtin import checks
from edgewright.local.field_errors import duplicate, forbidden, invalid, required
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
POLICIES = ("Cluster", "Local")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"
_MAX_AFFINITY = 86400
_SET_ONCE = "may not change once set"


def is_reached_from_outside(spec: RawObject) -> bool:
    """Whether traffic from outside of the cluster comes to it."""
    return spec["type"] in ("LoadBalancer", "NodePort") or (
        spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def needs_health_check(spec: RawObject) -> bool:
    """Whether a load balancer must ask each node if it has a Pod of the Service."""
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def service(obj: RawObject, old: RawObject | None) -> list[Cause]:
    """What is wrong with a Service, or with its change."""
    spec = obj["spec"]
    causes = [] if old is None else _changes(spec, old["spec"])
    causes += _type(spec) + _ports(spec)
    causes += checks.labels("spec.selector", spec.get("selector") or {})
    causes += _affinity(spec)
    causes += addresses(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        causes += checks.reachable_ip(f"spec.externalIPs[{index}]", address)
    causes += checks.supported("spec.type", spec["type"], TYPES)
    causes += _node_ports(spec) + _source_ranges(obj)
    if "allocateLoadBalancerNodePorts" in spec and spec["type"] != "LoadBalancer":
        causes.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED))
    return causes + _balancer_class(spec) + _traffic(spec)


def _changes(spec: RawObject, old: RawObject) -> list[Cause]:
    """What may not change; addresses were given out before, so that there is one wherever there was one."""
    causes: list[Cause] = []
    new, before = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    if "ExternalName" not in (spec["type"], old["type"]):
        causes += [
            invalid(f"spec.clusterIPs[{index}]", new, _SET_ONCE)
            for index, (now, earlier) in enumerate(zip(new, before, strict=False))
            if now != earlier
        ]
    balanced = spec["type"] == old["type"] == "LoadBalancer"
    if balanced and spec.get("loadBalancerClass") != old.get("loadBalancerClass"):
        causes.append(invalid("spec.loadBalancerClass", spec.get("loadBalancerClass"), _SET_ONCE))
    causes += _balancer_class(spec)
    checked = needs_health_check(spec) and needs_health_check(old)
    if checked and spec.get("healthCheckNodePort") != old.get("healthCheckNodePort"):
        causes.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return causes


def _type(spec: RawObject) -> list[Cause]:
    kind, ips = spec["type"], spec.get("clusterIPs") or []
    headless = ips[:1] == ["None"]
    causes = []
    if not spec.get("ports") and not headless and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if headless and kind in ("LoadBalancer", "NodePort"):
        causes.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        causes += [
            forbidden(f"spec.{name}", "may not be set for ExternalName services")
            for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if spec.get(name)
        ]
        name = spec.get("externalName", "").removesuffix(".")
        causes += checks.subdomain("spec.externalName", name) if name else [required("spec.externalName")]
    return causes


def _ports(spec: RawObject) -> list[Cause]:
    ports, causes, seen = spec.get("ports") or [], [], set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            causes += checks.label(f"{path}.name", name)
            if name in seen:
                causes.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            causes.append(required(f"{path}.name"))
        causes += checks.port_number(f"{path}.port", port["port"])
        causes += checks.supported(f"{path}.protocol", port["protocol"], checks.PROTOCOLS)
        causes += checks.port(f"{path}.targetPort", port["targetPort"])
        if "appProtocol" in port:
            causes += checks.qualified_name(f"{path}.appProtocol", port["appProtocol"])
    return causes


def _node_ports(spec: RawObject) -> list[Cause]:
    causes, node_ports, ports = [], set(), set()
    for index, port in enumerate(spec.get("ports") or ()):
        path, node_port = f"spec.ports[{index}]", port.get("nodePort", 0)
        if node_port and spec["type"] == "ClusterIP":
            causes.append(forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        if node_port and (port["protocol"], node_port) in node_ports:
            causes.append(duplicate(f"{path}.nodePort", node_port))
        node_ports.add((port["protocol"], node_port))
        if (port["protocol"], port["port"]) in ports:
            shown = {
                "Name": "",
                "Protocol": port["protocol"],
                "AppProtocol": None,
                "Port": port["port"],
                "TargetPort": 0,
                "NodePort": 0,
            }
            causes.append(duplicate(path, shown))
        ports.add((port["protocol"], port["port"]))
    return causes


def _affinity(spec: RawObject) -> list[Cause]:
    causes = checks.supported("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
    if spec["sessionAffinity"] == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= _MAX_AFFINITY:
            why = f"must be greater than 0 and less than {_MAX_AFFINITY}"
            causes.append(invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, why))
    return causes


def addresses(spec: RawObject) -> list[Cause]:
    """What is wrong with the addresses of a Service and the families of IP that it says it has."""
    if spec["type"] == "ExternalName":
        return []
    first, several, causes = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], []
    if first and several[:1] != [first]:
        wrong = invalid("spec.clusterIPs", several, "first value must match `clusterIP`")
        causes.append(wrong if several else required("spec.clusterIPs"))
    elif not first and several:
        causes.append(invalid("spec.clusterIPs", several, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        causes += checks.supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            causes.append(duplicate(f"spec.ipFamilies[{index}]", family))
    if "ipFamilyPolicy" in spec:
        causes += checks.supported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _FAMILY_POLICIES)
    return causes + _cluster_ips(several, families)


def _cluster_ips(several: list[str], families: list[str]) -> list[Cause]:
    causes: list[Cause] = []
    if several[:1] == ["None"]:
        if len(several) > 1:
            causes.append(invalid("spec.clusterIPs", several, "'None' must be the first and only value"))
        return causes
    for index, value in enumerate(several):
        causes += checks.ip(f"spec.clusterIPs[{index}]", value)
    if len(several) > 2:
        causes.append(invalid("spec.clusterIPs", several, "may only hold up to 2 values"))
    versions = [found.version for value in several if (found := checks.address(value)) is not None]
    if len(versions) != len(several):
        return causes
    if len(several) > 1 and set(versions) != {4, 6}:
        causes.append(invalid("spec.clusterIPs", several, "may specify no more than one IP for each IP family"))
    for index, (value, version, family) in enumerate(zip(several, versions, families, strict=False)):
        if family in _FAMILIES and family != f"IPv{version}":
            why = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            causes.append(invalid(f"spec.clusterIPs[{index}]", value, why))
    return causes


def _source_ranges(obj: RawObject) -> list[Cause]:
    spec, causes = obj["spec"], []
    annotation = (obj["metadata"].get("annotations") or {}).get(RANGES_ANNOTATION)
    if ranges := spec.get("loadBalancerSourceRanges"):
        path = "spec.LoadBalancerSourceRanges"
        for index, value in enumerate(ranges):
            causes += cidr(f"{path}[{index}]", value.strip())
    elif annotation is not None:
        path = f"metadata.annotations[{RANGES_ANNOTATION}]"
        for value in annotation.split(",") if annotation.strip() else ():
            causes += cidr(path, value.strip())
    else:
        return []
    return ([] if spec["type"] == "LoadBalancer" else [forbidden(path, _ONLY_BALANCED)]) + causes


def cidr(path: str, value: str) -> list[Cause]:
    """A range of addresses."""
    try:
        ipaddress.ip_network(value, strict=False)
        good = "/" in value and value.rpartition("/")[2].isdecimal()
    except ValueError:
        good = False
    return [] if good else [invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]


def _balancer_class(spec: RawObject) -> list[Cause]:
    if "loadBalancerClass" not in spec:
        return []
    if spec["type"] != "LoadBalancer":
        return [forbidden("spec.loadBalancerClass", _ONLY_BALANCED)]
    return checks.qualified_name("spec.loadBalancerClass", spec["loadBalancerClass"])


def _traffic(spec: RawObject) -> list[Cause]:
    causes, policy = [], spec.get("externalTrafficPolicy", "")
    if is_reached_from_outside(spec):
        causes += checks.one_of("spec.externalTrafficPolicy", policy, POLICIES)
    elif policy:
        causes.append(
            invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
        )
    health = spec.get("healthCheckNodePort", 0)
    if needs_health_check(spec):
        causes += checks.port_number("spec.healthCheckNodePort", health)
    elif health:
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid("spec.healthCheckNodePort", health, why))
    if "internalTrafficPolicy" in spec:
        causes += checks.supported("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], POLICIES)
    if "trafficDistribution" in spec:
        causes += checks.supported("spec.trafficDistribution", spec["trafficDistribution"], _DISTRIBUTIONS)
    return causes


def load_balancer(obj: RawObject) -> list[Cause]:
    """What is wrong with the addresses at which a load balancer is reached."""
    path, causes = "status.loadBalancer.ingress", []
    listed = obj["status"]["loadBalancer"].get("ingress") or []
    if listed and obj["spec"]["type"] != "LoadBalancer":
        return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    for index, ingress in enumerate(listed):
        place, mode = f"{path}[{index}]", ingress.get("ipMode")
        if ingress.get("ip"):
            causes += checks.ip(f"{place}.ip", ingress["ip"])
            if mode is None:
                causes.append(required(f"{place}.ipMode", "must be specified when `ip` is set"))
            else:
                causes += checks.supported(f"{place}.ipMode", mode, ("Proxy", "VIP"))
        elif mode is not None:
            causes.append(forbidden(f"{place}.ipMode", "may not be specified when `ip` is not set"))
        if name := ingress.get("hostname"):
            causes += checks.subdomain(f"{place}.hostname", name)
            if checks.address(name) is not None:
                causes.append(invalid(f"{place}.hostname", name, "must be a DNS name, not an IP address"))
    return causes
