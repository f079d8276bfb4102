"""A real receiver of webhooks for the tests, which checks requests with the code that the docs show."""

from __future__ import annotations

import importlib.util
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from aiohttp import web

from tests.documents import ROOT

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EXAMPLE = ROOT / "docs/examples/webhook/receiver.py"


def example() -> ModuleType:
    """The receiver of the docs, as a module."""
    spec = importlib.util.spec_from_file_location("receiver", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass
class Receiver:
    """What came, and what is answered."""

    port: int = field(default_factory=free_port)
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
    """In place of 204."""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    """Those that were taken, once for each request."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?of=rollouts"

    @property
    def types(self) -> list[str]:
        """What was told, in order."""
        return [each["type"].removeprefix("dev.edgewright.rollout.") for each in self.events]

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        assert (request.method, str(request.rel_url)) == ("POST", "/hook?of=rollouts")
        self.requests.append(({name.lower(): value for name, value in request.headers.items()}, body))
        if self.answer is not None:
            return await self.answer(request)
        event = example().verify([SECRET], request.headers, body, time.time())
        assert event == json.loads(body)
        self.events.append(event)
        return web.Response(status=204)

    @asynccontextmanager
    async def up(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        """Listens within the block."""
        runner = web.AppRunner(web.Application(handler_args={}), shutdown_timeout=0.1)
        runner.app.router.add_route("*", "/{path:.*}", self._take)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=tls).start()
            yield
        finally:
            await runner.cleanup()
