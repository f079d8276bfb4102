"""The arithmetic of server-side apply on objects: one merged into another, fields taken out, a patch checked.

`apply` calls it with a live object and an applied one. Results share parts with what they came from, so nobody may
change them in place; nothing here knows managers.
"""

from __future__ import annotations

from typing import Any

from edgewright.local.apply import managed
from edgewright.local.apply.compare import MISSING, UnkeyedError, element_of, shape
from edgewright.local.apply.fieldtypes import (
    BOOLEAN,
    NUMERIC,
    STRING,
    FieldType,
    ListType,
    MapType,
)
from edgewright.local.apply.gotext import literal, printed, type_name
from edgewright.local.apply.managed import SELF, FieldSet


def combined(live: Any, applied: Any, fields: FieldType) -> Any:
    """The live value with everything that is applied in it; either may be MISSING."""
    if live is MISSING or applied is MISSING:
        return live if applied is MISSING else applied
    shaped = shape(live if applied is None else applied, fields)
    if isinstance(shaped, MapType) and not shaped.atomic:
        lives, news = (value if isinstance(value, dict) else {} for value in (live, applied))
        if lives or news:
            return _combined_maps(lives, news, shaped)
    elif isinstance(shaped, ListType) and not shaped.atomic:
        before, after = (value if isinstance(value, list) else [] for value in (live, applied))
        if before or after:
            return _combined_lists(before, after, shaped)
    return applied


def _combined_maps(live: dict[str, Any], applied: dict[str, Any], members: MapType) -> dict[str, Any]:
    result = dict(live)
    for name, value in applied.items():
        result[name] = combined(live.get(name, MISSING), value, members.member(name))
    return result


def _combined_lists(live: list[Any], applied: list[Any], items: ListType) -> list[Any]:
    return _Lists(live, applied, items).combined()


class _Lists:
    """Two lists on their way to one.

    Items keep the order of the live list, except that those in both are in the order of the applied one. What is only
    applied comes before the next item that is in both, and after what is only live.
    """

    def __init__(self, live: list[Any], applied: list[Any], items: ListType) -> None:
        self._items = items
        self._live = live
        self._lefts = [element_of(items, item) for item in live]
        self._rights = [element_of(items, item) for item in applied]
        self._applied = dict(zip(self._rights, applied, strict=True))
        self._before: dict[str, Any] = {}
        for element, item in zip(self._lefts, live, strict=True):
            # Items that cannot be told apart are replaced by the applied one, not merged with it.
            self._before[element] = None if element in self._before else item
        self._shared = [element for element in self._rights if element in self._before]
        self._merged: set[str] = set()
        self._result: list[Any] = []
        self._left = self._right = 0

    def combined(self) -> list[Any]:
        """The one list."""
        while self._left < len(self._lefts) or self._right < len(self._rights):
            if self._left < len(self._lefts) and self._passed_live(self._lefts[self._left]):
                continue
            if self._right < len(self._rights):
                self._take()
        return self._result

    def _passed_live(self, element: str) -> bool:
        """Whether the next live item is dealt with, so that the one after it is next."""
        if self._right < len(self._rights):
            if element == self._rights[self._right]:
                self._take()
                self._left += 1
                return True
            if element in self._applied and self._shared and self._shared[0] != element:
                # It has its place later, in the order of the applied list.
                self._left += 1
                return True
        if element not in self._applied:
            self._result.append(self._live[self._left])
            self._left += 1
            return True
        if element in self._merged:
            self._left += 1
        return False

    def _take(self) -> None:
        """Adds the next applied item, merged with the live one where there is one."""
        element = self._rights[self._right]
        self._right += 1
        self._merged.add(element)
        if self._shared and self._shared[0] == element:
            self._shared.pop(0)
        before = self._before.get(element, MISSING)
        self._result.append(combined(before, self._applied[element], self._items.element))


def removed(value: Any, fields: FieldType, gone: FieldSet) -> Any:
    """A value without the fields of a set; null where nothing of it is left."""
    shaped = shape(value, fields)
    if shaped is None:
        return value
    if not value or shaped.atomic:
        return None
    if isinstance(shaped, MapType):
        return _removed_members(value, shaped, gone) if isinstance(value, dict) else None
    return _removed_items(value, shaped, gone) if isinstance(value, list) else None


def _removed_members(value: dict[str, Any], members: MapType, gone: FieldSet) -> dict[str, Any] | None:
    left = {}
    for name, inner in value.items():
        node = gone.get("f:" + name)
        if node is None:
            left[name] = inner
        elif node and SELF not in node:
            left[name] = removed(inner, members.member(name), node)
    return left or None


def _removed_items(value: list[Any], items: ListType, gone: FieldSet) -> list[Any] | None:
    left = []
    for item in value:
        node = gone.get(element_of(items, item))
        if node is None:
            left.append(item)
        elif node and SELF not in node:
            left.append(removed(item, items.element, node))
    return left or None


def with_parents(owned: FieldSet, fields: FieldType | None) -> FieldSet:
    """A set in which every named field that has something below it is a member too."""
    members = fields.members if fields is not None else None
    items = fields.items if fields is not None else None
    result: FieldSet = {}
    for element, node in owned.items():
        if not node:
            result[element] = node
            continue
        below: FieldType | None = None
        named = False
        if element.startswith("f:") and members is not None:
            below = members.fields.get(element[2:]) or members.element
            named = element[2:] in members.fields
        elif element.startswith("k:") and items is not None:
            below = items.element
        inner = with_parents(node, below)
        result[element] = {SELF: {}, **inner} if named and SELF not in inner else inner
    return result


def reconciled(owned: FieldSet, fields: FieldType) -> FieldSet:
    """A set that was written when parts of the schema were not yet one value as a whole, as if they had been."""
    members, items = fields.members, fields.items
    result: FieldSet = {}
    for element, node in owned.items():
        below: FieldType | None = None
        if members is not None:
            below = members.member(element[2:]) if element.startswith("f:") and not members.untyped else None
        elif items is not None and element != SELF:
            below = items.element
        result[element] = node if below is None or not node else _reconciled(node, below)
    return result


def _reconciled(node: FieldSet, fields: FieldType) -> FieldSet:
    if fields.members is not None:
        return {} if fields.members.atomic and not fields.members.untyped else reconciled(node, fields)
    if fields.scalar or fields.items is None:
        return node
    return {} if fields.items.atomic else reconciled(node, fields)


def faults(value: Any, fields: FieldType, path: str = "") -> list[str]:
    """What keeps an applied object from being merged: fields that nobody knows, wrong types, items twice."""
    shaped = shape(value, fields)
    if value is None:
        return []
    if shaped is None:
        wrong = _wrong_scalar(value, fields.scalar)
        return [f"{path}: {wrong}"] if wrong else []
    if isinstance(shaped, MapType):
        if not isinstance(value, dict):
            return [f"{path}: expected map, got &{{{printed(value)}}}"]
        return _map_faults(value, shaped, path)
    if not isinstance(value, list):
        return [f"{path}: expected list, got &{{{printed(value)}}}"]
    return _list_faults(value, shaped, path)


def _map_faults(value: dict[str, Any], members: MapType, path: str) -> list[str]:
    found: list[str] = []
    for name, inner in value.items():
        if not members.declares(name):
            return [*found, f"{path}.{name}: field not declared in schema"]
        found += faults(inner, members.member(name), f"{path}.{name}")
    return found


def _list_faults(value: list[Any], items: ListType, path: str) -> list[str]:
    found: list[str] = []
    seen = set()
    for place, item in enumerate(value):
        element = f"i:{place}"
        if not items.atomic:
            try:
                element = element_of(items, item)
            except UnkeyedError as why:
                return [*found, f"{path}: element {place}: {why}"]
            if element in seen:
                found.append(f"{path}: duplicate entries for key {managed.written((element,))}")
            seen.add(element)
        found += faults(item, items.element, path + managed.written((element,)))
    return found


def _wrong_scalar(value: Any, scalar: str) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == NUMERIC and not is_number:
        return f"expected numeric (int or float), got {type_name(value)}"
    if scalar == STRING and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{literal(value)}}}"
    if scalar == BOOLEAN and not isinstance(value, bool):
        return f"expected boolean, got &{{{printed(value)}}}"
    if isinstance(value, dict | list):
        return f"expected any scalar, got &{{{printed(value)}}}"
    return ""
