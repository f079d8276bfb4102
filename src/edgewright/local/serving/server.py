"""The whole way of a request: who asks, for what, is it served, what is done, how is it answered.

`control_plane` creates one `Server` and opens its port. Each step is a module next to this one; a refusal of any of
them becomes a Status here. What the documents (discovery, OpenAPI) say is kept until the kinds change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from edgewright.local.access import impersonation
from edgewright.local.access.accounts import Accounts
from edgewright.local.access.authentication import ANONYMOUS, Authentication, User
from edgewright.local.errors import (
    Refusal,
    bad_request,
    internal_error,
    no_such_path,
    not_acceptable,
    not_found,
    too_large,
    too_many_requests,
)
from edgewright.local.history import Expired
from edgewright.local.served import Served
from edgewright.local.serving import (
    bodies,
    decode_errors,
    options,
    patches,
    query,
    reads,
    representations,
    routes,
    scale,
    target,
    warning_headers,
    watches,
)
from edgewright.local.serving.bodies import Answer
from edgewright.local.serving.deletes import Deletes, warnings
from edgewright.local.serving.evictions import Evictions
from edgewright.local.serving.listener import Connection
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.pages import Pages
from edgewright.local.serving.podlogs import OF_THE_NODE, PodLogs
from edgewright.local.serving.request_attributes import attributes
from edgewright.local.serving.scale_requests import Scales
from edgewright.local.serving.target import Target
from edgewright.local.serving.token_requests import TokenRequests
from edgewright.local.serving.write_request import WriteRequest
from edgewright.local.serving.writes import Writes, Written
from edgewright.local.store import StoreError
from edgewright.runtime import logs
from edgewright.runtime.objects import RawObject

log = logs.get("local.server")

_BODY_SECONDS: Final = 30.0
_READ_SECONDS: Final = 30.0
MAX_WATCHES: Final = 1000
# Whoever opens too many watches must not shut out what keeps the objects in order.
_UNLIMITED: Final = ("system:controllers", "system:node:")
_OWN_FAULT: Final = 500
_CREATED: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_HEADERS: Final = {"Cache-Control": "no-cache, private"}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is about a kind that is served."""

    request: web.BaseRequest
    target: Target
    served: Served
    user: User
    query: Mapping[str, str]

    @property
    def namespace(self) -> str:
        """The namespace of the path, empty for all or for kinds without."""
        return self.target.namespace

    @property
    def name(self) -> str:
        """The name in the path, empty for a collection."""
        return self.target.name


class Server:
    """Answers requests; `handle` is what the HTTP server calls for each."""

    def __init__(
        self,
        objects: Objects,
        authentication: Authentication,
        pages: Pages,
        pod_logs: PodLogs,
        accounts: Accounts,
    ) -> None:
        self._objects = objects
        self._authentication = authentication
        self._token_requests = TokenRequests(objects, accounts)
        self._pages = pages
        self._pod_logs = pod_logs
        self._writes = Writes(objects)
        self._deletes = Deletes(objects)
        self._scales = Scales(objects, self._writes)
        self._evictions = Evictions(objects, self._writes, self._deletes)
        self._watches = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request and its answer."""
        try:
            return await self._answer(request)
        except Refusal as refusal:
            return _status(refusal, request)
        except RecursionError:
            return _status(bad_request("the object is nested too deeply"), request)
        except StoreError as error:
            return _status(internal_error(str(error)), request)
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception as error:
            log.error("request failed", method=request.method, path=request.path, error=error)  # noqa: TRY400 - it has the traceback
            return _status(internal_error(f"{type(error).__name__}: the server's log says more"), request)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = target.decoded(request.rel_url.raw_path)
        pointed, asked = target.parse(path), query.parse(request.rel_url.raw_query_string)
        if not _runs_long(pointed, asked):
            query.check_timeout(asked)
        if (page := self._pages.open(path)) is not None:
            return page
        user = self._identify(request)
        self._objects.rights.check(attributes(request.method, path, pointed, asked), user)
        if pointed is None:
            return self._pages.show(request, path)
        if pointed.watch:
            pointed, asked = routes.watched(request.method, pointed, asked)
        served = self._objects.kinds.find(pointed.group, pointed.version, pointed.plural)
        if served is None or not routes.reaches(request.method, pointed, served):
            if pointed.group and not self._objects.kinds.has_builtin(pointed.group):
                return web.Response(status=404, text="404 page not found\n", headers=_HEADERS)
            raise no_such_path()
        call = Call(request=request, target=pointed, served=served, user=user, query=asked)
        try:
            response = await self._route(call)(call)
        except Refusal as refusal:
            response = _status(refusal, request)
        if served.deprecation and not response.prepared:
            response.headers.add("Warning", warning_headers.header(served.deprecation))
        return response

    def _identify(self, request: web.BaseRequest) -> User:
        """Who asks; a connection's certificate is read once."""
        connection = request.protocol
        peer = connection.peer() if isinstance(connection, Connection) else None
        user = self._authentication.identify(request.headers, peer)
        if isinstance(connection, Connection) and user is not ANONYMOUS:
            connection.recognise()
        return impersonation.acting(request.headers, user, self._objects.rights)

    def _route(self, call: Call) -> Callable[[Call], Awaitable[web.StreamResponse]]:
        """What is done for this method at this path."""
        verb, where = routes.verb(call.request.method, call.target, call.served), call.target
        if not where.subresource:
            return {
                "get": self._get,
                "list": self._list,
                "create": self._create,
                "update": self._update,
                "patch": self._patch,
                "delete": self._delete,
                "deletecollection": self._delete_all,
            }[verb]
        if where.subresource in OF_THE_NODE:
            return lambda call: self._pod_logs.answer(call.request, call.target, call.user)
        if where.subresource == "scale":
            return {"get": self._get_scale, "update": self._put_scale, "patch": self._patch_scale}[verb]
        if verb == "create":
            return {"eviction": self._evict, "token": self._token}.get(where.subresource, self._post_subresource)
        return {"get": self._get, "update": self._update, "patch": self._patch}[verb]

    # Reading

    async def _get(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, representations.OFFERED)
        stored = self._objects.get(call.served, call.namespace, call.name)
        if version := call.query.get("resourceVersion"):
            wanted = reads.version(version)
            if wanted > self._objects.store.revision:
                raise reads.too_large(wanted, self._objects.store.revision)
        if stored is None:
            raise not_found(call.served.kind, call.name)
        if answer.shape:
            obj = self._objects.read(call.served, stored)
            return _response(200, representations.one(self._objects, call.served, obj, answer, call.query), answer)
        return _response(200, bodies.reencode(self._objects.shown(call.served, stored), answer), answer)

    async def _list(self, call: Call) -> web.StreamResponse:
        asked = options.list_options(call.query)
        if asked.watch:
            return await self._watch(call, asked)
        answer = self._negotiate(call, representations.OFFERED)
        found = await reads.page(self._objects, call.served, call.namespace, asked)
        return _response(200, representations.many(self._objects, call.served, found, answer, call.query), answer)

    async def _watch(self, call: Call, asked: options.ListOptions) -> web.StreamResponse:
        answer = self._negotiate(call, (*representations.OF_A_LIST, *representations.OF_AN_OBJECT), watch=True)
        show, show_bookmark = representations.of_watch(self._objects, call.served, answer, call.query)
        watch = watches.Watch(
            objects=self._objects,
            served=call.served,
            namespace=call.namespace,
            options=asked,
            selection=reads.Selection(call.served, asked),
            show=show,
            show_bookmark=show_bookmark,
        )
        counted = not call.user.name.startswith(_UNLIMITED)
        if counted and self._watches >= MAX_WATCHES:
            raise too_many_requests(f"more than {MAX_WATCHES} watches are open", retry_after_seconds=5)
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "application/json"})
        if call.served.deprecation:
            response.headers.add("Warning", warning_headers.header(call.served.deprecation))
        self._watches += counted
        try:
            return await self._stream(call.request, response, watch)
        finally:
            self._watches -= counted

    async def _stream(
        self, request: web.BaseRequest, response: web.StreamResponse, watch: watches.Watch
    ) -> web.StreamResponse:
        try:
            subscription = watch.subscribe()
        except Expired as error:
            await response.prepare(request)
            await response.write(watches.expired_event(error))
            await response.write_eof()
            return response
        events = watch.events(subscription)
        try:
            response.enable_chunked_encoding()
            await response.prepare(request)
            async for lines in events:
                async with asyncio.timeout(_READ_SECONDS):  # who does not read for so long is cut
                    await response.write(lines)
            await response.write_eof()
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            await events.aclose()
            subscription.close()
        return response

    # Writing

    async def _create(self, call: Call) -> web.StreamResponse:
        # What is not stored has no metadata to show, nor a table of its own.
        answer = self._negotiate(call, representations.OF_AN_OBJECT if "get" in call.served.verbs else ())
        asked = self._asked(call, options.write_options(call.query, kind="CreateOptions"))
        body, duplicates = await self._decoded(call)
        if (place := call.served.rules.stands_for) is not None:
            return await self._post_elsewhere(call, place, body)
        return self._written(call, await self._writes.create(asked, body, duplicates), answer)

    async def _update(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, representations.OF_AN_OBJECT)
        asked = self._asked(call, options.write_options(call.query, kind="UpdateOptions"))
        body, duplicates = await self._decoded(call)
        return self._written(call, await self._writes.update(asked, body, duplicates), answer)

    async def _patch(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, representations.OF_AN_OBJECT)
        media, asked, body = await self._patching(call)
        if media == patches.APPLY:
            wanted, duplicates = patches.wanted(body)
            return self._written(call, await self._writes.apply(asked, wanted, duplicates), answer)
        patch = patches.parse(media, body, call.served, self._objects.kinds)
        written = await self._writes.patch(asked, patch.make, duplicates=patch.duplicates, shown=patch.shown)
        return self._written(call, written, answer)

    async def _patching(self, call: Call) -> tuple[str, WriteRequest, bytes]:
        """What a PATCH sends: of which kind it is, how it is to be done, and the patch itself."""
        media = patches.media_type(call.request.headers.get("Content-Type", ""), call.served)
        how = options.write_options(call.query, kind="PatchOptions", apply=media == patches.APPLY, patch=True)
        return media, self._asked(call, how), await _body(call.request)

    async def _delete(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, ())
        asked = options.delete_options(call.query, await self._optional(call))
        deleted = await self._deletes.delete(call.served, call.namespace, call.name, asked, user=call.user)
        told = deleted.gone and not call.served.rules.returns_deleted
        body = _success(call.served, deleted.obj) if told else deleted.obj
        return _response(200, bodies.encode(body, answer), answer, warnings(call.served, asked))

    async def _delete_all(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, ())
        asked = options.delete_options(call.query, await self._optional(call))
        found = await reads.page(self._objects, call.served, call.namespace, options.list_options(call.query))
        await self._deletes.delete_all(call.served, found.items, asked, user=call.user)
        body = representations.many(self._objects, call.served, found, answer, call.query)
        return _response(200, body, answer, warnings(call.served, asked))

    # Parts of objects that are objects of another kind

    async def _get_scale(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, representations.OF_AN_OBJECT)
        return self._scale(call, Written(obj=self._scales.get(call.served, call.namespace, call.name)), answer)

    async def _put_scale(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, representations.OF_AN_OBJECT)
        asked = self._asked(call, options.write_options(call.query, kind="UpdateOptions"))
        body, duplicates = await self._decoded(call)
        return self._scale(call, await self._scales.put(asked, body, duplicates), answer)

    async def _patch_scale(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, representations.OF_AN_OBJECT)
        media, asked, body = await self._patching(call)
        if media == patches.APPLY:
            return self._scale(call, await self._scales.apply(asked, patches.wanted(body)[0]), answer)
        patch = patches.parse(media, body, call.served, self._objects.kinds)
        return self._scale(call, await self._scales.patch(asked, patch.make, patch.duplicates), answer)

    def _scale(self, call: Call, written: Written, answer: Answer) -> web.Response:
        body = representations.one(self._objects, scale.served(call.served), written.obj, answer, call.query)
        return _response(200, body, answer, written.warnings)

    async def _post_elsewhere(self, call: Call, place: tuple[str, str], body: object) -> web.StreamResponse:
        """A kind that is only another way to a subresource (a Binding to its Pod)."""
        about = body.get("metadata") if isinstance(body, dict) else None
        name = about.get("name") if isinstance(about, dict) else None
        resource, subresource = place
        served = self._objects.kinds.stored_as(resource)
        if served is None or not isinstance(name, str) or not name:
            raise bad_request(f"a {call.served.kind.kind} must name the object that it is for")
        where = Target(
            group="", version="v1", plural=resource, namespace=call.namespace, name=name, subresource=subresource
        )
        return await self._post(
            Call(request=call.request, target=where, served=served, user=call.user, query=call.query), body
        )

    async def _evict(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, ())
        asked = self._asked(call, options.write_options(call.query, kind="CreateOptions"))
        body, _ = await self._decoded(call)
        await self._evictions.evict(asked, body, call.query, call.user)
        return _response(201, bodies.encode(_CREATED, answer), answer)

    async def _post_subresource(self, call: Call) -> web.StreamResponse:
        body, _ = await self._decoded(call)
        return await self._post(call, body)

    async def _token(self, call: Call) -> web.StreamResponse:
        answer = self._negotiate(call, ())
        asked = self._asked(call, options.write_options(call.query, kind="CreateOptions"))
        body, duplicates = await self._decoded(call)
        made, warnings = self._token_requests.answer(asked, body, duplicates)
        return _response(201, bodies.encode(made, answer), answer, warnings)

    async def _post(self, call: Call, body: object) -> web.StreamResponse:
        answer = self._negotiate(call, ())
        asked = self._asked(call, options.write_options(call.query, kind="CreateOptions"))
        rules = call.served.rules
        write = self._objects.write("create", subresource=call.target.subresource, user=call.user)

        def acted(obj: RawObject) -> RawObject:
            after = rules.act(obj, body, write) if isinstance(body, dict) else None
            if after is None:
                raise bad_request(f"the body of a POST to {call.target.subresource} is not what it takes")
            return after

        await self._writes.change(asked, acted, verb="act")
        return _response(201, bodies.encode(_CREATED, answer), answer)

    # Small parts

    async def _decoded(self, call: Call) -> tuple[Any, list[str]]:
        """The body of a write, which must be an object of the kind."""
        body = await _body(call.request)
        try:
            value, duplicates = self._decode(call, body)
        except bodies.Unreadable as error:
            raise decode_errors.unrecognised(call.served.kind, error.message, body) from None
        offered = next((each.kind for each in call.served.subresources if each.name == call.target.subresource), None)
        if call.served.custom:
            return value if offered else decode_errors.recognised_custom(value, body, call.served.kind), duplicates
        return decode_errors.recognised(value, body, offered or call.served.kind, self._objects.kinds), duplicates

    async def _optional(self, call: Call) -> Any:
        """The body of a deletion, where it has one."""
        body = await _body(call.request)
        return self._decode(call, body)[0] if body else None

    def _decode(self, call: Call, body: bytes) -> tuple[Any, list[str]]:
        known = self._objects.kinds.protobuf
        return bodies.decode(body, call.request.headers.get("Content-Type", ""), known)

    def _negotiate(self, call: Call, offered: Sequence[tuple[str, str, str]], *, watch: bool = False) -> Answer:
        pretty = call.query.get("pretty", "") not in {"", "false", "0"}
        accept = call.request.headers.get("Accept", "")
        if not call.served.custom:
            bodies.check_accepted(accept, streams=call.request.method == "GET" and not call.name)
        if watch:
            # A stream is one JSON object a line; what a client adds to say so changes nothing.
            accept = accept.replace(";stream=watch", "")
        answer = bodies.negotiate(accept, offered, pretty=pretty and not watch)
        if watch and answer.format != bodies.JSON:
            raise not_acceptable((f"{bodies.JSON};stream=watch",))
        return answer

    def _asked(self, call: Call, how: options.WriteOptions) -> WriteRequest:
        return WriteRequest(
            served=call.served,
            namespace=call.namespace,
            name=call.name,
            subresource=call.target.subresource,
            user=call.user,
            agent=call.request.headers.get("User-Agent", ""),
            options=how,
        )

    def _written(self, call: Call, written: Written, answer: Answer) -> web.Response:
        body = representations.one(self._objects, call.served, written.obj, answer, call.query)
        return _response(201 if written.created else 200, body, answer, written.warnings)


def _runs_long(pointed: Target | None, asked: Mapping[str, str]) -> bool:
    """Whether the time that a request names does not count: a watch or a log goes on for as long as somebody reads."""
    if pointed is None:
        return False
    return pointed.watch or pointed.subresource in OF_THE_NODE or bool(options.flag(asked, "watch"))


async def _body(request: web.BaseRequest) -> bytes:
    """What the client sends, no more than is taken, within a time."""
    if (request.content_length or 0) > bodies.LARGEST_BODY:
        raise too_large(f"limit is {bodies.LARGEST_BODY}")
    parts, size = [], 0
    try:
        if request.content.is_eof():  # it came with the head, as it mostly does: there is nothing to wait for
            body = request.content.read_nowait()
            if len(body) > bodies.LARGEST_BODY:
                raise too_large(f"limit is {bodies.LARGEST_BODY}")
            return body
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > bodies.LARGEST_BODY:
                    raise too_large(f"limit is {bodies.LARGEST_BODY}")
                parts.append(chunk)
    except TimeoutError:
        raise Refusal(408, "Timeout", "the body of the request did not come in time", {}) from None
    except web.RequestPayloadError as error:
        raise bad_request(f"the body of the request is not encoded as it says: {error}") from None
    return b"".join(parts)


def _response(code: int, body: bytes, answer: Answer, warnings: Sequence[str] = ()) -> web.Response:
    response = web.Response(status=code, body=body, headers={**_HEADERS, "Content-Type": answer.format})
    for each in warning_headers.headers(warnings):
        response.headers.add("Warning", each)
    return response


def _status(refusal: Refusal, request: web.BaseRequest) -> web.Response:
    if refusal.code == _OWN_FAULT and not refusal.reason:
        # So the real server calls what is wrong in some patches and new objects. It is the client's fault: with a 5xx
        # clients would send the same again, and nobody could tell it from a fault of the server.
        refusal = bad_request(refusal.message)
    answer = bodies.of_refusal(request.headers.get("Accept", ""))
    response = _response(refusal.code, bodies.encode(refusal.status(), answer), answer, refusal.warnings)
    if refusal.details and refusal.details.get("retryAfterSeconds"):
        response.headers["Retry-After"] = str(refusal.details["retryAfterSeconds"])
    return response


def _success(served: Served, obj: RawObject) -> RawObject:
    about = obj["metadata"]
    details = {
        "name": about["name"],
        "group": served.kind.group,
        "kind": served.kind.plural,
        "uid": about.get("uid", ""),
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }
