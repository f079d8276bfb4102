"""Sessions in containers over a WebSocket: what is typed, printed and told at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import aiohttp
import pytest

from edgewright.local.node import sessions
from edgewright.local.node.logserver import LogServer, NoLog
from edgewright.local.node.podman_service import podman_command
from edgewright.local.node.sessions import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, Session, outcome
from edgewright.runtime.child_process import end_child
from edgewright.runtime.clock import SystemClock
from tests.harness.waiting import wait_until_async


@asynccontextmanager
async def connected(query: str = "") -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A client of a node that runs what it is asked for, but in the Pod `none`."""

    def find(namespace: str, pod: str, container: str, wish: Session) -> Session | str:
        assert (namespace, container, wish.verb) == ("default", "main", "exec")
        if pod == "none":
            return "it does not run"
        return Session(command=wish.command, stdin=wish.stdin, stderr=wish.stderr, tty=wish.tty)

    server = LogServer(
        lambda *_: NoLog("none"), tls=None, host="127.0.0.1", port=0, clock=SystemClock(), find_session=find
    )
    await server.start()
    try:
        url = f"http://127.0.0.1:{server.port}/exec/default/{'web' if query else 'none'}/main?{query}"
        async with (
            asyncio.timeout(60),
            aiohttp.ClientSession() as session,
            session.ws_connect(url, protocols=["v5.channel.k8s.io"]) as socket,
        ):
            yield socket
    finally:
        await server.close()


async def heard(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """What comes on each channel, to the end."""
    found: dict[int, bytes] = {}
    async for message in socket:
        found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


def status(found: dict[int, bytes]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(found[ERROR])
    return told


async def test_what_a_command_prints_and_how_it_ends_is_told() -> None:
    script = quote_plus("echo one; echo two >&2; exit 4")
    async with connected(f"command=sh&command=-c&command={script}&stderr=true") as socket:
        found = await heard(socket)
    assert (found[STDOUT], found[STDERR]) == (b"one\n", b"two\n")
    assert status(found) == outcome(4)


async def test_what_is_typed_goes_on_until_that_is_closed() -> None:
    async with connected("command=cat&stdin=true") as socket:
        for part in (b"one ", b"two"):
            await socket.send_bytes(bytes([STDIN]) + part)
        await socket.send_str("no channel")
        await socket.send_bytes(bytes([CLOSE, STDIN]))
        found = await heard(socket)
    assert (found[STDOUT], status(found)["status"]) == (b"one two", "Success")


async def test_a_terminal_has_the_size_that_the_client_says() -> None:
    async with connected("command=sh&command=-c&command=read+line%26%26stty+size&stdin=true&tty=true") as socket:
        await socket.send_bytes(bytes([RESIZE]) + b"no size")
        await socket.send_bytes(bytes([RESIZE]) + b'{"Width": 101, "Height": 33}')
        await socket.send_bytes(bytes([STDIN]) + b"go\n")
        found = await heard(socket)
    assert b"33 101" in found[STDOUT]
    assert status(found)["status"] == "Success"


async def test_more_than_a_terminal_takes_at_once_reaches_the_command_whole() -> None:
    # It reads late, so that the terminal is full meanwhile.
    script = quote_plus("stty raw -echo; echo ready; sleep 1; head -c 600000 | wc -c")
    async with connected(f"command=sh&command=-c&command={script}&stdin=true&tty=true") as socket:
        assert b"ready" in (await socket.receive_bytes())
        for _ in range(6):
            await socket.send_bytes(bytes([STDIN]) + b"x" * 100_000)
        found = await heard(socket)
    assert b"600000" in found[STDOUT]
    assert status(found)["status"] == "Success"


async def test_a_session_that_cannot_be_is_refused_in_words() -> None:
    async with connected() as socket:
        assert status(await heard(socket))["message"] == "it does not run"


async def test_a_client_that_goes_away_ends_the_command() -> None:
    async with connected("command=sh&command=-c&command=echo+$$%3B+exec+sleep+600") as socket:
        pid = int((await socket.receive_bytes())[1:])
        await socket.close()
        await wait_until_async(lambda: not Path(f"/proc/{pid}").exists(), what="the command is gone")


async def test_a_server_that_closes_waits_for_the_end_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    async def slowly(process: asyncio.subprocess.Process, *, group: bool) -> None:
        await asyncio.sleep(1.5)  # longer than the server waits for requests by itself, as on a busy machine
        await end_child(process, group=group)
        ended.append(process.pid)

    monkeypatch.setattr(sessions, "end_child", slowly)
    async with connected("command=sh&command=-c&command=echo+$$%3B+exec+sleep+600") as socket:
        pid = int((await socket.receive_bytes())[1:])
    assert ended == [pid]


@pytest.mark.parametrize(
    ("wish", "command"),
    [
        (Session(verb="exec", command=["id"]), ["podman", "exec", "c", "id"]),
        (Session(verb="exec", command=["sh"], stdin=True, tty=True), ["podman", "exec", "-i", "-t", "c", "sh"]),
        (Session(verb="attach", stdin=True), ["podman", "attach", "--sig-proxy=false", "c"]),
        (Session(verb="attach"), ["podman", "attach", "--sig-proxy=false", "--no-stdin", "c"]),
    ],
)
def test_podman_is_asked_for_the_session(wish: Session, command: list[str]) -> None:
    assert podman_command("c", wish) == command
