"""What may be typed as a change of labels."""

from __future__ import annotations

import pytest

from edgewright.cli.failure import WrongUsage
from edgewright.cli.labels import changes_in


@pytest.mark.parametrize(
    ("typed", "changes"),
    [
        (["site=north"], {"site": "north"}),
        (["site="], {"site": ""}),
        (["site-"], {"site": None}),
        (["a=1", "b-", "a=2"], {"a": "2", "b": None}),
        (["note=x=y"], {"note": "x=y"}),
        (["note=ends-"], {"note": "ends-"}),
    ],
)
def test_labels_are_set_with_an_equals_sign_and_removed_with_a_dash(
    typed: list[str], changes: dict[str, str | None]
) -> None:
    assert changes_in(typed) == changes


def test_what_is_neither_is_refused_by_its_own_words() -> None:
    with pytest.raises(WrongUsage, match="'site' is neither NAME=VALUE nor NAME-"):
        changes_in(["a=1", "site"])
