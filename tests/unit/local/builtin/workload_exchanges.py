"""Exchanges about workloads: what is filled in, what is refused, what may change later."""

from __future__ import annotations

from typing import Any

from tests.unit.local.builtin.exchanges import Body, Exchange, put

LABELS = {"app": "a"}


def template(*, labels: Any = None, annotations: Any = None, **spec: Any) -> Body:
    """A template of Pods with one container."""
    about = {"labels": LABELS if labels is None else labels, "annotations": annotations}
    return {
        "metadata": {name: value for name, value in about.items() if value},
        "spec": {"containers": [{"name": "a", "image": "x"}], **spec},
    }


def body(*, selector: Any = None, pods: Body | None = None, **spec: Any) -> Body:
    """A workload with the selector of its template."""
    return {"spec": {"selector": selector or {"matchLabels": LABELS}, "template": pods or template(), **spec}}


def terms(*found: Any) -> Body:
    """A selector of expressions."""
    return {"matchExpressions": [dict(zip(("key", "operator", "values"), each, strict=False)) for each in found]}


def rolling(**update: Any) -> Body:
    """A strategy of an update."""
    return {"type": "RollingUpdate", "rollingUpdate": update}


_BAD_TERMS = (("app", "In"), ("app", "Exists", ["a"]), ("a b", "Gt", ["1"]), ("x", "NotIn", ["y z"]))
_COUNTS = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}


def _common(kind: str) -> dict[str, Exchange]:
    """What all three kinds with replicas have in common."""
    return {
        "a plain one": Exchange(kind, body()),
        "nothing": Exchange(kind, {}),
        "no selector": Exchange(kind, {"spec": {"template": template()}}),
        "an empty selector": Exchange(kind, {"spec": {"selector": {}, "template": template()}}),
        "another selector": Exchange(kind, body(selector={"matchLabels": {"app": "b"}})),
        "a bad selector": Exchange(kind, body(selector={"matchLabels": {"a b": "c d"}})),
        "good terms": Exchange(kind, body(selector=terms(("app", "In", ["a", "b"]), ("x", "DoesNotExist")))),
        "bad terms": Exchange(
            kind,
            body(
                selector=terms(("app", "In"), ("app", "Exists", ["a"]), ("a b", "Gt", ["1"]), ("x", "NotIn", ["y z"]))
            ),
        ),
        "no labels": Exchange(kind, body(pods=template(labels={}))),
        "bad labels and annotations": Exchange(
            kind,
            body(pods={**template(), "metadata": {"labels": {**LABELS, "a b": "c d"}, "annotations": {"x y": ""}}}),
        ),
        "no containers": Exchange(kind, body(pods={"metadata": {"labels": LABELS}})),
        "another restart policy": Exchange(kind, body(pods=template(restartPolicy="Never"))),
        "no such restart policy": Exchange(kind, body(pods=template(restartPolicy="Sometimes"))),
        "a deadline of pods": Exchange(kind, body(pods=template(activeDeadlineSeconds=5))),
        "negative numbers": Exchange(kind, body(replicas=-1, minReadySeconds=-2, revisionHistoryLimit=-3)),
        "a status": Exchange(kind, {**body(), "status": {"replicas": 3}}),
        "another image": Exchange(kind, body(), put("spec.template.spec.containers.0.image", "y")),
        "a changed selector": Exchange(kind, body(), put("spec.selector", {"matchLabels": {"app": "a", "b": "c"}})),
        "a written status": Exchange(kind, body(), put("status", _COUNTS), subresource="status"),
        "too large a status": Exchange(
            kind, body(), put("status", {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}), "status"
        ),
        "a negative status": Exchange(
            kind, body(), put("status", {"replicas": -1, "readyReplicas": -2, "observedGeneration": -3}), "status"
        ),
        "a spec by a status": Exchange(kind, body(), put("spec.replicas", 7), subresource="status"),
    }


DEPLOYMENTS: dict[str, Exchange] = {
    **_common("deployment"),
    "recreated": Exchange("deployment", body(strategy={"type": "Recreate"})),
    "recreated while rolling": Exchange("deployment", body(strategy={"type": "Recreate", "rollingUpdate": {}})),
    "no such strategy": Exchange("deployment", body(strategy={"type": "Other"})),
    "a strategy without a type": Exchange("deployment", body(strategy={"rollingUpdate": {"maxSurge": 2}})),
    "shares": Exchange("deployment", body(strategy=rolling(maxSurge="150%", maxUnavailable="0%"))),
    "too large a share": Exchange("deployment", body(strategy=rolling(maxSurge=0, maxUnavailable="101%"))),
    "no way forward": Exchange("deployment", body(strategy=rolling(maxSurge=0, maxUnavailable="0%"))),
    "bad shares": Exchange("deployment", body(strategy=rolling(maxSurge="many", maxUnavailable=-1))),
    "too short a deadline": Exchange("deployment", body(progressDeadlineSeconds=5, minReadySeconds=5)),
    "labels by a status": Exchange("deployment", body(), put("metadata.labels", {"x": "y"}), subresource="status"),
    "annotations by a status": Exchange("deployment", body(), put("metadata.annotations", {"x": "y"}), "status"),
    "a paused one": Exchange("deployment", body(), put("spec.paused", True)),
}
REPLICA_SETS: dict[str, Exchange] = _common("replicaset")
CLAIM: Body = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
_MOUNTING: Body = {"name": "a", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
STATEFUL_SETS: dict[str, Exchange] = {
    **_common("statefulset"),
    "a service": Exchange("statefulset", body(serviceName="web", podManagementPolicy="Parallel")),
    "no service name": Exchange("statefulset", body(serviceName="Web.example")),
    "no such policy": Exchange("statefulset", body(podManagementPolicy="Other")),
    "updated when deleted": Exchange("statefulset", body(updateStrategy={"type": "OnDelete"})),
    "updated when deleted and rolling": Exchange(
        "statefulset", body(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}})
    ),
    "no such update": Exchange("statefulset", body(updateStrategy={"type": "Other"})),
    "a type of update alone": Exchange("statefulset", body(updateStrategy={"type": "RollingUpdate"})),
    "a partition": Exchange("statefulset", body(updateStrategy=rolling(partition=2, maxUnavailable="10%"))),
    "a bad partition": Exchange("statefulset", body(updateStrategy=rolling(partition=-2, maxUnavailable=0))),
    "retention": Exchange(
        "statefulset", body(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "No"})
    ),
    "claims": Exchange(
        "statefulset",
        body(
            volumeClaimTemplates=[CLAIM],
            pods=template(
                containers=[{"name": "a", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]
            ),
        ),
    ),
    "bad claims": Exchange("statefulset", body(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}])),
    "ordinals": Exchange("statefulset", body(ordinals={"start": 3})),
    "negative ordinals": Exchange("statefulset", body(ordinals={"start": -3})),
    "another service": Exchange("statefulset", body(serviceName="a"), put("spec.serviceName", "b")),
    "more replicas": Exchange("statefulset", body(), put("spec.replicas", 3)),
    "a host name": Exchange("statefulset", body(pods=template(hostname="Bad.Name"))),
}
DAEMON_SETS: dict[str, Exchange] = {
    **{title: found for title, found in _common("daemonset").items() if "status" not in title},
    "updated when deleted": Exchange("daemonset", body(updateStrategy={"type": "OnDelete"})),
    "no such update": Exchange("daemonset", body(updateStrategy={"type": "Other"})),
    "surge": Exchange("daemonset", body(updateStrategy=rolling(maxSurge=1, maxUnavailable=0))),
    "surge and more": Exchange("daemonset", body(updateStrategy=rolling(maxSurge=1, maxUnavailable=1))),
    "no way forward": Exchange("daemonset", body(updateStrategy=rolling(maxSurge=0, maxUnavailable=0))),
    "bad shares": Exchange("daemonset", body(updateStrategy=rolling(maxSurge="101%", maxUnavailable="x"))),
    "a written status": Exchange(
        "daemonset", body(), put("status", {"numberReady": 1, "desiredNumberScheduled": 2}), subresource="status"
    ),
    "a negative status": Exchange("daemonset", body(), put("status.numberReady", -1), subresource="status"),
}
REVISIONS: dict[str, Exchange] = {
    "a plain one": Exchange("controllerrevision", {"revision": 1, "data": {"spec": {"x": [1, "y"]}}}),
    "no data": Exchange("controllerrevision", {"revision": 1}),
    "a list of data": Exchange("controllerrevision", {"revision": 1, "data": [1]}),
    "a negative number": Exchange("controllerrevision", {"revision": -1, "data": {}}),
    "another number": Exchange("controllerrevision", {"revision": 1, "data": {"a": 1}}, put("revision", 2)),
    "other data": Exchange("controllerrevision", {"revision": 1, "data": {"a": 1}}, put("data", {"a": 2})),
}


def job(*, pods: Body | None = None, **spec: Any) -> Body:
    """A Job."""
    return {"spec": {"template": pods or template(restartPolicy="Never"), **spec}}


def failing(*rules: Body) -> Body:
    """What is done about Pods that fail."""
    return {"podFailurePolicy": {"rules": list(rules)}}


_INDEXED: Body = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
_MANUAL: Body = {"manualSelector": True, "selector": {"matchLabels": LABELS}}
_ENDS = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
JOBS: dict[str, Exchange] = {
    "a plain one": Exchange("job", job()),
    "nothing": Exchange("job", {}),
    "a policy of its own": Exchange("job", job(pods=template(restartPolicy="OnFailure"), parallelism=3)),
    "always restarted": Exchange("job", job(pods=template())),
    "no such restart policy": Exchange("job", job(pods=template(restartPolicy="Sometimes"))),
    "labels of its own": Exchange("job", {"metadata": {"labels": {"x": "y"}}, **job()}),
    "negative numbers": Exchange(
        "job",
        job(
            completions=-1,
            parallelism=-1,
            backoffLimit=-1,
            activeDeadlineSeconds=-1,
            ttlSecondsAfterFinished=-1,
        ),
    ),
    "an indexed one": Exchange("job", job(**_INDEXED)),
    "an indexed one without completions": Exchange("job", job(completionMode="Indexed", parallelism=2)),
    "no such mode": Exchange("job", job(completionMode="Other")),
    "limits of an index": Exchange("job", job(**_INDEXED, backoffLimitPerIndex=1, maxFailedIndexes=2)),
    "too many failed indexes": Exchange("job", job(**_INDEXED, backoffLimitPerIndex=1, maxFailedIndexes=5)),
    "limits without an index": Exchange("job", job(backoffLimitPerIndex=1, maxFailedIndexes=2)),
    "failed indexes alone": Exchange("job", job(**_INDEXED, maxFailedIndexes=2)),
    "too many at once": Exchange("job", job(completionMode="Indexed", completions=5, parallelism=100_001)),
    "a selector": Exchange("job", job(selector={"matchLabels": {"x": "y"}})),
    "a selector by hand": Exchange("job", job(**_MANUAL)),
    "a bad selector by hand": Exchange("job", job(manualSelector=True, selector={"matchLabels": {"app": "b"}})),
    "no selector by hand": Exchange("job", job(manualSelector=True)),
    "a label that is taken": Exchange("job", job(pods=template(labels={"job-name": "x"}, restartPolicy="Never"))),
    "a manager": Exchange("job", job(managedBy="example.com/me")),
    "a bad manager": Exchange("job", job(managedBy="me")),
    "rules for failures": Exchange(
        "job",
        job(
            **failing(
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            )
        ),
    ),
    "bad rules for failures": Exchange(
        "job",
        job(
            **failing(
                {"action": "Other", "onExitCodes": {"operator": "Is", "values": [2, 1, 1], "containerName": "z"}},
                {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [0]}},
                {"action": "Count"},
                {
                    "action": "Count",
                    "onExitCodes": {"operator": "In", "values": []},
                    "onPodConditions": [{"type": "a b", "status": "x"}],
                },
            )
        ),
    ),
    "rules for failures of restarted pods": Exchange(
        "job",
        job(
            pods=template(restartPolicy="OnFailure"),
            **failing({"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}),
        ),
    ),
    "replacement": Exchange("job", job(podReplacementPolicy="Failed")),
    "a bad replacement": Exchange("job", job(podReplacementPolicy="Other")),
    "success early": Exchange(
        "job", job(**_INDEXED, successPolicy={"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}]})
    ),
    "bad success early": Exchange(
        "job",
        job(
            **_INDEXED,
            successPolicy={
                "rules": [{}, {"succeededIndexes": "2,1"}, {"succeededIndexes": "0-1", "succeededCount": 3}]
            },
        ),
    ),
    "success early without an index": Exchange("job", job(successPolicy={"rules": [{"succeededCount": 1}]})),
    "more at once": Exchange("job", job(), put("spec.parallelism", 2)),
    "more completions": Exchange("job", job(), put("spec.completions", 2)),
    "more completions of an indexed one": Exchange("job", job(**_INDEXED), put("spec.completions", 5)),
    "another mode": Exchange("job", job(), put("spec.completionMode", "Indexed")),
    "another image": Exchange("job", job(), put("spec.template.spec.containers.0.image", "y")),
    "another image of a suspended one": Exchange(
        "job", job(suspend=True), put("spec.template.spec.containers.0.image", "y")
    ),
    "other nodes of a suspended one": Exchange(
        "job", job(suspend=True), put("spec.template.spec.nodeSelector", {"a": "b"})
    ),
    "other nodes": Exchange("job", job(), put("spec.template.spec.nodeSelector", {"a": "b"})),
    "a deadline": Exchange("job", job(), put("spec.activeDeadlineSeconds", 5)),
    "an end without a target": Exchange(
        "job",
        job(suspend=True),
        put("status", {"conditions": [{"type": "Failed", "status": "True"}], "startTime": "2026-01-02T03:04:05Z"}),
        subresource="status",
    ),
    "both ends": Exchange(
        "job",
        job(suspend=True),
        put(
            "status.conditions",
            [
                {"type": name, "status": "True"}
                for name in ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
            ],
        ),
        subresource="status",
    ),
    "a negative status": Exchange("job", job(suspend=True), put("status", {"active": -1, "failed": -2}), "status"),
}


def cron_job(schedule: str = "*/5 * * * *", **spec: Any) -> Body:
    """A CronJob."""
    return {"spec": {"schedule": schedule, "jobTemplate": {"spec": job()["spec"]}, **spec}}


CRON_JOBS: dict[str, Exchange] = {
    "a plain one": Exchange("cronjob", cron_job()),
    "nothing": Exchange("cronjob", {}),
    "no schedule": Exchange("cronjob", cron_job("")),
    **{
        f"the schedule {text}": Exchange("cronjob", cron_job(text))
        for text in (
            "@hourly",
            "@every 1h30m",
            "@never",
            "0 0 1 jan sun",
            "1-5/2 * ? * *",
            "* * * *",
            "61 * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "1-2-3 * * * *",
            "TZ=UTC * * * * *",
            "0 0 0 * *",
        )
    },
    "a time zone": Exchange("cronjob", cron_job(timeZone="Europe/Berlin")),
    "no time zone": Exchange("cronjob", cron_job(timeZone="")),
    "no such time zone": Exchange("cronjob", cron_job(timeZone="Nowhere/There")),
    "a local time zone": Exchange("cronjob", cron_job(timeZone="Local")),
    "no such policy": Exchange("cronjob", cron_job(concurrencyPolicy="Other")),
    "negative numbers": Exchange(
        "cronjob",
        cron_job(startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1),
    ),
    "a selector": Exchange(
        "cronjob", cron_job(jobTemplate={"spec": {**job()["spec"], "selector": {}, "manualSelector": True}})
    ),
    "another schedule": Exchange("cronjob", cron_job(suspend=True), put("spec.schedule", "1 * * * *")),
}
BUDGETS: dict[str, Exchange] = {
    "a plain one": Exchange("budget", {"spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}}),
    "nothing": Exchange("budget", {}),
    "a share": Exchange("budget", {"spec": {"maxUnavailable": "0%"}}),
    "none": Exchange("budget", {"spec": {"maxUnavailable": 0}}),
    "both": Exchange("budget", {"spec": {"maxUnavailable": 1, "minAvailable": 1}}),
    "bad numbers": Exchange("budget", {"spec": {"maxUnavailable": -1}}),
    "too large a share": Exchange("budget", {"spec": {"minAvailable": "101%"}}),
    "a bad selector": Exchange("budget", {"spec": {"selector": terms(*_BAD_TERMS)}}),
    "a policy": Exchange("budget", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
    "no such policy": Exchange("budget", {"spec": {"unhealthyPodEvictionPolicy": "Other"}}),
}


def claim(**spec: Any) -> Body:
    """A claim."""
    return {"spec": {**CLAIM["spec"], "storageClassName": "", **spec}}


CLAIMS: dict[str, Exchange] = {
    "a plain one": Exchange("claim", claim()),
    "nothing": Exchange("claim", {}),
    "no such mode": Exchange("claim", claim(accessModes=["Other"])),
    "modes that exclude each other": Exchange("claim", claim(accessModes=["ReadWriteOncePod", "ReadWriteOnce"])),
    "no size": Exchange("claim", claim(resources={})),
    "a bad size": Exchange("claim", claim(resources={"requests": {"storage": "0"}})),
    "a bad class": Exchange("claim", claim(storageClassName="A b")),
    "no such volume": Exchange("claim", claim(volumeMode="Other")),
    "another mode": Exchange("claim", claim(), put("spec.accessModes", ["ReadOnlyMany"])),
    "a larger size": Exchange("claim", claim(), put("spec.resources.requests.storage", "2Gi")),
    "a volume": Exchange("claim", claim(), put("spec.volumeName", "x")),
    "a written status": Exchange("claim", claim(), put("status", {"phase": "Bound"}), subresource="status"),
}
