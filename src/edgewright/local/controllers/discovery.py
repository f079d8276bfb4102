"""Which kinds an API server serves: what garbage collection and the deletion of namespaces go by.

`add_all` creates a `ServedKinds` and asks it; whoever has the kinds at hand (the embedded server) passes a function and
calls `changed`, on any other server they are read by discovery, again after every change of a definition. A kind that
cannot be listed, watched and deleted is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from edgewright.runtime import Client, Clock, Kind, SystemClock, logs
from edgewright.runtime.errors import UNFIT, KubernetesError

KindsFunction: TypeAlias = Callable[[], Sequence[Kind]]

_log = logs.get("local.discovery")
_NEEDED = frozenset({"delete", "list", "watch"})
# A definition is served a moment after it is stored: asked again after these seconds, and now and then without reason.
_LATER = (0.5, 2.0, 5.0)
_NOW_AND_THEN = 60.0


class _Resource(msgspec.Struct, frozen=True, gc=False):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _Resources(msgspec.Struct, frozen=True, gc=False):
    resources: tuple[_Resource, ...] = ()


class _Version(msgspec.Struct, frozen=True, gc=False):
    version: str


class _Group(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    versions: tuple[_Version, ...] = ()
    preferred_version: _Version | None = None


class _Groups(msgspec.Struct, frozen=True, gc=False):
    groups: tuple[_Group, ...] = ()


def kinds_in(group: str, version: str, body: bytes) -> list[Kind]:
    """The kinds of one group and version in a discovery document that can be listed, watched and deleted."""
    return [
        Kind(group=group, version=version, kind=each.kind, plural=each.name, namespaced=each.namespaced)
        for each in msgspec.json.decode(body, type=_Resources).resources
        if "/" not in each.name and set(each.verbs) >= _NEEDED
    ]


def versions_in(body: bytes) -> list[tuple[str, str]]:
    """The groups and versions in a discovery document, the preferred version of each group first."""
    found = []
    for group in msgspec.json.decode(body, type=_Groups).groups:
        versions = [each.version for each in group.versions]
        preferred = group.preferred_version.version if group.preferred_version else ""
        found += [(group.name, version) for version in sorted(versions, key=lambda version: version != preferred)]
    return found


def one_version_each(kinds: Iterable[Kind]) -> list[Kind]:
    """Each resource once, in the version that comes first: all versions are views of the same objects."""
    chosen: dict[tuple[str, str], Kind] = {}
    for kind in kinds:
        chosen.setdefault((kind.group, kind.plural), kind)
    return list(chosen.values())


class ServedKinds:
    """The kinds that are served, as far as is known, and who wants to hear of changes."""

    def __init__(self, client: Client, *, given: KindsFunction | None = None, clock: Clock | None = None) -> None:
        self._client = client
        self._given = given
        self._clock = clock or SystemClock()
        self._found: Sequence[Kind] = ()
        self._by_group: dict[tuple[str, str], list[Kind]] = {}
        self._listeners: list[Callable[[], None]] = []
        self._wake = asyncio.Event()
        self.problem = "the kinds have not been asked for yet" if given is None else ""
        """Why not all kinds are known, in a sentence; empty when they are."""

    def __call__(self) -> Sequence[Kind]:
        """All kinds in all their versions, the preferred version of each first."""
        return self._found if self._given is None else self._given()

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an owner reference names; None where it is not served."""
        return next((each for each in self() if each.kind == kind and each.api_version == api_version), None)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after every change of the kinds, or of what is known of them."""
        self._listeners.append(listener)

    def changed(self) -> None:
        """Something was defined, changed or taken away: kinds that are given are looked at now, others asked for."""
        if self._given is None:
            self._wake.set()
        else:
            self._tell()

    async def run(self) -> None:
        """Keeps the kinds known until cancelled."""
        if self._given is not None:
            self._tell()
            await asyncio.Event().wait()
        while True:
            self._wake.clear()
            for seconds in (0.0, *_LATER):
                if not await self._pause(seconds):
                    await self._refresh()
            while self.problem and not await self._pause(_LATER[-1]):
                await self._refresh()
            await self._pause(_NOW_AND_THEN)

    async def _pause(self, seconds: float) -> bool:
        """Waits; whether it was woken before the time was over."""
        if seconds and not self._wake.is_set():
            try:
                async with self._clock.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                return False
        return self._wake.is_set()

    async def _refresh(self) -> None:
        before, problem_before = self._found, self.problem
        try:
            groups = [("", "v1"), *versions_in(await self._client.get_path("/apis"))]
        except (KubernetesError, *UNFIT) as error:
            self.problem = f"the groups cannot be read: {error}"
            return
        problems = []
        by_group: dict[tuple[str, str], list[Kind]] = {}
        for group, version in groups:
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            try:
                by_group[group, version] = kinds_in(group, version, await self._client.get_path(path))
            except (KubernetesError, *UNFIT) as error:
                # What was known stays: its objects are still there, though nobody can speak of them at the moment.
                by_group[group, version] = self._by_group.get((group, version), [])
                problems.append(f"{path}: {error}")
        self._by_group = by_group
        self._found = [kind for kinds in by_group.values() for kind in kinds]
        self.problem = "; ".join(problems)
        if self.problem and self.problem != problem_before:
            _log.warning("discovery incomplete", problem=self.problem)
        if self._found != before or self.problem != problem_before:
            self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
