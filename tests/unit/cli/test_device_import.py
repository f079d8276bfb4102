"""CSV files of devices: what each line asks for, and what is wrong with it."""

from __future__ import annotations

import pytest

from edgewright.cli.device_import import read


def test_columns_are_fields_or_labels_in_any_order() -> None:
    devices, problems = read(
        "site,Name,endpoint,type,floor\nnorth,d1,192.0.2.1,esp32,\n\n# old\n,d2,192.0.2.2:8080,,3\n"
    )
    assert problems == []
    assert [each["metadata"] for each in devices] == [
        {"name": "d1", "labels": {"site": "north"}},
        {"name": "d2", "labels": {"floor": "3"}},
    ]
    assert [each["spec"] for each in devices] == [
        {"endpoint": "192.0.2.1", "type": "esp32"},
        {"endpoint": "192.0.2.2:8080"},
    ]


def test_semicolons_separate_too_as_spreadsheets_write_them() -> None:
    devices, problems = read("name;endpoint\nd1;192.0.2.1\n")
    assert (len(devices), problems) == (1, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("name,type\n", "line 1 has no column endpoint"),
        ("a,b\n", "line 1 has no column name and no column endpoint"),
        ("name,endpoint\nBad_Name,192.0.2.1\n", "line 2: 'Bad_Name' is no name"),
        ("name,endpoint\nd1,\n", "line 2: it is empty"),
        ("name,endpoint\nd1,192.0.2.1,x\n", "line 2: it has 3 cells"),
        ("name,endpoint,site\nd1,192.0.2.1,a b\n", "line 2: 'a b' is no value of a label"),
        ("name,endpoint\nd1,192.0.2.1\nd1,192.0.2.2\n", "line 3: d1 is on line 2 already"),
    ],
)
def test_a_wrong_line_is_named(text: str, problem: str) -> None:
    _, problems = read(text)
    assert len(problems) == 1
    assert problems[0].startswith(problem)
