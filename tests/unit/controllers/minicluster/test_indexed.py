"""An indexed mini-cluster: what is decided at each point of its life, and what its scripts and manifests say."""

from __future__ import annotations

import subprocess
from typing import Any, TypeVar

import msgspec
import pytest

from edgewright.api.flux import FluxPhase
from edgewright.api.job import Job
from edgewright.api.minicluster import MiniCluster, MiniClusterSpec
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.minicluster import indexed_manifests as manifests
from edgewright.controllers.minicluster.conversion import cluster_of
from edgewright.controllers.minicluster.entrypoints import scripts
from edgewright.controllers.minicluster.indexed_decisions import decide
from edgewright.controllers.minicluster.model import IndexedCluster, Problem
from edgewright.controllers.minicluster.objects import ConfigMap
from edgewright.controllers.minicluster.plan import Change, Create, Delete, Join, NeedCertificate, Plan, Snapshot
from edgewright.runtime.objects import ObjectMeta, Resource, owner_reference

R = TypeVar("R", bound=Resource)
INDEX = "batch.kubernetes.io/job-completion-index"


def asked(**spec: Any) -> MiniCluster:
    given = {"size": 2, "containers": [{"image": "x", "command": "true"}], **spec}
    metadata = ObjectMeta(name="one", namespace="n", uid="own", generation=1)
    return MiniCluster(metadata=metadata, spec=msgspec.convert(given, MiniClusterSpec))


def cluster(first_size: int | None = None, **spec: Any) -> IndexedCluster:
    found = cluster_of(asked(**spec), first_size=first_size)
    assert isinstance(found, IndexedCluster), found
    return found


ONE = cluster()
OWNER = owner_reference(asked())


def made(of: IndexedCluster = ONE, **more: Any) -> Snapshot:
    """All that brokers need, as it was made for what is asked."""
    job = manifests.job(of, OWNER)
    job["metadata"]["uid"] = "job"
    known: dict[str, Any] = {
        "config": msgspec.convert(manifests.config_map(of, OWNER), ConfigMap),
        "service": msgspec.convert(manifests.headless_service(of, OWNER), Service),
        "job": msgspec.convert(job, Job),
    }
    return Snapshot(**{**known, **more})


def known(obj: R | None) -> R:
    assert obj is not None
    return obj


def ended(kind: str, reason: str = "", *, code: str = "", of: IndexedCluster = ONE) -> Job:
    body = manifests.job(of, OWNER)
    body["metadata"]["uid"] = "job"
    if code:
        body["metadata"]["annotations"]["flux-framework.org/exit-code"] = code
    condition = {"type": kind, "status": "True", "reason": reason, "message": "it says why"}
    return msgspec.convert({**body, "status": {"conditions": [condition]}}, Job)


def pod(number: int, phase: str = "Running", *, code: int | None = None, waits: str = "", ready: bool = True) -> Pod:
    labels = {"flux-framework.org/cluster": "one", "flux-framework.org/role": "broker", INDEX: str(number)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "one", "uid": "job"}
    state: dict[str, Any] = {"running": {}}
    if code is not None:
        state = {"terminated": {"exitCode": code}}
    if waits:
        state = {"waiting": {"reason": waits}}
    status = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [{"name": "one", "state": state}],
    }
    metadata = {"name": f"one-{number}", "namespace": "n", "labels": labels, "ownerReferences": [owner]}
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


def services_pod(of: IndexedCluster, phase: str = "Running") -> Pod:
    return msgspec.convert({**manifests.services_pod(of, OWNER), "status": {"phase": phase}}, Pod)


def names(plan: Plan) -> list[str]:
    words = {Create: "create", Change: "change", Join: "join", Delete: "delete", NeedCertificate: "certificate"}
    return [
        f"{words[type(each)]} {each.kind.kind}" if isinstance(each, Create) else words[type(each)]
        for each in plan.actions
    ]


def test_all_is_made_in_one_pass_and_the_job_last() -> None:
    plan = decide(cluster(services=[{"name": "web"}]), Snapshot(), OWNER)
    assert names(plan) == ["certificate", "create ConfigMap", "create Service", "create Pod", "create Job"]
    assert plan.actions[0] == NeedCertificate(fresh=True)
    assert (plan.outcome.reason, plan.phase) == ("Starting", FluxPhase.PENDING)


def test_a_settled_one_needs_nothing() -> None:
    plan = decide(ONE, made(pods=(pod(0), pod(1))), OWNER)
    assert plan.actions == (NeedCertificate(),)  # which is remembered
    assert (plan.outcome.reason, plan.phase, plan.ready, plan.workers_ready) == ("Running", FluxPhase.RUNNING, 2, True)


@pytest.mark.parametrize(
    ("seen", "reason", "phase"),
    [
        (made(pods=()), "Starting", "Pending"),
        (made(pods=(pod(0, "Pending", waits="ErrImagePull"),)), "PodsNotReady", "Pending"),
        (made(pods=(pod(0), pod(1, "Pending", waits="ErrImagePull"))), "PodsNotReady", "Running"),
        (made(left=("Job one",)), "WaitingForDeletion", "Pending"),
        (made(job=ended("Complete")), "Succeeded", "Succeeded"),
        (made(job=ended("Failed", "DeadlineExceeded")), "DeadlineExceeded", "Failed"),
        (made(job=ended("Failed", "PodFailurePolicy"), pods=(pod(0),)), "Running", "Running"),
        (made(job=ended("Failed", "PodFailurePolicy"), pods=(pod(0, "Failed", code=7),)), "CommandFailed", "Failed"),
        (made(job=ended("Failed", "PodFailurePolicy", code="7")), "CommandFailed", "Failed"),
        (made(job=ended("Failed", "PodFailurePolicy"), pods=(pod(0, "Failed", code=143),)), "JobFailed", "Failed"),
        (made(job=ended("Failed", "BackoffLimitExceeded")), "JobFailed", "Failed"),
    ],
)
def test_what_is_said_at_each_point(seen: Snapshot, reason: str, phase: str) -> None:
    plan = decide(ONE, seen, OWNER)
    assert (plan.outcome.reason, plan.phase) == (reason, phase)


def test_the_exit_code_is_noted_once() -> None:
    failed = made(job=ended("Failed", "PodFailurePolicy"), pods=(pod(0, "Failed", code=7),))
    plan = decide(ONE, failed, OWNER)
    assert (names(plan), plan.exit_code) == (["change"], 7)
    assert decide(ONE, made(job=ended("Failed", "PodFailurePolicy", code="7")), OWNER).actions == ()


def test_one_that_serves_is_ready_with_its_quorum() -> None:
    serving = cluster(containers=[{"image": "x"}])
    assert decide(serving, made(serving, pods=(pod(0), pod(1))), OWNER).outcome.reason == "Serving"
    assert decide(serving, made(serving, pods=(pod(0), pod(1, ready=False))), OWNER).outcome.reason == "Starting"


def test_size_and_deadline_change_the_job_and_another_command_ends_it() -> None:
    larger = cluster(first_size=2, size=3, maxSize=4)
    assert names(decide(larger, made(cluster(maxSize=4)), OWNER)) == ["certificate", "change"]
    assert names(decide(cluster(deadlineSeconds=60), made(), OWNER)) == ["certificate", "change"]
    other = cluster(containers=[{"image": "x", "command": "false"}])
    plan = decide(other, made(), OWNER)
    assert (names(plan), plan.outcome.reason) == (["delete"], "Restarting")
    beyond = cluster(first_size=2, size=5)
    assert (beyond.pods, beyond.max_size) == (2, 2)
    assert "it cannot grow beyond 2" in decide(beyond, made(pods=(pod(0), pod(1))), OWNER).outcome.message


def test_the_services_pod_follows_the_spec_and_goes_with_the_end() -> None:
    web = cluster(services=[{"name": "web", "command": "true"}])
    assert names(decide(web, made(web, services_pod=services_pod(web)), OWNER)) == ["certificate"]
    assert "delete" in names(decide(web, made(web, services_pod=services_pod(web, "Failed")), OWNER))
    assert "delete" in names(decide(ONE, made(services_pod=services_pod(web)), OWNER))
    assert names(decide(web, made(web, job=ended("Complete", of=web), services_pod=services_pod(web)), OWNER)) == [
        "delete"
    ]


def test_a_service_of_others_is_joined_and_another_one_is_asked_for_by_its_name() -> None:
    theirs = msgspec.structs.replace(known(made().service), metadata=ObjectMeta(name="flux-service", namespace="n"))
    assert names(decide(ONE, made(service=theirs), OWNER)) == ["certificate", "join"]
    lead_only = cluster(flux={"minimalService": True})
    assert "create Service" in names(decide(lead_only, made(lead_only, service=made().service), OWNER))


def test_what_changed_in_the_scripts_is_written_and_what_is_not_needed_goes() -> None:
    old = msgspec.structs.replace(known(made().config), data={"old.sh": "true"})
    (_, change) = decide(ONE, made(config=old), OWNER).actions
    assert isinstance(change, Change)
    assert change.patch["data"]["old.sh"] is None


EVERYTHING: dict[str, Any] = {
    "size": 3,
    "tasks": 3,
    "containers": [
        {
            "name": "main",
            "image": "x",
            "runFlux": True,
            "batch": True,
            "command": "echo one\necho 'two'",
            "commands": {
                "init": "a=1",
                "pre": "b=2",
                "post": "c=3",
                "workerPre": "d=4",
                "brokerPre": "e=5",
                "prefix": "env",
            },
            "logs": "/var/logs",
            "ports": [80],
            "environment": {"A": "b"},
            "secrets": {"TOKEN": {"name": "s", "key": "k"}},
            "volumes": {
                "claim": {"claimName": "c", "path": "/c"},
                "config": {"configMapName": "c", "path": "/m", "items": {"a": "b"}},
                "secret": {"secretName": "s", "path": "/s", "readOnly": True},
                "host": {"hostPath": "/h", "path": "/h"},
                "empty": {"emptyDir": True, "emptyDirMedium": "Memory", "emptyDirSizeLimit": "1Gi", "path": "/e"},
            },
            "lifeCycle": {"preStopExec": "true"},
            "securityContext": {"privileged": True, "addCapabilities": ["SYS_PTRACE"]},
            "resources": {"limits": {"cpu": 1}},
            "imagePullSecret": "pull",
            "workingDir": "/w",
            "pullAlways": True,
        },
        {"name": "sidecar", "image": "y", "command": "sleep 1"},
        {"name": "plain", "image": "y", "command": "sleep 1", "noWrapEntrypoint": True},
    ],
    "services": [{"name": "web", "image": "z", "command": "sleep 1", "commands": {"servicePre": "true"}}],
    "logging": {"strict": True, "debug": True, "zeromq": True, "timed": True},
    "pod": {
        "labels": {"mine": "yes"},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
        "tolerations": [{"key": "edge", "operator": "Exists"}],
        "serviceAccountName": "runner",
        "resources": {"cpu": 1},
        "restartPolicy": "OnFailure",
        "securityContext": {"runAsUser": 1000},
    },
    "flux": {
        "wrap": "strace,-f",
        "topology": "kary:2",
        "mungeSecret": "munge",
        "optionFlags": "-ompi=none",
        "environment": {"F": "g"},
        "container": {"pythonPath": "/py", "resources": {"requests": {"cpu": "1"}}, "workingDir": "/v"},
        "completeWorkers": True,
        "scheduler": {"queuePolicy": "easy"},
    },
    "jobLabels": {"team": "a"},
    "shareProcessNamespace": True,
}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        EVERYTHING,
        {"interactive": True, "flux": {"container": {"disable": True}, "disableSocket": True}},
        {"containers": [{"image": "x", "launcher": True, "commands": {"script": "echo a\necho b"}}]},
        {"containers": [{"image": "x", "batch": True, "batchRaw": True, "command": "flux submit true"}]},
        {"flux": {"brokerConfig": "[bootstrap]\n", "noWaitSocket": True, "scheduler": {"simple": True}}},
    ],
    ids=["plain", "everything", "interactive", "script", "raw", "own-config"],
)
def test_every_script_is_shell_and_no_script_prints_the_certificate(spec: dict[str, Any]) -> None:
    for name, text in scripts(cluster(**spec)).items():
        if not name.endswith(".sh"):
            continue
        done = subprocess.run(["/bin/sh", "-n"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}\n{text}"
        assert "set -x" not in text
        shown = [line for line in text.splitlines() if "curve.cert" in line and ">" not in line and "umask" not in line]
        assert shown == []


def test_everything_that_can_be_said_is_in_the_job() -> None:
    whole = cluster(**EVERYTHING)
    job = manifests.job(whole, OWNER)
    pod = job["spec"]["template"]["spec"]
    main, sidecar, plain = pod["containers"]
    assert (main["name"], sidecar["name"], plain["command"]) == ("main", "sidecar", ["/bin/sh", "-c", "sleep 1"])
    assert [each["name"] for each in main["env"]] == ["POD_IP", "F", "A", "TOKEN"]
    assert main["securityContext"] == {"privileged": True, "capabilities": {"add": ["SYS_PTRACE"]}}
    assert {each["name"] for each in pod["volumes"]} >= {"claim", "config", "secret", "host", "empty"}
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["securityContext"]["runAsUser"] == 1000
    assert "podFailurePolicy" not in job["spec"]  # people ask for retries
    assert "podFailurePolicy" in manifests.job(ONE, OWNER)["spec"]
    assert job["metadata"]["labels"]["team"] == "a"
    services = manifests.services_pod(whole, OWNER)["spec"]
    assert (services["hostname"], services["containers"][0]["name"]) == ("one-services", "web")
    assert scripts(whole)["batch-0.sh"].splitlines()[1:] == [
        "flux submit --flags=waitable --output=/var/logs/job-0.out echo one",
        "flux submit --flags=waitable --output=/var/logs/job-1.out echo 'two'",
        "flux job wait --all",
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"flux": {"brokerConfig": "= no"}}, "spec.flux.brokerConfig"),
        ({"flux": {"brokerConfig": "a = 1"}}, "spec.flux.brokerConfig"),
        ({"flux": {"curveCert": "no certificate"}}, "spec.flux.curveCert"),
    ],
)
def test_what_cannot_be_acted_on_is_a_problem_with_the_field(spec: dict[str, Any], field: str) -> None:
    found = cluster_of(asked(**spec))
    assert isinstance(found, Problem)
    assert (found.field, found.reason) == (field, "InvalidSpec")


def test_a_quorum_is_not_slow_because_names_come_late_and_brokers_back_off() -> None:
    assert manifests.headless_service(ONE, OWNER)["spec"]["publishNotReadyAddresses"]
    (text,) = (text for name, text in scripts(ONE).items() if name.startswith("wait-"))
    assert text.count("-Stbon.connect_timeout=5s") == 2, "of the lead and of workers"
    assert "sleep 2\ndone" in text, "a worker asks again soon, and not after ever longer times"
