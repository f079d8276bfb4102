"""What a workload says of its rollout: a status for people, and the condition RolledOut; pure."""

from __future__ import annotations

from typing import Final

from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.api.edgeworkload_rollout import ROLLED_OUT, WorkloadRolloutStatus
from edgewright.api.firmwarerollout import BatchStatus, RolloutPhase
from edgewright.controllers.edgeworkload.staging import Change, Create, Decision
from edgewright.controllers.staging.gates import BatchPhase
from edgewright.runtime.conditions import Outcome, condition, progressing, stuck
from edgewright.runtime.objects import Condition

STOPPED: Final = "RolloutStopped"
"""The reason of a rollout that paused by itself."""
COMPLETED: Final = "Completed"
_REASONS: Final = {
    RolloutPhase.PROGRESSING: "RollingOut",
    RolloutPhase.SOAKING: "Soaking",
    RolloutPhase.WAITING: "AwaitingApproval",
    RolloutPhase.PAUSED: "RolloutPaused",
}


def rollout_status(workload: EdgeWorkload, decision: Decision, devices: int) -> WorkloadRolloutStatus | None:
    """How far the newest version is; None where the spec has no rollout."""
    if workload.spec.rollout is None or decision.current is None:
        return None
    spec = decision.current.spec
    phase, message = _phase(workload, decision)
    top = spec.batches[-1] if spec.batches and decision.tallies else None
    last = decision.steps.last if decision.steps is not None else None
    return WorkloadRolloutStatus(
        phase=phase,
        message=message[:2048],
        revision=spec.hash,
        number=spec.number,
        progress=f"{decision.running}/{devices}" if decision.tallies else "",
        batch="" if top is None or spec.completed is not None else f"{top.name} ({top.number}/{last or top.number})",
        batches=tuple(
            BatchStatus(
                number=batch.number,
                name=batch.name[:63],
                phase=verdict.phase,
                size=tally.size,
                done=tally.done,
                failed=tally.bad,
                opened=batch.opened,
                message=verdict.message,
            )
            for batch, tally, verdict in decision.tallies
        )
        if spec.completed is None
        else (),
    )


def rolled_out(status: WorkloadRolloutStatus, *, stopped: bool, generation: int) -> Condition:
    """The condition that says whether all devices have got the newest version."""
    if status.phase == RolloutPhase.COMPLETED:
        return condition(ROLLED_OUT, "True", COMPLETED, status.message, generation=generation)
    reason = STOPPED if stopped else _REASONS[RolloutPhase(status.phase)]
    return condition(ROLLED_OUT, "False", reason, status.message, generation=generation)


def outcome_of(rolled: Condition) -> Outcome | None:
    """What the rollout says of the workload as a whole; None where it has ended."""
    if rolled.status == "True":
        return None
    if rolled.reason == STOPPED:
        return stuck(rolled.reason, rolled.message)
    return progressing(rolled.reason, rolled.message)


def is_stopped(decision: Decision) -> bool:
    """Whether the rollout paused by itself, by what was written down or is being written now."""
    return _stop(decision) != ""


def _stop(decision: Decision) -> str:
    written = next((each.spec for each in decision.actions if isinstance(each, Change)), None)
    spec = written or (None if decision.current is None else decision.current.spec)
    return "" if spec is None or spec.stop is None else spec.stop.why


def _phase(workload: EdgeWorkload, decision: Decision) -> tuple[RolloutPhase, str]:
    current = decision.current
    assert current is not None  # noqa: S101 - asked before
    number = current.spec.number
    if why := _stop(decision):
        return RolloutPhase.PAUSED, f"{why}. Change spec.rollout.resumeRequest to go on, or the workload to replace it"
    written = next((each.spec for each in decision.actions if isinstance(each, Change)), current.spec)
    if written.completed is not None:
        return RolloutPhase.COMPLETED, f"version {number} has reached all devices"
    rollout = workload.spec.rollout
    if rollout is not None and rollout.paused:
        return RolloutPhase.PAUSED, "spec.rollout.paused is set"
    if not decision.tallies or any(isinstance(each, Create) for each in decision.actions):
        return RolloutPhase.PROGRESSING, f"version {number} is about to reach its first devices"
    return _phase_of_batch(decision, number)


def _phase_of_batch(decision: Decision, number: int) -> tuple[RolloutPhase, str]:
    batch, tally, verdict = decision.tallies[-1]
    if verdict.phase is BatchPhase.SOAKING:
        return RolloutPhase.SOAKING, f"batch {batch.name}: {verdict.message}"
    if verdict.phase is BatchPhase.AWAITING_APPROVAL:
        return RolloutPhase.WAITING, f"batch {batch.name} {verdict.message}"
    return RolloutPhase.PROGRESSING, f"batch {batch.name}: {tally.done} of {tally.size} devices run version {number}"
