"""The revisions of workloads as the loop reads and writes them: with its own last writes on top of the cache.

Every write carries the resource version that the decision was made from, so that of two that decide at once one is
refused and decides again. It never decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from edgewright.api.edge_revisions import workload_of
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.controllers.edgeworkload.staging import Change, Create, Decision, Delete
from edgewright.controllers.ledger import Ledger
from edgewright.runtime import logs
from edgewright.runtime.cache import Cache
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from edgewright.runtime.patches import merge_diff

_log = logs.get("controllers.edgeworkload")

_WORKLOAD: Final = "edge-workload-revisions"


class Revisions:
    """The revisions of all workloads of one kind."""

    def __init__(self, manager: Manager, kind: type[EdgeWorkload]) -> None:
        self._kind = kind.kind.kind
        self._api = manager.client.of(EdgeWorkloadRevision)
        self._recorder = manager.recorder
        self._ledger = Ledger(manager.cache(EdgeWorkloadRevision))
        self._index = f"{_WORKLOAD}-{self._kind}"
        self.cache.add_index(self._index, self.workload)

    @property
    def cache(self) -> Cache[EdgeWorkloadRevision]:
        """What the loop hears of."""
        return self._ledger.cache

    def workload(self, revision: EdgeWorkloadRevision) -> Iterator[Key]:
        """The workload that a revision is of, where it is of this kind."""
        kind, key = workload_of(revision)
        if kind == self._kind:
            yield key

    def of(self, workload: Key) -> list[EdgeWorkloadRevision]:
        """The revisions of a workload, the newest first."""
        known = {each.key for each in self.cache.by(self._index, workload)}
        known |= {each.key for each in self._ledger.pending if workload in self.workload(each)}
        found = [each for key in known if (each := self._ledger.get(key)) is not None and not each.deleting]
        return sorted(found, key=lambda each: each.spec.number, reverse=True)

    async def carry_out(self, workload: EdgeWorkload, decision: Decision) -> None:
        """Writes what was decided, in its order; the first write that fails ends it."""
        for action in decision.actions:
            match action:
                case Create(revision):
                    self._ledger.wrote(await self._api.create(revision))
                case Change(revision, spec):
                    change = {"spec": merge_diff(revision.spec.to_raw(), spec.to_raw())}
                    version = revision.metadata.resource_version
                    self._ledger.wrote(await self._api.patch(revision.key, change, resource_version=version))
                    self._tell(workload, action)
                case Delete(revision):
                    await self._delete(revision)

    async def forget(self, workload: Key) -> None:
        """Deletes all revisions of a workload that is gone."""
        for revision in self.of(workload):
            await self._delete(revision)

    async def _delete(self, revision: EdgeWorkloadRevision) -> None:
        await self._api.discard(revision)
        self._ledger.deleted(revision)

    def _tell(self, workload: EdgeWorkload, action: Change) -> None:
        before, after = action.revision.spec, action.spec
        if len(after.batches) > len(before.batches):
            batch = after.batches[-1]
            count = len(batch.devices)
            whom = "all the rest" if batch.rest else "1 device" if count == 1 else f"{count} devices"
            message = f"batch {batch.name}: version {after.number} ({after.hash}) goes to {whom}"
            self._recorder.record(workload, "Normal", "BatchOpened", message)
            _log.info("batch opened", workload=str(workload.key), batch=batch.name, version=after.number)
        if before.stop is not None and after.stop is None:
            self._recorder.record(workload, "Normal", "RolloutResumed", f"version {after.number} goes on")
