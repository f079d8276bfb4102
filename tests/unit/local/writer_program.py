"""A program with 20 concurrent writers that prints each write only after the store acknowledged it, until killed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from edgewright.local.history import StoreKey
from edgewright.local.store import Store
from edgewright.runtime.clock import SystemClock


async def write(store: Store, writer: int) -> None:
    number = 0
    while True:
        key = StoreKey("things", f"writer-{writer}", f"{os.getpid()}-{number}")
        stored = await store.create(key, lambda revision: b"%d" % revision)
        os.write(1, f"{stored.revision} {key.namespace} {key.name}\n".encode())
        number += 1


async def main() -> None:
    store = await Store.open(Path(sys.argv[1]), clock=SystemClock())
    await asyncio.gather(*(write(store, writer) for writer in range(20)))


if __name__ == "__main__":
    asyncio.run(main())
