"""Who owns which fields of an object after a write, with the semantics of kube-apiserver.

The request path calls `record` for every create, update and patch, and `keep_times` when it is about to store the
result; `apply` builds on the rest. All but `keep_times` is pure, and nothing here defaults, validates or writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from edgewright.local.apply import managed
from edgewright.local.apply.combine import faults, reconciled
from edgewright.local.apply.compare import Comparison, UnkeyedError, compare, same
from edgewright.local.apply.fieldtypes import FieldType, zero
from edgewright.local.apply.managed import FieldSet, Managers, Owned, Owner
from edgewright.runtime.objects import RawObject

Versions: TypeAlias = Mapping[str, FieldType]
"""The types of a kind's fields in its other versions, by apiVersion."""
MAX_UPDATERS: Final = 10
"""How many updaters an object remembers by name; the oldest beyond are remembered together."""
NEVER_OWNED: Final = managed.of_paths(
    [("f:apiVersion",), ("f:kind",), ("f:metadata",)]
    + [
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ]
)
"""What says which object it is, and what the server alone writes."""


class UndeclaredError(Exception):
    """An object has a field that another version of its kind does not know."""


def record(
    live: RawObject | None,
    new: RawObject,
    fields: FieldType,
    *,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: datetime,
    reset: Sequence[Sequence[str]] = (),
    versions: Versions | None = None,
) -> list[RawObject]:
    """The managedFields of `new`, which a create, update or patch makes of `live`; empty where nobody is tracked.

    It takes the object as the client wants it, defaulted, before the kind's rules keep or fill in parts: what those do
    belongs to nobody. `reset` names what this write cannot change (the status, say), as field names from the root.
    `versions` are the other versions of a custom kind: who owns fields in one of them is forgotten with all others, as
    the real server does, where the object has fields that it does not know.
    """
    managers = _known(live, new, subresource)
    if not managers and live is not None:
        # Ownership of an object whose owners are unknown begins with the first apply.
        return []
    try:
        managers = in_versions(managers, [live or {}, new], api_version, versions)
        managers = in_schema(managers, fields)
        change = compared(live if live is not None else before_creation(new, fields), new, fields, reset_fields(reset))
    except (UnkeyedError, UndeclaredError, RecursionError):
        return []
    owner = managed.updater(manager, api_version, subresource)
    return managed.write(capped(updated(managers, change, owner, api_version, now)))


def in_versions(
    managers: Managers, objects: Sequence[RawObject], api_version: str, versions: Versions | None
) -> Managers:
    """The owners in versions that there still are; UndeclaredError where an object cannot be in one of those."""
    if versions is None:
        return managers
    left: Managers = {}
    checked = {api_version}
    for owner, owned in managers.items():
        fields = versions.get(owned.api_version)
        if fields is None and owned.api_version != api_version:
            continue
        left[owner] = owned
        if fields is not None and owned.api_version not in checked:
            checked.add(owned.api_version)
            for each in objects:
                if wrong := faults(unmanaged(each), fields):
                    raise UndeclaredError(wrong[0])
    return left


def _known(live: RawObject | None, new: RawObject, subresource: str) -> Managers:
    """The owners before a write: a client may set or reset them on the object itself, not by a subresource."""
    before = (live or {}).get("metadata", {}).get("managedFields")
    asked = new.get("metadata", {}).get("managedFields")
    if not subresource and isinstance(asked, list):
        if not asked or (len(asked) == 1 and not asked[0]):
            return {}
        managers = read(asked)
        if managers:
            return managers
    return read(before)


def read(entries: Any) -> Managers:
    """The owners that managedFields tell of; none where they cannot be read."""
    try:
        return managed.read(entries)
    except (ValueError, RecursionError):
        return {}


def reset_fields(names: Sequence[Sequence[str]]) -> FieldSet:
    """The set of fields that are named by their names from the root."""
    return managed.of_paths([tuple(managed.field(name) for name in path) for path in names])


def compared(old: RawObject, new: RawObject, fields: FieldType, ignored: FieldSet) -> Comparison:
    """What differs between two objects, apart from their owners and from what is ignored."""
    return compare(unmanaged(old), unmanaged(new), fields).but(ignored)


def before_creation(new: RawObject, fields: FieldType) -> RawObject:
    """The object before there was one. In built-in kinds a null is a value that nobody has set yet, so it is there."""
    empty = zero(fields)
    return _with_nulls(empty, new) if empty else empty


def _with_nulls(empty: RawObject, new: RawObject) -> RawObject:
    result = dict(empty)
    for name, value in new.items():
        if value is None:
            result[name] = None
        elif isinstance(value, dict) and isinstance(empty.get(name), dict):
            result[name] = _with_nulls(empty[name], value)
    return result


def unmanaged(obj: RawObject) -> RawObject:
    """The object without its managedFields, which are no fields of it that anybody owns."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def updated(managers: Managers, change: Comparison, owner: Owner, api_version: str, now: datetime) -> Managers:
    """The owners after an update: what it changed is the updater's and nobody else's, what it removed is nobody's."""
    taken = managed.union(change.modified, change.added)
    left = left_with(managers, taken, change.removed)
    mine = managed.difference(taken, NEVER_OWNED)
    if mine:
        if owner in left:
            mine = managed.union(left[owner].fields, mine)
        left[owner] = Owned(mine, api_version, stamp(now))
    return left


def left_with(managers: Managers, taken: FieldSet, gone: FieldSet) -> Managers:
    """The owners without fields that were taken from them or are gone; who has none left is none."""
    left: Managers = {}
    for owner, owned in managers.items():
        rest = managed.difference(owned.fields, taken) if taken else owned.fields
        rest = managed.difference(rest, gone) if gone else rest
        if rest:
            left[owner] = owned.but(rest)
    return left


def stamp(now: datetime) -> str:
    """A time as managedFields write it."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def capped(managers: Managers) -> Managers:
    """The owners with the oldest updaters of each version put together where there are too many."""
    updaters = [owner for owner in managers if owner.operation == managed.UPDATE]
    if len(updaters) <= MAX_UPDATERS:
        return managers
    result = dict(managers)
    updaters.sort(key=lambda each: (managers[each].time or "", identity(each)))
    excess = len(updaters) - MAX_UPDATERS
    first_of_version: dict[str, Owner] = {}
    for owner in updaters:
        if excess <= 0:
            break
        owned = result[owner]
        first = first_of_version.setdefault(owned.api_version, owner)
        if first == owner:
            continue
        bucket = managed.updater("ancient-changes", owned.api_version, "")
        # Only with a clock that went back is the bucket itself not the oldest; then it takes the one that is.
        absorbed = first if owner == bucket else owner
        if bucket not in result:
            result[bucket] = result.pop(first)
        together = managed.union(result.pop(absorbed).fields, result[bucket].fields)
        result[bucket] = Owned(together, owned.api_version, owned.time)
        first_of_version[owned.api_version] = bucket
        excess -= 1
    return result


def identity(owner: Owner) -> str:
    """The text by which the real server orders owners of the same time."""
    parts = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version}
    if owner.subresource:
        parts["subresource"] = owner.subresource
    return json.dumps({name: value for name, value in parts.items() if value}, separators=(",", ":"))


def keep_times(live: RawObject, new: RawObject) -> None:
    """Gives an object that is about to be stored the times of the live one, where nothing but those would change.

    It is for the very end, when the kind's rules have filled in the rest: such a write is none.
    """
    before = live.get("metadata", {}).get("managedFields") or []
    after = new.get("metadata", {}).get("managedFields") or []
    if before == after or len(before) != len(after):
        return
    if any(_timeless(one) != _timeless(other) for one, other in zip(before, after, strict=True)):
        return
    if same(unmanaged(live), unmanaged(new)):
        new["metadata"]["managedFields"] = before


def _timeless(entry: RawObject) -> RawObject:
    return {name: value for name, value in entry.items() if name != "time"}


def in_schema(managers: Managers, fields: FieldType) -> Managers:
    """The owners' sets as the schema has them today."""
    return {owner: owned.but(_current(fields, msgspec.json.encode(owned.fields))) for owner, owned in managers.items()}


@lru_cache(maxsize=1024)
def _current(fields: FieldType, encoded: bytes) -> FieldSet:
    """The set as the schema has it today; kept, since schemas change rarely and sets are looked at with every write."""
    return reconciled(msgspec.json.decode(encoded, type=dict[str, Any]), fields)
