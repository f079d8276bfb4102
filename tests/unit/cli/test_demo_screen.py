"""What the demo shows and claims: its tables and sentences, and that each claim fails where it is not so."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console, RenderableType

from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState, FlashedDevice, FlashJob, FlashJobPhase, FlashJobStatus
from edgewright.cli.demo_screen import (
    DROPPING,
    REFUSED,
    REVERTED,
    Check,
    Row,
    Seen,
    by_device,
    checks_text,
    claims,
    live_table,
    news,
    proof_table,
)
from edgewright.runtime.objects import Key

ROWS = [Row(number=number, endpoint=f"127.32.0.{number}", name=f"d-{number}") for number in range(1, 13)]


def text_of(*shown: RenderableType) -> str:
    said = io.StringIO()
    Console(file=said, width=120, highlight=False).print(*shown)
    return said.getvalue()


def device(number: int, **fields: object) -> FlashedDevice:
    return FlashedDevice(device=f"d-{number}", **fields)  # type: ignore[arg-type]  # as each test needs them


def job(*devices: FlashedDevice, phase: str = "") -> FlashJob:
    return FlashJob(status=FlashJobStatus(devices=devices, phase=phase))


def ended(outcomes: Mapping[int, Outcome]) -> FlashJob:
    return job(
        *(
            device(
                row.number,
                outcome=(outcome := outcomes.get(row.number, Outcome.SUCCEEDED)).value,
                state=DeviceState.DONE if outcome.good else DeviceState.FAILED,
                attempts=2 if row.number == DROPPING else 1,
            )
            for row in ROWS
        ),
        phase=FlashJobPhase.FAILED,
    )


AS_PLANNED = {REFUSED: Outcome.REFUSED, REVERTED: Outcome.REVERTED}
ANSWERS = {row.number: "1" if row.number in AS_PLANNED else "2" for row in ROWS}
WRITTEN = {row.number: 0 if row.number == REFUSED else 1 for row in ROWS}


def failing(job: FlashJob, seen: Seen) -> list[int]:
    """Which of the claims do not hold, by their place."""
    return [place for place, check in enumerate(claims(ROWS, job, seen, old="1", new="2")) if not check.holds]


def test_all_claims_hold_where_all_went_as_planned() -> None:
    assert failing(ended(AS_PLANNED), Seen(answers=ANSWERS, written=WRITTEN)) == []


@pytest.mark.parametrize(
    ("outcomes", "answers", "written", "left", "fails"),
    [
        ({1: Outcome.FAILED}, {}, {}, (), [0, 5]),
        ({}, {1: "1"}, {}, (), [0]),
        ({}, {}, {1: 2}, (), [1]),
        ({DROPPING: Outcome.FAILED}, {}, {}, (), [0, 2, 5]),
        ({REFUSED: Outcome.SUCCEEDED}, {}, {}, (), [0, 3, 5]),
        ({}, {REFUSED: "2"}, {}, (), [3]),
        ({}, {}, {REFUSED: 1}, (), [3]),
        ({REVERTED: Outcome.SUCCEEDED}, {REVERTED: "2"}, {}, (), [0, 4, 5]),
        ({}, {REVERTED: "2"}, {}, (), [4]),
        ({}, {}, {}, (Key("default", "demo-service-1"),), [5]),
    ],
    ids=[
        "one failed",
        "one lies",
        "one written twice",
        "the dropping one failed",
        "the refused one done",
        "the refused one runs the new",
        "the refused one written",
        "the reverting one done",
        "the reverting one runs the new",
        "a Service is left",
    ],
)
def test_a_claim_fails_where_it_is_not_so(
    outcomes: dict[int, Outcome],
    answers: dict[int, str],
    written: dict[int, int],
    left: Sequence[Key],
    fails: list[int],
) -> None:
    seen = Seen(answers=ANSWERS | answers, written=WRITTEN | written, left=left)
    assert failing(ended(AS_PLANNED | outcomes), seen) == fails


def test_a_second_attempt_and_the_phase_are_claimed_too() -> None:
    first = job(*(device(row.number, state=DeviceState.DONE, attempts=1) for row in ROWS), phase="Completed")
    assert {2, 5} <= set(failing(first, Seen(answers=ANSWERS, written=WRITTEN)))


def test_a_claim_that_does_not_hold_says_what_was_found() -> None:
    good, bad = checks_text([Check(claim="a [b]", holds=True), Check(claim="c", holds=False, found="d [e]")])
    assert text_of(good).strip() == "✓ a [b]"
    assert text_of(bad).strip() == "✗ c (found: d [e])"


def test_only_what_has_changed_is_news() -> None:
    before = job(device(1, state="Waiting", message="waits"), device(2, state="Waiting", message="waits"))
    now = job(device(1, state="Waiting", message="waits"), device(2, state="Flashing", message="is being flashed"))
    assert [line.split()[:2] for line in news(ROWS, None, before)] == [["device", "1"], ["device", "2"]]
    assert news(ROWS, before, now) == ["  device  2 127.32.0.2     Flashing is being flashed"]
    assert news(ROWS, now, now) == []


def test_the_live_table_has_a_line_a_device_from_the_beginning() -> None:
    assert text_of(live_table(ROWS, None)).count("Waiting") == len(ROWS)
    shown = text_of(live_table(ROWS, job(device(3, state="Failed", attempts=2, message="[refused]"))))
    (line,) = (line for line in shown.splitlines() if "127.32.0.3 " in line)
    assert line.split() == ["3", "127.32.0.3", "Failed", "2", "[refused]"]


def test_the_proof_says_why_only_where_something_was_wrong() -> None:
    rows = [*ROWS[:1], Row(number=2, endpoint="127.32.0.2", name="d-2", fault="slow"), *ROWS[2:4]]
    devices = (
        device(1, state="Done", outcome="succeeded", attempts=1, message="well"),
        device(2, state="Done", outcome="succeeded", attempts=1, message="slowly"),
        device(3, state="Failed", outcome="refused", attempts=1, message="no"),
    )
    lines = [line.split() for line in text_of(proof_table(rows, job(*devices), {1: "2", 2: "2", 3: "1"})).splitlines()]
    assert lines[1:] == [
        ["1", "succeeded", "1", "2"],
        ["2", "succeeded", "1", "2", "slowly"],
        ["3", "refused", "1", "1", "no"],
        ["4", "-", "0", "no", "answer"],
    ]


def test_devices_that_nobody_has_discovered_have_no_line() -> None:
    assert by_device(job(FlashedDevice(uuid="unknown"))) == {}
