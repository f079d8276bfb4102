"""What differs between two objects, as sets of fields, and which fields an object has.

`apply` asks it whose fields a write changed. It walks objects along their `FieldType` and never changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from edgewright.local.apply import managed
from edgewright.local.apply.fieldtypes import FieldType, ListType, MapType
from edgewright.local.apply.managed import SELF, FieldSet


class _Missing:
    """The absence of a value, which is not the same as null."""


MISSING: Final = _Missing()


class UnkeyedError(ValueError):
    """An item of a list cannot be told from the others."""


def element_of(items: ListType, item: Any) -> str:
    """The path element of an item of a set or of a list with keys."""
    if not items.keys:
        if isinstance(item, dict):
            raise UnkeyedError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise UnkeyedError("not supported: associative list with lists as elements")
        if item is None:
            raise UnkeyedError("associative list without keys has an element that's an explicit null")
        return managed.valued(item)
    if item is None:
        raise UnkeyedError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise UnkeyedError("associative list with keys may not have non-map elements")
    names, values = [], []
    for key in items.keys:
        value = item[key] if key in item else items.default(key)
        if value is not None or key in item:
            names.append(key)
            values.append(value)
    if not names:
        listed = " ".join(f'"{key}"' for key in items.keys)
        raise UnkeyedError(
            f"associative list with keys has an element that omits all key fields [{listed}] "
            "(and doesn't have default values for any key fields)"
        )
    if any(isinstance(value, dict | list) for value in values):
        raise UnkeyedError("associative list with keys has an element with a key that is no plain value")
    return managed.keyed(tuple(names), *values)


def same(one: Any, other: Any) -> bool:
    """Equal as JSON, where 1 is 1.0 and true is not 1."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def shape(value: Any, fields: FieldType) -> MapType | ListType | None:
    """How a value is walked: as a map, as a list, or (None) as a plain value."""
    if isinstance(value, list):
        if fields.items is not None:
            return fields.items
    elif isinstance(value, dict):
        if fields.members is not None:
            return fields.members
    elif value is not None and fields.scalar:
        return None
    # Null, or a value that should not be here: it is walked as what should be.
    return fields.members if fields.members is not None else None if fields.scalar else fields.items


@dataclass
class Comparison:
    """The fields in which two objects differ; none is in more than one of the sets."""

    removed: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    added: FieldSet = field(default_factory=dict)

    def but(self, ignored: FieldSet) -> Comparison:
        """The same without some fields and all that is below them."""
        if not ignored:
            return self
        return Comparison(
            removed=managed.without(self.removed, ignored),
            modified=managed.without(self.modified, ignored),
            added=managed.without(self.added, ignored),
        )

    def __bool__(self) -> bool:
        """Whether there is a difference at all."""
        return bool(self.removed or self.modified or self.added)


def compare(old: Any, new: Any, fields: FieldType) -> Comparison:
    """What the change from `old` to `new` removed, modified and added."""
    result = Comparison()
    _Walk(result).value(old, new, fields, ())
    return result


def whole(value: Any, fields: FieldType) -> FieldSet:
    """The node of a value that is only on one side of a comparison: itself and everything below."""
    shaped = shape(value, fields)
    if not value or shaped is None or shaped.atomic:
        return {}
    node: FieldSet = {SELF: {}}
    if isinstance(shaped, MapType):
        if not isinstance(value, dict):
            return {}
        for name, inner in value.items():
            node["f:" + name] = whole(inner, shaped.member(name))
        return node
    if not isinstance(value, list):
        return {}
    for element, found in _by_element(shaped, value).items():
        # Items that cannot be told apart are one field together.
        node[element] = whole(found[0], shaped.element) if len(found) == 1 else {}
    return node


def _by_element(items: ListType, values: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in values:
        found.setdefault(element_of(items, item), []).append(item)
    return found


class _Walk:
    """A walk through two values at once that notes where they differ."""

    def __init__(self, result: Comparison) -> None:
        self._result = result

    def value(self, old: Any, new: Any, fields: FieldType, path: managed.Path) -> None:
        """Notes the differences of two values, each of which may be missing (but not both)."""
        if old is MISSING:
            _put(self._result.added, path, whole(new, fields))
        elif new is MISSING:
            _put(self._result.removed, path, whole(old, fields))
        elif old != new or not same(old, new):
            as_old, as_new = shape(old, fields), shape(new, fields)
            if as_old is not as_new and old is not None and new is not None:
                self._shaped(old, new, as_old, path)
            self._shaped(old, new, as_old if new is None else as_new, path)

    def _shaped(self, old: Any, new: Any, shaped: MapType | ListType | None, path: managed.Path) -> None:
        if isinstance(shaped, MapType) and not shaped.atomic:
            olds, news = (value if isinstance(value, dict) else {} for value in (old, new))
            if olds or news:
                self._maps(olds, news, shaped, path)
                return
        elif isinstance(shaped, ListType) and not shaped.atomic:
            before, after = (value if isinstance(value, list) else [] for value in (old, new))
            if before or after:
                self._lists(before, after, shaped, path)
                return
        _put(self._result.modified, path, {})

    def _maps(self, old: dict[str, Any], new: dict[str, Any], members: MapType, path: managed.Path) -> None:
        for name in old.keys() | new.keys():
            before, after = old.get(name, MISSING), new.get(name, MISSING)
            self.value(before, after, members.member(name), (*path, "f:" + name))

    def _lists(self, old: list[Any], new: list[Any], items: ListType, path: managed.Path) -> None:
        before, after = _by_element(items, old), _by_element(items, new)
        for element in before.keys() | after.keys():
            olds, news = before.get(element, []), after.get(element, [])
            here = (*path, element)
            if len(olds) <= 1 and len(news) <= 1:
                self.value(olds[0] if olds else MISSING, news[0] if news else MISSING, items.element, here)
            elif len(olds) > 1 and len(news) > 1:
                if not same(olds, news):
                    _put(self._result.modified, here, {})
            elif len(olds) > 1:
                if news:
                    self.value(MISSING, news[0], items.element, here)
                _put(self._result.removed, here, {})
            else:
                if olds:
                    self.value(olds[0], MISSING, items.element, here)
                _put(self._result.added, here, {})


def _put(into: FieldSet, path: managed.Path, node: FieldSet) -> None:
    """Adds a node at a path to a set that is still being made, so that it is ours to change."""
    for element in path[:-1]:
        below = into.get(element)
        if below is None:
            into[element] = below = {}
        into = below
    last = path[-1]
    into[last] = managed.union({last: into[last]}, {last: node})[last] if last in into else node


def fields_of(value: Any, fields: FieldType) -> FieldSet:
    """The fields that an applied object names: its leaves, the items of its lists, and fields that no schema names."""
    node = _fields_of(value, fields)
    node.pop(SELF, None)
    return node


def _fields_of(value: Any, fields: FieldType) -> FieldSet:
    """What is below a value; with SELF where the value itself is a member."""
    shaped = shape(value, fields)
    if shaped is None or shaped.atomic:
        return {SELF: {}}
    node: FieldSet = {}
    if isinstance(shaped, MapType):
        for name, inner in (value if isinstance(value, dict) else {}).items():
            child = _fields_of(inner, shaped.member(name))
            if inner is None or inner == {} or name not in shaped.fields:
                child[SELF] = {}
            _hang(node, "f:" + name, child)
        return node
    for element, found in _by_element(shaped, value if isinstance(value, list) else []).items():
        child = _fields_of(found[0], shaped.element) if len(found) == 1 else {}
        child[SELF] = {}
        _hang(node, element, child)
    return node


def _hang(node: FieldSet, element: str, child: FieldSet) -> None:
    """Puts what was found below an element into a node, where it is anything."""
    if len(child) == 1 and SELF in child:
        node[element] = {}
    elif child:
        node[element] = child
