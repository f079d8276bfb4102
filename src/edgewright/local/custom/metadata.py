"""The metadata of custom objects, read as strictly as the real server reads it into a type of its own.

`kinds` calls it for the metadata of an object and of the objects that its schema says are embedded. A value of the
wrong type is refused in the words of the real server; an unknown field is dropped and named; what is empty goes.
"""

from __future__ import annotations

from typing import Any

from edgewright.local.structs.go_structs import Path, WrongType, form
from edgewright.runtime.objects import RawObject

__all__ = ["WrongType", "typed"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_ROOT = "ObjectMeta"


def typed(metadata: Any, path: str = "metadata") -> tuple[RawObject, list[str]]:
    """The metadata with what is known and not empty, and the sorted paths of what is not known; may raise WrongType."""
    if metadata is None:
        return {}, []
    if not isinstance(metadata, dict):
        form(_META).read(metadata, None, [])
    unknown: list[str] = []
    # In the order of names, since of several wrong fields the real server names the first in that order.
    in_order = {name: metadata[name] for name in sorted(metadata)}
    read: RawObject = form(_META).read(in_order, Path(None, _ROOT), unknown)
    kept = {name: value for name, value in read.items() if value not in ({}, [])}
    return kept, sorted(path + each.removeprefix(_ROOT) for each in unknown)
