"""What may still be changed of a Pod once it is there: a few fields of its spec, and its status in one direction.

The rules of Pods call it with the Pod as it was and as it must be.
"""

from __future__ import annotations

import copy
from typing import Any

from edgewright.local.builtin import checks
from edgewright.local.builtin.containers import surrounded_images
from edgewright.local.builtin.podspec import tolerations
from edgewright.local.field_errors import forbidden, invalid, required
from edgewright.local.go_format import compact
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_CHANGEABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def changed_spec(spec: RawObject, old: RawObject) -> list[Cause]:
    """What is wrong with the change of a Pod's spec."""
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(old.get(name) or ()):
            return [forbidden(f"spec.{name}", "pod updates may not add or remove containers")]
    causes = [
        required(f"spec.{name}[{index}].image")
        for name in ("containers", "initContainers")
        for index, container in enumerate(spec.get(name) or ())
        if not container.get("image")
    ] + surrounded_images(spec, "spec")
    wrong, stop = _deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    causes += wrong
    if stop:
        return causes
    causes += _only_added(spec.get("tolerations") or [], old.get("tolerations") or [])
    causes += _only_opened(spec.get("schedulingGates") or [], old.get("schedulingGates") or [])
    if difference := _difference(spec, old):
        why = f"pod updates may not change fields other than {_CHANGEABLE}\n{difference}"
        causes.append(forbidden("spec", why))
    return causes


def _deadline(new: int | None, old: int | None) -> tuple[list[Cause], bool]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        gone = old is not None
        return ([invalid(path, None, "must not update from a positive integer to nil value")] if gone else []), False
    if not 0 <= new <= 2**31 - 1:
        return [invalid(path, new, "must be between 0 and 2147483647, inclusive")], True
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _only_added(new: list[RawObject], old: list[RawObject]) -> list[Cause]:
    def plain(toleration: RawObject) -> RawObject:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    there = [plain(toleration) for toleration in new]
    if any(plain(toleration) not in there for toleration in old):
        why = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", why)]
    return tolerations(new, "spec.tolerations")


def _only_opened(new: list[RawObject], old: list[RawObject]) -> list[Cause]:
    names, why = {gate["name"] for gate in old}, "only deletion is allowed, but found new scheduling gate"
    return [
        forbidden(f"spec.schedulingGates[{index}].name", f"{why} '{gate['name']}'")
        for index, gate in enumerate(new)
        if gate["name"] not in names
    ]


def _difference(spec: RawObject, old: RawObject) -> str:
    """The fields that differ and may not, a line each; nothing where there are none."""
    changed = copy.deepcopy(spec)
    for name in ("containers", "initContainers"):
        for container, before in zip(changed.get(name) or (), old.get(name) or (), strict=True):
            container["image"] = before.get("image")
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        changed.pop(name, None)
        if name in old:
            changed[name] = old[name]
    grace = "terminationGracePeriodSeconds"
    if old.get(grace, 0) < 0 and changed.get(grace) == 1:
        changed[grace] = old[grace]
    if old.get("schedulingGates"):
        changed["nodeSelector"] = old.get("nodeSelector")
    names = sorted({*changed, *old})
    return "".join(
        _line(name, old.get(name), changed.get(name)) for name in names if changed.get(name) != old.get(name)
    )


def _line(name: str, before: Any, after: Any) -> str:
    return f"- \t{name}: {compact(before)}\n+ \t{name}: {compact(after)}\n"


def changed_status(obj: RawObject, old: RawObject) -> list[Cause]:
    """What is wrong with a new status of a Pod: an ended container may not live again where its policy forbids it."""
    status, before, causes = obj["status"], old["status"], []
    for index, condition in enumerate(status.get("conditions") or ()):
        if condition["type"] not in _SYSTEM_CONDITIONS:
            causes += checks.qualified_name(f"status.conditions[{index}].Type", condition["type"])
    if (name := status.get("nominatedNodeName")) and name != before.get("nominatedNodeName"):
        causes += checks.subdomain("status.nominatedNodeName", name)
        if old["spec"].get("nodeName"):
            why = "may not be set on pods that are already bound to a node"
            causes.append(forbidden("status.nominatedNodeName", why))
    causes += checks.immutable("status.qosClass", status.get("qosClass", ""), before.get("qosClass", ""))
    causes += _transitions(obj, old)
    hosts = status.get("hostIPs") or ()
    if hosts and hosts[0]["ip"] != status.get("hostIP", ""):
        causes.append(invalid("status.hostIPs[0].ip", hosts[0]["ip"], "must be equal to `hostIP`"))
    for field in ("podIPs", "hostIPs"):
        for index, address in enumerate(status.get(field) or ()):
            causes += checks.ip(f"status.{field}[{index}]", address["ip"])
    return causes


def _transitions(obj: RawObject, old: RawObject) -> list[Cause]:
    causes, now = [], {each["name"]: each for each in obj["status"].get("containerStatuses") or ()}
    policies = {each["name"]: each.get("restartPolicy") for each in old["spec"].get("containers") or ()}
    for index, before in enumerate(old["status"].get("containerStatuses") or ()):
        ended = before["state"].get("terminated")
        if ended is None or before["name"] not in now or "terminated" in now[before["name"]]["state"]:
            continue
        policy = policies.get(before["name"]) or old["spec"]["restartPolicy"]
        if policy == "Never" or (policy == "OnFailure" and ended["exitCode"] == 0):
            why = "may not be transitioned to non-terminated state"
            causes.append(forbidden(f"status.containerStatuses[{index}].state", why))
    return causes
