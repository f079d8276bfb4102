"""What all controllers of workloads do with Pods: find those that are theirs, make more, delete some, adopt, let go.

Each has a `PodWork` of its own. It remembers what it has asked for until the cache shows it, so that a stale cache
never leads to too many Pods or to too few; it decides nothing about how many there are to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import names
from edgewright.local.controllers.workloads.kinds import LabelSelector
from edgewright.runtime import Cache, Change, Clock, Key, Manager, OwnerReference, RawObject, Recorder, Resource
from edgewright.runtime.errors import ApiError, NotFound

BY_OWNER: Final = "controller's uid"
ORPHANS: Final = "orphans of a namespace"
_PATIENCE: Final = 300.0
"""Seconds after which something that was asked for and is not seen is not waited for any more, as in Kubernetes."""


def controller_of(obj: Resource) -> OwnerReference | None:
    """The owner that keeps an object."""
    return next((each for each in obj.metadata.owner_references if each.controller), None)


def indexed(manager: Manager) -> Cache[Pod]:
    """The cache of Pods, with the indexes that all controllers of workloads share."""
    pods = manager.cache(Pod)
    with suppress(ValueError):  # another controller has added them
        pods.add_index(BY_OWNER, _owner_uids)
        pods.add_index(ORPHANS, lambda pod: () if controller_of(pod) else (pod.metadata.namespace,))
    return pods


def _owner_uids(pod: Pod) -> Iterable[str]:
    owner = controller_of(pod)
    return (owner.uid,) if owner else ()


def reference(owner: Resource) -> RawObject:
    """The reference by which an object belongs to its controller."""
    return {
        "apiVersion": owner.kind.api_version,
        "kind": owner.kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def made_of(owner: Resource, template: RawObject, name: str, **metadata: Any) -> RawObject:
    """A Pod of a template that belongs to `owner`."""
    about = template.get("metadata") or {}
    wanted = {
        "name": name,
        "namespace": owner.metadata.namespace,
        "ownerReferences": [reference(owner)],
        **{part: about[part] for part in ("labels", "annotations", "finalizers") if about.get(part)},
        **metadata,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": wanted, "spec": template.get("spec") or {}}


class Asked:
    """What was asked for and is not seen in the cache yet, by the uid of whom it was asked for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[Key, tuple[str, float]] = {}
        self._deleted: dict[str, tuple[str, float]] = {}

    def seen(self, change: Change[Pod]) -> None:
        """Takes notice of a change in the cache."""
        pod = change.latest
        self._made.pop(pod.key, None)
        if change.new is None or pod.deleting:
            self._deleted.pop(pod.metadata.uid, None)

    def settled(self, owner: str) -> bool:
        """Whether the cache shows everything that was asked for, or it has not for so long that it never will."""
        latest = self._clock.elapsed() - _PATIENCE
        self._made = {key: asked for key, asked in self._made.items() if asked[1] >= latest}
        self._deleted = {uid: asked for uid, asked in self._deleted.items() if asked[1] >= latest}
        waiting = (*self._made.values(), *self._deleted.values())
        return all(whose != owner for whose, _ in waiting)

    def making(self, owner: str, key: Key) -> None:
        """A Pod is about to be asked for."""
        self._made[key] = owner, self._clock.elapsed()

    def not_made(self, key: Key) -> None:
        """It was refused."""
        self._made.pop(key, None)

    def deleting(self, owner: str, uid: str) -> None:
        """A deletion is about to be asked for."""
        self._deleted[uid] = owner, self._clock.elapsed()

    def not_deleted(self, uid: str) -> None:
        """It was refused, or the Pod was gone."""
        self._deleted.pop(uid, None)


class PodWork:
    """The Pods of the objects of one kind."""

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        clock: Clock,
        *,
        suffix: Callable[[], str] = names.suffix,
        made: str = "Created pod: {pod}",
        deleted: str = "Deleted pod: {pod}",
    ) -> None:
        self.pods = indexed(manager)
        self._client = manager.client
        self._recorder = recorder
        self._suffix = suffix
        self._words = made, deleted
        self._asked = Asked(clock)
        self.pods.subscribe(self._asked.seen)

    def settled(self, owner: Resource) -> bool:
        """Whether the cache shows all that was done for this object."""
        return self._asked.settled(owner.metadata.uid)

    def of(self, owner: Resource) -> list[Pod]:
        """The Pods that belong to an object, by the cache."""
        return self.pods.by(BY_OWNER, owner.metadata.uid)

    async def claim(
        self,
        owner: Resource,
        selector: LabelSelector,
        current: Callable[[], Any],
        *,
        finalizer: str = "",
        member: Callable[[Pod], bool] = lambda _: True,
    ) -> list[Pod]:
        """The Pods of an object: those it has and still selects, and orphans that it adopts; others are let go.

        `current` fetches the owner as the server has it now: one that is gone or going adopts nobody. `member` says
        of a Pod that is selected whether it could be one of the owner's.
        """
        mine = self.of(owner)
        kept = [pod for pod in mine if selector.selects(pod.metadata.labels) and member(pod)]
        if owner.deleting:
            return kept
        for pod in mine:
            if pod not in kept:
                await self._let_go(pod, owner.metadata.uid, finalizer)
        orphans = [
            pod
            for pod in self.pods.by(ORPHANS, owner.metadata.namespace)
            if not pod.deleting and selector.selects(pod.metadata.labels) and member(pod)
        ]
        if orphans:
            fresh = await current()
            if fresh is None or fresh.deleting or fresh.metadata.uid != owner.metadata.uid:
                return kept
            for pod in orphans:
                kept += await self._adopt(pod, owner, finalizer)
        return kept

    async def _let_go(self, pod: Pod, uid: str, finalizer: str) -> None:
        left = [each.to_raw() for each in pod.metadata.owner_references if each.uid != uid]
        change: RawObject = {"ownerReferences": left or None}
        if finalizer:
            change["finalizers"] = [each for each in pod.metadata.finalizers if each != finalizer] or None
        with suppress(NotFound):
            await self._client.of(Pod).patch(
                pod.key, {"metadata": change}, resource_version=pod.metadata.resource_version
            )

    async def _adopt(self, pod: Pod, owner: Resource, finalizer: str) -> list[Pod]:
        references = [*(each.to_raw() for each in pod.metadata.owner_references), reference(owner)]
        change: RawObject = {"ownerReferences": references}
        if finalizer:
            change["finalizers"] = [*pod.metadata.finalizers, finalizer]
        version = pod.metadata.resource_version
        try:
            return [await self._client.of(Pod).patch(pod.key, {"metadata": change}, resource_version=version)]
        except NotFound:
            return []

    async def make(self, owner: Resource, bodies: Sequence[RawObject]) -> None:
        """Makes Pods, one first and then more at once each time, so that a refusal is not met many times."""
        at, size = 0, 1
        while at < len(bodies):
            batch = bodies[at : at + size]
            outcomes = await asyncio.gather(*(self._make(owner, body) for body in batch), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome
            at, size = at + len(batch), size * 2

    def generated_name(self, owner: Resource) -> tuple[str, str]:
        """A new name for a Pod of an object, and what it was generated from."""
        prefix = f"{owner.metadata.name}-"
        return names.generated(prefix, self._suffix()), prefix

    async def _make(self, owner: Resource, body: RawObject) -> None:
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        self._asked.making(owner.metadata.uid, key)
        try:
            await self._client.raw(Pod.kind).create(body)
        except BaseException as error:
            self._asked.not_made(key)
            if isinstance(error, ApiError) and not _namespace_is_going(error):
                self._recorder.record(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self._recorder.record(
            owner, "Normal", "SuccessfulCreate", self._words[0].format(pod=key.name, owner=owner.metadata.name)
        )

    async def delete(self, owner: Resource, pods: Iterable[Pod]) -> None:
        """Deletes Pods; one that is gone already is no error."""
        await asyncio.gather(*(self._delete(owner, pod) for pod in pods))

    async def _delete(self, owner: Resource, pod: Pod) -> None:
        self._asked.deleting(owner.metadata.uid, pod.metadata.uid)
        try:
            await self._client.of(Pod).delete(pod.key, uid=pod.metadata.uid)
        except NotFound:
            self._asked.not_deleted(pod.metadata.uid)
            return
        except BaseException as error:
            self._asked.not_deleted(pod.metadata.uid)
            if isinstance(error, ApiError):
                self._recorder.record(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._recorder.record(
            owner, "Normal", "SuccessfulDelete", self._words[1].format(pod=pod.key.name, owner=owner.metadata.name)
        )


def _namespace_is_going(error: ApiError) -> bool:
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
