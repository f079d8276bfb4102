"""Commands that people run in a container that runs (`kubectl exec`), and their terminals on it (`kubectl attach`).

`logserver` accepts the WebSocket and calls `hold`. Each message begins with its channel, as v5.channel.k8s.io has it: 0
is what is typed, 1 and 2 what is printed, 3 tells the end as a Status, 4 the size of a terminal, and 255 closes one.
The command is a child of the node: podman's client, or the program that enters the container of a process.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import struct
import termios
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from aiohttp import web

from edgewright.runtime.child_process import end_child, to_the_end
from edgewright.runtime.objects import RawObject
from edgewright.runtime.sockets import readable, writable

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK: Final = 32 << 10


@dataclass(frozen=True, kw_only=True)
class Session:
    """What somebody wants of a container."""

    verb: str = "exec"
    """Or attach."""
    command: Sequence[str] = ()
    """What is to run in the container, and later the child that does it."""
    stdin: bool = False
    stderr: bool = True
    tty: bool = False


def outcome(code: int) -> RawObject:
    """The Status that tells how a command ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(message: str) -> RawObject:
    """The Status of what could not be begun."""
    return {"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message, "code": 500}


async def refuse(socket: web.WebSocketResponse, message: str) -> None:
    """Says why there is no session."""
    await socket.send_bytes(bytes([ERROR]) + json.dumps(failure(message)).encode())
    await socket.close()


async def hold(socket: web.WebSocketResponse, session: Session) -> None:
    """Runs the child to its end, or until the client is gone."""
    master, slave = os.openpty() if session.tty else (-1, -1)
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *session.command,
            stdin=slave if session.tty else pipe if session.stdin else asyncio.subprocess.DEVNULL,
            stdout=slave if session.tty else pipe,
            stderr=slave if session.tty else pipe if session.stderr else asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        if session.tty:
            os.close(slave)
    reading = asyncio.create_task(_type(socket, process, master))
    prints = [_print(socket, STDOUT, _of_terminal(master))] if session.tty else []
    prints += [
        _print(socket, channel, _of_pipe(stream))
        for channel, stream in ((STDOUT, process.stdout), (STDERR, process.stderr))
        if stream is not None
    ]
    printing = asyncio.gather(*prints)
    try:
        done, _ = await asyncio.wait((reading, printing), return_when=asyncio.FIRST_COMPLETED)
        if printing not in done:  # the client is gone
            return
        code = await process.wait()
        await socket.send_bytes(bytes([ERROR]) + json.dumps(outcome(code if code >= 0 else 128 - code)).encode())
        await socket.close()
    except ConnectionError:
        return
    finally:
        # Nobody may read from the child any more when it is ended, for that reads what is left.
        reading.cancel()
        printing.cancel()
        await to_the_end(_leave((reading, printing), process, master))


async def _leave(working: Iterable[asyncio.Future[Any]], process: asyncio.subprocess.Process, master: int) -> None:
    await asyncio.gather(*working, return_exceptions=True)
    await end_child(process, group=True)
    if master >= 0:
        os.close(master)


_Read = Callable[[], Awaitable[bytes]]


def _of_pipe(stream: asyncio.StreamReader) -> _Read:
    return lambda: stream.read(_CHUNK)


def _of_terminal(master: int) -> _Read:
    os.set_blocking(master, False)

    async def read() -> bytes:
        await readable(master)
        try:
            return os.read(master, _CHUNK)
        except OSError:
            return b""  # the other end is closed

    return read


async def _print(socket: web.WebSocketResponse, channel: int, read: _Read) -> None:
    while data := await read():
        await socket.send_bytes(bytes([channel]) + data)


async def _type(socket: web.WebSocketResponse, process: asyncio.subprocess.Process, master: int) -> None:
    """Takes what the client sends, until it is gone."""
    async for message in socket:
        if message.type != aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == RESIZE and master >= 0:
            _resize(master, data)
        elif channel == STDIN and master >= 0:
            await _type_into(master, data)
        elif channel == STDIN and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(data)
            with suppress(ConnectionError):
                await process.stdin.drain()
        elif channel == CLOSE and data == bytes([STDIN]) and process.stdin is not None:
            process.stdin.close()


async def _type_into(master: int, data: bytes) -> None:
    """Writes all of it; a terminal takes little at a time, and waits for who reads from it."""
    while data:
        try:
            data = data[os.write(master, data) :]
        except BlockingIOError:
            await writable(master)
        except OSError:
            return  # nobody reads any more


def _resize(master: int, data: bytes) -> None:
    with suppress(ValueError, TypeError, struct.error, OSError):
        size = json.loads(data)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
