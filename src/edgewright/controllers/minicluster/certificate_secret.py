"""The Secret with the certificate of a mini-cluster: made once, changed only when another certificate is given.

`loop` calls it before workers start. Secrets are never listed or watched: each is asked for by its name, and no more
often than the settings say. What is in one is never logged.
"""

from __future__ import annotations

import base64
import hashlib
from typing import ClassVar, Final

import msgspec

from edgewright.controllers.minicluster import curve
from edgewright.controllers.minicluster.model import Cluster
from edgewright.controllers.minicluster.objects import labels_of
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import AlreadyExists, NotFound
from edgewright.runtime.objects import Key, Kind, OwnerReference, RawObject, Resource

SECRET: Final = Kind(group="", version="v1", kind="Secret", plural="secrets")
_REMEMBERED: Final = 10_000


class _Secret(Resource, frozen=True, kw_only=True):
    kind: ClassVar[Kind] = SECRET

    data: dict[str, str] = {}


class NameTaken(Exception):
    """An object that does not belong to the mini-cluster has the name of one of its own."""

    def __init__(self, kind: str, key: Key) -> None:
        super().__init__(
            f"{kind} {key.name} in namespace {key.namespace} belongs to something else: rename or delete it"
        )


class CertificateSecrets:
    """Makes the Secrets of mini-clusters, and remembers for a while which are as they must be."""

    def __init__(self, client: Client, clock: Clock, *, every: float) -> None:
        self._api = client.of(_Secret)
        self._raw = client.raw(SECRET)
        self._clock = clock
        self._every = every
        self._seen: dict[tuple[str, str], float] = {}

    async def ensure(self, cluster: Cluster, owner: OwnerReference, *, fresh: bool = False) -> None:
        """Makes the Secret so; NameTaken where another's has its name. A fresh mini-cluster has none yet."""
        mark = (owner.uid, "" if cluster.certificate is None else _hash(cluster.certificate))
        at = self._seen.get(mark)
        if at is not None and self._clock.elapsed() - at < self._every:
            return
        if len(self._seen) > _REMEMBERED:  # of mini-clusters that are long gone
            self._seen.clear()
        await self._make(cluster, owner, fresh=fresh)
        self._seen[mark] = self._clock.elapsed()

    async def _make(self, cluster: Cluster, owner: OwnerReference, *, fresh: bool) -> None:
        key = Key(cluster.namespace, cluster.secret)
        there = None if fresh else await self._there(key)
        if there is None:
            text = cluster.certificate or curve.generated(cluster.secret, self._clock.now())
            try:
                await self._raw.create(_manifest(cluster, owner, text))
            except AlreadyExists:
                there = await self._api.get(key)
            else:
                return
        if all(each.uid != owner.uid for each in there.metadata.owner_references):
            raise NameTaken("Secret", key)
        present = base64.b64decode(there.data.get(curve.FILE_NAME, "")).decode(errors="replace")
        wanted = cluster.certificate
        if wanted is None and not curve.is_certificate(present):
            wanted = curve.generated(cluster.secret, self._clock.now())
        if wanted is not None and wanted != present:
            version = there.metadata.resource_version
            await self._api.patch(key, {"data": _data(wanted)}, resource_version=version)

    async def _there(self, key: Key) -> _Secret | None:
        try:
            return await self._api.get(key)
        except NotFound:
            return None


def _manifest(cluster: Cluster, owner: OwnerReference, text: str) -> RawObject:
    metadata = {
        "name": cluster.secret,
        "namespace": cluster.namespace,
        "labels": labels_of(cluster),
        "ownerReferences": [msgspec.to_builtins(owner)],
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": _data(text)}


def _data(text: str) -> dict[str, str]:
    return {curve.FILE_NAME: base64.b64encode(text.encode()).decode()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
