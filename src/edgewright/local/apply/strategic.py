"""Strategic merge patch, as kube-apiserver applies it to built-in kinds.

The handler of PATCH calls `merge` with decoded JSON and the fields of the kind. It follows the real server in what it
merges, in which order, and in what it says of a patch that cannot be merged; it never changes its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewright.local.apply.fieldtypes import FieldType, PatchStrategy
from edgewright.local.apply.gotext import printed, type_name
from edgewright.local.errors import Refusal, bad_request
from edgewright.local.go_format import quote
from edgewright.runtime.objects import RawObject

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
ORDER = "$setElementOrder"
DELETE_VALUES = "$deleteFromPrimitiveList"
_BAD_ORDER = "invalid patch format of setElementOrder list"


def merge(live: RawObject, patch: Any, fields: FieldType) -> RawObject:
    """The object after a strategic merge patch; refuses a patch that makes no sense for its fields."""
    if not isinstance(patch, dict):
        # Null counts as an empty object where Go decodes it into a map.
        if patch is not None:
            raise bad_request(
                f"json: cannot unmarshal {_json_type(patch)} into Go value of type map[string]interface {{}}"
            )
        patch = {}
    try:
        return _maps(_copied(live), _copied(patch), fields)
    except RecursionError:
        raise bad_request("the object is nested too deeply") from None


def _maps(live: RawObject, patch: RawObject, fields: FieldType) -> RawObject:
    """Merges a patch into a map; both are ours to change."""
    if DIRECTIVE in patch:
        match patch[DIRECTIVE]:
            case "replace":
                return {name: value for name, value in patch.items() if name != DIRECTIVE}
            case "delete":
                return {}
            case other:
                raise _unknown(other, patch)
    _retain(live, patch)
    for name in [name for name in patch if name.startswith(ORDER)]:
        _ordered(live, patch, name, fields)
    for name, value in patch.items():
        deletes = name.startswith(DELETE_VALUES)
        target = _after_slash(name, DELETE_VALUES, "invalid patch format of primitive list") if deletes else name
        if value is None:
            live.pop(target, None)
        elif target in live and _alike(live[target], value):
            _member(live, target, value, fields, deletes=deletes)
        elif not deletes:
            _set(live, target, _without_directives(_without_nulls(value)))
    return live


def _member(live: RawObject, name: str, value: Any, fields: FieldType, *, deletes: bool) -> None:
    """Merges a field that is on both sides and of one type."""
    if isinstance(value, dict):
        inner = _field(fields, name)
        live[name] = value if inner.patch.replaces else _maps(live[name], value, inner)
    elif isinstance(value, list):
        element, strategy = _list_field(fields, name)
        if strategy.merges or deletes:
            live[name], _ = _lists(live[name], value, element, strategy.key, deletes=deletes)
        else:
            live[name] = value
    else:
        live[name] = value


def _set(live: RawObject, name: str, value: Any) -> None:
    """Sets a field that was not there, unless it is nothing but a directive."""
    if value is _DROPPED:
        live.pop(name, None)
    else:
        live[name] = value


def _retain(live: RawObject, patch: RawObject) -> None:
    """Takes away what a $retainKeys list does not name; the patch itself may name nothing else either."""
    if RETAIN_KEYS not in patch:
        return
    kept = patch.pop(RETAIN_KEYS)
    if not isinstance(kept, list):
        raise bad_request("invalid patch format of retainKeys")
    for name, value in patch.items():
        if value is not None and not name.startswith((DELETE_VALUES, ORDER)) and name not in kept:
            raise bad_request("invalid patch format of retainKeys")
    for name in [name for name in live if name not in kept]:
        del live[name]


def _ordered(live: RawObject, patch: RawObject, directive: str, fields: FieldType) -> None:
    """Merges the list that a $setElementOrder directive is about, and brings it into that order."""
    order = patch.pop(directive)
    if not isinstance(order, list):
        raise _wrong_type(list, order)
    name = _after_slash(directive, ORDER, _BAD_ORDER)
    before, wanted = live.get(name), patch.get(name)
    for present, value in ((name in live, before), (name in patch, wanted)):
        if present and not isinstance(value, list):
            raise _wrong_type(list, value)
    element, strategy = _list_field(fields, name)
    _check_order(wanted or [], order, strategy.key)
    if before is None and wanted is None:
        return
    serverside = list(before or [])
    if before is None:
        merged = _without_directives(wanted)
    elif wanted is None:
        merged = before
    elif strategy.merges:
        merged, assembled = _lists(before, wanted, element, strategy.key, deletes=False)
        # In the real server new items stand where deleted ones stood, and so count as if they had been there.
        if not any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" for item in wanted):
            serverside = assembled[: len(before)]
    else:
        merged = wanted
    mine, others = _partition(merged, order, strategy.key)
    _element_type(serverside, wanted or [])
    live[name] = _in_order(mine, others, order, serverside, strategy.key)
    patch.pop(name, None)


def _check_order(wanted: list[Any], order: list[Any], key: str) -> None:
    """The patch's items must be in the order, and in that order; those that are to be deleted do not count."""
    if not wanted or not order:
        return
    left = [item for item in wanted if not key or _as_map(item).get(DIRECTIVE) != "delete"]
    place = 0
    for item in order:
        while place < len(left) and isinstance(left[place], dict) and DIRECTIVE in left[place]:
            place += 1
        if place == len(left):
            break
        if _equal(_key_of(left[place], key), _key_of(item, key)):
            place += 1
    if place < len(left):
        raise _unclear(f"The order in patch list:\n{printed(wanted)}\n doesn't match {ORDER} list:\n{printed(order)}\n")


def _lists(
    live: list[Any], patch: list[Any], element: FieldType, key: str, *, deletes: bool
) -> tuple[list[Any], list[Any]]:
    """Merges two lists, plain values as a set and maps by their key; also gives them merged and not yet ordered."""
    if not live and not patch:
        return live, live
    if _element_type(live, patch) is not dict:
        if deletes:
            left = [item for item in live if not _found(item, patch)]
            return left, left
        key = ""
        merged: list[Any] = _distinct([*live, *patch])
    else:
        if not key:
            raise _unclear("cannot merge lists without merge key for struct")
        live, patch = _special(live, patch, key)
        merged = _merged_items(live, patch, element, key)
    mine, others = _partition(merged, patch, key)
    return _in_order(mine, others, patch, live, key), merged


def _special(live: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Does what items with a directive ask for; gives the list to merge into and the items to merge."""
    plain = []
    replace = False
    for item in patch:
        if DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[DIRECTIVE]:
            case "delete":
                value = _key_of(item, key)
                live = [other for other in live if not (key in other and _equal(other[key], value))]
            case "replace":
                replace = True
            case "merge":
                raise _unclear("merging lists cannot yet be specified in the patch")
            case other:
                raise _unknown(other, item)
    return (plain, []) if replace else (live, plain)


def _merged_items(live: list[Any], patch: list[Any], element: FieldType, key: str) -> list[Any]:
    merged = list(live)
    for item in patch:
        value = _key_of(item, key)
        place = next((i for i, other in enumerate(merged) if key in other and _equal(other[key], value)), None)
        if place is None:
            merged.append(item)
        else:
            merged[place] = _maps(merged[place], item, element)
    return merged


def _partition(items: list[Any], by: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Items that are in the other list, and those that are not."""
    known = by
    if key:
        for place, item in enumerate(by):
            if items and not isinstance(item, dict):
                raise _unclear(f"value for key {place} is not a map")
        known = [item[key] for item in by if key in item]
    mine: list[Any] = []
    others: list[Any] = []
    for item in items:
        (mine if _found(_key_of(item, key), known) else others).append(item)
    return mine, others


def _in_order(mine: list[Any], others: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """The patch's items in the order asked for, and the others put among them as they stood in the live list."""
    for items in (mine, order, others, live):
        for item in items:
            _key_of(item, key)
    mine = sorted(mine, key=lambda item: _index(order, item, key))
    others = sorted(others, key=lambda item: _index(live, item, key))
    result: list[Any] = []
    left = right = 0
    while left < len(others) or right < len(mine):
        if left == len(others):
            result.append(mine[right])
            right += 1
        elif right == len(mine) or 0 <= _index(live, others[left], key) < _index(live, mine[right], key):
            result.append(others[left])
            left += 1
        else:
            result.append(mine[right])
            right += 1
    return result


def _index(items: list[Any], item: Any, key: str) -> int:
    value = _key_of(item, key)
    for place, other in enumerate(items):
        if _equal(_key_of(other, key), value):
            return place
    return -1


def _key_of(item: Any, key: str) -> Any:
    """What an item is told apart by."""
    if not key:
        return item
    if key not in _as_map(item):
        raise _unclear(f"map: {printed(item)} does not contain declared merge key: {key}")
    return item[key]


def _as_map(item: Any) -> RawObject:
    if not isinstance(item, dict):
        raise _wrong_type(dict, item)
    return item


def _field(fields: FieldType, name: str) -> FieldType:
    """The type of a field of a struct; the real server merges maps only where it knows the struct."""
    members = fields.members
    if members is None or not members.fields:
        raise _unclear("merging an object in json but data type is not struct, instead is: map")
    if name not in members.fields:
        why = f"unable to find api field in struct {fields.name} for the json field {quote(name)}"
        raise _unclear(why)
    return members.fields[name]


def _list_field(fields: FieldType, name: str) -> tuple[FieldType, PatchStrategy]:
    """The type of the items of a list in a struct, and how it is merged."""
    found = _field(fields, name)
    if found.items is None:
        raise _unclear("expected slice or array type, but got: struct")
    return found.items.element, found.patch


def _element_type(*lists: Sequence[Any]) -> type:
    """The one type that all items have."""
    found: type | None = None
    for item in (item for items in lists for item in items):
        if found is None and isinstance(item, list):
            raise Refusal(422, "", "lists of lists are not supported", {})
        if item is None:
            raise bad_request("lists to merge have no null items")
        if found is not None and type(item) is not found:
            listed = " ".join(printed(list(items)) for items in lists)
            raise _unclear(f"list element types are not identical: [{listed}]")
        found = type(item)
    if found is None:
        raise _unclear("no elements in any of the given slices")
    return found


def _distinct(items: list[Any]) -> list[Any]:
    """Each value once; like the real server, a double is filled with the last value."""
    items = list(items)
    place = 0
    while place < len(items):
        later = place + 1
        while later < len(items):
            if _equal(items[place], items[later]):
                items[later] = items[-1]
                items.pop()
            else:
                later += 1
        place += 1
    return items


def _found(value: Any, items: list[Any]) -> bool:
    return any(_equal(value, item) for item in items)


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _alike(one: Any, other: Any) -> bool:
    return type(one) is type(other)


class _Dropped:
    """What is nothing but a directive."""


_DROPPED = _Dropped()


def _without_directives(value: Any) -> Any:
    """A new value without maps that carry a directive."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return _DROPPED
        inner = {name: _without_directives(each) for name, each in value.items()}
        return {name: each for name, each in inner.items() if each is not _DROPPED}
    if isinstance(value, list):
        return [each for each in map(_without_directives, value) if each is not _DROPPED]
    return value


def _without_nulls(value: Any) -> Any:
    """A new value; maps in it lose their null fields, lists keep their null items."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def _after_slash(name: str, prefix: str, fault: str) -> str:
    head, slash, rest = name.partition("/")
    if not slash or head != prefix:
        raise bad_request(fault)
    return rest


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value


def _wrong_type(expected: type, value: Any) -> Refusal:
    given = "%!s(<nil>)" if value is None else type_name(value)
    return _unclear(f"expected a {type_name(expected())}, but received a {given}")


def _unknown(directive: Any, where: RawObject) -> Refusal:
    told = printed(directive)
    if isinstance(directive, int | float):
        told = f"%!s({type_name(directive)}={told})"
    return _unclear(f"unknown patch type: {told} in map: {printed(where)}")


def _unclear(message: str) -> Refusal:
    """Most faults of a patch have no reason in the real server, and the code of an error of its own."""
    return Refusal(500, "", message)


def _json_type(value: Any) -> str:
    return {str: "string", bool: "bool", list: "array"}.get(type(value), "number")
