"""Paths find in objects what kube-apiserver finds, and what it refuses is refused.

What is expected here was compared with the real server's answers in tests/cluster/test_local_tables.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.tables.jsonpath import Path, PathError, text

OBJECT: dict[str, Any] = {
    "spec": {
        "name": "thing",
        "nothing": None,
        "list": ["a", "b", "c", "d"],
        "single": {"only": {"here": "found"}},
        "labels": {"e.x/a": "dotted", "e": {"x/a": "nested"}},
        "rows": [
            {"n": 1, "m": 2, "h": 0.5, "s": "one", "t": True},
            {"n": 2, "m": 2, "h": 1.5, "s": 'a"b', "t": False},
            {"n": 3, "m": 2, "s": ")]", "big": 10**20},
        ],
        "ünder": 7,
    },
    "status": {"conditions": [{"type": "Other"}, {"type": "Ready", "status": "True", "reason": "r"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.name", ["thing"]),
        (".spec.ünder", [7]),
        ("$.spec.name", ["thing"]),
        ("@.spec.name", ["thing"]),
        (".spec.nothing", [None]),
        (".spec.nothing.deeper", []),
        (".spec.name.deeper", []),
        (".nowhere.deeper", []),
        (".", []),
        (".spec['name']", ["thing"]),
        (".spec['single.only.here']", ["found"]),
        (r".spec.labels['e\.x/a']", ["dotted"]),
        (r".spec.labels.e\.x/a", ["dotted"]),
        (".spec.labels['e.x/a']", ["nested"]),
        (".spec.list[0]", ["a"]),
        (".spec.list[]", ["a"]),
        (".spec.list[-1]", ["d"]),
        (".spec.list[-4]", ["a"]),
        (".spec.list[4]", []),
        (".spec.list[-5]", []),
        (".spec.list[1:3]", ["b", "c"]),
        (".spec.list[1:-1]", ["b", "c"]),
        (".spec.list[2:]", ["c", "d"]),
        (".spec.list[:2]", ["a", "b"]),
        (".spec.list[0:0]", []),
        (".spec.list[2:1]", []),
        (".spec.list[0:9]", []),
        (".spec.list[::2]", ["a", "c"]),
        (".spec.list[0:4:3]", ["a", "d"]),
        (".spec.list[0:2:0]", []),
        (".spec.list[*]", ["a", "b", "c", "d"]),
        (".spec.list[3,0]", ["d", "a"]),
        (".spec.list[0, 9]", []),
        (".spec['nowhere','name']", ["thing"]),
        (".spec.name[0]", []),
        (".spec.nothing[0]", []),
        (".spec.single.*", [{"here": "found"}]),
        (".spec.list.*", ["a", "b", "c", "d"]),
        (".spec.name.*", [116, 104, 105, 110, 103]),
        (".spec.ünder.*", []),
        ("..here", ["found"]),
        (".spec.single..here", ["found"]),
        (".spec.single..", [{"only": {"here": "found"}}, {"here": "found"}, "found"]),
        (".spec..['here']", ["found"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        ('.status.conditions[?( @.type == "Ready" )].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].type", ["Other"]),
        (".status.conditions[?(@.reason)].type", ["Ready"]),
        (".status.conditions[?(@.type[0])].type", ["Other", "Ready"]),
        (".status.conditions[?(end)].type", []),
        (".spec.rows[?(@.n<2)].n", [1]),
        (".spec.rows[?(@.n<=2)].n", [1, 2]),
        (".spec.rows[?(@.n>2)].n", [3]),
        (".spec.rows[?(@.n>=2)].n", [2, 3]),
        (".spec.rows[?(@.n==@.m)].n", [2]),
        (".spec.rows[?(@.n==+2)].n", [2]),
        (".spec.rows[?(@.h>1.25)].n", [2]),
        (".spec.rows[?(@.big>1.5)].n", [3]),
        (".spec.rows[?(@.t==true)].n", [1]),
        (".spec.rows[?(@.t!=true)].n", [2]),
        (".spec.rows[?(@.t<true)].n", []),
        (".spec.rows[?(@.n==2.0)].n", []),
        (".spec.rows[?(@.s==2)].n", []),
        (".spec.rows[?(@.n=2)].n", []),
        (".spec.rows[?(@.*==2)].n", []),
        (".spec.rows[?(@.n==@.nowhere)].n", []),
        (".spec.rows[?(@.n==@.n[0])].n", []),
        (".spec.rows[?(@==2)].n", []),
        ('.spec.rows[?(@.s==")]")].n', [3]),
        (r'.spec.rows[?(@.s=="a\"b")].n', [2]),
        ('.spec.name[?(@.a=="b")]', []),
        ('.spec.nothing[?(@.a=="b")]', []),
        ('.spec.nowhere[?(@.a=="b")]', []),
        ('.spec "te\\x78t"', ["text"]),
        (r'.spec "\x41\102\u0043\U00000044\t\"\\z"', ['ABCD\t"\\z']),
        (r'.spec "\xc3\xa9"', ["é"]),
        (".spec 5", [5]),
        (".spec -5.5", [-5.5]),
        (".spec 99999999999999999999", [1e20]),
        (".spec true", [True]),
        (".spec false", [False]),
        (".spec name", []),
        (".spec.list range", []),
        (".spec.name}{.spec.list", ["thing"]),
        (".spec.name}text", ["thing"]),
    ],
)
def test_a_path_finds_values(path: str, found: list[Any]) -> None:
    assert Path.parse(path).find(OBJECT) == found


@pytest.mark.parametrize(
    "path",
    [
        ".spec.list[0",
        ".spec.list[0\n]",
        '.spec.list[?(@.a=="b"',
        '.spec.list[?(@.a=="b")x',
        '.spec.list[?(@.a=="b)]',
        ".spec.list[?(@.a<,)]",
        '.spec "name',
        "....name",
        ".spec.list[a]",
        ".spec.list[-]",
        ".spec.list[0:-]",
        ".spec.list[99999999999999999999]",
        ".spec.list[1,a]",
        ".spec,name",
        ".spec (name)",
        ".spec\t.name",
        ".spec\n.name",
        ".spec -",
        ".spec 1.2.3",
        ".spec \u0661",
        r'.spec "\q"',
        r'.spec "\ud800"',
        r'.spec "\UFFFFFFFF"',
        r'.spec "a\\"b"',
        r""".spec '\"'""",
        ".spec.name}{.spec[",
        ".spec.name\\",
    ],
)
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        Path.parse(path)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a", "a"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (-5, "-5"),
        (1.0, "1"),
        (0.0, "0"),
        (1.5, "1.5"),
        (100000.5, "100000.5"),
        (1234567.5, "1.2345675e+06"),
        (-12345678.25, "-1.234567825e+07"),
        (0.0001, "0.0001"),
        (1e-7, "1e-07"),
        (1e21, "1e+21"),
        (10**20, "1e+20"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_a_value_is_written_as_go_prints_it(value: Any, written: str) -> None:
    assert text(value) == written


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "spec"]), inner, max_size=3),
)


@given(st.text(st.sampled_from(".[]()?@*:,'\"\\ab01-<=! {}$"), max_size=20), json_values)
def test_no_path_and_no_object_is_more_than_refused(path: str, value: Any) -> None:
    try:
        parsed = Path.parse(path)
    except PathError:
        return
    assert isinstance(parsed.find(value), list)
