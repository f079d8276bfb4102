"""Text that must fit."""

from __future__ import annotations

import pytest

from edgewright.runtime.text import cut


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("four", "four"), ("fives", "fiv…"), ("üüüüü", "üüü…")])
def test_a_text_that_is_too_long_ends_in_an_ellipsis(text: str, shown: str) -> None:
    assert cut(text, 4) == shown
