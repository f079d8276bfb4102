"""JSONPath as kube-apiserver takes it in the printer columns and selectable fields of custom resources.

`custom_columns` and the rules of custom kinds parse a path once and ask it for values of many objects. It follows the
dialect that Kubernetes grew (keys in `['…']` are split at dots, indexes out of range are faults), writes nothing, and
does not know the `range` and `end` of kubectl's templates: a path with them finds nothing, as in the real server.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from edgewright.local.go_format import number

from .pathsyntax import Node, PathError, Step, parse_nodes

__all__ = ["Path", "PathError", "text"]

Values: TypeAlias = list[Any]


class ForeignInt(int):
    """A whole number that is not of the object: a literal of the path, or a byte of a string. Only text shows it."""


class ForeignFloat(float):
    """A literal of the path with a point, which is never taken for a whole number."""


class _Fault(Exception):
    """The path cannot be followed in this object; `found` is what a test for existence still sees."""

    def __init__(self, found: Values) -> None:
        super().__init__()
        self.found = found


@dataclass(frozen=True)
class Path:
    """A path that was parsed: ask it for the values of objects."""

    source: str
    nodes: tuple[Node, ...] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, source: str) -> Path:
        """The path in a printer column or selectable field (without braces); PathError says what is wrong with it."""
        return cls(source, parse_nodes(source))

    def find(self, obj: Any) -> Values:
        """The values at the path, in order; none where it leads nowhere or cannot be followed."""
        try:
            return _walk([obj], self.nodes)
        except _Fault:
            return []


def text(value: Any) -> str:
    """A single value as text, the way field selectors compare it and text columns show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    value = kept(value)
    return number(value) if isinstance(value, float) else str(value)


def kept(value: Any) -> Any:
    """A number of the sort that it has after it was stored: whole ones of 64 bits are whole, all others are not."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and -(2**63) <= value < 2**63 else value
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _walk(values: Values, nodes: Sequence[Node]) -> Values:
    for node in nodes:
        values = _STEPS[node.step](values, node)
    return values


def _literal(values: Values, node: Node) -> Values:
    value = node.argument
    if isinstance(value, str):
        return [value]
    if isinstance(value, float):
        value = ForeignFloat(value)
    elif not isinstance(value, bool):
        value = ForeignInt(value)
    return [value] * len(values)


def _field(values: Values, node: Node) -> Values:
    name = node.argument
    return [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Any) -> Values:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, str):
        return [ForeignInt(byte) for byte in value.encode("utf-8", "surrogatepass")]
    return list(value) if isinstance(value, list) else []


def _wildcard(values: Values, _node: Node) -> Values:
    return [child for value in values for child in _children(value)]


def _descend(values: Values, _node: Node) -> Values:
    found = []
    # A stack and no recursion: what is nested deepest is no deeper than its JSON was, but it need not be shallow.
    pending = list(reversed(values))
    while pending:
        value = pending.pop()
        if children := _children(value):
            found.append(value)
            pending.extend(reversed(children))
    return found


def _slice(values: Values, node: Node) -> Values:
    found: Values = []
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise _Fault(values)
        start, end = _bounds(node, len(value))
        if start == end:
            return found
        if not (0 <= start < len(value) and 0 <= end <= len(value) and start <= end):
            raise _Fault(values)
        step = 1 if node.stride is None else node.stride
        if step <= 0:
            raise _Fault(values)
        found.extend(value[start:end:step])
    return found


def _bounds(node: Node, length: int) -> tuple[int, int]:
    start = node.start or 0
    single = node.end is None and not node.open_ended
    end = start + 1 if single else length if node.end is None else node.end
    if start < 0:
        start += length
    if end < 0 or (end == 0 and single):
        end += length
    return start, end


def _union(values: Values, node: Node) -> Values:
    found: Values = []
    for branch in node.branches:
        try:
            found.extend(_walk(values, branch))
        except _Fault:
            raise _Fault(values) from None
    return found


def _filter(values: Values, node: Node) -> Values:
    found: Values = []
    for value in values:
        if not isinstance(value, list):
            raise _Fault(values)
        passes = _exists if node.argument == "exists" else _compares
        found.extend(item for item in value if passes(item, node, values))
    return found


def _exists(item: Any, node: Node, _values: Values) -> bool:
    try:
        return bool(_walk([item], node.branches[0]))
    except _Fault as fault:
        # The real server looks at what was found before the fault, and so do we.
        return bool(fault.found)


def _compares(item: Any, node: Node, values: Values) -> bool:
    sides = []
    for branch in node.branches:
        try:
            side = _walk([item], branch)
        except _Fault:
            raise _Fault(values) from None
        if not side:
            return False
        if len(side) > 1:
            raise _Fault(values)
        sides.append(side[0])
    left, right = sides
    compare = _COMPARISONS.get(node.argument)
    if compare is None or _sort(left) != _sort(right) or not _sort(left):
        raise _Fault(values)
    if _sort(left) == "bool" and node.argument not in ("==", "!="):
        raise _Fault(values)
    return compare(left, right)


def _sort(value: Any) -> str:
    """Which values can be compared with one another; empty for those that cannot be compared at all."""
    value = value if isinstance(value, ForeignFloat) else kept(value)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    return "str" if isinstance(value, str) else ""


def _identifier(values: Values, node: Node) -> Values:
    raise _Fault([] if node.argument == "end" else values)


_COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_STEPS: dict[Step, Callable[[Values, Node], Values]] = {
    Step.LITERAL: _literal,
    Step.FIELD: _field,
    Step.WILDCARD: _wildcard,
    Step.RECURSIVE: _descend,
    Step.SLICE: _slice,
    Step.UNION: _union,
    Step.FILTER: _filter,
    Step.IDENTIFIER: _identifier,
}
