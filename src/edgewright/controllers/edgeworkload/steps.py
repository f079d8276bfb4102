"""The steps that the rollout of a workload asks for, and what is wrong with them; pure."""

from __future__ import annotations

from collections.abc import Iterator

from edgewright.api.edge_rules import selector_problems
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload_rollout import DEFAULT_SOAK, WorkloadBatch, WorkloadRollout
from edgewright.api.firmwarerollout import DEFAULT_SUCCESS, Approval
from edgewright.api.label_selector import LabelSelector
from edgewright.api.problem import Problem
from edgewright.controllers.staging.amounts import BadAmount, parse_amount
from edgewright.controllers.staging.steps import NamedSteps, Step
from edgewright.runtime.label_requirements import holds


def steps_of(rollout: WorkloadRollout) -> NamedSteps:
    """The batches, by number from 1 on; the implied last one demands what is usual."""
    named = [_step(number, batch) for number, batch in enumerate(rollout.batches, start=1)]
    return NamedSteps(named, rest=_step(0, WorkloadBatch(name="rest")))


def problem_of_rollout(rollout: WorkloadRollout | None) -> Problem | None:
    """The first thing that keeps a rollout from going on; devices keep what they have meanwhile."""
    return None if rollout is None else next(_problems(rollout), None)


def _problems(rollout: WorkloadRollout) -> Iterator[Problem]:
    names: set[str] = set()
    for number, batch in enumerate(rollout.batches):
        where = f"spec.rollout.batches[{number}]"
        if not batch.name:
            yield Problem(f"{where}.name", "a batch needs a name")
        if batch.name in names:
            yield Problem(f"{where}.name", f"there is a batch {batch.name!r} already")
        names.add(batch.name)
        if batch.size is not None:
            yield from _amount_problems(f"{where}.size", batch.size)
        if batch.selector is not None:
            yield from selector_problems(f"{where}.selector", batch.selector.match_expressions)
    if rollout.max_failures is not None:
        yield from _amount_problems("spec.rollout.maxFailures", rollout.max_failures)
    for number, name in enumerate(rollout.approvals):
        if name not in names:
            yield Problem(f"spec.rollout.approvals[{number}]", f"there is no batch {name!r}")


def _amount_problems(field: str, amount: int | str) -> Iterator[Problem]:
    try:
        parse_amount(amount)
    except BadAmount as error:
        yield Problem(field, str(error))


def _step(number: int, batch: WorkloadBatch) -> Step:
    selector, gate = batch.selector, batch.gate
    return Step(
        number=number,
        name=batch.name,
        size=None if batch.size is None else parse_amount(batch.size),
        chooses=None if selector is None or selector == LabelSelector() else lambda each: _selects(selector, each),
        soak=DEFAULT_SOAK if batch.soak_seconds is None else batch.soak_seconds,
        success=DEFAULT_SUCCESS if gate.success_percent is None else gate.success_percent,
        manual=gate.approval == Approval.MANUAL,
    )


def _selects(selector: LabelSelector, device: EdgeDevice) -> bool:
    labels = device.metadata.labels
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        holds(requirement, labels) for requirement in selector.match_expressions
    )
