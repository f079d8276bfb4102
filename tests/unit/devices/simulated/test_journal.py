"""What a checker asks a journal."""

from __future__ import annotations

import pytest

from edgewright.devices.simulated.journal import Did, Entry, Journal


def journal(*what: tuple[Did, int]) -> Journal:
    made = Journal()
    for at, (did, run) in enumerate(what):
        made.add(Entry(at=at, did=did, run=run, sha256=f"hash {run}" if did is Did.WRITTEN else ""))
    return made


@pytest.mark.parametrize(
    ("what", "two"),
    [
        ([], False),
        ([(Did.WRITING, 1), (Did.WRITTEN, 1), (Did.WRITING, 2), (Did.WRITTEN, 2)], False),
        ([(Did.WRITING, 1), (Did.CUT, 1), (Did.WRITING, 2)], False),
        ([(Did.WRITING, 1), (Did.DAMAGED, 1), (Did.WRITING, 2)], False),
        ([(Did.WRITING, 1), (Did.VANISHED, 0), (Did.WRITING, 2)], False),
        ([(Did.WRITING, 1), (Did.REBOOTED, 0), (Did.WRITING, 2)], False),
        ([(Did.WRITING, 1), (Did.WRITING, 2), (Did.WRITTEN, 1)], True),
        ([(Did.WRITING, 1), (Did.CUT, 3), (Did.WRITING, 2)], True),
    ],
    ids=["nothing", "in turn", "after a cut", "after damage", "gone", "rebooted", "at once", "another's cut"],
)
def test_two_that_write_at_once_are_found_out(what: list[tuple[Did, int]], two: bool) -> None:
    assert journal(*what).written_by_two_at_once is two


def test_it_tells_what_was_written_how_often() -> None:
    kept = journal((Did.ASKED, 1), (Did.WRITTEN, 1), (Did.CUT, 2), (Did.WRITTEN, 3))
    assert kept.written == ("hash 1", "hash 3")
    assert (len(kept), kept.count(Did.CUT), kept.count(Did.VANISHED)) == (4, 1, 0)
    assert [entry.run for entry in kept.of(Did.CUT, Did.ASKED)] == [1, 2]
    assert [entry.at for entry in kept] == [0, 1, 2, 3]


def test_whoever_wants_to_know_is_told_at_once() -> None:
    told: list[Entry] = []
    kept = Journal(told.append)
    kept.add(Entry(at=1.0, did=Did.ASKED))
    assert told == list(kept)
