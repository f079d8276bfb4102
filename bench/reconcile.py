"""How fast objects are reconciled: ours against a bare loop, controller-runtime, kopf and kubernetes_asyncio.

Each program finds the same custom resources on a real API server and writes the status of each once, with 16 workers.
The programs take turns, so that a noisy machine is noisy for all; the numbers are medians, and the CPU time depends on
the machine's load least of all. With `--before CHECKOUT` ours of another commit takes turns too. Last, ours stays on
for a while under a lease, and the server's audit log tells what it still asks for once everything is settled.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from bench.peers import build
from bench.peers.kinds import Bench, BenchSpec, crd
from edgewright.runtime import Client, ObjectMeta
from edgewright.runtime.definitions import install
from tests.harness.controlplane import ControlPlane

OURS, LEASED, BARE, GO = "edgewright", "edgewright, with a lease", "bare loop (the limit)", "controller-runtime"
KOPF, ASYNCIO, BEFORE = "kopf", "kubernetes_asyncio", "edgewright, before"


def programs() -> dict[str, list[str]]:
    """The command of each program, without the arguments that all take."""
    python = [sys.executable, "-m"]
    return {
        BARE: [*python, "bench.peers.bare_peer"],
        OURS: [*python, "bench.peers.edgewright_peer"],
        LEASED: [*python, "bench.peers.edgewright_peer", "--lease"],
        GO: [str(build.build())],
        KOPF: [*python, "bench.peers.kopf_peer"],
        ASYNCIO: [*python, "bench.peers.kubernetes_asyncio_peer"],
    }


def shared_arguments(plane: ControlPlane, namespace: str, args: Namespace) -> list[str]:
    """The arguments that every program takes."""
    numbers = ["--objects", str(args.objects), "--workers", str(args.workers)]
    return ["--kubeconfig", str(plane.kubeconfig), "--namespace", namespace, *numbers]


async def fill(client: Client, namespace: str, count: int) -> None:
    """Creates the objects of one run."""
    objects = [
        Bench(
            metadata=ObjectMeta(name=f"bench-{i:05d}", namespace=namespace), spec=BenchSpec(index=i, payload="x" * 200)
        )
        for i in range(count)
    ]
    await drive.create_all(client, objects)


async def compare(plane: ControlPlane, args: Namespace) -> dict[str, list[dict[str, float]]]:
    """Runs every program `args.runs` times in turn, each on fresh objects."""
    commands = programs()
    if args.before is not None:
        commands[BEFORE] = commands[OURS]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    async with drive.client_for(plane) as client:
        await install(client, crd(Bench, status=True))
        for turn in range(args.runs):
            # Turned round, everybody would still come after the same neighbour, whose objects the server is forgetting.
            for name, command in random.Random(turn).sample(sorted(commands.items()), len(commands)):
                namespace = plane.create_namespace("bench")
                await fill(client, namespace, args.objects)
                run = await asyncio.to_thread(
                    drive.run_peer,
                    [*command, *shared_arguments(plane, namespace, args)],
                    checkout=args.before if name == BEFORE else drive.ROOT,
                )
                await check_written(client, namespace, args.objects)
                await drive.delete_all(client, Bench.kind, namespace)
                results[name].append(run)
                numbers = f"{run['seconds']:.2f} s, CPU {run['cpu_seconds']:.2f} s"
                drive.progress(f"turn {turn + 1} of {args.runs}: {name}: {numbers}")
    return results


async def check_written(client: Client, namespace: str, count: int) -> None:
    """A run counts only if the server has every status."""
    page = await client.of(Bench).list(namespace)
    written = sum(1 for obj in page.items if obj.status is not None and obj.status.phase == "Done")
    if written != count:
        raise RuntimeError(f"{written} of {count} objects have their status")


async def requests_when_settled(args: Namespace) -> dict[str, int]:
    """What ours asks of the server once settled, counted by what it is; watches are left out."""
    with drive.control_plane(audit=True) as plane:
        async with drive.client_for(plane) as client:
            await install(client, crd(Bench, status=True))
            await fill(client, "default", args.objects)
            command = [*programs()[LEASED], "--settle", str(args.settle), *shared_arguments(plane, "default", args)]
            process = await asyncio.to_thread(
                subprocess.Popen, command, cwd=drive.ROOT, stdout=subprocess.PIPE, text=True
            )
            if process.stdout is None or not await asyncio.to_thread(process.stdout.readline):
                raise RuntimeError("the settling run ended before its work was done")
            before = len(plane.audit_events())
            await asyncio.sleep(args.settle - 2)  # the last two seconds are its stopping
            events = plane.audit_events()[before:]
            await asyncio.to_thread(process.communicate)
    counts: dict[str, int] = {}
    for event in events:
        if event["userAgent"].startswith("edgewright/") and event["verb"] != "watch":
            what = f"{event['verb']} {event['objectRef']['resource']}"
            counts[what] = counts.get(what, 0) + 1
    return counts


def summarise(results: dict[str, list[dict[str, float]]], settled: dict[str, int], args: Namespace) -> drive.Outcome:
    """Medians, spreads, ratios and goals."""
    outcome = drive.Outcome(
        "reconcile", columns=("program", "objects/s", "seconds (spread)", "writes/object", "CPU s", "peak MB")
    )
    for name, runs in results.items():
        seconds = [run["seconds"] for run in runs]
        outcome.rows.append(
            (
                name,
                f"{args.objects / statistics.median(seconds):.0f}",
                f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})",
                f"{drive.median(runs, 'requests') / args.objects:.2f}",
                f"{drive.median(runs, 'cpu_seconds'):.2f}",
                f"{drive.median(runs, 'peak_rss_mb'):.0f}",
            )
        )

    def ratio(name: str, ours: str, theirs: str) -> float:
        return drive.median(results[ours], name) / drive.median(results[theirs], name)

    outcome.add("seconds / bare loop", ratio("seconds", OURS, BARE), "<=1.08")
    outcome.add("seconds with a lease / bare loop", ratio("seconds", LEASED, BARE))
    outcome.add("CPU / bare loop", ratio("cpu_seconds", OURS, BARE))
    if BEFORE in results:
        outcome.add("seconds / before", ratio("seconds", OURS, BEFORE), "<=1.05")
        outcome.add("CPU / before", ratio("cpu_seconds", OURS, BEFORE), "<=1.05")
    outcome.add("seconds / controller-runtime", ratio("seconds", OURS, GO))
    outcome.add("writes an object", max(run["requests"] for run in results[OURS]) / args.objects, "==1")
    outcome.add("CPU / controller-runtime", ratio("cpu_seconds", OURS, GO), "<=1")
    outcome.add("CPU / kopf", ratio("cpu_seconds", OURS, KOPF), "<=0.2")
    outcome.add("peak MB", max(run["peak_rss_mb"] for run in results[OURS] + results[LEASED]), "<=80")
    renewals = sum(count for what, count in settled.items() if what == "patch leases")
    outcome.add("other requests once settled", float(sum(settled.values()) - renewals), "==0")
    outcome.notes.append(f"In {args.settle - 2:.0f} s once settled: {settled or 'nothing'} besides watches.")
    return outcome


def main() -> int:
    args = drive.arguments(
        __doc__,
        objects={"type": int, "default": 2000, "help": "how many custom resources (default 2000)"},
        workers={"type": int, "default": 16, "help": "how many are reconciled at once (default 16)"},
        runs={"type": int, "default": 5, "help": "how many turns each program gets (default 5)"},
        before={"type": Path, "help": "a checkout of another commit, whose edgewright takes turns too"},
        settle={"type": float, "default": 32.0, "help": "how long ours is watched once settled (default 32 s)"},
    )
    with drive.control_plane() as plane:
        results = asyncio.run(compare(plane, args))
    settled = asyncio.run(requests_when_settled(args))
    return drive.finish(summarise(results, settled, args), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
