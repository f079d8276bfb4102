"""Which names objects may have."""

from __future__ import annotations

import pytest

from edgewright.local import names

GOOD = {
    "subdomain": ["a", "a.b", "0-9.x", "a" * 253],
    "label": ["a", "0a", "a-b", "a" * 63],
    "label1035": ["a", "a-0", "a" * 63],
    "path": ["A", "a b", "ä", "..."],
}
BAD = {
    "subdomain": ["", "A", "a_b", "-a", "a.", ".a", "a..b", "a\n", "ä", "a" * 254],
    "label": ["", "A", "a.b", "-a", "a-", "a\n", "a" * 64],
    "label1035": ["", "0a", "a.b", "a-", "a" * 64],
    "path": [".", "..", "a/b", "a%b"],
}


@pytest.mark.parametrize(("rule", "name"), [(rule, name) for rule in GOOD for name in GOOD[rule]])
def test_a_good_name_has_no_faults(rule: str, name: str) -> None:
    assert names.RULES[rule](name) == []


@pytest.mark.parametrize(("rule", "name"), [(rule, name) for rule in BAD for name in BAD[rule]])
def test_a_bad_name_has_faults(rule: str, name: str) -> None:
    assert names.RULES[rule](name)


def test_a_name_is_as_long_as_its_bytes_and_every_fault_is_told() -> None:
    assert names.label("ä" * 32)[0] == "must be no more than 63 characters"
    assert len(names.label("Ä" * 64)) == 2
    assert names.path_segment("a/b%c") == ["may not contain '/'", "may not contain '%'"]


@pytest.mark.parametrize(
    ("prefix", "good"), [("job-", True), ("job", True), ("-", False), ("job_", False), ("job--", True), ("", False)]
)
def test_the_beginning_of_a_generated_name_may_end_where_a_name_may_not(prefix: str, good: bool) -> None:
    assert (names.prefix("subdomain", prefix) == []) is good
