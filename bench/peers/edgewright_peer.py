"""Edgewright as its own peer: a Manager with one cache and one controller that writes each object's status once.

Called by the driver as the peers are. With `--lease` it is a leader whose every request is fenced, as in production;
with `--settle SECONDS` it stays that long after the last write, so that the driver can count what it still asks the
server.
"""

from __future__ import annotations

import argparse
import asyncio

from bench.peers.kinds import Bench, BenchStatus
from bench.peers.measurement import Measurement, parse_arguments
from edgewright.runtime import Client, For, Key, LeaseSettings, Manager, config


async def run(args: argparse.Namespace) -> str:
    client = Client(config.load(kubeconfig=args.kubeconfig))
    lease = LeaseSettings(name="bench", namespace=args.namespace) if args.lease else None
    manager = Manager(client, namespaces=[args.namespace], lease=lease)
    benches = manager.cache(Bench)
    api = manager.client.of(Bench)
    measurement = Measurement(args.objects)

    async def reconcile(key: Key) -> None:
        bench = benches.get(key)
        if bench is None:
            return
        wanted = BenchStatus(phase="Done", observed_generation=bench.metadata.generation)
        if bench.status == wanted:
            return
        measurement.requests += 1
        await api.write_status(bench, wanted)
        measurement.written(key.name)

    manager.controller("bench", reconcile, For(benches), workers=args.workers)
    running = asyncio.create_task(manager.run())
    finished = asyncio.create_task(measurement.finished.wait())
    await asyncio.wait([running, finished], return_when=asyncio.FIRST_COMPLETED)
    if args.settle:
        print(measurement.report(), flush=True)
        await asyncio.wait([running], timeout=args.settle)
    manager.stop()
    await running
    return measurement.report()


if __name__ == "__main__":
    print(
        asyncio.run(
            run(
                parse_arguments(
                    __doc__,
                    lease={"action": "store_true", "help": "work under a lease"},
                    settle={"type": float, "default": 0.0, "help": "stay that many seconds longer"},
                )
            )
        )
    )
