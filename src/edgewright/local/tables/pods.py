"""The row of a Pod in a table: what its containers are doing, in a word or two.

`builtin` has it in its list, and `table` asks it for the condition of rows whose Pod has ended. Pure functions of the
Pod and the moment of the request; they read what is stored and never judge whether it makes sense.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from edgewright.runtime.objects import RawObject

from .ages import age, moment, since

_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
_LOST = "NodeLost"
"""The reason of a Pod whose node no longer answers."""


@dataclass
class _Restarts:
    """How often containers were started again, and when one of them ended last before that."""

    count: int = 0
    last: datetime | None = None

    def add(self, status: RawObject) -> None:
        self.count += status.get("restartCount") or 0
        ended = moment(_state(status, "lastState", "terminated").get("finishedAt"))
        if ended is not None and (self.last is None or self.last < ended):
            self.last = ended

    def cell(self, now: datetime) -> str:
        return f"{self.count} ({since(self.last, now)} ago)" if self.count and self.last else str(self.count)


@dataclass
class _Containers:
    """What the containers of a Pod say together."""

    reason: str
    restarts: _Restarts
    ready: int = 0
    initializing: bool = False


def pod_row(pod: RawObject, now: datetime) -> list[Any]:
    """The cells of a Pod: name, ready, status, restarts, age; for `-o wide` also address, nodes, readiness gates."""
    metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    containers = _containers(spec, status)
    sidecars = sum(map(_is_sidecar, spec.get("initContainers") or ()))
    total = len(spec.get("containers") or ()) + sidecars
    addresses = [each.get("ip") for each in status.get("podIPs") or ()]
    return [
        metadata.get("name", ""),
        f"{containers.ready}/{total}",
        _deleting(metadata, status) or containers.reason,
        containers.restarts.cell(now),
        age(metadata.get("creationTimestamp"), now),
        status.get("podIP") or next(iter(addresses), "") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _gates(spec, status),
    ]


def row_conditions(pod: RawObject) -> list[RawObject]:
    """What a row says besides its cells: that the Pod has ended, and how."""
    phase = (pod.get("status") or {}).get("phase", "")
    if phase not in _ENDED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]


def _deleting(metadata: RawObject, status: RawObject) -> str:
    if not metadata.get("deletionTimestamp"):
        return ""
    if status.get("reason") == _LOST:
        return "Unknown"
    return "" if status.get("phase") in _ENDED else "Terminating"


def _containers(spec: RawObject, status: RawObject) -> _Containers:
    reason = status.get("reason") or status.get("phase") or ""
    if any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in status.get("conditions") or ()
    ):
        reason = "SchedulingGated"
    found, sidecars = _initial(spec, status, reason)
    if found.initializing and _condition(status, "Initialized") != "True":
        return found
    # Those that ran before are of no interest any more, but a sidecar runs on.
    found.restarts = sidecars
    _running(status, found)
    return found


def _initial(spec: RawObject, status: RawObject, reason: str) -> tuple[_Containers, _Restarts]:
    """What the init containers say up to the first that is not through, and the restarts of sidecars among them."""
    declared = spec.get("initContainers") or ()
    sidecar_names = {each.get("name") for each in declared if _is_sidecar(each)}
    found, sidecars = _Containers(reason=reason, restarts=_Restarts()), _Restarts()
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        found.restarts.add(container)
        sidecar = container.get("name") in sidecar_names
        if sidecar:
            sidecars.add(container)
        ended = _state(container, "state", "terminated", or_none=True)
        if ended is not None and not ended.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            found.ready += bool(container.get("ready"))
            continue
        found.initializing = True
        waiting = _state(container, "state", "waiting").get("reason", "")
        if ended is not None:
            found.reason = f"Init:{_ending(ended)}"
        elif waiting and waiting != "PodInitializing":
            found.reason = f"Init:{waiting}"
        else:
            found.reason = f"Init:{index}/{len(declared)}"
        break
    return found, sidecars


def _running(status: RawObject, found: _Containers) -> None:
    """What the containers say; the first in the list has the last word."""
    running, error = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        found.restarts.add(container)
        ended = _state(container, "state", "terminated", or_none=True)
        if waiting := _state(container, "state", "waiting").get("reason"):
            found.reason = waiting
        elif ended is not None:
            found.reason = _ending(ended)
            error = found.reason if ended.get("exitCode") else error
        elif container.get("ready") and _state(container, "state", "running", or_none=True) is not None:
            running = True
            found.ready += 1
    if found.reason == "Completed":
        found.reason = _completed(status, running=running, error=error)


def _completed(status: RawObject, *, running: bool, error: str) -> str:
    """What to show when the first container is through, but another perhaps not."""
    if running and any(
        each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ()
    ):
        return "Running"
    return error or ("NotReady" if running else "Completed")


def _ending(ended: RawObject) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _gates(spec: RawObject, status: RawObject) -> str:
    gates = spec.get("readinessGates") or ()
    passed = sum(_condition(status, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else "<none>"


def _condition(status: RawObject, kind: str) -> str:
    """The status of the first condition of a type."""
    return next((each.get("status", "") for each in status.get("conditions") or () if each.get("type") == kind), "")


def _is_sidecar(container: RawObject) -> bool:
    return container.get("restartPolicy") == "Always"


def _state(status: RawObject, when: str, which: str, *, or_none: bool = False) -> Any:
    """A container's state of one of the three sorts; where it is in another, an empty one or None."""
    state = (status.get(when) or {}).get(which)
    return state if state is not None or or_none else {}
