"""Conditions: the part of an object's status that people, kstatus and Argo CD read. Pure functions on tuples.

Controllers call `with_outcome` (or `set_condition` for conditions of their own) on what the cache holds and write the
status only when they get another tuple back; `events` turns `transitions` into Events. It never does I/O and never asks
for the time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from edgewright.runtime.objects import Condition
from edgewright.runtime.text import cut

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"

Status: TypeAlias = Literal["True", "False", "Unknown"]
TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"

C = TypeVar("C", bound=Condition)
"""A condition, or one with more fields, as some kinds of Kubernetes have them."""

MAX_TYPE: Final = 316
MAX_REASON: Final = 1024
MAX_MESSAGE: Final = 32_768

# The API server refuses a whole status for one bad condition, so these are checked before anything is sent.
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_TYPE = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?")


@dataclass(frozen=True)
class Transition:
    """One condition whose status or reason is another than before; `before` is None where it is new."""

    before: Condition | None
    after: Condition


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a reconcile says about the whole object; made by `progressing`, `retrying`, `done` and `stuck`."""

    state: Literal["progressing", "retrying", "done", "stuck"]
    reason: str
    message: str = ""


def progressing(reason: str = "Progressing", message: str = "") -> Outcome:
    """Work is under way and nothing went wrong: Reconciling, and Ready is not known yet."""
    return Outcome(state="progressing", reason=reason, message=message)


def retrying(reason: str, message: str) -> Outcome:
    """Something failed and is tried again without anybody's help: still Reconciling, not Ready."""
    return Outcome(state="retrying", reason=reason, message=message)


def done(reason: str = "Succeeded", message: str = "") -> Outcome:
    """The declared state is reached: Ready, and nothing abnormal is left."""
    return Outcome(state="done", reason=reason, message=message)


def stuck(reason: str, message: str) -> Outcome:
    """Nothing more happens until somebody changes something: Stalled, not Ready."""
    return Outcome(state="stuck", reason=reason, message=message)


def condition(type_: str, status: Status, reason: str, message: str = "", *, generation: int = 0) -> Condition:
    """A condition that the API server accepts: a wrong type, status or reason raises, a long message is cut."""
    return _checked(
        Condition(type=type_, status=status, reason=reason, message=message, observed_generation=generation)
    )


def set_condition(conditions: tuple[C, ...], new: C, *, now: datetime) -> tuple[C, ...]:
    """Put `new` in the place of its type; the same tuple comes back when nothing changed, so that nothing is written.

    The transition time is `now` when the status changes and stays as it is otherwise; what `new` carries is not used.
    """
    new = _checked(new)
    now = _whole_seconds(now)
    old = find(conditions, new.type)
    if old is None:
        return (*conditions, msgspec.structs.replace(new, last_transition_time=now))
    new = msgspec.structs.replace(new, last_transition_time=_transition_time(old, new.status, now))
    changed: list[C] = []
    for known in conditions:
        if known.type != new.type:
            changed.append(known)
        elif known is old:  # a further one of this type is somebody's mistake, and goes
            changed.append(new)
    result = tuple(changed)
    return conditions if result == conditions else result


def with_outcome(
    conditions: tuple[Condition, ...], outcome: Outcome, *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Make Ready, Reconciling and Stalled say `outcome` together; the same tuple comes back when they did already."""
    triple = standing(outcome, generation=generation)
    present = {each.type for each in triple}
    for abnormal in (RECONCILING, STALLED):
        if abnormal not in present:
            conditions = remove(conditions, abnormal)
    for each in triple:
        conditions = set_condition(conditions, each, now=now)
    return conditions


def standing(outcome: Outcome, *, generation: int) -> tuple[Condition, ...]:
    """The conditions of the three that `outcome` has; those that are missing must not be there.

    Reconciling and Stalled are there only while they are true, which is how kstatus defines them. Ready is Unknown, not
    False, while work goes on without a fault, because health checks for Argo CD commonly read False as degraded.
    """
    ready: Status
    abnormal: tuple[str, ...]
    match outcome.state:
        case "progressing":
            ready, abnormal = UNKNOWN, (RECONCILING,)
        case "retrying":
            ready, abnormal = FALSE, (RECONCILING,)
        case "stuck":
            ready, abnormal = FALSE, (STALLED,)
        case "done":
            ready, abnormal = TRUE, ()
    return (
        condition(READY, ready, outcome.reason, outcome.message, generation=generation),
        *(condition(each, TRUE, outcome.reason, outcome.message, generation=generation) for each in abnormal),
    )


def find(conditions: tuple[C, ...], type_: str) -> C | None:
    """The condition of this type, or None."""
    for each in conditions:
        if each.type == type_:
            return each
    return None


def is_true(conditions: tuple[Condition, ...], type_: str) -> bool:
    """Whether the condition is there and True."""
    found = find(conditions, type_)
    return found is not None and found.status == TRUE


def remove(conditions: tuple[C, ...], type_: str) -> tuple[C, ...]:
    """All but this type; the same tuple when it was not there."""
    if find(conditions, type_) is None:
        return conditions
    return tuple(each for each in conditions if each.type != type_)


def transitions(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> list[Transition]:
    """What changed in a way worth telling: another status or reason, or a new type. What was removed is not told:
    it was abnormal, and Ready tells what came in its place.
    """
    before = {each.type: each for each in reversed(old)}
    return [
        Transition(known, each)
        for each in new
        if (known := before.get(each.type)) is None or (known.status, known.reason) != (each.status, each.reason)
    ]


def _checked(new: C) -> C:
    if len(new.type) > MAX_TYPE or not _TYPE.fullmatch(new.type):
        raise ValueError(f"{new.type!r} is not a type of a condition: it must be a qualified name such as 'Ready'")
    if new.status not in {TRUE, FALSE, UNKNOWN}:
        raise ValueError(f"condition {new.type}: the status must be True, False or Unknown, not {new.status!r}")
    if len(new.reason) > MAX_REASON or not _REASON.fullmatch(new.reason):
        raise ValueError(f"condition {new.type}: the reason must be one CamelCase word, not {new.reason[:80]!r}")
    if len(new.message) > MAX_MESSAGE:
        return msgspec.structs.replace(new, message=cut(new.message, MAX_MESSAGE))
    return new


def _transition_time(old: Condition, status: str, now: datetime) -> datetime:
    if old.last_transition_time is None:
        return now
    if old.status == status:
        return old.last_transition_time
    # The last writer's clock may be ahead of ours (another replica led before): for readers, time never runs backwards.
    return max(_whole_seconds(old.last_transition_time), now)


def _whole_seconds(moment: datetime) -> datetime:
    """As the API server keeps it; a fraction would make every comparison with the cache say "changed"."""
    if moment.tzinfo is None:
        raise ValueError("the time of a condition must have a time zone")
    return moment.astimezone(UTC).replace(microsecond=0)
