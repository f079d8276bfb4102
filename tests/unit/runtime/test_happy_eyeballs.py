"""Of several addresses the first that answers is taken, and one that is silent delays no other for long."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewright.runtime import happy_eyeballs
from edgewright.runtime.happy_eyeballs import Place, dial, in_turns, plain_socket
from tests.unit.runtime.fakeserver import until

V4, V6 = socket.AF_INET, socket.AF_INET6


def place(address: str, port: int = 80) -> Place:
    family = V6 if ":" in address else V4
    return (family, socket.SOCK_STREAM, 0, "", (address, port))


@asynccontextmanager
async def listening(address: str = "127.0.0.1") -> AsyncIterator[int]:
    server = await asyncio.start_server(lambda _, writer: writer.close(), address, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """A port that takes no connection and refuses none: its backlog is full."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [plain_socket(V4, socket.SOCK_STREAM, 0) for _ in range(4)]
        for each in fillers:
            each.connect_ex(("127.0.0.1", port))
        try:
            yield port
        finally:
            for each in fillers:
                each.close()


def known(monkeypatch: pytest.MonkeyPatch, *places: Place) -> None:
    """As if a name stood for these addresses."""

    async def resolve(*_: Any, **__: Any) -> list[Place]:
        return list(places)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)


def test_families_take_turns_in_the_order_of_the_resolver() -> None:
    six, other = place("::1"), place("::2")
    four, another = place("127.0.0.1"), place("127.0.0.2")
    assert in_turns([six, other, four, another]) == [six, four, other, another]
    assert in_turns([four, another, six]) == [four, six, another]
    assert in_turns([]) == []


async def test_an_address_that_does_not_answer_does_not_use_up_the_time_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with silent() as nobody, listening() as somebody:
        known(monkeypatch, place("127.0.0.1", nobody), place("127.0.0.1", somebody))
        async with asyncio.timeout(60):
            with await dial("name", 0) as found:
                assert found.getpeername()[1] == somebody


async def test_one_that_refuses_gives_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(happy_eyeballs, "DELAY", 3600.0)
    async with listening() as somebody:
        known(monkeypatch, place("127.0.0.1", 1), place("127.0.0.1", somebody))
        with await dial("name", 0) as found:
            assert found.getpeername()[1] == somebody


async def test_that_the_other_side_refuses_is_told_before_that_there_is_no_way_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[socket.socket] = []

    def make(family: int, kind: int, protocol: int) -> socket.socket:
        if family == V6:
            raise OSError(101, "Network is unreachable")
        made.append(plain_socket(family, kind, protocol))
        return made[-1]

    for places in ([place("127.0.0.1", 1), place("2001:db8::1")], [place("2001:db8::1"), place("127.0.0.1", 1)]):
        known(monkeypatch, *places)
        with pytest.raises(ConnectionRefusedError):
            await dial("name", 0, make_socket=make)
    assert all(each.fileno() == -1 for each in made)


async def test_a_name_without_an_address_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch)
    with pytest.raises(OSError, match="name has no address"):
        await dial("name", 0)


async def test_one_that_is_called_off_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    def make(family: int, kind: int, protocol: int) -> socket.socket:
        made.append(plain_socket(family, kind, protocol))
        return made[-1]

    async with silent() as nobody:
        known(monkeypatch, place("127.0.0.1", nobody), place("127.0.0.1", nobody))
        dialling = asyncio.create_task(dial("name", 0, make_socket=make))
        await until(lambda: len(made) == 2)
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
    assert all(each.fileno() == -1 for each in made)
