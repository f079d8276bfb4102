"""What the demo shows and claims: its table and sentences, and that each claim fails where it is not so."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from edgewright.api.device import Device, DeviceStatus, FlashRecord, LastFlash
from edgewright.api.firmwarerollout import FirmwareRollout, FirmwareRolloutStatus, RolloutPhase
from edgewright.api.flash_pod import Outcome
from edgewright.cli.demo_screen import (
    BAD,
    CANARIES,
    CRASHING,
    DROPPING,
    NEW,
    OLD,
    REFUSED,
    SITES,
    Check,
    Row,
    Seen,
    checks_text,
    claims,
    most_at_once,
    proof_table,
)
from edgewright.devices.simulated.journal import Did, Entry
from edgewright.runtime.objects import Key

ROWS = [Row(number=number, endpoint=f"127.32.0.{number}", name=f"d-{number}") for number in range(1, 13)]
ALL, FIRST, BUDGET, RETRIED, WHY, STOPPED, RECALLED, NOTHING = range(8)


def text_of(*shown: RenderableType) -> str:
    said = io.StringIO()
    Console(file=said, width=120, highlight=False).print(*shown)
    return said.getvalue()


def flash(at: float, version: str, *, did: Did = Did.REBOOTED) -> tuple[Entry, ...]:
    """One update of a device, which takes a second."""
    return (
        Entry(at=at, did=Did.ASKED),
        Entry(at=at + 0.5, did=Did.WRITTEN, version=version),
        Entry(at=at + 1, did=did),
    )


def journal(number: int) -> tuple[Entry, ...]:
    """What a device did where all goes as planned: the devices of a site come one after the other."""
    if number == REFUSED:
        return (Entry(at=30, did=Did.ASKED), Entry(at=31, did=Did.TURNED_AWAY))
    if number not in CANARIES:
        return flash(10 + 2 * number, NEW)
    if number == CRASHING:
        return (*flash(0, NEW), *flash(50, BAD), Entry(at=55, did=Did.REVERTED))
    return (*flash(0, NEW), *flash(50, BAD), *flash(60, NEW))


def device(outcome: Outcome = Outcome.SUCCEEDED, *, attempts: int = 1) -> Device:
    status = DeviceStatus(last_flash=LastFlash(outcome=outcome), records=(FlashRecord(attempts=attempts),))
    return Device(status=status)


def rollout(phase: RolloutPhase) -> FirmwareRollout:
    return FirmwareRollout(status=FirmwareRolloutStatus(phase=phase))


AS_PLANNED = Seen(
    answers={row.number: OLD if row.number == REFUSED else NEW for row in ROWS},
    journals={row.number: journal(row.number) for row in ROWS},
    devices={
        row.number: device(Outcome.REFUSED if row.number == REFUSED else Outcome.SUCCEEDED)
        if row.number != DROPPING
        else device(attempts=2)
        for row in ROWS
    },
    good=rollout(RolloutPhase.COMPLETED),
    bad=rollout(RolloutPhase.RECALLED),
    recall=rollout(RolloutPhase.COMPLETED),
    why="the attestation service does not recognise it",
)


def failing(seen: Seen) -> list[int]:
    """Which of the claims do not hold, by their place."""
    return [place for place, check in enumerate(claims(ROWS, seen)) if not check.holds]


def test_all_claims_hold_where_all_went_as_planned() -> None:
    assert failing(AS_PLANNED) == []
    assert len(claims(ROWS, AS_PLANNED)) == 8


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({"answers": {2: OLD}}, [ALL]),
        ({"good": rollout(RolloutPhase.FAILED)}, [ALL]),
        ({"journals": {2: flash(0.5, NEW)}}, [FIRST]),
        ({"journals": {number: flash(20, NEW) for number in (9, 10, 11)}}, [BUDGET]),
        ({"journals": dict.fromkeys((9, 10, 11, 12), ())}, [BUDGET]),
        ({"devices": {DROPPING: device()}}, [RETRIED]),
        ({"journals": {DROPPING: (*flash(24, NEW), *flash(26, NEW))}}, [RETRIED]),
        ({"why": "nobody knows"}, [WHY]),
        ({"answers": {REFUSED: NEW}}, [WHY]),
        ({"journals": {REFUSED: flash(30, NEW)}}, [WHY]),
        ({"devices": {REFUSED: device()}}, [WHY]),
        ({"bad": rollout(RolloutPhase.PAUSED)}, [STOPPED]),
        ({"journals": {9: (*flash(28, NEW), *flash(70, BAD))}}, [STOPPED]),
        ({"journals": {CRASHING: (*flash(0, NEW), *flash(50, BAD))}}, [STOPPED]),
        ({"journals": {1: (*flash(0, NEW), *flash(50, BAD))}}, [RECALLED]),
        ({"recall": rollout(RolloutPhase.FAILED)}, [RECALLED]),
        ({"left": (Key("default", "demo-service-1"),)}, [NOTHING]),
    ],
)
def test_a_claim_fails_where_it_is_not_so(changed: dict[str, object], fails: list[int]) -> None:
    whole = {
        name: {**getattr(AS_PLANNED, name), **value} if isinstance(value, dict) else value
        for name, value in changed.items()
    }
    assert failing(replace(AS_PLANNED, **whole)) == fails  # type: ignore[arg-type]  # as each case has them


@pytest.mark.parametrize(
    ("spans", "most"),
    [
        ([], 0),
        ([[(0.0, 1.0)]], 1),
        ([[(0.0, 1.0)], [(1.0, 2.0)]], 1),
        ([[(0.0, 2.0)], [(1.0, 3.0)], [(1.5, 1.7)]], 3),
        ([[(0.0, 1.0), (2.0, 3.0)], [(0.5, 2.5)]], 2),
    ],
)
def test_spans_that_overlap_are_counted(spans: list[list[tuple[float, float]]], most: int) -> None:
    assert most_at_once(spans) == most


def test_the_table_tells_what_each_device_says_and_what_was_written_to_it() -> None:
    lines = text_of(proof_table(ROWS, AS_PLANNED)).splitlines()
    assert lines[0].split() == ["device", "site", "says", "it", "runs", "was", "written", "last", "outcome"]
    assert lines[1].split() == ["1", SITES[0], NEW, f"{NEW},", f"{BAD},", NEW, "succeeded"]
    assert lines[REFUSED].split() == [str(REFUSED), SITES[0], OLD, "never", "refused"]
    assert lines[12].split()[:2] == ["12", SITES[2]]


def test_a_device_of_which_nothing_is_known_is_shown_all_the_same() -> None:
    seen = replace(AS_PLANNED, answers={}, devices={})
    assert text_of(proof_table(ROWS, seen)).splitlines()[1].split()[2:4] == ["no", "answer"]


def test_claims_have_a_mark_and_one_that_fails_says_what_was_found() -> None:
    checks = [Check(claim="it flies", holds=True), Check(claim="it [sings]", holds=False, found="silence")]
    assert text_of(*checks_text(checks)).split("✗")[0].strip() == "✓ it flies"
    assert "✗ it [sings] (found: silence)" in text_of(*checks_text(checks))
