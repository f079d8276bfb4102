"""Makes mini-clusters so as Flux and FluxSetup ask: takes a snapshot, decides, carries out, says what came of it.

Two loops: one for each Flux, which owns all objects of its mini-cluster, and one for each FluxSetup, which only says
whether it is in use. The operator adds both with `add_miniclusters`. The snapshot is read through ledgers, so that a
cache that is behind makes nothing twice; what one pass broke off the next one finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from edgewright.api.flux import Flux, FluxPhase, FluxStatus
from edgewright.api.fluxsetup import FluxSetup, FluxSetupStatus
from edgewright.api.job import Job
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.api.statefulset import StatefulSet
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.minicluster.certificate_secret import CertificateSecrets, NameTaken
from edgewright.controllers.minicluster.decisions import (
    Action,
    Change,
    ConfigMap,
    Create,
    Delete,
    NeedCertificate,
    Plan,
    Snapshot,
    decide,
)
from edgewright.controllers.minicluster.manifests import CLUSTER
from edgewright.controllers.minicluster.model import MiniCluster, Problem, minicluster_of
from edgewright.controllers.settings import Settings
from edgewright.runtime import logs
from edgewright.runtime.client import Propagation
from edgewright.runtime.clock import Clock
from edgewright.runtime.conditions import (
    READY,
    Outcome,
    condition,
    done,
    find,
    retrying,
    set_condition,
    stuck,
    with_outcome,
)
from edgewright.runtime.controller import DONE, For, Maps, Owns, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, ApiError, Conflict, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Condition, Key, OwnerReference, Resource, owner_reference

_log = logs.get("controllers.minicluster")

R = TypeVar("R", bound=Resource)

WORKERS_READY: Final = "WorkersReady"
"""The condition that says whether all workers are ready."""
FINISHED: Final = "Finished"
"""The condition that says whether the command has ended."""
BAD: Final = frozenset(
    {"ApplyFailed", "CommandFailed", "LauncherFailed", "LauncherNotReady", "NameTaken", "WorkersNotReady"}
)
"""The reasons that are told as warnings; what is Stalled is, too."""
_WORKERS: Final = 4
_SOON: Final = 0.2


def add_miniclusters(manager: Manager, settings: Settings, clock: Clock) -> None:
    """Adds the loops for Flux and FluxSetup to a manager."""
    loop = MiniClusters(manager, settings, clock)
    manager.controller(
        "flux",
        loop.reconcile,
        For(loop.fluxes.cache),
        Maps(loop.setups.cache, to=_own_key, when=_intent),
        Owns(loop.configs.cache),
        Owns(loop.services.cache),
        Owns(loop.statefulsets.cache),
        Owns(loop.jobs.cache),
        Maps(loop.pods, to=_cluster_of),
        workers=_WORKERS,
    )
    manager.controller(
        "fluxsetup",
        loop.reconcile_setup,
        For(loop.setups.cache),
        Maps(loop.fluxes.cache, to=_own_key, when=_intent),
    )


class MiniClusters:
    """What is known of mini-clusters, and the loops over them."""

    def __init__(self, manager: Manager, settings: Settings, clock: Clock) -> None:
        self._client = manager.client
        self._recorder = manager.recorder
        self._clock = clock
        self._recheck = settings.timing.recheck
        self._secrets = CertificateSecrets(manager.client, clock, every=settings.timing.recheck)
        self.fluxes = Ledger(manager.cache(Flux))
        self.setups = Ledger(manager.cache(FluxSetup))
        self.configs = Ledger(manager.cache(ConfigMap, labels=CLUSTER))
        self.services = Ledger(manager.cache(Service, labels=CLUSTER))
        # The embedded control plane has neither (yet): what is asked for there is answered with a condition.
        self.statefulsets = Ledger(manager.cache(StatefulSet, labels=CLUSTER, optional=True))
        self.jobs = Ledger(manager.cache(Job, labels=CLUSTER, optional=True))
        self.pods = manager.cache(Pod, labels=CLUSTER)
        self.pods.add_index(CLUSTER, lambda pod: (_index(pod.metadata.namespace, pod.metadata.labels.get(CLUSTER)),))

    # --- the loops --------------------------------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> Result:
        """One pass for a Flux."""
        flux = self.fluxes.get(key)
        if flux is None or flux.deleting:
            return DONE  # what it owns goes with it
        cluster = minicluster_of(flux, self._setup(key))
        if isinstance(cluster, Problem):
            await self._say_refused(flux, cluster)
            return DONE
        owner = owner_reference(flux)
        plan = decide(cluster, self._snapshot(cluster, owner), owner)
        try:
            for action in plan.actions:
                await self._carry_out(action, cluster, owner)
        except NameTaken as error:
            await self._say(flux, cluster, plan, retrying("NameTaken", str(error)))
            return requeue_after(self._recheck)
        except Conflict:
            raise
        except ApiError as error:
            await self._say(flux, cluster, plan, retrying("ApplyFailed", str(error)))
            raise
        await self._say(flux, cluster, plan, plan.outcome)
        waiting = plan.phase is FluxPhase.PENDING
        return requeue_after(self._recheck) if waiting else DONE

    async def reconcile_setup(self, key: Key) -> Result:
        """One pass for a FluxSetup: says whether it is in use."""
        setup = self.setups.get(key)
        if setup is None or setup.deleting:
            return DONE
        outcome = setup_outcome(setup, self.fluxes.get(key))
        before, generation = setup.status.conditions, setup.metadata.generation
        after = with_outcome(before, outcome, generation=generation, now=self._clock.now())
        status = FluxSetupStatus(message=outcome.message, conditions=after, observed_generation=generation)
        if status != setup.status:
            self.setups.wrote(await self._client.of(FluxSetup).write_status(setup, status))
            self._tell(setup, before, after)
        return DONE

    # --- what is there ----------------------------------------------------------------------------------------------

    def _setup(self, key: Key) -> FluxSetup | None:
        setup = self.setups.get(key)
        return None if setup is None or setup.deleting else setup

    def _snapshot(self, cluster: MiniCluster, owner: OwnerReference) -> Snapshot:
        left: list[str] = []

        def own(ledger: Ledger[R], name: str) -> R | None:
            found = ledger.get(Key(cluster.namespace, name))
            if found is None or _belongs(found, owner):
                return found
            left.append(f"{found.kind.kind} {name}")
            return None

        pods = self.pods.by(CLUSTER, _index(cluster.namespace, cluster.name))
        return Snapshot(
            config=own(self.configs, cluster.config),
            service=own(self.services, cluster.service),
            page=own(self.services, cluster.name),
            workers=own(self.statefulsets, cluster.name),
            launcher=own(self.jobs, cluster.launcher),
            pods=tuple(pods),
            left=tuple(left),
        )

    # --- what is done -----------------------------------------------------------------------------------------------

    async def _carry_out(self, action: Action, cluster: MiniCluster, owner: OwnerReference) -> None:
        match action:
            case NeedCertificate():
                await self._secrets.ensure(cluster, owner)
            case Create(kind=kind, body=body):
                await self._create(action, owner)
                _log.info("created", object=f"{kind.kind} {body['metadata']['name']}")
            case Change(obj=obj, patch=patch):
                ledger = self._ledger(type(obj))
                version = obj.metadata.resource_version
                ledger.wrote(await self._client.of(type(obj)).patch(obj.key, patch, resource_version=version))
                _log.info("changed", object=f"{obj.kind.kind} {obj.metadata.name}")
            case Delete(obj=obj):
                # In the foreground: the next launcher has the same host name, so the last one's Pod goes first.
                how: Propagation = "Foreground" if isinstance(obj, Job) else "Background"
                try:
                    await self._client.of(type(obj)).delete(obj.key, uid=obj.metadata.uid, propagation=how)
                except NotFound:
                    self._ledger(type(obj)).deleted(obj)
                _log.info("deleted", object=f"{obj.kind.kind} {obj.metadata.name}")

    async def _create(self, action: Create, owner: OwnerReference) -> None:
        resource = _TYPES[action.kind.kind]
        api = self._client.raw(action.kind)
        try:
            made = await api.create(action.body)
        except AlreadyExists:
            metadata = action.body["metadata"]
            made = await api.get(Key(metadata["namespace"], metadata["name"]))
            if not _belongs(msgspec.convert(made, resource), owner):
                raise NameTaken(action.kind.kind, Key(metadata["namespace"], metadata["name"])) from None
        self._ledger(resource).wrote(msgspec.convert(made, resource))

    def _ledger(self, resource: type[Resource]) -> Ledger[Any]:
        ledgers: dict[type[Resource], Ledger[Any]] = {
            ConfigMap: self.configs,
            Service: self.services,
            StatefulSet: self.statefulsets,
            Job: self.jobs,
        }
        return ledgers[resource]

    # --- what is said -----------------------------------------------------------------------------------------------

    async def _say(self, flux: Flux, cluster: MiniCluster, plan: Plan, outcome: Outcome) -> None:
        ended = plan.phase in {FluxPhase.SUCCEEDED, FluxPhase.FAILED}
        count = f"{plan.ready}/{cluster.size}"
        if plan.workers_ready:
            workers = condition(WORKERS_READY, "True", "AllReady", f"{count} workers are ready")
        elif ended:
            workers = condition(WORKERS_READY, "False", "ScaledToZero", "the command has ended")
        else:
            workers = condition(WORKERS_READY, "False", "NotReady", f"{count} workers are ready")
        if ended:
            finished = condition(FINISHED, "True", outcome.reason, outcome.message)
        else:
            finished = condition(FINISHED, "False", "NotFinished", "the command has not ended")
        status = FluxStatus(
            phase=plan.phase,
            message=outcome.message,
            workers=count,
            exit_code=plan.exit_code,
            completion_time=plan.ended,
        )
        await self._write(flux, status, outcome, (workers, finished))

    async def _say_refused(self, flux: Flux, problem: Problem) -> None:
        status = FluxStatus(phase=FluxPhase.FAILED, message=problem.text)
        await self._write(flux, status, stuck(problem.reason, problem.text), ())

    async def _write(self, flux: Flux, status: FluxStatus, outcome: Outcome, more: Iterable[Condition]) -> None:
        """Writes the status where it is another, and tells of the summary condition where that has changed."""
        generation, now = flux.metadata.generation, self._clock.now()
        after = with_outcome(flux.status.conditions, outcome, generation=generation, now=now)
        for each in more:
            after = set_condition(after, msgspec.structs.replace(each, observed_generation=generation), now=now)
        status = msgspec.structs.replace(status, conditions=after, observed_generation=generation)
        if status == flux.status:
            return
        try:
            self.fluxes.wrote(await self._client.of(Flux).write_status(flux, status))
        except NotFound:
            return
        self._tell(flux, flux.status.conditions, after)

    def _tell(self, about: Resource, before: tuple[Condition, ...], after: tuple[Condition, ...]) -> None:
        summary = [tuple(filter(None, (find(each, READY),))) for each in (before, after)]
        bad = BAD if not find(after, "Stalled") else BAD | {each.reason for each in summary[1]}
        self._recorder.record_transitions(about, summary[0], summary[1], bad=bad)


def setup_outcome(setup: FluxSetup, flux: Flux | None) -> Outcome:
    """What is said of a FluxSetup."""
    name, namespace = setup.metadata.name, setup.metadata.namespace
    if flux is None or flux.deleting:
        return stuck("FluxMissing", f"there is no Flux {name} in namespace {namespace}: create it, and it is set up so")
    found = minicluster_of(flux, setup)
    if isinstance(found, Problem) and found.setup:
        return stuck(found.reason, found.text.removeprefix("FluxSetup "))
    return done("InUse", f"Flux {name} is set up so")


_TYPES: Final[dict[str, type[Resource]]] = {each.kind.kind: each for each in (ConfigMap, Service, StatefulSet, Job)}


def _own_key(obj: Resource) -> Iterator[Key]:
    yield obj.key


def _intent(change: Any) -> bool:
    """Another intent: what we write in the status of one is nothing to the other."""
    old, new = change.old, change.new
    return old is None or new is None or old.spec != new.spec or old.deleting != new.deleting


def _cluster_of(pod: Pod) -> Iterator[Key]:
    yield Key(pod.metadata.namespace, pod.metadata.labels.get(CLUSTER, ""))


def _index(namespace: str, name: str | None) -> str:
    return f"{namespace}/{name or ''}"


def _belongs(obj: Resource, owner: OwnerReference) -> bool:
    return any(each.uid == owner.uid for each in obj.metadata.owner_references)
