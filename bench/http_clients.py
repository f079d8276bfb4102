"""What our HTTP client is worth: against aiohttp's, and against itself with the parser of httptools, which is C.

A server in a process of its own gives the same answers to all: a Device of 2 kB to a GET, and what was sent to a PATCH,
16 at once on connections that stay open. The programs take turns; what counts is the CPU time of the client, because
an operator's requests wait for the server most of the time. Not called http.py, for the programs next to it would find
that in the place of Python's own module.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import json

from bench import drive
from edgewright.runtime import http
from edgewright.runtime.happy_eyeballs import plain_socket
from edgewright.runtime.http import Address, Pool

OURS, AIOHTTP, HTTPTOOLS = "edgewright", "aiohttp", "edgewright with httptools"
CLIENTS = (OURS, AIOHTTP, HTTPTOOLS)
AT_ONCE = 16
OBJECT = json.dumps({"apiVersion": "edgewright.dev/v1alpha1", "kind": "Device", "status": {"x": "y" * 1900}}).encode()
PATCH = json.dumps({"status": {"claim": {"job": {"name": "fleet", "uid": "u" * 36}}}}).encode()
HEADERS = (
    "Audit-Id: 8f3d4c1e-1c2d-4a3b-9e8f-0123456789ab\r\nCache-Control: no-cache, private\r\n"
    "Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: f\r\nDate: Tue, 17 Nov 2026 00:00:00 GMT\r\n"
)


# --- the server -----------------------------------------------------------------------------------------------------


class Server(asyncio.Protocol):
    """Answers each request with the same object."""

    answer = f"HTTP/1.1 200 OK\r\n{HEADERS}Content-Length: {len(OBJECT)}\r\n\r\n".encode() + OBJECT

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is here."""
        self._transport: Any = transport
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """As many answers as there are whole requests."""
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head = self._rest[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n")[0]) if at >= 0 else 0
            if len(self._rest) < end + 4 + length:
                return
            self._rest = self._rest[end + 4 + length :]
            self._transport.write(self.answer)


async def serve() -> None:
    """Tells its port, and serves until its input ends."""
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


# --- the clients ----------------------------------------------------------------------------------------------------


def with_httptools() -> None:
    """Has our client parse with httptools."""
    import httptools  # noqa: PLC0415 - only this client needs it

    class Parser:
        """The same calls as http_parser.AnswerParser has."""

        def __init__(self, on_head: Callable[..., None], on_body: Callable[[bytes], None], on_end: Callable[[], None]):
            self._on_head, self.on_body, self._on_end = on_head, on_body, on_end
            self._headers: dict[str, str] = {}
            self._parser = httptools.HttpResponseParser(self)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

        def on_headers_complete(self) -> None:
            headers, self._headers = self._headers, {}
            self._on_head(self._parser.get_status_code(), headers, self._parser.should_keep_alive())

        def on_message_complete(self) -> None:
            self._on_end()

        def feed(self, data: bytes) -> None:
            self._parser.feed_data(data)

        def end(self) -> None:
            pass

    setattr(http, "AnswerParser", Parser)  # noqa: B010 - it is no name that the module offers


async def ours(port: int, todo: list[bool]) -> None:
    """Our client, as the transport uses it."""
    address = Address(host="127.0.0.1", port=port, secure=False)
    pool = Pool(address, size=AT_ONCE, tls=lambda: None, make_socket=plain_socket)
    common = f"Host: 127.0.0.1:{port}\r\nUser-Agent: edgewright\r\nAccept: application/json\r\n"
    get = f"GET /apis/edgewright.dev/v1alpha1/devices/one HTTP/1.1\r\n{common}\r\n".encode()
    head = f"PATCH /apis/edgewright.dev/v1alpha1/devices/one/status HTTP/1.1\r\n{common}"
    kind = "Content-Type: application/merge-patch+json\r\n"
    patch = f"{head}{kind}Content-Length: {len(PATCH)}\r\n\r\n".encode() + PATCH

    async def one(write: bool) -> None:
        connection = await pool.take()
        try:
            answer = await connection.exchange(patch if write else get)
        finally:
            pool.give_back(connection)
        if answer.status != 200 or len(answer.body) != len(OBJECT):
            raise AssertionError(answer)

    await at_once(todo, one)
    await pool.close()


async def aiohttps(port: int, todo: list[bool]) -> None:
    """aiohttp's client, set up for speed."""
    import aiohttp  # noqa: PLC0415

    base = f"http://127.0.0.1:{port}/apis/edgewright.dev/v1alpha1/devices/one"
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def one(write: bool) -> None:
            kind = {"Content-Type": "application/merge-patch+json"}
            request = session.patch(f"{base}/status", data=PATCH, headers=kind) if write else session.get(base)
            async with request as answer:
                if answer.status != 200 or len(await answer.read()) != len(OBJECT):
                    raise AssertionError(answer)

        await at_once(todo, one)


async def at_once(todo: list[bool], one: Callable[[bool], Awaitable[None]]) -> None:
    """Does all, so many at a time."""
    left = iter(todo)

    async def work() -> None:
        for write in left:
            await one(write)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def measure(client: str, port: int, requests: int) -> dict[str, float]:
    """One client's run: first a few to warm up, then those that count."""
    run = aiohttps if client == AIOHTTP else ours
    if client == HTTPTOOLS:
        with_httptools()
    await run(port, [False] * 200)
    begun, cpu = time.perf_counter(), _cpu()
    await run(port, [number % 2 == 0 for number in range(requests)])
    return {"seconds": time.perf_counter() - begun, "cpu": _cpu() - cpu}


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# --- the comparison -------------------------------------------------------------------------------------------------


async def compare(args: Namespace) -> dict[str, list[dict[str, float]]]:
    """Every client in turn, so many times."""
    command = [sys.executable, __file__]
    server = await asyncio.create_subprocess_exec(
        *command, "--serve", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    if server.stdout is None or server.stdin is None:
        raise AssertionError("both were asked for")
    port = int(await server.stdout.readline())
    results: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
    try:
        for number in range(args.runs):
            for name in CLIENTS:
                told = [*command, "--client", name, "--port", str(port), "--requests", str(args.requests)]
                results[name].append(await asyncio.to_thread(drive.run_peer, told))
            drive.progress(f"run {number + 1} of {args.runs} is done")
    finally:
        server.stdin.close()
        await server.wait()
    return results


def summarise(results: dict[str, list[dict[str, float]]], requests: int) -> drive.Outcome:
    """The ratios, and whether ours is worth its lines."""
    outcome = drive.Outcome("http_clients", columns=("client", "CPU µs a request", "requests a second"))
    cpu = {name: statistics.median(run["cpu"] for run in runs) for name, runs in results.items()}
    for name, runs in results.items():
        rate = requests / statistics.median(run["seconds"] for run in runs)
        outcome.rows.append((name, f"{cpu[name] / requests * 1e6:.0f}", f"{rate:.0f}"))
    outcome.add("CPU / aiohttp", cpu[OURS] / cpu[AIOHTTP], "<=0.75")
    outcome.add("CPU / the same with httptools", cpu[OURS] / cpu[HTTPTOOLS], "<=1.15")
    return outcome


def main() -> int:
    """The command."""
    numbers: dict[str, dict[str, Any]] = {
        "requests": {"type": int, "default": 20_000},
        "runs": {"type": int, "default": 5},
    }
    hidden: dict[str, dict[str, Any]] = {
        "serve": {"action": "store_true"},
        "client": {"default": ""},
        "port": {"type": int, "default": 0},
    }
    args = drive.arguments(__doc__, **numbers, **hidden)
    if args.serve:
        asyncio.run(serve())
        return 0
    if args.client:
        print(json.dumps(asyncio.run(measure(args.client, args.port, args.requests))))
        return 0
    return drive.finish(summarise(asyncio.run(compare(args)), args.requests), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
