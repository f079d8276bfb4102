"""Keeps the Pods of each StatefulSet, with their names, claims and order, and replaces them when the template changes.

`add` registers the controller; `ordinals` decides. Claims stay when Pods go, unless the StatefulSet says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import ordinals, readiness, revisions
from edgewright.local.controllers.workloads import pods as podwork
from edgewright.local.controllers.workloads.kinds import Claim, ControllerRevision, StatefulSet
from edgewright.runtime import DONE, Clock, For, Key, Manager, Maps, Owns, RawObject, Recorder, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, ApiError
from edgewright.runtime.predicates import anything

_DELETE: Final = "Delete"


def add(manager: Manager, *, clock: Clock) -> Recorder:
    """Registers the controller; what is returned sends its Events."""
    recorder = Recorder(manager.client, "statefulset-controller", clock=clock)
    _StatefulSets(manager, recorder, clock).add()
    return recorder


class _StatefulSets:
    def __init__(self, manager: Manager, recorder: Recorder, clock: Clock) -> None:
        self._manager = manager
        self._client = manager.client
        self._recorder = recorder
        self._clock = clock
        self._sets = manager.cache(StatefulSet)
        self._claims = manager.cache(Claim)
        self._history = revisions.History(manager)
        self._sets.add_index("namespace", lambda found: (found.metadata.namespace,))
        self._work = podwork.PodWork(
            manager,
            recorder,
            clock,
            made="Create Pod {pod} in StatefulSet {owner} successful",
            deleted="Delete Pod {pod} in StatefulSet {owner} successful",
        )

    def add(self) -> None:
        self._manager.controller(
            "statefulsets",
            self._reconcile,
            For(self._sets, when=anything),
            Owns(self._work.pods),
            Owns(self._history.cache),
            Maps(self._work.pods, self._adopters),
            workers=4,
        )

    def _adopters(self, pod: Pod) -> Iterable[Key]:
        if podwork.controller_of(pod) is not None:
            return ()
        found = self._sets.by("namespace", pod.metadata.namespace)
        return [
            each.key
            for each in found
            if each.spec.selector.selects(pod.metadata.labels) and ordinals.ordinal_of(each, pod) is not None
        ]

    async def _reconcile(self, key: Key) -> Result:
        found = self._sets.get(key)
        if found is None:
            return DONE
        pods = await self._work.claim(
            found,
            found.spec.selector,
            lambda: self._sets.fetch(key),
            member=lambda pod: ordinals.ordinal_of(found, pod) is not None,
        )
        update = await self._history.current(found, found.spec.template, found.status.collision_count)
        if update is None:
            collided = (found.status.collision_count or 0) + 1
            wanted = msgspec.structs.replace(found.status, collision_count=collided)
            await self._client.of(StatefulSet).write_status(found, wanted)
            return DONE
        known = {each.metadata.name: each for each in self._history.of(found)}
        current = known.get(found.status.current_revision, update)
        now = self._clock.now()
        error: ApiError | None = None
        if not found.deleting and self._work.settled(found):
            plan = ordinals.decide(found, pods, current.metadata.name, update.metadata.name, now)
            try:
                await self._carry_out(found, plan, current, update)
            except ApiError as refused:
                error = refused
        status = ordinals.status(found, pods, current.metadata.name, update.metadata.name, now)
        await self._client.of(StatefulSet).write_status(found, status)
        if error is not None:
            raise error
        used = {status.current_revision, status.update_revision}
        used |= {pod.metadata.labels.get(revisions.POD_HASH, "") for pod in pods}
        await self._history.forget(found, found.spec.revision_history_limit, used)
        wait = readiness.soonest(pods, found.spec.min_ready_seconds, now)
        return DONE if wait is None else requeue_after(wait)

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
                body["metadata"]["ownerReferences"] = [podwork.reference(found)]
            try:
                await self._client.raw(Claim.kind).create(body)
            except AlreadyExists:
                continue
            message = f"Create Claim {name} Pod {found.metadata.name}-{ordinal} in StatefulSet {found.metadata.name} "
            self._recorder.record(found, "Normal", "SuccessfulCreate", f"{message}success")

    async def _hand_over(self, found: StatefulSet, pod: Pod) -> None:
        """The claims of a Pod that goes for good go with it, if the StatefulSet wants that."""
        if found.spec.persistent_volume_claim_retention_policy.when_scaled != _DELETE:
            return
        for body in ordinals.claims_of(found, ordinals.ordinal_of(found, pod) or 0):
            claim = self._claims.get(Key(found.metadata.namespace, body["metadata"]["name"]))
            if claim is not None:
                references: list[RawObject] = [podwork.reference(pod)]
                change = {"metadata": {"ownerReferences": references}}
                version = claim.metadata.resource_version
                await self._client.of(Claim).patch(claim.key, change, resource_version=version)
