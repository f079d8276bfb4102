"""What is wrong with one field of a spec, as conditions tell it. Those who judge a spec make it; it judges nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """Why a spec is not acted on: the field, and a sentence that says what to do."""

    field: str
    message: str

    def __str__(self) -> str:
        """As it stands in a condition."""
        return f"{self.field}: {self.message}"
