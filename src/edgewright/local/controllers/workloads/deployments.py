"""Carries out what `rollouts` decides for each Deployment: creates, scales and removes its ReplicaSets, and reports.

ReplicaSets that match its selector and belong to nobody are adopted.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import rollout_status, rollouts
from edgewright.local.controllers.workloads.dependents import Dependents, Indexed, is_controlled_by
from edgewright.local.controllers.workloads.kinds import Deployment, DeploymentStatus, ReplicaSet
from edgewright.local.controllers.workloads.loop import Loop
from edgewright.local.controllers.workloads.readiness import has_ended
from edgewright.runtime import DONE, Clock, For, Key, Manager, Maps, Owns, RawObject, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, ApiError
from edgewright.runtime.patches import merge_diff
from edgewright.runtime.predicates import anything


class Deployments(Loop):
    """The loop over Deployments."""

    component = "deployment-controller"

    def __init__(self, manager: Manager, clock: Clock) -> None:
        super().__init__(manager, clock)
        self._sets = Dependents(manager, Deployment, ReplicaSet)
        self._deployments = self._sets.owners.cache
        self._pods = Indexed(manager, Pod)
        manager.controller(
            "deployments",
            self._reconcile,
            For(self._deployments, when=anything),
            Owns(self._sets.cache),
            Maps(self._sets.cache, self._sets.adopters),
            Maps(self._pods.cache, self._recreated, when=lambda change: change.new is None),
            workers=4,
        )

    def _recreated(self, pod: Pod) -> Iterable[Key]:
        """The Deployment that waits for all its old Pods to be gone."""
        owner = pod.controller
        found = self._sets.cache.get(Key(pod.metadata.namespace, owner.name)) if owner else None
        above = found.controller if found else None
        if above is None or above.kind != Deployment.kind.kind:
            return ()
        return (Key(pod.metadata.namespace, above.name),)

    async def _reconcile(self, key: Key) -> Result:
        found = self._deployments.get(key)
        if found is None:
            return DONE
        sets = await self._sets.claim(found)
        now = self._clock.now()
        found_now = rollout_status.resumed(found, now)
        plan = rollouts.decide(found_now, sets, old_pods=self._has_old_pods(found, sets), now=now)
        if plan.create is not None and not await self._create(found, plan.create):
            return DONE
        for change in plan.changes:
            await self._change(found, change)
        for each in plan.delete:
            await self._client.of(ReplicaSet).discard(each)
        await self._tell(found, plan.status, plan.revision)
        return DONE if plan.requeue_after is None else requeue_after(plan.requeue_after)

    def _has_old_pods(self, found: Deployment, sets: list[ReplicaSet]) -> bool:
        new = rollouts.current(found, sets)
        return any(not has_ended(pod) for each in sets if each is not new for pod in self._pods.of(each))

    async def _create(self, found: Deployment, body: RawObject) -> bool:
        """Makes a ReplicaSet; False where its name is taken by another, so that the next pass tries another name."""
        name, replicas = body["metadata"]["name"], body["spec"]["replicas"]
        try:
            await self._client.raw(ReplicaSet.kind).create(body)
        except AlreadyExists:
            there = await self._sets.cache.fetch(Key(found.metadata.namespace, name))
            if there is None:
                raise
            if is_controlled_by(there, found) and rollouts.current(found, [there]):
                return True  # made in a pass before, and the cache does not know it yet
            count = (found.status.collision_count or 0) + 1
            await self._tell(found, msgspec.structs.replace(found.status, collision_count=count), "")
            return False
        except ApiError as error:
            why = f'Failed to create new replica set "{name}": {error}'
            self.recorder.record(found, "Warning", "ReplicaSetCreateError", why)
            raise
        if replicas:
            self._tell_scaled(found, name, 0, replicas)
        return True

    async def _change(self, found: Deployment, change: rollouts.Change) -> None:
        target = change.found
        await self._client.of(ReplicaSet).change(target, change.patch)
        if change.scaled_to is not None:
            self._tell_scaled(found, target.metadata.name, target.spec.replicas, change.scaled_to)

    def _tell_scaled(self, found: Deployment, name: str, before: int, after: int) -> None:
        message = f"Scaled {'up' if before < after else 'down'} replica set {name} from {before} to {after}"
        self.recorder.record(found, "Normal", "ScalingReplicaSet", message)

    async def _tell(self, found: Deployment, status: DeploymentStatus, revision: str) -> None:
        """Writes the status, and the revision with it; no request where both are so already."""
        change: RawObject = {}
        if difference := merge_diff(found.status.to_raw(), status.to_raw()):
            change["status"] = difference
        if revision and found.metadata.annotations.get(rollouts.REVISION) != revision:
            change["metadata"] = {"annotations": {rollouts.REVISION: revision}}
        if change:
            await self._client.of(Deployment).change(found, change, subresource="status")
