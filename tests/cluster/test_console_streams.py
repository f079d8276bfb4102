"""Two hundred streams at once while the console is killed and the API server restarted, on both API servers.

Applications make FlashJobs through the console meanwhile, and repeat what was not answered with the same key: in the
end there is one for each key, and every stream has told of every one of them, never twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import JOB_PATH
from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run
from tests.harness.processes import free_port
from tests.harness.waiting import PATIENCE
from tests.unit.console.consoles import Application
from tests.unit.console.events import Event, events

CALLERS, STREAMS_EACH = 40, 5
WRITES = 24
LAST = "the-last"
SPEC = {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0", "uuid": ["esp32-nobody-has"]}


@pytest.fixture(params=[ControlPlane, LocalPlane], ids=["real", "embedded"])
def server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """An API server that the test may hurt."""
    yield from run(request, request.param)


class Follower:
    """One stream as a browser keeps it: what it was told is there, over as many connections as it takes."""

    def __init__(self, caller: Application, query: str) -> None:
        self._caller, self._query = caller, query
        self._last = ""
        self.there: dict[str, int] = {}
        """The version of every object that it knows of."""
        self.cuts = 0
        self.resets = 0

    async def run(self) -> None:
        """Follows until the last object is there."""
        while LAST not in self.there:
            if not self._last:  # no place yet: the state comes from its beginning
                self.there = {}
            given = {"Last_Event_ID": self._last} if self._last else {}
            with suppress(aiohttp.ClientError, OSError):  # cut, or one of both servers is away
                async with self._caller.stream(self._query, **given) as response:
                    if response.status == 200:
                        await self._read(response)
            self.cuts += 1
            await asyncio.sleep(0.2)  # as a browser waits before it comes again

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        async for event in events(response):
            self._take(event)
            if LAST in self.there:
                return

    def _take(self, event: Event) -> None:
        if event.name == "reset":
            self.there, self._last = {}, ""
            self.resets += 1
        elif event.name in {"added", "modified"}:
            name, version = event.what[1], int(event.data["metadata"]["resourceVersion"])
            assert version > self.there.get(name, 0), f"{event.what} came twice, or in the wrong order"
            self.there[name] = version
        self._last = event.id or self._last


async def made(caller: Application, path: str, number: int) -> str:
    """Makes an object with a key, again and again until there is an answer; its name."""
    body = {"metadata": {"generateName": "job-"}, "spec": SPEC}
    while True:
        with suppress(aiohttp.ClientError, OSError):
            answer = await caller("POST", path, body, Idempotency_Key=f"write {number}")
            if answer.status == 201:
                return str(answer.body["metadata"]["name"])
            # Right after its start the API server knows no roles yet, and refuses everybody.
            assert answer.status in {403, 429, 503}, answer.body
            await asyncio.sleep(float(answer.headers.get("Retry-After", "0.2")))
        await asyncio.sleep(0.2)


def accounts(server: ApiServer, namespace: str) -> list[str]:
    """The tokens of as many callers as the streams need, all with the rights of the portal."""
    stage.portal_token(server, namespace)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    names = [f"caller-{number}" for number in range(CALLERS)]
    for name in names:
        server.request("POST", path, {"metadata": {"name": name}})
    binding = {
        "metadata": {"name": "callers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "portal"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace} for name in names],
    }
    server.request("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", binding)
    return [str(server.request("POST", f"{path}/{name}/token", {"spec": {}})["status"]["token"]) for name in names]


async def test_two_hundred_streams_lose_nothing_when_the_console_is_killed_and_the_api_server_restarted(
    server: ApiServer, tmp_path: Path
) -> None:
    stage.install(server)
    namespace = server.create_namespace("streams")
    tokens = await asyncio.to_thread(accounts, server, namespace)
    port = free_port()
    with ExitStack() as consoles:

        def start(folder: str) -> stage.ConsoleProcess:
            began = consoles.enter_context(stage.console(server, tmp_path / folder, "--shared-cache", port=port))
            assert began.url
            return began

        console = await asyncio.to_thread(start, "first")
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            callers = [Application(console.url, session, token) for token in tokens]
            query = f"of=flashjobs&namespace={namespace}"
            followers = [Follower(caller, query) for caller in callers for _ in range(STREAMS_EACH)]
            following = [asyncio.create_task(each.run()) for each in followers]
            jobs = f"/api/v1/namespaces/{namespace}/flashjobs"
            names: list[str] = []

            async def write(numbers: range) -> None:
                for number in numbers:
                    name = await made(callers[number % CALLERS], jobs, number)
                    names.append(name)

            async def disturbed(numbers: range, disturb: Callable[[], None]) -> None:
                """Something happens to a server in the midst of writes and of streams that have heard of some."""
                writing = asyncio.create_task(write(numbers))
                before = len(names)
                while len(names) <= before or not all(each.there for each in followers):
                    failed = [each for each in following if each.done()]
                    assert not failed, failed
                    await asyncio.sleep(0.1)
                await asyncio.to_thread(disturb)
                await writing

            def killed() -> None:
                console.kill()
                start("second")

            def restarted() -> None:
                server.api.kill()
                server.api.restart()

            await disturbed(range(WRITES // 2), restarted)
            await disturbed(range(WRITES // 2, WRITES), killed)
            last = {"metadata": {"name": LAST}, "spec": SPEC}
            assert (await callers[0]("PUT", f"{jobs}/{LAST}", last)).status == 201
            await asyncio.wait_for(asyncio.gather(*following), PATIENCE)
    present = await asyncio.to_thread(server.request, "GET", JOB_PATH.format(namespace))
    there = {each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in present["items"]}
    assert sorted(there) == sorted({*names, LAST})
    assert len(set(names)) == WRITES
    assert [each.there for each in followers] == [there] * len(followers)
    assert all(each.cuts for each in followers), "the console was killed under each of them"
