"""Names and hashes that controllers make: short, and of letters that spell nothing, as in Kubernetes."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 5
_MAX_PREFIX = 58


def suffix() -> str:
    """What makes a generated name another one each time."""
    return "".join(secrets.choice(LETTERS) for _ in range(_LENGTH))


def generated(prefix: str, end: str) -> str:
    """A name that begins as the prefix does, as long as there is room."""
    return f"{prefix[:_MAX_PREFIX]}{end}"


def digest(value: Any, collisions: int | None = None) -> str:
    """A short text that is the same for the same value; another one after each collision."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":")) + str(collisions or "")
    found = hashlib.sha256(text.encode()).digest()
    return "".join(LETTERS[byte % len(LETTERS)] for byte in found[:10])
