"""What a caller may see of a kind in the shared cache: all that was asked for, or what is in some of the namespaces.

`lists`, `objects`, `stream` and `reads` ask `view_for` before they show anything. Who may not read a kind in all
namespaces at once sees those in which they may; who may in none is passed on to the API server, which refuses in its
own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgewright.console.kind_cache import KindCache, Shown
from edgewright.console.problems import RETRY_AFTER, Refusal
from edgewright.runtime.config import NAMESPACE
from edgewright.runtime.errors import KubernetesError

if TYPE_CHECKING:
    from edgewright.console.call import Call
    from edgewright.console.shared_cache import SharedCache, Verdict
    from edgewright.runtime.objects import Kind

MAX_NAMESPACES: Final = 500
"""In so many namespaces a caller's rights are looked at; where objects are in more, a namespace has to be named."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What one caller may see of a kind now."""

    kept: KindCache
    until: float
    """In elapsed seconds: so long it counts."""
    verdicts: Mapping[str, bool] | None = None
    """Whether the caller may see each namespace that was looked at; None: all that was asked for."""

    @property
    def whole(self) -> bool:
        """Whether the caller sees all that was asked for."""
        return self.verdicts is None

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that the caller sees, where it is not the whole."""
        return frozenset(name for name, allowed in (self.verdicts or {}).items() if allowed)

    def shows(self, obj: Shown) -> bool:
        """Whether the caller may see an object."""
        return self.verdicts is None or self.verdicts.get(obj.metadata.namespace, False)

    def select(self, namespace: str, chosen: Callable[[Mapping[str, str]], bool] | None, name: str = "") -> list[Shown]:
        """The objects of a namespace (or all) that the caller may see, as `KindCache.select` chooses them."""
        found = self.kept.select(namespace, chosen, name)
        return found if self.whole else [each for each in found if self.shows(each)]

    def follows(self, before: View | None) -> bool:
        """Whether who was shown the view before knows all of this one, but for what has happened since.

        A namespace that was not looked at then had no object: whatever is in it has happened since.
        """
        if before is None or before.verdicts is None or self.verdicts is None:
            return self.whole and (before is None or before.whole)
        return all(self.verdicts.get(name, allowed) == allowed for name, allowed in before.verdicts.items())


async def view_for(
    call: Call, kind: Kind, verb: str, namespace: str | None, *, patience: float | None = None
) -> View | None:
    """What of the copy of a kind may be shown to the caller; None where the API server must be asked as the caller.

    Who needs all of a kind waits longer with `patience`: to list it once more would take as long as the cache does.
    """
    cache = call.shared.cache
    if cache is None or (namespace and not NAMESPACE.fullmatch(namespace)) or not await cache.holds(kind):
        return None
    whole = await _whole(cache, call, kind, verb, namespace or "")
    if whole is None or not (whole.allowed or _divisible(kind, namespace)):
        return None
    kept = cache.of(kind)
    with kept.in_use():
        # A read elsewhere is soon over; a stream elsewhere costs the API server a watch for as long as it lasts.
        patience = patience or call.shared.limits.cache_seconds
        there = await kept.current(patience, stubborn=verb == "watch")
        view = await view_of(call, cache, kept, verb, namespace or "")
    if there or view is None:
        return view
    if view.whole or not kept.lists:  # or else the console itself may not read it
        return None
    # The API server would refuse what is allowed here: better later than not.
    later = {"Retry-After": str(RETRY_AFTER)}
    raise Refusal("unavailable", f"the console's copy of {kind.plural} is not kept up at the moment", headers=later)


async def view_of(
    call: Call, cache: SharedCache, kept: KindCache, verb: str, namespace: str, *, before: View | None = None
) -> View | None:
    """The same for a copy that is at hand, however old it is; `before` is what the caller was shown."""
    whole = await _whole(cache, call, kept.kind, verb, namespace)
    if whole is None:
        return None
    if whole.allowed:
        return View(kept=kept, until=whole.until)
    if not _divisible(kept.kind, namespace):
        return None
    return await _in_namespaces(cache, call, kept, verb, before.namespaces if before else frozenset())


def _divisible(kind: Kind, namespace: str | None) -> bool:
    """Whether a caller may see a part of what was asked for: of all namespaces, some."""
    return kind.namespaced and not namespace


async def _whole(cache: SharedCache, call: Call, kind: Kind, verb: str, namespace: str) -> Verdict | None:
    """Whether the caller may see all that was asked for; None where nobody knows."""
    try:
        return await cache.verdict(call, kind, verb, namespace)
    except KubernetesError:  # what is wrong will be told by the request itself
        return None


async def _in_namespaces(
    cache: SharedCache, call: Call, kept: KindCache, verb: str, known: frozenset[str] = frozenset()
) -> View | None:
    """What the caller may see of the namespaces that hold objects, and of those known before; None: nothing."""
    verdicts: dict[str, Verdict] = {}
    # Again and again: while one namespace is asked about, another may come.
    while missing := (cache.namespaces | known) - verdicts.keys():
        if len(verdicts) + len(missing) > MAX_NAMESPACES:
            return None
        verdicts |= await cache.verdicts(call, kept.kind, verb, missing)
    if not any(each.allowed for each in verdicts.values()):
        return None
    return View(
        kept=kept,
        until=min(each.until for each in verdicts.values()),
        verdicts={name: each.allowed for name, each in verdicts.items()},
    )
