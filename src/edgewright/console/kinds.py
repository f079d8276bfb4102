"""The kinds that the REST API serves: ours by their plural, any other custom resource by plural and group.

They are found by the API server's own discovery, with the caller's token, so a kind is served as soon as its CRD is
installed. The kinds of Kubernetes itself are not: this is no second way into the whole cluster.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from edgewright.api.kinds import CUSTOM_KINDS
from edgewright.console.problems import Refusal
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import UNFIT, NotFound, ServiceUnavailable, Undecodable
from edgewright.runtime.objects import Kind

T = TypeVar("T")

KUBERNETES: Final = frozenset(
    f"{name}.k8s.io"
    for name in (
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "discovery",
        "events",
        "flowcontrol.apiserver",
        "internal.apiserver",
        "networking",
        "node",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
        "storagemigration",
    )
)
"""The groups of Kubernetes itself that have a dot; those without one (apps, batch …) cannot be a custom resource's."""

_PATH_NAMES: Final = {"firmwarerollouts": "rollouts"}
"""Kinds of ours that have a shorter name in paths; the plural leads there too."""
OURS: Final[Mapping[str, Kind]] = {
    _PATH_NAMES.get(each.kind.plural, each.kind.plural): each.kind for each in CUSTOM_KINDS
}
"""Our kinds by the name that they have in paths."""

_KEPT_SECONDS: Final = 30.0
_KEPT: Final = 256
_AT_ONCE: Final = 8


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    versions: tuple[_Version, ...] = ()
    preferred_version: _Version | None = None

    @property
    def ordered(self) -> list[str]:
        """The versions, the preferred one first."""
        first = [self.preferred_version] if self.preferred_version else []
        return list(dict.fromkeys(each.version for each in (*first, *self.versions)))


class _Groups(msgspec.Struct, frozen=True):
    groups: tuple[_Group, ...] = ()


class _Resource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Served:
    """A kind, and under which name it is served."""

    name: str
    kind: Kind

    @property
    def component(self) -> str:
        """The name of its schema."""
        return self.kind.kind if self.name in OURS else f"{self.kind.kind}.{self.kind.group}"


def is_custom(group: str) -> bool:
    """Whether kinds of a group are served here."""
    return "." in group and group not in KUBERNETES


def name_of(kind: Kind) -> str:
    """What a kind is called in paths."""
    short = _PATH_NAMES.get(kind.plural, kind.plural)
    known = OURS.get(short)
    return short if known is not None and known.group == kind.group else kind.resource


class Kinds:
    """Finds kinds, and remembers for a short time what was found."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is known."""
        self._clock = clock
        self._found: OrderedDict[tuple[str, str], tuple[float, Kind]] = OrderedDict()
        self._lists: OrderedDict[str, tuple[float, tuple[Served, ...]]] = OrderedDict()

    async def find(self, client: Client, name: str, *, version: str = "") -> Kind:
        """The kind of this name, in the version asked for or else the preferred one; a Refusal where there is none.

        Which kinds there are is no secret among those whom the API server knows, so what was found counts for all.
        """
        if (known := OURS.get(_PATH_NAMES.get(name, name))) is not None and version in {"", known.version}:
            return known
        plural, _, group = name.partition(".")
        if known is not None:
            plural, group = known.plural, known.group
        if not is_custom(group):
            raise Refusal("not-found", await self._unknown(client, name))
        key = (f"{plural}.{group}", version)
        at, found = self._found.get(key, (0.0, None))
        if found is not None and self._clock.elapsed() - at < _KEPT_SECONDS:
            return found
        found = await _discover(client, plural, group, version)
        if found is None:
            raise Refusal("not-found", f"no kind {plural} of the group {group} is installed")
        self._found[key] = (self._clock.elapsed(), found)
        while len(self._found) > _KEPT:
            self._found.popitem(last=False)
        return found

    async def all(self, client: Client, caller: str) -> tuple[Served, ...]:
        """Every kind that is installed, ours first, as this caller sees it."""
        at, found = self._lists.get(caller, (0.0, ()))
        if found and self._clock.elapsed() - at < _KEPT_SECONDS:
            return found
        kinds = await _discover_all(client)
        served = (Served(name=name_of(each), kind=each) for each in kinds)
        found = tuple(sorted(served, key=lambda one: (one.name not in OURS, one.name)))
        self._lists[caller] = (self._clock.elapsed(), found)
        while len(self._lists) > _KEPT:
            self._lists.popitem(last=False)
        return found

    async def _unknown(self, client: Client, name: str) -> str:
        """Says what somebody could have meant who named no kind that is served."""
        plural = name.partition(".")[0]
        meant = [each.resource for each in await _discover_all(client) if plural in {each.plural, each.kind.lower()}]
        if meant:
            return f"there is no kind {name} here: did you mean {' or '.join(sorted(meant))}?"
        return f"there is no kind {name} here: kinds are named by plural and group, ours by their plural alone"


async def _discover(client: Client, plural: str, group: str, version: str) -> Kind | None:
    try:
        versions = [version] if version else (await _read(client, f"/apis/{group}", _Group)).ordered
        for each in versions:
            found = [kind for kind in await _kinds_in(client, group, each) if kind.plural == plural]
            if found:
                return found[0]
    except NotFound:
        return None
    return None


async def _discover_all(client: Client) -> list[Kind]:
    """The kinds of every group, each in the first version that has it; a group that fails is left out."""
    groups = [each for each in (await _read(client, "/apis", _Groups)).groups if is_custom(each.name)]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def of(group: _Group) -> list[Kind]:
        found: dict[str, Kind] = {}
        async with turns:
            for version in group.ordered:
                try:
                    for kind in await _kinds_in(client, group.name, version):
                        found.setdefault(kind.plural, kind)
                except (NotFound, ServiceUnavailable):  # an aggregated API whose server is unavailable
                    continue
        return list(found.values())

    return [kind for kinds in await asyncio.gather(*map(of, groups)) for kind in kinds]


async def _kinds_in(client: Client, group: str, version: str) -> Iterable[Kind]:
    listed = await _read(client, f"/apis/{group}/{version}", _Resources)
    return [
        Kind(group=group, version=version, kind=each.kind, plural=each.name, namespaced=each.namespaced)
        for each in listed.resources
        if "/" not in each.name and "get" in each.verbs
    ]


async def _read(client: Client, path: str, cls: type[T]) -> T:
    body = await client.get_path(path)
    try:
        return msgspec.json.decode(body, type=cls)
    except UNFIT as error:
        raise Undecodable(f"GET {path}: {error}") from error
