"""A TCP proxy on loopback that misbehaves on demand: it cuts, refuses, goes silent or gets slow.

Tests put it in front of the API server; TLS passes through untouched. It lives in a thread with an event loop of its
own, so its verbs can be called from synchronous and asynchronous tests alike. It never looks into what it carries.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from .processes import free_port

T = TypeVar("T")

_CHUNK = 65536
_CALL_TIMEOUT = 180


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with a RST: the other side sees an error and no orderly end."""
    connection = writer.get_extra_info("socket")
    if connection is not None and not writer.transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class _Connection:
    """One client's connection and ours to the target, with a task for each direction."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter, *, budget: int | None) -> None:
        self._proxy = proxy
        self._writers = [client]
        self._budget = budget

    def limit(self, budget: int) -> None:
        """From now on the server's side may send this many bytes, then the connection is cut."""
        self._budget = budget

    def cut(self) -> None:
        """Resets both sides at once; the tasks that carry bytes end by that."""
        for writer in self._writers:
            _reset(writer)

    async def run(self, client: asyncio.StreamReader, target: tuple[str, int]) -> None:
        """Carries bytes in both directions until both sides are done, one fails, or the connection is cut."""
        done = False
        try:
            await self._proxy.moving.wait()
            server, to_server = await asyncio.open_connection(*target)
            self._writers.append(to_server)
            to_client = self._writers[0]
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._carry(client, to_server, from_server=False))
                directions.create_task(self._carry(server, to_client, from_server=True))
            done = True
        except* OSError:
            pass  # one side is gone or never was: the other one learns it below
        finally:
            for writer in self._writers:
                if done:
                    writer.close()  # what is still on its way arrives
                else:
                    _reset(writer)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, from_server: bool) -> None:
        sink.transport.set_write_buffer_limits(high=0)  # drain waits for the other side: slowness is passed on
        while data := await source.read(_CHUNK):
            await self._proxy.wait_lag()
            while data:
                await self._proxy.moving.wait()
                piece = data[: self._proxy.step]
                if from_server and self._budget is not None:
                    piece = piece[: self._budget]
                    self._budget -= len(piece)
                sink.write(piece)
                await sink.drain()
                if from_server and self._budget == 0:
                    self.cut()
                    return
                data = data[len(piece) :]
                await self._proxy.delay(len(piece))
        if not sink.transport.is_closing():
            sink.write_eof()


class Proxy:
    """Listens on a port of its own and carries every connection to the target."""

    def __init__(self, target_host: str, target_port: int, *, listen: str = "127.0.0.1") -> None:
        self.count = 0
        """How many connections were taken since the start."""
        self.moving = asyncio.Event()
        self.moving.set()
        self._target = (target_host, target_port)
        self._listen = listen
        self._lag = 0.0
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._new_budget: int | None = None
        self._rate: float | None = None
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.port = free_port()
        self.accept()

    @property
    def url(self) -> str:
        """Where the API server is reached through this proxy."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        """How many connections are there now."""
        return len(self._connections)

    @property
    def step(self) -> int:
        """How many bytes are moved at once: few where the proxy is slow, so that they come evenly."""
        return _CHUNK if self._rate is None else max(1, min(_CHUNK, int(self._rate / 20)))

    def cut(self) -> None:
        """Resets every open connection at once; new ones are taken."""
        self._run(self._cut())

    def cut_after(self, size: int) -> None:
        """Cuts each open connection when the server has sent `size` more bytes on it; new connections are spared."""

        async def limit() -> None:
            for connection in self._connections:
                connection.limit(size)

        self._run(limit())

    def cut_new_after(self, size: int | None) -> None:
        """Cuts each connection that is opened from now on after `size` bytes of the server; None ends that."""
        self._new_budget = size

    def refuse(self) -> None:
        """Refuses new connections; open ones go on."""
        self._run(self._refuse())

    def accept(self) -> None:
        """Takes new connections again, on the same port."""
        self._run(self._accept())

    def pause(self) -> None:
        """Keeps every connection and moves no byte, as a peer does whose network is gone."""
        self._run(self._pause())

    def resume(self) -> None:
        """Moves bytes again, first those that were held back."""
        self._run(self._resume())

    def slow(self, bytes_per_second: float | None) -> None:
        """Limits each connection, in each direction, to this rate; None is full speed."""
        self._rate = bytes_per_second

    def lag(self, seconds: float) -> None:
        """Makes everything that is read from now on arrive that much later, in each direction."""
        self._lag = seconds

    async def wait_lag(self) -> None:
        """Takes the time that a message is on its way."""
        if self._lag:
            await asyncio.sleep(self._lag)

    async def delay(self, size: int) -> None:
        """Takes the time that `size` bytes need at the present rate."""
        if self._rate is not None:
            await asyncio.sleep(size / self._rate)

    def close(self) -> None:
        """Cuts everything and ends the thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, verb: Coroutine[Any, Any, None]) -> None:
        """Lets the proxy's thread do this and waits for it."""
        asyncio.run_coroutine_threadsafe(verb, self._loop).result(_CALL_TIMEOUT)

    async def _accept(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, self._listen, self.port)

    async def _refuse(self) -> None:
        if self._server is not None:
            for each in self._server.sockets:
                self._loop.remove_reader(each.fileno())
            await asyncio.sleep(0)  # Python 3.11 forgets a connection whose port is closed in the turn that took it
            self._server.close()
            self._server = None

    async def _pause(self) -> None:
        self.moving.clear()

    async def _resume(self) -> None:
        self.moving.set()

    async def _cut(self) -> None:
        for connection, task in self._connections.items():
            connection.cut()
            task.cancel()
        await asyncio.gather(*self._connections.values(), return_exceptions=True)

    async def _close(self) -> None:
        await self._refuse()
        await self._cut()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for each in others:  # connections that were taken in the last moment
                each.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close their sockets in the next round of the loop

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.count += 1
        connection = _Connection(self, writer, budget=self._new_budget)
        self._connections[connection] = task
        try:
            await connection.run(reader, self._target)
        except asyncio.CancelledError:
            pass  # by `cut`: the task has nothing more to do, and asyncio's streams take a cancelled one for an error
        finally:
            del self._connections[connection]
