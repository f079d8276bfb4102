"""A board that is not the one whose firmware the operator has recorded, and one that does not say what it is."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from edgewright.api.flash_pod import EXIT_CODES, INSPECTED_EXIT_CODE, NOTE_FOLDER_VARIABLE, Outcome, Role, Variable
from edgewright.api.protocols import Traits
from tests.unit.devices.flasher.fakes import AFTER, CERTIFICATE, DIGEST, Bench, FakeDriver, Telling

CURRENT = replace(AFTER, boots="1")
RESTARTED = replace(CURRENT, boots="2")
SAME = hashlib.sha256(CERTIFICATE).hexdigest()
OTHER = hashlib.sha256(b"another board's").hexdigest()
SAYS = "another board answers at this address"


def recorded(certificate: str) -> dict[str, str]:
    return {Variable.RECORDED_DIGEST: DIGEST, Variable.RECORDED_CERTIFICATE: certificate}


@pytest.mark.parametrize("certificate", [SAME, SAME.upper(), ""], ids=["the same", "in capitals", "none recorded"])
async def test_the_board_that_is_recorded_is_current(certificate: str) -> None:
    bench = Bench(driver=Telling(before=CURRENT))
    assert await bench.run(environment=recorded(certificate)) == 0
    assert bench.report.outcome is Outcome.ALREADY_CURRENT
    assert SAYS not in bench.report.message


async def test_another_board_at_the_address_does_not_inherit_the_recorded_digest() -> None:
    bench = Bench(driver=Telling(before=CURRENT, after=RESTARTED))
    assert await bench.run(environment=recorded(OTHER)) == 0
    report = bench.report
    assert (report.outcome, report.written, report.certificate) == (Outcome.SUCCEEDED, True, SAME)
    assert SAYS in report.message


async def test_a_board_that_shows_no_certificate_is_not_the_recorded_one_where_boards_show_one() -> None:
    bench = Bench(driver=Telling(before=replace(CURRENT, certificate=b""), after=RESTARTED))
    assert await bench.run(environment=recorded(SAME)) == 0
    assert bench.report.written
    assert SAYS in bench.report.message


async def test_where_boards_show_none_the_recorded_certificate_tells_nothing() -> None:
    bench = Bench(driver=FakeDriver(before=replace(CURRENT, certificate=b"")))
    assert await bench.run(environment=recorded(SAME)) == 0
    assert bench.report.outcome is Outcome.ALREADY_CURRENT


async def test_another_board_is_left_to_a_foreign_flasher_and_the_proof_says_so(tmp_path: Path) -> None:
    note = {NOTE_FOLDER_VARIABLE: str(tmp_path)}
    bench = Bench(driver=Telling(before=CURRENT))
    assert await bench.run(Role.INSPECT, {**recorded(SAME), **note}) == INSPECTED_EXIT_CODE
    bench = Bench(driver=Telling(before=CURRENT))
    assert await bench.run(Role.INSPECT, {**recorded(OTHER), **note}) == 0
    bench = Bench(driver=Telling(before=CURRENT, after=RESTARTED))
    assert await bench.run(Role.VERIFY, {**recorded(OTHER), **note}) == 0
    assert SAYS in bench.report.message


async def test_a_device_that_does_not_say_what_it_is_gets_nothing_where_every_device_says_it() -> None:
    bench = Bench(driver=Telling(before=replace(CURRENT, device="")))
    assert await bench.run() == EXIT_CODES[Outcome.INCOMPATIBLE]
    assert (bench.driver.done, bench.report.written) == (["inspect"], False)
    assert "the job is for esp32s3, and the device does not say what it is" in bench.report.message


async def test_a_driver_of_others_that_does_not_know_these_questions_is_used_as_before() -> None:
    class Old(Telling):
        traits: ClassVar[Traits] = Traits(protected=True)

    bench = Bench(driver=Old(before=replace(CURRENT, device="", certificate=b"")))
    assert await bench.run(environment=recorded(SAME)) == 0
    assert bench.report.outcome is Outcome.ALREADY_CURRENT
