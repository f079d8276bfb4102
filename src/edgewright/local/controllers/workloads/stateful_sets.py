"""Keeps the Pods of each StatefulSet, with their names, claims and order, and replaces them when the template changes.

`ordinals` decides. Claims stay when Pods go, unless the StatefulSet says otherwise.
"""

from __future__ import annotations

from typing import Final

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import ordinals, readiness, revisions
from edgewright.local.controllers.workloads import pods as podwork
from edgewright.local.controllers.workloads.dependents import reference
from edgewright.local.controllers.workloads.kinds import Claim, ControllerRevision, StatefulSet
from edgewright.local.controllers.workloads.loop import Loop, refusal
from edgewright.runtime import DONE, Clock, Key, Manager, Owns, Result
from edgewright.runtime.errors import AlreadyExists, ApiError

_DELETE: Final = "Delete"


class StatefulSets(Loop):
    """The loop over StatefulSets."""

    component = "statefulset-controller"

    def __init__(self, manager: Manager, clock: Clock) -> None:
        super().__init__(manager, clock)
        self._claims = manager.cache(Claim)
        self._history = revisions.History(manager)
        self._work = podwork.PodWork(
            manager,
            StatefulSet,
            self.recorder,
            clock,
            made="Create Pod {pod} in StatefulSet {owner} successful",
            deleted="Delete Pod {pod} in StatefulSet {owner} successful",
            member=lambda found, pod: ordinals.ordinal_of(found, pod) is not None,
        )
        sources = (*self._work.sources(), Owns(self._history.revisions.cache))
        manager.controller("statefulsets", self._reconcile, *sources, workers=4)

    async def _reconcile(self, key: Key) -> Result:
        found = self._work.owners.cache.get(key)
        if found is None:
            return DONE
        pods = await self._work.claim(found)
        update = await self._history.current(found)
        if update is None:
            return DONE
        known = {each.metadata.name: each for each in self._history.of(found)}
        current = known.get(found.status.current_revision, update)
        now = self._clock.now()
        error: ApiError | None = None
        if not found.deleting and self._work.settled(found):
            plan = ordinals.decide(found, pods, current.metadata.name, update.metadata.name, now)
            error = await refusal(self._carry_out(found, plan, current, update))
        status = ordinals.status(found, pods, current.metadata.name, update.metadata.name, now)
        await self._client.of(StatefulSet).write_status(found, status)
        if error is not None:
            raise error
        used = {status.current_revision, status.update_revision}
        used |= {pod.metadata.labels.get(revisions.POD_HASH, "") for pod in pods}
        await self._history.forget(found, found.spec.revision_history_limit, used)
        return readiness.next_pass(pods, found.spec.min_ready_seconds, now)

    async def _carry_out(
        self, found: StatefulSet, plan: ordinals.Plan, current: ControllerRevision, update: ControllerRevision
    ) -> None:
        bodies = []
        for ordinal, is_new in plan.make:
            await self._make_claims(found, ordinal)
            revision = update if is_new else current
            template = found.spec.template if is_new else revisions.template_of(current)
            bodies.append(ordinals.body(found, template, ordinal, revision.metadata.name))
        await self._work.make(found, bodies)
        for pod in plan.condemned:
            await self._hand_over(found, pod)
        await self._work.delete(found, plan.delete)

    async def _make_claims(self, found: StatefulSet, ordinal: int) -> None:
        retention = found.spec.persistent_volume_claim_retention_policy
        for body in ordinals.claims_of(found, ordinal):
            name = body["metadata"]["name"]
            if self._claims.get(Key(found.metadata.namespace, name)) is not None:
                continue
            if retention.when_deleted == _DELETE:
                body["metadata"]["ownerReferences"] = [reference(found)]
            try:
                await self._client.raw(Claim.kind).create(body)
            except AlreadyExists:
                continue
            message = f"Create Claim {name} Pod {found.metadata.name}-{ordinal} in StatefulSet {found.metadata.name} "
            self.recorder.record(found, "Normal", "SuccessfulCreate", f"{message}success")

    async def _hand_over(self, found: StatefulSet, pod: Pod) -> None:
        """The claims of a Pod that goes for good go with it, if the StatefulSet wants that."""
        if found.spec.persistent_volume_claim_retention_policy.when_scaled != _DELETE:
            return
        for body in ordinals.claims_of(found, ordinals.ordinal_of(found, pod) or 0):
            claim = self._claims.get(Key(found.metadata.namespace, body["metadata"]["name"]))
            if claim is not None:
                change = {"metadata": {"ownerReferences": [reference(pod)]}}
                await self._client.of(Claim).change(claim, change)
