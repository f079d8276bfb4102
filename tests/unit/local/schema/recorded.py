"""What the real server said of the cases, and how a test compares with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from edgewright.local import schema
from edgewright.runtime.errors import Cause

RECORDED: dict[str, dict[str, dict[str, list[list[str]]]]] = json.loads(
    (Path(__file__).parent / "causes.json").read_text(encoding="utf-8")
)


def stored(compiled: schema.Compiled, spec: Any, **more: Any) -> dict[str, Any]:
    """An object as it is when it is validated, or was stored."""
    obj = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "good", "uid": "1"}, "spec": spec, **more}
    return compiled.prune(compiled.default(obj))[0]


def listed(causes: list[Cause]) -> list[list[str]]:
    """Causes in the form of the record, sorted since the real server gives them in any order."""
    return sorted([cause.reason, cause.message, cause.field] for cause in causes)
