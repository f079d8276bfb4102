"""Sets of fields as managedFields write them, and the entries that say which manager owns which set.

A set is kept in the form of FieldsV1 itself: a tree of path elements (`f:` a field, `k:` keys of an item, `v:` a value,
`i:` an index), where an empty node, or one with `.`, is a member. `apply` and `compare` do their arithmetic with these
functions, which never change a set: parts of sets are shared between sets and objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from edgewright.local.go_format import compact, number, quote
from edgewright.runtime.objects import RawObject

FieldSet: TypeAlias = dict[str, Any]
"""Path elements to sets below them."""
Path: TypeAlias = tuple[str, ...]
"""Path elements from the root of an object."""

SELF = "."
APPLY, UPDATE = "Apply", "Update"


def field(name: str) -> str:
    """The path element of a field."""
    return "f:" + name


@lru_cache(maxsize=8192, typed=True)
def keyed(names: tuple[str, ...], *values: Any) -> str:
    """The path element of the item of a list whose keys have these values."""
    return "k:" + compact(dict(zip(names, (_plain(value) for value in values), strict=True)))


@lru_cache(maxsize=8192, typed=True)
def valued(value: Any) -> str:
    """The path element of a value in a set."""
    return "v:" + compact(_plain(value))


def _plain(value: Any) -> Any:
    """Numbers are the same whether they came as 1 or as 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def of_paths(paths: Iterable[Path]) -> FieldSet:
    """The set of these paths."""
    result: FieldSet = {}
    for path in paths:
        single: FieldSet = {}
        for element in reversed(path):
            single = {element: single}
        result = union(result, single)
    return result


def has(fields: FieldSet, path: Path) -> bool:
    """Whether the path itself is in the set."""
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return not node or SELF in node


def paths(fields: FieldSet, before: Path = ()) -> Iterator[Path]:
    """Every path in the set, in the order in which conflicts are told: members first, then what is below."""
    ordered = sorted((element for element in fields if element != SELF), key=_order)
    for element in ordered:
        if not fields[element] or SELF in fields[element]:
            yield (*before, element)
    for element in ordered:
        yield from paths(fields[element], (*before, element))


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in either."""
    if not one or not other:
        return one or other
    result = dict(one)
    for element, node in other.items():
        mine = result.get(element)
        result[element] = node if mine is None else _union(mine, node)
    return result


def _union(one: FieldSet, other: FieldSet) -> FieldSet:
    if not one or not other:
        both = one or other
        return both if not both or SELF in both else {SELF: {}, **both}
    return union(one, other)


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in both."""
    result = {}
    for element, node in one.items():
        if (theirs := other.get(element)) is not None and (both := _intersection(node, theirs)) is not None:
            result[element] = both
    return result


def _intersection(one: FieldSet, other: FieldSet) -> FieldSet | None:
    if not one or not other:
        rest = one or other
        return {} if not rest or SELF in rest else None
    return _node(intersection(one, other))


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in one and not in the other; a field goes without what is below it."""
    result = {}
    for element, node in one.items():
        theirs = other.get(element)
        left = node if theirs is None else _difference(node, theirs)
        if left is not None:
            result[element] = left
    return result


def _difference(one: FieldSet, other: FieldSet) -> FieldSet | None:
    if not other:
        return {element: node for element, node in one.items() if element != SELF} or None
    if not one:
        return None if SELF in other else one
    return _node(difference(one, other))


def without(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in one and neither in the other nor below anything in it."""
    result = {}
    for element, node in one.items():
        theirs = other.get(element)
        if theirs is None:
            result[element] = node
        elif theirs and SELF not in theirs:
            left = _node(without(node, theirs)) if node else node
            if left is not None:
                result[element] = left
    return result


def _node(content: FieldSet) -> FieldSet | None:
    """A node with this content: one that is only itself is empty, one with nothing is none."""
    if not content:
        return None
    return {} if len(content) == 1 and SELF in content else content


def decode(raw: Any) -> FieldSet:
    """A set from FieldsV1, with its path elements as we write them; ValueError for what is none."""
    if not isinstance(raw, dict):
        raise ValueError("fields are no object")  # noqa: TRY004 - one error for all that cannot be read
    result: FieldSet = {}
    for element, content in raw.items():
        if element == SELF:
            result[SELF] = {}
        elif (known := _canonical(element)) is not None:
            node = decode({} if content is None else content)
            result[known] = {} if len(node) == 1 and SELF in node else node
    return result


def encode(fields: FieldSet) -> RawObject:
    """A set as FieldsV1, in the order of the real server."""
    if not fields:
        return {}
    ordered: RawObject = {SELF: {}} if SELF in fields else {}
    for element in sorted((each for each in fields if each != SELF), key=_order):
        ordered[element] = encode(fields[element])
    return ordered


@lru_cache(maxsize=8192)
def _canonical(element: str) -> str | None:
    """A path element as we write it; None for a form that a later version may know."""
    form, separator, content = element.partition(":")
    if not separator or len(form) != 1:
        raise ValueError(f"{element!r} is no path element")
    match form:
        case "f":
            return element
        case "k":
            keys = json.loads(content)
            if not isinstance(keys, dict):
                raise ValueError(f"{element!r} has no keys")  # noqa: TRY004 - one error for all that cannot be read
            return "k:" + compact({name: _plain(value) for name, value in keys.items()})
        case "v":
            return "v:" + compact(_plain(json.loads(content)))
        case "i":
            return f"i:{int(content)}"
    return None


@lru_cache(maxsize=8192)
def _order(element: str) -> tuple[Any, ...]:
    """Fields come first, then keyed items, values and indexes; each by its content."""
    form, content = element[0], element[2:]
    match form:
        case "f":
            return (0, content)
        case "k":
            return (1, *((name, _rank(value)) for name, value in json.loads(content).items()))
        case "v":
            return (2, _rank(json.loads(content)))
    return (3, int(content))


def _rank(value: Any) -> tuple[int, Any]:
    """Orders values of different types: numbers, strings, truth values, the rest."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    return (1, value) if isinstance(value, str) else (3, compact(value))


def written(path: Path) -> str:
    """A path as sentences write it: `.spec.containers[name="a"].image`."""
    return "".join(_written(element) for element in path)


def _written(element: str) -> str:
    form, content = element[0], element[2:]
    match form:
        case "f":
            return "." + content
        case "k":
            return "[" + ",".join(f"{name}={_told(value)}" for name, value in json.loads(content).items()) + "]"
        case "v":
            return f"[={_told(json.loads(content))}]"
    return f"[{content}]"


def _told(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return number(value) if isinstance(value, int | float) else compact(value)


@dataclass(frozen=True)
class Owner:
    """Who owns fields: an updater in each version it used, an applier once."""

    manager: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        """As conflicts name it."""
        text = quote(self.manager)
        if self.subresource:
            text += f" with subresource {quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


def applier(manager: str, subresource: str) -> Owner:
    """The owner of what a manager applies."""
    return Owner(manager or "unknown", APPLY, "", subresource)


def updater(manager: str, api_version: str, subresource: str) -> Owner:
    """The owner of what a manager writes in other ways."""
    return Owner(manager or "unknown", UPDATE, api_version, subresource)


@dataclass(frozen=True)
class Owned:
    """The fields of an owner, in which version it wrote them and when it last changed something."""

    fields: FieldSet
    api_version: str
    time: str | None = None

    def but(self, fields: FieldSet) -> Owned:
        """The same with other fields."""
        return replace(self, fields=fields)


Managers: TypeAlias = dict[Owner, Owned]


def read(entries: Sequence[Any] | None) -> Managers:
    """The owners that entries of managedFields tell of; ValueError where one cannot be read."""
    managers: Managers = {}
    for entry in entries or ():
        if not isinstance(entry, Mapping) or entry.get("operation") not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        texts = [entry.get(name) for name in ("manager", "apiVersion", "time", "subresource")]
        if not entry.get("apiVersion") or not all(text is None or isinstance(text, str) for text in texts):
            raise ValueError("apiVersion must not be empty, and all but fieldsV1 is text")
        if entry.get("fieldsType") != "FieldsV1":
            raise ValueError("fieldsType must be `FieldsV1`")
        version = entry["apiVersion"]
        operation = entry["operation"]
        owner = Owner(
            entry.get("manager") or "",
            operation,
            version if operation == UPDATE else "",
            entry.get("subresource") or "",
        )
        managers[owner] = Owned(decode(entry.get("fieldsV1") or {}), version, entry.get("time"))
    return managers


def write(managers: Managers) -> list[RawObject]:
    """The entries of managedFields, in the order of the real server: by operation, time and name."""
    entries = []
    for owner, owned in sorted(managers.items(), key=_place):
        entry: RawObject = {}
        if owner.manager:
            entry["manager"] = owner.manager
        entry["operation"] = owner.operation
        entry["apiVersion"] = owned.api_version
        if owned.time is not None:
            entry["time"] = owned.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = encode(owned.fields)
        if owner.subresource:
            entry["subresource"] = owner.subresource
        entries.append(entry)
    return entries


def _place(entry: tuple[Owner, Owned]) -> tuple[str, ...]:
    owner, owned = entry
    return (owner.operation, owned.time or "", owner.manager, owned.api_version, owner.subresource)
