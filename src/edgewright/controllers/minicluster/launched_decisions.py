"""What is to be done for a launched mini-cluster now, and what is to be said of it: a pure function of asked and seen.

`loop` takes the snapshot and carries the actions out. Nothing here reads a status of our own: what must be remembered
(that the command has run, and how it ended) stands on the launcher's Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgewright.api.flux import FluxPhase
from edgewright.api.job import Job
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.api.statefulset import StatefulSet
from edgewright.controllers.minicluster import launched_manifests as manifests
from edgewright.controllers.minicluster.launched_manifests import CONTAINER
from edgewright.controllers.minicluster.model import LaunchedCluster
from edgewright.controllers.minicluster.objects import DIGEST, EXIT_CODE, ROLE, ConfigMap
from edgewright.controllers.minicluster.plan import (
    MAX_NAMED,
    Action,
    Change,
    Create,
    Delete,
    NeedCertificate,
    Plan,
    Snapshot,
    is_ready,
    problems,
    waiting_for_predecessor,
)
from edgewright.runtime.conditions import Outcome, done, progressing, retrying, stuck
from edgewright.runtime.objects import OwnerReference


def decide(cluster: LaunchedCluster, seen: Snapshot, owner: OwnerReference) -> Plan:
    """The plan for a mini-cluster."""
    ready = seen.workers.status.ready_replicas if seen.workers is not None else 0
    waiting = _in_the_way(cluster, seen, ready)
    if waiting is not None:
        return waiting
    launcher = seen.job
    if launcher is not None and launcher.end is not None:
        return _after_the_end(cluster, seen, launcher, owner)
    actions = tuple(_objects(cluster, seen, owner))
    if launcher is not None:
        return _while_it_runs(cluster, seen, actions, ready)
    if seen.workers is not None and seen.workers.settled and actions == (NeedCertificate(),):
        create = Create(Job.kind, manifests.launcher(cluster, owner))
        outcome = progressing("Launching", f"{ready} of {cluster.size} workers are ready")
        return Plan(actions=(*actions, create), outcome=outcome, ready=ready, workers_ready=True)
    return Plan(actions=actions, outcome=_starting(cluster, seen, ready), ready=ready)


def _in_the_way(cluster: LaunchedCluster, seen: Snapshot, ready: int) -> Plan | None:
    """The plan where something must be gone before anything is made."""
    launcher = seen.job
    if launcher is None or seen.left:
        return waiting_for_predecessor(seen)
    if launcher.deleting:
        return Plan(outcome=progressing("Restarting", "waiting until the former launcher is gone"), ready=ready)
    if launcher.metadata.annotations.get(DIGEST) != cluster.digest:
        # First, so that no worker is taken from a command that still runs.
        message = "the spec has changed: the command is run again"
        return Plan(actions=(Delete(launcher),), outcome=progressing("Restarting", message), ready=ready)
    return None


def _objects(cluster: LaunchedCluster, seen: Snapshot, owner: OwnerReference) -> Iterator[Action]:
    """What the workers need, then the workers."""
    config = manifests.config_map(cluster, owner)
    if seen.config is None:
        yield Create(ConfigMap.kind, config)
    elif seen.config.data != config["data"]:
        gone = dict.fromkeys(seen.config.data.keys() - config["data"].keys())
        yield Change(seen.config, {"data": {**config["data"], **gone}})
    yield NeedCertificate()
    if seen.service is None:
        yield Create(Service.kind, manifests.headless_service(cluster, owner))
    yield from _page(cluster, seen, owner)
    workers = manifests.workers(cluster, owner)
    if seen.workers is None:
        yield Create(StatefulSet.kind, workers)
    elif (seen.workers.metadata.annotations.get(DIGEST), seen.workers.spec.replicas) != (
        cluster.workers_digest,
        cluster.size,
    ):
        spec = {"replicas": cluster.size, "template": workers["spec"]["template"]}
        yield Change(seen.workers, {"metadata": {"annotations": {DIGEST: cluster.workers_digest}}, "spec": spec})


def _page(cluster: LaunchedCluster, seen: Snapshot, owner: OwnerReference) -> Iterator[Action]:
    if cluster.port is None:
        if seen.page is not None and not seen.page.deleting:
            yield Delete(seen.page)
        return
    wanted = manifests.page_service(cluster, owner)
    if seen.page is None:
        yield Create(Service.kind, wanted)
    elif seen.page.metadata.annotations.get(DIGEST) != wanted["metadata"]["annotations"][DIGEST]:
        change = {"metadata": {"annotations": wanted["metadata"]["annotations"]}, "spec": wanted["spec"]}
        yield Change(seen.page, change)


def _starting(cluster: LaunchedCluster, seen: Snapshot, ready: int) -> Outcome:
    count = f"{ready} of {cluster.size} workers are ready"
    if found := list(problems(seen.pods, "worker")):
        return retrying("WorkersNotReady", f"{count}; {'; '.join(found[:MAX_NAMED])}")
    return progressing("WorkersStarting", count)


def _while_it_runs(cluster: LaunchedCluster, seen: Snapshot, actions: tuple[Action, ...], ready: int) -> Plan:
    whole = seen.workers is not None and seen.workers.settled
    pods = [pod for pod in seen.pods if pod.metadata.labels.get(ROLE) == "launcher"]
    if found := list(problems(pods, "launcher")):
        outcome = retrying("LauncherNotReady", found[0])
    elif cluster.port is not None and any(is_ready(pod) for pod in pods):
        outcome = done("Serving", f"the command serves port {cluster.port}, by Service {cluster.name}")
    elif any(pod.status.phase == "Running" or pod.finished for pod in pods):
        outcome = progressing("Running", "the launcher runs the command")
    else:
        outcome = progressing("Launching", "the launcher is starting")
    phase = FluxPhase.RUNNING
    return Plan(actions=actions, outcome=outcome, phase=phase, ready=ready, workers_ready=whole)


def _after_the_end(cluster: LaunchedCluster, seen: Snapshot, launcher: Job, owner: OwnerReference) -> Plan:
    end = launcher.end
    assert end is not None  # noqa: S101 - the caller has looked
    noted = launcher.metadata.annotations.get(EXIT_CODE, "")
    code, words = _exit(seen.pods, launcher)
    actions: list[Action] = []
    if not noted and code is not None:
        actions.append(Change(launcher, {"metadata": {"annotations": {EXIT_CODE: str(code)}}}))
    code = int(noted) if noted.lstrip("-").isdigit() else code
    actions += _page(cluster, seen, owner)
    if seen.workers is not None and seen.workers.spec.replicas:
        actions.append(Change(seen.workers, {"spec": {"replicas": 0}}))
    if end.type == "Complete":
        outcome, phase, code = done("Succeeded", "the command ended with exit code 0"), FluxPhase.SUCCEEDED, 0
    elif code is None:
        why = end.message or end.reason or "its Pod is gone"
        outcome, phase = stuck("LauncherFailed", f"the launcher failed: {why}"), FluxPhase.FAILED
    else:
        said = f": {words}" if words else ""
        outcome, phase = stuck("CommandFailed", f"the command ended with exit code {code}{said}"), FluxPhase.FAILED
    ready = seen.workers.status.ready_replicas if seen.workers is not None else 0
    return Plan(
        actions=tuple(actions),
        outcome=outcome,
        phase=phase,
        ready=ready,
        exit_code=code,
        ended=end.last_transition_time,
    )


def _exit(pods: Iterable[Pod], launcher: Job) -> tuple[int | None, str]:
    """The exit code of the command and what its container said last, where the launcher's Pod is still there."""
    for pod in pods:
        if any(each.uid == launcher.metadata.uid for each in pod.metadata.owner_references):
            for container in ("configure", CONTAINER):
                ended = pod.terminated(container)
                if ended is not None and (container == CONTAINER or ended.exit_code):
                    return ended.exit_code, ended.message.strip()
    return None, ""
