"""A device that somebody else has flashed just before, inspected ahead of a foreign flasher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from edgewright.api.flash_pod import INSPECTED_EXIT_CODE, NOTE_FOLDER_VARIABLE, Outcome, Role, Variable
from edgewright.api.protocols import Leaving, Traits
from edgewright.devices.drivers.driver import Ended, Identity
from tests.unit.devices.flasher.fakes import AFTER, BEFORE, Bench, FakeDriver, forever


async def test_a_device_that_runs_what_is_wanted_is_done_and_the_other_flasher_is_kept_from_it(tmp_path: Path) -> None:
    bench = Bench(driver=FakeDriver(before=AFTER))
    environment = {Variable.CHECK: "true", NOTE_FOLDER_VARIABLE: str(tmp_path)}
    assert await bench.check(Role.INSPECT, environment) == INSPECTED_EXIT_CODE
    assert (bench.report.outcome, bench.report.written) == (Outcome.SUCCEEDED, False)
    assert "checked, and not written by this run" in bench.report.message


@pytest.mark.parametrize(
    ("version", "environment"),
    [("0.1.0", {Variable.CHECK: "true"}), ("0.2.0", {}), ("0.2.0", {Variable.CHECK: "true", Variable.FORCE: "true"})],
    ids=["another version", "not to be checked", "forced"],
)
async def test_any_other_device_is_left_to_the_other_flasher(
    version: str, environment: dict[str, str], tmp_path: Path
) -> None:
    bench = Bench(driver=FakeDriver(before=replace(BEFORE, version=version)))
    assert await bench.run(Role.INSPECT, {**environment, NOTE_FOLDER_VARIABLE: str(tmp_path)}) == 0
    assert bench.saved == []


@pytest.mark.parametrize(
    "then",
    [replace(AFTER, version="0.1.0"), replace(AFTER, boots="3"), Ended(Outcome.UNREACHABLE, "it does not answer")],
    ids=["it goes back", "it restarts", "it goes away"],
)
async def test_what_others_flashed_counts_only_if_it_stays(then: Identity | Ended, tmp_path: Path) -> None:
    note = {Variable.CHECK: "true", NOTE_FOLDER_VARIABLE: str(tmp_path)}
    bench = Bench(driver=FakeDriver(before=AFTER, last=then))
    assert await bench.check(Role.INSPECT, note) == 0
    assert any("does not stay" in line for line in bench.said)
    bench = Bench(driver=FakeDriver(before=AFTER, last=then, after=replace(AFTER, boots="4")))
    assert await bench.check(Role.CHECK) == 0
    assert bench.report.written


class Watchful(FakeDriver):
    """A driver that sees the device go away, where it does."""

    traits: ClassVar[Traits] = Traits(protected=True, leaving=Leaving.WATCHED)
    leaves: ClassVar[bool] = True

    async def until_it_leaves(self, endpoint: str, device: Identity) -> None:
        self.done.append("watch")
        if not self.leaves:
            await forever()


class Steadfast(Watchful):
    """Its device stays."""

    leaves: ClassVar[bool] = False


async def test_a_driver_that_can_watch_is_believed_that_the_device_went_away() -> None:
    bench = Bench(driver=Watchful(before=AFTER, after=replace(AFTER, boots="4")))
    assert await bench.check(Role.CHECK) == 0
    assert any("does not stay: it went away" in line for line in bench.said)
    assert bench.report.written


async def test_a_device_that_is_watched_for_long_enough_stays() -> None:
    driver = Steadfast(before=AFTER)
    bench = Bench(driver=driver)
    assert await bench.check(Role.CHECK) == 0
    assert (bench.report.outcome, bench.report.written) == (Outcome.SUCCEEDED, False)
    assert driver.done.count("inspect") == 1
