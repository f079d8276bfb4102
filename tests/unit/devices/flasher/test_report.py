"""The account of a run: its log, its progress and the termination message."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flash_pod import LOG_LINES, REPORT_LIMIT, TERMINATION_LOG_VARIABLE, Outcome, decode_report
from edgewright.devices.drivers.driver import Identity
from edgewright.devices.flasher.proof import Verdict
from edgewright.devices.flasher.report import Account, one_line, save_to, termination_log
from edgewright.runtime.clock import VirtualClock


@given(lines=st.lists(st.text(), max_size=60), message=st.text(max_size=3000))
def test_a_termination_message_is_json_of_less_than_4096_bytes_whatever_a_device_says(
    lines: list[str], message: str
) -> None:
    saved: list[bytes] = []
    account = Account(clock=VirtualClock(), say=lambda _line: None, save=saved.append)
    for line in lines:
        account.log(line)
    account.save(Verdict(Outcome.FAILED, message))
    assert len(saved[-1]) < REPORT_LIMIT
    report = decode_report(saved[-1].decode())
    assert report is not None
    assert len(report.log) <= LOG_LINES


def test_the_report_of_a_failure_keeps_the_last_lines_and_one_of_progress() -> None:
    account = Account(clock=VirtualClock(), say=lambda _line: None)
    for number in range(30):
        account.log(f"line {number}")
    account.progress(1, 4)
    account.tick()
    account.tick()
    report = account.save(Verdict(Outcome.FAILED, "it broke"))
    assert report.log == (*(f"line {number}" for number in range(11, 30)), "25 % of 4 bytes sent, 0 s")


def test_no_text_of_a_device_or_a_server_moves_the_cursor_of_who_reads_the_report() -> None:
    account = Account(clock=VirtualClock(), say=lambda _line: None)
    account.saw_before(Identity(device="a\x1b[2Jb", application="c\nd", version="1\r2"))
    account.note(image_version="3\x9b4")
    report = account.save(Verdict(Outcome.FAILED, "the registry says\x1b]0;hello\x07"))
    assert (report.device, report.application, report.version_before) == ("a [2Jb", "c d", "1 2")
    assert (report.image_version, report.message) == ("3 4", "the registry says ]0;hello ")
    assert report.outcome is Outcome.FAILED


async def test_the_report_tells_when_the_device_last_said_what_it_runs() -> None:
    clock = VirtualClock()
    saved: list[bytes] = []
    account = Account(clock=clock, say=lambda _line: None, save=saved.append)
    account.saw_before(Identity(version="1"))
    asked = clock.now()
    await clock.advance(40)
    assert account.save(Verdict(Outcome.FAILED, "it broke")).observed == asked
    account.saw_after(Identity(version="2"), rebooted=True)
    proven = clock.now()
    await clock.advance(9)
    account.save(Verdict(Outcome.SUCCEEDED, "it runs"))
    report = decode_report(saved[-1].decode())
    assert report is not None
    assert (report.version_after, report.observed) == ("2", proven)


def test_the_report_of_a_success_needs_no_log() -> None:
    account = Account(clock=VirtualClock(), say=lambda _line: None)
    account.log("a line")
    assert account.save(Verdict(Outcome.SUCCEEDED, "it runs")).log == ()


def test_progress_says_what_is_waited_for_where_no_bytes_move() -> None:
    said: list[str] = []
    account = Account(clock=VirtualClock(), say=said.append)
    account.progress(4, 4)
    account.wait_for("the device to come back")
    account.tick()
    assert said == ["waiting for the device to come back, 0 s"]


def test_the_writing_is_told_once() -> None:
    saved: list[bytes] = []
    account = Account(clock=VirtualClock(), say=lambda _line: None, save=saved.append)
    account.writing()
    account.writing()
    assert len(saved) == 1
    assert account.written


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a\x1b[2Jb\nc", "a [2Jb c", id="control-characters"),
        pytest.param("GET https://me:hunter2@registry.example", "GET https://***@registry.example", id="password"),
        pytest.param("x" * 400, "x" * 299 + "…", id="too-long"),
    ],
)
def test_a_line_is_one_line_without_secrets(text: str, line: str) -> None:
    assert one_line(text) == line


def test_a_shorter_report_replaces_a_longer_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "message"
    save = save_to(path)
    save(b'{"message":"a long one"}')
    save(b"{}")
    assert path.read_bytes() == b"{}"


def test_a_report_that_cannot_be_written_breaks_nothing(tmp_path: Path) -> None:
    save_to(tmp_path / "missing" / "message")(b"{}")
    save_to(None)(b"{}")
    assert list(tmp_path.iterdir()) == []


def test_the_termination_log_is_kubernetes_file_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "termination-log"
    monkeypatch.setattr("edgewright.devices.flasher.report.TERMINATION_LOG", str(usual))
    assert termination_log({}) is None
    usual.touch()
    assert termination_log({}) == usual
    assert termination_log({TERMINATION_LOG_VARIABLE: "other"}) == Path("other")
