"""What is to be done for an indexed mini-cluster now, and what is to be said of it: a pure function of asked and seen.

`loop` takes the snapshot and carries the actions out. Nothing here reads a status of our own: what must be remembered
(the first size, that the command has run, and how it ended) stands on the Job.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgewright.api.flux import FluxPhase
from edgewright.api.job import Job
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.minicluster import indexed_manifests as manifests
from edgewright.controllers.minicluster.entrypoints import STOPPED
from edgewright.controllers.minicluster.indexed_manifests import BROKER, INDEX, SERVICES
from edgewright.controllers.minicluster.model import IndexedCluster
from edgewright.controllers.minicluster.objects import DIGEST, EXIT_CODE, SHARED, ConfigMap
from edgewright.controllers.minicluster.plan import (
    MAX_NAMED,
    Action,
    Change,
    Create,
    Delete,
    Join,
    NeedCertificate,
    Plan,
    Snapshot,
    is_ready,
    problems,
    waiting_for_predecessor,
)
from edgewright.runtime.conditions import Outcome, done, progressing, retrying, stuck
from edgewright.runtime.objects import Condition, OwnerReference

_DEADLINE = "DeadlineExceeded"
_POLICY = "PodFailurePolicy"


def decide(cluster: IndexedCluster, seen: Snapshot, owner: OwnerReference) -> Plan:
    """The plan for a mini-cluster."""
    waiting = _in_the_way(cluster, seen)
    if waiting is not None:
        return waiting
    job = seen.job
    if job is not None and job.end is not None:
        return _after_the_end(cluster, seen, job, job.end)
    actions = tuple(_objects(cluster, seen, owner))
    pods = _brokers(seen, job)
    ready = sum(is_ready(pod) for pod in pods)
    outcome, phase = _progress(cluster, seen, pods, ready)
    whole = ready >= cluster.pods and job is not None
    return Plan(actions=actions, outcome=outcome, phase=phase, ready=ready, workers_ready=whole)


def is_another_run(job: Job, cluster: IndexedCluster) -> bool:
    """Whether a Job was made for another spec than that which is asked for now."""
    return job.metadata.annotations.get(DIGEST) != cluster.digest


def lead_pod(pods: tuple[Pod, ...]) -> Pod | None:
    """The newest Pod that is the first of its Job."""
    leads = [pod for pod in pods if _index(pod) == "0"]
    return max(leads, key=lambda pod: (not pod.deleting, str(pod.metadata.creation_timestamp)), default=None)


def _index(pod: Pod) -> str:
    return pod.metadata.labels.get(INDEX) or pod.metadata.annotations.get(INDEX, "")


def _in_the_way(cluster: IndexedCluster, seen: Snapshot) -> Plan | None:
    """The plan where something must be gone before anything is made."""
    job = seen.job
    if job is None or seen.left:
        return waiting_for_predecessor(seen)
    if job.deleting:
        return Plan(outcome=progressing("Restarting", "waiting until the former Pods are gone"))
    if is_another_run(job, cluster):
        message = "the spec has changed: the command is run again"
        return Plan(actions=(Delete(job),), outcome=progressing("Restarting", message))
    return None


def _objects(cluster: IndexedCluster, seen: Snapshot, owner: OwnerReference) -> Iterator[Action]:
    """What brokers need, then the brokers."""
    yield NeedCertificate(fresh=seen.config is None and seen.job is None)
    config = manifests.config_map(cluster, owner)
    if seen.config is None:
        yield Create(ConfigMap.kind, config)
    elif seen.config.data != config["data"]:
        gone = dict.fromkeys(seen.config.data.keys() - config["data"].keys())
        yield Change(seen.config, {"data": {**config["data"], **gone}})
    yield from _service(cluster, seen, owner)
    yield from _services_pod(cluster, seen, owner)
    if seen.job is None:
        yield Create(Job.kind, manifests.job(cluster, owner))
        return
    there = seen.job.spec
    wanted = manifests.scaled(cluster)
    if (there.completions, there.parallelism, there.active_deadline_seconds) != tuple(wanted.values()):
        yield Change(seen.job, {"spec": wanted})


def _service(cluster: IndexedCluster, seen: Snapshot, owner: OwnerReference) -> Iterator[Action]:
    service = seen.service
    usable = service is not None and service.spec.selector == manifests.selector(cluster) and not service.deleting
    if service is None or not usable:
        # The answer to this says whose name it is, or creates a new one where the last is going.
        yield Create(Service.kind, manifests.headless_service(cluster, owner))
    elif all(each.uid != owner.uid for each in service.metadata.owner_references):
        yield Join(service)


def _services_pod(cluster: IndexedCluster, seen: Snapshot, owner: OwnerReference) -> Iterator[Action]:
    pod = seen.services_pod
    if pod is None:
        if cluster.spec.services:
            yield Create(Pod.kind, manifests.services_pod(cluster, owner))
    elif not pod.deleting and (
        not cluster.spec.services or pod.finished or pod.metadata.annotations.get(DIGEST) != cluster.digest
    ):
        yield Delete(pod)


def _brokers(seen: Snapshot, job: Job | None) -> tuple[Pod, ...]:
    """The Pods of the present Job that are not going."""
    if job is None:
        return ()
    uid = job.metadata.uid
    return tuple(
        pod for pod in seen.pods if not pod.deleting and any(each.uid == uid for each in pod.metadata.owner_references)
    )


def _progress(cluster: IndexedCluster, seen: Snapshot, pods: tuple[Pod, ...], ready: int) -> tuple[Outcome, FluxPhase]:
    count = f"{ready} of {cluster.pods} Pods are ready"
    if cluster.size > cluster.max_size:
        count += f" (it cannot grow beyond {cluster.max_size}: set spec.maxSize, with which it is started again)"
    lead = lead_pod(pods)
    runs = lead is not None and (lead.status.phase == "Running" or lead.finished)
    phase = FluxPhase.RUNNING if runs else FluxPhase.PENDING
    found = [*problems(pods, BROKER), *problems(filter(None, (seen.services_pod,)), SERVICES)]
    if found:
        return retrying("PodsNotReady", f"{count}; {'; '.join(found[:MAX_NAMED])}"), phase
    if not runs:
        return progressing("Starting", count), phase
    if cluster.serves:
        if ready < cluster.quorum:
            return progressing("Starting", count), phase
        return done("Serving", f"the brokers serve until the mini-cluster is deleted; {count}"), phase
    return progressing("Running", f"the lead broker runs the command; {count}"), phase


def _after_the_end(cluster: IndexedCluster, seen: Snapshot, job: Job, end: Condition) -> Plan:
    pods = _brokers(seen, job)
    ready = sum(is_ready(pod) for pod in pods)
    lead = lead_pod(pods)
    if end.reason == _POLICY and lead is not None and not lead.finished:
        # Two watches tell of one end: the Pod's is still to come.
        outcome = progressing("Running", "the command has ended, and its exit code is still to come")
        return Plan(outcome=outcome, phase=FluxPhase.RUNNING, ready=ready)
    outcome, code = _verdict(cluster, job, end, pods)
    actions: list[Action] = []
    if code and EXIT_CODE not in job.metadata.annotations:
        actions.append(Change(job, {"metadata": {"annotations": {EXIT_CODE: str(code)}}}))
    if seen.services_pod is not None and not seen.services_pod.deleting:
        actions.append(Delete(seen.services_pod))
    return Plan(
        actions=tuple(actions),
        outcome=outcome,
        phase=FluxPhase.FAILED if code != 0 else FluxPhase.SUCCEEDED,
        ready=ready,
        exit_code=code,
        ended=end.last_transition_time,
        cleanup=cluster.spec.cleanup,
    )


def _verdict(cluster: IndexedCluster, job: Job, end: Condition, pods: tuple[Pod, ...]) -> tuple[Outcome, int | None]:
    """How it ended, with the exit code of the command where that has one."""
    if end.type == "Complete":
        return done("Succeeded", "the command ended with exit code 0"), 0
    if end.reason == _DEADLINE:
        limit = cluster.spec.deadline_seconds
        return stuck(_DEADLINE, f"it took longer than spec.deadlineSeconds, {limit}, allows"), None
    noted = job.metadata.annotations.get(EXIT_CODE, "")
    code, words = _exit(cluster, pods)
    code = int(noted) if noted.isdigit() else code
    if code is None:
        return stuck("JobFailed", f"the Job failed: {end.message or end.reason or 'its Pods are gone'}"), None
    said = f": {words}" if words else ""
    return stuck("CommandFailed", f"the command ended with exit code {code}{said}"), code


def _exit(cluster: IndexedCluster, pods: tuple[Pod, ...]) -> tuple[int | None, str]:
    """The exit code of the command and what its container said last, where the lead's Pod is there and has ended."""
    lead = lead_pod(pods)
    ended = lead.terminated(manifests.runner_name(cluster)) if lead is not None else None
    if ended is None or ended.exit_code in {0, STOPPED}:
        return None, ""
    return ended.exit_code, ended.message.strip()


def is_shared(service: Service) -> bool:
    """Whether a Service is one that mini-clusters share, and not somebody else's of that name."""
    return bool(service.metadata.labels.get(SHARED))
