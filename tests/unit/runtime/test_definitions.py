"""When a custom resource definition is served, and what the server says when it is not."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.runtime.definitions import established


def condition(kind: str, status: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, (False, "")),
        ({"status": {"conditions": None}}, (False, "")),
        ({"status": {"conditions": [condition("NamesAccepted", "True", "fine")]}}, (False, "")),
        ({"status": {"conditions": [condition("NamesAccepted", "False", "fj is taken")]}}, (False, "fj is taken")),
        ({"status": {"conditions": [condition("Established", "False")]}}, (False, "")),
        (
            {"status": {"conditions": [condition("NamesAccepted", "True"), condition("Established", "True")]}},
            (True, ""),
        ),
    ],
    ids=["new", "null conditions", "names accepted", "names taken", "not yet", "served"],
)
def test_a_definition_is_served_when_the_server_says_so(document: dict[str, Any], expected: tuple[bool, str]) -> None:
    assert established(document) == expected
