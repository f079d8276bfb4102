"""A flash Pod for tests of simulated devices: small, scripted, and written apart from our drivers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import tempfile
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import Any

from edgewright.devices.simulated.certificates import Pair, server_pair
from edgewright.devices.simulated.device import Device, Times
from edgewright.devices.simulated.faults import parse_fault
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did
from tests.harness import wait_until_async

ADDRESS = "127.32.255.1"
QUICK = Times(scale=0.005, least_booting=0.0)
STEADY = Times(scale=0.1)
"""For tests that do something while a device restarts: they get there in time on a busy machine too."""
IMAGE = esp_image(version="2.0.0", project="thermometer")


@cache
def pair() -> Pair:
    """The server certificate that the fleets of these tests pin."""
    return server_pair()


def server_tls(which: Pair | None = None) -> ssl.SSLContext:
    """The server's side of TLS with a certificate."""
    chosen = which or pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(chosen.certificate + chosen.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


class Pod:
    """Listens where devices dial in, and gives each the same bytes."""

    def __init__(
        self,
        content: bytes = IMAGE,
        *,
        tls: ssl.SSLContext | None = None,
        hold: asyncio.Event | None = None,
        ends: Callable[[asyncio.StreamWriter], None] | None = None,
    ) -> None:
        """`hold` is waited for in the middle; `ends` takes the place of a clean end."""
        self.content = content
        self.certificates: list[bytes] = []
        self.peers: list[str] = []
        self.versions: list[str | None] = []
        self._tls = tls or server_tls()
        self._hold, self._ends = hold, ends

    async def __aenter__(self) -> Pod:
        self._server = await asyncio.start_server(self._serve, ADDRESS, 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self.peers.append(writer.get_extra_info("peername")[0])
            self.versions.append(writer.get_extra_info("ssl_object").version())
            self.certificates.append(await reader.read(16_384))
            half = len(self.content) // 2
            writer.write(self.content[:half])
            await writer.drain()
            if self._hold is not None:
                await self._hold.wait()
            writer.write(self.content[half:])
            await writer.drain()
            if self._ends is not None:
                self._ends(writer)
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def fleet_for(pod: Pod | None = None, *faults: str, **settings: Any) -> Fleet:
    """A fleet at free ports that dials this Pod."""
    chosen: dict[str, Any] = {"count": 1, "times": QUICK, "port": 0, "pinned": pair().certificate} | settings
    return Fleet(ota_port=pod.port if pod else 1, faults=[parse_fault(text) for text in faults], **chosen)


async def send(device: Device, request: str) -> tuple[int, dict[str, str], bytes]:
    """One HTTP request on a connection of its own: status, headers, body."""
    host, _, port = device.endpoint.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port or 80))
    try:
        writer.write(request.encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
        await writer.wait_closed()
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in lines), body


async def get(device: Device, path: str) -> tuple[int, dict[str, str], bytes]:
    """A GET."""
    return await send(device, f"GET {path} HTTP/1.1\r\nHost: device\r\nConnection: close\r\n\r\n")


async def post(device: Device, path: str, body: str) -> tuple[int, dict[str, str], bytes]:
    """A POST of text."""
    head = f"POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}"
    return await send(device, f"{head}\r\n\r\n{body}")


async def info(device: Device) -> dict[str, Any]:
    """What it says of itself."""
    status, _, body = await get(device, "/info")
    assert status == 200
    told: dict[str, Any] = json.loads(body)
    return told


async def update(device: Device, *, wait: bool = True) -> None:
    """Tells it to update, and waits until it has done so, or has not."""
    assert (await post(device, "/update", f"ip: {ADDRESS}"))[0] == 200
    if wait:
        await wait_until_async(lambda: not device.busy, what="the update is over")


async def until(device: Device, did: Did, *, times: int = 1) -> None:
    """Waits until this has happened to it."""
    await wait_until_async(lambda: device.journal.count(did) >= times, what=f"{did} {times} times", interval=0.001)


def story(device: Device) -> list[Did]:
    """What happened to it, in order."""
    return [entry.did for entry in device.journal]
