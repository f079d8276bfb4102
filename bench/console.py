"""What the console costs: a GET from its shared cache and one passed through, next to the same GET at the API server.

On a real API server, with the same token and the same number of connections. CPU is that of all servers that a request
goes through: of etcd and the API server, and of the console where there is one; what the load computes is not counted.
Then many clients follow the Devices as server-sent events, and a real browser the rollout, while a rollout takes all of
them to another version: how many watches of a kind the API server has, how much memory the console takes, how long a
change takes from the write to the message, and what the browser's first load transfers. Last the counts of the page of
a large fleet shows, next to listing the same Devices page by page.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from bench.gateway import cpu_of, memory_of
from bench.local import cpu_seconds
from bench.rollout import device_of, rollout_of
from edgewright.api import CUSTOM_KINDS, Device, custom_resource_definitions
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.runtime.objects import Key, ObjectMeta
from tests.harness.controlplane import ControlPlane
from tests.harness.waiting import wait_until

DIRECT, THROUGH, CACHED = "API server", "passed through", "from the cache"
_CONNECTIONS = 8
_WARM_UP = 200
_PATIENCE = 600.0
_PROBE_SECONDS = 0.25
"""So often a change is written whose way to the clients is timed."""
_CHANGE = re.compile(rb'"probe":"(change-[0-9]+)"')
_CARRIED = 64
_GETS = re.compile(r'apiserver_request_total\{[^}]*resource="devices"[^}]*verb="GET"[^}]*\} (\d+)')
_CONTINUE = re.compile(rb'"continue":"([^"]*)"')
_WATCHES = re.compile(r'apiserver_longrunning_requests\{([^}]*verb="WATCH"[^}]*)\} (\d+)')


@dataclass(frozen=True)
class Target:
    """Who is asked for a Device, and whose CPU that costs."""

    url: str
    tls: ssl.SSLContext | bool
    pids: tuple[int, ...] = ()


@contextmanager
def console(plane: ControlPlane, *options: str) -> Iterator[Target]:
    """A console as a process."""
    with peer("bench.peers.console_server", str(plane.kubeconfig), *options) as process:
        url = said(process)["url"]
        yield Target(f"{url}/api/v1/devices", tls=True, pids=(process.pid,))


def prepared(plane: ControlPlane, count: int) -> str:
    """Installs the kinds and makes Devices; gives the token of who may read our kinds."""
    for definition in custom_resource_definitions(CUSTOM_KINDS):
        plane.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        plane.until_served(definition["metadata"]["name"])
    accounts, rbac = "/api/v1/namespaces/default/serviceaccounts", "/apis/rbac.authorization.k8s.io/v1"
    groups = sorted({each.kind.group for each in CUSTOM_KINDS})
    rule = {"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]}
    binding = {
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench"},
        "subjects": [{"kind": "ServiceAccount", "name": "bench", "namespace": "default"}],
    }
    plane.request("POST", accounts, {"metadata": {"name": "bench"}})
    plane.request("POST", f"{rbac}/clusterroles", {"metadata": {"name": "bench"}, "rules": [rule]})
    plane.request("POST", f"{rbac}/clusterrolebindings", binding)
    asyncio.run(filled(plane, count))
    # What was written past the API server reaches its own cache a little later, and until then no watch begins.
    version = plane.request("GET", f"{Device.kind.path()}?limit=1")["metadata"]["resourceVersion"]
    fresh = f"{Device.kind.path()}?limit=1&resourceVersion={version}&resourceVersionMatch=NotOlderThan"
    wait_until(lambda: plane.answer("GET", fresh)[0] == 200, what="the API server has them all", timeout=_PATIENCE)
    token = str(plane.request("POST", f"{accounts}/bench/token", {"spec": {}})["status"]["token"])
    direct = direct_target(plane)
    wait_until(lambda: readable(direct, token), what="the token has its rights", timeout=_PATIENCE)
    return token


async def filled(plane: ControlPlane, count: int) -> None:
    """Makes Devices: the first by the API server, with a status, the others as copies in the store."""
    first, *others = (device_of(number) for number in range(count))
    async with drive.client_for(plane) as client:
        made = await client.of(Device).create(
            Device(metadata=ObjectMeta(name=first.metadata.name, labels=first.metadata.labels), spec=first.spec)
        )
        await client.of(Device).write_status(made, first.status)

    def copied(stored: bytes, device: Device) -> bytes:
        found = json.loads(stored)
        name = device.metadata.name
        found["metadata"] |= {"name": name, "uid": f"{name:0>36}", "labels": dict(device.metadata.labels)}
        found["spec"]["endpoint"] = device.spec.endpoint
        return json.dumps(found, separators=(",", ":")).encode()

    folder = f"/registry/{Device.kind.group}/{Device.kind.plural}"
    plane.multiply(
        f"{folder}/{first.metadata.name}",
        (
            (f"{folder}/{each.metadata.name}", lambda stored, device=each: copied(stored, device))  # type: ignore[misc]
            for each in others
        ),
    )


def direct_target(plane: ControlPlane) -> Target:
    """The API server itself."""
    return Target(f"{plane.server}{Device.kind.path()}", tls=ssl.create_default_context(cafile=str(plane.ca_file)))


def signed(token: str) -> aiohttp.ClientSession:
    """Whoever asks, with a token; for `async with`."""
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}"}, connector=aiohttp.TCPConnector(limit=0), read_bufsize=1 << 20
    )


async def gets(target: Target, token: str, requests: int, devices: int) -> float:
    """Asks for Devices over some connections, one after another each; how many seconds all of it took."""
    async with signed(token) as session:
        left = iter(range(requests))

        async def work() -> None:
            for number in left:
                url = f"{target.url}/device-{number % devices:06}"
                async with session.get(url, ssl=target.tls) as answer:
                    answer.raise_for_status()
                    await answer.read()

        started = time.monotonic()
        await asyncio.gather(*(work() for _ in range(_CONNECTIONS)))
        return time.monotonic() - started


def one_run(plane: ControlPlane, target: Target, token: str, args: Namespace) -> dict[str, float]:
    """CPU and time of a GET, in seconds."""

    def cpu() -> float:
        return cpu_seconds(plane) + sum(map(cpu_of, target.pids))

    asyncio.run(gets(target, token, min(_WARM_UP, args.requests), args.devices))
    before = cpu()
    seconds = asyncio.run(gets(target, token, args.requests, args.devices))
    return {"cpu": (cpu() - before) / args.requests, "seconds": seconds / args.requests}


async def followed(plane: ControlPlane, target: Target, token: str, args: Namespace) -> dict[str, float]:
    """Many streams and a browser on a rollout: seconds from write to message, watches per kind, memory, first load."""
    written: dict[bytes, float] = {}
    late: list[float] = []
    received: Counter[str] = Counter()

    async def read(response: aiohttp.ClientResponse, synced: asyncio.Event) -> None:
        rest, seen = b"", set[bytes]()
        async for chunk in response.content.iter_any():
            received["bytes"] += len(chunk)
            text = rest + chunk
            if b"event: synced" in text:
                synced.set()
            for change in set(_CHANGE.findall(text)) - seen:  # it stays on the Device, and comes again
                late.append(time.monotonic() - written[change])
                seen.add(change)
            rest = text[-_CARRIED:]

    async with AsyncExitStack() as stack, asyncio.timeout(_PATIENCE):
        session = await stack.enter_async_context(signed(token))
        client = await stack.enter_async_context(drive.client_for(plane))
        spec = rollout_of(maxConcurrent=200).spec
        metadata = ObjectMeta(name="bench", namespace="default")
        await client.of(FirmwareRollout).create(FirmwareRollout(metadata=metadata, spec=spec))
        readers = []
        base = target.url.rpartition("/api/")[0]
        for _ in range(args.streams):
            url = f"{base}/api/v1/stream?of=devices"
            response = await stack.enter_async_context(session.get(url, timeout=aiohttp.ClientTimeout(total=None)))
            response.raise_for_status()
            synced = asyncio.Event()
            readers.append(asyncio.create_task(read(response, synced)))
            await synced.wait()
        drive.progress(f"{args.streams} streams stand; memory {memory_of(target.pids[0]) / 2**20:.0f} MB")
        browser = stack.enter_context(peer("bench.peers.console_browser", base, token))
        first_load = (await asyncio.to_thread(said, browser))["first_load"]
        await asyncio.to_thread(said, browser)
        watches = await asyncio.to_thread(watches_of, plane)
        rolling = asyncio.create_task(asyncio.to_thread(roll, plane))
        memory, number, before = 0.0, 0, cpu_of(target.pids[0])
        while not rolling.done():
            change = f"change-{number}"
            written[change.encode()] = time.monotonic()
            await client.of(Device).patch(Key("", "device-000000"), {"metadata": {"labels": {"probe": change}}})
            number += 1
            memory = max(memory, memory_of(target.pids[0]))
            await asyncio.sleep(_PROBE_SECONDS)
        seconds = rolling.result()
        cpu = cpu_of(target.pids[0]) - before
        await until(lambda: len(late) == number * args.streams, what="every stream has told of every change")
        await asyncio.to_thread(finished, browser)
        for reader in readers:
            reader.cancel()
    late.sort()
    drive.progress(
        f"rollout in {seconds:.0f} s; {received['bytes'] / 2**20:.0f} MB streamed; "
        f"the console took {100 * cpu / seconds:.0f} % of a core"
    )
    return {
        "p99": late[int(len(late) * 0.99)],
        "p50": late[len(late) // 2],
        "watches": watches,
        "memory": memory / 2**20,
        "first_load": first_load / 1000,
        "seconds": seconds,
        "probes": number,
    }


async def until(condition: Callable[[], object], *, what: str) -> None:
    """Waits for something while the clients read on."""
    await asyncio.to_thread(wait_until, condition, what=what, timeout=_PATIENCE)


@contextmanager
def peer(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program next to this one, which ends when its standard input does."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=drive.ROOT,
        env=drive.peer_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        process.wait(timeout=60)
        if process.stdout is not None:
            process.stdout.close()


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line that a program says."""
    line = process.stdout.readline() if process.stdout is not None else ""
    if not line:
        raise RuntimeError(f"the program ended with {process.wait()}")
    found: dict[str, Any] = json.loads(line)
    return found


def finished(process: subprocess.Popen[str]) -> None:
    """Ends a program that has something to say about the end."""
    if process.stdin is not None:
        process.stdin.close()
    said(process)


def roll(plane: ControlPlane) -> float:
    """Carries the rollout out; how many seconds it took."""
    return drive.run_peer([sys.executable, "-m", "bench.peers.console_rollout", str(plane.kubeconfig)])["seconds"]


def watches_of(plane: ControlPlane) -> float:
    """How many watches the API server has of that of our kinds that is watched most, by its own metrics."""
    status, text = plane.answer("GET", "/metrics")
    if status != 200:
        raise RuntimeError(f"the API server has no metrics: {status}")
    counted: Counter[str] = Counter()
    for labels, number in _WATCHES.findall(text):
        for kind in (each.kind for each in CUSTOM_KINDS):
            if f'resource="{kind.plural}"' in labels and f'group="{kind.group}"' in labels:
                counted[kind.plural] += int(number)
    drive.progress(f"watches: {dict(counted)}")
    return float(max(counted.values(), default=0))


def gets_of(plane: ControlPlane) -> int:
    """How often the API server was asked for one Device, by its own metrics."""
    _, text = plane.answer("GET", "/metrics")
    return sum(int(number) for number in _GETS.findall(text))


async def fleet_page(plane: ControlPlane, target: Target, token: str, args: Namespace) -> dict[str, float]:
    """Listing a large fleet page by page, and the counts that its page shows: seconds, and the console's memory."""
    direct = direct_target(plane)
    url = f"{target.url.rpartition('/')[0]}/fleet?groupBy=site"
    async with signed(token) as session:

        async def ask(address: str, tls: ssl.SSLContext | bool) -> bytes:
            async with session.get(address, ssl=tls, timeout=aiohttp.ClientTimeout(total=_PATIENCE)) as answer:
                answer.raise_for_status()
                return await answer.read()

        async def listed() -> float:
            began, more = time.monotonic(), ""
            while True:
                page = await ask(f"{direct.url}?limit=500{more}", direct.tls)
                found = _CONTINUE.search(page)
                if found is None or not found[1]:
                    return time.monotonic() - began
                more = f"&continue={found[1].decode()}"

        began = time.monotonic()
        await ask(url, True)
        cold = time.monotonic() - began
        while True:
            before = await asyncio.to_thread(gets_of, plane)
            await ask(f"{target.url}/device-000000", True)
            if await asyncio.to_thread(gets_of, plane) == before:  # else the cache had not got all of them yet
                break
            await asyncio.sleep(1)
        await ask(url, True)
        listing, counting = [], []
        for _ in range(args.runs):
            listing.append(await listed())
            began = time.monotonic()
            counted = json.loads(await ask(url, True))
            counting.append(time.monotonic() - began)
            drive.progress(f"listing {listing[-1]:.2f} s, the fleet page {counting[-1]:.3f} s")
        if counted["total"] != args.fleet or len(counted["groups"]) != min(100, args.fleet):
            raise RuntimeError(f"wrong counts: {counted['total']} in {len(counted['groups'])} groups")
    return {
        "listing": sorted(listing)[len(listing) // 2],
        "counting": sorted(counting)[len(counting) // 2],
        "cold": cold,
        "memory": memory_of(target.pids[0], peak=True) / 2**20,
    }


def add_gets(outcome: drive.Outcome, runs: dict[str, list[dict[str, float]]]) -> None:
    """What a GET costs, and the ratios with their goals."""
    medians = {
        name: {number: drive.median(found, number) for number in ("cpu", "seconds")} for name, found in runs.items()
    }
    for name, found in medians.items():
        outcome.rows.append((f"a GET, {name}", f"{1e6 * found['cpu']:.0f}", f"{1e6 * found['seconds']:.0f}"))
    direct = medians[DIRECT]
    outcome.add("from the cache / API server, CPU", medians[CACHED]["cpu"] / direct["cpu"], "<=0.5")
    outcome.add("passed through / API server, CPU", medians[THROUGH]["cpu"] / direct["cpu"], "<=2")
    outcome.add("passed through / API server, time", medians[THROUGH]["seconds"] / direct["seconds"], "<=2")


def measure_gets(outcome: drive.Outcome, plane: ControlPlane, token: str, args: Namespace) -> None:
    """Each target in turn, several times, so that what disturbs the machine disturbs all."""
    runs: dict[str, list[dict[str, float]]] = {DIRECT: [], THROUGH: [], CACHED: []}
    with console(plane) as through, console(plane, "--shared-cache") as cached:
        for number in range(args.runs):
            for name, target in ((DIRECT, direct_target(plane)), (THROUGH, through), (CACHED, cached)):
                runs[name].append(one_run(plane, target, token, args))
                drive.progress(f"run {number + 1}, {name}: {runs[name][-1]}")
    add_gets(outcome, runs)
    outcome.notes.append(
        f"{args.devices} Devices; {args.runs} runs of {args.requests} GETs, {_CONNECTIONS} connections."
    )


def measure_streams(outcome: drive.Outcome, plane: ControlPlane, token: str, args: Namespace) -> None:
    """The rollout, and who follows it."""
    with console(plane, "--shared-cache") as cached:
        found = asyncio.run(followed(plane, cached, token, args))
    outcome.add("watches of one kind at the API server", found["watches"], "<=1")
    outcome.add("memory of the console with its streams, MB", found["memory"], "<=150")
    outcome.add("from write to message, p99, s", found["p99"], "<=2")
    outcome.add("from write to message, median, s", found["p50"])
    outcome.add("first load of the page, gzipped, kB", found["first_load"], "<=450")
    outcome.notes.append(
        f"{args.streams} streams of Devices and a browser on a rollout over {args.devices}, which took "
        f"{found['seconds']:.0f} s; {found['probes']:.0f} changes were timed on each stream."
    )


def measure_fleet(outcome: drive.Outcome, args: Namespace) -> None:
    """The page of a large fleet, on a server of its own."""
    with drive.control_plane() as plane:
        token = prepared(plane, args.fleet)
        with console(plane, "--shared-cache") as cached:
            found = asyncio.run(fleet_page(plane, cached, token, args))
    outcome.rows.append((f"the counts of {args.fleet} Devices", "", f"{1e6 * found['counting']:.0f}"))
    outcome.rows.append((f"listing {args.fleet} Devices", "", f"{1e6 * found['listing']:.0f}"))
    outcome.add("the fleet's page / listing, time", found["counting"] / found["listing"], "<=0.1")
    outcome.add("memory of the console with a large fleet, at most, MB", found["memory"], "<=600")
    outcome.notes.append(f"The first count of the large fleet, with nothing in the cache, took {found['cold']:.1f} s.")


def measure(args: Namespace) -> drive.Outcome:
    """All parts, or the one that is asked for."""
    outcome = drive.Outcome("console", columns=("what", "CPU, us", "time, us"))
    if args.part != "fleet":
        with drive.control_plane() as plane:
            token = prepared(plane, args.devices)
            if args.part in {"", "gets"}:
                measure_gets(outcome, plane, token, args)
            if args.part in {"", "streams"}:
                measure_streams(outcome, plane, token, args)
    if args.part in {"", "fleet"}:
        measure_fleet(outcome, args)
    return outcome


def readable(target: Target, token: str) -> bool:
    """Whether the token may read Devices by now."""
    try:
        asyncio.run(gets(target, token, 1, 1))
    except aiohttp.ClientResponseError:
        return False
    return True


def main() -> int:
    args = drive.arguments(
        __doc__,
        devices={"type": int, "default": 10_000, "help": "how many Devices there are (default 10000)"},
        requests={"type": int, "default": 5000, "help": "how many GETs a run has (default 5000)"},
        runs={"type": int, "default": 3, "help": "how often each is measured (default 3)"},
        streams={"type": int, "default": 100, "help": "how many clients follow (default 100)"},
        fleet={"type": int, "default": 100_000, "help": "how many Devices the large fleet has (default 100000)"},
        part={"choices": ("", "gets", "streams", "fleet"), "default": "", "help": "measure this part only"},
    )
    return drive.finish(measure(args), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
