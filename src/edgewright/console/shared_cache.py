"""One copy of each of our kinds for all callers: read with the console's own rights, shown by the rights of the caller.

`objects` and `stream` ask `kind_cache_for`, which has the API server review the caller's rights before anything is
shown; an answer counts for half a minute. A watch begins when a kind is first read and ends when nobody reads it any
more. What cannot be served from here goes to the API server as the caller, as without it; foreign kinds do, unless an
administrator has granted them to the console.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from edgewright.console.kind_cache import KindCache, ShownApi
from edgewright.console.kinds import OURS
from edgewright.console.reviews import may
from edgewright.local import selectors
from edgewright.local.errors import Refusal as NoSelector
from edgewright.runtime import logs
from edgewright.runtime.client import Client, read_metadata
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import KubernetesError
from edgewright.runtime.objects import Key, Kind, RawObject

if TYPE_CHECKING:
    from edgewright.console.call import Call

log = logs.get("console.cache")

IDLE_SECONDS: Final = 300.0
"""After so long without a reader a kind is watched no more."""
_VERDICTS: Final = 8192
_NAMESPACE: Final = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?")
_OURS: Final = frozenset(OURS.values())


class SharedCache:
    """The copies, and what the API server said of callers lately."""

    def __init__(self, client: Client, clock: Clock, *, review_seconds: float, granted: bool = False) -> None:
        """Reads as the client's user; nothing is read yet.

        With `granted` also foreign kinds that this user may list and watch, else ours alone.
        """
        self._granted_too = granted
        self._client = client
        self._clock = clock
        self._review_seconds = review_seconds
        self._kinds: dict[Kind, KindCache] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._verdicts: OrderedDict[tuple[str, Kind, str, str], tuple[float, bool]] = OrderedDict()
        self._granted: OrderedDict[Kind, tuple[float, bool]] = OrderedDict()

    @property
    def watched(self) -> frozenset[Kind]:
        """The kinds that are watched now."""
        return frozenset(self._kinds)

    def of(self, kind: Kind) -> KindCache:
        """The copy of a kind; its watch begins where there is none."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = KindCache(ShownApi(self._client, kind), self._clock)
            # In a context of its own: the one of this request has its caller's token.
            task = asyncio.create_task(self._keep(found), name=f"cache of {kind}", context=contextvars.Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return found

    async def permitted_until(self, call: Call, kind: Kind, verb: str, namespace: str) -> float:
        """Until when (in elapsed seconds) the caller may, as far as is known; 0 where the API server must be asked."""
        key = (call.caller.digest if call.caller else "", kind, verb, namespace)
        now = self._clock.elapsed()
        until, allowed = self._verdicts.get(key, (0.0, False))
        if until <= now:
            try:
                until, allowed = now + self._review_seconds, await may(call.client, kind, verb, namespace)
            except KubernetesError:  # what is wrong will be told by the request itself
                return 0.0
            self._verdicts.pop(key, None)
            self._verdicts[key] = until, allowed
            while len(self._verdicts) > _VERDICTS:
                self._verdicts.popitem(last=False)
        return until if allowed else 0.0

    async def holds(self, kind: Kind) -> bool:
        """Whether a kind is one of those that are kept here: ours are, others where the console was granted them."""
        if kind in _OURS or not self._granted_too:
            return kind in _OURS
        now = self._clock.elapsed()
        until, granted = self._granted.get(kind, (0.0, False))
        if until <= now:
            try:
                granted = all([await may(self._client, kind, verb, "") for verb in ("list", "watch")])
            except KubernetesError:
                return False
            self._granted[kind] = now + self._review_seconds, granted
            while len(self._granted) > _VERDICTS:
                self._granted.popitem(last=False)
        return granted

    async def present_version(self, kind: Kind) -> int:
        """The version that the API server has reached, by its own word."""
        body = await self._client.transport.request("GET", kind.path(), query={"limit": "1"})
        return int(read_metadata(body).resource_version or 0)

    def wrote(self, kind: Kind, version: str) -> None:
        """An object of a kind was written through this console."""
        for each in self._kinds.values():
            if each.kind.resource == kind.resource:
                each.wrote(version)

    def deleted(self, kind: Kind, key: Key, uid: str) -> None:
        """An object of a kind was deleted through this console."""
        for each in self._kinds.values():
            if each.kind.resource == kind.resource:
                each.deleted(key, uid)

    async def close(self) -> None:
        """Ends every watch."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _keep(self, kept: KindCache) -> None:
        """Keeps a copy up until nobody has read it for long."""
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(kept.run())
                while (left := IDLE_SECONDS - kept.idle) > 0:
                    await self._clock.sleep(left)
                del self._kinds[kept.kind]
                running.cancel()
        except Exception as error:  # the next reader begins again
            log.error("cache failed", kind=str(kept.kind), error=error)  # noqa: TRY400 - it has the traceback
        finally:
            if self._kinds.get(kept.kind) is kept:
                del self._kinds[kept.kind]
            kept.close()


async def kind_cache_for(
    call: Call, kind: Kind, verb: str, namespace: str | None, *, patience: float | None = None
) -> KindCache | None:
    """The copy of a kind that may be shown to the caller; None where the API server must be asked as the caller.

    Who needs all of a kind waits longer with `patience`: to list it once more would take as long as the cache does.
    """
    cache = call.shared.cache
    if cache is None or not _NAMESPACE.fullmatch(namespace or "") or not await cache.holds(kind):
        return None
    if not await cache.permitted_until(call, kind, verb, namespace or ""):
        return None
    kept = cache.of(kind)
    with kept.in_use():
        # A read elsewhere is soon over; a stream elsewhere costs the API server a watch for as long as it lasts.
        patience = patience or call.shared.limits.cache_seconds
        there = await kept.current(patience, stubborn=verb == "watch")
        return kept if there else None


def selector(text: str) -> selectors.Selector | None:
    """What a label selector selects; None where it is none, which the API server says in its own words."""
    try:
        return selectors.parse(text)
    except NoSelector:
        return None


def note_write(call: Call, kind: Kind, version: str) -> None:
    """A caller wrote an object, which has this version now: no read here is older from now on."""
    if call.shared.cache is not None and "dryRun" not in call.query:
        call.shared.cache.wrote(kind, version)


def note_deletion(call: Call, kind: Kind, left: RawObject) -> None:
    """A caller deleted an object; `left` is what the API server answered."""
    if call.shared.cache is None or "dryRun" in call.query:
        return
    # An answer that is the object itself tells its last version, or the one that it waits with for its finalizers.
    about = left.get("details") or {} if left.get("kind") == "Status" else left.get("metadata", {})
    key = Key(call.part("namespace"), call.part("name"))
    if left.get("kind") != "Status" and "deletionTimestamp" in about:
        call.shared.cache.wrote(kind, about.get("resourceVersion", ""))
    else:
        call.shared.cache.deleted(kind, key, about.get("uid", ""))
