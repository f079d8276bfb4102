"""What a cache of 100,000 objects of about 1.5 kB costs: memory, time to fill, and how long it holds up the event loop.

The objects are made once on a real API server; then processes take turns, each with an empty memory: one lists them
page by page and keeps what it decoded (the limit), one runs our cache until it is synced, and goes on while some
objects change.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time
from argparse import Namespace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from bench.peers.kinds import Gadget, GadgetSpec, GadgetStatus, crd
from bench.peers.measurement import peak_memory_mb
from edgewright.runtime import Cache, Change, Client, Condition, ObjectMeta, config
from edgewright.runtime.definitions import install
from tests.harness.controlplane import ControlPlane

NAMESPACE = "default"
_CHANGES = 200


def gadget(number: int) -> Gadget:
    """An object about as large as a device of a fleet list is, managedFields left out."""
    condition = Condition(
        type="Ready", status="True", reason="Proven", message=f"runs 1.4.{number} since its last flash"
    )
    return Gadget(
        metadata=ObjectMeta(
            name=f"gadget-{number:06d}",
            namespace=NAMESPACE,
            labels={"site": f"plant-{number % 40}", "model": "esp32s3", "ring": str(number % 10)},
            annotations={"edgewright.dev/contact": f"operator-{number % 100}@plant.example"},
        ),
        spec=GadgetSpec(
            type="esp32s3",
            protocol="ota",
            endpoint=f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            application="thermo",
            version=f"1.4.{number}",
            firmware=f"registry.example/fleet/thermo:1.4.{number}",
            digest=f"sha256:{number:064x}",
            serial=f"SN{number:010d}",
            site=f"plant-{number % 40}",
            notes="n" * 250,
        ),
        status=GadgetStatus(conditions=(condition,), history=tuple(f"1.4.{number - i}" for i in range(5))),
    )


class Stalls:
    """Measures how long the event loop is held up: a task that wakes each millisecond notes how late it is."""

    def __init__(self) -> None:
        self.worst = 0.0
        self._task = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.worst = max(self.worst, time.perf_counter() - before - 0.001)

    async def stop(self) -> float:
        """The worst stall so far."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return self.worst


async def fill_cache(kubeconfig: str, count: int) -> dict[str, float]:
    """One process with our cache: until it is synced, then on until it has seen some changes and a full collection."""
    async with Client(config.load(kubeconfig=kubeconfig)) as client:
        base = peak_memory_mb()
        stalls = Stalls()
        cache = Cache(client.of(Gadget))
        changed = asyncio.Event()
        seen = 0

        def on_change(change: Change[Gadget]) -> None:
            nonlocal seen
            seen += not change.initial
            if seen >= _CHANGES:
                changed.set()

        cache.subscribe(on_change)
        started = time.monotonic()
        running = asyncio.create_task(cache.run())
        await cache.wait_synced()
        seconds = time.monotonic() - started
        if len(cache) != count:
            raise RuntimeError(f"the cache holds {len(cache)} of {count} objects")
        peak = peak_memory_mb()
        notes = f"changed at {time.time()}"  # another text each time: a patch that changes nothing is no event
        for obj in list(cache)[:_CHANGES]:
            await client.of(Gadget).patch(obj.key, {"spec": {"notes": notes}}, uid=obj.metadata.uid)
        async with asyncio.timeout(60):
            await changed.wait()
        gc.collect()  # the longest pause that the garbage collector can make at this size
        worst = await stalls.stop()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return {"seconds": seconds, "peak_mb": peak, "bytes": (peak - base) * 2**20 / count, "stall": worst}


async def bare_list(kubeconfig: str, count: int) -> dict[str, float]:
    """The limit: the pages of a list, one after the other, decoded and kept."""
    async with Client(config.load(kubeconfig=kubeconfig)) as client:
        started = time.monotonic()
        kept: list[Gadget] = []
        async for page in client.of(Gadget).pages():
            kept += page.items
        seconds = time.monotonic() - started
        if len(kept) != count:
            raise RuntimeError(f"the list holds {len(kept)} of {count} objects")
        return {"seconds": seconds, "peak_mb": peak_memory_mb()}


async def prepare(plane: ControlPlane, count: int) -> float:
    """Makes the objects; returns their mean size on the wire."""
    async with drive.client_for(plane) as client:
        await install(client, crd(Gadget, status=False))
        for first in range(0, count, 10_000):
            await drive.create_all(client, [gadget(i) for i in range(first, min(first + 10_000, count))])
            drive.progress(f"{min(first + 10_000, count)} of {count} objects made")
        some = await client.raw(Gadget.kind).get(gadget(0).key)
        return float(len(json.dumps(some, separators=(",", ":"))))


def compare(plane: ControlPlane, args: Namespace, size: float) -> drive.Outcome:
    """Both programs in turn, and what follows from it."""
    results: dict[str, list[dict[str, float]]] = {"bare": [], "cache": []}
    for turn in range(args.runs):
        for name, runs in results.items():
            command = [sys.executable, __file__, "--role", name, "--kubeconfig", str(plane.kubeconfig)]
            runs.append(drive.run_peer([*command, "--objects", str(args.objects)]))
            drive.progress(f"turn {turn + 1} of {args.runs}: {name}: {runs[-1]['seconds']:.1f} s")
    bare, cache = results["bare"], results["cache"]
    outcome = drive.Outcome(
        "cache", columns=("program", "seconds (spread)", "peak MB", "bytes an object", "worst stall s")
    )
    for title, runs in (("bare paged list (the limit)", bare), ("edgewright's cache", cache)):
        seconds = [run["seconds"] for run in runs]
        outcome.rows.append(
            (
                title,
                f"{statistics.median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})",
                f"{drive.median(runs, 'peak_mb'):.0f}",
                f"{drive.median(runs, 'bytes'):.0f}" if "bytes" in runs[0] else "",
                f"{max(run['stall'] for run in runs):.3f}" if "stall" in runs[0] else "",
            )
        )
    outcome.add("seconds to sync / bare list", drive.median(cache, "seconds") / drive.median(bare, "seconds"), "<=1.5")
    outcome.add("peak MB", max(run["peak_mb"] for run in cache), "<=450")
    outcome.add("worst stall s", max(run["stall"] for run in cache), "<=0.3")
    outcome.notes.append(f"{args.objects} objects of {size:.0f} bytes on the wire.")
    return outcome


def main() -> int:
    args = drive.arguments(
        __doc__,
        objects={"type": int, "default": 100_000, "help": "how many objects (default 100,000)"},
        runs={"type": int, "default": 3, "help": "how many turns each program gets (default 3)"},
        role={"choices": ["bare", "cache"], "help": "be one of the programs (used by the benchmark itself)"},
        kubeconfig={"help": "with --role: the API server"},
    )
    if args.role:
        program = bare_list if args.role == "bare" else fill_cache
        print(json.dumps(asyncio.run(program(args.kubeconfig, args.objects))))
        return 0
    with drive.control_plane() as plane:
        size = asyncio.run(prepare(plane, args.objects))
        outcome = compare(plane, args, size)
    return drive.finish(outcome, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
