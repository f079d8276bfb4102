"""Text that must fit where it is written: in a status, a condition, a report or a line of the log.

Whoever writes what people, devices or servers made up calls it. Pure.
"""

from __future__ import annotations


def cut(text: str, length: int) -> str:
    """The text with at most so many characters; where some had to go, the last one is an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
