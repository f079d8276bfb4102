"""Server-sent events as an application reads them, for the tests of streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str = ""
    id: str = ""
    data: Any = None
    comment: str = ""

    @property
    def what(self) -> tuple[str, str]:
        """What happened to which object."""
        return self.name, self.data["metadata"]["name"]


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """The events of a stream, as a browser reads them."""
    fields: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            data = json.loads(fields["data"]) if "data" in fields else None
            yield Event(fields.get("event", ""), fields.get("id", ""), data, fields.get("", ""))
            fields = {}


async def until(source: AsyncIterator[Event], name: str) -> list[Event]:
    """The events up to and with the next of this name."""
    seen: list[Event] = []
    async for event in source:
        if event.name:
            seen.append(event)
        if event.name == name:
            return seen
    raise AssertionError(f"the stream ended before {name}: {seen}")
