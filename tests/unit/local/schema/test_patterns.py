"""Patterns mean what they mean to RE2, whoever matches them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.schema import engine, patterns


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a\n", False),
        ("a$|b", "ab", True),
        (r"^\d+\z", "12", True),
        (r"^\d+$", "١٢", False),
        ("^[[:alpha:]_]+$", "ab_", True),
        ("^[[:^alpha:]]+$", "12", True),
        ("^[]a]+$", "]a", True),
        ("^[^]a]+$", "b", True),
        ("^[[]$", "[", True),
        ("[a[:digit:]-]", "-", True),
        (r"^\pL+$", "äb", True),
        (r"^\p{Greek}$", "\u03b1", True),
        (r"^\x{41}\x42$", "AB", True),
        (r"^\Qa.b\E$", "a.b", True),
        ("(?i)^abc$", "ABC", True),
        ("^(?i:a)b$", "Ab", True),
        ("(?m)^b$", "a\nb", True),
        ("^(?P<x>a)$", "a", True),
        ("^(?:a)$", "a", True),
        ("^(a|b)*$", "abab", True),
        ("^(a+)+$", "a" * 40 + "b", False),
        ("a++", "aa", False),
        ("(?=a)", "a", False),
        ("(", "a", False),
        (r"\1", "a", False),
        (r"^\$$", "$", True),
        ("^a{2,3}$", "aaa", True),
    ],
)
def test_a_pattern_is_found_as_by_re2(pattern: str, text: str, found: bool) -> None:
    assert patterns.matches(pattern, text) is found
    assert engine.matches(text, pattern) is found


def test_a_long_text_is_matched_in_linear_time() -> None:
    assert patterns.matches("^a*a*a*a*b$", "a" * 100_000) is False


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("a*a*a*a*a*a*a*a*a*a*b", "a" * 400, id="repetitions in a row"),
        pytest.param("^(?:.*a){12}$", "a" * 60 + "!", id="a counted group"),
        pytest.param("^" + "(a|a)" * 40 + "$", "a" * 40 + "!", id="alternatives in a row"),
        pytest.param("a?" * 40 + "a" * 40 + "$", "a" * 40 + "!", id="optional parts in a row"),
    ],
)
def test_a_pattern_with_many_ways_to_match_takes_no_longer(pattern: str, text: str) -> None:
    assert patterns.matches(pattern, text) is False


def test_without_the_library_python_does_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "missing", lambda: True)
    patterns._linear.cache_clear()
    try:
        assert patterns.matches("^(a|b)+$", "ab") is True
        assert patterns.matches("(?m)^b$", "a\nb") is False
    finally:
        patterns._linear.cache_clear()


pieces = st.sampled_from(
    [*"ab01.-_|()[]*+?^$", "\\d", "\\w", "\\.", "[a-c]", "[^b]", "[[:digit:]]", "(?:a|b)", "{1,2}", "\\z", "[]]"]
)


@given(st.lists(pieces, max_size=8).map("".join), st.text("ab01.-_]\n", max_size=6))
def test_python_and_re2_agree_where_python_is_asked(pattern: str, text: str) -> None:
    compiled = patterns.compiled(pattern)
    try:
        engine.find_all("", patterns.without_groups(pattern))
    except engine.Failed:
        return  # no pattern: the definition that has it is refused
    if compiled is not None:
        assert (compiled.search(text) is not None) is engine.matches(text, pattern)
