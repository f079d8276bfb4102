"""The operator as a program for tests, with the settings in a JSON file: `python operator_program.py FILE`.

It says that it works by making the file `ready`. Tests kill it. Where it loses its lease it ends with a sentence that
says so, as the command does.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings, Timing
from edgewright.runtime import Api, Client, LeaseSettings, Manager, config, logs
from edgewright.runtime.client import WatchEvents
from edgewright.runtime.errors import LeaseLost


def hold_back(seconds: float) -> None:
    """Lets every watch of this process tell what happened only some time later, `seconds` at the most.

    Writes and questions are answered as ever: caches are behind what the operator knows to have done itself.
    """
    watch = Api.watch

    async def later(self: Api[Any], *args: Any, **given: Any) -> AsyncGenerator[WatchEvents, None]:
        stream = watch(self, *args, **given)
        try:
            async for events in stream:
                if events:
                    # What comes meanwhile waits in the socket and is told in one breath: twice this is the most.
                    await asyncio.sleep(random.uniform(0.25, 0.5) * seconds)
                yield events
        finally:
            await stream.aclose()

    Api.watch = later  # type: ignore[method-assign] # of this process, which is for tests only


async def work(given: dict[str, Any]) -> None:
    """Runs until it is killed, or loses the lease."""
    told = given["settings"]
    settings = Settings(
        **{**told, "timing": Timing(**told["timing"]), "plain_registries": tuple(told["plain_registries"])}
    )
    os.environ["POD_NAME"] = given["name"]  # the Lease then tells people, and tests, which one holds it
    lease = LeaseSettings(
        name="operator", namespace=given["namespaces"][0], duration=2.0, renew_within=1.5, retry_every=0.2
    )
    manager = Manager(
        Client(config.load(kubeconfig=given["kubeconfig"])),
        namespaces=given["namespaces"],
        lease=lease if given.get("lease", True) else None,
    )
    add_controllers(manager, settings)
    if given.get("behind"):
        hold_back(given["behind"])
    asyncio.get_running_loop().call_soon(Path(given["ready"]).touch)
    await manager.run()


if __name__ == "__main__":
    logs.setup(level="info", format="text")
    try:
        asyncio.run(work(json.loads(Path(sys.argv[1]).read_text())))
    except LeaseLost as error:
        sys.exit(str(error))
