"""Rules that cannot be used are found before anybody relies on them.

The validation of CustomResourceDefinitions calls `faulty`. The reasons and fields are those of the real server; the
words in which a compiler says where it stumbled are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from edgewright.local.go_format import compact
from edgewright.local.schema import engine, value_errors
from edgewright.local.schema.nodes import Node
from edgewright.local.schema.rules import cost, inference, source, syntax, values
from edgewright.local.schema.rules.evaluation import ENVIRONMENT
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_UNSUPPORTED = frozenset({"cel.@mapInsert"})
"""What the library compiles and cannot evaluate: transformMap and transformMapEntry."""


_MOST_EXPENSIVE = 4
"""So many rules are named where all together cost too much."""


@dataclass
class _Bill:
    """What the rules of a schema cost, by their fields."""

    costs: dict[str, float] = field(default_factory=dict)

    def faults(self, path: str) -> Iterator[Cause]:
        total = sum(self.costs.values())
        if total <= cost.TOTAL_LIMIT:
            return
        for expensive in sorted(self.costs, key=self.costs.__getitem__, reverse=True)[:_MOST_EXPENSIVE]:
            why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            yield value_errors.forbidden(expensive, why)
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield value_errors.forbidden(path, _exceeding(what, total, cost.TOTAL_LIMIT))


@dataclass(frozen=True)
class _Place:
    """Where in a schema the rules stand."""

    path: str
    uncorrelatable: str = ""
    """The nearest list above whose items have no old values."""
    count: float | None = 1
    """How many values there can be here in one object; None where nothing but a request's size bounds them."""

    def below(self, name: str, most: float | None = 1, *, uncorrelatable: str | None = None) -> _Place:
        count = None if self.count is None or most is None else self.count * most
        said = self.uncorrelatable if uncorrelatable is None else uncorrelatable
        return _Place(f"{self.path}.{name}", said, count)


def faulty(node: Node, path: str) -> list[Cause]:
    """The faults of all rules in a schema whose own field is `path`."""
    bill = _Bill()
    return [*_below(node, _Place(path), set(), bill), *bill.faults(path)]


def _below(node: Node, place: _Place, above: set[int], bill: _Bill) -> Iterator[Cause]:
    if id(node) in above:
        return
    above = above | {id(node)}
    if node.values is not None:
        yield from _below(
            node.values, place.below("additionalProperties", node.schema.get("maxProperties")), above, bill
        )
    for name, child in node.properties.items():
        yield from _below(child, place.below(f"properties[{name}]"), above, bill)
    if node.items is not None:
        within = place.uncorrelatable if node.list_type == "map" else place.uncorrelatable or place.path
        inner = place.below("items", node.schema.get("maxItems"), uncorrelatable=within)
        yield from _below(node.items, inner, above, bill)
    for index, rule in enumerate(node.rules):
        yield from _rule_faults(rule, node, place.below(f"x-kubernetes-validations[{index}]"), bill)


def _rule_faults(rule: RawObject, node: Node, place: _Place, bill: _Bill) -> Iterator[Cause]:
    text, message, path = rule.get("rule", ""), rule.get("messageExpression", ""), place.path
    if not text.strip():
        return
    uses_old = False
    wrong = _fault(text, rule, node, "bool")
    if wrong:
        yield value_errors.invalid(f"{path}.rule", _shown(rule), wrong)
    else:
        uses_old = source.mentions(text, "oldSelf")
        yield from _cost_faults(text, node, place, "rule", bill)
        if message and (wrong := _fault(message, rule, node, "string")):
            yield value_errors.invalid(f"{path}.messageExpression", _shown(rule), f"messageExpression {wrong}")
        elif message:
            yield from _cost_faults(message, node, place, "messageExpression", bill)
    if uses_old and place.uncorrelatable:
        why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelatable}"
        yield value_errors.invalid(f"{path}.rule", text, why)
    elif not uses_old and "optionalOldSelf" in rule:
        why = "may not be set if oldSelf is not used in rule"
        yield value_errors.invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], why)


def _cost_faults(text: str, node: Node, place: _Place, name: str, bill: _Bill) -> Iterator[Cause]:
    """That an expression could take too long at all the values that it is asked of."""
    expression = syntax.read(ENVIRONMENT.compile(source.rewritten(text)).syntax())
    extent = cost.extent_of(node)
    one = cost.estimate(expression, {"self": extent, "oldSelf": extent}).cost
    spent = one * (cost.cardinality(node) if place.count is None else place.count)
    bill.costs[f"{place.path}.{name}"] = spent
    if spent > cost.LIMIT:
        what = f"estimated {'rule' if name == 'rule' else 'messageExpression'} cost"
        yield value_errors.forbidden(f"{place.path}.{name}", _exceeding(what, spent, cost.LIMIT))


def _exceeding(what: str, spent: float, limit: float) -> str:
    factor = spent / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    advice = "adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared"
    return f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or {advice})"


def _fault(text: str, rule: RawObject, node: Node, wanted: str) -> str:
    """Why an expression cannot be used, or nothing."""
    if not values.exposed(node):
        return "compilation failed: the type of self is not known"
    try:
        expression = syntax.read(ENVIRONMENT.compile(source.rewritten(text)).syntax())
        old = inference.DYN if rule.get("optionalOldSelf") else inference.of_node(node)
        result = inference.infer(expression, {"self": inference.of_node(node), "oldSelf": old})
    except (engine.Faulty, inference.Mistyped) as error:
        named = f"ERROR: <input>: {error}" if isinstance(error, inference.Mistyped) else str(error)
        return f"compilation failed: {named}"
    if fault := _pattern_fault(expression):
        return f"program instantiation failed: {fault}"
    if unsupported := _functions(expression) & _UNSUPPORTED:
        return f"compilation failed: ERROR: <input>: this server cannot evaluate {', '.join(sorted(unsupported))}"
    if result.name not in ("dyn", wanted):
        return "cel expression must evaluate to a bool" if wanted == "bool" else "must evaluate to a string"
    return ""


def _pattern_fault(expression: syntax.Expression) -> str:
    """What is wrong with the patterns that are searched for, which the real server compiles late."""
    if expression.kind == "call" and expression.text in ("find", "findAll"):
        pattern = expression.operands[1]
        if pattern.text == "string" and (fault := engine.pattern_fault(pattern.value)):
            return fault
    return next(filter(None, map(_pattern_fault, expression.operands)), "")


def _functions(expression: syntax.Expression) -> set[str]:
    below = set().union(*(_functions(each) for each in expression.operands))
    return below | {expression.text} if expression.kind == "call" else below


def _shown(rule: RawObject) -> value_errors.Rendered:
    """A rule as the real server shows it in a fault."""
    fields = {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    return value_errors.Rendered("{" + ",".join(f'"{name}":{compact(value)}' for name, value in fields.items()) + "}")
