"""A port that is closed while somebody shakes hands leaves nothing behind, in whichever turn of the loop that is."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import pytest
from aiohttp import web

from edgewright.gateway import listener as gateway_port
from edgewright.gateway.settings import Limits
from edgewright.local.serving import listener as server_port
from edgewright.runtime import sockets
from tests.harness.certificates import Authority
from tests.unit.runtime.tls_server import server_context

AUTHORITY = Authority()
TURNS = 24
"""A handshake on this machine is over after some ten turns of the loop."""
CALLERS = 60
BOTH = pytest.mark.parametrize("which", ["the gateway's", "the API server's"])


async def opened(
    which: str,
) -> tuple[gateway_port.Listener | server_port.Listener, Callable[[], Mapping[asyncio.Task[None], object]]]:
    """A port, and whoever shakes hands there."""
    tls = server_context(AUTHORITY)
    if which == "the gateway's":
        gateways = await gateway_port.listen(answer, host="127.0.0.1", port=0, tls=tls, limits=Limits())
        return gateways, lambda: gateways._door._shaking
    servers = await server_port.listen(answer, host="127.0.0.1", port=0, tls=tls)
    return servers, lambda: servers._handshakes


def call(port: int, over: threading.Event) -> None:
    """Dials, asks, and stays until it is over; that ends as soon as the other side ends the connection."""
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while secure.recv(1000):
                pass
    except (ConnectionError, ssl.SSLError):  # cut short, before or within TLS
        pass
    over.set()


async def answer(_request: web.BaseRequest) -> web.Response:
    return web.Response(text="here")


@pytest.mark.parametrize("turns", range(TURNS))
@BOTH
async def test_a_port_that_is_closed_in_the_midst_of_a_handshake_leaves_nothing_open(which: str, turns: int) -> None:
    listener, shaking = await opened(which)
    over = threading.Event()
    caller = threading.Thread(target=call, args=(listener.port, over))
    caller.start()
    while not shaking():  # noqa: ASYNC110 - the test counts the turns
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    await listener.close()
    assert await asyncio.to_thread(over.wait, 30), "the caller is not told that it is over"
    await asyncio.to_thread(caller.join)
    gc.collect()  # a socket or a transport that is nobody's would fail the test here


@BOTH
async def test_many_who_come_at_once_are_taken_in_a_few_turns_of_a_loop_that_is_busy_with_others(which: str) -> None:
    listener, shaking = await opened(which)
    with ExitStack() as callers:
        for _ in range(CALLERS):  # the kernel takes them into its line
            callers.enter_context(socket.create_connection(("127.0.0.1", listener.port), timeout=30))
        turns = 0
        while len(shaking()) < CALLERS:
            await asyncio.sleep(0)
            turns += 1
        await listener.close()
    assert turns <= CALLERS // 4, "a turn of a busy loop takes long, so one caller a turn is too few"
    gc.collect()


async def test_who_comes_in_the_turn_in_which_the_taking_is_cancelled_is_not_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        taking = asyncio.create_task(sockets.accept(listening))
        for _ in range(3):
            await asyncio.sleep(0)
        with socket.create_connection(listening.getsockname()):
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            for taken, _ in await sockets.accept(listening):
                taken.close()
    gc.collect()
