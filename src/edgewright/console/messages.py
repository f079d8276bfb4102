"""Server-sent events as bytes. Pure."""

from __future__ import annotations

import msgspec


def message(event: str, data: object, *, identifier: str = "") -> bytes:
    """One server-sent event; JSON has no line break in it."""
    return message_of(event, msgspec.json.encode(data), identifier=identifier)


def message_of(event: str, data: bytes, *, identifier: str = "") -> bytes:
    """The same for data that is JSON already."""
    head = f"id: {identifier}\n" if identifier else ""
    return f"{head}event: {event}\ndata: ".encode() + data + b"\n\n"


def place(identifier: str) -> bytes:
    """An event without data: it moves the client's place and is not shown to its program."""
    return f"id: {identifier}\n\n".encode()
