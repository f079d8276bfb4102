"""How a command says that its work failed for a reason that is no answer of a server: one sentence, exit code 1."""

from __future__ import annotations


class Failed(Exception):
    """The work failed; the sentence says what the person who typed the command can do."""
