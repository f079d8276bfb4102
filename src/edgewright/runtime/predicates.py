"""Which changes are worth a reconcile: small pure tests that `controller` applies before it queues a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from edgewright.runtime.cache import Change

Predicate: TypeAlias = Callable[[Change[Any]], bool]


def anything(_: Change[Any]) -> bool:
    """Every change counts."""
    return True


def intent_changed(change: Change[Any]) -> bool:
    """What people asked for has changed: the object is new or gone, or its spec, labels, annotations, finalizers.

    So has it when its deletion is asked for. A status write, our own most of all, is none of these. A kind without
    generations counts with every change.
    """
    if change.old is None or change.new is None:
        return True
    old, new = change.old.metadata, change.new.metadata
    if not new.generation:
        return True
    return bool(
        old.generation != new.generation
        or old.deletion_timestamp != new.deletion_timestamp
        or old.labels != new.labels
        or old.annotations != new.annotations
        or old.finalizers != new.finalizers
    )


def intent_changed_or_wiped(change: Change[Any]) -> bool:
    """The same, or somebody has taken the whole status away: it is said again from the spec and what there is."""
    if intent_changed(change):
        return True
    before, after = (getattr(each, "status", None) for each in (change.old, change.new))
    return _says_nothing(after) and bool(before != after)


def _says_nothing(status: Any) -> bool:
    """Whether there is no status, or an empty one: a large status that was written is not compared field by field."""
    try:
        return status is None or bool(status == type(status)())
    except TypeError:  # a status that says something always: there is no empty one
        return False
