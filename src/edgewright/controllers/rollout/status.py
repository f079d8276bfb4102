"""What a rollout's status says, made from the picture that the decision has of it.

The loop writes it, at most once a second and only where it has changed. It is bounded whatever the size of the fleet.
Nothing in it is needed to go on; only the times of conditions are taken over from the status before. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from edgewright.api.firmwarerollout import (
    MAX_BATCHES_SHOWN,
    BatchStatus,
    FirmwareRollout,
    FirmwareRolloutStatus,
    RolloutPhase,
)
from edgewright.api.flashjob import ACCEPTED
from edgewright.api.problem import Problem
from edgewright.controllers.rollout.standing import Picture, Standing, standing_of
from edgewright.controllers.rollout.validation import in_a_sentence
from edgewright.controllers.staging.gates import BatchPhase
from edgewright.runtime import conditions as conditions_of
from edgewright.runtime.conditions import condition, remove, set_condition
from edgewright.runtime.objects import Condition
from edgewright.runtime.text import cut

PROGRESSING: Final = "Progressing"
"""The condition that says whether devices are being flashed, or will be without anybody's doing."""
PREVIOUS_UNKNOWN: Final = "PreviousFirmwareUnknown"
"""The condition of a recall that has devices of which nobody knows what they ran before."""
_MAX_MESSAGE: Final = 1024
_NAMED: Final = 10
_MAX_NAME: Final = 63


def refused_status(rollout: FirmwareRollout, found: Iterable[Problem], now: datetime) -> FirmwareRolloutStatus:
    """The status of a rollout whose spec cannot be acted on: what it did before is not shown any more."""
    message = in_a_sentence(found)
    standing = Standing(RolloutPhase.PENDING, "InvalidSpec", message, stuck=True)
    return FirmwareRolloutStatus(
        phase=standing.phase,
        message=message,
        observed_generation=rollout.metadata.generation,
        conditions=_conditions(rollout, standing, now, accepted=False),
    )


def status_of(picture: Picture) -> FirmwareRolloutStatus:
    """The status that the rollout must have; equal to the one that it has where nothing has changed."""
    rollout, counts = picture.rollout, picture.counts
    standing = standing_of(picture)
    shown, omitted, number = _batches(picture)
    refused = _refused_job(picture)
    return FirmwareRolloutStatus(
        phase=standing.phase,
        message=cut(standing.message, _MAX_MESSAGE),
        conditions=_conditions(rollout, standing, picture.now, refused=refused, unknown=picture.survey.unknown),
        observed_generation=rollout.metadata.generation,
        revision=picture.revisions.number,
        counts=counts,
        outcomes=dict(sorted(picture.survey.outcomes.items())),
        progress=f"{counts.succeeded + counts.current}/{counts.total}",
        batch=_open_batch(picture, number),
        batches=shown,
        batches_omitted=omitted,
        next_opening=picture.next_opening if standing.phase is RolloutPhase.WAITING else None,
        estimated_end=_estimated_end(picture, standing),
        observed_by=picture.observed_by if _observes(picture) else "",
        start_time=_whole(picture.revisions.current.opened),
        completion_time=_whole(standing.ended),
        recall=picture.recall,
    )


# --- the batches one by one -----------------------------------------------------------------------------------------


def _batches(picture: Picture) -> tuple[tuple[BatchStatus, ...], int, int]:
    """The batches that are shown, how many are not, and how many there are."""
    opened = [_opened(picture, number) for number in sorted(picture.verdicts)]
    planned, more = _planned(picture)
    total = max(len(opened) + len(planned) + more, picture.steps.last or 0)
    room = MAX_BATCHES_SHOWN - min(len(planned), MAX_BATCHES_SHOWN // 2)
    shown = (*opened[-room:], *planned)[:MAX_BATCHES_SHOWN]
    return shown, len(opened) + len(planned) + more - len(shown), total


def _opened(picture: Picture, number: int) -> BatchStatus:
    tally, verdict = picture.survey.tallies[number], picture.verdicts[number]
    times = [job.job.metadata.creation_timestamp for job in picture.revisions.current.by_batch[number]]
    return BatchStatus(
        number=number,
        name=picture.steps.get(number).name[:_MAX_NAME],
        phase=verdict.phase,
        size=tally.size,
        done=tally.done,
        failed=tally.bad,
        opened=_whole(min((time for time in times if time is not None), default=None)),
        ended=_whole(verdict.ended),
        passed=_whole(verdict.passed),
        message=verdict.message,
    )


def _planned(picture: Picture) -> tuple[list[BatchStatus], int]:
    """The batches that are still to come, as far as they are shown, and how many more there are."""
    left, steps, top = len(picture.survey.candidates), picture.steps, picture.top
    if steps.last is None:
        size = steps.get(1).size
        each = size.number if size is not None else 1
        number = -(-left // each)
        if not number:
            return [], 0
        name = steps.get(top + 1).name
        return [BatchStatus(number=top + 1, name=name, phase=BatchPhase.PLANNED, size=min(each, left))], number - 1
    found = []
    for number in range(top + 1, steps.last + 1):
        step = steps.get(number)
        most = left if step.chooses is None else min(left, sum(map(step.chooses, picture.survey.candidates)))
        taken = most if step.size is None else min(most, step.size.of(picture.counts.total))
        left -= taken
        if number < steps.last or taken or number == top + 1:
            name = step.name[:_MAX_NAME]
            found.append(BatchStatus(number=number, name=name, phase=BatchPhase.PLANNED, size=taken))
    return found, 0


def _open_batch(picture: Picture, number: int) -> str:
    if not picture.top:
        return ""
    return cut(f"{picture.steps.get(picture.top).name} ({picture.top}/{max(number, picture.top)})", 80)


# --- the rest -------------------------------------------------------------------------------------------------------


def _observes(picture: Picture) -> bool:
    """Whether devices are watched after their success at any time of the rollout."""
    return any(batch.soak_seconds for batch in picture.rollout.spec.batches)


def _estimated_end(picture: Picture, standing: Standing) -> datetime | None:
    """When the last device would end if all goes on as it did so far; no guess where nothing has ended yet."""
    counts, survey = picture.counts, picture.survey
    opened, last = picture.revisions.current.opened, survey.last_end
    ended = sum(tally.done + tally.bad for tally in survey.tallies.values())
    left = counts.waiting + counts.flashing
    if standing.stuck or standing.ended is not None or not left or not ended or opened is None or last is None:
        return None
    each = max(0.0, (last - opened).total_seconds()) / ended
    pauses = 0
    if picture.steps.last is not None:
        pauses = sum(picture.steps.get(number).soak for number in range(picture.top, picture.steps.last + 1) if number)
    else:
        size = picture.steps.get(1).size
        pauses = picture.steps.get(1).interval * (len(survey.candidates) // (size.number if size is not None else 1))
    seconds = min(each * left + pauses, 10 * 365 * 86_400.0)
    return _whole(last + timedelta(seconds=seconds))


def _refused_job(picture: Picture) -> str:
    """That a FlashJob of the rollout says that it cannot be acted on, in a sentence."""
    for job in picture.revisions.current.all:
        told = conditions_of.find(job.job.status.conditions, ACCEPTED)
        if told is not None and told.status == "False":
            return f"FlashJob {job.job.metadata.name}: {told.message}"
    return ""


def _conditions(
    rollout: FirmwareRollout,
    standing: Standing,
    now: datetime,
    *,
    accepted: bool = True,
    refused: str = "",
    unknown: Iterable[str] = (),
) -> tuple[Condition, ...]:
    conditions, generation = rollout.status.conditions, rollout.metadata.generation

    def say(conditions: tuple[Condition, ...], said: Condition) -> tuple[Condition, ...]:
        return set_condition(conditions, said, now=now)

    message = cut(standing.message, _MAX_MESSAGE)
    if not accepted:
        said = condition(ACCEPTED, "False", standing.reason, message, generation=generation)
    elif refused:
        said = condition(ACCEPTED, "False", "FlashJobRefused", cut(refused, _MAX_MESSAGE), generation=generation)
    else:
        said = condition(ACCEPTED, "True", "Accepted", "", generation=generation)
    conditions = say(conditions, said)
    going = standing.ended is None and not standing.stuck
    said = condition(PROGRESSING, "True" if going else "False", standing.reason, message, generation=generation)
    conditions = say(conditions, said)
    named = sorted(unknown)
    if named:
        text = f"nobody knows what {len(named)} devices ran before: {', '.join(named[:_NAMED])}"
        said = condition(PREVIOUS_UNKNOWN, "True", PREVIOUS_UNKNOWN, cut(text, _MAX_MESSAGE), generation=generation)
        conditions = say(conditions, said)
    else:
        conditions = remove(conditions, PREVIOUS_UNKNOWN)
    if standing.phase is RolloutPhase.COMPLETED:
        overall = conditions_of.done(standing.reason, message)
    elif standing.stuck:
        overall = conditions_of.stuck(standing.reason, message)
    else:
        overall = conditions_of.progressing(standing.reason, message)
    return conditions_of.with_outcome(conditions, overall, generation=generation, now=now)


def _whole(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(microsecond=0)
