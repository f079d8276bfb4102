"""One of the programs that compete for a lease in `test_leadership`: a manager that writes as long as it leads.

The test starts it as a process of its own, because a whole process is what gets stopped and continued. Each pass
over a ConfigMap writes who wrote it and a number that this process uses once. On request it stops itself (SIGSTOP) at
a named point on the way of a write: what a random signal hits once in a million times, it hits every time. It judges
nothing: what took effect is read from the server by the test.

It ends with 0 when it was asked to (SIGTERM), with 3 when it lost the lease, and by SIGALRM when it was stopped between
the last check and the system call, and continued after the deadline. It writes log lines, READY when it stands
for election, and last of all a line of JSON with what it has counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from edgewright.runtime import (
    Client,
    For,
    Key,
    Kind,
    LeaseSettings,
    Manager,
    Resource,
    Result,
    config,
    fence,
    logs,
    requeue_after,
)
from edgewright.runtime.errors import Conflict, KubernetesError, LeaseLost

LEASE_LOST = 3
READY = "standing for election"
POINTS = (
    "before-request",
    "after-request",
    "after-connection",
    "after-watch",
    "after-socket",
    "after-send",
)
"""Where it can stop itself: before or after one of the fence's checks, in their order, or after the system call."""

LABEL = "contested"
"""The label of the objects that are written: the controller manager puts a ConfigMap of its own in every namespace."""

_CHECKS = {
    "_send_once": "request",
    "exchange": "connection",
    "_check": "socket",
    "_before_deadline": "watch",
}


class ConfigMap(Resource, frozen=True, kw_only=True):
    """An object that anybody may write; it has no generation and no controller of its own."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")

    data: dict[str, str] = {}


class Trap:
    """Stops this process, once, at the named point of the first write after it was armed."""

    def __init__(self, fence: fence.Fence, point: str) -> None:
        self._fence = fence
        self._point = point
        self.armed = False

    def remaining(self) -> float:
        """The fence's answer; before or after it was had, the process may stop for a long time."""
        check = _calling_check()
        self.passes(f"before-{check}")
        left = self._fence.remaining()
        self.passes(f"after-{check}")
        return left

    def passes(self, point: str) -> None:
        """Stops the process if this is the point and the trap is armed."""
        if self.armed and point == self._point:
            self.armed = False
            os.kill(os.getpid(), signal.SIGSTOP)


def _calling_check() -> str:
    """Which of the fence's checks is asking: they are known by the functions that make them."""
    frame = sys._getframe(2)
    if frame.f_code.co_name == "demand" and frame.f_back is not None:
        frame = frame.f_back
    return _CHECKS[frame.f_code.co_name]


def _stop_after_sending(trap: Trap) -> None:
    send: Callable[..., int] = fence.FencedSocket.send

    def send_and_stop(self: fence.FencedSocket, *args: Any) -> int:
        sent = send(self, *args)
        trap.passes("after-send")
        return sent

    fence.FencedSocket.send = send_and_stop  # type: ignore[method-assign] # only in this process


class Writer:
    """Writes every ConfigMap again and again, and counts how that went."""

    def __init__(
        self, manager: Manager, identity: str, *, replace: bool, pause: float, trap: Trap | None, trap_after: int
    ) -> None:
        self.counts = {"written": 0, "refused_by_fence": 0, "refused_by_server": 0, "unheard": 0}
        self.cache = manager.cache(ConfigMap, labels=f"{LABEL}=yes")
        self._client = manager.client
        self._replace = replace
        self._identity = identity
        self._pause = pause
        self._trap = trap
        self._trap_after = trap_after
        self._number = 0
        self._versions: dict[Key, str] = {}

    async def write(self, key: Key) -> Result | None:
        """One conditional write, and another one soon."""
        seen = self.cache.get(key)
        if seen is None:
            return None
        # Our own last write is newer than the cache, as often as not.
        version = self._versions.pop(key, seen.metadata.resource_version)
        self._number += 1
        if self._trap is not None and self._number == self._trap_after:
            self._trap.armed = True
        try:
            self._versions[key] = await self._write(
                key, version, {"writer": self._identity, "number": str(self._number)}
            )
        except KubernetesError as error:
            self._count(error)
            raise
        self.counts["written"] += 1
        return requeue_after(self._pause)

    async def _write(self, key: Key, version: str, data: dict[str, str]) -> str:
        if not self._replace:
            patched = await self._client.of(ConfigMap).patch(key, {"data": data}, resource_version=version)
            return patched.metadata.resource_version
        # A PUT is what HTTP clients like to send again by themselves when the connection turns out to be broken.
        metadata = {"name": key.name, "namespace": key.namespace, "resourceVersion": version, "labels": {LABEL: "yes"}}
        written = await self._client.raw(ConfigMap.kind).replace({"metadata": metadata, "data": data})
        return str(written["metadata"]["resourceVersion"])

    def _count(self, error: KubernetesError) -> None:
        name = "refused_by_server" if isinstance(error, Conflict) else "unheard"
        if isinstance(error, LeaseLost) and error.__cause__ is None:
            name = "refused_by_fence"
        self.counts[name] += 1


async def lead(options: argparse.Namespace) -> int:
    """Competes for the lease and writes while it leads; returns the exit code."""
    manager = Manager(
        Client(config.load(kubeconfig=options.kubeconfig)),
        namespaces=[options.namespace],
        lease=LeaseSettings(
            name=options.lease,
            namespace=options.namespace,
            identity=options.identity,
            duration=options.duration,
            renew_within=options.renew_within,
            retry_every=options.retry_every,
        ),
    )
    trap = None
    if options.stop_at and manager.leadership is not None:
        trap = Trap(manager.leadership, options.stop_at)
        manager.client.transport.fence = trap
        if options.stop_at == "after-send":
            _stop_after_sending(trap)
    writer = Writer(
        manager,
        options.identity,
        replace=options.replace,
        pause=options.pause,
        trap=trap,
        trap_after=options.stop_after,
    )
    # Passes follow from `again` alone: the writes of others are no reason for one.
    manager.controller(
        "writer", writer.write, For(writer.cache, when=lambda change: change.initial), workers=options.workers
    )
    ready = asyncio.create_task(_say_ready(writer))
    try:
        await manager.run(signals=True)
    except LeaseLost as lost:
        print(f"stopped: {lost}")
        return LEASE_LOST
    finally:
        ready.cancel()
        await asyncio.gather(ready, return_exceptions=True)
        print(json.dumps(writer.counts), flush=True)
    return 0


async def _say_ready(writer: Writer) -> None:
    await writer.cache.wait_synced()
    print(READY, flush=True)


def main() -> int:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("namespace", "lease", "identity"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    for name in ("duration", "renew-within", "retry-every", "pause"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--replace", action="store_true", help="write by PUT instead of PATCH")
    parser.add_argument("--stop-at", choices=POINTS)
    parser.add_argument("--stop-after", type=int, default=30, metavar="WRITES")
    options = parser.parse_args()
    logs.setup()
    return asyncio.run(lead(options))


if __name__ == "__main__":
    sys.exit(main())
