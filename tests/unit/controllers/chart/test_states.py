"""Where a release stands, from what is stored and what was found of its objects."""

from __future__ import annotations

import pytest

from edgewright.controllers.chart.releases import REVISION_LABEL, Revision
from edgewright.controllers.chart.states import Found, State, Wanted, failures, last_good, state_of
from edgewright.runtime.objects import ObjectMeta

WANTED = Wanted("chart", "values")


def revision(version: int, status: str, *, mark: str | None = None, values: str = "values") -> Revision:
    """A revision; one of ours, unless it carries the mark of another."""
    metadata = ObjectMeta(labels={REVISION_LABEL: str(version) if mark is None else mark})
    return Revision(version=version, status=status, chart="chart", values=values, metadata=metadata)


OLD = revision(1, "deployed", values="old")
FAILED = revision(2, "failed")
CUT_SHORT = [OLD, FAILED, revision(3, "failed", mark="interrupted")]


@pytest.mark.parametrize(
    ("history", "found", "state"),
    [
        ([], Found(), State.ABSENT),
        ([], Found(marked=True), State.UNMANAGED),
        ([revision(1, "deployed")], Found(), State.IN_SYNC),
        ([revision(1, "deployed")], Found(drifted=True, untested=True), State.DRIFTED),
        ([revision(1, "deployed")], Found(untested=True), State.UNTESTED),
        ([OLD], Found(drifted=True), State.OUT_OF_SYNC),
        ([revision(3, "deployed", mark="")], Found(), State.OUT_OF_SYNC),
        ([revision(1, "pending-install")], Found(), State.LOCKED),
        ([revision(1, "uninstalling")], Found(), State.LOCKED),
        ([OLD, FAILED], Found(), State.FAILED),
        ([revision(1, "failed")], Found(), State.FAILED),
        ([revision(1, "failed", values="old")], Found(), State.OUT_OF_SYNC),
        ([revision(1, "uninstalled")], Found(), State.REMEDIATED),
        ([revision(1, "uninstalled", values="old")], Found(), State.OUT_OF_SYNC),
        ([revision(1, "superseded"), FAILED, revision(3, "deployed", mark="1")], Found(), State.REMEDIATED),
        ([revision(1, "superseded"), FAILED, revision(3, "deployed", mark="")], Found(), State.REMEDIATED),
        # Helm copies labels: somebody's upgrade carries the mark of the revision before it.
        ([OLD, FAILED, revision(3, "deployed", mark="2")], Found(), State.OUT_OF_SYNC),
        ([OLD, revision(2, "failed", values="older"), revision(3, "deployed", mark="1")], Found(), State.OUT_OF_SYNC),
        ([OLD, FAILED, revision(3, "failed", mark="1")], Found(), State.FAILED),
        # Rollbacks that were cut short stand between the failure and the rollback that undid it.
        ([*CUT_SHORT, revision(4, "deployed", mark="1")], Found(), State.REMEDIATED),
        ([*CUT_SHORT, revision(4, "failed", mark="interrupted")], Found(), State.FAILED),
        ([*CUT_SHORT, revision(4, "failed", mark="1")], Found(), State.FAILED),
        ([*CUT_SHORT, revision(4, "deployed", mark="interrupted")], Found(), State.OUT_OF_SYNC),
        ([revision(1, "failed", mark="interrupted"), revision(2, "deployed", mark="")], Found(), State.OUT_OF_SYNC),
    ],
)
def test_a_state_follows_from_what_is_stored_and_found(history: list[Revision], found: Found, state: State) -> None:
    assert state_of(WANTED, history, found) == state


def test_only_failures_in_a_row_at_what_is_wanted_count() -> None:
    row = [OLD, revision(2, "failed", values="older"), revision(3, "failed"), revision(4, "failed")]
    assert failures(WANTED, row) == 2
    assert failures(WANTED, [*row, revision(5, "failed", mark="4")]) == 0
    assert failures(WANTED, [revision(1, "deployed"), revision(2, "deployed")]) == 0


def test_rollbacks_between_failures_do_not_count_and_do_not_end_the_row() -> None:
    row = [
        revision(1, "superseded", values="old"),
        revision(2, "failed"),
        revision(3, "superseded", mark="1", values="old"),
        revision(4, "failed"),
        revision(5, "deployed", mark="1", values="old"),
    ]
    assert failures(WANTED, row) == 2
    assert failures(WANTED, [*CUT_SHORT, revision(4, "deployed", mark="1", values="old")]) == 1


def test_first_installs_that_were_removed_count() -> None:
    assert failures(WANTED, [revision(1, "superseded"), revision(2, "superseded"), revision(3, "uninstalled")]) == 3
    assert failures(WANTED, [revision(1, "superseded"), revision(2, "failed")]) == 2


def test_what_worked_last_is_what_a_rollback_goes_to() -> None:
    assert last_good([OLD, FAILED]) == OLD
    assert last_good([FAILED]) is None
