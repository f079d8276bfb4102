"""The bodies of the REST API that are no custom resources, as structs: from these come their schemas."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from edgewright.console.problems import Problem


class User(msgspec.Struct, frozen=True):
    """As whom the API server knows the caller."""

    name: str
    groups: tuple[str, ...] = ()


class Rights(msgspec.Struct, frozen=True):
    """What the caller may do with one kind."""

    resource: str
    """The kind, by the name that it has in paths; with a slash and the part of its objects that was asked for."""
    namespace: str
    """Where; empty means everywhere."""
    verbs: dict[str, bool]
    """Each verb, and whether the API server would allow it."""


class Me(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who is calling."""

    user: User
    rights: Rights | None = None
    session: str = ""
    """How a session began that came with the request, `link` or `oidc`; left out for who sent a token."""


class KindEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A kind that can be used."""

    name: str
    """What it is called in paths."""
    kind: str
    api_version: str
    namespaced: bool
    ours: bool
    """Whether it is one of Edgewright's own kinds."""


class KindEntries(msgspec.Struct, frozen=True):
    """The kinds that can be used, ours first."""

    items: tuple[KindEntry, ...]


class KindSchema(msgspec.Struct, frozen=True, rename="camel"):
    """A kind with its schema, for who makes a form of it."""

    name: str
    """What it is called in paths."""
    kind: str
    api_version: str
    namespaced: bool
    schema: dict[str, Any]
    """JSON Schema, as the API server publishes it; without properties where it publishes none."""


class ProblemSort(msgspec.Struct, frozen=True):
    """A sort of problem, and what can be done about it."""

    type: str
    title: str
    status: int
    advice: str


class Link(msgspec.Struct, frozen=True):
    """What the one-time link carries."""

    secret: str


class SignedOut(msgspec.Struct, frozen=True):
    """The session here is over, and the one at the provider goes on."""

    provider: str
    """Where a browser ends that one too; it comes back to the console."""


class ActionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What goes with an action on a rollout, a device or the fleet; all of it may be left out."""

    batch: str = ""
    """With approve: the batch; without it, the one that waits."""
    revision: int = 0
    """The revision that the caller saw: another one is a conflict."""
    reason: str = ""
    """Why, for the annotation and the Event."""


class PlanRequest(msgspec.Struct, frozen=True):
    """A rollout that is not made yet, or only its spec."""

    spec: dict[str, Any]


class BatchPlan(msgspec.Struct, frozen=True, rename="camel"):
    """One batch of a plan."""

    number: int
    name: str
    size: int
    devices: tuple[str, ...]
    """Their names, the first thousand."""
    soak_seconds: int
    success_percent: int
    manual: bool
    """Whether somebody has to approve before the next one."""


class RolloutPlan(msgspec.Struct, frozen=True, rename="camel"):
    """What a rollout would do."""

    total: int
    """How many devices it means."""
    batches: tuple[BatchPlan, ...]
    excluded: dict[str, str]
    """Those that are left out, and why; the first thousand."""
    excluded_count: int
    reasons: dict[str, int]
    """How many are left out for which reason, the most frequent first; a hundred at most."""
    current: int
    """How many say that they run the wanted version already."""
    opens: datetime | None = None
    """When the next window opens, where none is open now."""


class Freeze(msgspec.Struct, frozen=True, rename="camel"):
    """Why no device is started."""

    reason: str
    by: str
    since: datetime | None


class FleetGroup(msgspec.Struct, frozen=True):
    """The devices that share the value of a label."""

    name: str
    total: int
    states: dict[str, int]
    versions: dict[str, int]


class FleetCell(msgspec.Struct, frozen=True):
    """One device of a fleet that can be looked at device by device."""

    name: str
    state: str
    version: str
    group: str
    """The value of the label that was asked for."""


class FleetSummary(msgspec.Struct, frozen=True):
    """How many devices stand where, and which versions they run."""

    total: int
    states: dict[str, int]
    """By failed, quarantined, unreachable, updating and ok."""
    versions: dict[str, int]
    groups: tuple[FleetGroup, ...] = ()
    """By the label that was asked for, those with trouble first."""
    freeze: Freeze | None = None
    """Set while the fleet is frozen."""
    cells: tuple[FleetCell, ...] | None = None
    """The devices, trouble first; null where they were not asked for, or are too many."""


class Flash(msgspec.Struct, frozen=True):
    """What came of one job on a device."""

    job: str
    outcome: str
    message: str
    version: str
    before: str
    """The version that it was proven to run before."""
    attempts: int
    started: datetime | None
    ended: datetime | None


class Why(msgspec.Struct, frozen=True):
    """Why a device is not updated."""

    device: str
    sentence: str
    """The reason, and what would change it."""


class DeviceHistory(msgspec.Struct, frozen=True):
    """What came of the jobs that are remembered on a device, the latest first."""

    flashes: tuple[Flash, ...]
    log: tuple[str, ...]
    """The last lines of its latest flash, where that failed."""


class FlashStep(msgspec.Struct, frozen=True):
    """How far a flash under way is, as far as its log tells."""

    phase: str
    """inspect, fetch (which checks the firmware, too), send or verify."""
    percent: int | None = None
    """How much of the firmware is sent, where that is told."""
    bytes: int | None = None
    """How many bytes the firmware has, where that is told."""


class FlashLog(msgspec.Struct, frozen=True):
    """The last lines of the log of a device's latest flash."""

    job: str
    live: bool
    """Whether the flash is under way: the next answer may have more."""
    lines: tuple[str, ...]
    attempt: int = 0
    """Which attempt it is, while it is under way."""
    outcome: str = ""
    """How it ended."""
    step: FlashStep | None = None
    """How far it is, while it is under way; null where the lines do not tell."""


class ObjectEvent(msgspec.Struct, frozen=True):
    """Something that happened to an object."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str
    count: int
    """How many times it happened."""
    first: datetime | None
    last: datetime | None
    source: str
    """The program that reported it."""


class ObjectEvents(msgspec.Struct, frozen=True):
    """The latest Events of an object, the newest first."""

    items: tuple[ObjectEvent, ...]


ANSWERS: Final = (
    Problem,
    Me,
    KindEntries,
    ProblemSort,
    KindSchema,
    Link,
    SignedOut,
    ActionRequest,
    PlanRequest,
    RolloutPlan,
    FleetSummary,
    DeviceHistory,
    Why,
    FlashLog,
    ObjectEvents,
)
"""All of them."""
