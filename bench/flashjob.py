"""How fast a FlashJob flashes a fleet: the operator against a bare client that makes the same writes.

On a real API server, whose etcd does not sync its log; a simulated node gives every Service its address and lets every
flash Pod end well, both at once, so that what is measured is the control plane's work. The operator runs with all its
controllers under a lease; time is from the creation of the job until it is Completed and nothing of it is left. The
bare client makes the same seven writes per device with as many devices under way at once, and nothing else: no cache,
no decision, no status. Both take turns; the numbers are medians. The server counts the writes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from bench.local import cpu_seconds
from bench.peers.flashing import JOB, VERSION
from edgewright.api import CUSTOM_KINDS, Device, FlashJob, Pod, Service, custom_resource_definitions
from edgewright.api.device import DeviceSpec
from edgewright.api.flashjob import TLS_SECRET, FlashJobSpec
from edgewright.runtime import Client, Key, ObjectMeta
from edgewright.runtime.definitions import install
from tests.harness.controlplane import ControlPlane

OURS, BARE = "edgewright", "bare client (the limit)"
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE", "APPLY"})
_COUNTED = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_OURS = frozenset({"devices", "events", "flashjobs", "instances", "pods", "secrets", "services"})
"""What the operator reads and writes; leases are the lease's, and everything else is the server's own business."""
_FOR_DEVICES = frozenset({"devices", "pods", "services"})
_PATIENCE = 600.0
_FEW = 1000
"""Up to so many devices the goal is stricter: the passes over the job grow with its devices."""
_WARM_UP = 200
"""How many devices are flashed before anything is measured."""
_SETTLES = 2.0
"""How long the Events of a job that has ended may be under way."""
_TOUCHED = 3.0
"""How long a settled job that was touched is looked at."""

Run = dict[str, float]


class Peer:
    """A process that says `ready`, works, and ends with a line of JSON once its standard input is closed."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"bench.peers.{module}", *arguments]
        self._name = module
        self._process = subprocess.Popen(
            command,
            cwd=drive.ROOT,
            env=drive.peer_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.kill()  # where it has not ended by itself
        self._process.wait()

    async def says(self, line: str) -> None:
        """Waits for a line."""
        found = await self._line()
        if found != line:
            raise RuntimeError(f"{self._name} said {found!r} where {line!r} was expected")

    async def result(self) -> Run:
        """Waits for its end and returns its numbers."""
        result: Run = json.loads(await self._line())
        await asyncio.to_thread(self._process.wait)
        return result

    async def stop(self) -> Run:
        """Tells it to end and returns its numbers."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        return await self.result()

    async def _line(self) -> str:
        stdout = self._process.stdout
        if stdout is None:
            raise RuntimeError(f"{self._name} has no standard output")
        async with asyncio.timeout(_PATIENCE):
            line = await asyncio.to_thread(stdout.readline)
        if not line:
            raise RuntimeError(f"{self._name} ended with {self._process.wait()}")
        return line.strip()


def counters(text: str) -> Counter[tuple[str, str]]:
    """How many requests the server has answered so far, by verb and resource, from its page of metrics."""
    found: Counter[tuple[str, str]] = Counter()
    for match in _COUNTED.finditer(text):
        labels = dict(_LABEL.findall(match["labels"]))
        resource = "/".join(filter(None, (labels.get("resource", ""), labels.get("subresource", ""))))
        found[labels.get("verb", ""), resource] += int(float(match["count"]))
    return found


def kind_of(resource: str) -> str:
    """The resource without its subresource."""
    return resource.partition("/")[0]


class Fleet:
    """The devices and the job of one run, on a namespace of their own."""

    def __init__(self, plane: ControlPlane, client: Client, *, devices: int, at_once: int) -> None:
        self._client = client
        self._plane = plane
        self.namespace = plane.create_namespace("fleet")
        self.names = [f"device-{number:05d}" for number in range(devices)]
        self._at_once = at_once

    async def prepare(self) -> None:
        """Makes the Devices, and what a flash Pod needs in its namespace."""
        plane, namespace = self._plane, self.namespace
        account = {"metadata": {"name": "default", "namespace": namespace}}
        await asyncio.to_thread(plane.request, "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
        nothing = base64.b64encode(b"nothing").decode()
        secret = {"metadata": {"name": TLS_SECRET}, "data": {"tls.crt": nothing, "tls.key": nothing}}
        await asyncio.to_thread(plane.request, "POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
        devices = [
            Device(
                metadata=ObjectMeta(name=name),
                spec=DeviceSpec(
                    type="esp32s3", endpoint=f"10.{number >> 14}.{(number >> 7) & 127}.{number & 127 | 128}"
                ),
            )
            for number, name in enumerate(self.names)
        ]
        await drive.create_all(self._client, devices)

    async def start(self) -> float:
        """Makes the job; the moment before that."""
        job = FlashJob(
            metadata=ObjectMeta(name=JOB, namespace=self.namespace),
            spec=FlashJobSpec(
                uuid=tuple(self.names),
                firmware="registry.example/thermo:0.2.0",
                version=VERSION,
                max_concurrent=self._at_once,
            ),
        )
        started = time.monotonic()
        await self._client.of(FlashJob).create(job)
        return started

    async def touch(self) -> None:
        """Gives the job a reason for one more pass that changes nothing."""
        change = {"metadata": {"annotations": {"example.com/touched": "true"}}}
        await self._client.of(FlashJob).patch(Key(self.namespace, JOB), change)

    async def check(self) -> None:
        """A run counts only if every device has its outcome, and nothing is left."""
        devices = (await self._client.of(Device).list()).items
        proven = [each for each in devices if each.status.firmware is not None and each.status.claim is None]
        if len(proven) != len(self.names):
            raise RuntimeError(f"{len(proven)} of {len(self.names)} devices are done")
        for kind in (Pod, Service):
            left = (await self._client.of(kind).list(self.namespace)).items
            if left:
                raise RuntimeError(f"{len(left)} of kind {kind.kind.kind} are left")

    async def remove(self) -> None:
        """Clears the ground for the next run."""
        await drive.delete_all(self._client, FlashJob.kind, self.namespace)
        await drive.delete_all(self._client, Device.kind, "")


class Turns:
    """Both sides on one API server, in turn."""

    def __init__(self, plane: ControlPlane, client: Client, args: Namespace) -> None:
        self._plane = plane
        self._client = client
        self._args = args

    async def bare(self, devices: int) -> Run:
        """One run of the bare client."""
        async with self._fleet(devices) as fleet, self._node(fleet) as node:
            await fleet.start()
            before = await self._counted()
            workers, connections = str(self._args.at_once), str(self._args.connections)
            arguments = ("--workers", workers, "--connections", connections)
            async with Peer("flashing_bare", *self._arguments(fleet), *arguments) as peer:
                await peer.says("ready")
                computed = cpu_seconds(self._plane)
                run = await peer.result()
                run["server_cpu"] = cpu_seconds(self._plane) - computed
            return await self._settle(run, node, fleet, before)

    async def ours(self, devices: int) -> Run:
        """One run of the operator, and what it asks for when a settled job is touched."""
        profile = ("--profile", str(self._args.profile)) if self._args.profile else ()
        async with self._fleet(devices) as fleet, self._node(fleet) as node:
            async with Peer("flashing_operator", *self._arguments(fleet), *profile) as peer:
                await peer.says("ready")
                before = await self._counted()
                computed = cpu_seconds(self._plane)
                started = await fleet.start()
                await peer.says("finished")
                computed = cpu_seconds(self._plane) - computed
                await asyncio.sleep(_SETTLES)
                finished = await self._counted()
                await fleet.touch()
                await asyncio.sleep(_TOUCHED)
                asked = await self._counted() - finished
                run = await peer.stop()
            run["seconds"] = run["finished"] - started
            run["server_cpu"] = computed
            run["asked_when_settled"] = -1 + sum(  # one was the touch
                count for (verb, what), count in asked.items() if kind_of(what) in _OURS and verb != "WATCH"
            )
            run["status_writes"] = float((finished - before)["PATCH", "flashjobs/status"])
            before["POST", "flashjobs"] += 1  # made by us, not by the operator
            return await self._settle(run, node, fleet, before, after=finished)

    async def _settle(
        self,
        run: Run,
        node: Peer,
        fleet: Fleet,
        before: Counter[tuple[str, str]],
        *,
        after: Counter[tuple[str, str]] | None = None,
    ) -> Run:
        """Completes the numbers of a run that has ended, after a look at whether it did its work."""
        await fleet.check()
        counted = (after or await self._counted()) - before
        played = await node.stop()
        writes = {
            f"{verb} {what}": count
            for (verb, what), count in counted.items()
            if verb in _WRITES and kind_of(what) in _OURS
        }
        if self._args.verbose:
            drive.progress(f"writes, with {played['writes']:.0f} of the node: {writes}")
        for_devices = sum(count for what, count in writes.items() if kind_of(what.split()[1]) in _FOR_DEVICES)
        return {
            **run,
            "writes": sum(writes.values()) - played["writes"],
            "device_writes": for_devices - played["writes"],
            "most_addresses": played["most_addresses"],
        }

    @asynccontextmanager
    async def _fleet(self, devices: int) -> AsyncIterator[Fleet]:
        fleet = Fleet(self._plane, self._client, devices=devices, at_once=self._args.at_once)
        await fleet.prepare()
        yield fleet
        await fleet.remove()

    @asynccontextmanager
    async def _node(self, fleet: Fleet) -> AsyncIterator[Peer]:
        async with Peer("simulated_node", *self._arguments(fleet)) as node:
            await node.says("ready")
            yield node

    def _arguments(self, fleet: Fleet) -> tuple[str, ...]:
        return ("--kubeconfig", str(self._plane.kubeconfig), "--namespace", fleet.namespace)

    async def _counted(self) -> Counter[tuple[str, str]]:
        return counters((await self._client.get_path("/metrics")).decode())


async def compare(plane: ControlPlane, args: Namespace) -> dict[int, dict[str, list[Run]]]:
    """Runs both with every number of devices, so many times."""
    results: dict[int, dict[str, list[Run]]] = {}
    async with drive.client_for(plane) as client:
        for document in custom_resource_definitions(CUSTOM_KINDS):
            await install(client, document)
        turns = Turns(plane, client, args)
        await turns.bare(_WARM_UP)  # whoever comes first would else pay for a server that has just started
        sides = {OURS: turns.ours, BARE: turns.bare}
        if args.profile:
            del sides[BARE]
        for turn in range(args.runs):
            for devices in args.devices:
                order = list(sides.items())
                for name, side in order if turn % 2 == 0 else reversed(order):
                    run = await side(devices)
                    results.setdefault(devices, {}).setdefault(name, []).append(run)
                    drive.progress(
                        f"turn {turn + 1} of {args.runs}: {devices} devices, {name}: {run['seconds']:.1f} s, "
                        f"CPU {run['cpu_until_finished']:.1f} s, the server's {run['server_cpu']:.1f} s"
                    )
    return results


def summarise(results: dict[int, dict[str, list[Run]]], args: Namespace) -> drive.Outcome:
    """Medians, spreads, ratios and goals."""
    outcome = drive.Outcome(
        "flashjob",
        columns=(
            *("program", "devices", "devices/s", "seconds (spread)", "writes/device"),
            *("CPU s", "server's CPU s", "peak MB"),
        ),
    )
    for devices, sides in results.items():
        for name, runs in sorted(sides.items()):
            seconds = [run["seconds"] for run in runs]
            outcome.rows.append(
                (
                    name,
                    str(devices),
                    f"{devices / statistics.median(seconds):.0f}",
                    f"{statistics.median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})",
                    f"{drive.median(runs, 'writes') / devices:.2f}",
                    f"{drive.median(runs, 'cpu_until_finished'):.1f}",
                    f"{drive.median(runs, 'server_cpu'):.1f}",
                    f"{drive.median(runs, 'peak_rss_mb'):.0f}",
                )
            )
    for devices, sides in results.items():
        if BARE not in sides:
            continue
        ratio = drive.median(sides[OURS], "seconds") / drive.median(sides[BARE], "seconds")
        outcome.add(f"seconds / bare client, {devices} devices", ratio, "<=1.15" if devices <= _FEW else "<=1.25")
        computed = drive.median(sides[OURS], "cpu_until_finished") / drive.median(sides[BARE], "cpu_until_finished")
        outcome.add(f"CPU / bare client, {devices} devices", computed)
    few, many = min(results), max(results)
    if few != many:
        each = {devices: drive.median(results[devices][OURS], "seconds") / devices for devices in (few, many)}
        outcome.add(f"seconds a device, {many} devices / {few} devices", each[many] / each[few], "<=1.1")
    every = [(devices, run) for devices, sides in results.items() for run in sides[OURS]]
    outcome.add("writes per device", max(run["device_writes"] / devices for devices, run in every), "<=7")
    # The first comes at once.
    told = max((run["status_writes"] - 1) / run["seconds"] for _, run in every)
    outcome.add("status writes of the job a second", told, "<=1")
    outcome.add("requests when the settled job is touched", max(run["asked_when_settled"] for _, run in every), "==0")
    outcome.add("peak MB", max(run["peak_rss_mb"] for _, run in every), "<=150")
    outcome.notes.append(
        f"{args.runs} turns; {args.at_once} devices under way at once; at most "
        f"{max(run['most_addresses'] for _, run in every):.0f} Services at once."
    )
    return outcome


def main() -> int:
    args = drive.arguments(
        __doc__,
        devices={"type": int, "nargs": "+", "default": [1000, 5000], "help": "how many devices (default 1000 5000)"},
        at_once={"type": int, "default": 200, "help": "spec.maxConcurrent (default 200)"},
        connections={"type": int, "default": 32, "help": "those of the bare client (default 32)"},
        runs={"type": int, "default": 3, "help": "how many turns each side gets (default 3)"},
        profile={"type": Path, "help": "run the operator only; where it writes where its time went"},
        verbose={"action": "store_true", "help": "tell every kind of write"},
    )
    with drive.control_plane() as plane:
        results = asyncio.run(compare(plane, args))
    return drive.finish(summarise(results, args), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
