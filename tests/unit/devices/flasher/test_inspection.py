"""The role inspect: whether a foreign flasher is let to a device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewright.api.flash_pod import INSPECTED_EXIT_CODE, NOTE_FOLDER_VARIABLE, Outcome, Role, Variable
from edgewright.devices.drivers.driver import Ended, Facts, Image
from edgewright.devices.flasher.inspection import NOTE, leave_note, read_note
from tests.unit.devices.flasher.fakes import AFTER, BEFORE, DIGEST, Bench, FakeDriver


async def test_the_other_flasher_runs_where_nothing_stands_in_its_way(tmp_path: Path) -> None:
    bench = Bench()
    assert await bench.run(Role.INSPECT, {NOTE_FOLDER_VARIABLE: str(tmp_path)}) == 0
    assert bench.saved == []
    assert read_note(tmp_path) == BEFORE
    assert "flash" not in bench.driver.done


@pytest.mark.parametrize(
    ("driver", "image", "outcome"),
    [
        pytest.param(FakeDriver(before=AFTER), None, Outcome.ALREADY_CURRENT, id="current"),
        pytest.param(
            FakeDriver(before=replace(BEFORE, device="esp32c3")), None, Outcome.INCOMPATIBLE, id="another-device"
        ),
        pytest.param(
            FakeDriver(before=Ended(Outcome.UNREACHABLE, "silent")), None, Outcome.UNREACHABLE, id="unreachable"
        ),
        pytest.param(
            FakeDriver(facts=Ended(Outcome.INCOMPATIBLE, "for esp32c3")), None, Outcome.INCOMPATIBLE, id="another-chip"
        ),
        pytest.param(FakeDriver(), Ended(Outcome.REFUSED, "unsigned"), Outcome.REFUSED, id="unsigned"),
    ],
)
async def test_the_pod_ends_where_there_is_nothing_to_flash(
    driver: FakeDriver, image: Ended | None, outcome: Outcome, tmp_path: Path
) -> None:
    bench = Bench(driver=driver, image=image or Image(content=b"x", digest=DIGEST))
    code = await bench.run(Role.INSPECT, {Variable.RECORDED_DIGEST: DIGEST, NOTE_FOLDER_VARIABLE: str(tmp_path)})
    assert (code, bench.report.outcome, bench.report.written) == (INSPECTED_EXIT_CODE, outcome, False)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CORRUPT])
async def test_firmware_that_only_the_other_flasher_understands_is_left_to_it(outcome: Outcome, tmp_path: Path) -> None:
    bench = Bench(driver=FakeDriver(facts=Ended(outcome, "no ESP image")))
    assert await bench.run(Role.INSPECT, {NOTE_FOLDER_VARIABLE: str(tmp_path)}) == 0
    assert any("left to the other flasher: no ESP image" in line for line in bench.said)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CORRUPT])
async def test_where_a_signature_is_asked_for_the_other_flasher_never_runs_on_firmware_that_was_not_pulled(
    outcome: Outcome, tmp_path: Path
) -> None:
    bench = Bench(image=Ended(outcome, "the registry did not give the signature"))
    signed = {Variable.VERIFY_SIGNATURE: "true", NOTE_FOLDER_VARIABLE: str(tmp_path)}
    assert await bench.run(Role.INSPECT, signed) == INSPECTED_EXIT_CODE
    assert bench.report.outcome is outcome


async def test_signed_firmware_that_only_the_other_flasher_understands_is_left_to_it(tmp_path: Path) -> None:
    bench = Bench(driver=FakeDriver(facts=Ended(Outcome.CORRUPT, "no ESP image")))
    signed = {Variable.VERIFY_SIGNATURE: "true", NOTE_FOLDER_VARIABLE: str(tmp_path)}
    assert await bench.run(Role.INSPECT, signed) == 0


async def test_a_stop_ends_the_inspection_so_that_nothing_else_runs(tmp_path: Path) -> None:
    bench = Bench(image=None)
    task = bench.start(Role.INSPECT, {NOTE_FOLDER_VARIABLE: str(tmp_path)})
    await bench.until("inspect")
    bench.stop.ask()
    assert await task == INSPECTED_EXIT_CODE
    assert bench.report.outcome is Outcome.CANCELLED


async def test_a_strict_job_is_refused_before_the_other_flasher_runs(tmp_path: Path) -> None:
    bench = Bench(driver=FakeDriver(facts=Facts(version="0.4.1")))
    strict = {Variable.VERSION_POLICY: "Strict", NOTE_FOLDER_VARIABLE: str(tmp_path)}
    assert await bench.run(Role.INSPECT, strict) == INSPECTED_EXIT_CODE
    assert bench.report.outcome is Outcome.REFUSED


def test_a_note_that_cannot_be_left_or_read_is_none(tmp_path: Path) -> None:
    leave_note(tmp_path / "missing", BEFORE)
    assert read_note(tmp_path / "missing") is None
    (tmp_path / NOTE).write_text("no JSON")
    assert read_note(tmp_path) is None
