"""The load that `local.py` puts on an API server: the same program, whoever answers.

Run as a process of its own, from the root of the checkout, once for each measurement; it ends with a line of JSON. It
sends bytes that it made before the clock starts and decodes as little as it can, so that it is not what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgewright.runtime import Client, config

NAMESPACE = "default"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_QUERY = {"fieldManager": "bench"}
_PAYLOAD = "x" * 700
_WATCH_SECONDS = 600
_LATE_SECONDS = 60.0


def config_map(name: str) -> bytes:
    """An object of about a kilobyte."""
    metadata = {"name": name, "labels": {"app": "bench"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"payload": _PAYLOAD}}
    return json.dumps(body).encode()


async def create(client: Client, name: str) -> None:
    """One write, until the server has acknowledged it."""
    await client.transport.request("POST", PATH, query=_QUERY, body=config_map(name))


async def get(client: Client, name: str) -> None:
    """One read, past every cache."""
    await client.transport.request("GET", f"{PATH}/{name}")


async def connect(client: Client, connections: int) -> None:
    """Opens the connections, so that no handshake is measured."""
    await asyncio.gather(*(client.get_path("/version") for _ in range(connections)))


async def throughput(args: argparse.Namespace, act: Callable[[Client, str], Awaitable[None]]) -> dict[str, float]:
    """How many requests a second so many clients get through, one after the other each."""
    async with Client(config.load(kubeconfig=args.kubeconfig), connections=args.clients, timeout=60) as client:
        numbers = itertools.cycle(range(args.objects)) if args.what == "reads" else itertools.count()
        await connect(client, args.clients)
        done = 0
        started = time.perf_counter()
        ends = started + args.seconds

        async def work() -> None:
            nonlocal done
            while time.perf_counter() < ends:
                await act(client, f"{args.prefix}-{next(numbers):06d}")
                done += 1

        await asyncio.gather(*(work() for _ in range(args.clients)))
        return {"done": done, "rate": done / (time.perf_counter() - started), "cpu": _cpu()}


async def fill(args: argparse.Namespace) -> dict[str, float]:
    """Makes so many objects."""
    async with Client(config.load(kubeconfig=args.kubeconfig), connections=args.clients, timeout=60) as client:
        numbers = iter(range(args.objects))
        started = time.perf_counter()

        async def work() -> None:
            for number in numbers:
                await create(client, f"{args.prefix}-{number:06d}")

        await asyncio.gather(*(work() for _ in range(args.clients)))
        return {"done": args.objects, "rate": args.objects / (time.perf_counter() - started), "cpu": _cpu()}


async def fan_out(args: argparse.Namespace) -> dict[str, float]:
    """How many events a second reach the watchers, from the first write until each of them has seen the last one."""
    async with Client(config.load(kubeconfig=args.kubeconfig), connections=args.clients, timeout=60) as client:
        version = await _version(client)
        standing = [asyncio.Event() for _ in range(args.watchers)]

        async def count(stands: asyncio.Event) -> None:
            seen = 0
            async for part in _watch(client, version, stands):
                seen += part.count(b'{"type":"ADDED"')
                if seen >= args.objects:
                    return

        watchers = [asyncio.create_task(count(each)) for each in standing]
        await asyncio.gather(*(each.wait() for each in standing))
        await connect(client, args.clients)
        started = time.perf_counter()
        numbers = iter(range(args.objects))

        async def work() -> None:
            for number in numbers:
                await create(client, f"{args.prefix}-{number:06d}")

        await asyncio.gather(*(work() for _ in range(args.clients)))
        async with asyncio.timeout(_LATE_SECONDS):
            await asyncio.gather(*watchers)
        rate = args.objects * args.watchers / (time.perf_counter() - started)
        return {"done": args.objects * args.watchers, "rate": rate, "cpu": _cpu()}


async def latency(args: argparse.Namespace) -> dict[str, float]:
    """How long it takes from the sending of a write until a watch tells of it, at a steady rate of writes."""
    async with Client(config.load(kubeconfig=args.kubeconfig), connections=args.clients, timeout=60) as client:
        sent: dict[bytes, float] = {}
        late: list[float] = []
        total = int(args.rate * args.seconds)
        stands = asyncio.Event()

        async def look() -> None:
            rest = b""
            async for part in _watch(client, await _version(client), stands):
                now = time.perf_counter()
                *lines, rest = (rest + part).split(b"\n")
                names = [name for name in map(_name_in, lines) if name in sent]
                late.extend(now - sent.pop(name) for name in names)
                if len(late) == total:
                    return

        watcher = asyncio.create_task(look())
        await stands.wait()
        await connect(client, args.clients)
        writes: list[asyncio.Task[None]] = []
        started = time.perf_counter()
        for number in range(total):
            await asyncio.sleep(max(0.0, started + number / args.rate - time.perf_counter()))
            name = f"{args.prefix}-{number:06d}"
            sent[name.encode()] = time.perf_counter()
            writes.append(asyncio.create_task(create(client, name)))
        await asyncio.gather(*writes)
        async with asyncio.timeout(_LATE_SECONDS):
            await watcher
        late.sort()
        return {
            "done": total,
            "p50": late[len(late) // 2] * 1000,
            "p99": late[int(len(late) * 0.99)] * 1000,
            "cpu": _cpu(),
        }


async def _version(client: Client) -> str:
    listed = json.loads(await client.transport.request("GET", PATH, query={"limit": "1"}))
    version: str = listed["metadata"]["resourceVersion"]
    return version


async def _watch(client: Client, version: str, stands: asyncio.Event) -> AsyncIterator[bytes]:
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
    async with client.transport.stream(PATH, query, seconds=_WATCH_SECONDS) as parts:
        stands.set()
        async for part in parts:
            yield part


def _name_in(line: bytes) -> bytes:
    """The name of an event's object; all that has to be read of it."""
    return line.partition(b'"name":"')[2].partition(b'"')[0]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _arguments() -> Iterator[tuple[str, dict[str, object]]]:
    yield "--kubeconfig", {"required": True}
    yield "--prefix", {"required": True, "help": "what the names of the objects begin with"}
    yield "--clients", {"type": int, "default": 32}
    yield "--watchers", {"type": int, "default": 100}
    yield "--objects", {"type": int, "default": 1000}
    yield "--seconds", {"type": float, "default": 3.0}
    yield "--rate", {"type": float, "default": 200.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    roles: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, float]]]] = {
        "writes": lambda args: throughput(args, create),
        "reads": lambda args: throughput(args, get),
        "fill": fill,
        "fan-out": fan_out,
        "latency": latency,
    }
    parser.add_argument("what", choices=roles)
    for name, settings in _arguments():
        parser.add_argument(name, **settings)  # type: ignore[arg-type]
    args = parser.parse_args()

    async def run() -> dict[str, float]:
        return await roles[args.what](args)

    print(json.dumps(asyncio.run(run())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
