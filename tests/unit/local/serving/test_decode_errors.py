"""What is said of a body that is no object of its kind; each sentence is the real server's."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from edgewright.local import builtin
from edgewright.local.errors import Refusal
from edgewright.local.kinds import Kinds
from edgewright.local.serving import decode_errors
from edgewright.runtime.objects import Kind

KINDS = Kinds(builtin.served(), builtin.definitions())
POD = Kind(group="", version="v1", kind="Pod", plural="pods")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ('{"a":"b', "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ('"', "unexpected end of JSON input"),
        ("{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
        ("{1:2}", "invalid character '1' looking for beginning of object key string"),
        ("{} {}", "invalid character '{' after top-level value"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ('{"a":["]",1 2]}', "invalid character '2' after array element"),
        ('{"a\\"b":[[1],{}] 2}', "invalid character '2' after object key:value pair"),
        ('"\n', r"invalid character '\n' in string literal"),
        ('"\n"', r"invalid character '\n' in string literal"),
    ],
)
def test_a_text_that_is_no_json(text: str, words: str) -> None:
    with pytest.raises(json.JSONDecodeError) as error:
        json.loads(text)
    assert decode_errors.json_words(error.value) == words


def test_other_reasons_are_told_as_they_are() -> None:
    assert decode_errors.json_words(ValueError("NaN is not JSON")) == "NaN is not JSON"
    assert "max depth" in decode_errors.json_words(RecursionError())
    assert decode_errors.yaml_words(yaml.YAMLError("no")) == "yaml: no"
    assert "max depth" in decode_errors.yaml_words(RecursionError())


@pytest.mark.parametrize(("text", "line"), [("a: [", "yaml: "), ("a: b\nc: d: e", "yaml: line 2: ")])
def test_a_text_that_is_no_yaml(text: str, line: str) -> None:
    with pytest.raises(yaml.YAMLError) as error:
        yaml.safe_load(text)
    assert decode_errors.yaml_words(error.value).startswith(line)


def refused(value: Any, body: bytes | None = None) -> str:
    given = json.dumps(value).encode() if body is None else body
    with pytest.raises(Refusal) as refusal:
        decode_errors.recognised(value, given, POD, KINDS)
    assert refusal.value.code == 400
    return refusal.value.message


def test_an_object_of_the_kind_is_recognised_whether_it_says_so_or_not() -> None:
    for value in ({}, {"kind": "Pod"}, {"kind": "Pod", "apiVersion": "v1", "metadata": None}):
        assert decode_errors.recognised(value, b"", POD, KINDS) == value
    assert decode_errors.recognised(None, b"null", POD, KINDS) == {}


def test_a_body_without_a_kind_is_shown_in_part() -> None:
    assert refused([], b"[]").endswith("(5b5d)")
    assert refused({"kind": 1}).endswith('({"kind": 1})')
    assert refused({"kind": 1}, b'{"kind": 1, "metadata": {"name": "x"}}').endswith(" ...)")
    assert refused([], b"").endswith("(<empty>)")
    assert "cannot unmarshal number into Go struct field .kind of type string" in refused({"kind": 1})
    assert "unexpected GroupVersion string: a/b/c" in refused({"apiVersion": "a/b/c"})


def test_an_object_of_another_kind_is_told_what_it_is() -> None:
    known = refused({"kind": "ConfigMap", "apiVersion": "v1"})
    assert known == (
        'ConfigMap in version "v1" cannot be handled as a Pod: '
        "converting (v1.ConfigMap) to (core.Pod): unknown conversion"
    )
    assert 'no kind "Thing" is registered for version "v1"' in refused({"kind": "Thing"})
    assert "cannot unmarshal array into Go struct field Pod.metadata" in refused({"metadata": []})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("json: cannot unmarshal string into Go value of type []string", "cannot restore slice from string"),
        ("json: cannot unmarshal array into Go value of type map[string]string", "cannot restore map from slice"),
        (
            "json: cannot unmarshal string into Go struct field PodSpec.x of type v1.PodSpec",
            "cannot restore struct from: string",
        ),
        ("json: cannot unmarshal number into Go value of type string", "cannot convert int64 to string"),
        ("anything else", "anything else"),
    ],
)
def test_a_patch_says_the_same_in_other_words(words: str, said: str) -> None:
    assert decode_errors.unconvertible(words) == said
