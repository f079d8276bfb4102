"""What is done about a release, from where it stands and how it is to be looked after."""

from __future__ import annotations

import pytest

from edgewright.controllers.chart.decisions import (
    FIRST_RETRY,
    FOREIGN_LOOK,
    FOREIGN_PATIENCE,
    MAX_RETRY,
    Adopt,
    Hold,
    Install,
    Purge,
    Retract,
    Rollback,
    Settled,
    Step,
    Unlock,
    Upgrade,
    Wait,
    decide,
    retry_after,
)
from edgewright.controllers.chart.policy import Policy
from edgewright.controllers.chart.releases import REVISION_LABEL, Revision
from edgewright.controllers.chart.states import Wanted
from edgewright.runtime.objects import ObjectMeta

WANTED = Wanted("chart", "values")
NOW = 1000.0
RETRY = Policy(on_failed_install="retry", on_failed_upgrade="retry")


def revision(
    version: int, status: str, *, mark: str | None = None, chart: str = "chart", values: str = "values"
) -> Revision:
    metadata = ObjectMeta(labels={REVISION_LABEL: str(version) if mark is None else mark})
    return Revision(version=version, status=status, chart=chart, values=values, modified=NOW, metadata=metadata)


DEPLOYED = revision(1, "deployed")
OLD = revision(1, "deployed", values="old")
PENDING = revision(2, "pending-upgrade")
FOREIGN = revision(2, "pending-upgrade", mark="")
FAILED = revision(2, "failed")
BACK = [revision(1, "superseded", values="old"), FAILED, revision(3, "deployed", mark="1", values="old")]
CUT_SHORT = [OLD, FAILED, revision(3, "failed", mark="interrupted")]
ONCE = "the release failed once and is tried again"


@pytest.mark.parametrize(
    ("history", "now", "step"),
    [
        ([], NOW, Install()),
        ([DEPLOYED], NOW, Settled(DEPLOYED)),
        ([OLD], NOW, Upgrade(2, "the values changed")),
        ([revision(1, "deployed", chart="old")], NOW, Upgrade(2, "the chart changed")),
        ([revision(7, "deployed", mark="")], NOW, Upgrade(8, "the last revision was made by somebody else")),
        ([DEPLOYED, PENDING], NOW, Unlock(PENDING)),
        ([DEPLOYED, FOREIGN], NOW + 10, Wait(FOREIGN_LOOK, "another Helm action is pending-upgrade")),
        ([DEPLOYED, FOREIGN], NOW + FOREIGN_PATIENCE - 1, Wait(1, "another Helm action is pending-upgrade")),
        ([DEPLOYED, FOREIGN], NOW + FOREIGN_PATIENCE, Unlock(FOREIGN)),
        ([revision(1, "failed", mark="interrupted")], NOW, Upgrade(2, "the last action was cut short")),
        ([revision(1, "uninstalling")], NOW, Purge()),
        ([revision(1, "failed", values="old")], NOW, Upgrade(2, "the values changed")),
        ([revision(1, "failed", mark="")], NOW, Upgrade(2, "the last revision was made by somebody else")),
        ([revision(1, "superseded")], NOW, Upgrade(2, "the last revision is superseded")),
        # A first install that failed is removed, remembered, and tried again over what is remembered.
        ([revision(1, "failed")], NOW, Retract()),
        ([revision(1, "uninstalled")], NOW + 1, Wait(FIRST_RETRY - 1, ONCE)),
        ([revision(1, "uninstalled")], NOW + FIRST_RETRY, Install(2)),
        ([revision(1, "uninstalled", values="old")], NOW, Install(2)),
        # An upgrade that failed is rolled back, remembered, and tried again.
        ([OLD, FAILED], NOW, Rollback(1)),
        (BACK, NOW + 1, Wait(FIRST_RETRY - 1, ONCE)),
        (BACK, NOW + FIRST_RETRY, Upgrade(4, "the last attempt failed")),
        # A rollback that was cut short is done again; one that failed waits for the next attempt.
        (CUT_SHORT, NOW, Rollback(1)),
        (
            [*CUT_SHORT, revision(4, "pending-rollback", mark="1")],
            NOW,
            Unlock(revision(4, "pending-rollback", mark="1")),
        ),
        ([*CUT_SHORT, revision(4, "failed", mark="interrupted")], NOW, Rollback(1)),
        ([*CUT_SHORT, revision(4, "deployed", mark="1", values="old")], NOW + 1, Wait(FIRST_RETRY - 1, ONCE)),
        ([OLD, FAILED, revision(3, "failed", mark="1")], NOW + 1, Wait(FIRST_RETRY - 1, ONCE)),
        (
            [OLD, FAILED, revision(3, "pending-rollback", mark="1")],
            NOW,
            Unlock(revision(3, "pending-rollback", mark="1")),
        ),
    ],
)
def test_a_step_follows_from_what_is_stored(history: list[Revision], now: float, step: Step) -> None:
    assert decide(WANTED, history, now=now) == step


@pytest.mark.parametrize(
    ("history", "policy", "step"),
    [
        ([revision(1, "failed")], RETRY, Wait(FIRST_RETRY, ONCE)),
        ([OLD, FAILED], RETRY, Wait(FIRST_RETRY, ONCE)),
        (BACK, Policy(retries=0), Hold(1)),
        (BACK, Policy(retries=1), Wait(FIRST_RETRY, ONCE)),
        ([OLD, FAILED], Policy(retries=0), Rollback(1)),
    ],
)
def test_a_policy_says_what_follows_a_failure(history: list[Revision], policy: Policy, step: Step) -> None:
    assert decide(WANTED, history, now=NOW, policy=policy) == step


def test_who_asks_for_another_attempt_gets_it_at_once() -> None:
    assert decide(WANTED, BACK, now=NOW, policy=Policy(retries=0), requested=True) == Upgrade(
        4, "the last attempt failed"
    )
    assert decide(WANTED, [DEPLOYED], now=NOW, requested=True) == Settled(DEPLOYED)


def test_objects_without_a_release_are_adopted() -> None:
    assert decide(WANTED, [], now=NOW, marked=True) == Adopt()


def test_a_clock_that_is_behind_makes_nobody_wait_for_ever() -> None:
    step = decide(WANTED, [revision(1, "uninstalled")], now=0.0)
    assert isinstance(step, Wait)
    assert step.seconds == MAX_RETRY


def test_the_wait_doubles_up_to_a_limit() -> None:
    assert [retry_after(each) for each in (0, 1, 2, 3, 20)] == [0.0, 10.0, 20.0, 40.0, MAX_RETRY]
