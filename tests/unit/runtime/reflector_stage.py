"""A reflector at work on a scripted server in virtual time, and the copy that it keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from edgewright.runtime.client import Client, Unread
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.objects import Key
from edgewright.runtime.reflector import Reflector
from tests.unit.runtime.fakeserver import (
    PATH,
    FakeServer,
    Script,
    Widget,
    fake_server,
    line,
    running,
    status_body,
    until,
)

EXPIRED = line("ERROR", status_body(410, "Expired", "too old"))


class Copy:
    """A sink that keeps versions by name and notes what it was told."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.unread: dict[str, str] = {}
        self.completed = 0
        self.problems: list[str | None] = []
        self.told: list[str] = []

    def put(self, obj: Widget) -> None:
        self.versions[obj.metadata.name] = obj.metadata.resource_version
        self.told.append(f"put {obj.metadata.name}")

    def put_unread(self, unread: Unread) -> None:
        self.unread[unread.key.name] = unread.resource_version
        self.told.append(f"unread {unread.key.name}")

    def drop(self, key: Key) -> None:
        self.versions.pop(key.name, None)
        self.unread.pop(key.name, None)
        self.told.append(f"drop {key.name}")

    def keep_only(self, namespace: str, present: set[Key]) -> None:
        names = {key.name for key in present}
        self.versions = {name: version for name, version in self.versions.items() if name in names}
        self.unread = {name: version for name, version in self.unread.items() if name in names}
        self.completed += 1

    def report(self, namespace: str, problem: str | None) -> None:
        self.problems.append(problem)

    @property
    def problem(self) -> str | None:
        return self.problems[-1] if self.problems else None


class Follower:
    """A reflector at work in virtual time."""

    def __init__(
        self, server: FakeServer, client: Client, clock: VirtualClock, copy: Copy, reflector: Reflector[Widget]
    ) -> None:
        self.server, self.client, self.clock, self.copy, self.reflector = server, client, clock, copy, reflector

    async def until(self, condition: Any, *, step: float = 0.1) -> None:
        await until(condition, clock=self.clock, step=step)

    def versions(self) -> list[str]:
        """The version that each watch started from; "list" for a streamed list."""
        return [
            "list" if asked.query.get("sendInitialEvents") else asked.query["resourceVersion"]
            for asked in self.server.watches()
        ]


@asynccontextmanager
async def following(
    *watches: Script, lists: tuple[Script, ...] = (), optional: bool = False
) -> AsyncIterator[Follower]:
    """A reflector on a server that gives these answers; nothing may end it but the end of the test."""
    clock, copy = VirtualClock(), Copy()
    async with fake_server() as server, Client(server.config, clock=clock) as client:
        server.on(f"WATCH {PATH}", *watches)
        server.on(f"GET {PATH}", *lists)
        reflector = Reflector(client.of(Widget), copy, clock=clock, optional=optional)
        async with running(reflector.run()):
            yield Follower(server, client, clock, copy, reflector)
