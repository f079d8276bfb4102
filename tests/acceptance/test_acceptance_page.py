"""docs/acceptance.md: every row names a test that there is, and what the reports of a run tell is read rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.page import PAGE, Row, exists, results, rows, unproven

pytestmark = pytest.mark.plain

ROWS = rows(PAGE.read_text(encoding="utf-8"))
REPORT = """<testsuites><testsuite>
<testcase classname="tests.acceptance.test_x" name="test_good[real]"/>
<testcase classname="tests.acceptance.test_x" name="test_good[local]"/>
<testcase classname="tests.acceptance.test_x.TestA" name="test_half[real]"/>
<testcase classname="tests.acceptance.test_x.TestA" name="test_half[local]"><failure message="no"/></testcase>
<testcase classname="tests.unit.test_y" name="test_left"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"line {row.line}")
def test_a_row_names_a_test_that_there_is(row: Row) -> None:
    assert exists(row), row.test


def test_every_document_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [line[3:6] for line in text.splitlines() if line.startswith("## ")] >= ["000", "001"]
    assert len(ROWS) > 50


def test_a_row_without_a_test_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1: a row has three columns, and one test in the second"):
        rows("| a promise | somebody will test it | |")


def test_what_did_not_pass_in_every_variant_is_not_proven(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    names = ("test_x::test_good", "test_x::TestA::test_half", "tests/unit/test_y.py::test_left", "test_x::test_none")
    found = [Row(number, "", name, "") for number, name in enumerate(names, 1)]
    assert unproven(found, results([tmp_path / "report.xml"])) == [
        "docs/acceptance.md:2: test_x::TestA::test_half: failure",
        "docs/acceptance.md:3: tests/unit/test_y.py::test_left: skipped",
        "docs/acceptance.md:4: test_x::test_none: did not run",
    ]
    assert [exists(row) for row in found] == [False, False, False, False]
