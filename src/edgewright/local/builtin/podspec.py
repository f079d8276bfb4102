"""Checks of the spec of a Pod, wherever one stands: in a Pod or in a template.

The rules of both kinds call it. Containers and volumes have modules of their own.
"""

from __future__ import annotations

import re
from typing import Any

from edgewright.local.builtin import checks
from edgewright.local.builtin.containers import account_number, all_containers, surrounded_images
from edgewright.local.builtin.volumes import volumes
from edgewright.local.field_errors import duplicate, forbidden, invalid, required, unsupported
from edgewright.local.selectors import label_value_faults
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

RESTART_POLICIES = ("Always", "OnFailure", "Never")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_NAMESERVERS, _MAX_SEARCHES, _MAX_SEARCH = 3, 32, 2048
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def pod_spec(spec: RawObject, path: str, *, is_pod: bool) -> list[Cause]:
    """What is wrong with a spec; a Pod is held to a little more than a template."""
    good, causes = volumes(spec.get("volumes") or [], f"{path}.volumes")
    causes += all_containers(spec, good, path)
    if is_pod:
        causes += surrounded_images(spec, path)
    if spec.get("hostNetwork"):
        causes += _host_network(spec, f"{path}.containers", is_pod=is_pod)
    causes += checks.supported(f"{path}.restartPolicy", spec["restartPolicy"], RESTART_POLICIES)
    causes += checks.supported(f"{path}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)
    causes += checks.labels(f"{path}.nodeSelector", spec.get("nodeSelector") or {})
    causes += _security(spec, f"{path}.securityContext")
    causes += _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    causes += _dns(spec, f"{path}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        causes += checks.qualified_name(f"{path}.readinessGates[{index}].conditionType", gate["conditionType"])
    causes += _scheduling_gates(spec.get("schedulingGates") or [], f"{path}.schedulingGates")
    causes += _spread(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    causes += _host_users(spec, path)
    causes += _names(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        causes.append(invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    causes += tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        causes += checks.ip(f"{path}.hostAliases[{index}].ip", alias["ip"])
        for place, name in enumerate(alias.get("hostnames") or ()):
            causes += checks.subdomain(f"{path}.hostAliases[{index}].hostnames[{place}]", name)
    return causes


def _names(spec: RawObject, path: str) -> list[Cause]:
    causes = []
    for name in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if value := spec.get(name):
            causes += checks.subdomain(f"{path}.{name}", value)
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            causes += checks.label(f"{path}.{name}", value)
    preemption = spec.get("preemptionPolicy")
    if preemption is not None:
        causes += checks.one_of(f"{path}.preemptionPolicy", preemption, ("PreemptLowerPriority", "Never"))
    if (system := spec.get("os")) is not None:
        causes += checks.one_of(f"{path}.os", system["name"], ("linux", "windows"))
    return causes


def _host_network(spec: RawObject, path: str, *, is_pod: bool) -> list[Cause]:
    return [
        invalid(
            f"{path}[{place}].ports[{index}].hostPort",
            port.get("hostPort", 0),
            "must match `containerPort` when `hostNetwork` is true",
        )
        for place, container in enumerate(spec.get("containers") or ())
        for index, port in enumerate(container.get("ports") or ())
        if (is_pod or "hostPort" in port) and port.get("hostPort", 0) != port["containerPort"]
    ]


def _host_users(spec: RawObject, path: str) -> list[Cause]:
    if spec.get("hostUsers") is not False:
        return []
    fields = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    return [forbidden(f"{path}.{shown}", "when `hostUsers` is false") for name, shown in fields if spec.get(name)]


def _security(spec: RawObject, path: str) -> list[Cause]:
    context, causes = spec["securityContext"], []
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        if name in context:
            causes += account_number(f"{path}.{name}", context[name])
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        causes += account_number(f"{path}.supplementalGroups[{index}]", group)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid(f"{path}.shareProcessNamespace", True, why))
    if "fsGroupChangePolicy" in context:
        policy = context["fsGroupChangePolicy"]
        causes += checks.supported(f"{path}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
    return causes


def _dns(spec: RawObject, path: str) -> list[Cause]:
    config: dict[str, Any] | None = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or []
    if spec["dnsPolicy"] == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not servers:
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", why)]
    if config is None:
        return []
    causes = []
    if len(servers) > _MAX_NAMESERVERS:
        why = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        causes.append(invalid(f"{path}.nameservers", servers, why))
    for index, server in enumerate(servers):
        causes += checks.ip(f"{path}.nameservers[{index}]", server)
    searches = config.get("searches") or []
    if len(searches) > _MAX_SEARCHES:
        why = f"must not have more than {_MAX_SEARCHES} search paths"
        causes.append(invalid(f"{path}.searches", searches, why))
    if len(" ".join(searches)) > _MAX_SEARCH:
        why = f"must not have more than {_MAX_SEARCH} characters (including spaces) in the search list"
        causes.append(invalid(f"{path}.searches", searches, why))
    for index, search in enumerate(searches):
        if search != ".":
            plain = re.sub(r"(^|\.)_", r"\1a", search.removesuffix(".")).replace("_", "-")
            causes += checks.subdomain(f"{path}.searches[{index}]", plain)
    return causes + [
        required(f"{path}.options[{index}]", "must not be empty")
        for index, option in enumerate(config.get("options") or ())
        if not option.get("name")
    ]


def _scheduling_gates(gates: list[RawObject], path: str) -> list[Cause]:
    causes, seen = [], set()
    for index, gate in enumerate(gates):
        causes += checks.qualified_name(f"{path}[{index}]", gate["name"])
        if gate["name"] in seen:
            causes.append(duplicate(f"{path}[{index}]", gate["name"]))
        seen.add(gate["name"])
    return causes


def _spread(constraints: list[RawObject], path: str) -> list[Cause]:
    causes = []
    for index, constraint in enumerate(constraints):
        place = f"{path}[{index}]"
        if constraint["maxSkew"] <= 0:
            causes.append(invalid(f"{place}.maxSkew", constraint["maxSkew"], "must be greater than zero"))
        if not constraint["topologyKey"]:
            causes.append(required(f"{place}.topologyKey", "can not be empty"))
        else:
            causes += checks.qualified_name(f"{place}.topologyKey", constraint["topologyKey"])
        wish = constraint["whenUnsatisfiable"]
        causes += checks.supported(f"{place}.whenUnsatisfiable", wish, ("DoNotSchedule", "ScheduleAnyway"))
    return causes


def _affinity(affinity: RawObject, path: str) -> list[Cause]:
    wanted = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted is None:
        return []
    place = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = wanted.get("nodeSelectorTerms") or []
    if not terms:
        return [required(place, "must have at least one node selector term")]
    causes = []
    for index, term in enumerate(terms):
        for number, expression in enumerate(term.get("matchExpressions") or ()):
            causes += _expression(expression, f"{place}[{index}].matchExpressions[{number}]")
    return causes


def _expression(expression: RawObject, path: str) -> list[Cause]:
    operator, values = expression["operator"], expression.get("values") or []
    causes = []
    if operator not in _OPERATORS:
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif operator in ("In", "NotIn") and not values:
        causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(forbidden(f"{path}.values", why))
    elif operator in ("Gt", "Lt") and len(values) != 1:
        causes.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    return causes + checks.qualified_name(f"{path}.key", expression["key"])


def tolerations(listed: list[RawObject], path: str) -> list[Cause]:
    """Which taints of a node a Pod bears."""
    causes = []
    for index, toleration in enumerate(listed):
        place = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            causes += checks.qualified_name(f"{place}.key", key)
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid(f"{place}.operator", operator, why))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid(f"{place}.effect", effect, why))
        if operator in ("", "Equal"):
            if faults := label_value_faults(value):
                causes.append(invalid(f"{place}.operator", value, ";".join(faults)))
        elif operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                causes.append(invalid(f"{place}.operator", value, why))
        else:
            known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
            causes.append(unsupported(f"{place}.operator", operator, known))
        if effect:
            causes += checks.supported(f"{place}.effect", effect, TAINT_EFFECTS)
    return causes
