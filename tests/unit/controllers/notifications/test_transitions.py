"""Which states of a rollout are told, what is said, and what is told again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.firmwarerollout import (
    NOTIFICATIONS_ANNOTATION,
    BatchStatus,
    FirmwareRollout,
    FirmwareRolloutStatus,
    OutcomeCounts,
    RolloutPhase,
)
from edgewright.controllers.notifications.messages import cloud_event
from edgewright.controllers.notifications.outbox import MAX_PENDING, Outbox, advance, outbox_of, without, written
from edgewright.controllers.notifications.transitions import NoticeType, notice_id, state_of
from edgewright.runtime.objects import Condition
from tests.unit.controllers.rollout.rollout_world import BEGIN, replace, rollout_of

CANARY = BatchStatus(number=1, name="canary", phase="AwaitingApproval", size=1, done=1)
REST = BatchStatus(number=2, name="rest", phase="Planned", size=9)
DAY = 86_400.0


def showing(phase: str, *, generation: int = 1, revision: int = 1, **status: Any) -> FirmwareRollout:
    """A rollout that shows a phase, of which nothing was told yet."""
    made = rollout_of()
    shown = FirmwareRolloutStatus(phase=phase, observed_generation=generation, revision=revision, **status)
    return replace(made, metadata=replace(made.metadata, generation=generation), status=shown)


def with_outbox(rollout: FirmwareRollout, outbox: Outbox) -> FirmwareRollout:
    text = written(outbox)
    annotations = {} if text is None else {NOTIFICATIONS_ANNOTATION: text}
    return replace(rollout, metadata=replace(rollout.metadata, annotations=annotations))


def step(rollout: FirmwareRollout, outbox: Outbox | None = None, *, after: float = 0) -> Outbox:
    """The outbox after a pass, as the server would give it back."""
    before = outbox or Outbox(uid=rollout.metadata.uid)
    there = with_outbox(rollout, before)
    made = advance(there, outbox_of(there), BEGIN + timedelta(seconds=after), give_up=DAY)
    return outbox_of(with_outbox(rollout, made))


@pytest.mark.parametrize(
    ("phase", "batches", "told"),
    [
        ("", (), None),
        ("Pending", (), None),
        ("Progressing", (), None),
        ("Progressing", (CANARY,), None),
        ("Soaking", (replace(CANARY, phase="Soaking"),), None),
        ("Waiting", (replace(CANARY, phase="Running"), REST), None),
        ("Waiting", (replace(CANARY, phase="Passed"), REST), None),
        ("Waiting", (CANARY, REST), NoticeType.APPROVAL_NEEDED),
        ("Paused", (), NoticeType.PAUSED),
        ("Paused", (CANARY, REST), NoticeType.PAUSED),
        ("Failed", (replace(CANARY, phase="Failed"), REST), NoticeType.FAILED),
        ("Aborted", (), NoticeType.ABORTED),
        ("Recalled", (), NoticeType.RECALLED),
        ("Completed", (replace(CANARY, phase="Passed"),), NoticeType.COMPLETED),
    ],
)
def test_what_is_told_follows_from_the_phase_and_the_open_batch(
    phase: str, batches: tuple[BatchStatus, ...], told: NoticeType | None
) -> None:
    state = state_of(showing(phase, batches=batches))
    assert (state.type if state is not None else None) == told
    if state is not None:
        assert state.batch == (1 if batches else 0)


def test_every_phase_was_thought_of() -> None:
    silent = {phase for phase in RolloutPhase if state_of(showing(phase)) is None}
    assert silent == {RolloutPhase.PENDING, RolloutPhase.PROGRESSING, RolloutPhase.SOAKING, RolloutPhase.WAITING}


def test_a_state_is_told_once_however_often_it_is_seen() -> None:
    outbox = step(showing("Paused"))
    assert [each.state.type for each in outbox.pending] == [NoticeType.PAUSED]
    assert step(showing("Paused"), outbox) == outbox
    told = without(outbox, outbox.pending[0])
    assert not told.pending
    assert step(showing("Paused"), told, after=7200) == told
    assert step(showing("Paused", generation=2, message="still"), told) == told, "another field of the spec changed"


def test_it_is_told_again_after_it_was_over_with_another_id() -> None:
    first = step(showing("Paused"))
    told = without(first, first.pending[0])
    over = step(showing("Progressing", generation=2), told)
    assert written(over) is None
    second = step(showing("Paused", generation=3), over)
    assert notice_id("uid", first.pending[0]) != notice_id("uid", second.pending[0])


def test_a_state_that_follows_another_is_told_and_both_are_kept_in_order() -> None:
    outbox = step(showing("Waiting", batches=(CANARY, REST)))
    outbox = step(showing("Progressing"), outbox)
    outbox = step(showing("Paused", generation=2), outbox)
    outbox = step(showing("Aborted", generation=3), outbox)
    assert [each.state.type.value for each in outbox.pending] == ["approval-needed", "paused", "aborted"]
    assert without(outbox, outbox.pending[0]).pending == outbox.pending[1:], "one that was delivered goes alone"


def test_the_next_batch_or_revision_that_needs_approval_is_told() -> None:
    first = step(showing("Waiting", batches=(CANARY, REST)))
    second = step(showing("Waiting", batches=(replace(CANARY, phase="Passed"), replace(CANARY, number=2))), first)
    third = step(showing("Waiting", revision=2, batches=(CANARY, REST)), second)
    assert [(each.state.revision, each.state.batch) for each in third.pending] == [(1, 1), (1, 2), (2, 1)]
    assert len({notice_id("uid", each) for each in third.pending}) == 3


@pytest.mark.parametrize("shown", [showing(""), replace(showing("Progressing"), status=showing("Completed").status)])
def test_a_status_that_was_wiped_or_is_about_an_earlier_spec_changes_nothing(shown: FirmwareRollout) -> None:
    told = without(step(showing("Paused")), step(showing("Paused")).pending[0])
    later = replace(shown, metadata=replace(shown.metadata, generation=5))
    assert step(later, told) == told


def test_a_rollout_that_ended_long_ago_is_not_told_to_a_webhook_that_is_new() -> None:
    ended = showing("Completed", completion_time=BEGIN - timedelta(days=2))
    assert step(ended) == Outbox(uid="uid-rollout")
    assert step(showing("Completed", completion_time=BEGIN - timedelta(hours=2))).pending
    assert step(showing("Paused")).pending, "what still waits for somebody is told"


def test_one_that_ends_again_for_devices_that_came_later_has_another_id() -> None:
    first = step(showing("Completed", completion_time=BEGIN))
    second = step(showing("Completed", completion_time=BEGIN + timedelta(hours=1)), after=3600)
    assert notice_id("uid", first.pending[0]) != notice_id("uid", second.pending[0])


def test_the_id_is_the_same_for_whoever_sees_the_same_transition_and_only_for_this_rollout() -> None:
    ours, theirs = step(showing("Aborted")).pending[0], step(showing("Aborted"), after=60).pending[0]
    assert notice_id("uid", ours) == notice_id("uid", theirs)
    assert notice_id("other", ours) != notice_id("uid", ours)
    assert "." not in notice_id("uid", ours), "the signature separates its parts by dots"


def test_what_waits_is_bounded_and_the_oldest_goes() -> None:
    outbox = Outbox(uid="uid-rollout")
    for generation in range(1, 2 * MAX_PENDING):
        outbox = step(showing("Paused", generation=2 * generation, message="x" * 2000), outbox)
        outbox = step(showing("Progressing", generation=2 * generation + 1), outbox)
    assert len(outbox.pending) == MAX_PENDING
    assert outbox.pending[-1].generation == 2 * (2 * MAX_PENDING - 1)
    assert len(written(outbox) or "") < 16_384


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        '{"uid": "uid-rollout", "state": {"type": "party"}}',
        '{"uid": "uid-rollout", "pending": [{"state": {"type": "paused"}, "time": "2026-11-02T12:00:00"}]}',
        '{"uid": "uid-of-another", "state": {"type": "paused", "revision": 1}}',
    ],
    ids=["no JSON", "a list", "an unknown type", "a time without a zone", "copied from another rollout"],
)
def test_an_annotation_that_cannot_be_ours_counts_as_none(text: str) -> None:
    rollout = showing("Paused")
    there = replace(rollout, metadata=replace(rollout.metadata, annotations={NOTIFICATIONS_ANNOTATION: text}))
    assert outbox_of(there) == Outbox(uid="uid-rollout")


def test_the_body_is_a_cloud_event_that_says_who_what_and_why() -> None:
    progressing = Condition(type="Progressing", status="False", reason="GateFailed")
    rollout = showing(
        "Failed",
        message="1 of 1 devices failed",
        conditions=(progressing,),
        progress="0/10",
        batches=(replace(CANARY, phase="Failed"), REST),
        counts=OutcomeCounts(total=10, failed=1, waiting=9),
    )
    (notice,) = step(rollout).pending
    event = json.loads(cloud_event(rollout, notice))
    assert event.pop("id") == notice_id("uid-rollout", notice)
    data = event.pop("data")
    assert event == {
        "specversion": "1.0",
        "source": "/apis/edgewright.dev/v1alpha1/namespaces/default/firmwarerollouts/rollout",
        "type": "dev.edgewright.rollout.failed",
        "subject": "default/rollout",
        "time": "2026-11-02T12:00:00Z",
        "datacontenttype": "application/json",
    }
    assert data.pop("counts")["failed"] == 1
    assert data == {
        "namespace": "default",
        "name": "rollout",
        "uid": "uid-rollout",
        "generation": 1,
        "revision": 1,
        "phase": "Failed",
        "reason": "GateFailed",
        "message": "1 of 1 devices failed",
        "batch": {"number": 1, "name": "canary"},
        "progress": "0/10",
    }
    assert cloud_event(replace(rollout, status=FirmwareRolloutStatus()), notice) == cloud_event(rollout, notice)
    assert msgspec.json.decode(written(step(rollout)) or "", type=Outbox).pending == (notice,)
