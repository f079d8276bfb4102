"""Typed access to one Kubernetes API server: get, list, watch, create, apply, patch, delete.

`client.of(FlashJob)` gives the verbs for a typed kind, `client.raw(KIND)` the same for plain JSON objects. Reads
return frozen structs with only the fields that we use, so writes never send a whole typed object back: they create,
apply or patch; `replace` exists for raw objects only. Under a lease every write must carry a precondition; one
without is refused here. The flow is watch → cache → queue → reconcile → write: this module is its first and its last
step.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from edgewright.runtime.clock import Clock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import (
    UNFIT,
    Conflict,
    Invalid,
    KubernetesError,
    NotFound,
    Undecodable,
    error_for,
    status_from,
)
from edgewright.runtime.fence import Fence
from edgewright.runtime.objects import Key, Kind, ObjectMeta, RawObject, Resource
from edgewright.runtime.patches import JsonPatch, MergePatch, conditional, merge_diff
from edgewright.runtime.transport import Transport

T = TypeVar("T")
R = TypeVar("R", bound=Resource)

FIELD_MANAGER = "edgewright"
PAGE_SIZE = 500
_LARGEST_WATCH_LINE = 32 << 20
_PATCH_TYPES = {list: "application/json-patch+json", dict: "application/merge-patch+json"}

Propagation = Literal["Foreground", "Background", "Orphan"]


class Partial(msgspec.Struct, frozen=True, gc=False):
    """An object of which only the metadata is of interest, or can be read."""

    metadata: ObjectMeta = ObjectMeta()


class _Identity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct, frozen=True, gc=False):
    """As `Partial`, for an object in whose metadata something else does not fit: which one it is can still be told."""

    metadata: _Identity = _Identity()


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One line of a watch; the object is still JSON, because its type depends on the event's."""

    type: str
    object: msgspec.Raw


WatchEvents: TypeAlias = list[WatchEvent]


class _ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Envelope(msgspec.Struct, Generic[T], frozen=True, gc=False):
    metadata: _ListMeta
    items: list[T] | None = None


@dataclass(frozen=True)
class Unread:
    """An object that the server has and that does not fit our type: which one, and why."""

    key: Key
    resource_version: str
    problem: str


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list, or a whole one."""

    items: list[T]
    resource_version: str
    unread: list[Unread] = field(default_factory=list)


class Client:
    """The verbs of one API server. Cheap to make: connections are opened when they are needed."""

    def __init__(
        self,
        config: Config,
        *,
        connections: int = 16,
        timeout: float = 30.0,
        retries: int = 5,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.transport = Transport(config, connections=connections, timeout=timeout, retries=retries, clock=clock)
        self._typed: dict[type[Resource], Api[Any]] = {}

    def fenced(self, fence: Fence, *, connections: int = 16) -> Client:
        """A client for the same server, with connections of its own, that sends nothing after the fence's deadline."""
        sibling = Client(self.config)
        sibling.transport = self.transport.fenced(fence, connections=connections)
        return sibling

    def of(self, resource: type[R]) -> Api[R]:
        """The verbs for a typed kind."""
        api = self._typed.get(resource)
        if api is None:
            api = self._typed[resource] = Api(self.transport, resource.kind, resource)
        return api

    def raw(self, kind: Kind) -> RawApi:
        """The verbs for a kind as plain JSON objects, with every field that the server has."""
        return RawApi(self.transport, kind, dict)

    async def get_path(self, path: str) -> bytes:
        """The body of any path of the server, such as /version or /readyz."""
        return await self.transport.request("GET", path)

    async def close(self) -> None:
        """Closes every connection."""
        await self.transport.close()

    async def __aenter__(self) -> Client:
        """For `async with`: closes at the end."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes every connection."""
        await self.close()


class Api(Generic[T]):
    """The verbs for one kind; every method is one request unless it says otherwise."""

    def __init__(self, transport: Transport, kind: Kind, decoded_as: Any) -> None:
        self.kind = kind
        self._transport = transport
        self._one = msgspec.json.Decoder(decoded_as)
        self._many = msgspec.json.Decoder(_Envelope[decoded_as])

    # --- reading ---------------------------------------------------------------------------------------------------

    async def get(self, key: Key, *, subresource: str | None = None) -> T:
        """The object as it is now, past every cache."""
        return self.decode(await self._transport.request("GET", self._path(key, subresource)))

    async def list(self, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Page[T]:
        """All objects (several requests where there are many), in one consistent state of the server."""
        items: list[T] = []
        unread: list[Unread] = []
        version = ""
        async for page in self.pages(namespace, labels=labels, fields=fields):
            items += page.items
            unread += page.unread
            version = page.resource_version
        return Page(items, version, unread)

    async def pages(
        self, namespace: str | None = None, *, labels: str = "", fields: str = "", size: int = PAGE_SIZE
    ) -> AsyncIterator[Page[T]]:
        """All objects, page by page (size 0: in one); Expired where the server forgets the list in between."""
        query = {**({"limit": str(size)} if size else {}), **_selectors(labels, fields)}
        path = self.kind.path(namespace)
        while True:
            body = await self._transport.request("GET", path, query=query, timeout=60.0)
            page, token = self._decode_page(body)
            yield page
            if not token:
                return
            query["continue"] = token

    async def watch(
        self,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        initial: bool = False,
        seconds: float | None = None,
    ) -> AsyncGenerator[WatchEvents, None]:
        """What happens from `resource_version` on, a batch of events at a time, until server or network end it.

        The first batch is empty and says that the watch stands. With `initial` the present objects come first, closed
        by a bookmark with the annotation INITIAL_EVENTS_END. An ERROR event is raised as the typed error that it
        carries (Expired, say); a broken connection as Unreachable.
        """
        # Random, so that the watches of many processes do not come back to a restarted server together for ever after.
        seconds = seconds or random.uniform(300, 600)  # noqa: S311 - not a secret
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(max(1, int(seconds)))}
        query.update(_selectors(labels, fields))
        if initial:
            query.update(sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
        if resource_version:
            query["resourceVersion"] = resource_version
        path = self.kind.path(namespace)
        async with self._transport.stream(path, query, seconds=seconds + 30) as content:
            yield []
            pending: list[bytes] = []
            async for chunk in content:
                head, newline, tail = chunk.rpartition(b"\n")
                pending.append(head)
                if not newline:
                    pending[-1] = tail
                    if sum(map(len, pending)) > _LARGEST_WATCH_LINE:
                        raise Undecodable(f"GET {path}: a watch event of more than {_LARGEST_WATCH_LINE >> 20} MiB")
                    continue
                lines = b"".join(pending).split(b"\n")
                pending = [tail] if tail else []
                batch: WatchEvents = []
                try:
                    batch += (self._event(line) for line in lines if line)
                except KubernetesError:
                    yield batch  # what came before it in the same breath has happened
                    raise
                yield batch

    def decode(self, body: bytes | msgspec.Raw) -> T:
        """The object in a body; Undecodable names it where it does not fit our type."""
        try:
            return self._one.decode(body)  # type: ignore[no-any-return]
        except UNFIT as error:
            raise Undecodable(f"{self.kind} {read_metadata(body).name}: {error}") from error

    # --- writing ---------------------------------------------------------------------------------------------------

    async def create(self, obj: T, *, dry_run: bool = False) -> T:
        """Makes a new object; AlreadyExists where the name is taken."""
        body = self._encode(obj)
        metadata = body.get("metadata", {})
        if self._transport.fence is not None and not metadata.get("name"):
            raise ValueError(f"{self.kind}: under a lease an object is created with a fixed name, never generateName")
        query = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        path = self.kind.path(metadata.get("namespace"))
        return self.decode(await self._send("POST", path, query, body, "application/json"))

    async def apply(
        self,
        obj: T,
        *,
        manager: str = FIELD_MANAGER,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> T:
        """Server-side apply: sets these fields, and creates the object where it is missing; leaves others alone."""
        body = self._encode(obj)
        metadata = body["metadata"]
        uid = metadata.get("uid", "")
        if subresource is None and self._transport.fence is not None and not uid:
            # With a resource version alone the server would create an object again that was deleted meanwhile.
            raise ValueError(f"{self.kind}: under a lease an apply needs a uid as a precondition")
        self._demand_condition("apply", metadata.get("resourceVersion", ""), uid, subresource)
        query = {
            "fieldManager": manager,
            **({"force": "true"} if force else {}),
            **({"dryRun": "All"} if dry_run else {}),
        }
        path = self._path(Key(metadata.get("namespace", ""), metadata["name"]), subresource)
        return self.decode(await self._send_patch(path, query, body, "application/apply-patch+yaml", uid=uid))

    async def patch(
        self,
        key: Key,
        change: MergePatch | JsonPatch,
        *,
        resource_version: str = "",
        uid: str = "",
        subresource: str | None = None,
    ) -> T:
        """Changes an object by a JSON merge patch (a dict) or a JSON patch (a list); Conflict where it is another."""
        self._demand_condition("patch", resource_version, uid, subresource)
        body = conditional(change, resource_version=resource_version, uid=uid)
        query = {"fieldManager": FIELD_MANAGER}
        content_type = _PATCH_TYPES[type(change)]
        return self.decode(await self._send_patch(self._path(key, subresource), query, body, content_type, uid=uid))

    async def delete(
        self,
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: Propagation | None = None,
    ) -> None:
        """Asks for the object's deletion; NotFound where it is gone, Conflict where it is another one by now."""
        self._demand_condition("delete", resource_version, uid)
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {n: v for n, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        await self._send("DELETE", self._path(key), None, options, "application/json")

    async def write_status(self, obj: T, status: msgspec.Struct) -> T:
        """Makes the status of `obj` this one, unless somebody changed it since; no request if it is so already."""
        # Structs only: a raw object's status holds fields that a struct does not know and must not erase.
        before = getattr(obj, "status", None)
        change = merge_diff({} if before is None else msgspec.to_builtins(before), msgspec.to_builtins(status))
        return await self.change(obj, {"status": change}, subresource="status") if change else obj

    async def change(self, obj: T, change: MergePatch, *, subresource: str | None = None) -> T:
        """Changes an object that was read, unless somebody changed it since."""
        metadata: ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        key, version = Key(metadata.namespace, metadata.name), metadata.resource_version
        return await self.patch(key, change, resource_version=version, subresource=subresource)

    async def discard(self, obj: T, *, propagation: Propagation | None = None) -> None:
        """Asks for the deletion of an object that was read, and of no other of its name; one that is gone is fine."""
        metadata: ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        with suppress(NotFound):
            await self.delete(Key(metadata.namespace, metadata.name), uid=metadata.uid, propagation=propagation)

    # --- inside ----------------------------------------------------------------------------------------------------

    async def _send(
        self, method: str, path: str, query: Mapping[str, str] | None, body: object, content_type: str
    ) -> bytes:
        return await self._transport.request(
            method, path, query=query, body=msgspec.json.encode(body), content_type=content_type
        )

    async def _send_patch(
        self, path: str, query: Mapping[str, str], body: object, content_type: str, *, uid: str
    ) -> bytes:
        try:
            return await self._send("PATCH", path, query, body, content_type)
        except Invalid as error:
            if uid and any(cause.field == "metadata.uid" for cause in error.causes):
                # To the server a patch with another uid is a try to change it; to the caller it is a condition.
                status = msgspec.structs.replace(error.status, code=409, reason=Conflict.reason)
                raise Conflict(status, request=error.request) from error
            raise

    def _path(self, key: Key, subresource: str | None = None) -> str:
        return self.kind.path(key.namespace, key.name, subresource)

    def _encode(self, obj: Any) -> RawObject:
        return obj.to_raw() if isinstance(obj, Resource) else obj

    def _demand_condition(self, verb: str, resource_version: str, uid: str, subresource: str | None = None) -> None:
        if subresource is not None and uid and not resource_version:
            # Tried on 1.36: the server takes the metadata of the object that is there and compares no uid.
            raise ValueError(
                f"{self.kind}: a {verb} of {subresource} is not conditional by uid: give a resource version"
            )
        if self._transport.fence is not None and not (resource_version or uid):
            raise ValueError(f"{self.kind}: under a lease a {verb} needs a resource version or a uid as a precondition")

    def _event(self, line: bytes) -> WatchEvent:
        try:
            event = _decode_event(line)
        except UNFIT as error:
            raise Undecodable(f"{self.kind}: a watch event is not JSON: {error}") from error
        if event.type == "ERROR":
            raise error_for(status_from(None, event.object), request=f"watch of {self.kind}")
        return event

    def _decode_page(self, body: bytes) -> tuple[Page[T], str]:
        try:
            whole = self._many.decode(body)
        except msgspec.ValidationError:
            return self._decode_page_one_by_one(body)
        except UNFIT as error:
            raise Undecodable(f"list of {self.kind}: {error}") from error
        return Page(whole.items or [], whole.metadata.resource_version), whole.metadata.continue_

    def _decode_page_one_by_one(self, body: bytes) -> tuple[Page[T], str]:
        """The slow way, for a page with an object that does not fit: that one is reported, the others are kept."""
        try:
            envelope = _decode_raw_envelope(body)
        except UNFIT as error:
            raise Undecodable(f"list of {self.kind}: {error}") from error
        page: Page[T] = Page([], envelope.metadata.resource_version)
        for item in envelope.items or ():
            try:
                page.items.append(self._one.decode(item))
            except UNFIT as error:
                metadata = read_metadata(item)
                key = Key(metadata.namespace, metadata.name)
                page.unread.append(Unread(key, metadata.resource_version, str(error)))
        return page, envelope.metadata.continue_


class RawApi(Api[RawObject]):
    """The verbs for plain JSON objects, which are whole and can therefore be replaced."""

    async def replace(self, obj: RawObject, *, subresource: str | None = None) -> RawObject:
        """Puts this object in the place of the one that has its name and resource version."""
        metadata = obj["metadata"]
        self._demand_condition("replace", metadata.get("resourceVersion", ""), metadata.get("uid", ""))
        path = self._path(Key(metadata.get("namespace", ""), metadata["name"]), subresource)
        return self.decode(await self._send("PUT", path, {"fieldManager": FIELD_MANAGER}, obj, "application/json"))


INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_decode_event = msgspec.json.Decoder(WatchEvent).decode
_decode_partial = msgspec.json.Decoder(Partial).decode
_decode_identified = msgspec.json.Decoder(_Identified).decode
_decode_raw_envelope = msgspec.json.Decoder(_Envelope[msgspec.Raw]).decode


def read_metadata(body: bytes | msgspec.Raw) -> ObjectMeta:
    """As much of an object's metadata as can be read; empty where nothing can."""
    for decode in (_decode_partial, _decode_identified):
        try:
            found = decode(body).metadata
        except UNFIT:
            continue
        return found if isinstance(found, ObjectMeta) else ObjectMeta(**msgspec.structs.asdict(found))
    return ObjectMeta()


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
