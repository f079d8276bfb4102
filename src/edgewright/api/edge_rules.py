"""What a workload for edge devices may not ask for, because the agent cannot give it: the published rules, and ours.

The API server refuses most of it (`edge_pod`); of what it lets through, or had before, the edgeworkload controller
shows the first problem as a condition, and the gateway sends no workload that has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from edgewright.api.edge_pod import IMPOSSIBLE, NODE_EXPORTER, ONLY_HOST_PATH, TAKEN_PORT
from edgewright.api.edgeworkload import BAD_NAME, NO_DEVICE, POD, EdgeWorkload
from edgewright.api.label_selector import LabelSelectorRequirement
from edgewright.api.problem import Problem

_OPERATORS: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
_CONTAINER_FIELDS: Final = (
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "volumeDevices",
    "resources",
)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_NAME: Final = 63


def problem_of(workload: EdgeWorkload) -> Problem | None:
    """The first thing that keeps a workload from being run anywhere; None where there is none."""
    return next(_problems(workload), None)


def _problems(workload: EdgeWorkload) -> Iterator[Problem]:
    spec = workload.spec
    name = workload.metadata.name
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        yield Problem("metadata.name", BAD_NAME)
    if spec.type != POD:
        yield Problem("spec.type", f"{spec.type!r} is not a type of workload: use pod")
    if not spec.device and spec.device_selector is None:
        yield Problem("spec.deviceSelector", NO_DEVICE)
    if spec.device_selector is not None:
        yield from selector_problems("spec.deviceSelector", spec.device_selector.match_expressions)
    yield from _pod_problems(spec.pod.spec)


def selector_problems(field: str, expressions: tuple[LabelSelectorRequirement, ...]) -> Iterator[Problem]:
    """What is wrong with the expressions of a selector, which is this field of the spec."""
    for number, each in enumerate(expressions):
        where = f"{field}.matchExpressions[{number}]"
        if each.operator not in _OPERATORS:
            yield Problem(f"{where}.operator", f"{each.operator!r} is not one of {', '.join(_OPERATORS)}")
        elif _OPERATORS[each.operator] != bool(each.values):
            yield Problem(f"{where}.values", f"{each.operator} {'needs' if not each.values else 'takes no'} values")


def _pod_problems(pod: dict[str, Any]) -> Iterator[Problem]:
    containers = pod.get("containers")
    if not isinstance(containers, list) or not containers:
        yield Problem("spec.pod.spec.containers", "a pod needs at least one container")
        return
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for number, each in enumerate(_objects(pod.get(kind))):
            where = f"spec.pod.spec.{kind}[{number}]"
            yield from _container_problems(each, where)
            name = str(each.get("name", ""))
            if not name:
                yield Problem(f"{where}.name", "a container needs a name")
            elif name in seen:
                yield Problem(f"{where}.name", f"there is a container {name!r} already")
            seen.add(name)
    for number, volume in enumerate(_objects(pod.get("volumes"))):
        if others := sorted(volume.keys() - {"name", "hostPath"}):
            yield Problem(f"spec.pod.spec.volumes[{number}].{others[0]}", ONLY_HOST_PATH)


def _container_problems(container: dict[str, Any], where: str) -> Iterator[Problem]:
    for field in _CONTAINER_FIELDS:
        if container.get(field):
            yield Problem(f"{where}.{field}", IMPOSSIBLE)
    for number, variable in enumerate(_objects(container.get("env"))):
        source = variable.get("valueFrom")
        for field in ("fieldRef", "resourceFieldRef"):
            if isinstance(source, dict) and source.get(field):
                yield Problem(f"{where}.env[{number}].valueFrom.{field}", IMPOSSIBLE)
    for number, port in enumerate(_objects(container.get("ports"))):
        if port.get("hostPort") == NODE_EXPORTER:
            yield Problem(f"{where}.ports[{number}].hostPort", TAKEN_PORT)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
