"""The condition Conflict of an object whose name an older one of the other era's kind has; pure, for all such kinds."""

from __future__ import annotations

from datetime import datetime

from edgewright.api.edgeworkload import CONFLICT
from edgewright.runtime.conditions import condition, remove, set_condition
from edgewright.runtime.objects import Condition, Resource


def conflict_shown(
    conditions: tuple[Condition, ...], winner: Resource | None, *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions with Conflict where an older object counts in the place of this one, and without it else."""
    if winner is None:
        return remove(conditions, CONFLICT)
    message = (
        f"{winner.kind.kind} {winner.metadata.name} is older and counts; delete one of the two, or give it another name"
    )
    return set_condition(
        conditions, condition(CONFLICT, "True", "OlderObjectCounts", message, generation=generation), now=now
    )
