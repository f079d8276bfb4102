"""How an object goes: first its release, with `uninstall-wait` all that belonged to it too, then our hold on it.

`controller` calls `Removal.remove` for an object that is to be deleted. Every step can be repeated: what was
uninstalled and is waited for keeps its stored revision, which says what is waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from edgewright.controllers.chart.adoption import is_marked
from edgewright.controllers.chart.discovery import Discovery
from edgewright.controllers.chart.manifests import Part
from edgewright.controllers.chart.objects import FINALIZER, OLD_FINALIZERS, ChartObject
from edgewright.controllers.chart.releases import UNINSTALLED, Revision, release_name
from edgewright.controllers.chart.storage import Storage
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key

_log = logs.get("controllers.chart")

OURS: Final = frozenset({FINALIZER, *OLD_FINALIZERS})
Uninstall = Callable[[ChartObject, bool], Awaitable[None]]
"""Has Helm uninstall a release; whether its stored revisions are kept."""


class Removal:
    """Takes releases away, object by object."""

    def __init__(self, client: Client, discovery: Discovery, storage: Storage, uninstall: Uninstall) -> None:
        self._client = client
        self._discovery = discovery
        self._storage = storage
        self._uninstall = uninstall

    async def remove(self, obj: ChartObject, revisions: Sequence[Revision], *, wait: bool) -> tuple[str, ...]:
        """Uninstalls a release and says which of its objects are still there and waited for."""
        name = release_name(obj.metadata.name)
        newest = revisions[-1]
        if newest.status not in UNINSTALLED or not wait:
            await self._uninstall(obj, wait)
            _log.info("Uninstalled release", release=name)
        if not wait:
            return ()
        _, held = self._storage.content(obj.key, newest)
        left = await self._left(obj, held.parts, release=name)
        if left:
            _log.info("Uninstall wait: Waiting until all resources are deleted", release=name, left=left[:5])
            return left
        await self._uninstall(obj, False)
        return ()

    async def _left(self, obj: ChartObject, parts: Sequence[Part], *, release: str) -> tuple[str, ...]:
        """What of a release is still there; what nobody has asked to be deleted yet is asked again."""
        found = []
        for part in parts:
            kind = None if part.kept else await self._discovery.kind_of(part.type)
            if kind is None:
                continue
            namespace = obj.metadata.namespace
            key = Key(part.namespace or namespace if kind.namespaced else "", part.name)
            with suppress(NotFound):
                live = await self._client.raw(kind).get(key)
                if not is_marked(live, namespace=namespace, release=release):
                    continue
                found.append(str(part))
                if not live["metadata"].get("deletionTimestamp"):
                    await self._client.raw(kind).delete(key, uid=live["metadata"]["uid"])
        return tuple(found)
