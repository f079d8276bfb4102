"""Who belongs to whom: what has a workload as its controller, orphans that it adopts, and those that it lets go.

`pods` keeps the Pods of all workloads here, `deployments` their ReplicaSets. The caches with indexes are the manager's,
so that all controllers share them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from edgewright.local.controllers.workloads.kinds import Workload
from edgewright.runtime import Cache, Key, Manager, RawObject, Resource
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import owner_reference

_BY_OWNER: Final = "controller's uid"
_ORPHANS: Final = "orphans of a namespace"
_BY_NAMESPACE: Final = "namespace"

R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Workload)


def is_controlled_by(obj: Resource, owner: Resource) -> bool:
    """Whether this owner keeps an object."""
    return obj.controller is not None and obj.controller.uid == owner.metadata.uid


def reference(owner: Resource) -> RawObject:
    """The reference by which an object belongs to its controller."""
    return owner_reference(owner, blocking=True).to_raw()


class Indexed(Generic[R]):
    """The cache of a kind, with the indexes by which its objects are found."""

    def __init__(self, manager: Manager, kind: type[R]) -> None:
        self.cache: Cache[R] = manager.cache(kind)
        self._add(_BY_OWNER, lambda each: (each.controller.uid,) if each.controller else ())
        self._add(_ORPHANS, lambda each: () if each.controller else (each.metadata.namespace,))
        self._add(_BY_NAMESPACE, lambda each: (each.metadata.namespace,))

    def _add(self, name: str, values: Callable[[R], Iterable[Hashable]]) -> None:
        with suppress(ValueError):  # another controller has added it
            self.cache.add_index(name, values)

    def of(self, owner: Resource) -> list[R]:
        """What belongs to an object, by the cache."""
        return self.by_uid(owner.metadata.uid)

    def by_uid(self, owner: str) -> list[R]:
        """What belongs to the object with this uid."""
        return self.cache.by(_BY_OWNER, owner)

    def within(self, namespace: str) -> list[R]:
        """What is in a namespace."""
        return self.cache.by(_BY_NAMESPACE, namespace)

    def orphans(self, namespace: str) -> list[R]:
        """What is in a namespace and has no controller."""
        return self.cache.by(_ORPHANS, namespace)


class Dependents(Indexed[R], Generic[W, R]):
    """The objects of one kind that belong to those of another by a selector.

    `member` says of one that is selected whether it could be the owner's; `finalizer` is what an owner puts on its own.
    """

    def __init__(
        self,
        manager: Manager,
        owners: type[W],
        kind: type[R],
        *,
        finalizer: str = "",
        member: Callable[[W, R], bool] = lambda _owner, _each: True,
    ) -> None:
        super().__init__(manager, kind)
        self.owners = Indexed(manager, owners)
        self._api = manager.client.of(kind)
        self._finalizer = finalizer
        self._member = member

    def adopters(self, each: R) -> Iterable[Key]:
        """Whoever could adopt an object that belongs to nobody."""
        if each.controller is not None:
            return ()
        return [owner.key for owner in self.owners.within(each.metadata.namespace) if self._selects(owner, each)]

    async def claim(self, owner: W) -> list[R]:
        """Those of an object: which it has and still selects, and orphans that it adopts; others are let go.

        An owner that is gone or going, as the server has it now, adopts nobody.
        """
        mine = self.of(owner)
        kept = [each for each in mine if self._selects(owner, each)]
        if owner.deleting:
            return kept
        for each in mine:
            if each not in kept:
                await self._let_go(each, owner)
        orphans = self.orphans(owner.metadata.namespace)
        wanted = [each for each in orphans if not each.deleting and self._selects(owner, each)]
        if wanted:
            fresh = await self.owners.cache.fetch(owner.key)
            if fresh is not None and not fresh.deleting and fresh.metadata.uid == owner.metadata.uid:
                for each in wanted:
                    kept += await self._adopt(each, owner)
        return kept

    def _selects(self, owner: W, each: R) -> bool:
        return owner.spec.selector.selects(each.metadata.labels) and self._member(owner, each)

    async def _let_go(self, each: R, owner: W) -> None:
        known = each.metadata
        left = [one.to_raw() for one in known.owner_references if one.uid != owner.metadata.uid]
        await self._change(each, left, [one for one in known.finalizers if one != self._finalizer])

    async def _adopt(self, each: R, owner: W) -> list[R]:
        known = each.metadata
        references = [*(one.to_raw() for one in known.owner_references), reference(owner)]
        return await self._change(each, references, [*known.finalizers, self._finalizer])

    async def _change(self, each: R, references: list[RawObject], finalizers: list[str]) -> list[R]:
        change: RawObject = {"ownerReferences": references or None}
        if self._finalizer:
            change["finalizers"] = finalizers or None
        try:
            return [await self._api.change(each, {"metadata": change})]
        except NotFound:
            return []
