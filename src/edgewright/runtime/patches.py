"""Patches as data: what changes between two states, and the conditions under which it may be written.

Used by `client` for every write that is not a create. Pure: no I/O, no clock.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from edgewright.runtime.objects import RawObject

MergePatch: TypeAlias = dict[str, Any]
JsonPatch: TypeAlias = list[dict[str, Any]]


def merge_diff(old: RawObject, new: RawObject) -> MergePatch:
    """The smallest JSON merge patch that turns `old` into `new`; empty when there is nothing to do.

    Lists are replaced whole, as merge patches do; a field that is gone becomes null.
    """
    patch: MergePatch = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = merge_diff(before, value)
            if inner:
                patch[name] = inner
        elif name not in old or not _same(before, value):
            patch[name] = value
    return patch


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; for Python true is 1 and false is 0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def conditional(patch: MergePatch | JsonPatch, *, resource_version: str, uid: str) -> MergePatch | JsonPatch:
    """The patch with preconditions: the server refuses it when the object is another one or has changed."""
    conditions = {name: value for name, value in (("resourceVersion", resource_version), ("uid", uid)) if value}
    if not conditions:
        return patch
    if isinstance(patch, list):
        # Written, not tested: a failed `test` is a 422 that looks like a mistake in the patch, this is a 409.
        claims = [{"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in conditions.items()]
        return claims + patch
    return {**patch, "metadata": {**patch.get("metadata", {}), **conditions}}
