"""The role verify: what is proven next to a foreign flasher, whatever that one says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from edgewright.api.flash_pod import EXIT_CODES, NOTE_FOLDER_VARIABLE, Outcome, Role
from edgewright.devices.drivers.driver import NOTHING, Ended, Facts, Handover, Identity, Surroundings
from edgewright.devices.flasher.inspection import leave_note
from edgewright.devices.flasher.verification import SETTLING
from edgewright.runtime.clock import settle
from tests.unit.devices.flasher.fakes import AFTER, BEFORE, Bench, FakeDriver, forever

SILENT = Ended(Outcome.UNREACHABLE, "192.0.2.7 does not answer")


@dataclass
class Scripted(FakeDriver):
    """A driver that gives one answer after the other; at None, and when there are no more, its device stays away."""

    inspections: list[Identity | Ended] = field(default_factory=lambda: [BEFORE])
    verifications: list[Identity | Ended | None] = field(default_factory=list)

    async def inspect(self, endpoint: str) -> Identity:
        self.done.append("inspect")
        return await _next(self.inspections)

    async def verify(
        self,
        endpoint: str,
        before: Identity,
        wanted: str,
        facts: Facts,
        around: Surroundings,
        *,
        handover: Handover = NOTHING,
    ) -> Identity:
        self.done.append("verify")
        answer = self.verifications.pop(0) if self.verifications else None
        if answer is None:
            await forever()
        return await _next([answer] if answer is not None else [])


async def _next(answers: list[Identity | Ended]) -> Identity:
    answer = answers.pop(0) if answers else SILENT
    if isinstance(answer, Ended):
        raise answer
    return answer


@pytest.fixture
def note(tmp_path: Path) -> dict[str, str]:
    return {NOTE_FOLDER_VARIABLE: str(tmp_path)}


async def test_a_device_that_comes_back_with_the_wanted_version_is_proven(note: dict[str, str]) -> None:
    bench = Bench(driver=Scripted(verifications=[AFTER]))
    assert await bench.run(Role.VERIFY, note) == 0
    assert (bench.report.outcome, bench.report.rebooted) == (Outcome.SUCCEEDED, True)
    assert (bench.report.version_before, bench.report.version_after) == ("0.1.0", "0.2.0")
    assert "flash" not in bench.driver.done


async def test_it_waits_through_restarts_and_silence_until_the_version_is_there(note: dict[str, str]) -> None:
    driver = Scripted(inspections=[SILENT, BEFORE], verifications=[SILENT, replace(BEFORE, boots="2"), AFTER])
    bench = Bench(driver=driver)
    task = bench.start(Role.VERIFY, note)
    for _ in range(5):
        await bench.clock.advance(0.5)
    assert await task == 0
    assert bench.driver.done.count("verify") == 3


async def test_what_the_inspecting_container_saw_is_what_was_before(tmp_path: Path, note: dict[str, str]) -> None:
    leave_note(tmp_path, BEFORE)
    bench = Bench(driver=Scripted(inspections=[AFTER], verifications=[AFTER]))
    assert await bench.run(Role.VERIFY, note) == 0
    assert bench.report.version_before == "0.1.0"
    assert "inspect" not in bench.driver.done


async def test_the_image_decides_what_is_waited_for(note: dict[str, str]) -> None:
    driver = Scripted(facts=Facts(version="0.4.1"), verifications=[AFTER, replace(AFTER, version="0.4.1")])
    bench = Bench(driver=driver)
    task = bench.start(Role.VERIFY, note)
    await bench.clock.advance(1)
    assert await task == 0
    assert bench.report.version_after == "0.4.1"


async def test_the_jobs_version_is_waited_for_where_the_firmware_cannot_be_looked_at(note: dict[str, str]) -> None:
    bench = Bench(driver=Scripted(verifications=[AFTER]), image=Ended(Outcome.FAILED, "no such image"))
    assert await bench.run(Role.VERIFY, note) == 0
    assert any("0.2.0 is waited for" in line for line in bench.said)


@pytest.mark.parametrize(
    ("inspections", "verifications", "outcome", "says"),
    [
        pytest.param([BEFORE, BEFORE], [], Outcome.TIMED_OUT, "goes on with 0.1.0", id="nothing-happened"),
        pytest.param([BEFORE, AFTER], [None, AFTER], Outcome.SUCCEEDED, "reports 0.2.0", id="there-at-the-last-moment"),
        pytest.param([BEFORE, AFTER], [None], Outcome.TIMED_OUT, "once, and not steadily", id="there-for-a-moment"),
        pytest.param(
            [BEFORE, AFTER],
            [None, replace(BEFORE, boots="3")],
            Outcome.REVERTED,
            "runs 0.1.0 again",
            id="there-for-a-moment-and-back",
        ),
        pytest.param([BEFORE], [], Outcome.TIMED_OUT, "does not answer", id="gone"),
        pytest.param([], [], Outcome.UNREACHABLE, "never answered", id="never-there"),
        pytest.param(
            [BEFORE, replace(BEFORE, boots="3")], [], Outcome.REVERTED, "runs 0.1.0 again", id="restarted-with-the-old"
        ),
        pytest.param(
            [BEFORE, BEFORE],
            [Ended(Outcome.REVERTED, "it went back")],
            Outcome.REVERTED,
            "goes on with 0.1.0",
            id="the-driver-saw-it-go-back",
        ),
        pytest.param(
            [BEFORE, replace(BEFORE, version="9")],
            [Ended(Outcome.REVERTED, "it went back")],
            Outcome.TIMED_OUT,
            "reports 9",
            id="went-back-and-then-on",
        ),
    ],
)
async def test_when_the_time_is_up_the_device_is_asked_a_last_time(
    inspections: list[Identity | Ended],
    verifications: list[Identity | Ended | None],
    outcome: Outcome,
    says: str,
    note: dict[str, str],
) -> None:
    bench = Bench(driver=Scripted(inspections=list(inspections), verifications=list(verifications)))
    task = bench.start(Role.VERIFY, note)
    await bench.clock.advance(60)
    await bench.clock.advance(SETTLING)
    assert await task == EXIT_CODES[outcome]
    assert (bench.report.outcome, says in bench.report.message) == (outcome, True), bench.report.message


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        pytest.param(AFTER, Outcome.SUCCEEDED, id="proven"),
        pytest.param(BEFORE, Outcome.FAILED, id="not-proven"),
        pytest.param(SILENT, Outcome.FAILED, id="silent"),
    ],
)
async def test_a_stop_asks_the_device_a_last_time_and_only_proof_is_success(
    last: Identity | Ended, outcome: Outcome, note: dict[str, str]
) -> None:
    verifications: list[Identity | Ended | None] = [None, last]
    bench = Bench(driver=Scripted(inspections=[BEFORE, last], verifications=verifications))
    task = bench.start(Role.VERIFY, note)
    await bench.until("verify")
    bench.stop.ask()
    bench.stop.ask()
    assert await task == EXIT_CODES[outcome]
    assert (bench.report.outcome, bench.report.written) == (outcome, True)


async def test_a_foreign_flasher_that_did_nothing_on_a_device_with_the_wanted_version_proves_nothing(
    note: dict[str, str],
) -> None:
    bench = Bench(driver=Scripted(inspections=[replace(BEFORE, version="0.2.0")] * 2))
    task = bench.start(Role.VERIFY, note)
    await settle()
    await bench.clock.advance(60)
    assert await task == EXIT_CODES[Outcome.TIMED_OUT]
    assert "nothing is proven" in bench.report.message
