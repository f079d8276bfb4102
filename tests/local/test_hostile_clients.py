"""Clients that mean harm, on `edgewright up` as a process: whatever they do, the administrator gets an answer.

Every flood is bounded in count and time, and goes to this test's own server on loopback.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgewright.local.serving.listener import MAX_STRANGERS
from tests.harness import LocalPlane

MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 60
"""How long the administrator waits at most; on a quiet machine it is a fraction of a second."""


@pytest.fixture(autouse=True, scope="module")
def _many_files() -> Iterator[None]:
    """A flood takes more open files than an ordinary user's programs have to begin with."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def memory_mb(plane: LocalPlane) -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{plane.api.pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def anybody() -> ssl.SSLContext:
    """TLS of somebody without a certificate."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


async def ask(
    plane: LocalPlane, tls: ssl.SSLContext, path: str, *, method: str = "GET", body: bytes = b"", media: str = ""
) -> int:
    """The status of an answer on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=tls, server_hostname="localhost")
    try:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nContent-Type: {media}\r\n\r\n"
        writer.write(head.encode() + body)
        return int((await reader.readline()).split()[1])
    finally:
        writer.transport.abort()


async def administrator_is_served(plane: LocalPlane) -> None:
    assert await asyncio.wait_for(ask(plane, plane.admin_tls, "/version"), SECONDS) == 200


@asynccontextmanager
async def flood(plane: LocalPlane, count: int, tls: ssl.SSLContext | None, first: bytes) -> AsyncIterator[int]:
    """That many connections, each of which sends the same and then nothing; how many could be opened."""
    opened: list[asyncio.StreamWriter] = []
    limit = asyncio.Semaphore(64)

    async def one() -> None:
        async with limit:
            try:
                name = "localhost" if tls else None
                _, writer = await asyncio.open_connection("127.0.0.1", plane.port, ssl=tls, server_hostname=name)
                writer.write(first)
                opened.append(writer)
            except OSError:
                return

    try:
        await asyncio.gather(*(one() for _ in range(count)))
        yield len(opened)
    finally:
        for writer in opened:
            writer.transport.abort()


async def test_an_unauthenticated_client_cannot_lock_the_administrator_out(own_plane: LocalPlane) -> None:
    """Strangers over TLS who ask /livez once each, ten times as many as may stay."""
    before = memory_mb(own_plane)
    async with flood(own_plane, 4 * MAX_STRANGERS, anybody(), b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") as opened:
        assert opened > MAX_STRANGERS
        await administrator_is_served(own_plane)
        assert memory_mb(own_plane) - before < 150


async def test_connections_that_never_begin_their_handshake_are_counted(own_plane: LocalPlane) -> None:
    before = memory_mb(own_plane)
    async with flood(own_plane, 3000, None, b"") as opened:
        assert opened > 1000
        await administrator_is_served(own_plane)
        assert memory_mb(own_plane) - before < 150


async def test_bodies_that_never_end_hold_up_nobody(own_plane: LocalPlane) -> None:
    slow = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{{".encode()
    async with flood(own_plane, 200, own_plane.admin_tls, slow):
        await administrator_is_served(own_plane)


_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{inner}'] * 9)}]\n" for inner, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b"a: " + b"1:" * 1_400_000 + b"1", "application/yaml"),
        (b"a: " + b"9" * 2_800_000, "application/yaml"),
        (_BOMB.encode(), "application/yaml"),
        (b"[" * 1_000_000, "application/yaml"),
        (b"[" * 1_000_000, "application/json"),
        (b'{"a":' * 200_000, "application/json"),
        (b'{"metadata":{"name":"x"},"data":{"n":' + b"9" * 2_000_000 + b"}}", "application/json"),
        (json.dumps({"metadata": {"name": "x"}, "data": {str(n): "" for n in range(200_000)}}).encode(), ""),
    ],
    ids=["base 60", "long number", "aliases", "deep YAML", "deep JSON", "deep object", "long JSON number", "many"],
)
async def test_a_body_that_is_a_bomb_is_refused_while_others_are_served(
    local_plane: LocalPlane, body: bytes, media: str
) -> None:
    bomb = asyncio.create_task(
        ask(local_plane, local_plane.admin_tls, MAPS, method="POST", body=body, media=media or "application/json")
    )
    await administrator_is_served(local_plane)
    assert 400 <= await asyncio.wait_for(bomb, SECONDS) < 500


async def test_more_watches_than_may_be_open_are_told_to_come_later(own_plane: LocalPlane) -> None:
    watch = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    async with flood(own_plane, 1100, own_plane.admin_tls, watch):
        await administrator_is_served(own_plane)
