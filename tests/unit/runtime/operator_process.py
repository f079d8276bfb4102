"""A small operator in a process of its own, for the test of signals: one controller that says hello to the server."""

from __future__ import annotations

import asyncio
import sys

from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.controller import For
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.unit.runtime.fakeserver import Widget


async def main(url: str) -> None:
    manager = Manager(Client(Config(server=url)))

    async def reconcile(key: Key) -> None:
        await manager.client.get_path("/hello")
        await manager.client.get_path("/goodbye")  # the server answers when it has seen the signal

    manager.controller("c", reconcile, For(manager.cache(Widget)))
    await manager.run(signals=True)
    sys.stdout.write("drained\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
