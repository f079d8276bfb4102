"""How the run of Kubernetes' conformance tests reads their report and shows it."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.__main__ import lanes, names, outcomes, table

ROOT = Path(__file__).resolve().parents[2]

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="Kubernetes e2e suite">
  <testcase name="[It] [sig-a] Things should pass [Conformance] [sig-a, Conformance]"/>
  <testcase name="[It] [sig-a] Things [Serial] should fail [Conformance] [sig-a, Serial, Conformance]">
    <failure type="failed">no</failure>
  </testcase>
  <testcase name="[It] [sig-b] Things should break [Conformance] [sig-b, Conformance]"><error/></testcase>
  <testcase name="[It] [sig-b] Things should be left out [Conformance] [sig-b, Conformance]"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_report_says_which_tests_passed_and_which_failed() -> None:
    assert outcomes(REPORT) == {
        "[sig-a] Things should pass [Conformance]": "passed",
        "[sig-a] Things [Serial] should fail [Conformance]": "failed",
        "[sig-b] Things should break [Conformance]": "failed",
    }


def test_a_table_has_a_row_for_every_test() -> None:
    results = {"[sig-a] Things | should pass [Conformance]": "passed", "[sig-b] Others should": "not run"}
    rows = table(results).splitlines()[2:]
    assert rows == ["| sig-a | Things   should pass | passed |", "| sig-b | Others should | not run |"]


def test_every_test_is_named_once_and_the_documentation_shows_each_of_them_passed() -> None:
    listed = names()
    assert len(set(listed)) == len(listed) > 0
    documented = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert table(dict.fromkeys(listed, "passed")) in documented


def test_every_test_runs_in_one_lane_and_those_that_wait_are_spread() -> None:
    planned = lanes(names())
    assert sorted(name for lane in planned for name in lane) == sorted(names())
    first, *others = planned
    assert not any("StatefulSet functionality" in name for name in first)
    assert max(map(len, others)) - min(map(len, others)) <= 1


def test_no_lane_is_empty() -> None:
    assert lanes(["[sig-a] Things should pass [Conformance]"]) == [["[sig-a] Things should pass [Conformance]"]]
