"""What a rule may cost at most, estimated from its expression and the sizes that the schema allows.

The checking of rules asks it, since the real server refuses a definition whose rules could take too long. It follows
the estimates of that server: a step for each call, sizes where texts and lists are walked, and loops by the size of
what they go over. What is not bounded by the schema is bounded by the largest request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from edgewright.local.schema.nodes import Node
from edgewright.local.schema.rules import values
from edgewright.local.schema.rules.source import escaped
from edgewright.local.schema.rules.syntax import Expression

LIMIT: Final = 10_000_000
"""What one rule may cost, for all places of an object that it is checked at."""
TOTAL_LIMIT: Final = 100_000_000
"""What all rules of a schema may cost together."""

_REQUEST: Final = 3 * 1024 * 1024
_BYTES_PER_CHARACTER: Final = 4
_TRAVERSED: Final = 0.1
"""The cost of a character that is looked at."""
_PATTERN: Final = 0.25
"""The cost of a character of a pattern, for each step over the text."""
_LITERAL: Final = {"list": 10.0, "map": 30.0}
_FORMATS: Final = {"duration": 32, "date": 12, "date-time": 27}
_SMALLEST: Final = {"string": 2, "boolean": 4, "array": 2, "integer": 1, "number": 1}
_UNKNOWN_SIZE: Final = _REQUEST


@dataclass(frozen=True)
class Extent:
    """What is known of a value: its kind, how large it can be, what it holds, and its place in the schema."""

    kind: str = "dyn"
    size: float = 1
    item: Extent | None = None
    node: Node | None = None


@dataclass(frozen=True)
class Estimate:
    """What an expression costs at most, and what comes out."""

    cost: float
    extent: Extent


_ONE: Final = Extent("int")
_BOOL: Final = Extent("bool")
_KEY: Final = Extent("string", _UNKNOWN_SIZE)


def cardinality(node: Node) -> float:
    """How often values of a place fit into one request."""
    return _REQUEST // (smallest(node) + 1)


def smallest(node: Node | None) -> int:
    """The fewest bytes that a value takes in a request."""
    if node is None:
        return 1
    if node.type == "object":
        required = set(node.schema.get("required") or ())
        names = [name for name in node.properties if name in required and node.properties[name].default is None]
        return 2 + sum(len(name) + 4 + smallest(node.properties[name]) for name in names)
    return _SMALLEST.get(node.type, 1)


def extent_of(node: Node | None) -> Extent:
    """What is known of the values at a place."""
    if node is None or node.int_or_string:
        return Extent("dyn", _UNKNOWN_SIZE)
    if node.type == "array":
        most = node.schema.get("maxItems")
        size = _REQUEST // (smallest(node.items) + 1) if most is None else most
        return Extent("list", size, node=node)
    if node.type == "object":
        if not node.properties and node.values is not None:
            most = node.schema.get("maxProperties")
            size = (_REQUEST - 2) // (smallest(node.values) + 6) if most is None else most
            return Extent("map", size, node=node)
        return Extent("object", node=node)
    if node.type == "string":
        return Extent("string", _characters(node))
    return Extent({"boolean": "bool", "integer": "int", "number": "double"}.get(node.type, "dyn"))


def _characters(node: Node) -> float:
    if (most := node.schema.get("maxLength")) is not None:
        return float(most) * _BYTES_PER_CHARACTER
    if allowed := node.schema.get("enum"):
        return max(len(str(each)) for each in allowed)
    return _FORMATS.get(node.format, _REQUEST - 2)


def _item(extent: Extent) -> Extent:
    if extent.item is not None:
        return extent.item
    if extent.node is None:
        return Extent("dyn", _UNKNOWN_SIZE)
    return extent_of(extent.node.items if extent.kind == "list" else extent.node.values)


def estimate(expression: Expression, scope: Mapping[str, Extent]) -> Estimate:
    """The most that an expression costs where these variables are known."""
    match expression.kind:
        case "constant":
            return Estimate(0, Extent(expression.text, len(expression.value.encode())))
        case "name":
            return Estimate(1, scope.get(expression.text.removeprefix("."), Extent("dyn", _UNKNOWN_SIZE)))
        case "select":
            return _select(expression, estimate(expression.operands[0], scope))
        case "loop":
            return _loop(expression, scope)
    operands = [estimate(each, scope) for each in expression.operands]
    if expression.kind == "call":
        return _call(expression.text, operands)
    step = 1 if expression.kind == "list" else 2
    items = [each.extent for each in operands[step - 1 :: step]]
    widest = max(items, key=lambda each: each.size, default=None)
    cost = _LITERAL.get(expression.kind, 40.0) + sum(each.cost for each in operands)
    return Estimate(cost, Extent(expression.kind, len(items), item=widest))


def _select(expression: Expression, operand: Estimate) -> Estimate:
    if expression.tested:
        return Estimate(operand.cost, _BOOL)
    extent = operand.extent
    if extent.kind == "map":
        return Estimate(operand.cost + 1, _item(extent))
    if extent.node is not None:
        for name, child in values.fields(extent.node).items():
            if escaped(name) == expression.text:
                return Estimate(operand.cost + 1, extent_of(child))
    return Estimate(operand.cost + 1, Extent("dyn", _UNKNOWN_SIZE))


def _loop(expression: Expression, scope: Mapping[str, Extent]) -> Estimate:
    over, start = (estimate(each, scope) for each in expression.operands[:2])
    first, second, accumulator = expression.variables
    keyed = over.extent.kind == "map"
    inner = {**scope, accumulator: start.extent}
    if second:
        inner |= {first: _KEY if keyed else _ONE, second: _item(over.extent)}
    else:
        inner[first] = _KEY if keyed else _item(over.extent)
    condition, step = (estimate(each, inner) for each in expression.operands[2:4])
    gathered = start.extent
    if gathered.kind in {"list", "map"}:
        gathered = Extent(gathered.kind, over.extent.size, item=step.extent.item)
    result = estimate(expression.operands[4], {**scope, accumulator: gathered})
    cost = over.cost + start.cost + over.extent.size * (condition.cost + step.cost) + result.cost
    return Estimate(cost, result.extent if result.extent.kind != "dyn" else gathered)


def _call(function: str, operands: list[Estimate]) -> Estimate:
    spent, extents = sum(each.cost for each in operands), [each.extent for each in operands]
    sizes = [each.size for each in extents]
    if function in {"_&&_", "_||_"}:
        return Estimate(spent, _BOOL)
    if function == "_?_:_":
        wider = max(extents[1:], key=lambda each: each.size)
        return Estimate(operands[0].cost + max(operands[1].cost, operands[2].cost), wider)
    if function in _CALLS and operands:
        cost, extent = _CALLS[function](extents, sizes)
        return Estimate(spent + cost, extent)
    return Estimate(spent + 1, Extent("dyn", max(sizes, default=1)))


Call = Callable[[list[Extent], list[float]], tuple[float, Extent]]


def _compared(extents: list[Extent], sizes: list[float]) -> tuple[float, Extent]:
    long = {"string", "bytes", "list", "map"}
    walked = [size for extent, size in zip(extents, sizes, strict=True) if extent.kind in long]
    return (max(1.0, min(walked) * _TRAVERSED) if walked else 1, _BOOL)


def _added(extents: list[Extent], sizes: list[float]) -> tuple[float, Extent]:
    left = extents[0]
    if left.kind == "list":
        widest = max((_item(each) for each in extents), key=lambda each: each.size)
        return 1, Extent("list", sum(sizes), item=widest)
    if left.kind in {"string", "bytes"}:
        return sum(sizes) * _TRAVERSED, Extent(left.kind, sum(sizes))
    return 1, left


def _matched(_: list[Extent], sizes: list[float]) -> tuple[float, Extent]:
    return (sizes[0] + 1) * _TRAVERSED * (sizes[1] if len(sizes) > 1 else 1) * _PATTERN, _BOOL


def _contained(_: list[Extent], sizes: list[float]) -> tuple[float, Extent]:
    return sizes[0] * _TRAVERSED * sizes[1] * _TRAVERSED, _BOOL


def _walked(kind: str) -> Call:
    """A function that looks at the whole of its first operand, and gives something as large."""
    return lambda extents, sizes: (max(1.0, sizes[0] * _TRAVERSED), Extent(kind, sizes[0], item=extents[0].item))


def _counted(extents: list[Extent], sizes: list[float]) -> tuple[float, Extent]:
    return max(1.0, sizes[0] * max(1.0, _item(extents[0]).size * _TRAVERSED)), _item(extents[0])


_CALLS: Final[Mapping[str, Call]] = {
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compared),
    "_+_": _added,
    "_[_]": lambda extents, _: (1, _item(extents[0])),
    "size": lambda _, __: (1, _ONE),
    "@in": lambda extents, sizes: (sizes[1] if extents[1].kind == "list" else 1, _BOOL),
    **dict.fromkeys(("startsWith", "endsWith"), lambda _, sizes: (max(1.0, sizes[1] * _TRAVERSED), _BOOL)),
    "contains": _contained,
    **dict.fromkeys(("matches",), _matched),
    **dict.fromkeys(("find",), lambda extents, sizes: (_matched(extents, sizes)[0], Extent("string", sizes[0]))),
    "findAll": lambda extents, sizes: (
        _matched(extents, sizes)[0],
        Extent("list", sizes[0], item=Extent("string", sizes[0])),
    ),
    **dict.fromkeys(("lowerAscii", "upperAscii", "trim", "substring", "replace", "string", "url"), _walked("string")),
    "split": lambda _, sizes: (max(1.0, sizes[0] * _TRAVERSED), Extent("list", sizes[0], Extent("string", sizes[0]))),
    "join": lambda extents, sizes: (
        max(1.0, sizes[0] * _item(extents[0]).size * _TRAVERSED),
        Extent("string", sizes[0] * _item(extents[0]).size),
    ),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"), _counted),
    **dict.fromkeys(("isURL", "isIP", "isCIDR", "isQuantity", "ip", "cidr", "quantity"), _walked("dyn")),
}
