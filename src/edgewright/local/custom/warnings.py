"""What the writer of a custom object is warned of: finalizers whose names may be somebody else's too.

`kinds` calls it on every create and update. A warning never keeps a write from being done.
"""

from __future__ import annotations

import re

from edgewright.local.go_format import quote
from edgewright.runtime.objects import RawObject

_STANDARD = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def finalizer_warnings(obj: RawObject, old: RawObject | None) -> list[str]:
    """One per finalizer that is new and not qualified by a domain and a path."""
    before = (old or {}).get("metadata", {}).get("finalizers") or []
    added = set(obj.get("metadata", {}).get("finalizers") or []) - set(before)
    found = []
    for name in sorted(added):
        if "/" in name or name in _STANDARD or not _NAME.fullmatch(name):
            continue
        how = "finalizer name including a path (/)" if "." in name else "finalizer name"
        why = f"prefer a domain-qualified {how} to avoid accidental conflicts with other finalizer writers"
        found.append(f"metadata.finalizers: {quote(name)}: {why}")
    return found
