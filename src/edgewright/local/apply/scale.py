"""Who owns the replicas of an object, as its scale subresource tells it, and back.

The request path calls these for writes of `/scale`: a Scale has entries of its own, about one field, that come from the
object's and go back into them. They follow the real server even where a second entry of a manager comes out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from edgewright.local.apply import managed
from edgewright.local.apply.apply import record
from edgewright.local.apply.fieldtypes import compile as compiled
from edgewright.local.apply.managed import Managers, Owned
from edgewright.runtime.objects import RawObject

API_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final = ("f:spec", "f:replicas")
_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
FIELDS: Final = compiled(
    {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": _ANYTHING,
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            "status": _ANYTHING,
        },
    },
    {},
)
"""The types of the fields of a Scale."""


def record_scale(
    entries: Sequence[RawObject],
    *,
    before: int | None,
    after: int,
    path: Sequence[str],
    manager: str,
    api_version: str,
    now: datetime,
) -> list[RawObject]:
    """The managedFields of an object whose replicas (at `path`) a manager has set through the scale subresource."""
    metadata = {"managedFields": entries_of_scale(entries, path=path)}
    # A Scale to nothing says no number, and so its replicas are nobody's.
    live = {"metadata": metadata, "spec": {"replicas": before} if before else {}}
    new = {"metadata": {}, "spec": {"replicas": after} if after else {}}
    scale = record(live, new, FIELDS, manager=manager, api_version=API_VERSION, subresource="scale", now=now)
    return entries_of_object(entries, scale, path=path, api_version=api_version)


def entries_of_scale(entries: Sequence[RawObject], *, path: Sequence[str]) -> list[RawObject]:
    """The managedFields that a Scale has: of those who own the object's replicas."""
    where = tuple(managed.field(name) for name in path)
    replicas = managed.of_paths([_REPLICAS])
    owners: Managers = {}
    for owner, owned in _read(entries).items():
        if managed.has(owned.fields, where):
            owners[owner] = Owned(replicas, API_VERSION, owned.time)
    return managed.write(owners)


def entries_of_object(
    entries: Sequence[RawObject], scale: Sequence[RawObject], *, path: Sequence[str], api_version: str
) -> list[RawObject]:
    """The managedFields of an object after its Scale has come to have others."""
    where = tuple(managed.field(name) for name in path)
    replicas = managed.of_paths([where])
    before, left = _read(entries), _read(scale)
    owners: Managers = {}
    for owner, owned in before.items():
        if not managed.has(owned.fields, where):
            owners[owner] = owned
        elif owner in left:
            owners[owner] = owned
            del left[owner]
        elif rest := managed.difference(owned.fields, replicas):
            owners[owner] = owned.but(rest)
    for owner, owned in left.items():
        if managed.has(owned.fields, _REPLICAS):
            known = before.get(owner)
            owners[owner] = Owned(replicas, api_version, known.time if known else None)
    return managed.write(owners)


def _read(entries: Sequence[RawObject]) -> Managers:
    try:
        return managed.read(entries)
    except ValueError:
        return {}
