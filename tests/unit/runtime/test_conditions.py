"""Conditions: what is kept, what changes, and what kstatus makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime import conditions
from edgewright.runtime.conditions import READY, RECONCILING, STALLED, Outcome, condition, set_condition, with_outcome
from edgewright.runtime.objects import Condition

NOON = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def kstatus(*, generation: int, observed: int | None, found: tuple[Condition, ...]) -> str:
    """What kstatus computes for a custom resource that is not being deleted, rule by rule in its order."""
    if observed is not None and observed != generation:
        return "InProgress"
    for each in found:
        if each.type == "Reconciling" and each.status == "True":
            return "InProgress"
        if each.type == "Stalled" and each.status == "True":
            return "Failed"
    for each in found:
        if each.type == "Ready":
            return "Current" if each.status == "True" else "InProgress"
    return "Current"


def at(type_: str, status: conditions.Status, *, reason: str = "Because", message: str = "") -> Condition:
    return condition(type_, status, reason, message)


OUTCOMES = {
    "progressing": (conditions.progressing(), "InProgress", "Unknown"),
    "retrying": (conditions.retrying("Conflict", "somebody else wrote"), "InProgress", "False"),
    "done": (conditions.done(), "Current", "True"),
    "stuck": (conditions.stuck("BadSpec", "spec.uuid is empty"), "Failed", "False"),
}


@pytest.mark.parametrize(("outcome", "status", "ready"), OUTCOMES.values(), ids=OUTCOMES)
@pytest.mark.parametrize(
    "before", [value[0] for value in OUTCOMES.values()], ids=[f"after-{name}" for name in OUTCOMES]
)
def test_kstatus_reads_an_outcome_as_it_is_meant(before: Outcome, outcome: Outcome, status: str, ready: str) -> None:
    found = with_outcome((), before, generation=1, now=NOON)
    found = with_outcome(found, outcome, generation=2, now=LATER)
    assert kstatus(generation=2, observed=2, found=found) == status
    assert kstatus(generation=3, observed=2, found=found) == "InProgress"
    shown = conditions.find(found, READY)
    assert shown is not None
    assert shown.status == ready
    assert not (conditions.is_true(found, RECONCILING) and conditions.is_true(found, STALLED))
    assert {each.observed_generation for each in found} == {2}


@pytest.mark.parametrize("outcome", [value[0] for value in OUTCOMES.values()], ids=OUTCOMES)
def test_an_outcome_that_was_said_already_gives_the_same_tuple_back(outcome: Outcome) -> None:
    found = with_outcome((at("Scheduled", "True"),), outcome, generation=4, now=NOON)
    assert with_outcome(found, outcome, generation=4, now=LATER) is found


def test_conditions_of_others_stay_where_they_are() -> None:
    mine, theirs = at("Scheduled", "True"), at("example.com/Checked", "False")
    found = with_outcome((mine, theirs), conditions.stuck("BadSpec", "no"), generation=1, now=NOON)
    assert found[:2] == (mine, theirs)
    assert [each.type for each in found] == ["Scheduled", "example.com/Checked", READY, STALLED]


def test_the_transition_time_is_kept_while_the_status_is_the_same() -> None:
    found = set_condition((), at(READY, "False", reason="Waiting"), now=NOON)
    found = set_condition(found, condition(READY, "False", "Failing", "no route", generation=7), now=LATER)
    assert found == (
        Condition(
            type=READY,
            status="False",
            reason="Failing",
            message="no route",
            observed_generation=7,
            last_transition_time=NOON,
        ),
    )


def test_the_transition_time_is_now_when_the_status_changes() -> None:
    found = set_condition((), at(READY, "False"), now=NOON)
    found = set_condition(found, at(READY, "True"), now=LATER)
    assert found[0].last_transition_time == LATER


def test_the_transition_time_has_whole_seconds_in_utc_as_the_api_server_keeps_it() -> None:
    now = datetime(2026, 11, 1, 14, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert set_condition((), at(READY, "True"), now=now)[0].last_transition_time == NOON


def test_a_missing_transition_time_is_filled_in() -> None:
    assert set_condition((at(READY, "True"),), at(READY, "True"), now=NOON)[0].last_transition_time == NOON


def test_a_clock_that_is_behind_the_last_writer_does_not_turn_time_back() -> None:
    found = set_condition((), at(READY, "False"), now=LATER)
    assert set_condition(found, at(READY, "True"), now=NOON)[0].last_transition_time == LATER


def test_a_second_condition_of_a_type_goes() -> None:
    first, second = at(READY, "False"), at(READY, "True")
    found = set_condition((first, at(STALLED, "True"), second), at(READY, "True"), now=NOON)
    assert [each.type for each in found] == [READY, STALLED]


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        set_condition((), at(READY, "True"), now=datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        pytest.param(Condition(type="Ready", status="True", reason=""), "reason", id="no-reason"),
        pytest.param(Condition(type="Ready", status="True", reason="not one word"), "reason", id="words"),
        pytest.param(Condition(type="Ready", status="True", reason="Ends,"), "reason", id="ends-with-comma"),
        pytest.param(Condition(type="Ready", status="True", reason="A\n"), "reason", id="newline"),
        pytest.param(Condition(type="Ready", status="True", reason="A" * 1025), "reason", id="long-reason"),
        pytest.param(Condition(type="Ready", status="true", reason="A"), "status", id="status"),
        pytest.param(Condition(type="", status="True", reason="A"), "type", id="no-type"),
        pytest.param(Condition(type="Not Ready", status="True", reason="A"), "type", id="type-with-space"),
        pytest.param(Condition(type="R" * 317, status="True", reason="A"), "type", id="long-type"),
    ],
)
def test_what_the_api_server_would_refuse_is_refused_here(wrong: Condition, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        set_condition((), wrong, now=NOON)


def test_a_long_message_is_cut() -> None:
    assert len(condition(READY, "True", "A", "x" * 32_768).message) == 32_768
    message = condition(READY, "True", "A", "x" * 40_000).message
    assert len(message) == 32_768
    assert message.endswith("x…")


def test_a_long_message_that_was_cut_before_is_no_change() -> None:
    new = Condition(type=READY, status="True", reason="A", message="x" * 40_000)
    found = set_condition((), new, now=NOON)
    assert set_condition(found, new, now=LATER) is found


def test_removing_what_is_not_there_gives_the_same_tuple_back() -> None:
    found = (at(READY, "True"),)
    assert conditions.remove(found, STALLED) is found
    assert conditions.remove(found, READY) == ()


def test_a_condition_that_is_unknown_or_missing_is_not_true() -> None:
    assert not conditions.is_true((), READY)
    assert not conditions.is_true((at(READY, "Unknown"),), READY)
    assert conditions.is_true((at(READY, "True"),), READY)


def test_transitions_are_changes_of_status_or_reason() -> None:
    same, other = at("A", "True"), at("B", "True")
    old = (same, other, at("C", "True"), at("Gone", "True"))
    new = (
        at("A", "True", message="another message"),
        at("B", "False"),
        at("C", "True", reason="Other"),
        at("D", "True"),
    )
    told = conditions.transitions(old, new)
    assert [(each.before, each.after) for each in told] == [(other, new[1]), (old[2], new[2]), (None, new[3])]


news = st.builds(
    Condition,
    type=st.sampled_from(["Ready", "Reconciling", "Stalled", "example.com/Own"]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["A", "Because", "Some_Reason:x1"]),
    message=st.text(max_size=5),
    observed_generation=st.integers(0, 5),
)
moments = st.integers(0, 10**9).map(lambda milliseconds: NOON + timedelta(milliseconds=milliseconds))


@given(st.lists(st.tuples(news, moments), max_size=20))
def test_any_sequence_leaves_one_of_a_type_with_times_that_never_go_back(
    steps: list[tuple[Condition, datetime]],
) -> None:
    found: tuple[Condition, ...] = ()
    for new, now in steps:
        before = found
        found = set_condition(before, new, now=now)
        assert set_condition(found, new, now=now + timedelta(days=1)) is found
        types = [each.type for each in found]
        assert len(types) == len(set(types))
        assert types[: len(before)] == [each.type for each in before]
        old, put = conditions.find(before, new.type), conditions.find(found, new.type)
        assert put is not None
        assert (put.status, put.reason, put.message) == (new.status, new.reason, new.message)
        assert put.last_transition_time is not None
        assert put.last_transition_time.microsecond == 0
        if old is not None and old.last_transition_time is not None:
            assert put.last_transition_time >= old.last_transition_time
            if old.status == put.status:
                assert put.last_transition_time == old.last_transition_time
