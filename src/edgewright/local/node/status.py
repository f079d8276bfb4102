"""The status of a Pod as people and controllers read it, made from the plan and what has run. Pure.

`pod_loop` writes what comes out of here, and only where it differs from what the API server has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from edgewright.local.node.folders import Attempt, PodRecord
from edgewright.local.node.lifecycle import Plan
from edgewright.local.node.pods import Pod, is_sidecar, rfc3339
from edgewright.runtime.objects import RawObject


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the status is made from besides the Pod itself."""

    plan: Plan
    attempts: Mapping[str, Sequence[Attempt]]
    record: PodRecord
    host: str
    now: datetime
    ready: Mapping[str, bool] = field(default_factory=dict)
    """Whether a container that runs passes its readiness probe; one without a probe is not in it."""
    started: Mapping[str, bool] = field(default_factory=dict)
    messages: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Termination messages by container and attempt."""
    problems: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Why containers could not be started, besides what the plan says."""
    reason: str = ""
    message: str = ""


def pod_status(pod: Pod, shown: Shown) -> RawObject:
    """The whole status; fields and conditions that others wrote are kept."""
    plan = shown.plan
    containers = [_container(each, pod, shown) for each in pod.containers]
    status: RawObject = {
        **pod.status,
        "phase": plan.phase,
        "hostIP": shown.host,
        "hostIPs": [{"ip": shown.host}],
        "startTime": rfc3339(shown.record.taken_in),
        "containerStatuses": containers,
        "conditions": _conditions(pod, shown, containers),
    }
    if shown.record.address:
        status |= {"podIP": shown.record.address, "podIPs": [{"ip": shown.record.address}]}
    if pod.init_containers:
        status["initContainerStatuses"] = [_container(each, pod, shown, init=True) for each in pod.init_containers]
    for name, text in (("reason", shown.reason), ("message", shown.message)):
        status.pop(name, None)
        if text:
            status[name] = text
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    return status


def refused_status(pod: Pod, *, reason: str, message: str, host: str, now: datetime) -> RawObject:
    """The status of a Pod that was never taken in, or of which nothing is known here any more."""
    status = {**pod.status, "phase": "Failed", "reason": reason, "message": message, "hostIP": host}
    status.setdefault("startTime", rfc3339(now))
    found = {each["type"]: each for each in pod.status.get("conditions") or ()}
    for type_ in ("ContainersReady", "Ready"):
        found[type_] = _condition(found.get(type_), type_, False, now, reason="PodFailed")
    status["conditions"] = list(found.values())
    return status


def container_id(record: PodRecord, name: str, number: int) -> str:
    """What tells one run of a container from another."""
    return f"{record.runtime}://{record.uid}/{name}/{number}"


def _container(container: RawObject, pod: Pod, shown: Shown, *, init: bool = False) -> RawObject:
    name = container["name"]
    attempts = shown.attempts.get(name) or ()
    latest = attempts[0] if attempts else None
    running = latest is not None and latest.running
    started = running and shown.started.get(name, True)
    status: RawObject = {
        "name": name,
        "image": container.get("image", ""),
        "imageID": latest.image if latest else "",
        "restartCount": latest.number if latest else 0,
        "ready": _is_ready(container, latest, shown, init=init),
        "started": bool(started),
        "state": {},
        "lastState": {},
    }
    waiting = shown.problems.get(name) or shown.plan.waiting.get(name)
    ended = [each for each in attempts if each.end is not None]
    if latest is not None:
        status["containerID"] = container_id(shown.record, name, latest.number)
    if latest is not None and not waiting:
        status["state"] = _ran(name, latest, shown)
        ended = [each for each in ended if each is not latest]
    elif waiting:
        reason, message = waiting
        status["state"] = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    elif shown.plan.final:
        text = "the container never ran"
        status["state"] = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": text}}
    else:
        reason = "PodInitializing" if pod.init_containers else "ContainerCreating"
        status["state"] = {"waiting": {"reason": reason}}
    if ended:
        status["lastState"] = _ran(name, ended[0], shown)
    return status


def _is_ready(container: RawObject, latest: Attempt | None, shown: Shown, *, init: bool) -> bool:
    name = container["name"]
    if latest is None:
        return False
    if init and not is_sidecar(container):
        return latest.end is not None and latest.end.code == 0
    return latest.running and shown.started.get(name, True) and shown.ready.get(name, True)


def _ran(name: str, attempt: Attempt, shown: Shown) -> RawObject:
    if attempt.end is None:
        return {"running": {"startedAt": _time(attempt.started_at)}}
    end = attempt.end
    reason = "Completed" if end.code == 0 else "Error"
    if end.error:
        reason = "StartError"
    elif end.lost:
        reason = "ContainerStatusUnknown"
    elif end.out_of_memory:
        reason = "OOMKilled"
    ended: RawObject = {
        "exitCode": end.code,
        "reason": reason,
        "startedAt": _time(attempt.started_at),
        "finishedAt": _time(attempt.finished_at),
        "containerID": container_id(shown.record, name, attempt.number),
    }
    if end.signal:
        ended["signal"] = end.signal
    if message := shown.messages.get((name, attempt.number)) or end.error:
        ended["message"] = message
    return {"terminated": ended}


def _time(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment else None


def _conditions(pod: Pod, shown: Shown, containers: Sequence[RawObject]) -> list[RawObject]:
    plan = shown.plan
    ended = plan.phase in {"Succeeded", "Failed"}
    reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(plan.phase, "")
    not_ready = [each["name"] for each in containers if not each["ready"]]
    initialized = plan.initialized or plan.phase == "Succeeded"
    ready = not ended and not not_ready and initialized
    unready = (reason or "ContainersNotReady", "" if ended else f"containers with unready status: {_list(not_ready)}")
    incomplete = [each["name"] for each in pod.init_containers]
    found = {each["type"]: each for each in pod.status.get("conditions") or ()}
    gates = [each["conditionType"] for each in pod.spec.get("readinessGates") or ()]
    open_gates = [gate for gate in gates if found.get(gate, {}).get("status") != "True"]
    wanted: dict[str, tuple[bool, str, str]] = {
        "PodReadyToStartContainers": (not ended, "", ""),
        "Initialized": (True, reason if plan.phase == "Succeeded" else "", "")
        if initialized
        else (False, "ContainersNotInitialized", f"containers with incomplete status: {_list(incomplete)}"),
        "Ready": (True, "", "") if ready else (False, *unready),
        "ContainersReady": (True, "", "") if ready else (False, *unready),
        "PodScheduled": (True, "", ""),
    }
    if ready and open_gates:
        wanted["Ready"] = (
            False,
            "ReadinessGatesNotReady",
            f'corresponding condition of pod readiness gate "{open_gates[0]}" does not exist or is not "True".',
        )
    for type_, (true, why, message) in wanted.items():
        found[type_] = _condition(found.get(type_), type_, true, shown.now, reason=why, message=message)
    return list(found.values())


def _list(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


def _condition(
    old: Mapping[str, Any] | None, type_: str, true: bool, now: datetime, *, reason: str = "", message: str = ""
) -> RawObject:
    status = "True" if true else "False"
    changed = old is None or old.get("status") != status
    new: RawObject = {
        **(old or {"lastProbeTime": None}),
        "type": type_,
        "status": status,
        "lastTransitionTime": rfc3339(now) if changed or old is None else old.get("lastTransitionTime"),
    }
    for name, text in (("reason", reason), ("message", message)):
        new.pop(name, None)
        if text:
            new[name] = text
    return new
