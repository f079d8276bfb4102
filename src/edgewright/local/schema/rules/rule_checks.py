"""Rules that cannot be used are found before anybody relies on them.

The validation of CustomResourceDefinitions calls `faulty`. The reasons and fields are those of the real server; the
words in which a compiler says where it stumbled are its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgewright.local.go_format import compact
from edgewright.local.schema import engine, value_errors
from edgewright.local.schema.nodes import Node
from edgewright.local.schema.rules import inference, source, syntax, values
from edgewright.local.schema.rules.evaluation import ENVIRONMENT
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_UNSUPPORTED = frozenset({"cel.@mapInsert"})
"""What the library compiles and cannot evaluate: transformMap and transformMapEntry."""


def faulty(node: Node, path: str) -> list[Cause]:
    """The faults of all rules in a schema whose own field is `path`."""
    return list(_below(node, path, "", set()))


def _below(node: Node, path: str, uncorrelatable: str, above: set[int]) -> Iterator[Cause]:
    """`uncorrelatable` is the nearest list above whose items have no old values."""
    if id(node) in above:
        return
    above = above | {id(node)}
    if node.values is not None:
        yield from _below(node.values, f"{path}.additionalProperties", uncorrelatable, above)
    for name, child in node.properties.items():
        yield from _below(child, f"{path}.properties[{name}]", uncorrelatable, above)
    if node.items is not None:
        within = uncorrelatable if node.list_type == "map" else uncorrelatable or path
        yield from _below(node.items, f"{path}.items", within, above)
    for index, rule in enumerate(node.rules):
        yield from _rule_faults(rule, node, f"{path}.x-kubernetes-validations[{index}]", uncorrelatable)


def _rule_faults(rule: RawObject, node: Node, path: str, uncorrelatable: str) -> Iterator[Cause]:
    text, message = rule.get("rule", ""), rule.get("messageExpression", "")
    if not text.strip():
        return
    uses_old = False
    wrong = _fault(text, rule, node, "bool")
    if wrong:
        yield value_errors.invalid(f"{path}.rule", _shown(rule), wrong)
    else:
        uses_old = source.mentions(text, "oldSelf")
        if message and (wrong := _fault(message, rule, node, "string")):
            yield value_errors.invalid(f"{path}.messageExpression", _shown(rule), f"messageExpression {wrong}")
    if uses_old and uncorrelatable:
        why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
        yield value_errors.invalid(f"{path}.rule", text, why)
    elif not uses_old and "optionalOldSelf" in rule:
        why = "may not be set if oldSelf is not used in rule"
        yield value_errors.invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], why)


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
