"""Search and order in a list: which objects have all words of a query, in which order they come, where a page begins.

`lists` asks it for lists of the shared cache and for lists that it has read as the caller. Nothing is kept between two
pages: a place is the last object of the page before, so that objects may come and go meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from edgewright.console.kind_cache import Shown
from edgewright.console.problems import Refusal
from edgewright.runtime.errors import UNFIT

SORTS: Final = ("name", "-name", "created", "-created")
"""What lists can be ordered by; with a minus the other way round. Without any, by namespace and name."""
MAX_QUERY: Final = 256
_TOKEN: Final = "console."  # noqa: S105 - what a place begins with: the API server's own do not
_AT_ONCE: Final = 500
_QUOTE: Final = ord('"')

Rank: TypeAlias = tuple[str, ...]
"""What objects are ordered by."""


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    creation_timestamp: str | None = ""


class _Dated(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


class _Texts(msgspec.Struct, frozen=True, gc=False):
    spec: dict[str, msgspec.Raw] = {}
    status: dict[str, msgspec.Raw] = {}


_dated = msgspec.json.Decoder(_Dated).decode
_texts = msgspec.json.Decoder(_Texts).decode
_text = msgspec.json.Decoder(str).decode


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some objects of a list."""

    items: list[Shown]
    following: str = ""
    """Where the next page begins; empty on the last one."""
    remaining: int = 0
    """How many objects come after this page."""


def words_of(query: str) -> tuple[str, ...]:
    """The words of a query; upper and lower case are the same."""
    return tuple(query.casefold().split())


def has(obj: Shown, words: Iterable[str]) -> bool:
    """Whether each word is in the name, the namespace, a label or a text that stands directly in spec or status."""
    about = obj.metadata
    known = [about.name, about.namespace, *(f"{key}={value}" for key, value in about.labels.items())]
    told = "\n".join(known).casefold()
    missing = [word for word in words if word not in told]
    if not missing:
        return True
    told = "\n".join(_told(obj.body)).casefold()
    return all(word in told for word in missing)


def _told(body: bytes) -> Iterator[str]:
    """The texts that stand directly in spec or status."""
    try:
        found = _texts(body)
    except UNFIT:  # a kind of others may have anything there
        return
    for part in (found.spec, found.status):
        for raw in part.values():
            if memoryview(raw)[0] == _QUOTE:
                yield _text(raw)


def rank(obj: Shown, sort: str) -> Rank:
    """What an object is ordered by; no two objects of a kind have the same."""
    about = obj.metadata
    match sort.removeprefix("-"):
        case "name":
            return about.name, about.namespace
        case "created":
            return _dated(obj.body).metadata.creation_timestamp or "", about.namespace, about.name
        case _:
            return (f"{about.namespace}/{about.name}",)


async def page_of(objects: Iterable[Shown], *, query: str, sort: str, after: Rank, limit: int) -> Page:
    """The page of the objects that a query finds which begins after a place; `objects` are in the order of lists.

    Some per turn of the loop: a fleet is large, and others wait.
    """
    words, backwards = words_of(query), sort.startswith("-")
    found: list[tuple[Rank, Shown]] = []
    for number, each in enumerate(objects):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        if not words or has(each, words):
            at = rank(each, sort)
            if not after or (at < after if backwards else at > after):
                found.append((at, each))
    if sort:
        found.sort(key=lambda one: one[0], reverse=backwards)
    shown = found[:limit]
    remaining = len(found) - len(shown)
    return Page(
        items=[each for _, each in shown],
        following=token(sort, shown[-1][0]) if remaining else "",
        remaining=remaining,
    )


def token(sort: str, last: Rank) -> str:
    """The place after an object, for `continue`."""
    return _TOKEN + base64.urlsafe_b64encode(msgspec.json.encode([sort, *last])).decode().rstrip("=")


def is_token(given: str) -> bool:
    """Whether a place is one of this module, and not the API server's."""
    return given.startswith(_TOKEN)


def place_of(given: str, sort: str) -> Rank:
    """The place that a token names; a Refusal where it is none, or one of another order."""
    if not is_token(given):
        raise Refusal("bad-request", "the parameter continue is a place in another list: repeat its q and sort")
    text = given.removeprefix(_TOKEN)
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        of, *last = msgspec.json.decode(raw, type=list[str])
    except (*UNFIT, ValueError):
        raise Refusal("bad-request", "the parameter continue is no place in a list") from None
    if of != sort or not last:
        raise Refusal("bad-request", "the parameter continue is a place in a list of another order: repeat its sort")
    return tuple(last)
