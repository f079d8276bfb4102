"""YAML as Kubernetes reads it; tests/cluster/differential compares the same values with the real server."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
import yaml

from edgewright.runtime.yaml_loader import load


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30:45", "12:30:45"),
        ("190:20:30.15", "190:20:30.15"),
        ("2001-01-01", "2001-01-01"),
        ("!!timestamp 2001-01-01", "2001-01-01"),
        ("0777", 511),
        ("08", 8.0),
        ("0o17", 15),
        ("-0x1F", -31),
        ("0b101", 5),
        ("1_000", 1000),
        ("+5", 5),
        ("-0", 0),
        ("0x", "0x"),
        ("9" * 30, 1e30),
        ("1" * 4000, "1" * 4000),
        ("0x" + "f" * 20, "0x" + "f" * 20),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("y", True),
        ("Off", False),
        ("yEs", "yEs"),
        ("~", None),
        ("", None),
        ("a: {b: 1:2}", {"a": {"b": "1:2"}}),
        ("a: &x {b: 1}\nc: {<<: *x, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
    ],
)
def test_a_value_is_what_the_real_server_makes_of_it(text: str, value: Any) -> None:
    found = load(text)
    assert (found, type(found)) == (value, type(value))


def test_what_is_no_number_is_not_one() -> None:
    assert math.isnan(load(".nan"))


@pytest.mark.parametrize("text", ["!!int 12:30", "!!float a", "!!bool maybe"])
def test_a_tag_that_does_not_fit_is_an_error(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="is not a"):
        load(text)


def test_a_long_number_takes_no_longer_than_a_long_text() -> None:
    def seconds(text: str) -> float:
        started = time.perf_counter()
        load(text)
        return time.perf_counter() - started

    plain = seconds("a: " + "x" * 2_800_000)
    for hostile in ("1:" * 1_400_000 + "1", "1" * 2_800_000, "0x" + "f" * 2_800_000, "1_" * 1_400_000):
        assert seconds(f"a: {hostile}") < 20 * plain + 5
