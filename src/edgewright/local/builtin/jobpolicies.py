"""Checks of what a Job says about Pods that fail, about enough that succeeded, and about Pods that take their place."""

from __future__ import annotations

from edgewright.local.builtin import checks
from edgewright.local.field_errors import OMITTED, duplicate, invalid, required, too_many
from edgewright.local.go_format import quote
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_MAX_RULES, _MAX_CODES = 20, 255


class BadIndexes(Exception):
    """A text is no list of indexes; the message says why."""


def faults(spec: RawObject, path: str) -> list[Cause]:
    """What is wrong with the three policies."""
    causes: list[Cause] = []
    if (policy := spec.get("podFailurePolicy")) is not None:
        rules, place = policy.get("rules") or [], f"{path}.podFailurePolicy.rules"
        if len(rules) > _MAX_RULES:
            causes.append(too_many(place, len(rules), _MAX_RULES))
        for index, rule in enumerate(rules):
            causes += _rule(spec, rule, f"{place}[{index}]")
    if (wanted := spec.get("successPolicy")) is not None:
        causes += _success(spec, wanted, f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    choices = _REPLACEMENTS[:1] if spec.get("podFailurePolicy") is not None else _REPLACEMENTS
    if replacement is not None:
        causes += checks.supported(f"{path}.podReplacementPolicy", replacement, choices)
    return causes


def _rule(spec: RawObject, rule: RawObject, path: str) -> list[Cause]:
    action, codes, conditions = rule["action"], rule.get("onExitCodes"), rule.get("onPodConditions") or []
    causes = _chosen(f"{path}.action", action, _ACTIONS)
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        causes.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    if codes is not None:
        causes += _codes(spec, codes, f"{path}.onExitCodes")
    if len(conditions) > _MAX_RULES:
        causes.append(too_many(f"{path}.onPodConditions", len(conditions), _MAX_RULES))
    for index, pattern in enumerate(conditions):
        place = f"{path}.onPodConditions[{index}]"
        causes += checks.qualified_name(f"{place}.type", pattern["type"])
        causes += checks.supported(f"{place}.status", pattern["status"], _STATUSES)
    if codes is not None and conditions:
        why = "specifying both OnExitCodes and OnPodConditions is not supported"
        causes.append(invalid(path, OMITTED, why))
    if codes is None and not conditions:
        causes.append(invalid(path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required"))
    return causes


def _codes(spec: RawObject, codes: RawObject, path: str) -> list[Cause]:
    operator, values, name = codes["operator"], codes.get("values") or [], codes.get("containerName")
    pod = spec["template"]["spec"]
    known = {each["name"] for part in ("containers", "initContainers") for each in pod.get(part) or ()}
    causes = _chosen(f"{path}.operator", operator, _OPERATORS)
    if name is not None and name not in known:
        why = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{path}.containerName", name, why))
    if not values:
        causes.append(invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > _MAX_CODES:
        causes.append(too_many(f"{path}.values", len(values), _MAX_CODES))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            causes.append(invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator"))
        if value in values[:index]:
            causes.append(duplicate(f"{path}.values[{index}]", value))
    if values != sorted(values):
        causes.append(invalid(f"{path}.values", values, "must be ordered"))
    return causes


def _success(spec: RawObject, policy: RawObject, path: str) -> list[Cause]:
    if spec.get("completionMode") != "Indexed":
        return [invalid(path, policy, "requires indexed completion mode")]
    rules, causes = policy.get("rules") or [], []
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        causes.append(required(f"{path}.rules", why))
    if len(rules) > _MAX_RULES:
        causes.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        causes += _success_rule(spec.get("completions") or 0, rule, f"{path}.rules[{index}]")
    return causes


def _success_rule(completions: int, rule: RawObject, path: str) -> list[Cause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    causes, total = [], 0
    if count is None and indexes is None:
        causes.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    if indexes is not None:
        try:
            total = len(read_indexes(indexes, completions))
        except BadIndexes as wrong:
            why = f"error parsing succeededIndexes: {wrong}"
            causes.append(invalid(f"{path}.succeededIndexes", indexes, why))
    if count is not None:
        place = f"{path}.succeededCount"
        causes += checks.not_negative(place, count)
        limits = {"specified completions": completions}
        if indexes is not None:
            limits["indexes in the specified succeededIndexes field"] = total
        for what, most in limits.items():
            if count > most:
                causes.append(invalid(place, count, f"must be less than or equal to {most} (the number of {what})"))
    return causes


def read_indexes(text: str, completions: int) -> set[int]:
    """The indexes that a text like `0,2-4` lists."""
    found: set[int] = set()
    last = -1
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            why = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise BadIndexes(f"the fragment {quote(part)} {why}")
        first, *more = (_index(each, completions) for each in limits)
        if last >= first:
            raise BadIndexes(f"non-increasing order, previous: {last}, current: {first}")
        last = more[0] if more else first
        if more and first >= last:
            raise BadIndexes(f"non-increasing order, previous: {first}, current: {last}")
        found.update(range(first, last + 1))
    return found


def _index(text: str, completions: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise BadIndexes(f"cannot convert string to integer for index: {quote(text)}")
    if int(text) >= completions:
        raise BadIndexes(f"too large index: {quote(text)}")
    return int(text)


def _chosen(path: str, value: str, choices: tuple[str, ...]) -> list[Cause]:
    if not value:
        return [required(path, f"valid values: [{' '.join(quote(each) for each in choices)}]")]
    return checks.supported(path, value, choices)
