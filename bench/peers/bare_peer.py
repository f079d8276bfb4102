"""The limit: the same requests on the same HTTP stack with nothing around them: no cache, no queue, no retries.

Called by the driver as the peers are. One list, one watch that is read and thrown away, and workers that send one
status patch for each object of the list, the very patch that Edgewright sends. What Edgewright needs beyond this is
its own cost.
"""

from __future__ import annotations

import argparse
import asyncio

import aiohttp
import msgspec

from bench.peers.kinds import Bench
from bench.peers.measurement import Measurement, parse_arguments, wanted_status
from edgewright.runtime import config


class Items(msgspec.Struct):
    """A list of the objects, with the version that a watch goes on from."""

    metadata: dict[str, str]
    items: list[Bench]


async def run(args: argparse.Namespace) -> str:
    settings = config.load(kubeconfig=args.kubeconfig)
    url = settings.server + Bench.kind.path(args.namespace)
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/merge-patch+json",
    }
    connector = aiohttp.TCPConnector(ssl=settings.tls or True, limit=args.workers + 1)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=headers
    ) as session:
        measurement = Measurement(args.objects)
        async with session.get(url) as answer:
            listed = msgspec.json.decode(await answer.read(), type=Items)
        todo = iter(listed.items)

        async def watch() -> None:
            query = {"watch": "true", "resourceVersion": listed.metadata["resourceVersion"]}
            async with session.get(url, params=query, timeout=aiohttp.ClientTimeout(total=None)) as answer:
                async for _ in answer.content.iter_any():
                    pass

        async def work() -> None:
            for obj in todo:
                body = {
                    "status": wanted_status(obj.metadata.generation),
                    "metadata": {"resourceVersion": obj.metadata.resource_version},
                }
                measurement.requests += 1
                name = obj.metadata.name
                async with session.patch(f"{url}/{name}/status", data=msgspec.json.encode(body)) as answer:
                    answer.raise_for_status()
                    await answer.read()
                measurement.written(name)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(work() for _ in range(args.workers)))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return measurement.report()


if __name__ == "__main__":
    print(asyncio.run(run(parse_arguments(__doc__))))
