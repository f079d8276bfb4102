"""What this process has written and its cache has not seen yet: reads of a cache with our own writes on top.

Controllers that count (claims, Pods, Services) read through a ledger, so that a cache that is seconds behind makes
nobody start anything twice. Nothing here survives a restart, and nothing needs to: a new process, or a new leader,
lists everything again before it works.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.objects import Key, Resource

R = TypeVar("R", bound=Resource)

_REMEMBERED: Final = 1000
"""How many ended objects are remembered: answers to what was asked before are not later than that."""


class Ledger(Generic[R]):
    """A cache as it will be once it has caught up with what we wrote."""

    def __init__(self, cache: Cache[R]) -> None:
        self.cache = cache
        self._written: dict[Key, R] = {}
        self._gone: dict[Key, str] = {}
        self._ended: dict[str, None] = {}  # the uids that the cache saw go lately, as an ordered set
        cache.subscribe(self._caught_up)

    def get(self, key: Key) -> R | None:
        """The newest state that we know: the one that we wrote, where the cache is behind it."""
        seen = self.cache.get(key)
        written = self._written.get(key) if self._written else None
        if written is None:
            if not self._gone or seen is None:
                return seen
            return None if self._gone.get(key) == seen.metadata.uid else seen
        return seen if seen is not None and _version(seen) >= _version(written) else written

    def by(self, index: str, value: Hashable) -> list[R]:
        """What the cache has in an index under that value, as new as we know it, without what is known to be gone."""
        if not self._written and not self._gone:
            return self.cache.by(index, value)
        return [obj for key in self.cache.keys(index, value) if (obj := self.get(key)) is not None]

    def wrote(self, obj: R) -> R:
        """Notes what the server answered to a write."""
        if obj.metadata.uid in self._ended:
            return obj  # the watch was faster than the answer: it came and went
        self._gone.pop(obj.key, None)
        # Of two writes under way at once the answer to the later one may come first.
        known = [_version(each) for each in (self.cache.get(obj.key), self._written.get(obj.key)) if each is not None]
        if all(version < _version(obj) for version in known):
            self._written[obj.key] = obj
        return obj

    def deleted(self, obj: R) -> None:
        """Notes that the server says that this object is gone for good (not that its deletion was asked for)."""
        written = self._written.pop(obj.key, None)
        # A cache that has not even seen it come will show it yet; one that has seen it go will not.
        shown = (self.cache.get(obj.key), written)
        if any(each is not None and each.metadata.uid == obj.metadata.uid for each in shown):
            self._gone[obj.key] = obj.metadata.uid

    @property
    def pending(self) -> tuple[R, ...]:
        """What we wrote and the cache does not have yet."""
        return tuple(self._written.values())

    def _caught_up(self, change: Change[R]) -> None:
        key = change.latest.key
        uid = change.latest.metadata.uid
        written = self._written.get(key)
        # What ends may be the one before that which we wrote: we have made it again under the same name.
        if (self._gone.get(key, uid) == uid) == (change.new is None):
            self._gone.pop(key, None)
        if change.new is None:
            self._ended[uid] = None
            if len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
        if written is None:
            return
        ended = change.new is None and written.metadata.uid == uid
        if ended or (change.new is not None and _version(change.new) >= _version(written)):
            del self._written[key]


def _version(obj: Resource) -> int:
    """Resource versions of one kind can be compared since Kubernetes 1.35, and could in fact with etcd before."""
    version = obj.metadata.resource_version
    return int(version) if version.isdigit() else 0
