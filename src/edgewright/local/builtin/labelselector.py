"""What is wrong with a label selector, wherever an object holds one.

The rules of workloads, budgets and claims check theirs here.
"""

from __future__ import annotations

from edgewright.local.builtin import checks
from edgewright.local.field_errors import forbidden, invalid, required
from edgewright.local.labelselector import is_empty, selects
from edgewright.local.selectors import label_value_faults
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

__all__ = ["faults", "is_empty", "selects"]
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_LISTING = ("In", "NotIn")


def faults(path: str, selector: RawObject) -> list[Cause]:
    """What is wrong with a selector."""
    causes = checks.labels(f"{path}.matchLabels", selector.get("matchLabels") or {})
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        place, operator, values = f"{path}.matchExpressions[{index}]", term["operator"], term.get("values") or []
        if operator not in _OPERATORS:
            causes.append(invalid(f"{place}.operator", operator, "not a valid selector operator"))
        elif operator in _LISTING and not values:
            causes.append(required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator not in _LISTING and values:
            why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{place}.values", why))
        causes += checks.qualified_name(f"{place}.key", term["key"])
        for number, value in enumerate(values):
            causes += [invalid(f"{place}.values[{number}]", value, why) for why in label_value_faults(value)]
    return causes
