"""The operator for `bench/flashjob.py`: all controllers under a lease, as `edgewright run` has them.

Called by the driver. It ends with when the job was completed and nothing of it was left, by a clock that all processes
of a machine share. With `--profile FILE` it writes down where its processor time went.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import nullcontext
from pathlib import Path

from bench.peers.flashing import cpu_seconds, last_line, parse_arguments, say_ready, told_to_stop
from bench.peers.sampling import sampled
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings
from edgewright.runtime import Client, LeaseSettings, Manager, config, logs
from edgewright.runtime.cache import Change


async def run(args: argparse.Namespace) -> str:
    """Works until the driver has seen enough."""
    lease = LeaseSettings(name="edgewright", namespace=args.namespace)
    manager = Manager(Client(config.load(kubeconfig=args.kubeconfig)), lease=lease)
    add_controllers(manager, Settings())
    numbers: dict[str, float] = {}

    def look(change: Change[FlashJob]) -> None:
        job = change.new
        if job is not None and job.status.phase == "Completed" and not job.metadata.finalizers and not numbers:
            numbers.update(finished=time.monotonic(), cpu_until_finished=cpu_seconds() - before)
            print("finished", flush=True)

    manager.cache(FlashJob).subscribe(look)
    running = asyncio.create_task(manager.run())
    leading = asyncio.create_task(_leads(manager))
    await asyncio.wait([running, leading], return_when=asyncio.FIRST_COMPLETED)
    before = cpu_seconds()
    say_ready()
    stopping = asyncio.create_task(told_to_stop())
    await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
    manager.stop()
    await asyncio.gather(running, stopping)
    return last_line(**numbers)


async def _leads(manager: Manager) -> None:
    while manager.leadership is None or not manager.leadership.leading:  # noqa: ASYNC110 - nobody else asks for that
        await asyncio.sleep(0.01)


def main() -> None:
    args = parse_arguments(__doc__, profile={"type": Path, "help": "where to write where the time went"})
    logs.setup(level="warning", format="text")
    with nullcontext() if args.profile is None else sampled(args.profile):
        line = asyncio.run(run(args))
    print(line)


if __name__ == "__main__":
    main()
