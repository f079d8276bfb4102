"""Selectors: what they take, what they choose, and how a bad one is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.errors import Refusal
from edgewright.local.selectors import Requirement, parse, parse_fields

LABELS = {"a": "b", "n": "5", "e": "", "example.com/a": "x", "in": "notin"}
FIELDS = {
    "metadata.name": lambda raw: raw["metadata"]["name"],
    "metadata.namespace": lambda raw: raw["metadata"].get("namespace", ""),
}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("a=b", True),
        ("a==b", True),
        ("a = c", False),
        ("a!=b", False),
        ("z!=b", True),
        ("a in (x, b)", True),
        ("a in (x,y)", False),
        ("a notin (x)", True),
        ("z notin (x)", True),
        ("a notin (b)", False),
        ("a", True),
        ("z", False),
        ("!z", True),
        ("!a", False),
        ("! z", True),
        ("n>4", True),
        ("n>5", False),
        ("n < 6", True),
        ("a>1", False),
        ("z<1", False),
        ("e=", True),
        ("e=,a=b", True),
        ("a=", False),
        ("e in ()", True),
        ("e in (,x)", True),
        ("e in (x,)", True),
        ("e in (x,,y)", True),
        ("e in (x)", False),
        ("example.com/a=x,a,!z", True),
        ("in in (in,notin)", True),
        (" a\t=\nb ", True),
    ],
)
def test_a_selector_chooses_by_labels(text: str, chosen: bool) -> None:
    assert parse(text).matches(LABELS) is chosen


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a=b,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in x", "found 'x' expected: '('"),
        ("a in (", "found '', expected: ',', ')' or identifier"),
        ("a in (b", "found '', expected: ',' or ')'"),
        ("a in (b,", "found '', expected: ',', or identifier"),
        ("a=(", "found '(', expected: identifier"),
        ("!", "found '', expected: identifier"),
        ("a>x", "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a>99999999999999999999", "the value must be an integer"),
        ("-a", 'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of'),
        ("a/b/c", "a valid label key must consist of"),
        ("/b", "prefix part must be non-empty"),
        ("b/", "name part must be non-empty"),
        ("A_/b", "prefix part a lowercase RFC 1123 subdomain"),
        ("a" * 64, "name part must be no more than 63 bytes"),
        ("a" * 254 + "/b", "prefix part must be no more than 253 bytes"),
        ("a=-b", 'values[0][a]: Invalid value: "-b": a valid label must be an empty string or'),
        ("a=" + "b" * 64, "must be no more than 63 bytes"),
        ("a in (-b,-c)", "[values[0][a]: "),
    ],
)
def test_a_bad_selector_is_refused_in_the_servers_words(text: str, part: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse(text)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert part in refused.value.message


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("metadata.name=x", True),
        ("metadata.name==y", False),
        ("metadata.name!=y,metadata.namespace=", True),
        ("metadata.namespace!=", False),
        (r"metadata.name!=a\,b\=c\\", True),
        (",,", True),
    ],
)
def test_a_field_selector_chooses_by_fields(text: str, chosen: bool) -> None:
    assert parse_fields(text, FIELDS).matches({"metadata": {"name": "x"}}) is chosen


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec.x=1", "field label not supported: spec.x"),
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_bad_field_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_fields(text, FIELDS)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_a_kind_with_metadata_fields_only_says_so() -> None:
    with pytest.raises(Refusal) as refused:
        parse_fields("x=1", FIELDS, metadata_only=True)
    known = 'only "metadata.name", "metadata.namespace"'
    assert refused.value.message == f'"x" is not a known field selector: {known}'


KEYS = st.sampled_from(["a", "b", "in", "notin", "example.com/c"])
VALUES = st.sampled_from(["", "x", "y", "in", "3", "10"])
REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: Requirement(key=key, operator=operator, values=tuple(sorted(values))),
        KEYS,
        st.sampled_from(["in", "notin"]),
        st.sets(VALUES, min_size=1),
    ),
    st.builds(
        lambda key, operator, value: Requirement(key=key, operator=operator, values=(value,)),
        KEYS,
        st.sampled_from(["=", "==", "!="]),
        VALUES,
    ),
    st.builds(
        lambda key, operator, value: Requirement(key=key, operator=operator, values=(str(value),)),
        KEYS,
        st.sampled_from(["<", ">"]),
        st.integers(0, 20),
    ),
    st.builds(lambda key, operator: Requirement(key=key, operator=operator), KEYS, st.sampled_from(["exists", "!"])),
)


def written(requirement: Requirement) -> str:
    if requirement.operator == "exists":
        return requirement.key
    if requirement.operator == "!":
        return f"!{requirement.key}"
    if requirement.operator in {"in", "notin"}:
        return f"{requirement.key} {requirement.operator} ({','.join(requirement.values)})"
    return f"{requirement.key}{requirement.operator}{requirement.values[0]}"


def holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    if requirement.operator in {"=", "==", "in"}:
        return value in requirement.values
    if requirement.operator in {"!=", "notin"}:
        return value not in requirement.values
    if requirement.operator in {"exists", "!"}:
        return (value is not None) == (requirement.operator == "exists")
    if value is None or not value.isdigit():
        return False
    limit = int(requirement.values[0])
    return int(value) > limit if requirement.operator == ">" else int(value) < limit


@given(st.lists(REQUIREMENTS, max_size=4), st.dictionaries(KEYS, VALUES))
def test_requirements_read_back_and_match_as_a_simple_reader_says(
    requirements: list[Requirement], labels: dict[str, str]
) -> None:
    selector = parse(",".join(written(each) for each in requirements))
    assert selector.requirements == tuple(sorted(requirements, key=lambda each: each.key))
    assert selector.matches(labels) is all(holds(each, labels) for each in requirements)


@given(st.one_of(st.text(), st.text(alphabet="ab=!()<>, in\0\\/-.")))
def test_no_text_raises_anything_but_a_refusal(text: str) -> None:
    with suppress(Refusal):
        parse(text).matches(LABELS)
    with suppress(Refusal):
        parse_fields(text, FIELDS).matches({"metadata": {"name": "x"}})
