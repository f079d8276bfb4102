"""What operator and flash Pod say to each other: reports that always fit and are read back, and the words they use."""

from __future__ import annotations

import json
import string

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flash_pod import (
    EXIT_CODES,
    INSPECTED_EXIT_CODE,
    LOG_LINES,
    REPORT_LIMIT,
    Attestation,
    Outcome,
    Phase,
    Protocol,
    Report,
    Variable,
    decode_report,
    encode_report,
)
from edgewright.api.protocols import TRAITS

ANYTHING = st.text(max_size=3000)
# What costs most in JSON: quotes, control characters, letters of several bytes, lone surrogates.
COSTLY = st.text(alphabet='"\\\x00\x1f\x7f…𝄞\ud800\udfffé\n', max_size=6000)
TEXT = st.one_of(ANYTHING, COSTLY)
REPORTS = st.builds(
    Report,
    outcome=st.sampled_from(Outcome),
    message=TEXT,
    digest=TEXT,
    image_version=TEXT,
    version_before=TEXT,
    version_after=TEXT,
    device=TEXT,
    application=TEXT,
    certificate=TEXT,
    rebooted=st.booleans(),
    written=st.booleans(),
    attestation=st.sampled_from(Attestation),
    sent=st.integers(0, 2**62),
    seconds=st.floats(),
    phases=st.dictionaries(st.sampled_from([*Phase, "another"]), st.floats()),
    log=st.lists(TEXT, max_size=40).map(tuple),
)
PLAIN = st.text(alphabet=string.ascii_letters + string.digits + " .:-", max_size=100)


@given(REPORTS)
def test_a_report_is_always_valid_json_that_fits_and_is_read_back(report: Report) -> None:
    body = encode_report(report)
    assert len(body) < REPORT_LIMIT
    assert isinstance(json.loads(body), dict)
    read = decode_report(body.decode())
    assert read is not None
    assert (read.sent, read.phases) == (report.sent, {name: report.phases[name] for name in read.phases})
    assert read.phases.keys() <= set(Phase)
    assert (read.outcome, read.rebooted, read.written, read.attested) == (
        report.outcome,
        report.rebooted,
        report.written,
        report.attested,
    )
    assert len(read.log) <= LOG_LINES


@given(st.builds(Report, outcome=st.sampled_from(Outcome), message=PLAIN, digest=PLAIN, version_after=PLAIN))
def test_a_report_that_fits_loses_nothing(report: Report) -> None:
    assert decode_report(encode_report(report).decode()) == report


def test_the_oldest_log_lines_go_first() -> None:
    lines = tuple(f"{number:02} " + "x" * 700 for number in range(30))
    read = decode_report(encode_report(Report(outcome=Outcome.CORRUPT, message="it was damaged", log=lines)).decode())
    assert read is not None
    assert read.message == "it was damaged"
    assert 0 < len(read.log) < LOG_LINES
    assert read.log == lines[-len(read.log) :]


def test_a_long_text_is_cut_and_says_so() -> None:
    read = decode_report(encode_report(Report(message="m" * 5000, device="d" * 5000)).decode())
    assert read is not None
    assert read.message.startswith("mmm")
    assert read.message.endswith("…")
    assert len(read.device) == 256


@pytest.mark.parametrize(
    "text",
    [
        *("", "Error", "{", "[]", "null", '{"outcome":"splendid"}', '{"outcome":3}', '{"log":"no list"}', "\ud800"),
        pytest.param('{"x":' + "[" * 2000 + "]" * 2000 + "}", id="very deep"),
    ],
)
def test_what_is_no_report_is_read_as_none(text: str) -> None:
    assert decode_report(text) is None


def test_a_report_of_a_later_version_is_read_for_what_we_know() -> None:
    assert decode_report('{"outcome":"refused","colour":"green"}') == Report(outcome=Outcome.REFUSED)


@given(st.text(max_size=200))
def test_reading_never_fails(text: str) -> None:
    assert decode_report(text) is None or isinstance(decode_report(text), Report)


def test_every_outcome_of_a_flasher_has_an_exit_code_and_only_good_ones_end_with_zero() -> None:
    assert set(EXIT_CODES) == set(Outcome) - {Outcome.NOT_FOUND}
    assert {outcome for outcome, code in EXIT_CODES.items() if code == 0} == {each for each in Outcome if each.good}
    bad = [code for code in EXIT_CODES.values() if code]
    assert len(bad) == len(set(bad))
    assert INSPECTED_EXIT_CODE not in EXIT_CODES.values()
    assert all(0 <= code < 126 for code in (*EXIT_CODES.values(), INSPECTED_EXIT_CODE)), "shells and signals use more"


@pytest.mark.parametrize("outcome", Outcome)
def test_what_went_well_or_was_decided_is_not_tried_again(outcome: Outcome) -> None:
    decided = {Outcome.REFUSED, Outcome.INCOMPATIBLE, Outcome.CANCELLED, Outcome.NOT_FOUND}
    assert outcome.worth_another_try is not (outcome.good or outcome in decided)


def test_the_published_variables_keep_their_names_and_ours_have_our_prefix() -> None:
    published = {"FIRMWARE", "UUID", "HOST_ENDPOINT", "DEVICE", "APPLICATION_TYPE", "VERSION", "EXTERNAL_IP"}
    assert {each for each in Variable if not each.startswith("EDGEWRIGHT_")} == published


def test_every_protocol_of_ours_says_its_traits() -> None:
    assert set(TRAITS) == set(Protocol)
    assert {protocol for protocol in Protocol if TRAITS[protocol].dials_back} == {Protocol.ESP32}


def test_a_report_leaves_out_what_it_does_not_know() -> None:
    assert msgspec.json.decode(encode_report(Report(outcome=Outcome.SUCCEEDED))) == {"outcome": "succeeded"}
