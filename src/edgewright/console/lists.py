"""Lists of custom resources: page by page, searched and ordered, over all namespaces that the caller may see.

A list comes from the shared cache, where it has the kind; else it is one request to the API server with the caller's
rights, or, to search or to order it, a request for each of its pages. What the API server refuses is raised, and
becomes a problem in `server`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import web

from edgewright.console import search
from edgewright.console.call import Call, answer, segment, shown, warnings
from edgewright.console.kind_cache import Shown, ShownApi
from edgewright.console.operation import JSON
from edgewright.console.problems import Refusal
from edgewright.console.shared_cache import selector
from edgewright.console.views import view_for
from edgewright.runtime.objects import Kind

PAGE_SIZE: Final = 500
MAX_READ: Final = 20_000
"""So many objects that are not in the shared cache are read to search or to order them."""


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """Which part of a list is asked for."""

    namespace: str | None
    labels: str
    fields: str
    q: str
    sort: str
    place: str
    limit: int

    @property
    def arranged(self) -> bool:
        """Whether it is a list that the API server does not make."""
        return bool(self.q or self.sort) or search.is_token(self.place)


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Objects in the order of lists, and the state of the server that they are from."""

    objects: list[Shown]
    version: str


async def list_objects(call: Call) -> web.Response:
    """One page of a list."""
    kind = await call.kind()
    wanted = _wanted(call, kind)
    source = await _cached(call, kind, wanted)
    if source is None and wanted.arranged:
        source = await _read(call, kind, wanted)
    if source is None:
        got = await call.exchange("GET", kind.path(wanted.namespace), query=_passed_on(wanted))
        return answer(shown(got.body), headers=warnings(got.headers))
    after = search.place_of(wanted.place, wanted.sort) if wanted.place else ()
    page = await search.page_of(source.objects, query=wanted.q, sort=wanted.sort, after=after, limit=wanted.limit)
    return _answer(kind, source.version, page)


def _wanted(call: Call, kind: Kind) -> _Wanted:
    query = call.query
    namespace = call.part("namespace") or query.get("namespace")
    if namespace and not kind.namespaced:
        raise Refusal("bad-request", f"{kind.plural} are not in namespaces: leave the parameter namespace out")
    wanted = _Wanted(
        namespace=segment(namespace),
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        q=query.get("q", "").strip(),
        sort=query.get("sort", ""),
        place=query.get("continue", ""),
        limit=int(query.get("limit", PAGE_SIZE)),
    )
    if wanted.arranged and wanted.place:
        search.place_of(wanted.place, wanted.sort)  # nothing is read for a place that is none
    return wanted


async def _cached(call: Call, kind: Kind, wanted: _Wanted) -> _Source | None:
    """The list from the shared cache; None where it is not there, or where the API server's pages are better."""
    chosen = selector(wanted.labels)
    if chosen is None or wanted.fields or (wanted.place and not wanted.arranged):
        return None
    view = await view_for(call, kind, "list", wanted.namespace)
    if view is None:
        return None
    found = view.select(wanted.namespace or "", chosen.matches if chosen.requirements else None)
    if view.whole and not wanted.arranged and len(found) > wanted.limit:
        return None  # the API server's pages are all of one state
    return _Source(objects=found, version=str(view.kept.version))


async def _read(call: Call, kind: Kind, wanted: _Wanted) -> _Source:
    """The whole list, as the caller."""
    found: list[Shown] = []
    version = ""
    pages = ShownApi(call.client, kind).pages(wanted.namespace, labels=wanted.labels, fields=wanted.fields)
    async for page in pages:
        found += page.items
        version = page.resource_version
        if len(found) > MAX_READ:
            raise Refusal(
                "bad-request",
                f"there are more than {MAX_READ} {kind.plural} to search or to order: name a namespace or labels",
            )
    return _Source(objects=found, version=version)


def _passed_on(wanted: _Wanted) -> dict[str, str]:
    """The query of the same list at the API server."""
    query = {"labelSelector": wanted.labels, "fieldSelector": wanted.fields, "continue": wanted.place}
    return {name: value for name, value in query.items() if value} | {"limit": str(wanted.limit)}


def _answer(kind: Kind, version: str, page: search.Page) -> web.Response:
    """A page, as the API server writes one."""
    about: dict[str, Any] = {"continue": page.following, "resourceVersion": version}
    if page.remaining:
        about["remainingItemCount"] = page.remaining
    head = {"apiVersion": kind.api_version, "kind": f"{kind.kind}List", "metadata": about}
    items = b",".join(each.body for each in page.items)
    body = msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}"
    return web.Response(body=body, content_type=JSON)
