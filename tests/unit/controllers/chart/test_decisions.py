"""What is done about a release, from what is wanted and what is stored."""

from __future__ import annotations

import pytest

from edgewright.controllers.chart.decisions import (
    FIRST_RETRY,
    FOREIGN_PATIENCE,
    MAX_RETRY,
    Install,
    Purge,
    Settled,
    Step,
    Unlock,
    Upgrade,
    Wait,
    Wanted,
    decide,
    failures,
    retry_after,
)
from edgewright.controllers.chart.releases import REVISION_LABEL, Revision
from edgewright.runtime.objects import ObjectMeta

WANTED = Wanted("chart", "values")
NOW = 1000.0


def revision(version: int, status: str, *, ours: bool = True, chart: str = "chart", values: str = "values") -> Revision:
    labels = {REVISION_LABEL: str(version)} if ours else {}
    metadata = ObjectMeta(labels=labels)
    return Revision(version=version, status=status, chart=chart, values=values, modified=NOW, metadata=metadata)


DEPLOYED = revision(1, "deployed")
PENDING = revision(2, "pending-upgrade")
FOREIGN = revision(2, "pending-upgrade", ours=False)


@pytest.mark.parametrize(
    ("history", "now", "step"),
    [
        ([], NOW, Install()),
        ([DEPLOYED], NOW, Settled(DEPLOYED)),
        ([revision(1, "deployed", values="old")], NOW, Upgrade(2, "the values changed")),
        ([revision(1, "deployed", chart="old")], NOW, Upgrade(2, "the chart changed")),
        ([revision(7, "deployed", ours=False)], NOW, Upgrade(8, "the last revision was made by somebody else")),
        ([DEPLOYED, PENDING], NOW, Unlock(PENDING)),
        ([DEPLOYED, FOREIGN], NOW + 10, Wait(FOREIGN_PATIENCE - 10, "another Helm action is pending-upgrade")),
        ([DEPLOYED, FOREIGN], NOW + FOREIGN_PATIENCE, Unlock(FOREIGN)),
        ([revision(1, "uninstalling")], NOW, Purge()),
        ([revision(1, "uninstalled")], NOW, Purge()),
        ([revision(1, "failed")], NOW + 1, Wait(FIRST_RETRY - 1, "the release failed and is tried again")),
        ([revision(1, "failed")], NOW + FIRST_RETRY, Upgrade(2, "the last attempt failed")),
        ([revision(1, "failed", values="old")], NOW, Upgrade(2, "the values changed")),
        ([revision(1, "failed", ours=False)], NOW, Upgrade(2, "the last revision was made by somebody else")),
        ([revision(1, "superseded")], NOW, Upgrade(2, "the last revision is superseded")),
    ],
)
def test_a_step_follows_from_what_is_stored(history: list[Revision], now: float, step: Step) -> None:
    assert decide(WANTED, history, now=now) == step


def test_a_clock_that_is_behind_makes_nobody_wait_for_ever() -> None:
    step = decide(WANTED, [revision(1, "failed")], now=0.0)
    assert isinstance(step, Wait)
    assert step.seconds == MAX_RETRY


def test_only_failures_in_a_row_at_what_is_wanted_count() -> None:
    row = [DEPLOYED, revision(2, "failed", values="old"), revision(3, "failed"), revision(4, "failed")]
    assert failures(WANTED, row) == 2
    assert failures(WANTED, [*row, revision(5, "failed", ours=False)]) == 0


def test_the_wait_doubles_up_to_a_limit() -> None:
    assert [retry_after(each) for each in (0, 1, 2, 3, 20)] == [0.0, 10.0, 20.0, 40.0, MAX_RETRY]
