"""An agent that dies before its Nth touch of the state directory, as a kill or a power cut would have it.

`test_crash` starts it in a process of its own. Python tells an audit hook of every open, rename, removal and directory
before it happens, so that the code of the agent is the real one, and every moment between two writes can be had.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from edgewright.agent import Agent, load
from edgewright.agent.firewall import NoFirewall
from edgewright.agent.s3 import Content
from edgewright.api.edge_protocol import S3Configuration
from edgewright.runtime.clock import SystemClock

TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod"}


class HastyClock(SystemClock):
    """A clock on which nobody waits longer than a moment."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.02))

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return super().timeout(None if seconds is None else min(seconds, 0.05))


class FolderBucket:
    """A bucket in a folder: what arrived is there for the next process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, key: str, content: Content) -> None:
        (self._folder / key.replace("/", "_")).write_bytes(b"".join(content.pieces()))

    async def close(self) -> None:
        pass


def run(config: str, last: int, bucket: str) -> None:
    """Runs until the Nth touch; it never ends by itself."""
    settings = load(Path(config))
    state = settings.state_dir
    volumes = f"{state}/volumes"
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in TOUCHES or not isinstance(arguments[0], str | bytes | Path):
            return
        path = os.fsdecode(arguments[0])
        writes = event != "open" or (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))
        reads_folder = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_DIRECTORY
        if not path.startswith(state) or path.startswith(volumes) or not (writes or reads_folder):
            return
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)

    def make(_: S3Configuration) -> FolderBucket:
        return FolderBucket(Path(bucket))

    agent = Agent(
        settings,
        clock=HastyClock(),
        rng=random.Random(1),
        firewall=NoFirewall(),
        bucket=make,  # type: ignore[arg-type]
    )
    asyncio.run(agent.run())
