"""The syntax tree of a compiled expression, read from the protocol buffer that the library gives.

Only the checking of rules reads it. The format is that of cel.expr.CheckedExpr; what is not needed is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_CHECKED_EXPRESSION, _IN_ANY = 4, 2
_CONSTANTS = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}


@dataclass(kw_only=True)
class Expression:
    """One expression; which fields are filled depends on `kind`: constant, name, select, call, list, map or loop."""

    id: int = 0
    kind: str = ""
    text: str = ""
    """The type of a constant, the name, the selected field, or the function that is called."""
    value: str = ""
    """What a constant string says."""
    operands: list[Expression] = field(default_factory=list)
    """What is selected from; the receiver, if there is one, and the arguments; items; keys and values in turn."""
    receiver: bool = False
    tested: bool = False
    """Whether a selection only asks if the field is there."""
    variables: tuple[str, str, str] = ("", "", "")
    """Of a loop: the variables of the item, of the second one, and of what is accumulated."""


def read(message: bytes) -> Expression:
    """The expression in a message."""
    inner = next(value for number, value in _fields(message) if number == _IN_ANY and isinstance(value, bytes))
    body = next(value for number, value in _fields(inner) if number == _CHECKED_EXPRESSION and isinstance(value, bytes))
    return _expression(body)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == 0:
            number, position = _varint(message, position)
            yield tag >> 3, number
        else:
            length, position = (
                (8, position) if kind == 1 else (4, position) if kind == 5 else _varint(message, position)
            )
            yield tag >> 3, message[position : position + length]
            position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _expression(message: bytes) -> Expression:
    result = Expression()
    readers = {3: _constant, 4: _name, 5: _select, 6: _call, 7: _list, 8: _map, 9: _loop}
    for number, value in _fields(message):
        if number == 2 and isinstance(value, int):
            result.id = value
        elif number in readers and isinstance(value, bytes):
            readers[number](value, result)
    return result


def _constant(message: bytes, into: Expression) -> None:
    into.kind = "constant"
    into.text = next((_CONSTANTS.get(number, "") for number, _ in _fields(message)), "")
    into.value = _string(message, 6)


def _name(message: bytes, into: Expression) -> None:
    into.kind, into.text = "name", _string(message, 1)


def _select(message: bytes, into: Expression) -> None:
    into.kind, into.text = "select", _string(message, 2)
    into.operands = _expressions(message, 1)
    into.tested = any(number == 3 and value for number, value in _fields(message))


def _call(message: bytes, into: Expression) -> None:
    into.kind, into.text = "call", _string(message, 2)
    target = _expressions(message, 1)
    into.receiver = bool(target)
    into.operands = [*target, *_expressions(message, 3)]


def _list(message: bytes, into: Expression) -> None:
    into.kind, into.operands = "list", _expressions(message, 1)


def _map(message: bytes, into: Expression) -> None:
    into.kind = "map"
    for number, entry in _fields(message):
        if number == 2 and isinstance(entry, bytes):
            into.operands += [*_expressions(entry, 3), *_expressions(entry, 4)]


def _loop(message: bytes, into: Expression) -> None:
    into.kind = "loop"
    into.variables = (_string(message, 1), _string(message, 8), _string(message, 3))
    into.operands = [each for number in (2, 4, 5, 6, 7) for each in _expressions(message, number)]


def _string(message: bytes, wanted: int) -> str:
    return next(
        (value.decode() for number, value in _fields(message) if number == wanted and isinstance(value, bytes)), ""
    )


def _expressions(message: bytes, wanted: int) -> list[Expression]:
    return [_expression(value) for number, value in _fields(message) if number == wanted and isinstance(value, bytes)]
