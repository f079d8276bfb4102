"""A port that is closed while somebody shakes hands leaves nothing behind, in whichever turn of the loop that is."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import Callable

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
@pytest.mark.parametrize("which", ["the gateway's", "the API server's"])
async def test_a_port_that_is_closed_in_the_midst_of_a_handshake_leaves_nothing_open(which: str, turns: int) -> None:
    tls = server_context(AUTHORITY)
    listener: gateway_port.Listener | server_port.Listener
    shaking: Callable[[], object]
    if which == "the gateway's":
        listener = await gateway_port.listen(answer, host="127.0.0.1", port=0, tls=tls, limits=Limits())
        shaking = lambda: listener._door._shaking  # type: ignore[union-attr]  # noqa: E731
    else:
        listener = await server_port.listen(answer, host="127.0.0.1", port=0, tls=tls)
        shaking = lambda: listener._handshakes  # noqa: E731
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


async def test_who_comes_in_the_turn_in_which_the_taking_is_cancelled_is_not_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        taking = asyncio.create_task(sockets.accept(listening))
        for _ in range(3):
            await asyncio.sleep(0)
        with socket.create_connection(listening.getsockname()):
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            taken, _ = await sockets.accept(listening)
            taken.close()
    gc.collect()
