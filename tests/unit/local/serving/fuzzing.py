"""One API server for many random requests, and what must hold for the answer to each of them.

The fuzz tests ask through `Fuzzed`. The server lives in one event loop for the whole module, since starting one takes
longer than a hundred requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from edgewright.local.custom.conditions import is_true
from edgewright.local.custom.crd_controller import RESOURCE, Definitions
from edgewright.local.serving import bodies
from edgewright.runtime.clock import SystemClock
from tests.harness.waiting import wait_until_async
from tests.unit.local.custom import samples
from tests.unit.local.serving.inprocess import Answer, Api, serving

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = f"/apis/{samples.GROUP}/v1/namespaces/default/widgets"
WIDGET: dict[str, Any] = {
    "apiVersion": f"{samples.GROUP}/v1",
    "kind": "Widget",
    "metadata": {"name": "base"},
    "spec": {"size": 3, "color": "red", "replicas": 2, "rows": [{"k": "a"}, {"k": "b"}], "labels": {"x": "y"}},
}
MAX = 60.0
"""Seconds that no request may take, on a slow machine either."""
_NO_REPLICAS = "the spec replicas field"  # of which there is no Scale; the real server answers the same
_TOO_NEW = 504  # a resourceVersion that the server has not seen yet; the real server answers the same


_UNHELD = {"metadata": {"finalizers": None}}


class Fuzzed:
    """A running server that is asked from synchronous code."""

    def __init__(self, runner: asyncio.Runner, api: Api) -> None:
        self._runner = runner
        self.api = api

    def ask(self, method: str, path: str, body: Any = None, **settings: Any) -> Answer:
        """A request whose answer must be one: in time, no fault of the server, and a refusal changes nothing."""

        async def asked() -> Answer:
            before = self.api.store.revision
            async with asyncio.timeout(MAX):
                answer = await self.api(method, path, body, **settings)
            self._check(answer.code, answer.body, before)
            return answer

        return self._runner.run(asked())

    def send(self, content: bytes, *, end: bool = True) -> tuple[int, bytes]:
        """Sends bytes on a connection of their own and gives the status of the answer, which there must be, and it.

        With `end` the client sends nothing more; else it waits for the answer with the connection open.
        """

        async def sent() -> tuple[int, bytes]:
            before = self.api.store.revision
            port = int(self.api.url.rpartition(":")[2])
            async with asyncio.timeout(MAX):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=self.api.tls)
                try:
                    writer.write(content)
                    with suppress(ConnectionError):
                        await writer.drain()
                    head = await reader.readuntil(b"\r\n\r\n")
                    rest = await _rest(reader, head) if end else b""
                finally:
                    writer.close()
                    with suppress(ConnectionError, OSError):
                        await writer.wait_closed()
            code = int(head.split(b" ", 2)[1])
            self._check(code, None, before)
            return code, rest

        return self._runner.run(sent())

    def _check(self, code: int, body: Any, before: int) -> None:
        assert code < 500 or code == _TOO_NEW or _NO_REPLICAS in str(body), body
        if code >= 400:
            assert self.api.store.revision == before, body
            if isinstance(body, dict):
                assert (body["kind"], body["status"], body["code"]) == ("Status", "Failure", code)

    def remove(self, path: str) -> None:
        """Removes an object, whatever holds it."""
        self.ask("DELETE", f"{path}?gracePeriodSeconds=0")
        if "/customresourcedefinitions/" in path:
            self._runner.run(self._until_gone(path))
            return
        if self.ask("GET", path).code == 200:
            self.ask("PATCH", path, _UNHELD, media="application/merge-patch+json")
        if self.ask("GET", path).code == 200:
            assert path.startswith("/api/v1/namespaces/")
            self.ask("PUT", f"{path}/finalize", {"metadata": {"name": path.rpartition("/")[2]}})

    async def _until_gone(self, path: str) -> None:
        """A definition goes by itself, with writes of its own at any moment: no answer tells that nothing changed."""
        async with asyncio.timeout(MAX):
            while (await self.api("GET", path)).code == 200:
                await self.api("PATCH", path, _UNHELD, media="application/merge-patch+json")

    def readable(self, collection: str, name: str) -> None:
        """Whatever was accepted can be read in every form, and found."""
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        for accept in (table, "application/yaml", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"):
            assert self.ask("GET", f"{collection}/{name}", Accept=accept).code == 200
        assert self.ask("GET", collection, Accept=table).code == 200

    def settled(self, name: str) -> bool:
        """Waits until a definition has been looked at, and says whether its kind is served."""

        async def waited() -> bool:
            async with asyncio.timeout(MAX):
                while True:
                    crd = next((each for each in self._definitions() if each["metadata"]["name"] == name), None)
                    conditions = (crd or {}).get("status", {}).get("conditions") or []
                    if crd is None or {each["type"] for each in conditions} >= {"NamesAccepted", "Established"}:
                        return crd is not None and is_true(crd, "Established")
                    await asyncio.sleep(0.005)

        return self._runner.run(waited())

    def quiet(self) -> None:
        """Waits until whoever follows definitions has written what it had to."""

        async def waited() -> None:
            revision = -1
            while revision != self.api.store.revision:
                revision = self.api.store.revision
                await asyncio.sleep(0.03)

        self._runner.run(waited())

    def version(self, path: str) -> str:
        """The version of an object that is there."""
        return str(self.ask("GET", path).body["metadata"]["resourceVersion"])

    def gone(self, name: str) -> None:
        """Deletes a definition and waits until it and its objects are gone."""
        self.ask("DELETE", f"{DEFINITIONS}/{name}")

        async def waited() -> None:
            async with asyncio.timeout(MAX):
                await wait_until_async(
                    lambda: all(each["metadata"]["name"] != name for each in self._definitions()),
                    what=f"{name} is gone",
                    interval=0.005,
                )

        self._runner.run(waited())

    def _definitions(self) -> Iterator[dict[str, Any]]:
        for each in self.api.store.list(RESOURCE).items:
            yield bodies.decode_stored(each.body)


async def _rest(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """The body of an answer."""
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if b"content-length" not in fields:
        return b""
    return await reader.readexactly(int(fields[b"content-length"]))


def fuzzed(directory: Path) -> Iterator[Fuzzed]:
    """A server with a custom kind and an object of it, for a fixture."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def opened() -> tuple[Api, asyncio.Task[None]]:
            api = await stack.enter_async_context(serving(directory))
            following = asyncio.create_task(Definitions(api.store, api.kinds, clock=SystemClock()).run())
            await api.made("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            definition = samples.widgets()
            definition["metadata"] = {"name": definition["metadata"]["name"]}
            await api.made(DEFINITIONS, definition)
            return api, following

        async def closed(following: asyncio.Task[None]) -> None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            await stack.aclose()

        api, following = runner.run(opened())
        try:
            made = Fuzzed(runner, api)
            assert made.settled(f"widgets.{samples.GROUP}")
            assert made.ask("POST", WIDGETS, WIDGET).code == 201
            yield made
        finally:
            runner.run(closed(following))


def encoded(obj: Any) -> bytes:
    """JSON with surrogates and infinities as they are in Python."""
    return json.dumps(obj).encode("utf-8", "surrogatepass")
