"""One copy of each of our kinds for all callers: read with the console's own rights, shown by the rights of the caller.

`views` has the API server review a caller's rights before anything is shown; an answer counts for half a minute. A
watch begins when a kind is first read and ends when nobody reads it any more. What cannot be served from here goes to
the API server as the caller, as without it; foreign kinds do, unless an administrator has granted them to the console.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple

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
_AT_ONCE: Final = 16
_OURS: Final = frozenset(OURS.values())


class Verdict(NamedTuple):
    """What the API server said of a caller."""

    until: float
    """In elapsed seconds: so long it counts."""
    allowed: bool


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
        self._verdicts: OrderedDict[tuple[str, Kind, str, str], Verdict] = OrderedDict()
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

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that hold an object of any kind that is watched now."""
        return frozenset[str]().union(*(each.namespaces for each in self._kinds.values())) - {""}

    async def verdict(self, call: Call, kind: Kind, verb: str, namespace: str) -> Verdict:
        """What the API server says of the caller, or said lately; its error where it does not answer."""
        key = (call.caller.digest if call.caller else "", kind, verb, namespace)
        if (known := self._known(key)) is not None:
            return known
        now = self._clock.elapsed()
        found = Verdict(now + self._review_seconds, await may(call.client, kind, verb, namespace))
        self._verdicts.pop(key, None)
        self._verdicts[key] = found
        while len(self._verdicts) > _VERDICTS:
            self._verdicts.popitem(last=False)
        return found

    async def verdicts(self, call: Call, kind: Kind, verb: str, namespaces: Collection[str]) -> dict[str, Verdict]:
        """The same for many namespaces, some of them at a time."""
        caller = call.caller.digest if call.caller else ""
        lately = {each: self._known((caller, kind, verb, each)) for each in namespaces}
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(namespace: str) -> Verdict:
            async with turns:
                return await self.verdict(call, kind, verb, namespace)

        asked = [each for each, known in lately.items() if known is None]
        answers = await asyncio.gather(*map(one, asked), return_exceptions=True)
        found = {each: known for each, known in lately.items() if known is not None}
        for namespace, each in zip(asked, answers, strict=True):
            if isinstance(each, BaseException):
                raise each
            found[namespace] = each
        return found

    def _known(self, key: tuple[str, Kind, str, str]) -> Verdict | None:
        """What was said lately, as long as it counts."""
        found = self._verdicts.get(key)
        return found if found is not None and found.until > self._clock.elapsed() else None

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
