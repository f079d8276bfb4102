"""What mini-clusters cost: the operator that makes 100 of size 4, against a bare client that makes the same writes.

Every write of the operator (Secret, ConfigMap, Service, Job, status, Event) is recorded on a real API server and then
made again, for other namespaces, by a client that reads and decides nothing, as many mini-clusters at a time as the
operator works on. What counts is the time from the first write to the last, with the MiniClusters there before it.
There are 20 in a namespace, because those of a namespace share a Service. The same for 500 says whether the time per
mini-cluster stays.
"""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from edgewright.api.capabilities import FLUX
from edgewright.api.crd import custom_resource_definitions
from edgewright.api.minicluster import MiniCluster
from edgewright.controllers.minicluster.loop import add_miniclusters
from edgewright.controllers.settings import Settings
from edgewright.runtime import Client, Manager
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.definitions import install
from tests.harness.controlplane import ControlPlane

PER_NAMESPACE = 20
SIZE = 4
_AT_ONCE = 4
_PATIENCE = 1800.0

Write = tuple[str, str, bytes, dict[str, Any]]


@dataclass(frozen=True)
class Turn:
    """What one turn of both took: seconds of the clock, and of this process's CPU."""

    number: int
    writes: int
    operator: float
    operator_cpu: float
    bare: float
    bare_cpu: float


def namespace_of(place: int, turn: str) -> str:
    """Where a mini-cluster is."""
    return f"{turn}-{place // PER_NAMESPACE:03}"


def name_of(place: int) -> str:
    """What a mini-cluster is called."""
    return f"mini-{place:04}"


async def asked(client: Client, number: int, turn: str) -> None:
    """Makes namespaces and MiniClusters, which nobody serves yet."""
    for first in range(0, number, PER_NAMESPACE):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace_of(first, turn)}}
        await client.transport.request("POST", "/api/v1/namespaces", body=msgspec.json.encode(body))
    spec = {"size": SIZE, "containers": [{"image": "registry.example/flux:1", "command": "hostname"}]}
    gate = asyncio.Semaphore(16)

    async def one(place: int) -> None:
        async with gate:
            metadata = {"name": name_of(place), "namespace": namespace_of(place, turn)}
            body = {"apiVersion": MiniCluster.kind.api_version, "kind": "MiniCluster", "metadata": metadata}
            await client.raw(MiniCluster.kind).create({**body, "spec": spec})

    await asyncio.gather(*(one(place) for place in range(number)))


async def operated(plane: ControlPlane, number: int) -> tuple[float, float, dict[str, list[Write]]]:
    """The seconds (clock, CPU) from the operator's first write to its last, and what it wrote, by mini-cluster."""
    written: dict[str, list[Write]] = defaultdict(list)
    async with drive.client_for(plane) as client:
        send, statuses = client.transport.request, set[str]()
        began = last = time.perf_counter()
        cpu_began = time.process_time()
        all_said = asyncio.Event()

        async def request(method: str, path: str, **more: Any) -> bytes:
            nonlocal began, last, cpu_began
            if method != "GET" and not written:
                began, cpu_began = time.perf_counter(), time.process_time()
            answer = await send(method, path, **more)
            if method != "GET":
                last = time.perf_counter()
                written[_whose(path, more.get("body") or b"")].append((method, path, more.get("body") or b"", more))
                if path.endswith("/status"):
                    statuses.add(path)
                    if len(statuses) == number:
                        all_said.set()
            return answer

        client.transport.request = request  # type: ignore[method-assign] # the one door to the server
        manager = Manager(client, clock=SystemClock())
        add_miniclusters(manager, Settings(), SystemClock())
        task = asyncio.create_task(manager.run())
        try:
            async with asyncio.timeout(_PATIENCE):
                await all_said.wait()
                await manager.recorder.flush()
            cpu = time.process_time() - cpu_began
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    return last - began, cpu, written


def _whose(path: str, body: bytes) -> str:
    """The mini-cluster that a write is for: its name is in the path, or in the body."""
    text = path.encode() + body
    at = text.find(b"mini-")
    return text[at : at + 9].decode()


async def bare(plane: ControlPlane, written: dict[str, list[Write]], turn: str, other: str) -> tuple[float, float]:
    """The seconds (clock, CPU) that the same writes take in other namespaces, without anything else."""
    async with drive.client_for(plane) as client:
        moved = [[_moved(each, turn, other) for each in writes] for writes in written.values()]
        # What is shared is made first: here nobody looks whether it is there.
        shared = [each for writes in moved for each in writes if _makes_service(each)]
        queue = [[each for each in writes if not _makes_service(each)] for writes in moved]
        began, cpu_began = time.perf_counter(), time.process_time()
        for method, path, body, more in shared:
            await client.transport.request(method, path, **{**more, "body": body})

        async def worker() -> None:
            while queue:
                for method, path, body, more in queue.pop(0):
                    await client.transport.request(method, path, **{**more, "body": body or None})

        await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))
        return time.perf_counter() - began, time.process_time() - cpu_began


def _makes_service(write: Write) -> bool:
    return write[0] == "POST" and write[1].endswith("/services")


def _moved(write: Write, turn: str, other: str) -> Write:
    """A write for another namespace, on no condition: the objects there are others."""
    method, path, body, more = write
    path, text = path.replace(f"/{turn}-", f"/{other}-"), body.replace(f"{turn}-".encode(), f"{other}-".encode())
    if method == "PATCH":
        change: Any = msgspec.json.decode(text)
        if isinstance(change, list):
            change = [each for each in change if each["path"] not in {"/metadata/uid", "/metadata/resourceVersion"}]
        else:
            change.get("metadata", {}).pop("resourceVersion", None)
            change.get("metadata", {}).pop("uid", None)
        text = msgspec.json.encode(change)
    return method, path, text, more


async def measured(plane: ControlPlane, number: int, turn: str) -> Turn:
    """Both, one after the other."""
    other = f"b{turn}"
    async with drive.client_for(plane) as client:
        for document in custom_resource_definitions(FLUX.kinds):
            await install(client, document)
        await asked(client, number, turn)
    drive.progress(f"{number} MiniClusters are asked for")
    seconds, cpu, written = await operated(plane, number)
    async with drive.client_for(plane) as client:
        await asked(client, number, other)
    least, least_cpu = await bare(plane, written, turn, other)
    return Turn(number, sum(map(len, written.values())), seconds, cpu, least, least_cpu)


def main() -> int:
    """Measures and reports."""
    args = drive.arguments(
        __doc__,
        clusters={"type": int, "default": 100, "help": "how many mini-clusters there are (default 100)"},
        most={"type": int, "default": 500, "help": "how many there are at most (default 500)"},
        runs={"type": int, "default": 3, "help": "how often each number is made (default 3)"},
    )
    outcome = drive.Outcome(
        "minicluster", columns=("mini-clusters", "writes", "operator, s", "its CPU, s", "bare client, s", "its CPU, s")
    )
    _all(outcome, args)
    return drive.finish(outcome, as_json=args.json)


def _on_its_own(number: int) -> Turn:
    """A turn on a server of its own: an operator serves whatever is there."""
    with drive.control_plane() as plane:
        return asyncio.run(measured(plane, number, "mine"))


def _all(outcome: drive.Outcome, args: Namespace) -> None:
    """Both numbers; of the turns of each the best counts, of the operator and of the bare client: the rest is noise."""
    cpu: dict[int, float] = {}
    for number in (args.clusters, args.most):
        turns = [_on_its_own(number) for _ in range(args.runs)]
        for each in turns:
            seconds = (each.operator, each.operator_cpu, each.bare, each.bare_cpu)
            outcome.rows.append((str(each.number), str(each.writes), *(f"{value:.2f}" for value in seconds)))
        operator, least = min(each.operator for each in turns), min(each.bare for each in turns)
        outcome.add(f"operator / bare client, {number}", operator / least, "<=1.25")
        cpu[number] = min(each.operator_cpu for each in turns) / number
    growth = cpu[args.most] / cpu[args.clusters]
    outcome.add(f"the operator's CPU per mini-cluster, {args.most} / {args.clusters}", growth, "<=1.25")


if __name__ == "__main__":
    sys.exit(main())
