"""The steps of a rollout, and which devices each takes.

The plan and the decisions use the same functions, so what is planned is what happens. The simple form takes devices by
name, as the script did; named batches are as in every staged change. Pure.
"""

from __future__ import annotations

from edgewright.api.firmwarerollout import DEFAULT_SUCCESS, Approval, Batch, FirmwareRolloutSpec
from edgewright.controllers.rollout.selection import is_empty, selects
from edgewright.controllers.staging.amounts import Amount, parse_amount
from edgewright.controllers.staging.steps import REST, NamedSteps, Step, ordered, rank_by_hash, taken_by

__all__ = ["REST", "Step", "Steps", "ordered", "rank_by_hash", "taken_by"]


class Steps(NamedSteps):
    """The batches that a spec asks for, by number from 1 on; the simple form has as many as it takes."""

    def __init__(self, spec: FirmwareRolloutSpec) -> None:
        super().__init__(_named(number, batch) for number, batch in enumerate(spec.batches, start=1))
        self._spec = spec
        self._simple = spec.batch_size is not None and not spec.batches

    @property
    def simple(self) -> bool:
        """Whether it is the simple form: so many devices at a time."""
        return self._simple

    @property
    def last(self) -> int | None:
        """The number of the last one; None in the simple form, which has no end of its own."""
        return None if self._simple else super().last

    def get(self, number: int) -> Step:
        """The step of this number; one beyond the last is as the last."""
        if not self._simple:
            return super().get(number)
        size = Amount(self._spec.batch_size or 1)
        interval = self._spec.interval_seconds
        return Step(number=number, name=f"batch {number}", size=size, interval=interval, blocks=False)


def _named(number: int, batch: Batch) -> Step:
    gate = batch.gate
    selector = batch.selector
    return Step(
        number=number,
        name=batch.name,
        size=None if batch.size is None else parse_amount(batch.size),
        chooses=None if selector is None or is_empty(selector) else selects(selector),
        soak=batch.soak_seconds,
        success=DEFAULT_SUCCESS if gate.success_percent is None else gate.success_percent,
        manual=gate.approval == Approval.MANUAL,
    )
