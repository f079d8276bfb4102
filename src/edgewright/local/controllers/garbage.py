"""Garbage collection by owner: what belongs to nothing goes; an owner waits for its dependents, or leaves them behind.

Every kind that is served is watched and fed to `ownership`; what that says is looked at live before anything is
written, and every write carries the uid and version of what was looked at. `GarbageCollector.run` keeps the watches,
the manager's workers do the rest. Events are not collected: they expire.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

from edgewright.local.controllers.discovery import ServedKinds, one_version_each
from edgewright.local.controllers.ownership import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Graph,
    Member,
    Owner,
    Strip,
    decide,
)
from edgewright.local.controllers.resources import Namespace
from edgewright.runtime import (
    DONE,
    Api,
    Clock,
    For,
    Key,
    Kind,
    Manager,
    OwnerReference,
    RawObject,
    Resource,
    Result,
    SystemClock,
    logs,
    requeue_after,
)
from edgewright.runtime.client import Unread
from edgewright.runtime.errors import NotFound
from edgewright.runtime.reflector import Reflector

_log = logs.get("local.garbage")
_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
_REMEMBERED = 4096
_UNLISTED_SECONDS = 0.5


class Tracked(Resource, frozen=True, gc=False, kw_only=True):
    """An object of any kind, of which only the metadata counts."""


class GarbageCollector:
    """Watches all kinds and deletes what has lost its owners."""

    def __init__(self, manager: Manager, *, kinds: ServedKinds, workers: int = 4, clock: Clock | None = None) -> None:
        self._client = manager.client
        self._kinds = kinds
        self._clock = clock or SystemClock()
        self._graph = Graph()
        self._monitors: dict[Kind, _Monitor] = {}
        self._tasks: dict[Kind, asyncio.Task[None]] = {}
        self._gone: OrderedDict[object, None] = OrderedDict()  # owners that are known to be gone: they never come back
        self._held: set[str] = set()  # to be looked at when every kind has been listed
        self._changed = asyncio.Event()
        # The queue's keys are uids here: no cache holds every kind, so no source feeds it but the graph.
        never = For(manager.cache(Namespace), when=lambda _: False)
        self._controller = manager.controller("garbage-collector", self._reconcile, never, workers=workers)
        kinds.subscribe(self._changed.set)
        self._changed.set()

    async def run(self) -> None:
        """Keeps watches of all kinds that are served until cancelled."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._follow_kinds()
        finally:
            await _end(self._tasks.values())

    @property
    def synced(self) -> bool:
        """Whether every kind that is known has been listed once."""
        return bool(self._monitors) and all(monitor.listed for monitor in self._monitors.values())

    async def _follow_kinds(self) -> None:
        wanted = {kind for kind in one_version_each(self._kinds()) if (kind.group, kind.plural) not in _IGNORED}
        over = [kind for kind in self._monitors if kind not in wanted]
        await _end([self._tasks.pop(kind) for kind in over])
        for kind in over:
            for uid in self._monitors.pop(kind).uids.values():
                self._graph.forget(uid)
        for kind in wanted - self._monitors.keys():
            monitor = self._monitors[kind] = _Monitor(kind, self)
            api: Api[Tracked] = Api(self._client.transport, kind, Tracked)
            reflector = Reflector(api, monitor, clock=self._clock)
            self._tasks[kind] = asyncio.create_task(reflector.run(), name=f"garbage collection of {kind}")
        # References to kinds that were not served a moment ago may mean something now.
        self._look(self._graph.unseen())
        self.release()

    # --- for the monitors ------------------------------------------------------------------------------------------

    def put(self, kind: Kind, obj: Tracked) -> None:
        """An object is so now."""
        self._look(self._graph.put(kind, obj.metadata))

    def drop(self, uid: str) -> None:
        """An object is gone for good."""
        self._remember_gone(uid)
        self._look(self._graph.remove(uid))

    def release(self) -> None:
        """Lets the workers at what was held, when every kind has been listed or cannot be."""
        if self._held and all(monitor.listed or monitor.problem for monitor in self._monitors.values()):
            held, self._held = self._held, set()
            self._look(held)

    def _look(self, uids: Iterable[str]) -> None:
        # At the start dependents come before their owners as often as after: nobody is looked at before all are there.
        if all(monitor.listed or monitor.problem for monitor in self._monitors.values()):
            for uid in uids:
                self._controller.queue.add(Key("", uid))
        else:
            self._held.update(uids)

    # --- for the workers -------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> Result:
        member = self._graph.get(key.name)
        if member is not None and not member.seen:
            for dependent, _ in self._graph.dependents(member):
                self._controller.queue.add(Key("", dependent.uid))
            return DONE
        live = None if member is None or self._graph.settled(member) else await self._fetch(member)
        if member is None or live is None:
            return DONE
        if not live.deleting:
            await self._judge(member, live)
        elif not self.synced and not {ORPHAN, FOREGROUND}.isdisjoint(live.metadata.finalizers):
            return requeue_after(_UNLISTED_SECONDS)  # who belongs to it is not known yet
        elif ORPHAN in live.metadata.finalizers:
            await self._leave_behind(member, live)
        elif FOREGROUND in live.metadata.finalizers:
            return await self._wait_for_dependents(member, live)
        return DONE

    async def _judge(self, member: Member, live: Tracked) -> None:
        """Deletes the object, or strips it of owners that are going, as its owners stand."""
        owners = {reference.uid: await self._state(member, reference) for reference in live.metadata.owner_references}
        circle = any(dependent.waiting for dependent, _ in self._graph.dependents(member))
        action = decide(
            owners,
            finalizers=live.metadata.finalizers,
            has_dependents=bool(member.dependents),
            in_circle=circle,
        )
        if isinstance(action, Strip):
            kept = [each for each in live.metadata.owner_references if each.uid not in action.uids]
            await _write_owners(self._api(member), live, kept)
        elif isinstance(action, Delete):
            if action.unblock:
                unblocked = [_unblocked(reference) for reference in live.metadata.owner_references]
                live = await _write_owners(self._api(member), live, unblocked)
            _log.debug("deleting orphaned object", kind=str(member.kind), key=member.key)
            with suppress(NotFound):
                await self._api(member).delete(
                    member.key,
                    uid=live.metadata.uid,
                    resource_version=live.metadata.resource_version,
                    propagation=action.propagation,
                )

    async def _leave_behind(self, member: Member, live: Tracked) -> None:
        """Takes the owner's references off all its dependents, and then lets it go."""
        async for api, child in self._dependents_now(member):
            left = [each for each in child.metadata.owner_references if each.uid != member.uid]
            await _write_owners(api, child, left)
        await self._without_finalizer(member, live, ORPHAN)

    async def _wait_for_dependents(self, member: Member, live: Tracked) -> Result:
        """Lets the owner go when nothing that blocks it is left; until then, sees to what does."""
        blocking = [each for each, reference in self._graph.dependents(member) if reference.block_owner_deletion]
        for each in blocking:
            if not each.waiting:
                self._controller.queue.add(Key("", each.uid))
        if blocking:
            return DONE  # it is looked at again when one of them goes
        async for _, child in self._dependents_now(member):
            if any(own.uid == member.uid and own.block_owner_deletion for own in child.metadata.owner_references):
                return requeue_after(_UNLISTED_SECONDS)  # its watch is behind
        await self._without_finalizer(member, live, FOREGROUND)
        return DONE

    async def _dependents_now(self, member: Member) -> AsyncIterator[tuple[Api[Tracked], Tracked]]:
        """All that belongs to the object, as the server has it now.

        Watches of other kinds may be behind that of the owner: who is not in the graph yet would be taken for
        forsaken in a moment, and deleted.
        """
        inside = bool(member.kind and member.kind.namespaced)
        for kind in list(self._monitors):
            if inside and not kind.namespaced:
                continue
            api: Api[Tracked] = Api(self._client.transport, kind, Tracked)
            with suppress(NotFound):  # the kind went away meanwhile
                for child in (await api.list(member.key.namespace if inside else None)).items:
                    if any(each.uid == member.uid for each in child.metadata.owner_references):
                        yield api, child

    async def _state(self, member: Member, reference: OwnerReference) -> Owner:
        """How an owner stands: by the graph where that knows it, else by asking for it by its name."""
        known = self._graph.state(member, reference)
        if known is not None:
            return known
        if reference.uid in self._gone:
            return Owner.ABSENT
        kind = self._kinds.find(reference.api_version, reference.kind)
        if kind is None or (kind.namespaced and not member.key.namespace):
            return Owner.UNKNOWN
        namespace = member.key.namespace if kind.namespaced else ""
        return await self._ask(kind, Key(namespace, reference.name), reference.uid)

    async def _ask(self, kind: Kind, key: Key, uid: str) -> Owner:
        if (uid, kind, key) in self._gone:
            return Owner.ABSENT
        api: Api[Tracked] = Api(self._client.transport, kind, Tracked)
        try:
            owner = await api.get(key)
        except NotFound as error:
            if not (error.status.details and error.status.details.name):
                raise  # not the object is missing, but its kind: for a moment, perhaps
            owner = None
        if owner is None or owner.metadata.uid != uid:
            self._remember_gone((uid, kind, key))
            return Owner.ABSENT
        return Owner.WAITING if owner.deleting and FOREGROUND in owner.metadata.finalizers else Owner.SOLID

    def _remember_gone(self, owner: object) -> None:
        self._gone[owner] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)

    def _api(self, member: Member) -> Api[Tracked]:
        assert member.kind is not None, "only what was seen is read and written"  # noqa: S101
        return Api(self._client.transport, member.kind, Tracked)

    async def _fetch(self, member: Member) -> Tracked | None:
        """The object as it is now; None where it is gone, of which its watch will tell."""
        try:
            live = await self._api(member).get(member.key)
        except NotFound:
            return None
        return live if live.metadata.uid == member.uid else None

    async def _without_finalizer(self, member: Member, live: Tracked, finalizer: str) -> None:
        left = [name for name in live.metadata.finalizers if name != finalizer]
        with suppress(NotFound):
            await _patch(self._api(member), live, {"metadata": {"finalizers": left or None}})


async def _write_owners(api: Api[Tracked], live: Tracked, owners: Iterable[OwnerReference]) -> Tracked:
    references = [owner.to_raw() for owner in owners]
    return await _patch(api, live, {"metadata": {"ownerReferences": references or None}})


async def _patch(api: Api[Tracked], live: Tracked, change: RawObject) -> Tracked:
    return await api.patch(live.key, change, resource_version=live.metadata.resource_version)


class _Monitor:
    """The sink of one kind's watch."""

    def __init__(self, kind: Kind, collector: GarbageCollector) -> None:
        self._kind = kind
        self._collector = collector
        self.uids: dict[Key, str] = {}
        self.listed = False
        self.problem: str | None = None

    def put(self, obj: Tracked) -> None:
        known = self.uids.get(obj.key)
        if known is not None and known != obj.metadata.uid:
            self._collector.drop(known)  # deleted and made again in a gap
        self.uids[obj.key] = obj.metadata.uid
        self._collector.put(self._kind, obj)

    def put_unread(self, unread: Unread) -> None:
        _log.warning("object cannot be decoded", kind=str(self._kind), key=unread.key, problem=unread.problem)

    def drop(self, key: Key) -> None:
        uid = self.uids.pop(key, None)
        if uid is not None:
            self._collector.drop(uid)

    def keep_only(self, _namespace: str, present: set[Key]) -> None:
        for key in [key for key in self.uids if key not in present]:
            self.drop(key)
        self.listed = True
        self._collector.release()

    def report(self, _namespace: str, problem: str | None) -> None:
        self.problem = problem
        self._collector.release()


def _unblocked(reference: OwnerReference) -> OwnerReference:
    return OwnerReference(
        api_version=reference.api_version,
        kind=reference.kind,
        name=reference.name,
        uid=reference.uid,
        controller=reference.controller,
        block_owner_deletion=False,
    )


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
