"""The limit: the same requests on the same HTTP stack with nothing around them: no cache, no queue, no retries.

Called by the driver as the peers are. One list, one watch that is read and thrown away, and workers that send one
status patch for each object of the list, the very patch that Edgewright sends. What Edgewright needs beyond this is
its own cost.
"""

from __future__ import annotations

import argparse
import asyncio
from functools import partial
from urllib.parse import urlsplit

import msgspec

from bench.peers.kinds import Bench
from bench.peers.measurement import Measurement, parse_arguments, wanted_status
from edgewright.runtime import config
from edgewright.runtime.fence import make_socket
from edgewright.runtime.http import Address, Pool


class Items(msgspec.Struct):
    """A list of the objects, with the version that a watch goes on from."""

    metadata: dict[str, str]
    items: list[Bench]


async def run(args: argparse.Namespace) -> str:
    settings = config.load(kubeconfig=args.kubeconfig)
    server = urlsplit(settings.server)
    address = Address(host=server.hostname or "", port=server.port or 443, secure=True)
    pool = Pool(address, size=args.workers + 1, tls=lambda: settings.tls, make_socket=partial(make_socket, fence=None))
    path = Bench.kind.path(args.namespace)
    head = f" HTTP/1.1\r\nHost: {address.authority}\r\nAccept: application/json\r\n".encode()
    measurement = Measurement(args.objects)

    connection = await pool.take()
    answer = await connection.exchange(b"GET %s%s\r\n" % (path.encode(), head))
    pool.give_back(connection)
    listed = msgspec.json.decode(answer.body, type=Items)
    todo = iter(listed.items)

    async def watch() -> None:
        target = f"GET {path}?watch=true&resourceVersion={listed.metadata['resourceVersion']}".encode()
        connection = await pool.take()
        _, stream = await connection.stream(target + head + b"\r\n")
        while stream is not None and await stream.read(60):
            pass

    async def work() -> None:
        connection = await pool.take()
        for obj in todo:
            metadata = obj.metadata
            body = msgspec.json.encode(
                {
                    "status": wanted_status(metadata.generation),
                    "metadata": {"resourceVersion": metadata.resource_version},
                }
            )
            about = b"Content-Type: application/merge-patch+json\r\nContent-Length: %d\r\n\r\n" % len(body)
            measurement.requests += 1
            answer = await connection.exchange(
                b"PATCH %s/%s/status%s%s%s" % (path.encode(), metadata.name.encode(), head, about, body)
            )
            if answer.status != 200:
                raise RuntimeError(f"{answer.status} {answer.body[:200]!r}")
            measurement.written(metadata.name)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(work() for _ in range(args.workers)))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await pool.close()
    return measurement.report()


if __name__ == "__main__":
    print(asyncio.run(run(parse_arguments(__doc__))))
