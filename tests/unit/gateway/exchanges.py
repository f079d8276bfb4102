"""Requests of agents byte by byte, and what came back as it came: for what no client library would send or show.

`QUESTIONS` is every operation of the agents' API, taken from the gateway's own table, so that a new one is asked too.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewright.api.edge_protocol import PREFIX, Directive
from edgewright.gateway.routes import DIRECTIVES, METHODS
from tests.unit.gateway.stage import Device

UNKNOWN = "no-such-directive"
PATIENCE = 60.0


@dataclass(frozen=True)
class Question:
    """One operation, as an agent asks for it."""

    method: str
    channel: str
    direction: str
    directive: str = ""

    def __str__(self) -> str:
        return " ".join((self.channel, self.direction, self.directive)).strip()

    def path(self, name: str) -> str:
        """Where it is asked for a device."""
        return f"{PREFIX}/{self.channel}/{name}/{self.direction}"

    def body(self, device: Device) -> bytes:
        """A good body; empty where there is none."""
        if self.method == "GET":
            return b""
        contents: dict[str, Any] = {
            Directive.REGISTRATION.value: device.registration(),
            Directive.ACCESS.value: {"request": "nobody-asked", "command": "exec"},
        }
        message = {
            "type": "event" if self.directive == Directive.ACCESS.value else "data",
            "message_id": "m-1",
            "directive": self.directive,
            "content": contents.get(self.directive, {}),
        }
        return json.dumps(message).encode()

    def request(self, device: Device, *, name: str = "", headers: Mapping[str, str] | None = None) -> bytes:
        """A good request."""
        return written(self.method, self.path(name or device.name), self.body(device), headers)


def _questions() -> list[Question]:
    found = []
    for (channel, direction), (method, _) in METHODS.items():
        directives = [""] if method == "GET" else [Directive.ACCESS.value]
        if (channel, direction) == ("data", "out"):
            directives = [*DIRECTIVES, UNKNOWN]
        found += [Question(method, channel, direction, each) for each in directives]
    return found


QUESTIONS = _questions()


@dataclass(frozen=True)
class Raw:
    """What came back, and after how many seconds."""

    code: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def is_readable(self) -> bool:
        """Whether a published agent can read it: nothing, or JSON that says so."""
        if not self.body:
            return True
        json.loads(self.body)
        return self.headers.get("content-type") == "application/json"


def written(method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """A request as it goes over the wire, after which the connection ends."""
    lines = {"Host": "gateway", "Connection": "close"}
    if body:
        lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines |= headers or {}
    head = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
    return "\r\n".join(head).encode("latin-1") + body


async def exchanged(device: Device, request: bytes, tls: ssl.SSLContext | None = None) -> Raw:
    """Sends it, on a connection of its own; the time is that from the last byte there to the last byte back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", device.port, ssl=tls or device.tls())
    try:
        writer.write(request)
        begun = time.monotonic()
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
            }
            length = 0 if request.startswith(b"HEAD ") else int(headers.get("content-length", "0"))
            body = await reader.readexactly(length)
        return Raw(int(first.split()[1]), headers, body, time.monotonic() - begun)
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
