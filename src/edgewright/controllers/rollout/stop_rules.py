"""When a rollout stops by itself, and whether it has.

A rule that holds is written down on the rollout's FlashJobs, which are paused with it: a share that falls again while
the last devices finish does not start the rollout again. Only a person does, for a pause; an abort is for ever. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from edgewright.api.firmwarerollout import FAILURES, REGRESSED, StopAction, StopRule
from edgewright.controllers.rollout.jobs import BatchJob, Halt, Stop
from edgewright.controllers.staging.failures import too_many

_FAILED: Final = frozenset({*(outcome.value for outcome in FAILURES), REGRESSED})
_SEVERITY: Final = {StopAction.PAUSE.value: 0, StopAction.ABORT.value: 1, StopAction.RECALL.value: 2}
_FOR_EVER: Final = frozenset({Halt.ABORT.value, Halt.RECALL.value})


def tripped(rules: Sequence[StopRule], outcomes: Mapping[str, int], now: datetime, request: str = "") -> Stop | None:
    """What the rules say of these outcomes; of several that hold the most severe."""
    ended = sum(outcomes.values())
    held = [
        (rule, why) for place, rule in enumerate(rules) if (why := _holds(rule, outcomes, ended, f"spec.stop[{place}]"))
    ]
    if not held:
        return None
    rule, why = max(held, key=lambda each: _SEVERITY[each[0].action])
    return Stop(action=rule.action, time=now.replace(microsecond=0), why=why, request=request)


def standing_stop(jobs: Iterable[BatchJob], request: str) -> Stop | None:
    """What stops the rollout by what was written down on its jobs; the most severe, and of those the first.

    `request` is the latest one to resume: it ends every pause that was not decided after it.
    """
    found = [job.stop for job in jobs if job.stop is not None and job.stop.action in _SEVERITY]
    found = [stop for stop in found if stop.action in _FOR_EVER or stop.request == request]
    return max(found, key=lambda stop: (_SEVERITY[stop.action], -_seconds(stop)), default=None)


def more_severe(first: Stop | None, second: Stop | None) -> Stop | None:
    """The one of two that stops more; of two alike the first."""
    if first is None or second is None:
        return first or second
    return second if _SEVERITY[second.action] > _SEVERITY[first.action] else first


def _holds(rule: StopRule, outcomes: Mapping[str, int], ended: int, field: str) -> str:
    """Why a rule holds, in a sentence; empty where it does not."""
    counting = frozenset(rule.outcomes) or _FAILED
    found = {outcome: number for outcome, number in outcomes.items() if outcome in counting}
    return too_many(found, ended, rule.threshold, field=field, min_sample=rule.min_sample)


def _seconds(stop: Stop) -> float:
    return stop.time.timestamp() if stop.time is not None else 0.0
