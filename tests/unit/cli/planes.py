"""A control plane in the test's own process, for tests of commands that talk to one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from edgewright.local import control_plane
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config


@asynccontextmanager
async def planes(data: Path) -> AsyncIterator[Client]:
    """A client of a new and empty one."""
    async with (
        control_plane.open(control_plane.Settings(data=data, port=0)) as running,
        Client(Config(server=running.url, tls=running.entrance.component("test"), source="test")) as client,
    ):
        yield client
