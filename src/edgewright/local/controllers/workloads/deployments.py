"""Carries out what `rollouts` decides for each Deployment: makes, scales and removes its ReplicaSets, and says how far.

`add` registers the controller. ReplicaSets that match its selector and belong to nobody are adopted.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import pods as podwork
from edgewright.local.controllers.workloads import rollout_status, rollouts
from edgewright.local.controllers.workloads.kinds import Deployment, DeploymentStatus, ReplicaSet
from edgewright.runtime import DONE, Clock, For, Key, Manager, Maps, Owns, RawObject, Recorder, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, ApiError, NotFound
from edgewright.runtime.patches import merge_diff
from edgewright.runtime.predicates import anything


def add(manager: Manager, *, clock: Clock) -> Recorder:
    """Registers the controller; what is returned sends its Events."""
    recorder = Recorder(manager.client, "deployment-controller", clock=clock)
    _Deployments(manager, recorder, clock).add()
    return recorder


class _Deployments:
    def __init__(self, manager: Manager, recorder: Recorder, clock: Clock) -> None:
        self._manager = manager
        self._client = manager.client
        self._recorder = recorder
        self._clock = clock
        self._deployments = manager.cache(Deployment)
        self._sets = manager.cache(ReplicaSet)
        self._pods = podwork.indexed(manager)
        self._deployments.add_index("namespace", lambda found: (found.metadata.namespace,))

    def add(self) -> None:
        self._manager.controller(
            "deployments",
            self._reconcile,
            For(self._deployments, when=anything),
            Owns(self._sets),
            Maps(self._sets, self._adopters),
            Maps(self._pods, self._recreated, when=lambda change: change.new is None),
            workers=4,
        )

    def _adopters(self, found: ReplicaSet) -> Iterable[Key]:
        if podwork.controller_of(found) is not None:
            return ()
        others = self._deployments.by("namespace", found.metadata.namespace)
        return [each.key for each in others if each.spec.selector.selects(found.metadata.labels)]

    def _recreated(self, pod: Pod) -> Iterable[Key]:
        """The Deployment that waits for all its old Pods to be gone."""
        owner = podwork.controller_of(pod)
        found = self._sets.get(Key(pod.metadata.namespace, owner.name)) if owner else None
        above = podwork.controller_of(found) if found else None
        if above is None or above.kind != Deployment.kind.kind:
            return ()
        return (Key(pod.metadata.namespace, above.name),)

    async def _reconcile(self, key: Key) -> Result:
        found = self._deployments.get(key)
        if found is None:
            return DONE
        sets = await self._claim(found)
        now = self._clock.now()
        found_now = rollout_status.resumed(found, now)
        plan = rollouts.decide(found_now, sets, old_pods=self._has_old_pods(found, sets), now=now)
        if plan.create is not None and not await self._create(found, plan.create):
            return DONE
        for change in plan.changes:
            await self._change(found, change)
        for each in plan.delete:
            with suppress(NotFound):
                await self._client.of(ReplicaSet).delete(each.key, uid=each.metadata.uid)
        await self._tell(found, plan.status, plan.revision)
        return DONE if plan.again is None else requeue_after(plan.again)

    async def _claim(self, found: Deployment) -> list[ReplicaSet]:
        """The ReplicaSets of a Deployment; orphans that it selects become its own, others are let go."""
        mine, kept = self._sets.by(podwork.BY_OWNER, found.metadata.uid), []
        for each in mine:
            if found.deleting or found.spec.selector.selects(each.metadata.labels):
                kept.append(each)
            else:
                left = [one.to_raw() for one in each.metadata.owner_references if one.uid != found.metadata.uid]
                await self._own(each, left)
        if found.deleting:
            return kept
        orphans = [
            each
            for each in self._sets.by("namespace", found.metadata.namespace)
            if podwork.controller_of(each) is None
            and not each.deleting
            and found.spec.selector.selects(each.metadata.labels)
        ]
        if orphans:
            fresh = await self._deployments.fetch(found.key)
            if fresh is not None and not fresh.deleting and fresh.metadata.uid == found.metadata.uid:
                for each in orphans:
                    references = [one.to_raw() for one in each.metadata.owner_references]
                    kept.append(await self._own(each, [*references, podwork.reference(found)]))
        return kept

    async def _own(self, found: ReplicaSet, references: list[RawObject]) -> ReplicaSet:
        change = {"metadata": {"ownerReferences": references or None}}
        version = found.metadata.resource_version
        return await self._client.of(ReplicaSet).patch(found.key, change, resource_version=version)

    def _has_old_pods(self, found: Deployment, sets: list[ReplicaSet]) -> bool:
        new = rollouts.current(found, sets)
        return any(
            pod.status.phase not in {"Succeeded", "Failed"}
            for each in sets
            if each is not new
            for pod in self._pods.by(podwork.BY_OWNER, each.metadata.uid)
        )

    async def _create(self, found: Deployment, body: RawObject) -> bool:
        """Makes a ReplicaSet; False where its name is taken by another, so that the next pass tries another name."""
        name, replicas = body["metadata"]["name"], body["spec"]["replicas"]
        try:
            await self._client.raw(ReplicaSet.kind).create(body)
        except AlreadyExists:
            there = await self._sets.fetch(Key(found.metadata.namespace, name))
            if there is None:
                raise
            owner = podwork.controller_of(there)
            if owner is not None and owner.uid == found.metadata.uid and rollouts.current(found, [there]):
                return True  # made in a pass before, and the cache does not know it yet
            count = (found.status.collision_count or 0) + 1
            await self._tell(found, msgspec.structs.replace(found.status, collision_count=count), "")
            return False
        except ApiError as error:
            why = f'Failed to create new replica set "{name}": {error}'
            self._recorder.record(found, "Warning", "ReplicaSetCreateError", why)
            raise
        if replicas:
            self._recorder.record(
                found, "Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {replicas}"
            )
        return True

    async def _change(self, found: Deployment, change: rollouts.Change) -> None:
        target = change.found
        await self._client.of(ReplicaSet).patch(
            target.key, change.patch, resource_version=target.metadata.resource_version
        )
        if change.scaled_to is not None:
            before, name = target.spec.replicas, target.metadata.name
            way = "up" if before < change.scaled_to else "down"
            message = f"Scaled {way} replica set {name} from {before} to {change.scaled_to}"
            self._recorder.record(found, "Normal", "ScalingReplicaSet", message)

    async def _tell(self, found: Deployment, status: DeploymentStatus, revision: str) -> None:
        """Writes the status, and the revision with it; no request where both are so already."""
        change: RawObject = {}
        if difference := merge_diff(found.status.to_raw(), status.to_raw()):
            change["status"] = difference
        if revision and found.metadata.annotations.get(rollouts.REVISION) != revision:
            change["metadata"] = {"annotations": {rollouts.REVISION: revision}}
        if change:
            await self._client.of(Deployment).patch(
                found.key, change, resource_version=found.metadata.resource_version, subresource="status"
            )
