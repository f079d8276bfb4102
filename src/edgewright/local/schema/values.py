"""Whether the values of an object are those that its schema allows, in the very words of the real server.

`Compiled.validate` calls it with the object, and for an update with the pair of old and new, so that faults in what is
unchanged are let pass. Duplicates in lists, embedded objects and CEL rules are looked at elsewhere.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import Any, Final

from edgewright.local.go_format import quote
from edgewright.local.schema import formats, patterns, value_errors
from edgewright.local.schema.correlation import Pair
from edgewright.local.schema.nodes import Node
from edgewright.runtime.errors import Cause

_EPSILON: Final = 1e-9
_SAFE: Final = float(2**53 - 1)
_NULL: Final = "null"


def check(value: Any, node: Node, pair: Pair | None, *, within: str = "") -> list[Cause]:
    """What is wrong with a value that is at `within` in its object, or is the object itself."""
    outcome = _ratcheted(value, node, "", pair, within) if pair else _value(value, node, "", None, within)
    return list(outcome.faults.values())


@dataclass
class _Outcome:
    """What was found, by the sentence that names it, and how many checks went well: alternatives are chosen by that."""

    faults: dict[str, Cause] = field(default_factory=dict)
    passed: int = 0

    def merge(self, other: _Outcome) -> None:
        for sentence, cause in other.faults.items():
            self.faults.setdefault(sentence, cause)
        self.passed += other.passed


class _Place:
    """Where a value is, and the faults that are named there."""

    def __init__(self, path: str, within: str) -> None:
        self.path = path
        self.within = within
        self.found: dict[str, Cause] = {}

    def field(self, path: str | None = None) -> str:
        """The field as a cause names it: below the place where validation began."""
        relative = (self.path if path is None else path).removeprefix(".")
        return ".".join(filter(None, (self.within, relative))) or value_errors.NOWHERE

    def invalid(self, value: Any, what: str) -> None:
        """The value breaks a demand, which `what` names."""
        sentence = f"{self.path} in body {what}"
        self.add(sentence, value_errors.invalid(self.field(), value, sentence))

    def wrong_type(self, wanted: str, got: str) -> None:
        """The value is of another type or format than is wanted."""
        sentence = f"{self.path} in body must be of type {wanted}: {quote(got)}"
        self.add(sentence, value_errors.type_invalid(self.field(), got, sentence))

    def whole(self, sentence: str) -> None:
        """Something that is not said of a field."""
        self.add(sentence, value_errors.invalid(self.within or value_errors.NOWHERE, "", sentence))

    def add(self, sentence: str, cause: Cause) -> None:
        """Each sentence counts once."""
        self.found.setdefault(sentence, cause)


def _ratcheted(value: Any, node: Node, path: str, pair: Pair, within: str) -> _Outcome:
    """As `_value`, without the faults of a value that was so before."""
    outcome = _value(value, node, path, pair, within)
    if outcome.faults and pair.unchanged():
        outcome.faults = {}
    return outcome


def _value(value: Any, node: Node, path: str, pair: Pair | None, within: str) -> _Outcome:
    place = _Place(path, within)
    format_ = "" if not node.format else formats.checked(node.format, "" if node.int_or_string else node.type)
    if value is None:
        # Only its type and its being one of several values are asked of a null.
        passed = _null(node, place)
        _enumerated(value, node, place)
        return _Outcome(place.found, passed)
    # One for the value, and one each for composition and enumeration, which are asked of every value.
    outcome = _Outcome(place.found, 3)
    if node.types or format_:
        outcome.passed += 1 + _typed(value, node, format_, place)
    outcome.merge(_composed(value, node, place))
    if isinstance(value, str):
        outcome.passed += 1
        _text(value, node, place)
        if format_ and node.type in ("", "string"):
            outcome.passed += 1
            if not formats.has(format_, value):
                place.wrong_type(format_, value)
    elif isinstance(value, list):
        outcome.passed += 2
        outcome.merge(_list(value, node, place, pair))
    elif isinstance(value, dict):
        outcome.passed += 1
        outcome.merge(_object(value, node, place, pair))
    elif not isinstance(value, bool):
        outcome.passed += 2
        _number(value, node, format_, place)
    _enumerated(value, node, place)
    return outcome


def _null(node: Node, place: _Place) -> int:
    if node.types and not node.nullable:
        place.wrong_type(",".join(node.types), _NULL)
        return 0
    return 1


def _typed(value: Any, node: Node, format_: str, place: _Place) -> int:
    """Whether the value is of the type; a list passes for a string that has a format, as on the real server."""
    got, got_format = _type_of(value)
    fits = (
        got in node.types
        or (got == "number" and "integer" in node.types and _whole(value))
        or (got == "integer" and "number" in node.types)
    )
    numeric = "number" in node.types or "integer" in node.types
    if not isinstance(value, str | list) and format_ and not (fits or got_format == format_):
        place.wrong_type(format_, got_format)
        return 0
    if not numeric and format_ and isinstance(value, str | list):
        return 1
    if not fits:
        place.wrong_type(",".join(node.types), got)
        return 0
    return 1


def _type_of(value: Any) -> tuple[str, str]:
    """The type of a value in a schema's terms, and the format that the real server takes it to have."""
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, str):
        return "string", ""
    if isinstance(value, list):
        return "array", ""
    if isinstance(value, dict):
        return "object", ""
    return ("integer", "int64") if value_errors.is_int(value) else ("number", "float64")


def _composed(value: Any, node: Node, place: _Place) -> _Outcome:
    """anyOf, oneOf, allOf and not; what is below them is never let pass for being unchanged."""
    outcome = _Outcome(place.found, 1)
    within = place.within
    if node.any_of:
        outcome.merge(_any(value, node.any_of, place, within))
    if node.one_of:
        outcome.merge(_one(value, node.one_of, place, within))
    if node.all_of:
        results = [_value(value, each, place.path, None, within) for each in node.all_of]
        for result in results:
            outcome.merge(result)
        failed = sum(1 for result in results if result.faults)
        if failed:
            none = ". None validated" if failed == len(results) else ""
            place.whole(f"{quote(place.path)} must validate all the schemas (allOf){none}")
    if node.forbidden is not None and not _value(value, node.forbidden, place.path, None, within).faults:
        place.whole(f"{quote(place.path)} must not validate the schema (not)")
    return outcome


def _any(value: Any, nodes: list[Node], place: _Place, within: str) -> _Outcome:
    best: _Outcome | None = None
    for node in nodes:
        result = _value(value, node, place.path, None, within)
        if not result.faults:
            return result
        if best is None or result.passed > best.passed:
            best = result
    place.whole(f"{quote(place.path)} must validate at least one schema (anyOf)")
    return best or _Outcome()


def _one(value: Any, nodes: list[Node], place: _Place, within: str) -> _Outcome:
    results = [_value(value, node, place.path, None, within) for node in nodes]
    fitting = [result for result in results if not result.faults]
    if len(fitting) == 1:
        return fitting[0]
    count = f"Found {len(fitting)} valid alternatives" if fitting else "Found none valid"
    place.whole(f"{quote(place.path)} must validate one and only one schema (oneOf). {count}")
    return _Outcome() if fitting else max(results, key=lambda result: result.passed)


def _text(value: str, node: Node, place: _Place) -> None:
    """The first demand that is broken is named."""
    longest, shortest, pattern = (node.schema.get(key) for key in ("maxLength", "minLength", "pattern"))
    if longest is not None and len(value) > longest:
        sentence = f"{place.path} in body should be at most {longest} chars long"
        place.add(sentence, value_errors.too_long(place.field(), longest))
    elif shortest is not None and len(value) < shortest:
        place.invalid(value, f"should be at least {shortest} chars long")
    elif pattern and not patterns.matches(pattern, value):
        place.invalid(value, f"should match '{pattern}'")


def _enumerated(value: Any, node: Node, place: _Place) -> None:
    allowed = node.schema.get("enum")
    if allowed and not any(_equals_member(value, member) for member in allowed):
        sentence = f"{place.path} in body should be one of {allowed}"
        place.add(sentence, value_errors.not_supported(place.field(), value, allowed))


def _equals_member(value: Any, member: Any) -> bool:
    """Numbers are compared as the member's type of number, so that 1.5 is taken for 1."""
    if member is None:
        return False
    if value_errors.is_int(member) and isinstance(value, float) and math.isfinite(value):
        return bool(int(value) == member)
    if isinstance(member, float) and value_errors.is_int(value):
        return bool(float(value) == member)
    return value_errors.same(value, member)


def _number(value: float, node: Node, format_: str, place: _Place) -> None:
    if not value_errors.is_int(value):
        value = float(value)
    kind = node.type if not node.int_or_string and node.type in ("integer", "number") else ""
    _in_range(value, kind, format_, "Checked", place)
    factor, least, most = (node.schema.get(key) for key in ("multipleOf", "minimum", "maximum"))
    if factor is not None:
        native = _in_range(factor, kind, format_, "MultipleOf", place) and value_errors.is_int(value)
        limit, got = (int(factor), value) if native else (float(factor), float(value))
        if limit <= 0:
            sentence = f"factor MultipleOf declared for {place.path} must be positive: {value_errors.number(limit)}"
            place.add(sentence, value_errors.invalid(place.field(), limit, sentence))
        elif not (got % limit == 0 if native else _whole(1 / limit * got if limit < 1 else got / limit)):
            place.invalid(got, f"should be a multiple of {value_errors.number(limit)}")
    if least is not None:
        native = _in_range(least, kind, format_, "Minimum boundary", place) and value_errors.is_int(value)
        limit, got = (int(least), value) if native else (float(least), float(value))
        exclusive = node.schema.get("exclusiveMinimum")
        if got < limit or (exclusive and got == limit):
            place.invalid(
                got, f"should be greater than {'' if exclusive else 'or equal to '}{value_errors.number(limit)}"
            )
    if most is not None:
        native = _in_range(most, kind, format_, "Maximum boundary", place) and value_errors.is_int(value)
        limit, got = (int(most), value) if native else (float(most), float(value))
        exclusive = node.schema.get("exclusiveMaximum")
        if got > limit or (exclusive and got == limit):
            place.invalid(got, f"should be less than {'' if exclusive else 'or equal to '}{value_errors.number(limit)}")


def _in_range(value: float, kind: str, format_: str, what: str, place: _Place) -> bool:
    """Whether a number can be kept in the type and format of its field; the bounds in a schema are asked the same."""
    if kind == "integer":
        bits = 31 if format_ == "int32" else 63
        fits = float(value).is_integer() and -(2**bits) <= value < 2**bits
    else:
        fits = format_ != "float" or _fits_float(float(value))
    if not fits:
        said = f"with format {format_}" if format_ else "(default format)"
        place.whole(f"{what} value must be of type {kind} {said} in {place.path}")
    return fits


def _fits_float(value: float) -> bool:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return False
    return True


def _whole(value: float) -> bool:
    """Whether a floating-point number is an integer, as near as makes no difference."""
    value = float(value)
    if not math.isfinite(value) or abs(value) > _SAFE:
        return False
    nearest = float(int(value))
    if value == nearest:
        return True
    if 0 in (value, nearest):
        return False
    return abs(value - nearest) / (abs(value) + abs(nearest)) < _EPSILON


def _list(value: list[Any], node: Node, place: _Place, pair: Pair | None) -> _Outcome:
    outcome = _Outcome(place.found)
    within = place.within
    if node.items is not None:
        for index, item in enumerate(value):
            below = pair.item(index) if pair else None
            path = f"{place.path}[{index}]"
            outcome.merge(
                _ratcheted(item, node.items, path, below, within)
                if below
                else _value(item, node.items, path, None, within)
            )
    least, most = node.schema.get("minItems"), node.schema.get("maxItems")
    if least is not None and len(value) < least:
        place.invalid(len(value), f"should have at least {least} items")
    if most is not None and len(value) > most:
        sentence = f"{place.path} in body should have at most {most} items"
        place.add(sentence, value_errors.too_many(place.field(), len(value), most))
    if node.schema.get("uniqueItems") and any(
        value_errors.same(item, earlier) for index, item in enumerate(value) for earlier in value[:index]
    ):
        place.invalid("", "shouldn't contain duplicates")
    return outcome


def _object(value: dict[str, Any], node: Node, place: _Place, pair: Pair | None) -> _Outcome:
    outcome = _Outcome(place.found)
    within = place.within
    least, most = node.schema.get("minProperties"), node.schema.get("maxProperties")
    if least is not None and len(value) < least:
        place.invalid(len(value), f"should have at least {least} properties")
    if most is not None and len(value) > most:
        sentence = f"{place.path} in body should have at most {most} properties"
        place.add(sentence, value_errors.too_many(place.field(), len(value), most))
    for name, child in value.items():
        known = node.properties.get(name)
        path = f"{place.path}.{name}" if place.path or known is None else name
        if known is None:
            known = node.values
        if known is None:
            continue
        # The identity of an object is the same in old and new whatever was sent, so it is always looked at.
        identity = not place.path and name in ("apiVersion", "kind")
        below = pair.field(name) if pair and not identity else None
        outcome.merge(
            _ratcheted(child, known, path, below, within) if below else _value(child, known, path, None, within)
        )
    for name in node.schema.get("required") or ():
        if name not in value:
            path = f"{place.path}.{name}"
            place.add(f"{path} in body is required", value_errors.required(place.field(path)))
    return outcome
