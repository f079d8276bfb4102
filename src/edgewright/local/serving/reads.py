"""Getting and listing objects: selectors, pages, and from which version.

`server` calls these for GET; `watches` uses the selection. Lists are put together from stored bytes wherever nothing of
the objects has to be changed.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from edgewright.local import selectors
from edgewright.local.errors import Refusal, bad_request, expired
from edgewright.local.history import Expired, Stored, StoreKey
from edgewright.local.served import Served
from edgewright.local.serving import bodies, decode_errors
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.options import ListOptions, refused_version
from edgewright.runtime.objects import RawObject

_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - the version of a page token, no secret
_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
_PAGE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class _Labelled(msgspec.Struct, gc=False):
    """Of an object's metadata what selectors ask for most."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Selectable(msgspec.Struct, gc=False):
    """The least of an object that a label selector needs: decoding it is far cheaper than the whole."""

    metadata: _Labelled


_labelled = msgspec.json.Decoder(_Selectable)


@dataclass(frozen=True, kw_only=True)
class Page:
    """A list, or a part of one, of one revision."""

    items: Sequence[Stored]
    revision: int
    token: str = ""
    remaining: int | None = None


class Selection:
    """Which objects a list or watch is about; without selectors all."""

    def __init__(self, served: Served, options: ListOptions, name: str = "") -> None:
        self._labels = selectors.parse(options.labels) if options.labels else None
        self._fields: selectors.FieldSelector | None = None
        if options.fields:
            plain = not served.selectable and not served.custom
            self._fields = selectors.parse_fields(options.fields, _allowed(served), metadata_only=plain)
        self._name = name
        self.all = self._labels is None and self._fields is None and not name

    def matches(self, objects: Objects, served: Served, stored: Stored) -> bool:
        """Whether a stored object is selected."""
        if self.all:
            return True
        if self._name and stored.key.name != self._name:
            return False
        if self._labels is not None and not self._labels.matches(_labelled.decode(stored.body).metadata.labels or {}):
            return False
        return self._fields is None or self._fields.matches(objects.read(served, stored))


def _allowed(served: Served) -> dict[str, Callable[[RawObject], str]]:
    return {
        "metadata.name": lambda obj: str(obj["metadata"].get("name", "")),
        "metadata.namespace": lambda obj: str(obj["metadata"].get("namespace", "")),
        **served.selectable,
    }


def version(text: str, *, listed: bool = False) -> int:
    """A resourceVersion as a number; lists refuse what is none in other words."""
    if not text.isascii() or not text.isdigit() or int(text.lstrip("0")[:21] or 0) >= 2**64:
        raise refused_version(text, listed=listed)
    return int(text.lstrip("0") or 0)


def too_large(wanted: int, current: int) -> Refusal:
    """The client has seen a later state than this server has; it may have spoken to another one."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return Refusal(504, "Timeout", f"Timeout: Too large resource version: {wanted}, current: {current}", details)


async def page(objects: Objects, served: Served, namespace: str, options: ListOptions) -> Page:
    """The objects that a list asks for."""
    selection = Selection(served, options)
    asked = _Asked(objects=objects, served=served, namespace=namespace or None, options=options)
    at, after = _where(asked)
    # A page of a selection is found by looking at everything: what is not selected does not count.
    listing = await _listing(asked, at, after, limit=options.limit if selection.all else 0)
    if selection.all:
        return _with_token(asked, listing, more=bool(listing.remaining))
    found = [each for each in listing.items if selection.matches(objects, served, each)]
    shown = found[: options.limit] if options.limit else found
    # Whether anything that comes after is selected is not known before it is looked at, so the real server says there
    # is more wherever anything comes.
    more = bool(shown) and len(shown) == options.limit and shown[-1] is not listing.items[-1]
    return _with_token(asked, Page(items=shown, revision=listing.revision), more=more)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A list as it was asked for."""

    objects: Objects
    served: Served
    namespace: str | None
    options: ListOptions


def _where(asked: _Asked) -> tuple[int | None, StoreKey | None]:
    """The revision that a list is of (none: the newest) and the object after which it begins."""
    options, current = asked.options, asked.objects.store.revision
    if options.token:
        if options.resource_version and options.resource_version != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
        at, after = _decode_token(options.token, asked.served, asked.namespace or "")
        return (at if at > 0 else None), after
    wanted = version(options.resource_version, listed=True) if options.resource_version else 0
    if wanted > current:
        raise too_large(wanted, current)
    exact = options.match == "Exact" or (options.limit and not options.match)
    return (wanted if exact and wanted else None), None


async def _listing(asked: _Asked, at: int | None, after: StoreKey | None, *, limit: int) -> Page:
    store, resource, namespace = asked.objects.store, asked.served.storage, asked.namespace
    if at is None:
        listing = store.list(resource, namespace, after=after, limit=limit)
    elif at > store.revision:
        raise too_large(at, store.revision)
    else:
        try:
            if at < store.history.compacted:
                raise Expired(_LIST_TOO_OLD)
            listing = await store.list_at(at, resource, namespace, after=after, limit=limit)
        except Expired:
            if after is None:
                raise expired(_LIST_TOO_OLD) from None
            raise expired(_PAGE_TOO_OLD, token=_encode_token(-1, after, namespace or "")) from None
    return Page(items=listing.items, revision=listing.revision, remaining=listing.remaining)


def _with_token(asked: _Asked, listing: Page, *, more: bool) -> Page:
    if not more:
        return Page(items=listing.items, revision=listing.revision)
    token = _encode_token(listing.revision, listing.items[-1].key, asked.namespace or "")
    return Page(items=listing.items, revision=listing.revision, token=token, remaining=listing.remaining)


def _encode_token(revision: int, last: StoreKey, namespace: str) -> str:
    start = f"{last.namespace}/{last.name}" if last.namespace and not namespace else f"/{last.name}"
    if revision < 0:  # a token that goes on with what there is now is written so by the real server
        start = start.removeprefix("/")
    text = json.dumps({"v": _TOKEN_VERSION, "rv": revision, "start": f"{start}\0"}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode_token(token: str, served: Served, namespace: str) -> tuple[int, StoreKey]:
    wrong = "invalid continue token: continue key is not valid"
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        given = json.loads(decoded.decode(errors="surrogateescape"))
        known, revision, start = given["v"], given["rv"], given["start"]
        if known != _TOKEN_VERSION:
            raise bad_request(f"{wrong}: server does not recognize this encoded version {known}")
        if not isinstance(revision, int) or revision == 0:
            raise bad_request(f"{wrong}: incorrect encoded start resourceVersion (version {_TOKEN_VERSION})")
        if not isinstance(start, str) or not start:
            raise bad_request(f"{wrong}: encoded start key empty (version {_TOKEN_VERSION})")
    except (binascii.Error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise bad_request(f"{wrong}: {decode_errors.json_words(error)}") from None
    where, _, name = start.removesuffix("\0").rpartition("/")
    if "/" in where or where.startswith(".") or (where and namespace):
        raise bad_request(f"{wrong}: {start}")
    return revision, StoreKey(served.storage, (where or namespace) if served.kind.namespaced else "", name)


def list_body(objects: Objects, served: Served, found: Page) -> bytes:
    """A whole list as JSON; the items of built-in kinds do not repeat their kind."""
    about: RawObject = {"resourceVersion": str(found.revision)}
    if found.token or served.custom:
        about["continue"] = found.token
        if found.remaining is not None:
            about["remainingItemCount"] = found.remaining
    head = bodies.encode({"kind": served.list_kind, "apiVersion": served.kind.api_version, "metadata": about})
    shown = (objects.shown(served, each) for each in found.items)
    if not served.custom:
        prefix = _prefix(served.kind.kind, served.kind.api_version)
        shown = (b"{" + each[len(prefix) :] if each.startswith(prefix) else each for each in shown)
    return head[:-1] + b',"items":[' + b",".join(shown) + b"]}"


@functools.cache
def _prefix(kind: str, api_version: str) -> bytes:
    """How every stored object of a kind begins."""
    return bodies.encode({"kind": kind, "apiVersion": api_version})[:-1] + b","
