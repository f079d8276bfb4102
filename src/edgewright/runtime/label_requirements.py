"""Whether labels meet one requirement of a selector: a key, an operator and values.

Whoever selects objects in memory calls it: the scheduler for node affinity, the matching of workloads with edge
devices. Pure; it validates nothing, and an operator that it does not know is never met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Requirement(Protocol):
    """One term of `matchExpressions` or `matchFields`, as any kind's struct holds it."""

    @property
    def key(self) -> str:
        """The label or field."""

    @property
    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist; in a node selector also Gt or Lt."""

    @property
    def values(self) -> tuple[str, ...]:
        """What In and NotIn choose from; for Gt and Lt one number."""


def holds(requirement: Requirement, labels: Mapping[str, str], *, numbers: bool = False) -> bool:
    """Whether the labels meet the requirement; Gt and Lt are for node selectors only, which say so by `numbers`."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator if numbers:
            return _compared(value, operator, requirement.values)
        case _:
            return False


def _compared(value: str | None, operator: str, limits: tuple[str, ...]) -> bool:
    try:
        number, limit = int(value or ""), int(limits[0])
    except (ValueError, IndexError):
        return False
    return number > limit if operator == "Gt" else number < limit
