"""A device that does what a test says: HTTP pages by a table, and the TLS dial of an ESP32 with sockets of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from edgewright.api.flash_pod import OTA_PORT
from edgewright.devices.drivers.driver import Surroundings
from edgewright.devices.drivers.esp_device import Timing

CERTIFICATE = b"\x30\x82\x03\x00" + bytes(range(256)) * 3
"""Not a certificate, but as long as one says it is; drivers look no further."""
QUICK = Timing(
    ask=2.0,
    tries=2,
    onboard=2.0,
    poll=0.01,
    glance=1.0,
    hold=0.02,
    settle=0.05,
    reboot=0.3,
    dial=5.0,
    courtesy=0.05,
    leave=0.3,
    turn=5.0,
    late=0.3,
    redial=0.3,
    introduction=0.3,
    stall=0.5,
    farewell=2.0,
)

Page: TypeAlias = Callable[[bytes], tuple[int, bytes]]
_numbers = itertools.count(1)


def own_address() -> str:
    """A loopback address that no other test has, in this process or next to it."""
    return f"127.46.{os.getpid() % 250}.{next(_numbers)}"


def page(status: int, body: bytes = b"") -> Page:
    """A page that always answers the same."""
    return lambda _body: (status, body)


def info(version: str = "0.1.0", **more: str | int) -> Page:
    """What /info says."""
    said = {"device": "esp32", "application": "thermometer", "version": version, **more}
    return page(200, json.dumps(said).encode())


class Scripted:
    """Its pages can be changed while it runs; a page that is missing is a 404."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self.pages = pages
        self.endpoint = ""
        self.requests: list[tuple[str, bytes]] = []
        self._server: asyncio.Server | None = None

    @contextlib.asynccontextmanager
    async def running(self, address: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Scripted]:
        """Serves within the block."""
        await self.appear(address, port)
        try:
            yield self
        finally:
            await self.vanish()

    async def appear(self, address: str, port: int) -> None:
        """Begins to answer."""
        self._server = await asyncio.start_server(self._serve, address, port)
        host, port = self._server.sockets[0].getsockname()
        self.endpoint = f"{host}:{port}"

    async def vanish(self) -> None:
        """Answers nobody any more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split(" ", 2)
            length = next((line.split(":")[1] for line in head.split("\r\n") if line.startswith("Content-Length")), "0")
            body = await reader.readexactly(int(length))
            self.requests.append((f"{method} {path}", body))
            status, answer = self.pages.get(path, page(404))(body)
            if status:
                writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def trusting(pem: str) -> ssl.SSLContext:
    """The client's side of TLS as the published firmware has it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=pem)
    return context


def dial(
    address: str,
    context: ssl.SSLContext,
    *,
    shows: bytes = CERTIFICATE,
    most: int | None = None,
    source: str = "",
    polite: bool = True,
) -> bytes:
    """Dials, shows a certificate and takes what comes, `most` bytes of it at most; blocks. OSError where it is cut.

    One that is not polite closes without the goodbye of TLS when it has everything.
    """
    received = b""
    own = (source, 0) if source else None
    with (
        socket.create_connection((address, OTA_PORT), timeout=60, source_address=own) as raw,
        context.wrap_socket(raw, server_hostname="ota-agent", suppress_ragged_eofs=False) as line,
    ):
        line.sendall(shows)
        while most is None or len(received) < most:
            data = line.recv(4096)
            if not data:
                if polite:
                    with contextlib.suppress(OSError):
                        line.unwrap()
                break
            received += data
        else:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # cut: a reset, not an end
    return received


class Dialling:
    """A device whose every call is one of the functions given, made in order; `took` has what each call brought."""

    def __init__(self, *calls: Callable[[], bytes]) -> None:
        self.took: list[bytes] = []
        self._calls = calls
        self._task: asyncio.Task[None] | None = None

    def ordered(self, body: bytes) -> tuple[int, bytes]:
        """The page /update."""
        self.order = body
        self._task = asyncio.create_task(self._dial())
        return 200, b"on my way"

    async def _dial(self) -> None:
        for call in self._calls:
            try:
                self.took.append(await asyncio.to_thread(call))
            except OSError as error:
                self.took.append(type(error).__name__.encode())

    async def ended(self) -> None:
        """Waits for the last call."""
        assert self._task is not None
        await self._task


class Around:
    """The surroundings of a flash, and what a driver told through them."""

    def __init__(self, tls: ssl.SSLContext | None, **more: object) -> None:
        self.address = own_address()
        self.lines: list[str] = []
        self.progress: list[tuple[int, int]] = []
        self.written = 0
        self._news = asyncio.Event()
        settings: dict[str, object] = {
            "listen": self.address,
            "external_address": self.address,
            "tls": tls,
            "log": self._log,
            "progress": lambda sent, whole: self.progress.append((sent, whole)),
            "written": self._count,
        }
        self.surroundings = Surroundings(**{**settings, **more})  # type: ignore[arg-type] # a table of settings

    async def until(self, line: str) -> None:
        """Waits for a line of the log that has this in it."""
        async with asyncio.timeout(180):
            while not any(line in each for each in self.lines):
                self._news.clear()
                await self._news.wait()

    def _log(self, line: str) -> None:
        self.lines.append(line)
        self._news.set()

    def _count(self) -> None:
        self.written += 1
