"""The objects that belong to releases: watched, compared with what was applied, put right, and asked whether ready.

`controller` calls `tend` in every pass over a settled release. An object that did not change since it was last compared
costs nothing and wakes nobody. A foreign change is found by a dry run on the server and, where the policy is to
correct, taken back by applying the stored manifest again; what is missing is reported, for only Helm creates objects.
The content of Secrets is neither watched nor compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import msgspec

from edgewright.controllers.chart import drift, readiness
from edgewright.controllers.chart.discovery import Discovery
from edgewright.controllers.chart.manifests import (
    MANAGED_BY,
    RELEASE_NAME,
    RELEASE_NAMESPACE,
    Part,
    as_applied,
)
from edgewright.controllers.chart.objects import ChartObject, Dependent, Reporting, Workload, dependent_kind
from edgewright.controllers.chart.policy import Policy
from edgewright.runtime import logs
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind, ObjectMeta, RawObject, owner_reference

_log = logs.get("controllers.chart.dependents")

HELM: Final = "helm"
"""Helm's field manager: what it applied is applied again in its name."""
_UNWATCHED: Final = frozenset({("", "Secret")})
_LABELS: Final = "=".join(MANAGED_BY)
_MAX_PATHS: Final = 5
_PATIENCE: Final = 600.0
_MAX_PAUSE: Final = 300.0

Signature: TypeAlias = tuple[Any, ...]
Heard: TypeAlias = Callable[[Key], None]
"""Called with the namespace and the name of the release that an object belongs to."""


@dataclass(frozen=True)
class Held:
    """A deployed release: where it is and what it consists of."""

    namespace: str
    release: str
    version: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class Health:
    """What was found of the objects of a release."""

    missing: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    corrected: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()
    """Changed by somebody else, and left so, with the fields."""
    unknown: bool = False
    """Not everything has been seen yet: it is to be looked at again soon."""
    wait: float = 0.0
    """A change that comes back again and again is taken back only after so many seconds."""


@dataclass(frozen=True)
class _Place:
    """An object of a release, and where it is."""

    kind: Kind
    key: Key
    part: Part


_Found: TypeAlias = Literal["same", "corrected", "drifted"]


@dataclass(frozen=True)
class _Judged:
    """An object as it was when it was last compared, by which policy, and why it was not ready."""

    signature: Signature
    policy: Policy
    problem: str | None


@dataclass
class _Tally:
    """What has been found so far of the objects of a release."""

    missing: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)
    unserved: list[str] = field(default_factory=list)
    corrected: list[str] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    unknown: bool = False
    wait: float = 0.0

    def health(self) -> Health:
        """The whole."""
        return Health(
            missing=tuple(self.missing),
            unready=tuple(self.unready),
            unserved=tuple(self.unserved),
            corrected=tuple(self.corrected),
            drifted=tuple(self.drifted),
            unknown=self.unknown,
            wait=self.wait,
        )


@dataclass
class _Fight:
    """How often an object was put right, and when it was last."""

    times: int
    at: float


class Dependents:
    """The objects of all releases, as far as they are watched."""

    def __init__(self, client: Client, discovery: Discovery, *, namespaces: Sequence[str], clock: Clock) -> None:
        self._client = client
        self._discovery = discovery
        self._namespaces = tuple(namespaces) or ("",)
        self._clock = clock
        self._caches: dict[Kind, Cache[Dependent]] = {}
        self._new: asyncio.Queue[Cache[Dependent]] = asyncio.Queue()
        self._hearers: list[Heard] = []
        self._judged: dict[tuple[Kind, Key], _Judged] = {}
        self._drifted: dict[tuple[Kind, Key], str] = {}
        self._fights: dict[tuple[Kind, Key], _Fight] = {}

    async def run(self) -> None:
        """Keeps the watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                cache = await self._new.get()
                group.create_task(cache.run(), name=f"dependents of kind {cache.kind}")

    def on_change(self, heard: Heard) -> None:
        """Has `heard` called for every change of an object that belongs to a release."""
        self._hearers.append(heard)

    def knows(self, release: Key) -> bool:
        """Whether any watched object carries the marks of a release."""
        return any(cache.count("release", release) for cache in self._caches.values())

    async def tend(
        self, held: Held, owner: ChartObject, *, watched: bool = True, policy: Policy | None = None
    ) -> Health:
        """Looks at every object of a release, puts right what somebody changed, and says how they are."""
        policy = policy or Policy()
        tally = _Tally()
        for part in held.parts:
            kind = await self._discovery.kind_of(part.type)
            if kind is None:
                tally.unserved.append(str(part))
                continue
            if not watched or (kind.group, kind.kind) in _UNWATCHED:
                continue
            key = Key(part.namespace or held.namespace if kind.namespaced else "", part.name)
            await self._look(_Place(kind, key, part), held, owner, policy, tally)
        return tally.health()

    async def _look(self, place: _Place, held: Held, owner: ChartObject, policy: Policy, tally: _Tally) -> None:
        """Looks at one object; what is found goes into the tally."""
        kind, key, part = place.kind, place.key, place.part
        cache = self._watch(kind)
        seen = cache.get(key)
        if not cache.synced and seen is None:
            tally.unknown = tally.unknown or cache.problem is None or "not been listed" in cache.problem
            return
        judged = self._judged.get((kind, key))
        problem = None if seen is None else _problem(kind, seen)
        same = judged is not None and judged.policy == _judged_by(policy)
        if seen is None or judged is None or not same or judged.signature != signature(seen.metadata):
            pause = self._pause(kind, key)
            if pause > 0:
                tally.wait = max(tally.wait, pause)
                tally.unknown = tally.unknown or seen is None
            else:
                try:
                    found, live = await self._compare(place, held, owner, policy, seen)
                except NotFound:
                    tally.missing.append(str(part))
                    return
                tally.corrected += [str(part)] if found == "corrected" else []
                problem = _problem_of(kind, live)
                self._judged[kind, key] = _Judged(signature(_metadata(live)), _judged_by(policy), problem)
        elif judged.problem != problem:
            self._judged[kind, key] = replace(judged, problem=problem)
        if (kind, key) in self._drifted:
            tally.drifted.append(self._drifted[kind, key])
        if problem is not None:
            tally.unready.append(f"{part}: {problem}")

    async def _compare(
        self, place: _Place, held: Held, owner: ChartObject, policy: Policy, seen: Dependent | None
    ) -> tuple[_Found, RawObject]:
        """Makes one object's owner known, and makes it what was applied, or says that it is not."""
        key = place.key
        live = await self._owned(place, owner, seen)
        self._drifted.pop((place.kind, key), None)
        if live["metadata"].get("deletionTimestamp") or policy.drift == "off" or drift.left_alone(live):
            return "same", live
        wanted = as_applied(place.part, release=held.release, namespace=held.namespace, target=key.namespace)
        mine = drift.with_ignored(wanted, live, policy.ignored)
        if drift.surely_same(mine, live, manager=HELM):
            return "same", live
        return await self._judge(place, held, live, mine, correct=policy.drift == "correct")

    async def _judge(
        self, place: _Place, held: Held, live: RawObject, wanted: RawObject, *, correct: bool
    ) -> tuple[_Found, RawObject]:
        """Asks the server what applying would change, and applies it where that is the policy."""
        kind, key, api = place.kind, place.key, self._client.raw(place.kind)
        mine = {**wanted, "metadata": {**wanted["metadata"], "uid": live["metadata"]["uid"]}}
        result = await api.apply(mine, manager=HELM, force=True, dry_run=True)
        paths = drift.changed_paths(live, result)
        if not paths:
            return "same", live
        if not correct:
            self._drifted[kind, key] = f"{place.part}: {', '.join(paths[:_MAX_PATHS])}"
            return "drifted", live
        live = await api.apply(mine, manager=HELM, force=True)
        self._corrected(kind, key)
        _log.info("Corrected drift", kind=kind.kind, object=key, release=held.release, fields=paths[:_MAX_PATHS])
        return "corrected", live

    async def _owned(self, place: _Place, owner: ChartObject, seen: Dependent | None) -> RawObject:
        """An object as it is, with its owner named: one request where the cache has it, for a write answers too."""
        if seen is not None and _wants_owner(place, seen.metadata, owner):
            return await self._own(place, seen.metadata.uid, owner)
        live = await self._client.raw(place.kind).get(place.key)
        if _wants_owner(place, metadata := _metadata(live), owner):
            return await self._own(place, metadata.uid, owner)
        return live

    async def _own(self, place: _Place, uid: str, owner: ChartObject) -> RawObject:
        """Names the owner on an object, as a second field manager: Helm's own applies leave it alone."""
        kind, key = place.kind, place.key
        metadata = {
            "name": key.name,
            "namespace": key.namespace,
            "uid": uid,
            "ownerReferences": [owner_reference(owner).to_raw()],
        }
        return await self._client.raw(kind).apply(
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}, force=True
        )

    def _watch(self, kind: Kind) -> Cache[Dependent]:
        cache = self._caches.get(kind)
        if cache is None:
            resource = dependent_kind(kind, _base(kind))
            cache = self._caches[kind] = Cache(
                self._client.of(resource),
                namespaces=self._namespaces if kind.namespaced else ("",),
                labels=_LABELS,
                optional=True,
                clock=self._clock,
            )
            cache.add_index("release", lambda each: [found] if (found := release_of(each)) is not None else [])
            cache.subscribe(self._on_change)
            self._new.put_nowait(cache)
        return cache

    def _on_change(self, change: Change[Dependent]) -> None:
        place = (change.latest.kind, change.latest.key)
        if change.new is None:
            self._judged.pop(place, None)
            self._drifted.pop(place, None)
        elif (judged := self._judged.get(place)) is not None and _as_judged(judged, change.new):
            return  # a write of our own, or nothing that anybody would be told of
        states = [each for each in (change.old, change.new) if each is not None]
        for release in {found for each in states if (found := release_of(each)) is not None}:
            for heard in self._hearers:
                heard(release)

    def _corrected(self, kind: Kind, key: Key) -> None:
        now = self._clock.elapsed()
        fight = self._fights.get((kind, key))
        times = fight.times + 1 if fight is not None and now - fight.at < _PATIENCE else 1
        self._fights[kind, key] = _Fight(times, now)

    def _pause(self, kind: Kind, key: Key) -> float:
        """How long to wait before an object is put right once more: somebody else may want it otherwise for good."""
        fight = self._fights.get((kind, key))
        if fight is None or fight.times < 3:
            return 0.0
        return fight.at + min(2.0**fight.times, _MAX_PAUSE) - self._clock.elapsed()


def release_of(obj: Dependent) -> Key | None:
    """The release that an object belongs to, by Helm's own marks: also for one without a namespace."""
    annotations = obj.metadata.annotations
    if RELEASE_NAME not in annotations or RELEASE_NAMESPACE not in annotations:
        return None
    return Key(annotations[RELEASE_NAMESPACE], annotations[RELEASE_NAME])


def signature(metadata: ObjectMeta) -> Signature:
    """What changes with everything but the status; where there are no generations, with everything."""
    version = metadata.generation or metadata.resource_version
    pairs = (tuple(sorted(metadata.labels.items())), tuple(sorted(metadata.annotations.items())))
    return metadata.uid, version, pairs, metadata.deletion_timestamp is not None


def _metadata(live: RawObject) -> ObjectMeta:
    return msgspec.convert(live["metadata"], ObjectMeta)


def _wants_owner(place: _Place, metadata: ObjectMeta, owner: ChartObject) -> bool:
    """Whether an object is to name its owner, and names neither it nor another that controls it."""
    if place.part.kept or place.key.namespace != owner.metadata.namespace or not owner.kind.namespaced:
        return False
    known = any(each.uid == owner.metadata.uid or each.controller for each in metadata.owner_references)
    return metadata.deletion_timestamp is None and not known


def _as_judged(judged: _Judged, seen: Dependent) -> bool:
    """Whether an object is as it was when it was last compared, and as ready."""
    return judged.signature == signature(seen.metadata) and judged.problem == _problem(seen.kind, seen)


def _judged_by(policy: Policy) -> Policy:
    """What of a policy decides about drift: with another one, an object is compared again."""
    return Policy(drift=policy.drift, ignored=policy.ignored)


def _base(kind: Kind) -> type[Dependent]:
    """What is kept of objects of a kind: no more than says whether they are ready."""
    if readiness.has_rule(kind.group, kind.kind):
        return Workload
    return Reporting if readiness.is_custom(kind.group) else Dependent


def _problem(kind: Kind, seen: Dependent) -> str | None:
    spec = seen.spec if isinstance(seen, Workload) else None
    status = seen.status if isinstance(seen, Reporting) else None
    return _judgement(kind, seen.metadata, spec, status)


def _problem_of(kind: Kind, live: RawObject) -> str | None:
    return _judgement(kind, _metadata(live), live.get("spec"), live.get("status"))


def _judgement(kind: Kind, metadata: ObjectMeta, spec: Any, status: Any) -> str | None:
    deleting = metadata.deletion_timestamp is not None
    return readiness.problem(
        kind.group, kind.kind, generation=metadata.generation, spec=spec, status=status, deleting=deleting
    )
