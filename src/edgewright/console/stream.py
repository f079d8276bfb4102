"""Watches as server-sent events: the present state, then every change, with ids by which a client goes on after a cut.

The id of an event is the resource version, so that any console, also one that was restarted, can go on from it; where
the API server has forgotten it, `reset` says so and the state comes again. A stream goes out with the caller's rights
and is asked for again every half minute: who loses the right sees no more. Our kinds come from the shared cache, where
there is one (`cached_stream`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final

from aiohttp import web

from edgewright.console.cached_stream import CachedStream
from edgewright.console.call import Call, shown
from edgewright.console.messages import message
from edgewright.console.operation import EVENT_STREAM
from edgewright.console.problems import Refusal, refusal_for
from edgewright.runtime.client import INITIAL_EVENTS_END, WatchEvents, read_metadata
from edgewright.runtime.errors import Expired, Forbidden, KubernetesError
from edgewright.runtime.objects import Kind

RETRY_MILLISECONDS: Final = 3000
_NAMES: Final = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "deleted"}
_ID: Final = re.compile(r"[1-9][0-9]{0,19}")


async def watch_objects(call: Call) -> web.StreamResponse:
    """Streams until the client goes, the console stops, or the time is over."""
    kind = await call.shared.kinds.find(call.client, call.query["of"])
    namespace = call.query.get("namespace")
    if namespace and not kind.namespaced:
        raise Refusal("bad-request", f"{kind.plural} are not in namespaces: leave the parameter namespace out")
    caller = call.caller.digest if call.caller else ""
    with call.shared.streams.opened(caller):
        async with aclosing(Changes(call, kind).run()) as source:
            # The first answer of the API server decides between 200 and a problem.
            first = await anext(source)
            response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM, "X-Accel-Buffering": "no"})
            with suppress(ConnectionError, TimeoutError):
                await response.prepare(call.request)
                await _write(call, response, f"retry: {RETRY_MILLISECONDS}\n\n".encode() + first)
                async with aclosing(_with_heartbeats(call, source)) as parts:
                    async for part in parts:
                        await _write(call, response, part)
    return response


async def _write(call: Call, response: web.StreamResponse, part: bytes) -> None:
    """Sends a part; a client that does not read is cut."""
    async with asyncio.timeout(call.shared.limits.write_seconds):
        await response.write(part)


async def _with_heartbeats(call: Call, source: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The parts of a stream, and a comment where none comes for a while; ends when the console stops."""
    stopping = asyncio.ensure_future(call.shared.stopping.wait())
    loop = asyncio.get_running_loop()
    end = loop.time() + call.shared.limits.stream_seconds
    following: asyncio.Future[bytes] | None = None
    try:
        while (left := end - loop.time()) > 0:
            following = following or asyncio.ensure_future(anext(source))
            patience = min(left, call.shared.limits.heartbeat)
            waited: set[asyncio.Future[Any]] = {following, stopping}
            done, _ = await asyncio.wait(waited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if stopping in done:
                return
            if following not in done:
                yield b": still here\n\n"
                continue
            try:
                part = following.result()
            except StopAsyncIteration:
                return
            finally:
                following = None
            yield part
    finally:
        stopping.cancel()
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


class Changes:
    """The parts of one stream."""

    def __init__(self, call: Call, kind: Kind) -> None:
        """From the event that the client saw last, where it names one."""
        self._call = call
        self._kind = kind
        last = call.request.headers.get("Last-Event-ID", "").strip()
        self._version = last if _ID.fullmatch(last) else ""
        self._reset = "the last event is not known here" if last and not self._version else ""

    async def run(self) -> AsyncGenerator[bytes, None]:
        """First of all what begins the stream (perhaps nothing), then changes; ends with a problem.

        Only before anything was told can a problem be the answer itself: later it is an event like others.
        """
        begun = False
        try:
            while True:
                # Each time again: a cache that was not kept up for a while saves a watch as soon as it is.
                cached = CachedStream(self._call, self._kind, version=self._version, reset=self._reset, goes_on=begun)
                async with aclosing(cached.run()) as parts:
                    async for part in parts:
                        begun = True
                        yield part
                self._version, self._reset = cached.version, cached.reset
                if not begun:
                    await self._check_place()
                async with aclosing(self._watch_once()) as parts:
                    async for part in parts:
                        begun = True
                        yield part
        except (KubernetesError, Refusal) as error:
            refusal = error if isinstance(error, Refusal) else refusal_for(error)
            if not begun:
                raise refusal from error
            yield message("problem", refusal.problem)

    async def _check_place(self) -> None:
        """Begins again where the place is ahead of the server, as after a restore: it would be silent until then."""
        if not self._version:
            return
        path = self._kind.path(self._call.query.get("namespace"))
        try:
            got = await self._call.exchange("GET", path, query={"limit": "1"})
        except Forbidden:  # who may watch and not list
            return
        now = read_metadata(got.body).resource_version
        if now.isdecimal() and int(self._version) > int(now):
            self._version, self._reset = "", "the last event is not known here"

    async def _watch_once(self) -> AsyncGenerator[bytes, None]:
        """One watch, for as long as a right counts without being looked at again; where it is too old, a new one."""
        query = self._call.query
        api = self._call.client.raw(self._kind)
        name = query.get("name", "")
        try:
            watch = api.watch(
                query.get("namespace"),
                resource_version=self._version,
                labels=query.get("labelSelector", ""),
                fields=f"metadata.name={name}" if name else "",
                initial=not self._version,
                seconds=self._call.shared.limits.recheck,
            )
            async with aclosing(watch):
                async for batch in watch:
                    # Not before the watch stands: only then is it sure that the caller may see it at all.
                    head = message("reset", {"reason": self._reset}) if self._reset else b""
                    self._reset = ""
                    yield head + b"".join(self._parts(batch))
        except Expired:
            self._version, self._reset = "", "too much has happened since the last event"

    def _parts(self, batch: WatchEvents) -> list[bytes]:
        parts: list[bytes] = []
        for event in batch:
            metadata = read_metadata(event.object)
            if event.type == "BOOKMARK":
                first = not self._version and INITIAL_EVENTS_END in metadata.annotations
                if first or self._version:
                    self._version = metadata.resource_version
                # An event without data moves the client's place and is not shown to its program.
                parts.append(
                    message("synced", {}, identifier=self._version) if first else f"id: {self._version}\n\n".encode()
                )
                continue
            # Before the state is whole there is no place to go on from.
            if self._version:
                self._version = metadata.resource_version
            name = _NAMES.get(event.type, event.type.lower())
            parts.append(message(name, shown(event.object), identifier=self._version))
        return parts
