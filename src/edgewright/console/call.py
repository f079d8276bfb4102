"""One request to the REST API: its operation, what it says, who sent it, and the API server as that caller.

`server` creates one for each request and hands it to the operation's handler. It reads bodies within their limits and
builds answers; it decides nothing about objects.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from edgewright.console.identity import Caller, OidcSignIn, SignIn
from edgewright.console.kinds import Kinds
from edgewright.console.limits import Limits, Streams
from edgewright.console.operation import JSON, Operation
from edgewright.console.problems import Refusal
from edgewright.console.schemas import Schemas
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.config import NAMESPACE
from edgewright.runtime.errors import UNFIT
from edgewright.runtime.http_parser import Answer
from edgewright.runtime.objects import Kind, RawObject
from edgewright.runtime.transport import StaleConnection

if TYPE_CHECKING:
    from edgewright.console.fleet_index import FleetIndex
    from edgewright.console.shared_cache import SharedCache

_UNSAFE: Final = frozenset("/%\\")


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What the calls of one console have in common."""

    limits: Limits
    clock: Clock
    kinds: Kinds
    schemas: Schemas
    streams: Streams
    sign_in: SignIn | None = None
    oidc: OidcSignIn | None = None
    stopping: asyncio.Event
    cache: SharedCache | None = None
    """Our kinds, read once for all callers; None: every read goes out as its caller."""
    fleet: FleetIndex
    """What the shared cache's Devices are counted by."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request."""

    request: web.Request
    operation: Operation
    query: dict[str, str]
    shared: Shared
    caller: Caller | None = None
    server: Client | None = None

    @property
    def client(self) -> Client:
        """The API server, as the caller."""
        if self.server is None:
            raise AssertionError("unreachable: only public operations have no caller")
        return self.server

    def part(self, name: str) -> str:
        """A part of the path; one that cannot be a name leads nowhere."""
        value = self.request.match_info.get(name, "")
        if value in {".", ".."} or not _UNSAFE.isdisjoint(value) or not value.isprintable() or len(value) > 253:
            raise Refusal("not-found", f"the path has no {name}")
        return value

    async def kind(self, *, version: str = "") -> Kind:
        """The kind that the path names, where it belongs under such a path."""
        name = self.part("resource")
        kind = await self.shared.kinds.find(self.client, name, version=version)
        scope = self.operation.scope
        if scope == "namespaced" and not kind.namespaced:
            raise Refusal("not-found", f"{name} are not in namespaces: the path is /api/v1/{name}")
        if scope == "cluster" and kind.namespaced:
            raise Refusal("not-found", f"{name} are in namespaces: the path is /api/v1/namespaces/NAMESPACE/{name}")
        return kind

    async def body(self) -> bytes:
        """The body, whole, within the limits of size and time."""
        if self.request.content_type not in self.operation.body:
            taken = ", ".join(self.operation.body)
            raise Refusal("unsupported-media-type", f"the header Content-Type must be one of {taken}")
        try:
            async with asyncio.timeout(self.shared.limits.body_seconds):
                return await self.request.read()
        except TimeoutError:
            raise Refusal("bad-request", "the body did not come in time") from None
        except web.HTTPRequestEntityTooLarge:
            limit = self.shared.limits.body_bytes
            raise Refusal("too-large", f"the body has more than {limit} bytes") from None

    async def exchange(self, method: str, path: str, **settings: Any) -> Answer:
        """One request to the API server; a read on a connection that had gone stale is sent once more."""
        try:
            return await self.client.transport.exchange(method, path, **settings)
        except StaleConnection:
            if method != "GET":
                raise
            return await self.client.transport.exchange(method, path, **settings)


def decoded(body: bytes) -> Any:
    """The JSON of a body; a Refusal says where it is none."""
    try:
        return msgspec.json.decode(body)
    except UNFIT as error:
        raise Refusal("bad-request", f"the body is not JSON: {error}") from error


def answer(value: object, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """An answer in JSON."""
    return web.Response(status=status, body=msgspec.json.encode(value), content_type=JSON, headers=headers)


def shown(body: bytes | msgspec.Raw) -> RawObject:
    """An object or a list of the API server as kubectl shows it: without managedFields."""
    found: RawObject = msgspec.json.decode(body)
    for each in (found, *(found.get("items") or ())):
        each.get("metadata", {}).pop("managedFields", None)
    return found


def etag(obj: RawObject) -> dict[str, str]:
    """The header that names the state of an object."""
    version = obj.get("metadata", {}).get("resourceVersion", "")
    return {"ETag": f'"{version}"'} if version else {}


def segment(namespace: str | None) -> str | None:
    """A namespace that can stand in a path."""
    if namespace and not NAMESPACE.fullmatch(namespace):
        raise Refusal("not-found", f"there is no namespace {namespace[:63]!r}")
    return namespace or None


def warnings(headers: dict[str, str]) -> dict[str, str]:
    """What the API server wants the caller to know, such as a version that is going."""
    return {"Warning": headers["warning"]} if "warning" in headers else {}
