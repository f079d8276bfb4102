"""Bodies in and out: which format a client gets, and what is read of what it sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.builtin import protobuf
from edgewright.local.errors import Refusal
from edgewright.local.serving import bodies
from edgewright.local.serving.bodies import Answer

TABLE = ("Table", "meta.k8s.io", "v1")
AS_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("", Answer()),
        ("*/*", Answer()),
        ("application/*", Answer()),
        ("application/json; charset=utf-8", Answer()),
        ("application/yaml", Answer(format=bodies.YAML)),
        ("application/yaml;q=0.5, application/json", Answer()),
        ("application/json;q=bad, application/yaml", Answer(format=bodies.YAML)),
        ("application/json;q=nan, application/yaml", Answer(format=bodies.YAML)),
        ("application/vnd.kubernetes.protobuf, application/json", Answer()),
        (AS_TABLE, Answer(shape="Table", shape_version="v1")),
        (f"{AS_TABLE},application/json", Answer(shape="Table", shape_version="v1")),
        ("application/json;as=Table;g=meta.k8s.io;v=v9, application/json", Answer()),
    ],
)
def test_a_client_gets_the_first_of_its_wishes_that_can_be_met(accept: str, answer: Answer) -> None:
    assert bodies.negotiate(accept, [TABLE]) == answer


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf", "application/json;as=Other"])
def test_wishes_that_cannot_be_met_are_refused(accept: str) -> None:
    with pytest.raises(Refusal) as refusal:
        bodies.negotiate(accept, [TABLE])
    assert refusal.value.code == 406


def test_a_pretty_answer_is_the_same_json_over_several_lines() -> None:
    value = {"a": [1, {"b": "c"}]}
    pretty = bodies.reencode(bodies.encode(value), bodies.negotiate("", pretty=True))
    assert pretty.count(b"\n") > 3
    assert json.loads(pretty) == value


def test_yaml_out_is_read_back_as_what_it_was() -> None:
    value = {"b": "true", "a": ["1", 1, None], "text": "ä\nö"}
    out = bodies.encode(value, Answer(format=bodies.YAML))
    assert list(yaml.safe_load(out)) == ["b", "a", "text"]
    assert bodies.decode(out, bodies.YAML) == (value, [])


@pytest.mark.parametrize(
    ("body", "media", "sentences"),
    [
        (
            b'{"a":1,"b":{"c":1,"d":2,"c":3},"e":[{"f":1,"f":1}],"a":{"g":1,"g":2},"a":2}',
            "application/json",
            [f'duplicate field "{path}"' for path in ("b.c", "e[0].f", "a", "a.g")],
        ),
        (
            b"a: 1\nb: {c: 1, d: 2, c: 3}\ne:\n- {f: 1, f: 1}\na: 2\n",
            "application/yaml",
            [f'line {line}: key "{key}" already set in map' for line, key in ((2, "c"), (4, "f"), (5, "a"))],
        ),
    ],
    ids=["JSON", "YAML"],
)
def test_fields_that_come_twice_are_named_and_the_last_one_counts(
    body: bytes, media: str, sentences: list[str]
) -> None:
    value, duplicates = bodies.decode(body, media)
    assert value == {"a": 2, "b": {"c": 3, "d": 2}, "e": [{"f": 1}]}
    assert duplicates == sentences


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", float(2**63)),
        ("-9223372036854775809", -float(2**63)),
        ("1" + "0" * 50, 1e50),
        ("1.5", 1.5),
    ],
)
def test_whole_numbers_beyond_64_bits_become_floats(text: str, value: float) -> None:
    found, _ = bodies.decode(text.encode(), bodies.JSON)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-02: 2026-01-02", {"2026-01-02": "2026-01-02"}),
        ("1: a\ntrue: b\n1.5: c", {"1": "a", "true": "b", "1.5": "c"}),
        ("a: !!binary AAE=", {"a": "AAE="}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        (f"a: &x b\nc: [{'*x, ' * 1001}]", {"a": "b", "c": ["b"] * 1001}),
        ("", None),
    ],
    ids=["dates are texts", "keys are texts", "bytes stay base64", "aliases", "a thousand aliases", "nothing"],
)
def test_yaml_is_read_as_json_knows_it(text: str, value: Any) -> None:
    assert bodies.decode(text.encode(), "application/yaml; charset=utf-8") == (value, [])


def bomb() -> bytes:
    """Few lines of YAML that stand for a great deal."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("body", "media", "code"),
    [
        pytest.param(b'{"a":NaN}', bodies.JSON, 400, id="no number"),
        pytest.param(b'{"a":1e999}', bodies.JSON, 400, id="a number without end"),
        pytest.param(b"\xff", bodies.JSON, 400, id="no UTF-8"),
        pytest.param(b" " * (bodies.LARGEST_BODY + 1), bodies.JSON, 413, id="too large"),
        pytest.param(b"[" * 100_000, bodies.JSON, 400, id="deep"),
        pytest.param(b"a: .nan", bodies.YAML, 400, id="YAML that is no number"),
        pytest.param(b"? [a]\n: b", bodies.YAML, 400, id="a list as a key"),
        pytest.param(b"a: !!python/object:os.system {}", bodies.YAML, 400, id="a tag of Python"),
        pytest.param(b"a: b\n---\nc: d", bodies.YAML, 400, id="two documents"),
        pytest.param(b"[" * 100_000, bodies.YAML, 400, id="deep YAML"),
        pytest.param(b"a: &a [*a]", bodies.YAML, 400, id="YAML that has itself in it"),
        pytest.param(b" " * (bodies.LARGEST_BODY + 1), bodies.YAML, 413, id="too large YAML"),
        pytest.param(bomb(), bodies.YAML, 413, id="YAML that grows"),
        pytest.param(b"{}", "application/xml", 415, id="another format"),
        pytest.param(b"{}", protobuf.MEDIA, 415, id="protobuf where none is taken"),
    ],
)
def test_what_cannot_be_read_is_refused(body: bytes, media: str, code: int) -> None:
    with pytest.raises(Refusal) as refusal:
        bodies.decode(body, media)
    assert refusal.value.code == code


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSONS)
def test_every_json_value_is_read_as_it_was_written(value: Any) -> None:
    assert bodies.decode(bodies.encode(value), "") == (value, [])
    assert bodies.decode(json.dumps(value).encode(), bodies.JSON) == (value, [])
