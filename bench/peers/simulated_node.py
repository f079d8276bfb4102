"""A node and an address pool that take no time: every Service gets its address, every flash Pod ends well, at once.

`bench/flashjob.py` runs it next to each side of the comparison, so that its cost is the same for both. Two writes a
device, which it counts itself, so that they can be taken from what the server counts. It starts no process and opens
no connection to a device.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import hashlib
import ipaddress
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec

from bench.peers.flashing import REPORT, last_line, parse_arguments, say_ready, told_to_stop
from edgewright.api import Pod, Service
from edgewright.api.flash_pod import FLASH_CONTAINER, encode_report
from edgewright.runtime import Client, Key, config
from edgewright.runtime.errors import NotFound, Unreachable
from edgewright.runtime.objects import Resource

_POOL = ipaddress.ip_network("198.18.0.0/20")  # set aside for benchmarks
_AT_ONCE = 16
_LONG = 3600.0
_ENDED = "2026-01-01T00:00:00Z"


class Node:
    """Hears of Services and Pods, and answers each with one write of its status."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._free = collections.deque(map(str, _POOL.hosts()))
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self.writes = 0
        self.most_addresses = 0
        """How many Services had an address, or were to get one, at the same moment."""
        self._services = 0

    async def run(self) -> None:
        """Answers until it is cancelled; it says `ready` when both watches stand."""
        standing = [asyncio.Event(), asyncio.Event()]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(Service, self._on_service, standing[0]))
            group.create_task(self._watch(Pod, self._on_pod, standing[1]))
            for each in standing:
                await each.wait()
            say_ready()

    async def _watch(self, kind: type[Resource], on_event: Callable[[str, Any], None], standing: asyncio.Event) -> None:
        api = self._client.of(kind)
        version = (await api.list(self._namespace)).resource_version
        async with aclosing(api.watch(self._namespace, resource_version=version, seconds=_LONG)) as batches:
            async for batch in batches:
                standing.set()
                for event in batch:
                    if event.type != "BOOKMARK":
                        on_event(event.type, msgspec.json.decode(event.object, type=kind))
        raise RuntimeError(f"the watch of kind {kind.kind.kind} ended: nothing would ever be answered again")

    def _on_service(self, what: str, service: Service) -> None:
        if what == "ADDED":
            self._services += 1
            self.most_addresses = max(self.most_addresses, self._services)
            ingress = {"ingress": [{"ip": self._free.popleft()}]}
            self._write(Service, service.key, {"loadBalancer": ingress})
        elif what == "DELETED":
            self._services -= 1
            self._free.append(service.external_address)

    def _on_pod(self, what: str, pod: Pod) -> None:
        if what == "ADDED":
            # No two devices have the same certificate.
            report = msgspec.structs.replace(REPORT, certificate=hashlib.sha256(pod.metadata.name.encode()).hexdigest())
            ended = {"exitCode": 0, "reason": "Completed", "message": encode_report(report).decode()}
            state = {"terminated": {**ended, "startedAt": _ENDED, "finishedAt": _ENDED}}
            container = {"name": FLASH_CONTAINER, "image": "", "imageID": "", "ready": False, "restartCount": 0}
            statuses = [{**container, "state": state}]
            self._write(Pod, pod.key, {"phase": "Succeeded", "startTime": _ENDED, "containerStatuses": statuses})

    def _write(self, kind: type[Resource], key: Key, status: dict[str, Any]) -> None:
        task = asyncio.create_task(self._write_now(kind, key, status))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_now(self, kind: type[Resource], key: Key, status: dict[str, Any]) -> None:
        async with self._gate:
            self.writes += 1
            while True:
                try:
                    await self._client.of(kind).patch(key, {"status": status}, subresource="status")
                except NotFound:
                    return
                except Unreachable:
                    continue  # a node never gives up: nobody else would tell
                return


async def run(args: argparse.Namespace) -> str:
    """Plays the node until the driver has seen enough."""
    async with Client(config.load(kubeconfig=args.kubeconfig), connections=_AT_ONCE) as client:
        node = Node(client, args.namespace)
        playing = asyncio.create_task(node.run())
        stopping = asyncio.create_task(told_to_stop())
        await asyncio.wait([playing, stopping], return_when=asyncio.FIRST_COMPLETED)
        playing.cancel()
        stopping.cancel()
        ended, _ = await asyncio.gather(playing, stopping, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended
        return last_line(writes=node.writes, most_addresses=node.most_addresses)


if __name__ == "__main__":
    print(asyncio.run(run(parse_arguments(__doc__))))
