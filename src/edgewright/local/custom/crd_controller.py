"""The component that makes definitions take effect: names are settled, kinds are served, and what is deleted goes.

It follows the CustomResourceDefinitions of the store, tells `Kinds` before it writes Established, and cleans up the
objects of a definition whose deletion was asked for before it lets the definition go. It answers no requests.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from edgewright.local import apply
from edgewright.local.custom import kinds as custom_kinds
from edgewright.local.custom.conditions import CLEANUP, is_true, set_condition, terminating
from edgewright.local.custom.names import accepted_names, settle, taken
from edgewright.local.history import Expired, Stored, StoreKey, TooSlow
from edgewright.local.served import Served
from edgewright.local.store import Changed, NotThere, Store, StoreError
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.objects import RawObject

if TYPE_CHECKING:
    from edgewright.local.kinds import Kinds

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
"""The name of definitions in the store."""

_RETRY_SECONDS = 1.0
_MANAGER = "kube-apiserver"
_log = logs.get("local.custom")
_encode = msgspec.json.Encoder().encode


class Definitions:
    """Follows the definitions of a store; `load` once at the start, then `run`."""

    def __init__(self, store: Store, kinds: Kinds, *, clock: Clock) -> None:
        self._store = store
        self._kinds = kinds
        self._clock = clock
        self._read: dict[str, tuple[int, RawObject]] = {}
        self._made: dict[str, tuple[object, list[Served]]] = {}
        self._serving: list[Served] = []
        self._ready = asyncio.Event()
        self._cleaning: dict[str, asyncio.Task[None]] = {}

    def load(self) -> None:
        """Serves what the store has, so that nobody who comes first finds less than there was before."""
        self._serve(self._definitions().values())

    async def ready(self) -> None:
        """Returns when everything that was in the store has been looked at."""
        await self._ready.wait()

    async def run(self) -> None:
        """Follows the definitions until the store is closed."""
        async with asyncio.TaskGroup() as tasks:
            try:
                while True:
                    try:
                        with self._store.history.subscribe(RESOURCE, None, self._store.revision) as changes:
                            await self._settle(tasks)
                            self._ready.set()
                            async for _ in changes:
                                await self._settle(tasks)
                            return
                    except (TooSlow, Expired):
                        continue
                    except StoreError as error:
                        _log.warning("cannot watch CustomResourceDefinitions", error=error)
                        await self._clock.sleep(_RETRY_SECONDS)
            finally:
                for task in self._cleaning.values():
                    task.cancel()

    # Names and kinds

    async def _settle(self, tasks: asyncio.TaskGroup) -> None:
        """Brings every definition as far as it can be brought now."""
        crds = self._definitions()
        for name in list(crds):
            crds[name] = await self._settle_one(name, crds)
        self._serve(crds.values())
        for name, crd in crds.items():
            if _deleted(crd) and CLEANUP in (crd["metadata"].get("finalizers") or ()) and name not in self._cleaning:
                task = tasks.create_task(self._clean_up(name), name=f"cleaning up {name}")
                self._cleaning[name] = task
                task.add_done_callback(partial(self._cleaning_ended, name))

    def _cleaning_ended(self, name: str, _task: asyncio.Task[None]) -> None:
        self._cleaning.pop(name, None)

    async def _settle_one(self, name: str, crds: dict[str, RawObject]) -> RawObject:
        """The definition with its names and conditions settled, as it is in the store then."""
        crd = crds[name]
        waiting = is_true(crd, "NamesAccepted") and not is_true(crd, "Established")
        if crd["spec"]["names"] == accepted_names(crd) and not waiting:
            # Nothing is left to settle; a condition that somebody took away stays away, as it does on the real server.
            return crd
        others = taken(crd["spec"]["group"], crds.values(), self._kinds.builtin())
        names, condition = settle(crd, others)
        accepted = condition["status"] == "True"
        new = copy.deepcopy(crd)
        new["status"] = {**(new.get("status") or {}), "acceptedNames": names}
        now = self._clock.now()
        set_condition(new, condition, now)
        if accepted and not is_true(new, "Established"):
            # Before anybody can read that the kind is established it must be there.
            self._serve([*(each for key, each in crds.items() if key != name), new])
            established = {
                "type": "Established",
                "status": "True",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            }
            set_condition(new, established, now)
        elif not is_true(new, "Established"):
            refused = {"reason": "NotAccepted", "message": "not all names are accepted"}
            set_condition(new, {"type": "Established", "status": "False", **refused}, now)
        if new.get("status") == crd.get("status"):
            return crd
        return await self._write(name, new) or crd

    def _serve(self, crds: Iterable[RawObject]) -> None:
        """Tells which kinds the definitions bring, if that has changed."""
        serving: list[Served] = []
        for crd in sorted(crds, key=lambda each: str(each["metadata"]["name"])):
            if is_true(crd, "NamesAccepted") or is_true(crd, "Established"):
                serving += self._kinds_of(crd)
        if [id(each) for each in serving] != [id(each) for each in self._serving]:
            self._serving = serving
            self._kinds.set_custom(serving)

    def _kinds_of(self, crd: RawObject) -> list[Served]:
        """The kinds of a definition, made again only when something about them has changed."""
        metadata = crd["metadata"]
        state = (metadata["uid"], metadata.get("generation"), accepted_names(crd), is_true(crd, "Terminating"))
        made = self._made.get(metadata["name"])
        if made is None or made[0] != state:
            try:
                made = (state, custom_kinds.served(crd))
            except Exception as error:  # one that an older version took and this one cannot serve must not stop all
                _log.error("CustomResourceDefinition cannot be served", definition=metadata["name"], error=error)
                made = (state, [])
            self._made[metadata["name"]] = made
        return made[1]

    # Deletion

    async def _clean_up(self, name: str) -> None:
        """Deletes the objects of a definition and then the definition; waits for objects that finalizers hold."""
        while True:
            try:
                if await self._cleaned(name):
                    return
            except (Changed, NotThere, TooSlow, Expired):
                continue  # somebody else was faster: look again
            except StoreError as error:
                _log.warning("objects of a CustomResourceDefinition cannot be deleted", definition=name, error=error)
                await self._clock.sleep(_RETRY_SECONDS)

    async def _cleaned(self, name: str) -> bool:
        crd = self._definitions().get(name)
        if crd is None or not _deleted(crd) or CLEANUP not in (crd["metadata"].get("finalizers") or ()):
            return True
        if not is_true(crd, "Established"):
            done = terminating("NeverEstablished", "resource was never established", going=False)
            return await self._let_go(name, done)
        progress = terminating("InstanceDeletionInProgress", "CustomResource deletion is in progress", going=True)
        new = copy.deepcopy(crd)
        set_condition(new, progress, self._clock.now())
        if new["status"] != crd["status"]:
            await self._write(name, new)
        with self._store.history.subscribe(name, None, self._store.revision) as changes:
            while objects := self._store.list(name).items:
                for stored in objects:
                    await self._delete(stored)
                if not self._store.list(name).items:
                    break
                if await anext(changes, None) is None:
                    return True  # the store is closed
        done = terminating("InstanceDeletionCompleted", "removed all instances", going=False)
        return await self._let_go(name, done)

    async def _delete(self, stored: Stored) -> None:
        """Removes one object, or asks for its deletion where finalizers hold it."""
        obj: RawObject = msgspec.json.decode(stored.body)
        metadata = obj["metadata"]
        try:
            if not metadata.get("finalizers"):
                await self._store.delete(stored.key, stored.revision, _at_revision(obj))
            elif "deletionTimestamp" not in metadata:
                metadata["deletionTimestamp"] = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                metadata["deletionGracePeriodSeconds"] = 0
                if metadata.get("generation"):
                    metadata["generation"] += 1
                await self._store.update(stored.key, stored.revision, _at_revision(obj))
        except (Changed, NotThere):
            return  # it is looked at again with the next list

    async def _let_go(self, name: str, condition: RawObject) -> bool:
        """Takes our finalizer off; the definition goes with the last one."""
        crd = self._definitions().get(name)
        if crd is None:
            return True
        new = copy.deepcopy(crd)
        set_condition(new, condition, self._clock.now())
        left = [each for each in new["metadata"].pop("finalizers") if each != CLEANUP]
        if left:
            new["metadata"]["finalizers"] = left
            self._note_owner(crd, new)
            await self._store.update(_key(name), self._read[name][0], _at_revision(new))
        else:
            await self._store.delete(_key(name), self._read[name][0], _at_revision(new))
        return True

    # The store

    def _definitions(self) -> dict[str, RawObject]:
        """All definitions by name; each state is decoded once."""
        current: dict[str, tuple[int, RawObject]] = {}
        for stored in self._store.list(RESOURCE).items:
            name = stored.key.name
            known = self._read.get(name)
            if known is None or known[0] != stored.revision:
                known = (stored.revision, msgspec.json.decode(stored.body))
            current[name] = known
        self._read = current
        for name in self._made.keys() - current.keys():
            del self._made[name]
        return {name: crd for name, (_, crd) in current.items()}

    async def _write(self, name: str, crd: RawObject) -> RawObject | None:
        """Writes the status of a definition over the state that was read; None when it has changed meanwhile."""
        self._note_owner(self._read[name][1], crd)
        try:
            stored = await self._store.update(_key(name), self._read[name][0], _at_revision(crd))
        except (Changed, NotThere):
            return None
        self._read[name] = (stored.revision, crd)
        return crd

    def _note_owner(self, live: RawObject, new: RawObject) -> None:
        """Says in the definition who has written its status: the API server itself."""
        served = self._kinds.stored_as(RESOURCE)
        if served is None:
            return
        owners = apply.record(
            live,
            new,
            self._kinds.fields(served),
            manager=_MANAGER,
            api_version=served.kind.api_version,
            subresource="status",
            now=self._clock.now(),
        )
        if owners:
            new["metadata"]["managedFields"] = owners


def _deleted(crd: RawObject) -> bool:
    return "deletionTimestamp" in crd["metadata"]


def _key(name: str) -> StoreKey:
    return StoreKey(RESOURCE, "", name)


def _at_revision(obj: RawObject) -> Callable[[int], bytes]:
    """Gives the body with the revision in it."""

    def make(revision: int) -> bytes:
        obj["metadata"]["resourceVersion"] = str(revision)
        return _encode(obj)

    return make
