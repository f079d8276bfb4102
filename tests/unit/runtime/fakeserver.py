"""An API server on loopback that gives exactly the answers that a test wrote down, and remembers what it was asked.

For our reactions to answers that a real server cannot be made to give on command. What a real server does is tested in
tests/cluster; nothing here imitates it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from aiohttp import web

from edgewright.runtime.client import INITIAL_EVENTS_END
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.objects import Condition, Key, Kind, RawObject, Resource, Struct

PATH = "/apis/example.dev/v1/widgets"
"""Where widgets of all namespaces are listed."""
NESTED = b'{"metadata":{"name":"deep","namespace":"default"},"extra":' + b"[" * 5000 + b"]" * 5000 + b"}"
"""An object that is nested deeper than it can be read."""


class WidgetSpec(Struct, frozen=True, gc=False, kw_only=True):
    size: int = 0


class WidgetStatus(Struct, frozen=True, gc=False, kw_only=True):
    seen: int = 0
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Widget(Resource, frozen=True, gc=False, kw_only=True):
    kind: ClassVar[Kind] = Kind(group="example.dev", version="v1", kind="Widget", plural="widgets")

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus | None = None


def key(name: str, namespace: str = "default") -> Key:
    return Key(namespace, name)


def path_of(name: str, namespace: str = "default", subresource: str | None = None) -> str:
    return Widget.kind.path(namespace, name, subresource)


def widget(name: str, version: int, *, namespace: str = "default", uid: str = "", **spec: Any) -> RawObject:
    """A widget as the server would write it."""
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Widget",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-of-{name}",
            "resourceVersion": str(version),
            "generation": version,
        },
        "spec": {"size": 1, **spec},
    }


def typed(raw: RawObject) -> Widget:
    return msgspec.convert(raw, Widget)


def status_body(code: int, reason: str = "", message: str = "no") -> RawObject:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}


def line(kind: str, obj: object) -> bytes:
    """One line of a watch."""
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int, *, closes_list: bool = False) -> bytes:
    annotations = {INITIAL_EVENTS_END: "true"} if closes_list else {}
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


def streamed(*objects: RawObject, version: int) -> bytes:
    """A whole streamed list: the objects, and the bookmark that closes it."""
    return b"".join(line("ADDED", obj) for obj in objects) + bookmark(version, closes_list=True)


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(frozen=True)
class Json:
    """An answer with a whole body."""

    body: object
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """An answer with a body that need not be JSON."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Watch:
    """A long answer: bytes to send, events to wait for; in the end it hangs, ends in good order, or is cut."""

    def __init__(self, *parts: bytes | asyncio.Event, end: Literal["hang", "close", "cut"] = "hang") -> None:
        self.parts = parts
        self.end = end


Answer: TypeAlias = Json | Raw | Watch
Script: TypeAlias = Answer | Callable[[Asked], Answer | Awaitable[Answer]]


def refusal(code: int, reason: str = "", message: str = "no", *, retry_after: str | None = None) -> Json:
    return Json(status_body(code, reason, message), code, {} if retry_after is None else {"Retry-After": retry_after})


def listed(*objects: object, version: int, more: str = "") -> Json:
    """A page of a list."""
    return Json({"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(objects)})


class FakeServer:
    """Serves scripts by "METHOD path" (WATCH is a method here); the last answer of each is given for ever after."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.unexpected: list[str] = []
        self.url = ""
        self.closing = asyncio.Event()
        self._scripts: dict[str, deque[Script]] = defaultdict(deque)

    @property
    def config(self) -> Config:
        return Config(server=self.url)

    def on(self, what: str, *answers: Script) -> None:
        """Adds answers for e.g. "GET /apis/…"."""
        self._scripts[what].extend(answers)

    def watches(self) -> list[Asked]:
        return [each for each in self.asked if each.query.get("watch")]

    def lists(self) -> list[Asked]:
        return [each for each in self.asked if each.method == "GET" and not each.query.get("watch")]

    def writes(self) -> list[Asked]:
        return [each for each in self.asked if each.method != "GET"]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(request.method, request.path, dict(request.query), dict(request.headers), await request.read())
        self.asked.append(asked)
        what = f"{'WATCH' if asked.query.get('watch') else asked.method} {asked.path}"
        script = self._scripts[what]
        if not script:
            self.unexpected.append(what)
            return web.Response(status=500, text=f"{what} is not in the script")
        found = script.popleft() if len(script) > 1 else script[0]
        answer: Any = found(asked) if callable(found) else found
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, Json):
            return web.Response(body=msgspec.json.encode(answer.body), status=answer.status, headers=answer.headers)
        if isinstance(answer, Raw):
            return web.Response(body=answer.body, status=answer.status, headers=answer.headers)
        return await self._watch(request, answer)

    async def _watch(self, request: web.Request, answer: Watch) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"\n")  # so that the headers go out before anything happens
        for part in answer.parts:
            if isinstance(part, bytes):
                await response.write(part)
            else:
                await part.wait()
        if answer.end == "hang":
            await self.closing.wait()
        elif answer.end == "cut":
            assert request.transport is not None
            request.transport.close()
        return response


@asynccontextmanager
async def listening(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
    *,
    name: str,
    at_end: Callable[[], None] | None = None,
) -> AsyncIterator[str]:
    """The URL of a server that answers with `handle`; its connections are over afterwards."""
    application = web.Application(client_max_size=64 << 20)
    application.router.add_route("*", "/{path:.*}", handle)
    quiet = logging.getLogger(f"edgewright.tests.{name}")
    quiet.setLevel(logging.CRITICAL)
    runner = web.AppRunner(application, access_log=None, logger=quiet, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        if at_end is not None:
            at_end()
        await runner.cleanup()
        await asyncio.sleep(0)


@asynccontextmanager
async def fake_server() -> AsyncIterator[FakeServer]:
    """Runs one; at the end nothing may have been asked that was not in the script."""
    server = FakeServer()
    async with listening(server.handle, name="fakeserver", at_end=server.closing.set) as server.url:
        yield server
    assert not server.unexpected


class SocketServer:
    """Answers every request with the bytes that a test chose, and counts what it gets below HTTP."""

    def __init__(self, *answers: bytes) -> None:
        self.connections = 0
        self.received = b""
        self._answers = deque(answers)
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while chunk := await reader.read(65536):
                self.received += chunk
                if b"\r\n\r\n" in self.received and self._answers:
                    writer.write(self._answers.popleft())
                    await writer.drain()
                    if not self._answers:
                        return
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def socket_server(*answers: bytes) -> AsyncIterator[SocketServer]:
    """Runs one; after its last answer it closes the connection."""
    server = SocketServer(*answers)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    async with listener:
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        yield server
    await asyncio.sleep(0)


async def until(
    condition: Callable[[], object], *, clock: VirtualClock | None = None, step: float = 0.1, seconds: float = 60
) -> None:
    """Waits for I/O to make the condition true; with a clock, virtual time goes on in steps meanwhile."""
    async with asyncio.timeout(seconds):
        while not condition():
            if clock is not None:
                await clock.advance(step)
            await asyncio.sleep(0.001)


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """Runs a coroutine next to the block and ends it afterwards; what ended it earlier is raised."""
    task = asyncio.ensure_future(work)
    try:
        yield task
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
