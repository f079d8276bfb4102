"""The columns and rows of workloads and of what belongs to them: Deployments, Jobs, claims, budgets and others.

`builtin` joins them to those of the other kinds. Each row is a pure function of the object and the moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from edgewright.local import labelselector
from edgewright.local.served import Column
from edgewright.runtime.objects import RawObject

from .ages import age, human_duration, moment, since
from .custom import AGE, NAME, Row

_JOB_STATES = ("Complete", "Failed", "", "Suspended", "FailureTarget", "SuccessCriteriaMet")
_TYPES = {"#": "integer", "?": "boolean"}
_PODS = ("Containers+", "Images+")


def _columns(*names: str) -> tuple[Column, ...]:
    """The name of the object and more: with # a number, with ? yes or no, and with + only where there is room."""
    found = [NAME]
    for each in names:
        about, name, mark = AGE if each == "Age" else "", each.rstrip("#?+"), each[-1]
        wide = 1 if mark == "+" else 0
        found.append(Column(name=name, type=_TYPES.get(mark, "string"), description=about, priority=wide))
    return tuple(found)


def _name(obj: RawObject) -> str:
    return str(obj["metadata"].get("name", ""))


def _age(obj: RawObject, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _pods(template: RawObject) -> list[str]:
    containers = template["spec"].get("containers") or ()
    return [",".join(str(each.get(part, "")) for each in containers) for part in ("name", "image")]


def _status(obj: RawObject, *names: str) -> list[int]:
    status = obj.get("status") or {}
    return [status.get(name) or 0 for name in names]


def _selector(spec: RawObject) -> str:
    return labelselector.text(spec.get("selector")) or "<none>"


def _deployment(obj: RawObject, now: datetime) -> list[Any]:
    spec = obj["spec"]
    ready, updated, available = _status(obj, "readyReplicas", "updatedReplicas", "availableReplicas")
    shown = [_name(obj), f"{ready}/{spec.get('replicas', 0)}", updated, available, _age(obj, now)]
    return [*shown, *_pods(spec["template"]), labelselector.text(spec.get("selector"))]


def _replica_set(obj: RawObject, now: datetime) -> list[Any]:
    spec = obj["spec"]
    shown = [_name(obj), spec.get("replicas", 0), *_status(obj, "replicas", "readyReplicas"), _age(obj, now)]
    return [*shown, *_pods(spec["template"]), _selector(spec)]


def _stateful_set(obj: RawObject, now: datetime) -> list[Any]:
    (ready,) = _status(obj, "readyReplicas")
    shown = f"{ready}/{obj['spec'].get('replicas', 0)}"
    return [_name(obj), shown, _age(obj, now), *_pods(obj["spec"]["template"])]


def _daemon_set(obj: RawObject, now: datetime) -> list[Any]:
    template = obj["spec"]["template"]
    nodes = ",".join(f"{key}={value}" for key, value in sorted((template["spec"].get("nodeSelector") or {}).items()))
    counted = _status(
        obj,
        *("desiredNumberScheduled", "currentNumberScheduled", "numberReady"),
        *("updatedNumberScheduled", "numberAvailable"),
    )
    return [_name(obj), *counted, nodes or "<none>", _age(obj, now), *_pods(template), _selector(obj["spec"])]


def _controller_revision(obj: RawObject, now: datetime) -> list[Any]:
    owner = next((each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")), None)
    controller = "<none>"
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        controller = f"{owner['kind']}{'.' if group else ''}{group}".lower() + f"/{owner['name']}"
    return [_name(obj), controller, obj.get("revision", 0), _age(obj, now)]


def _job(obj: RawObject, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    succeeded, completions, parallelism = status.get("succeeded") or 0, spec.get("completions"), spec.get("parallelism")
    if completions is not None:
        shown = f"{succeeded}/{completions}"
    else:
        shown = f"{succeeded}/1 of {parallelism}" if (parallelism or 0) > 1 else f"{succeeded}/1"
    began, ended = moment(status.get("startTime")), moment(status.get("completionTime"))
    took = human_duration((ended or now) - began) if began else ""
    return [_name(obj), _job_state(obj), shown, took, _age(obj, now), *_pods(spec["template"]), _selector(spec)]


def _job_state(obj: RawObject) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    true = {each["type"] for each in conditions if each["status"] == "True"}
    for state in _JOB_STATES:
        if state in true:
            return state
        if not state and "deletionTimestamp" in obj["metadata"]:
            return "Terminating"
    return "Running"


def _cron_job(obj: RawObject, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    last = status.get("lastScheduleTime")
    suspended = {True: "True", False: "False"}.get(spec.get("suspend"), "<unset>")
    shown = [_name(obj), spec.get("schedule", ""), spec.get("timeZone") or "<none>", suspended]
    shown += [len(status.get("active") or ()), since(moment(last), now) if last else "<none>", _age(obj, now)]
    jobs = spec["jobTemplate"]["spec"]
    return [*shown, *_pods(jobs["template"]), _selector(jobs)]


_ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(fields: RawObject) -> str:
    return ",".join(short for mode, short in _ACCESS.items() if mode in (fields.get("accessModes") or ()))


def _phase(obj: RawObject) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else (obj.get("status") or {}).get("phase", "")


def _volume(obj: RawObject, now: datetime) -> list[Any]:
    spec, claim = obj["spec"], obj["spec"].get("claimRef")
    shown = [_name(obj), (spec.get("capacity") or {}).get("storage", "0"), _modes(spec)]
    shown += [spec.get("persistentVolumeReclaimPolicy", ""), _phase(obj)]
    shown += [f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""]
    shown += [spec.get("storageClassName", ""), spec.get("volumeAttributesClassName") or "<unset>"]
    return [*shown, (obj.get("status") or {}).get("reason", ""), _age(obj, now), spec.get("volumeMode", "<unset>")]


def _claim(obj: RawObject, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    volume, capacity, modes = spec.get("volumeName", ""), "", ""
    if volume:
        capacity, modes = (status.get("capacity") or {}).get("storage", "0"), _modes(status)
    shown = [_name(obj), _phase(obj), volume, capacity, modes, spec.get("storageClassName") or ""]
    return [*shown, spec.get("volumeAttributesClassName") or "<unset>", _age(obj, now), spec.get("volumeMode", "")]


def _budget(obj: RawObject, now: datetime) -> list[Any]:
    shown = [str(obj["spec"].get(name, "N/A")) for name in ("minAvailable", "maxUnavailable")]
    return [_name(obj), *shown, *_status(obj, "disruptionsAllowed"), _age(obj, now)]


KINDS: dict[tuple[str, str], tuple[Sequence[Column], Row]] = {
    ("apps", "ControllerRevision"): (_columns("Controller", "Revision", "Age"), _controller_revision),
    ("apps", "DaemonSet"): (
        _columns(
            *("Desired#", "Current#", "Ready#", "Up-to-date#", "Available#"),
            *("Node Selector", "Age", *_PODS, "Selector+"),
        ),
        _daemon_set,
    ),
    ("apps", "Deployment"): (_columns("Ready", "Up-to-date", "Available", "Age", *_PODS, "Selector+"), _deployment),
    ("apps", "ReplicaSet"): (_columns("Desired#", "Current#", "Ready#", "Age", *_PODS, "Selector+"), _replica_set),
    ("apps", "StatefulSet"): (_columns("Ready", "Age", *_PODS), _stateful_set),
    ("batch", "CronJob"): (
        _columns("Schedule", "Timezone", "Suspend?", "Active#", "Last Schedule", "Age", *_PODS, "Selector+"),
        _cron_job,
    ),
    ("batch", "Job"): (_columns("Status", "Completions", "Duration", "Age", *_PODS, "Selector+"), _job),
    ("", "PersistentVolume"): (
        _columns(
            *("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
            *("VolumeAttributesClass", "Reason", "Age", "VolumeMode+"),
        ),
        _volume,
    ),
    ("", "PersistentVolumeClaim"): (
        _columns(
            *("Status", "Volume", "Capacity", "Access Modes", "StorageClass"),
            *("VolumeAttributesClass", "Age", "VolumeMode+"),
        ),
        _claim,
    ),
    ("policy", "PodDisruptionBudget"): (
        _columns("Min Available", "Max Unavailable", "Allowed Disruptions#", "Age"),
        _budget,
    ),
}
