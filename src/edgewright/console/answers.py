"""The bodies of the REST API that are no custom resources, as structs: from these come their schemas."""

from __future__ import annotations

from typing import Final

import msgspec

from edgewright.console.problems import Problem


class User(msgspec.Struct, frozen=True):
    """As whom the API server knows the caller."""

    name: str
    groups: tuple[str, ...] = ()


class Rights(msgspec.Struct, frozen=True):
    """What the caller may do with one kind."""

    resource: str
    """The kind, by the name that it has in paths."""
    namespace: str
    """Where; empty means everywhere."""
    verbs: dict[str, bool]
    """Each verb, and whether the API server would allow it."""


class Me(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who is calling."""

    user: User
    rights: Rights | None = None


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


class ProblemSort(msgspec.Struct, frozen=True):
    """A sort of problem, and what can be done about it."""

    type: str
    title: str
    status: int
    advice: str


class Link(msgspec.Struct, frozen=True):
    """What the one-time link carries."""

    secret: str


ANSWERS: Final = (Problem, Me, KindEntries, ProblemSort, Link)
"""All of them."""
