"""What an EdgeWorkload says of itself: valid or not, on how many devices it is and on how many it runs; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from edgewright.api.edge_rules import problem_of
from edgewright.api.edgedevice import DEPLOYING, DeviceWorkload, EdgeDevice
from edgewright.api.edgeworkload import ACCEPTED, EdgeWorkload, EdgeWorkloadStatus
from edgewright.api.edgeworkload_rollout import ROLLED_OUT
from edgewright.api.problem import Problem
from edgewright.controllers.edgeworkload.progress import STOPPED, is_stopped, outcome_of, rolled_out, rollout_status
from edgewright.controllers.edgeworkload.staging import Decision
from edgewright.controllers.edgeworkload.steps import problem_of_rollout
from edgewright.controllers.eras import conflict_shown
from edgewright.runtime.conditions import (
    Outcome,
    condition,
    done,
    progressing,
    remove,
    retrying,
    set_condition,
    stuck,
    with_outcome,
)
from edgewright.runtime.objects import Resource

RUNNING: Final = "Running"
BAD: Final = frozenset({"Invalid", "Conflict", "LeftOut", "NotRunning", "OlderObjectCounts", STOPPED})
"""The reasons that are told as warnings."""
_NAMED: Final = 5


def status_of(
    workload: EdgeWorkload,
    devices: Sequence[EdgeDevice],
    *,
    winner: Resource | None,
    now: datetime,
    staging: Decision | None = None,
) -> EdgeWorkloadStatus:
    """The status of a workload that selects these devices; `winner` is the older object that counts in its place.

    `staging` says where its rollout stands; None where it cannot be acted on.
    """
    generation = workload.metadata.generation
    problem = problem_to_show(workload)
    conditions = conflict_shown(workload.status.conditions, winner, generation=generation, now=now)
    accepted = (
        condition(ACCEPTED, "True", "Valid", "the workload can be sent to devices", generation=generation)
        if problem is None
        else condition(ACCEPTED, "False", "Invalid", str(problem), generation=generation)
    )
    conditions = set_condition(conditions, accepted, now=now)
    counts = problem is None and winner is None
    entries = [(device, _entry(device, workload.metadata.name)) for device in devices] if counts else []
    running = sum(1 for _, entry in entries if entry is not None and entry.phase == RUNNING)
    if problem is not None:
        outcome = stuck("Invalid", str(problem))
    elif winner is not None:
        outcome = stuck("Conflict", f"{winner.kind.kind} {winner.metadata.name} is older and counts")
    else:
        outcome = _outcome(entries, running)
    rollout = None if staging is None else rollout_status(workload, staging, len(devices))
    if rollout is None or staging is None:
        rollout = workload.status.rollout if workload.spec.rollout is not None else None
        conditions = conditions if workload.spec.rollout is not None else remove(conditions, ROLLED_OUT)
    else:
        rolled = rolled_out(rollout, stopped=is_stopped(staging), generation=generation)
        conditions = set_condition(conditions, rolled, now=now)
        outcome = (outcome_of(rolled) or outcome) if outcome.reason != "LeftOut" else outcome
    return msgspec.structs.replace(
        workload.status,
        devices=len(entries),
        running=running,
        progress=f"{running}/{len(entries)}",
        rollout=rollout,
        conditions=with_outcome(conditions, outcome, generation=generation, now=now),
        observed_generation=generation,
    )


def problem_to_show(workload: EdgeWorkload) -> Problem | None:
    """The first thing that keeps the workload, or its rollout, from being acted on."""
    return problem_of(workload) or problem_of_rollout(workload.spec.rollout)


def _outcome(entries: Sequence[tuple[EdgeDevice, DeviceWorkload | None]], running: int) -> Outcome:
    if not entries:
        return progressing("NoDevices", "no device matches")
    left_out = [f"{device.metadata.name}: {entry.message}" for device, entry in entries if entry and entry.message]
    if left_out:
        return retrying("LeftOut", _some(left_out))
    down = [
        f"{device.metadata.name}: {entry.standing}"
        for device, entry in entries
        if entry is not None and entry.phase not in {RUNNING, DEPLOYING, ""}
    ]
    if down:
        return retrying("NotRunning", _some(down))
    if running == len(entries):
        return done(RUNNING, f"runs on {running} devices" if running > 1 else "runs on 1 device")
    return progressing(DEPLOYING, f"runs on {running} of {len(entries)} devices")


def _entry(device: EdgeDevice, name: str) -> DeviceWorkload | None:
    return next((each for each in device.status.known_workloads if each.name == name), None)


def _some(sentences: Sequence[str]) -> str:
    shown = "; ".join(sorted(sentences)[:_NAMED])
    return shown if len(sentences) <= _NAMED else f"{shown}; and {len(sentences) - _NAMED} more"
