"""The rollout that clients of the console follow in `console.py`: its controllers, and devices that flash at once.

It ends when the rollout has, and says how many seconds it took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from bench.rollout import carried_out, until_completed
from edgewright.runtime import Client, config


async def roll(kubeconfig: Path) -> None:
    """Carries the rollout out that is called bench."""
    loaded = config.load(kubeconfig=kubeconfig)
    began = time.monotonic()
    async with (
        Client(loaded) as client,
        Client(loaded) as flashing,
        Client(loaded) as rolling,
        carried_out(flashing, rolling),
    ):
        await until_completed(client)
    print(json.dumps({"seconds": time.monotonic() - began}))


if __name__ == "__main__":
    asyncio.run(roll(Path(sys.argv[1])))
