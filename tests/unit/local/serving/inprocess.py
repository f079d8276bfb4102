"""The API server in the test's own process, without controllers and node: what a request does, and nothing else.

Tests of the request path use `serving`. Requests go over TLS and HTTP as any client's, as the administrator unless told
otherwise.
"""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from edgewright.local import builtin
from edgewright.local.access.authentication import Authentication
from edgewright.local.access.entrance import Entrance
from edgewright.local.custom.crd_controller import Definitions
from edgewright.local.kinds import Kinds
from edgewright.local.serving.listener import listen
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.pages import Pages
from edgewright.local.serving.podlogs import PodLogs
from edgewright.local.serving.server import Server
from edgewright.local.store import Store
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.health import Health


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    headers: Mapping[str, str]
    body: Any
    warnings: list[str]


class Api:
    """A running server and a client of it."""

    authentication: Authentication
    """Who knows the tokens; a test may have it know others too."""

    def __init__(
        self, store: Store, kinds: Kinds, url: str, session: aiohttp.ClientSession, tls: ssl.SSLContext
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.url = url
        self.session = session
        self.tls = tls

    async def __call__(
        self, method: str, path: str, body: Any = None, *, media: str = "application/json", **headers: str
    ) -> Answer:
        """One request; a body that is not bytes is sent as JSON."""
        data: Any = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        data = io.BytesIO(data) if data is not None and len(data) > 1_000_000 else data
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            given.setdefault("Content-Type", media)
        async with self.session.request(method, self.url + path, data=data, headers=given, ssl=self.tls) as response:
            text = await response.read()
            warnings = response.headers.getall("Warning", [])
            shown = json.loads(text) if "json" in response.headers.get("Content-Type", "") and text else text.decode()
            return Answer(response.status, response.headers, shown, warnings)

    async def made(self, path: str, body: Any) -> Any:
        """Creates an object that must be good."""
        answer = await self("POST", path, body)
        assert answer.code == 201, answer.body
        return answer.body


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[Api]:
    """A server with the namespace `default`."""
    clock = SystemClock()
    store = await Store.open(directory / "data", clock=clock)
    try:
        entrance = Entrance(directory / "data", host="127.0.0.1", clock=clock)
        kinds = Kinds(builtin.served(), builtin.definitions())
        definitions = Definitions(store, kinds, clock=clock)
        definitions.load()
        objects = Objects(store, kinds, clock)
        accounts = entrance.accounts(objects.find)
        objects.recognise = entrance.authentication.recognise
        pages, pod_logs = Pages(kinds, Health(), "127.0.0.1:1"), PodLogs(objects, None)
        server = Server(objects, entrance.authentication, pages, pod_logs, accounts)
        listener = await listen(server.handle, host="127.0.0.1", port=0, tls=entrance.tls)
        try:
            async with aiohttp.ClientSession() as session:
                api = Api(store, kinds, f"https://127.0.0.1:{listener.port}", session, entrance.component("test"))
                api.authentication = entrance.authentication
                await api.made("/api/v1/namespaces", namespace("default"))
                yield api
        finally:
            await listener.close(store.history.close)
    finally:
        await store.close()


def namespace(name: str) -> dict[str, Any]:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_map(name: str, /, labels: Mapping[str, str] | None = None, **data: str) -> dict[str, Any]:
    """A ConfigMap, the plainest of all objects."""
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
