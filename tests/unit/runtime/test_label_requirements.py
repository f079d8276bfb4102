"""Labels and one requirement of a selector, as Kubernetes understands it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from edgewright.runtime.label_requirements import holds


@dataclass(frozen=True)
class Term:
    """One expression of a selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("term", "labels", "expected"),
    [
        (Term("a", "In", ("x", "y")), {"a": "y"}, True),
        (Term("a", "In", ("x", "y")), {"a": "z"}, False),
        (Term("a", "In", ("x",)), {}, False),
        (Term("a", "NotIn", ("x",)), {"a": "x"}, False),
        (Term("a", "NotIn", ("x",)), {"a": "y"}, True),
        (Term("a", "NotIn", ("x",)), {}, True),
        (Term("a", "Exists"), {"a": ""}, True),
        (Term("a", "Exists"), {"b": "x"}, False),
        (Term("a", "DoesNotExist"), {"b": "x"}, True),
        (Term("a", "DoesNotExist"), {"a": ""}, False),
        (Term("a", "Like", ("x",)), {"a": "x"}, False),
        (Term("a", ""), {"a": "x"}, False),
    ],
)
def test_labels_meet_a_requirement_or_not(term: Term, labels: dict[str, str], expected: bool) -> None:
    assert holds(term, labels) is expected
    assert holds(term, labels, numbers=True) is expected


@pytest.mark.parametrize(
    ("operator", "limits", "value", "expected"),
    [
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Lt", ("5",), "4", True),
        ("Lt", ("5",), "5", False),
        ("Gt", ("5",), "six", False),
        ("Gt", ("five",), "6", False),
        ("Lt", (), "6", False),
        ("Lt", ("5",), None, False),
    ],
)
def test_numbers_are_compared_where_a_node_is_selected(
    operator: str, limits: tuple[str, ...], value: str | None, expected: bool
) -> None:
    labels = {} if value is None else {"a": value}
    assert holds(Term("a", operator, limits), labels, numbers=True) is expected


def test_a_label_selector_knows_no_numbers() -> None:
    assert not holds(Term("a", "Gt", ("5",)), {"a": "6"})
