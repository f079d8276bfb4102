"""Rules are asked of an object, each at the value it is written at, and what they say is turned into causes.

`Compiled.validate` grows the tree of a schema's rules once and asks it for every object. A rule that loops without end
is given up by the library after 10,000 steps, and the rules of an object together after some seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edgewright.local.schema import engine, value_errors
from edgewright.local.schema.correlation import Keyed, Pair
from edgewright.local.schema.nodes import Node
from edgewright.local.schema.rules import fieldpaths, source, values
from edgewright.local.schema.rules.functions import OVERLOADS
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

ENVIRONMENT = engine.Environment(("self", "oldSelf"), OVERLOADS)
"""What rules may use; the library is loaded with the first of them."""
_PREPARED = engine.Environment(
    ("self", "oldSelf", "hasOldSelf"), OVERLOADS, extensions=(*engine.EXTENSIONS, "encoders")
)
"""What the expressions that are put before rules may use besides that."""
_MAX_MESSAGE = 5 * 1024
_MAX_LENGTH = 5.0
"""The seconds after which no further rule is asked of an object."""
_clock = time.monotonic


class RanAway(Exception):
    """A rule took so long that no further ones are asked."""


class Rule:
    """One rule, at a place of a schema."""

    def __init__(self, rule: RawObject, node: Node) -> None:
        self.text: str = rule.get("rule", "")
        self.message: str = rule.get("message", "")
        self.reason: str = rule.get("reason", "")
        self.message_expression: str = rule.get("messageExpression", "")
        self.optional_old: bool = bool(rule.get("optionalOldSelf"))
        self.uses_old = source.mentions(self.text, "oldSelf")
        self.field = fieldpaths.normalized(rule.get("fieldPath", ""), node)
        self._node = node

    @cached_property
    def program(self) -> engine.Program:
        """The rule, compiled when it is first asked."""
        return _PREPARED.compile(self.prepared(self.text))

    @cached_property
    def message_program(self) -> engine.Program:
        """The expression of the message, compiled when the rule is first broken."""
        return _PREPARED.compile(self.prepared(self.message_expression))

    def prepared(self, text: str) -> str:
        """The expression as the library can evaluate it, with times made of texts and the old value made optional."""
        prepared = source.rewritten(text)
        made = values.conversion("self", self._node)
        made_old = values.conversion("oldSelf", self._node)
        if self.optional_old and source.mentions(text, "oldSelf"):
            made_old = f"hasOldSelf ? optional.of({made_old or 'oldSelf'}) : optional.none()"
        if made_old and source.mentions(text, "oldSelf"):
            prepared = f"[{made_old}].map(oldSelf, ({prepared}\n))[0]"
        if made:
            prepared = f"[{made}].map(self, ({prepared}\n))[0]"
        return prepared

    @property
    def said(self) -> str:
        """What names the rule in errors."""
        return (self.message or self.text).strip()


@dataclass
class Tree:
    """The rules at a place and below it."""

    node: Node
    rules: list[Rule]
    properties: dict[str, Tree] = field(default_factory=dict)
    further: Tree | None = None
    items: Tree | None = None

    def broken(self, obj: RawObject, old: RawObject | None, pair: Pair | None, warnings: list[str]) -> list[Cause]:
        """The causes that the rules have against an object; those about unchanged values go to the warnings."""
        found: list[Cause] = []
        walk = _Walk(found, warnings)
        with suppress(RanAway):
            walk.value(self, obj, old, _Unchanged(pair, None), "")
        return found


def tree(node: Node) -> Tree | None:
    """The rules in a schema, or None if there are none."""
    return _grow(node, frozenset())


def _grow(node: Node | None, above: frozenset[int]) -> Tree | None:
    if node is None or id(node) in above:
        return None
    above |= {id(node)}
    grown = Tree(node, [Rule(rule, node) for rule in node.rules])
    grown.items = _grow(node.items, above)
    grown.further = _grow(node.values, above)
    for name, child in node.properties.items():
        if values.exposed(child) and (below := _grow(child, above)):
            grown.properties[name] = below
    return grown if grown.rules or grown.properties or grown.further or grown.items else None


@dataclass(frozen=True)
class _Unchanged:
    """Whether the value at a place, or else the nearest that has an old one, is as it was."""

    current: Pair | None
    nearest: Pair | None

    def __bool__(self) -> bool:
        pair = self.current or self.nearest
        return pair is not None and pair.unchanged()

    def field(self, name: str) -> _Unchanged:
        if self.current is None:
            return self
        if self.nearest is None and name in ("apiVersion", "kind"):
            return _Unchanged(None, None)
        return _Unchanged(self.current.field(name), self.current)

    def item(self, index: int) -> _Unchanged:
        return self if self.current is None else _Unchanged(self.current.item(index), self.current)


class _Walk:
    """One pass over an object."""

    def __init__(self, found: list[Cause], warnings: list[str]) -> None:
        self._found = found
        self._warnings = warnings
        self._end = _clock() + _MAX_LENGTH

    def value(self, tree: Tree, new: Any, old: Any, unchanged: _Unchanged, path: str) -> None:
        """Asks the rules at a place and below it; of a null nothing is asked."""
        if new is None:
            return
        self._ask(tree, new, old, unchanged, path)
        if isinstance(new, list) and tree.items is not None:
            before = Keyed(tree.node.list_keys if tree.node.list_type == "map" else (), old)
            for index, item in enumerate(new):
                self.value(tree.items, item, before.find(item), unchanged.item(index), f"{path}[{index}]")
        elif isinstance(new, dict):
            for below, name, at in _below(tree, new, path):
                was = old.get(name) if isinstance(old, dict) else None
                self.value(below, new[name], was, unchanged.field(name), at)

    def _ask(self, tree: Tree, new: Any, old: Any, unchanged: _Unchanged, path: str) -> None:
        if not tree.rules:
            return
        variables = {"self": values.seen(new, tree.node), "oldSelf": None, "hasOldSelf": old is not None}
        if old is not None and any(rule.uses_old for rule in tree.rules):
            variables["oldSelf"] = values.seen(values.aligned(old, new, tree.node), tree.node)
        for rule in tree.rules:
            if not rule.text.strip() or (rule.uses_old and old is None and not rule.optional_old):
                continue
            fault = self._evaluate(rule, tree.node, new, variables, path)
            if fault is None:
                continue
            if fault.holds or rule.uses_old or not unchanged:
                self._found.append(fault.cause)
            else:
                self._warnings.append(f"{fault.cause.field}: {fault.cause.message}")
            if fault.last:
                raise RanAway

    def _evaluate(self, rule: Rule, node: Node, new: Any, variables: RawObject, path: str) -> _Fault | None:
        at = path or value_errors.NOWHERE
        if _clock() > self._end:
            why = "validation failed due to running out of cost budget, no further validation rules will be run"
            return _Fault(value_errors.invalid(at, node.type, why), holds=True, last=True)
        try:
            if rule.program.evaluate(variables) is True:
                return None
        except engine.Faulty as error:
            return _Fault(
                value_errors.invalid(at, node.type, f"rule compile error: compilation failed: {error}"), holds=True
            )
        except engine.Failed as error:
            return _Fault(value_errors.invalid(at, node.type, _failure(error, rule)), holds=True, last=error.ran_away)
        detail = _told(rule, variables) or (rule.message.strip() or f"failed rule: {rule.said}")
        field_ = f"{path}.{rule.field}" if path and rule.field else rule.field or at
        value = value_errors.OMITTED if node.type in ("object", "array") else new
        return _Fault(_cause(rule.reason, field_, value, detail))


@dataclass(frozen=True)
class _Fault:
    cause: Cause
    holds: bool = False
    """Whether it is held against the object even if the value is as it was."""
    last: bool = False


def _below(tree: Tree, new: RawObject, path: str) -> Iterator[tuple[Tree, str, str]]:
    for name in new:
        if tree.further is not None:
            yield tree.further, name, f"{path}[{name}]"
        if name in tree.properties:
            yield tree.properties[name], name, f"{path}.{name}" if path else name


def _failure(error: engine.Failed, rule: Rule) -> str:
    if error.ran_away:
        why = "no further validation rules will be run due to call cost exceeds limit for rule"
        return f"'{error}': {why}: {rule.said}"
    if str(error).startswith("no such overload"):
        why = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {why}: {rule.said}"
    return f"{error} evaluating rule: {rule.said}"


def _told(rule: Rule, variables: RawObject) -> str:
    """What the message expression says; nothing if there is none or it says nothing that can be shown."""
    # The real server gives it an old value that is not optional, so that one that takes it for optional always fails.
    unusable = rule.optional_old and source.mentions(rule.message_expression, "oldSelf")
    if not rule.message_expression or unusable:
        return ""
    try:
        told = rule.message_program.evaluate(variables)
    except (engine.Faulty, engine.Failed):
        return ""
    told = told.strip() if isinstance(told, str) else ""
    return "" if "\n" in told or len(told.encode()) > _MAX_MESSAGE else told


def _cause(reason: str, field_: str, value: Any, detail: str) -> Cause:
    if reason == "FieldValueForbidden":
        return value_errors.forbidden(field_, detail)
    if reason == "FieldValueRequired":
        return value_errors.required(field_, detail)
    if reason == "FieldValueDuplicate":
        return value_errors.duplicate(field_, value)
    return value_errors.invalid(field_, value, detail)
