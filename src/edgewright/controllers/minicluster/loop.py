"""Makes mini-clusters so as Flux, FluxSetup and MiniCluster ask: takes a snapshot, decides, carries out, says the rest.

Three loops: one for each Flux and one for each MiniCluster, which own all objects of their mini-clusters, and one for
each FluxSetup, which only says whether it is in use. The operator adds them with `add_miniclusters`. The snapshot is
read through ledgers, so that a cache that is behind creates nothing twice; what one pass broke off the next one finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec

from edgewright.api.flux import Flux, FluxPhase, FluxStatus
from edgewright.api.fluxsetup import FluxSetup, FluxSetupStatus
from edgewright.api.job import Job
from edgewright.api.minicluster import MiniCluster, MiniClusterStatus
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.api.statefulset import StatefulSet
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.minicluster import indexed_decisions, indexed_manifests, launched_decisions, status
from edgewright.controllers.minicluster.certificate_secret import CertificateSecrets, NameTaken
from edgewright.controllers.minicluster.conversion import cluster_of
from edgewright.controllers.minicluster.model import Cluster, IndexedCluster, LaunchedCluster, Problem
from edgewright.controllers.minicluster.objects import CLUSTER, FIRST_SIZE, ConfigMap
from edgewright.controllers.minicluster.plan import (
    Action,
    Change,
    Create,
    Delete,
    Join,
    NeedCertificate,
    Plan,
    Snapshot,
)
from edgewright.controllers.settings import Settings
from edgewright.runtime import logs
from edgewright.runtime.client import Propagation
from edgewright.runtime.clock import Clock
from edgewright.runtime.conditions import READY, Outcome, done, find, retrying, stuck, with_outcome
from edgewright.runtime.controller import DONE, For, Maps, Owns, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, ApiError, Conflict, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Condition, Key, OwnerReference, Resource, owner_reference

_log = logs.get("controllers.minicluster")

R = TypeVar("R", bound=Resource)

_WORKERS: Final = 4


def add_miniclusters(manager: Manager, settings: Settings, clock: Clock) -> None:
    """Adds the loops for Flux, FluxSetup and MiniCluster to a manager."""
    loop = MiniClusters(manager, settings, clock)
    manager.controller(
        "flux",
        loop.reconcile_flux,
        For(loop.fluxes.cache),
        Maps(loop.setups.cache, to=_own_key, when=_intent),
        Owns(loop.configs.cache),
        Owns(loop.services.cache),
        Owns(loop.statefulsets.cache),
        Owns(loop.jobs.cache),
        Maps(loop.pods.cache, to=_cluster_of),
        workers=_WORKERS,
    )
    manager.controller(
        "fluxsetup",
        loop.reconcile_setup,
        For(loop.setups.cache),
        Maps(loop.fluxes.cache, to=_own_key, when=_intent),
    )
    manager.controller(
        "minicluster",
        loop.reconcile_minicluster,
        For(loop.miniclusters.cache),
        Owns(loop.configs.cache),
        Owns(loop.jobs.cache),
        Owns(loop.services.cache, when=_is_lost, controlled=False),
        Maps(loop.pods.cache, to=_cluster_of),
        workers=_WORKERS,
    )


class MiniClusters:
    """What is known of mini-clusters, and the loops over them."""

    def __init__(self, manager: Manager, settings: Settings, clock: Clock) -> None:
        self._client = manager.client
        self._recorder = manager.recorder
        self._clock = clock
        self._recheck = settings.timing.recheck
        self._making_service = asyncio.Lock()
        self._secrets = CertificateSecrets(manager.client, clock, every=settings.timing.recheck)
        self.fluxes = Ledger(manager.cache(Flux))
        self.setups = Ledger(manager.cache(FluxSetup))
        self.miniclusters = Ledger(manager.cache(MiniCluster))
        self.configs = Ledger(manager.cache(ConfigMap, labels=CLUSTER))
        self.services = Ledger(manager.cache(Service, labels=CLUSTER))
        # The embedded control plane has neither (yet): what is asked for there is answered with a condition.
        self.statefulsets = Ledger(manager.cache(StatefulSet, labels=CLUSTER, optional=True))
        self.jobs = Ledger(manager.cache(Job, labels=CLUSTER, optional=True))
        self.pods = Ledger(manager.cache(Pod, labels=CLUSTER))
        self.pods.cache.add_index(
            CLUSTER, lambda pod: (_index(pod.metadata.namespace, pod.metadata.labels.get(CLUSTER)),)
        )

    # --- the loops --------------------------------------------------------------------------------------------------

    async def reconcile_flux(self, key: Key) -> Result:
        """One pass for a Flux."""
        flux = self.fluxes.get(key)
        if flux is None or flux.deleting:
            return DONE  # what it owns goes with it
        return await self._reconcile(flux, cluster_of(flux, self._setup(key)))

    async def reconcile_minicluster(self, key: Key) -> Result:
        """One pass for a MiniCluster."""
        asked = self.miniclusters.get(key)
        if asked is None or asked.deleting:
            return DONE
        job = self.jobs.get(key)
        first = job.metadata.annotations.get(FIRST_SIZE, "") if job is not None else ""
        cluster = cluster_of(asked, first_size=int(first) if first.isdigit() else None)
        if (
            isinstance(cluster, IndexedCluster)
            and job is not None
            and not job.deleting
            and _belongs(job, owner_reference(asked))
            and indexed_decisions.is_another_run(job, cluster)
        ):
            # What the last run remembers is nothing to the next.
            cluster = cluster_of(asked)
        return await self._reconcile(asked, cluster)

    async def _reconcile(self, asked: Flux | MiniCluster, cluster: Cluster | Problem) -> Result:
        if isinstance(cluster, Problem):
            await self._write(asked, status.refused(asked, cluster, now=self._clock.now()))
            return DONE
        owner = owner_reference(asked)
        seen = self._snapshot(cluster, owner)
        plan = _decide(cluster, seen, owner)
        try:
            for action in plan.actions:
                await self._carry_out(action, cluster, owner)
        except NameTaken as error:
            await self._say(asked, cluster, plan, retrying("NameTaken", str(error)))
            return requeue_after(self._recheck)
        except Conflict:
            raise
        except ApiError as error:
            await self._say(asked, cluster, plan, retrying("ApplyFailed", str(error)))
            raise
        await self._say(asked, cluster, plan, plan.outcome)
        if plan.cleanup:
            await self._clean_up(asked)
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
        shown = FluxSetupStatus(message=outcome.message, conditions=after, observed_generation=generation)
        if shown != setup.status:
            self.setups.wrote(await self._client.of(FluxSetup).write_status(setup, shown))
            self._tell(setup, before, after)
        return DONE

    # --- what is there ----------------------------------------------------------------------------------------------

    def _setup(self, key: Key) -> FluxSetup | None:
        setup = self.setups.get(key)
        return None if setup is None or setup.deleting else setup

    def _snapshot(self, cluster: Cluster, owner: OwnerReference) -> Snapshot:
        left: list[str] = []

        def own(ledger: Ledger[R], name: str) -> R | None:
            found = ledger.get(Key(cluster.namespace, name))
            if found is None or _belongs(found, owner):
                return found
            left.append(f"{found.kind.kind} {name}")
            return None

        pods = tuple(self.pods.cache.by(CLUSTER, _index(cluster.namespace, cluster.name)))
        common: dict[str, Any] = {
            "config": own(self.configs, cluster.config),
            "job": own(self.jobs, cluster.job),
            "pods": pods,
        }
        if isinstance(cluster, IndexedCluster):
            # Others own the Service, too: whose it is, is decided.
            common["service"] = self.services.get(Key(cluster.namespace, cluster.service))
            common["services_pod"] = own(self.pods, cluster.services_pod)
        else:
            common["service"] = own(self.services, cluster.service)
            common["page"] = own(self.services, cluster.name)
            common["workers"] = own(self.statefulsets, cluster.name)
        return Snapshot(**common, left=tuple(left))

    # --- what is done -----------------------------------------------------------------------------------------------

    async def _carry_out(self, action: Action, cluster: Cluster, owner: OwnerReference) -> None:
        match action:
            case NeedCertificate(fresh=fresh):
                await self._secrets.ensure(cluster, owner, fresh=fresh)
            case Create(kind=kind, body=body):
                await self._create(action, cluster, owner)
                _log.info("created", object=f"{kind.kind} {body['metadata']['name']}")
            case Change(obj=obj, patch=patch):
                ledger = self._ledger(type(obj))
                version = obj.metadata.resource_version
                ledger.wrote(await self._client.of(type(obj)).patch(obj.key, patch, resource_version=version))
                _log.info("changed", object=f"{obj.kind.kind} {obj.metadata.name}")
            case Join(service=service):
                await self._join(service, owner)
            case Delete(obj=obj):
                # In the foreground: the next Pods have the same host names, so the last ones go first.
                how: Propagation = "Foreground" if isinstance(obj, Job) else "Background"
                try:
                    await self._client.of(type(obj)).delete(obj.key, uid=obj.metadata.uid, propagation=how)
                except NotFound:
                    self._ledger(type(obj)).deleted(obj)
                _log.info("deleted", object=f"{obj.kind.kind} {obj.metadata.name}")

    async def _create(self, action: Create, cluster: Cluster, owner: OwnerReference) -> None:
        if action.kind != Service.kind:
            await self._make(action, cluster, owner)
            return
        # Mini-clusters that start together see no Service: the first creates it, and the others join what it made.
        async with self._making_service:
            there = self.services.get(Key(cluster.namespace, action.body["metadata"]["name"]))
            if there is not None and _may_share(there, cluster) and not _belongs(there, owner):
                await self._join(there, owner)
            else:
                await self._make(action, cluster, owner)

    async def _make(self, action: Create, cluster: Cluster, owner: OwnerReference) -> None:
        resource = _TYPES[action.kind.kind]
        api = self._client.raw(action.kind)
        key = Key(action.body["metadata"]["namespace"], action.body["metadata"]["name"])
        try:
            made = msgspec.convert(await api.create(action.body), resource)
        except AlreadyExists:
            made = msgspec.convert(await api.get(key), resource)
            shared = isinstance(made, Service) and _may_share(made, cluster)
            if isinstance(made, Service) and shared and not _belongs(made, owner):
                await self._join(made, owner)
                return
            if not _belongs(made, owner):
                raise NameTaken(action.kind.kind, key) from None
            if made.deleting:
                raise  # it is tried again until the old one is gone
        self._ledger(resource).wrote(made)

    async def _join(self, service: Service, owner: OwnerReference) -> None:
        joined = await self._client.of(Service).patch(
            service.key, indexed_manifests.join(owner), uid=service.metadata.uid
        )
        self.services.wrote(joined)

    async def _clean_up(self, asked: Flux | MiniCluster) -> None:
        try:
            await self._client.of(MiniCluster).delete(asked.key, uid=asked.metadata.uid, propagation="Background")
        except NotFound:
            return
        _log.info("cleaned up", object=f"MiniCluster {asked.metadata.name}")

    def _ledger(self, resource: type[Resource]) -> Ledger[Any]:
        ledgers: dict[type[Resource], Ledger[Any]] = {
            ConfigMap: self.configs,
            Service: self.services,
            StatefulSet: self.statefulsets,
            Job: self.jobs,
            Pod: self.pods,
        }
        return ledgers[resource]

    # --- what is said -----------------------------------------------------------------------------------------------

    async def _say(self, asked: Flux | MiniCluster, cluster: Cluster, plan: Plan, outcome: Outcome) -> None:
        job = self.jobs.get(Key(cluster.namespace, cluster.job))
        await self._write(asked, status.status_of(asked, cluster, plan, outcome, job=job, now=self._clock.now()))

    async def _write(self, asked: Flux | MiniCluster, new: FluxStatus | MiniClusterStatus) -> None:
        """Writes the status where it is another, and tells of the summary condition where that has changed."""
        if new == asked.status:
            return
        try:
            if isinstance(asked, Flux):
                self.fluxes.wrote(await self._client.of(Flux).write_status(asked, new))
            else:
                self.miniclusters.wrote(await self._client.of(MiniCluster).write_status(asked, new))
        except NotFound:
            return
        self._tell(asked, asked.status.conditions, new.conditions)

    def _tell(self, about: Resource, before: tuple[Condition, ...], after: tuple[Condition, ...]) -> None:
        summary = [tuple(filter(None, (find(each, READY),))) for each in (before, after)]
        bad = status.BAD if not find(after, "Stalled") else status.BAD | {each.reason for each in summary[1]}
        self._recorder.record_transitions(about, summary[0], summary[1], bad=bad)


def setup_outcome(setup: FluxSetup, flux: Flux | None) -> Outcome:
    """What is said of a FluxSetup."""
    name, namespace = setup.metadata.name, setup.metadata.namespace
    if flux is None or flux.deleting:
        return stuck("FluxMissing", f"there is no Flux {name} in namespace {namespace}: create it, and it is set up so")
    found = cluster_of(flux, setup)
    if isinstance(found, Problem) and found.setup:
        return stuck(found.reason, found.text.removeprefix("FluxSetup "))
    return done("InUse", f"Flux {name} is set up so")


_TYPES: Final[dict[str, type[Resource]]] = {
    each.kind.kind: each for each in (ConfigMap, Service, StatefulSet, Job, Pod)
}


def _decide(cluster: Cluster, seen: Snapshot, owner: OwnerReference) -> Plan:
    if isinstance(cluster, IndexedCluster):
        return indexed_decisions.decide(cluster, seen, owner)
    assert isinstance(cluster, LaunchedCluster)  # noqa: S101 - there are two flows
    return launched_decisions.decide(cluster, seen, owner)


def _may_share(service: Service, cluster: Cluster) -> bool:
    """Whether a Service names the Pods of this mini-cluster, too."""
    return (
        isinstance(cluster, IndexedCluster)
        and not service.deleting
        and indexed_decisions.is_shared(service)
        and service.spec.selector == indexed_manifests.selector(cluster)
    )


def _own_key(obj: Resource) -> Iterator[Key]:
    yield obj.key


def _intent(change: Any) -> bool:
    """Another intent: what we write in the status of one is nothing to the other."""
    old, new = change.old, change.new
    return old is None or new is None or old.spec != new.spec or old.deleting != new.deleting


def _is_lost(change: Any) -> bool:
    """A shared Service goes, or is another: that one more mini-cluster uses it is nothing to the others."""
    old, new = change.old, change.new
    return new is None or new.deleting or (old is not None and old.spec != new.spec)


def _cluster_of(pod: Pod) -> Iterator[Key]:
    yield Key(pod.metadata.namespace, pod.metadata.labels.get(CLUSTER, ""))


def _index(namespace: str, name: str | None) -> str:
    return f"{namespace}/{name or ''}"


def _belongs(obj: Resource, owner: OwnerReference) -> bool:
    return any(each.uid == owner.uid for each in obj.metadata.owner_references)
