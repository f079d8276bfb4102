"""JSON patch and JSON merge patch, as kube-apiserver applies them to an object.

The handler of PATCH calls them with decoded JSON. They follow the real server where it leaves the RFCs (a replace of a
missing field adds it, negative indexes count from the end, nulls within new values go). They never change their input.
"""

from __future__ import annotations

import json
import re
from typing import Any

from edgewright.local import size_limits
from edgewright.local.errors import Refusal, bad_request, too_large
from edgewright.runtime.objects import RawObject

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
_GO_NAMES = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}


class _DoesNotApply(Exception):
    """An operation names what is not there, or a test failed."""


def json_patch(raw: RawObject, operations: Any) -> RawObject:
    """The object after all operations of a JSON patch; refuses the whole patch where one does not apply."""
    steps = _decoded(operations)
    if len(steps) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(steps)}")
    document = _Document(_copied(raw))
    try:
        for step in steps:
            document.apply(step)
    except _DoesNotApply:
        raise _unprocessable() from None
    if not isinstance(document.root, dict):
        raise _unprocessable()
    size_limits.check(document.root)
    return document.root


def _unprocessable() -> Refusal:
    """The real server says no more than this of a JSON patch that does not apply."""
    return Refusal(422, "Invalid", "the server rejected our request due to an error in our request", {})


def _decoded(operations: Any) -> list[RawObject]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _undecodable(operations, "value of type []handlers.jsonPatchOp")
    for step in operations:
        if step is not None and not isinstance(step, dict):
            raise _undecodable(step, "value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            if step and not isinstance(step.get(name), str | None):
                raise _undecodable(step[name], f"struct field jsonPatchOp.{name} of type string")
    return [step or {} for step in operations]


def _undecodable(value: Any, target: str) -> Refusal:
    return bad_request(f"error decoding patch: json: cannot unmarshal {go_name(value)} into Go {target}")


def go_name(value: Any) -> str:
    """What the type of a JSON value is called in sentences of the real server."""
    return _GO_NAMES.get(type(value), "null")


class _Document:
    """An object under way through a patch; it belongs to the patch alone."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied_bytes = 0

    def apply(self, step: RawObject) -> None:
        """Does one operation."""
        path, value = step.get("path"), step.get("value")
        if path is None:
            raise _DoesNotApply
        match step.get("op"):
            case "add":
                self._add(path, _copied(value))
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, _copied(value))
            case "move":
                self._add(path, self._remove(_origin(step)))
            case "copy":
                self._add(path, self._copy(_origin(step)))
            case "test":
                if not _same(self._get(path) if path else self.root, value):
                    raise _DoesNotApply
            case _:
                raise _DoesNotApply

    def _holder(self, path: str) -> tuple[dict[str, Any] | list[Any], str]:
        """The object or list that holds what a pointer names, and the last part of the pointer."""
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
        if not parts:
            raise _DoesNotApply
        holder = self.root
        for part in parts[:-1]:
            holder = _member(holder, part)
            if not isinstance(holder, dict | list):
                raise _DoesNotApply
        return holder, parts[-1]

    def _get(self, path: str) -> Any:
        return _member(*self._holder(path))

    def _add(self, path: str, value: Any) -> None:
        holder, key = self._holder(path)
        if isinstance(holder, dict):
            holder[key] = value
        elif key == "-":
            holder.append(value)
        else:
            holder.insert(_index(key, len(holder) + 1), value)

    def _remove(self, path: str) -> Any:
        holder, key = self._holder(path)
        if isinstance(holder, list):
            return holder.pop(_index(key, len(holder)))
        if key not in holder:
            raise _DoesNotApply
        return holder.pop(key)

    def _replace(self, path: str, value: Any) -> None:
        if not path:
            if not isinstance(value, dict | list):
                raise _DoesNotApply
            self.root = value
            return
        holder, key = self._holder(path)
        if isinstance(holder, dict):
            holder[key] = value
        else:
            holder[_index(key, len(holder))] = value

    def _copy(self, path: str) -> Any:
        """What is at the path; copies of copies must not make a small patch a huge object."""
        value = _copied(self._get(path))
        self._copied_bytes += len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise _DoesNotApply
        return value


def _origin(step: RawObject) -> str:
    origin = step.get("from")
    if not isinstance(origin, str):
        raise _DoesNotApply
    return origin


def _member(holder: dict[str, Any] | list[Any], key: str) -> Any:
    """A field or an item; a field that is not there counts as null, as it does in the real server."""
    if isinstance(holder, dict):
        return holder.get(key)
    return holder[_index(key, len(holder))]


def _index(key: str, size: int) -> int:
    if not _INDEX.fullmatch(key) or not -size <= int(key) < size:
        raise _DoesNotApply
    return int(key) % size


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON, where true is not 1 and 1 is not 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copied(inner) for inner in value]
    return value


def merge_patch(raw: RawObject, patch: Any) -> RawObject:
    """The object after a JSON merge patch: null takes a field away, objects are merged, all else is replaced."""
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise _undecodable(patch, "value of type map[string]interface {}")
    return _merged(raw, patch)


def _merged(current: RawObject, patch: RawObject) -> RawObject:
    merged = {key: _copied(value) for key, value in current.items() if key not in patch}
    for key, value in patch.items():
        if value is None:
            continue
        present = current.get(key)
        if not isinstance(present, dict):
            merged[key] = _without_nulls(value)
        else:
            merged[key] = _merged(present, value) if isinstance(value, dict) else _copied(value)
    return merged


def _without_nulls(value: Any) -> Any:
    """A new value; objects in it lose their null fields, lists keep their null items."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
