"""Values are printed as Go prints them."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.local.apply.gotext import literal, printed, type_name


@pytest.mark.parametrize(
    ("value", "plain", "exact", "kind"),
    [
        ("x", "x", '"x"', "string"),
        (1, "1", "1", "int64"),
        (1.5, "1.5", "1.5", "float64"),
        (True, "true", "true", "bool"),
        (False, "false", "false", "bool"),
        (None, "<nil>", "interface {}(nil)", "<nil>"),
        (["a", 1], "[a 1]", '[]interface {}{"a", 1}', "[]interface {}"),
        (
            {"b": None, "a": {}},
            "map[a:map[] b:<nil>]",
            'map[string]interface {}{"a":map[string]interface {}{}, "b":interface {}(nil)}',
            "map[string]interface {}",
        ),
    ],
    ids=str,
)
def test_a_value_is_printed_as_by_go(value: Any, plain: str, exact: str, kind: str) -> None:
    assert (printed(value), literal(value), type_name(value)) == (plain, exact, kind)
