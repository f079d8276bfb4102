"""Exchanges about workloads, claims and budgets: how they are created, shown, patched, scaled and evicted.

They are sent to servers whose controllers of workloads do not run, so that nobody but the exchange writes a status.
`tests/unit/local/builtin/workload_exchanges.py` compares the rules of single fields.
"""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.bodies import PODS, TABLE, Object, named, pod
from tests.cluster.differential.exchange import (
    APPLY,
    JSON_PATCH,
    STRATEGIC,
    Exchange,
    Step,
    delete,
    edited,
    exchange,
    get,
    made,
    patch,
    post,
    put,
    watch,
)

_LABELS = {"app": "a"}
_SELECTOR = {"matchLabels": _LABELS}


def template(**spec: Any) -> Object:
    """A template of Pods."""
    return {
        "metadata": {"labels": _LABELS},
        "spec": {"containers": [{"name": "c", "image": "example"}], **spec},
    }


def _paths(group: str, *plurals: str) -> dict[str, str]:
    return {plural: f"/apis/{group}/namespaces/{{ns}}/{plural}" for plural in plurals}


PATHS: dict[str, str] = {
    **_paths("apps/v1", "deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"),
    **_paths("batch/v1", "jobs", "cronjobs"),
    **_paths("policy/v1", "poddisruptionbudgets"),
    "persistentvolumeclaims": "/api/v1/namespaces/{ns}/persistentvolumeclaims",
}
_WORKLOAD: Object = {"selector": _SELECTOR, "template": template()}
_JOB: Object = {"template": template(restartPolicy="Never")}
SPECS: dict[str, Object] = {
    "deployments": {**_WORKLOAD, "replicas": 2},
    "replicasets": {**_WORKLOAD, "replicas": 2},
    "statefulsets": {**_WORKLOAD, "replicas": 2, "serviceName": "a"},
    "daemonsets": _WORKLOAD,
    "jobs": {**_JOB, "completions": 3, "parallelism": 2},
    "cronjobs": {"schedule": "5 4 * * *", "jobTemplate": {"spec": _JOB}, "timeZone": "Etc/UTC"},
    "poddisruptionbudgets": {"minAvailable": 1, "selector": _SELECTOR},
    "persistentvolumeclaims": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
_READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "A", "message": ""}
_BEGUN = "2026-01-02T03:04:05Z"
STATUSES: dict[str, Object] = {
    "deployments": {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1},
    "replicasets": {"replicas": 2, "readyReplicas": 1, "conditions": [_READY]},
    "statefulsets": {"replicas": 2, "readyReplicas": 1, "currentRevision": "a-1", "updateRevision": "a-2"},
    "daemonsets": {
        "currentNumberScheduled": 1,
        "desiredNumberScheduled": 2,
        "numberMisscheduled": 0,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
    },
    "jobs": {"active": 1, "succeeded": 1, "startTime": _BEGUN, "ready": 0, "terminating": 0},
    "cronjobs": {"lastScheduleTime": _BEGUN, "active": [{"kind": "Job", "name": "a-1", "namespace": "x"}]},
    "poddisruptionbudgets": {
        "disruptionsAllowed": 1,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
        "observedGeneration": 1,
    },
    "persistentvolumeclaims": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
}


def obj(plural: str, name: str = "a", *, metadata: Object | None = None, **spec: Any) -> Object:
    """An object of a kind, with a spec that is a little other."""
    return named(name, metadata={"labels": _LABELS, **(metadata or {})}, spec={**SPECS[plural], **spec})


def there(plural: str, *steps: Step, stored: bool = True) -> Exchange:
    """An exchange about an object that is there."""
    return exchange(made(PATHS[plural], obj(plural)), *steps, stored=stored)


def _of_each_kind(plural: str) -> dict[str, Exchange]:
    """What is the same for all kinds with a spec and a status."""
    path, one = PATHS[plural], f"{PATHS[plural]}/a"
    status = {"status": STATUSES[plural]}
    return {
        "created": exchange(post(path, obj(plural)), get(path)),
        "created for nobody": exchange(post(f"{path}?dryRun=All", obj(plural)), get(path), stored=False),
        "created with unknown fields": exchange(
            post(f"{path}?fieldValidation=Strict", obj(plural, odd=1, metadata={"x": 1}))
        ),
        "nothing": exchange(post(path, named("a"))),
        "shown": there(
            plural,
            get(f"{one}?includeObject=None", TABLE),
            patch(f"{one}/status", status),
            get(f"{path}?includeObject=None", TABLE),
        ),
        "its status replaced": there(
            plural, put(f"{one}/status", edited(0, status=STATUSES[plural], metadata__labels={"b": "c"})), get(one)
        ),
        "its status not written with the rest": there(plural, put(one, edited(0, status=STATUSES[plural]))),
        "its status of a wrong type": there(plural, patch(f"{one}/status", {"status": 5})),
        "labelled": there(plural, patch(one, {"metadata": {"labels": {"b": "c"}}}), get(f"{path}?labelSelector=b%3Dc")),
        "by a field": there(
            plural,
            get(f"{path}?fieldSelector=metadata.name%3Da"),
            # Of a field that no Job is selected by, the real server says so in words of its own.
            *([] if plural == "jobs" else [get(f"{path}?fieldSelector=status.phase%3DBound")]),
            get(f"{path}?fieldSelector=status.successful%3D0"),
        ),
        "applied": exchange(
            patch(f"{one}?fieldManager=one", _applied(plural), APPLY),
            patch(f"{one}?fieldManager=two", _applied(plural, metadata={"labels": {"app": "b"}}), APPLY),
            patch(f"{one}?fieldManager=two&force=true", _applied(plural, metadata={"labels": {"app": "b"}}), APPLY),
        ),
        "watched": exchange(
            watch(f"{path}?watch=true", 4),
            made(path, obj(plural)),
            patch(f"{one}/status", status, compared=False),
            patch(one, {"metadata": {"annotations": {"b": "c"}, "finalizers": None}}, compared=False),
            delete(f"{one}?propagationPolicy=Background", compared=False),
        ),
        "deleted with its own wish": there(plural, delete(one, {"propagationPolicy": "Orphan"}), stored=False),
        "all of them deleted": there(plural, delete(f"{path}?labelSelector=app%3Da"), stored=False),
    }


def _applied(plural: str, **about: Any) -> Object:
    group = PATHS[plural].split("/namespaces/")[0].removeprefix("/apis/").removeprefix("/api/")
    return {"apiVersion": group, "kind": _NAMES[plural], **obj(plural, **about)}


_NAMES = {
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
    "daemonsets": "DaemonSet",
    "jobs": "Job",
    "cronjobs": "CronJob",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}


# --- what has replicas ------------------------------------------------------------------------------------------------


def scale(replicas: Any, **about: Any) -> Object:
    """A Scale."""
    metadata = {"name": "a", "namespace": "{ns}", **about}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}


def _scales(plural: str) -> dict[str, Exchange]:
    one = f"{PATHS[plural]}/a"
    at = f"{one}/scale"
    return {
        "its scale": there(plural, get(at), patch(f"{one}/status", {"status": STATUSES[plural]}), get(at)),
        "scaled": there(plural, put(at, scale(5)), get(one)),
        "scaled by a patch": there(plural, patch(at, {"spec": {"replicas": 0}}), get(one)),
        "scaled below nothing": there(plural, put(at, scale(-1))),
        "scaled with a wrong name": there(plural, put(at, scale(1, name="b"))),
        "scaled with an old version": there(plural, put(at, scale(1, resourceVersion="1"))),
        "scaled with the selector of others": there(plural, patch(at, {"status": {"selector": "x=y"}}), get(one)),
        "the scale of nothing": exchange(get(at), put(at, scale(1))),
    }


def _templates(plural: str, *, inner: str = "spec") -> dict[str, Exchange]:
    """How the template of Pods is patched."""
    one = f"{PATHS[plural]}/a"

    def change(value: Any) -> Object:
        found: Object = {"template": value}
        for name in reversed(inner.split(".")):
            found = {name: found}
        return found

    more = change({"spec": {"containers": [{"name": "d", "image": "other"}, {"name": "c", "tty": True}]}})
    pointer = "/" + "/".join([*inner.split("."), "template", "spec", "containers", "0", "image"])
    return {
        "a container added": there(plural, patch(one, more, STRATEGIC)),
        "an image changed": there(plural, patch(one, [{"op": "replace", "path": pointer, "value": "x"}], JSON_PATCH)),
        "containers replaced": there(plural, patch(one, change({"spec": {"containers": [{"name": "e"}]}}))),
        "other labels": there(plural, patch(one, change({"metadata": {"labels": {"app": "b"}}}))),
    }


# --- evictions --------------------------------------------------------------------------------------------------------

_BUDGETS = PATHS["poddisruptionbudgets"]
_EVICTION = f"{PODS}/a/eviction"


def eviction(name: str = "a", **fields: Any) -> Object:
    """An eviction."""
    about = {"name": name, "namespace": "{ns}"}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about, **fields}


def running(*steps: Step, ready: str = "True", phase: str = "Running") -> Exchange:
    """An exchange about a Pod that runs."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": _BEGUN}
    return exchange(
        made(PODS, pod("a", metadata={"labels": _LABELS}, terminationGracePeriodSeconds=0)),
        patch(f"{PODS}/a/status", {"status": {"phase": phase, "conditions": [condition]}}, compared=False),
        *steps,
        stored=False,
    )


def budget(name: str = "a", *, allowed: int, generation: int = 1, **spec: Any) -> list[Step]:
    """Steps that make a budget with a status as its controller would write it."""
    said = {"disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 2}
    return [
        made(_BUDGETS, obj("poddisruptionbudgets", name, **spec)),
        patch(f"{_BUDGETS}/{name}/status", {"status": {**said, "observedGeneration": generation}}, compared=False),
    ]


EVICTIONS: dict[str, Exchange] = {
    "of a Pod without a budget": running(post(_EVICTION, eviction()), get(f"{PODS}/a")),
    "for nobody": running(post(f"{_EVICTION}?dryRun=All", eviction()), get(f"{PODS}/a")),
    "of nothing": exchange(post(_EVICTION, eviction())),
    "of another Pod": running(post(_EVICTION, eviction("b"))),
    "without a name": running(post(_EVICTION, {})),
    "of another uid": running(post(_EVICTION, eviction(deleteOptions={"preconditions": {"uid": "x"}}))),
    "of another kind": running(post(_EVICTION, {**eviction(), "kind": "Other"})),
    "read": running(get(_EVICTION)),
    "that a budget allows": running(
        *budget(allowed=1), post(_EVICTION, eviction()), get(f"{_BUDGETS}/a?includeObject=None", TABLE)
    ),
    "that a budget allows, for nobody": running(
        *budget(allowed=1), post(f"{_EVICTION}?dryRun=All", eviction()), get(f"{_BUDGETS}/a")
    ),
    "that a budget refuses": running(*budget(allowed=0), post(_EVICTION, eviction()), get(f"{PODS}/a")),
    "that a budget was not asked about": running(*budget(allowed=1, generation=0), post(_EVICTION, eviction())),
    "that a budget of other Pods refuses": running(
        *budget(allowed=0, selector={"matchLabels": {"app": "b"}}), post(_EVICTION, eviction())
    ),
    "that a budget of all Pods refuses": running(*budget(allowed=0, selector={}), post(_EVICTION, eviction())),
    "of a Pod that waits": running(*budget(allowed=0), post(_EVICTION, eviction()), phase="Pending"),
    "of a Pod that has ended": running(*budget(allowed=0), post(_EVICTION, eviction()), phase="Succeeded"),
    "of a Pod that is not ready": running(*budget(allowed=0), post(_EVICTION, eviction()), ready="False"),
    "of a Pod that is not ready, which is always allowed": running(
        *budget(allowed=0, unhealthyPodEvictionPolicy="AlwaysAllow"), post(_EVICTION, eviction()), ready="False"
    ),
    "of a Pod that is not ready, where enough others are": running(
        *budget(allowed=0, unhealthyPodEvictionPolicy="IfHealthyBudget"), post(_EVICTION, eviction()), ready="False"
    ),
}

REVISIONS: dict[str, Exchange] = {
    "created and shown": exchange(
        post(PATHS["controllerrevisions"], named("a", revision=3, data={"b": {"a": 1, "z": 2}})),
        get(f"{PATHS['controllerrevisions']}/a", TABLE),
        put(f"{PATHS['controllerrevisions']}/a", edited(0, revision=4)),
        patch(f"{PATHS['controllerrevisions']}/a", {"data": {"b": 1}}),
    ),
    "its status": exchange(get(f"{PATHS['controllerrevisions']}/a/status")),
}

_JOBS = PATHS["jobs"]
JOBS: dict[str, Exchange] = {
    "deleted without a wish": there("jobs", delete(f"{_JOBS}/a"), stored=False),
    "of several shapes": exchange(
        made(_JOBS, obj("jobs", suspend=True)),
        made(_JOBS, obj("jobs", "b", completions=None)),
        patch(f"{_JOBS}/b/status", {"status": {"succeeded": 1, "startTime": _BEGUN}}, compared=False),
        get(_JOBS, TABLE),
    ),
    "at an end that it cannot have": there("jobs", patch(f"{_JOBS}/a/status", {"status": {"completionTime": _BEGUN}})),
    "with a status below nothing": there("jobs", patch(f"{_JOBS}/a/status", {"status": {"active": -1}})),
}

WORKLOADS: dict[str, Exchange] = {
    **{f"{_NAMES[plural]}: {title}": each for plural in SPECS for title, each in _of_each_kind(plural).items()},
    **{
        f"{_NAMES[plural]}: {title}": each
        for plural in ("deployments", "replicasets", "statefulsets")
        for title, each in (_scales(plural) | _templates(plural)).items()
    },
    **{f"DaemonSet: {title}": each for title, each in _templates("daemonsets").items()},
    "DaemonSet: its scale": there("daemonsets", get(f"{PATHS['daemonsets']}/a/scale")),
    **{f"Job: {title}": each for title, each in JOBS.items()},
    **{f"CronJob: {title}": each for title, each in _templates("cronjobs", inner="spec.jobTemplate.spec").items()},
    **{f"eviction: {title}": each for title, each in EVICTIONS.items()},
    **{f"ControllerRevision: {title}": each for title, each in REVISIONS.items()},
}
