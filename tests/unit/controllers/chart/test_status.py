"""What is shown of a release, from what was found."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from edgewright.controllers.chart import status as shown
from edgewright.controllers.chart.dependents import Health
from edgewright.controllers.chart.objects import ChartStatus
from edgewright.controllers.chart.releases import Stored

NOW = datetime(2026, 11, 17, tzinfo=UTC)
STORED = Stored(chart_name="shop", manifest="", notes="notes\n", description="")


def deployed(status: ChartStatus, health: Health, *, version: int = 1) -> ChartStatus:
    return shown.deployed(status, STORED, health, release="a", version=version, generation=1, now=NOW)


def types(status: ChartStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


@pytest.mark.parametrize(
    ("health", "state", "reason", "words"),
    [
        (Health(), "done", "ReleaseReady", "all its objects are ready"),
        (Health(missing=("A a",)), "retrying", "DependentsMissing", "A a missing"),
        (Health(unserved=("A a",)), "retrying", "KindNotServed", "A a: the kind is not served"),
        (Health(unready=("A a: late",)), "progressing", "DependentsNotReady", "A a: late"),
        (Health(unknown=True), "progressing", "Progressing", "looked at"),
        (Health(missing=tuple("abcdefg")), "retrying", "DependentsMissing", "a, b, c, d, e and 2 more missing"),
    ],
)
def test_the_objects_say_how_the_whole_is(health: Health, state: str, reason: str, words: str) -> None:
    found = shown.outcome(health, STORED)
    assert (found.state, found.reason) == (state, reason)
    assert words in found.message


def test_a_failure_goes_when_the_release_is_well_again() -> None:
    status = shown.failed(ChartStatus(), "InstallError", "no room", generation=1, now=NOW)
    assert types(status)["ReleaseFailed"] == ("True", "InstallError")
    status = shown.irreconcilable(status, "does not render", generation=1, now=NOW)
    assert "ReleaseFailed" not in types(status)
    assert types(status)["Ready"] == ("False", "ReconcileError")
    status = deployed(status, Health(), version=2)
    assert types(status) == {
        "Initialized": ("True", "Initialized"),
        "Ready": ("True", "ReleaseReady"),
        "Deployed": ("True", "UpgradeSuccessful"),
    }


def test_a_process_that_has_seen_nothing_yet_says_nothing_new() -> None:
    status = deployed(ChartStatus(), Health())
    assert deployed(status, Health(unknown=True)) == status


def test_waiting_does_not_hide_a_failure() -> None:
    status = shown.failed(ChartStatus(), "UpgradeError", "no room", generation=1, now=NOW)
    assert shown.waiting(status, "later", generation=1, now=NOW) == status
    assert types(shown.waiting(ChartStatus(), "later", generation=1, now=NOW))["Ready"] == ("False", "Waiting")
