"""What is written is read as it was meant: by our loader, which reads as Kubernetes does, and by PyYAML's own."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime.yaml_dumper import dump, dump_all
from edgewright.runtime.yaml_loader import Loader, load

WORDS = ["y", "n", "Y", "N", "on", "null", "~", "", "<<", "="]
NUMBERS = ["1e3", "08", "0o17", "12:30:45", "1_000", "2020-01-01", ".5"]


@pytest.mark.parametrize("text", WORDS + NUMBERS)
def test_a_text_that_looks_like_something_else_stays_a_text(text: str) -> None:
    assert load(dump({"value": text})) == {"value": text}
    assert load(dump({text: "value"})) == {text: "value"}


numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
looks = st.from_regex(r"\A[-+.0-9eExXoObB_:yYnN~]{1,12}\Z")
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | st.text() | looks,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | looks, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_whatever_is_written_is_read_again(value: Any) -> None:
    assert load(dump(value)) == value
    assert yaml.safe_load(dump(value)) == value
    assert list(yaml.load_all(dump_all([value, value]), Loader=Loader)) == [value, value]
