"""The types of expressions, as far as the schema gives them: what is not in a schema cannot be named.

The checking of rules calls it after the library has compiled a rule without types. It finds fields that are not there
and operators between things that do not go together; where it knows too little it takes the rule for right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from edgewright.local.schema import engine, formats
from edgewright.local.schema.nodes import Node
from edgewright.local.schema.rules import values
from edgewright.local.schema.rules.source import escaped
from edgewright.local.schema.rules.syntax import Expression

_FORMATS: Final = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
_SCALARS: Final = {"boolean": "bool", "number": "double", "integer": "int"}
_COMPARED: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_NUMBERS: Final = frozenset({"int", "uint", "double"})
_ADDED: Final = frozenset({"int", "uint", "double", "string", "bytes", "list", "duration", "timestamp"})
_TIMES: Final = frozenset({"duration", "timestamp"})
_OF_STRINGS: Final = frozenset(
    {
        *("charAt", "contains", "endsWith", "find", "findAll", "lowerAscii", "matches", "replace", "split"),
        *("startsWith", "substring", "trim", "upperAscii"),
    }
)
_OF_OPTIONALS: Final = frozenset({"hasValue", "value", "orValue"})
_OF_LISTS: Final = frozenset(
    ["distinct", "first", "flatten", "isSorted", "last", "max", "min", "reverse", "slice", "sort", "sum"]
)
_LITERALS: Final[Mapping[tuple[str, int], Callable[[str], bool]]] = {
    ("duration", 0): lambda text: formats.duration(text, loosely=False) is not None,
    ("timestamp", 0): lambda text: formats.timestamp(text) is not None,
    ("matches", 1): lambda text: not engine.pattern_fault(text),
}
_RESULTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("_==_", "_!=_", "_&&_", "_||_", "!_", "@in", *_COMPARED), "bool"),
    **dict.fromkeys(("contains", "endsWith", "matches", "startsWith", "isSorted", "hasValue", "bool"), "bool"),
    **dict.fromkeys(("isURL", "isIP", "isCIDR", "isQuantity", "isSemver"), "bool"),
    **dict.fromkeys(("size", "int", "indexOf", "lastIndexOf"), "int"),
    **dict.fromkeys(("string", "charAt", "find", "lowerAscii", "upperAscii", "trim", "substring", "join"), "string"),
    **dict.fromkeys(("replace", "format", "getHost", "getHostname", "getPort", "getScheme"), "string"),
    "double": "double",
    "duration": "duration",
    "timestamp": "timestamp",
    "bytes": "bytes",
    "uint": "uint",
}


class Mistyped(Exception):
    """An expression that makes no sense, and the expression in it that is to blame."""

    def __init__(self, message: str, expression: Expression) -> None:
        super().__init__(message)
        self.expression = expression


@dataclass(frozen=True)
class Known:
    """What is known of a type: its CEL name (`dyn` for nothing), what it holds, and the schema of an object."""

    name: str
    item: Known | None = None
    node: Node | None = None

    def __str__(self) -> str:
        if self.name == "list":
            return f"list({self.item or 'dyn'})"
        return f"map(string, {self.item or 'dyn'})" if self.name == "map" else self.name


DYN: Final = Known("dyn")


def of_node(node: Node | None) -> Known:
    """The type of the values at a place of a schema."""
    if node is None or node.int_or_string:
        return DYN
    if node.type == "array":
        return Known("list", of_node(node.items))
    if node.type == "object":
        if not node.properties and node.values is not None:
            return Known("map", of_node(node.values))
        return Known("object", node=node)
    if node.type == "string":
        return Known(_FORMATS.get(node.format, "string"))
    return Known(_SCALARS.get(node.type, "dyn"))


def infer(expression: Expression, scope: Mapping[str, Known]) -> Known:
    """The type of an expression where these variables are known; Mistyped if it can have none."""
    match expression.kind:
        case "constant":
            return Known(expression.text)
        case "name":
            return scope.get(expression.text.removeprefix("."), DYN)
        case "loop":
            return _looped(expression, scope)
    operands = [infer(each, scope) for each in expression.operands if not _is_formatted(expression, each)]
    if expression.kind == "select":
        return _selected(expression, expression.text, operands[0])
    if expression.kind == "call":
        return _called(expression, operands)
    return _literal(expression, operands)


def _is_formatted(call: Expression, operand: Expression) -> bool:
    """Whether an operand is the list of what `format` puts into a text, which alone may mix types."""
    return call.kind == "call" and call.text == "format" and operand.kind == "list"


def _literal(expression: Expression, items: list[Known]) -> Known:
    """A list or a map that is written out: its items, its keys and its values are each of one type."""
    for each in (items,) if expression.kind == "list" else (items[::2], items[1::2]):
        known = [item for item in each if item.name not in ("dyn", "object")]
        for item in known:
            if item.name != known[0].name:
                raise Mistyped(f"expected type '{known[0]}' but found '{item}'", expression)
    if expression.kind == "map":
        return Known("map", DYN)
    same = len({str(item) for item in items}) == 1
    return Known("list", items[0] if same else DYN)


def _selected(expression: Expression, name: str, operand: Known) -> Known:
    if operand.name == "map":
        result = operand.item or DYN
    elif operand.node is not None:
        result = _field(expression, name, operand.node)
    elif operand.name == "dyn":
        result = DYN
    else:
        raise Mistyped(f"type '{operand}' does not support field selection", expression)
    return Known("bool") if expression.tested else result


def _field(expression: Expression, wanted: str, node: Node) -> Known:
    for name, child in values.fields(node).items():
        if escaped(name) == wanted and values.exposed(child):
            return of_node(child)
    raise Mistyped(f"undefined field '{wanted}'", expression)


def _looped(expression: Expression, scope: Mapping[str, Known]) -> Known:
    """A loop gives what its accumulator holds; of that only a bool is known from the start."""
    over = infer(expression.operands[0], scope)
    if over.name not in ("list", "map", "dyn"):
        raise Mistyped(f"expression of type '{over}' cannot be range of a comprehension", expression.operands[0])
    first, second, accumulator = expression.variables
    item = over.item or DYN
    key = Known("string") if over.name == "map" else Known("int") if over.name == "list" else DYN
    start = infer(expression.operands[1], scope)
    inner = {**scope, accumulator: DYN if start.name in ("list", "map") else start}
    if second:
        inner |= {first: key, second: item}
    else:
        inner[first] = key if over.name == "map" else item
    for each in expression.operands[2:4]:
        infer(each, inner)
    return infer(expression.operands[4], {**scope, accumulator: start if start.name == "bool" else DYN})


def _called(expression: Expression, operands: list[Known]) -> Known:
    function, names = expression.text, [each.name for each in operands]
    if function == "_?._":
        _selected(expression, expression.operands[1].value, operands[0])
        return DYN
    _check_literals(expression)
    if "dyn" not in names and "object" not in names and _mismatched(function, names, expression):
        listed = ", ".join(str(each) for each in operands)
        shown = (
            f"{operands[0]}.({', '.join(str(each) for each in operands[1:])})" if expression.receiver else f"({listed})"
        )
        raise Mistyped(f"found no matching overload for '{function}' applied to '{shown}'", expression)
    if function == "_[_]":
        return operands[0].item or DYN
    if function == "_?_:_":
        return operands[1] if str(operands[1]) == str(operands[2]) else DYN
    if function in ("_+_", "_-_", "_*_", "_/_", "_%_", "-_"):
        plain = set(names) <= _NUMBERS | {"string"} and len(set(names)) == 1
        return operands[0] if plain else DYN
    return Known(_RESULTS.get(function, "dyn"))


def _check_literals(call: Expression) -> None:
    """Texts that are written out as times or patterns must be some."""
    for index, operand in enumerate(call.operands):
        if operand.kind == "constant" and operand.text == "string":
            valid = _LITERALS.get((call.text, index))
            if valid and not valid(operand.value):
                raise Mistyped(f"invalid {call.text} argument", operand)


def _mismatched(function: str, names: list[str], expression: Expression) -> bool:
    """Whether no overload of a function takes operands of these types, for the functions that are known here."""
    left, right = [*names, "", ""][:2]
    if function in ("_==_", "_!=_"):
        return left != right
    if function in _COMPARED:
        return left != right and not {left, right} <= _NUMBERS
    if function in ("_&&_", "_||_", "!_"):
        return set(names) != {"bool"}
    if function in ("_-_", "_*_", "_/_", "_%_", "_+_"):
        times = {left, right} <= _TIMES and function in ("_+_", "_-_")
        return not times and (left != right or left not in (_ADDED if function == "_+_" else _NUMBERS))
    unfit = {left} - ({"string"} if function in _OF_STRINGS else {"list"} if function in _OF_LISTS else {left})
    return expression.receiver and (function in _OF_OPTIONALS or bool(unfit))
