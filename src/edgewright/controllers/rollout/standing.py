"""How far a rollout is: its phase, a word for programs, and one sentence that says what happens next and why.

`status` shows it. It is made from the picture that a decision has of the rollout, never from the status before. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from edgewright.api.firmwarerollout import FirmwareRollout, OutcomeCounts, RolloutPhase
from edgewright.api.flashjob import DeviceState
from edgewright.api.fleet import Fleet
from edgewright.controllers.rollout.batches import Steps
from edgewright.controllers.rollout.jobs import Halt, Revisions, Stop
from edgewright.controllers.rollout.survey import Survey
from edgewright.controllers.staging.gates import BatchPhase, Verdict

_NAMED: Final = 10


@dataclass(frozen=True, kw_only=True)
class Picture:
    """All that a decision knows of a rollout."""

    rollout: FirmwareRollout
    now: datetime
    survey: Survey
    counts: OutcomeCounts
    revisions: Revisions
    steps: Steps
    verdicts: Mapping[int, Verdict]
    stop: Stop | None = None
    fleet: Fleet | None = None
    """The fleet, where it is frozen."""
    shut: bool = False
    """Whether no window is open."""
    next_opening: datetime | None = None
    recall: str = ""
    observed_by: str = ""
    busy: bool = False
    """Whether something is about to be written, so that this is not the end."""

    @property
    def top(self) -> int:
        """The number of the latest batch that is open; 0 where none is."""
        return self.revisions.current.top


@dataclass(frozen=True)
class Standing:
    """How far a rollout is: the phase, a word for programs and a sentence for people."""

    phase: RolloutPhase
    reason: str
    message: str
    ended: datetime | None = None
    stuck: bool = False
    """Whether nothing happens until somebody does something."""


def standing_of(picture: Picture) -> Standing:
    """How far a rollout is, and what happens next."""
    if picture.stop is not None:
        return _stopped(picture, picture.stop)
    over = None if picture.busy else _ended(picture)
    found = over or _idle(picture) or _held(picture) or _between(picture)
    return found or Standing(RolloutPhase.PROGRESSING, "Progressing", _progress(picture))


def _idle(picture: Picture) -> Standing | None:
    """That the rollout is paused, or has nothing that it could do."""
    counts, survey = picture.counts, picture.survey
    if picture.rollout.spec.paused:
        message = f"paused by spec.paused, with {_running(counts)}: edgewright rollout resume goes on"
        return Standing(RolloutPhase.PAUSED, "Paused", message, stuck=True)
    if survey.sources or survey.candidates or picture.top:
        return None
    if not counts.total:
        return Standing(RolloutPhase.PENDING, "NoDevices", "no device is selected so far")
    message = f"none of the {counts.total} devices that are selected can get it: {_left_out(counts)}"
    return Standing(RolloutPhase.PENDING, "NoDevices", message)


def _stopped(picture: Picture, stop: Stop) -> Standing:
    counts = picture.counts
    running = f", with {_running(counts)}" if counts.flashing else ""
    latest = picture.survey.last_end
    ended = None if counts.flashing else max(filter(None, (stop.time, latest)), default=None)
    if stop.action == Halt.RECALL:
        back = picture.recall or "another rollout"
        message = f"stopped: {stop.why}; {back} takes its devices back{running}"
        return Standing(RolloutPhase.RECALLED, "Recalled", message, ended, stuck=True)
    if stop.action == Halt.ABORT:
        return Standing(RolloutPhase.ABORTED, "Aborted", f"aborted: {stop.why}{running}", ended, stuck=True)
    message = f"paused: {stop.why}{running}; edgewright rollout resume goes on, edgewright rollout abort ends it"
    return Standing(RolloutPhase.PAUSED, "PausedByRule", message, stuck=True)


def _ended(picture: Picture) -> Standing | None:
    """How a rollout has ended; None where it has not."""
    counts, survey = picture.counts, picture.survey
    if survey.candidates or survey.pending or survey.sources:
        return None
    verdict = picture.verdicts.get(picture.top)
    if verdict is None:
        if picture.rollout.spec.recall is None and not counts.succeeded + counts.current:
            return None
        ended = survey.last_end or picture.rollout.metadata.creation_timestamp or picture.now
        return _result(picture, ended)
    if verdict.phase is BatchPhase.PASSED:
        return _result(picture, verdict.passed or picture.now)
    if verdict.phase is BatchPhase.FAILED and picture.top == picture.steps.last:
        message = f"{verdict.message}; edgewright rollout retry tries them once more"
        return Standing(RolloutPhase.FAILED, "DevicesFailed", message, verdict.ended or picture.now, stuck=True)
    return None


def _result(picture: Picture, ended: datetime) -> Standing:
    """Whether a rollout whose batches have all passed has done what it was for."""
    counts, unknown = picture.counts, sorted(picture.survey.unknown)
    if unknown:
        named = ", ".join(unknown[:_NAMED])
        message = f"{len(unknown)} devices cannot go back, for nobody knows what they ran before: {named}"
        return Standing(RolloutPhase.FAILED, "PreviousFirmwareUnknown", message, ended, stuck=True)
    bad = counts.failed + counts.regressed
    if bad and picture.steps.simple:
        message = f"{bad} of {counts.total} devices failed; edgewright rollout retry tries them once more"
        return Standing(RolloutPhase.FAILED, "DevicesFailed", message, ended, stuck=True)
    return Standing(RolloutPhase.COMPLETED, "Completed", _all_done(picture), ended)


def _held(picture: Picture) -> Standing | None:
    """What keeps the rollout from starting devices, where nothing of it is under way."""
    if picture.counts.flashing:
        return None
    if picture.fleet is not None:
        frozen = picture.fleet.spec
        by = f" by {frozen.by}" if frozen.by else ""
        reason = f": {frozen.reason}" if frozen.reason else ""
        return Standing(
            RolloutPhase.WAITING, "Frozen", f"the fleet is frozen{by}{reason}; edgewright unfreeze ends that"
        )
    if picture.shut:
        opening = picture.next_opening
        when = f"the next one opens at {_time(opening)}" if opening is not None else "none ever opens again"
        return Standing(RolloutPhase.WAITING, "OutsideWindows", f"no window is open; {when}")
    return None


def _between(picture: Picture) -> Standing | None:
    """What an open batch whose devices have all ended waits for."""
    verdict = picture.verdicts.get(picture.top)
    if verdict is None or picture.survey.pending:
        return None
    name = picture.steps.get(picture.top).name
    if verdict.phase is BatchPhase.FAILED:
        message = f"{verdict.message}; no further batch opens: edgewright rollout retry, or change its gate"
        return Standing(RolloutPhase.FAILED, "GateFailed", message, stuck=True)
    if verdict.phase is BatchPhase.SOAKING:
        return Standing(RolloutPhase.SOAKING, "Soaking", f"batch {name} has ended: {verdict.message}")
    if verdict.phase is BatchPhase.AWAITING_APPROVAL:
        return Standing(RolloutPhase.WAITING, "AwaitingApproval", f"batch {name} {verdict.message}")
    return None


def _progress(picture: Picture) -> str:
    counts, survey = picture.counts, picture.survey
    if not picture.top:
        if survey.sources:
            return f"{survey.sources} devices of the rollout that is recalled are still under way"
        return "the first batch is about to open"
    name = picture.steps.get(picture.top).name
    parts = [f"batch {name}: {counts.succeeded + counts.current} of {counts.total} devices done"]
    parts += [
        f"{number} {what}"
        for number, what in (
            (counts.flashing, "being flashed"),
            (counts.waiting, "waiting"),
            (counts.failed + counts.regressed, "failed"),
        )
        if number
    ]
    message = ", ".join(parts)
    if picture.fleet is not None:
        return f"{message}; none is started: the fleet is frozen"
    if picture.shut:
        return f"{message}; none is started: no window is open"
    why = "" if counts.flashing else _why_waiting(picture)
    return f"{message}; {why}" if why else message


def _why_waiting(picture: Picture) -> str:
    """Why devices of open batches wait, by what the FlashJob says of the first one that does."""
    for job in picture.revisions.current.all:
        if job.uid not in picture.survey.unfinished:
            continue
        for device in job.job.status.devices:
            if device.state == DeviceState.WAITING and device.message:
                return f"{device.uuid}: {device.message}"
    return ""


def _all_done(picture: Picture) -> str:
    counts = picture.counts
    done = counts.succeeded + counts.current
    what = "went back to what they ran before" if picture.rollout.spec.recall is not None else "run the new version"
    message = f"{done} of {counts.total} devices {what}"
    left = _left_out(counts)
    bad = counts.failed + counts.regressed
    failed = f", {bad} failed, which the gates allow" if bad else ""
    return f"{message}{failed}{'; ' + left if left else ''}"


def _left_out(counts: OutcomeCounts) -> str:
    parts = [(counts.quarantined, "quarantined"), (counts.excluded, "left out, as edgewright rollout plan says why")]
    return ", ".join(f"{number} {what}" for number, what in parts if number)


def _running(counts: OutcomeCounts) -> str:
    return f"{counts.flashing} devices under way" if counts.flashing else "no device under way"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
