"""Reads and writes what Helm stores of releases: the only place that asks the API server for those Secrets.

`controller` asks for histories and contents, and has it mark, trim and write revisions. Secrets are asked for by the
name of their release, never all of them. Contents are kept up to a size in all: hundreds of releases fit in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from edgewright.controllers.chart.dependents import Held
from edgewright.controllers.chart.manifests import parts
from edgewright.controllers.chart.releases import (
    DEPLOYED,
    Lost,
    ReleaseSecret,
    Revision,
    Stored,
    content_of,
    history,
    marked_failed,
    release_name,
    selector,
    written_again,
)
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key

_log = logs.get("controllers.chart.storage")

MAX_KEPT: Final = 8 << 20
"""How many letters of manifests are kept in memory, in all."""


class Storage:
    """The stored releases of one kind's objects."""

    def __init__(self, client: Client) -> None:
        self._secrets = client.of(ReleaseSecret)
        self._raw = client.raw(ReleaseSecret.kind)
        self._contents: OrderedDict[Key, tuple[str, Stored, Held]] = OrderedDict()
        self._kept = 0

    async def history(self, key: Key) -> tuple[Revision, ...]:
        """The stored revisions of an object's release, oldest first."""
        found = await self._secrets.list(key.namespace, labels=selector(release_name(key.name)))
        return history(found.items)

    def content(self, key: Key, revision: Revision) -> tuple[Stored, Held]:
        """What a revision of an object's release consists of, read once while there is room for it."""
        mark = f"{revision.metadata.uid} {revision.metadata.resource_version}"
        known = self._contents.get(key)
        if known is None or known[0] != mark:
            self.forget(key)
            stored = content_of(revision)
            held = Held(key.namespace, release_name(key.name), revision.version, parts(stored.manifest))
            known = self._contents[key] = (mark, stored, held)
            self._kept += len(stored.manifest)
            while self._kept > MAX_KEPT and len(self._contents) > 1:
                self.forget(next(iter(self._contents)))
        self._contents.move_to_end(key)
        return known[1], known[2]

    def forget(self, key: Key) -> None:
        """Drops what is kept of an object's release."""
        known = self._contents.pop(key, None)
        if known is not None:
            self._kept -= len(known[1].manifest)

    async def unlock(self, revision: Revision) -> None:
        """Marks a revision failed that an action left pending; refused where it has changed meanwhile."""
        secret = await self._raw.get(revision.key)
        if secret["metadata"].get("resourceVersion") == revision.metadata.resource_version:
            await self._raw.replace(marked_failed(secret))
            _log.info("Recovered an interrupted action", release=revision.key, status=revision.status)

    async def trim(self, revisions: Sequence[Revision], *, keep: int) -> None:
        """Deletes the oldest revisions, not what is deployed: Helm does not trim when it installs over failed ones."""
        for each in revisions[: max(0, len(revisions) - keep)]:
            if each.status != DEPLOYED:
                with suppress(NotFound):
                    await self._raw.delete(each.key, uid=each.metadata.uid)

    async def write_again(self, lost: Lost, *, now: datetime) -> None:
        """Stores a first revision of a release whose objects are there."""
        await self._raw.create(written_again(lost, now))
        _log.info("Adopted release", release=lost.name, namespace=lost.namespace)
