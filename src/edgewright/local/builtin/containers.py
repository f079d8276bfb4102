"""Checks of the containers of a Pod: names, images, ports, environment, mounts, probes and resources.

`podspec` calls it with all the containers of a Pod or template. What one container may say about the whole Pod (the
volumes that are there, whether it may be probed) is given to it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

from edgewright.local.builtin import checks
from edgewright.local.builtin.downward import field_reference, resource_reference
from edgewright.local.field_errors import duplicate, forbidden, invalid, required, unsupported
from edgewright.local.quantities import value as amount_of
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PRINTABLE = re.compile(r"[ -<>-~]+")
_VARIABLE_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_ONLY_RESTARTED = "may not be set for init containers without restartPolicy=Always"
_NATIVE = {"cpu", "memory", "ephemeral-storage"}
_COUNTED = {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"}
_COUNTED |= {"persistentvolumeclaims", "services.nodeports", "services.loadbalancers", "storage"}


def all_containers(spec: RawObject, volumes: Container[str], path: str) -> list[Cause]:
    """Checks containers and init containers; `volumes` are the names of the good volumes."""
    grace = spec.get("terminationGracePeriodSeconds", 0)
    return [
        *_containers(spec.get("containers") or [], volumes, grace, f"{path}.containers"),
        *_init_containers(
            spec.get("initContainers") or [],
            [container["name"] for container in spec.get("containers") or ()],
            volumes,
            grace,
            f"{path}.initContainers",
        ),
    ]


def _containers(containers: list[RawObject], volumes: Container[str], grace: int, path: str) -> list[Cause]:
    if not containers:
        return [required(path)]
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        causes += _container(container, volumes, place)
        if container["name"] in seen:
            causes.append(duplicate(f"{place}.name", container["name"]))
        seen.add(container["name"])
        causes += _lifecycle_and_probes(container, grace, place)
        causes += _restart_policy(container, place, ("Always", "OnFailure", "Never"))
    return causes + _host_ports(containers, path)


def _init_containers(
    containers: list[RawObject], taken: Iterable[str], volumes: Container[str], grace: int, path: str
) -> list[Cause]:
    causes: list[Cause] = []
    seen = set(taken)
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        causes += _container(container, volumes, place)
        causes += _restart_policy(container, place, ("Always", "OnFailure", "Never"))
        if container["name"] in seen:
            causes.append(duplicate(f"{place}.name", container["name"]))
        elif container["name"]:
            seen.add(container["name"])
        causes += _host_ports([container], path)
        if container.get("restartPolicy") == "Always":
            causes += _lifecycle_and_probes(container, grace, place)
        else:
            causes += [
                forbidden(f"{place}.{name}", _ONLY_RESTARTED) for name in ("lifecycle", *_PROBES) if name in container
            ]
    return causes


def _restart_policy(container: RawObject, place: str, policies: tuple[str, ...]) -> list[Cause]:
    policy = container.get("restartPolicy")
    if policy is not None and policy not in policies:
        return [unsupported(f"{place}.restartPolicy", policy, policies)]
    if policy is None and container.get("restartPolicyRules"):
        return [required(f"{place}.restartPolicy", "must specify restartPolicy when restart rules are used")]
    return []


def _container(container: RawObject, volumes: Container[str], place: str) -> list[Cause]:
    name, image = container["name"], container.get("image", "")
    causes = checks.label(f"{place}.name", name) if name else [required(f"{place}.name")]
    if not image:
        causes.append(required(f"{place}.image"))
    policy = container["terminationMessagePolicy"]
    causes += checks.supported(f"{place}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    causes += _ports(container.get("ports") or [], f"{place}.ports")
    causes += _environment(container.get("env") or [], f"{place}.env")
    causes += _environment_sources(container.get("envFrom") or [], f"{place}.envFrom")
    causes += _mounts(container, volumes, f"{place}.volumeMounts")
    causes += checks.supported(f"{place}.imagePullPolicy", container["imagePullPolicy"], PULL_POLICIES)
    causes += resources(container["resources"], f"{place}.resources")
    return causes + _security(container.get("securityContext") or {}, f"{place}.securityContext")


def surrounded_images(spec: RawObject, path: str) -> list[Cause]:
    """Images with spaces around them, which only templates may have."""
    return [
        invalid(f"{path}.{name}[{index}].image", container["image"], "must not have leading or trailing whitespace")
        for name in ("containers", "initContainers")
        for index, container in enumerate(spec.get(name) or ())
        if container.get("image", "").strip() != container.get("image", "")
    ]


def _ports(ports: list[RawObject], path: str) -> list[Cause]:
    causes, seen = [], set()
    for index, port in enumerate(ports):
        place, name = f"{path}[{index}]", port.get("name", "")
        if name:
            wrong = checks.port_name(f"{place}.name", name)
            if not wrong and name in seen:
                wrong = [duplicate(f"{place}.name", name)]
            causes += wrong
            seen.add(name)
        if not port["containerPort"]:
            causes.append(required(f"{place}.containerPort"))
        else:
            causes += checks.port_number(f"{place}.containerPort", port["containerPort"])
        if "hostPort" in port:
            causes += checks.port_number(f"{place}.hostPort", port["hostPort"])
        causes += checks.supported(f"{place}.protocol", port["protocol"], checks.PROTOCOLS)
    return causes


def _host_ports(containers: list[RawObject], path: str) -> list[Cause]:
    causes, seen = [], set()
    for place, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            if "hostPort" not in port:
                continue
            taken = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if taken in seen:
                causes.append(duplicate(f"{path}[{place}].ports[{index}].hostPort", taken))
            seen.add(taken)
    return causes


def _environment(variables: list[RawObject], path: str) -> list[Cause]:
    causes = []
    for index, variable in enumerate(variables):
        place, name = f"{path}[{index}]", variable["name"]
        if not name:
            causes.append(required(f"{place}.name"))
        elif not _PRINTABLE.fullmatch(name):
            causes.append(invalid(f"{place}.name", name, _VARIABLE_RULE))
        if (source := variable.get("valueFrom")) is not None:
            causes += _variable_source(source, bool(variable.get("value")), f"{place}.valueFrom")
    return causes


def _variable_source(source: RawObject, has_value: bool, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if "fieldRef" in source:
        causes += field_reference(source["fieldRef"], f"{path}.fieldRef", volume=False)
    if "resourceFieldRef" in source:
        causes += resource_reference(source["resourceFieldRef"], f"{path}.resourceFieldRef", volume=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            causes += _key_reference(source[name], f"{path}.{name}")
    if not source:
        one = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        causes.append(invalid(path, "", one))
    elif has_value:
        causes.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        causes.append(invalid(path, "", "may not have more than one field specified at a time"))
    return causes


def _key_reference(reference: RawObject, path: str) -> list[Cause]:
    causes = checks.subdomain(f"{path}.name", reference.get("name", ""))
    if not reference["key"]:
        return [*causes, required(f"{path}.key")]
    return causes + [invalid(f"{path}.key", reference["key"], why) for why in checks.data_key_faults(reference["key"])]


def _environment_sources(sources: list[RawObject], path: str) -> list[Cause]:
    causes = []
    for index, source in enumerate(sources):
        place, prefix = f"{path}[{index}]", source.get("prefix", "")
        if prefix and not _PRINTABLE.fullmatch(prefix):
            causes.append(invalid(f"{place}.prefix", prefix, _VARIABLE_RULE))
        named = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in named:
            called = source[name].get("name", "")
            where = f"{place}.{name}.name"
            causes += checks.subdomain(where, called) if called else [required(where)]
        if not named:
            causes.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(named) > 1:
            causes.append(invalid(path, "", "may not have more than one field specified at a time"))
    return causes


def _mounts(container: RawObject, volumes: Container[str], path: str) -> list[Cause]:
    causes, seen = [], set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        place, name, where = f"{path}[{index}]", mount["name"], mount["mountPath"]
        if not name:
            causes.append(required(f"{place}.name"))
        if name not in volumes:
            causes.append(checks.not_found(f"{place}.name", name))
        if not where:
            causes.append(required(f"{place}.mountPath"))
        if where in seen:
            causes.append(invalid(f"{place}.mountPath", where, "must be unique"))
        seen.add(where)
        if below := mount.get("subPath"):
            causes += relative_path(below, f"{path}.subPath")
        if expression := mount.get("subPathExpr"):
            if below:
                why = "subPathExpr and subPath are mutually exclusive"
                causes.append(invalid(f"{place}.subPathExpr", expression, why))
            causes += relative_path(expression, f"{path}.subPathExpr")
    return causes


def relative_path(value: str, path: str) -> list[Cause]:
    """A path that stays below where it starts."""
    causes = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return causes + ([invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else [])


def _lifecycle_and_probes(container: RawObject, grace: int, place: str) -> list[Cause]:
    causes = []
    for name in ("postStart", "preStop"):
        if (handler := (container.get("lifecycle") or {}).get(name)) is not None:
            causes += _handler(handler, grace, f"{place}.lifecycle.{name}")
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            causes += _probe(probe, grace, f"{place}.{name}", readiness=name == "readinessProbe")
    return causes


def _probe(probe: RawObject, grace: int, path: str, *, readiness: bool) -> list[Cause]:
    causes = _handler(probe, grace, path)
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        causes += checks.not_negative(f"{path}.{name}", probe.get(name, 0))
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", own, "must be greater than 0"))
    if readiness and own is not None:
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", own, "must not be set for readinessProbes"))
    if not readiness and probe["successThreshold"] != 1:
        causes.append(invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return causes


def _handler(handler: RawObject, grace: int, path: str) -> list[Cause]:
    named = [name for name in _HANDLERS if name in handler]
    if not named:
        return [required(path, "must specify a handler type")]
    causes = _action(handler, named[0], grace, f"{path}.{named[0]}")
    return causes + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in named[1:]]


def _action(handler: RawObject, name: str, grace: int, path: str) -> list[Cause]:
    action = handler[name]
    match name:
        case "exec":
            return [] if action.get("command") else [required(f"{path}.command")]
        case "httpGet":
            causes = checks.port(f"{path}.port", action["port"])
            causes += checks.supported(f"{path}.scheme", action["scheme"], ("HTTP", "HTTPS"))
            headers = action.get("httpHeaders") or ()
            why = (
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
                "for validation is '[-A-Za-z0-9]+')"
            )
            return causes + [
                invalid(f"{path}.httpHeaders", header["name"], why)
                for header in headers
                if not re.fullmatch("[-A-Za-z0-9]+", header["name"])
            ]
        case "sleep":
            seconds, rule = action["seconds"], "must be non-negative and less than terminationGracePeriodSeconds"
            good = 0 <= seconds <= grace
            return (
                [] if good else [invalid(path, seconds, f"{rule} ({grace}). Set AllowPodLifecycleSleepActionZeroValue")]
            )
        case "grpc":
            return checks.port_number(f"{path}.port", action["port"])
        case _:
            return checks.port(f"{path}.port", action["port"])


def resources(wanted: RawObject, path: str) -> list[Cause]:
    """Amounts of resources: their names, their sizes, and that no request is above its limit."""
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    causes = [*_amounts(limits, f"{path}.limits"), *_amounts(requests, f"{path}.requests")]
    for name, amount in requests.items():
        limit = limits.get(name)
        divisible = _is_native(name) and not name.startswith("hugepages-")
        if limit is None:
            if not divisible:
                causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif not divisible and amount_of(amount) != amount_of(limit):
            causes.append(invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}"))
        elif amount_of(amount) > amount_of(limit):
            causes.append(invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}"))
    names = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        causes.append(forbidden(path, "HugePages require cpu or memory"))
    return causes


def _amounts(amounts: Mapping[str, str], path: str) -> list[Cause]:
    causes = []
    for name, amount in amounts.items():
        place = f"{path}[{name}]"
        causes += _resource_name(name, place) + resource_amount(name, amount, place)
    return causes


def resource_amount(name: str, amount: str, path: str) -> list[Cause]:
    """An amount of a resource: not negative, and whole where a part of it makes no sense."""
    exact = amount_of(amount)
    if exact < 0:
        return [invalid(path, amount, "must be greater than or equal to 0")]
    if (not _is_native(name) or name in _COUNTED - {"storage"}) and exact.denominator != 1:
        return [invalid(path, amount, "must be an integer")]
    return []


def _resource_name(name: str, path: str) -> list[Cause]:
    causes: list[Cause] = checks.qualified_name(path, name)
    container = name in _NATIVE or name.startswith("hugepages-")
    if "/" not in name:
        if not causes and not container and name not in _COUNTED:
            causes.append(invalid(path, name, "must be a standard resource type or fully qualified"))
        if not container:
            causes.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and (name.startswith("requests.") or checks.qualified_name(path, f"requests.{name}")):
        causes.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return causes


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _security(context: dict[str, Any], path: str) -> list[Cause]:
    causes = []
    for name in ("runAsUser", "runAsGroup"):
        if name in context:
            causes += account_number(f"{path}.{name}", context[name])
    if context.get("allowPrivilegeEscalation") is False:
        why = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            causes.append(invalid(path, context, f"{why} `privileged` to true"))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            causes.append(invalid(path, context, f"{why} `capabilities.Add` CAP_SYS_ADMIN"))
    return causes


def account_number(path: str, number: int) -> list[Cause]:
    """The number of a user or group."""
    good = 0 <= number <= 2**31 - 1
    return [] if good else [invalid(path, number, "must be between 0 and 2147483647, inclusive")]
