"""What the console costs: a GET from its shared cache and one passed through, next to the same GET at the API server.

On a real API server, with the same token and the same number of connections. CPU is that of all servers that a request
goes through: of etcd and the API server, and of the console where there is one; what the load computes is not counted.
Then many clients follow the Devices as server-sent events while Devices change: how many watches the API server has,
how much memory the console takes, and how long a change takes from the write to the message.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from bench.gateway import cpu_of, memory_of
from bench.local import cpu_seconds
from edgewright.api import CUSTOM_KINDS, Device, custom_resource_definitions
from edgewright.runtime.objects import Key, ObjectMeta
from tests.harness.controlplane import ControlPlane
from tests.harness.waiting import wait_until

DIRECT, THROUGH, CACHED = "API server", "passed through", "from the cache"
_CONNECTIONS = 8
_WARM_UP = 200
_PATIENCE = 600.0
_CHANGE = re.compile(rb'"tier":"(change-[0-9]+)"')
_WATCHES = re.compile(r'apiserver_longrunning_requests\{[^}]*resource="devices"[^}]*verb="WATCH"[^}]*\} (\d+)')


@dataclass(frozen=True)
class Target:
    """Who is asked for a Device, and whose CPU that costs."""

    url: str
    tls: ssl.SSLContext | bool
    pids: tuple[int, ...] = ()


@contextmanager
def console(plane: ControlPlane, *options: str) -> Iterator[Target]:
    """A console as a process."""
    command = [sys.executable, "-m", "bench.peers.console_server", str(plane.kubeconfig), *options]
    process = subprocess.Popen(
        command,
        cwd=drive.ROOT,
        env=drive.peer_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the console has no pipes")
    try:
        yield Target(f"{process.stdout.readline().strip()}/api/v1/devices", tls=True, pids=(process.pid,))
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


def prepared(plane: ControlPlane, count: int) -> str:
    """Installs the kinds and makes Devices; gives the token of who may read them."""
    for definition in custom_resource_definitions(CUSTOM_KINDS):
        plane.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        plane.until_served(definition["metadata"]["name"])
    accounts, rbac = "/api/v1/namespaces/default/serviceaccounts", "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [Device.kind.group], "resources": [Device.kind.plural], "verbs": ["get", "list", "watch"]}
    binding = {
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench"},
        "subjects": [{"kind": "ServiceAccount", "name": "bench", "namespace": "default"}],
    }
    plane.request("POST", accounts, {"metadata": {"name": "bench"}})
    plane.request("POST", f"{rbac}/clusterroles", {"metadata": {"name": "bench"}, "rules": [rule]})
    plane.request("POST", f"{rbac}/clusterrolebindings", binding)

    async def fill() -> None:
        async with drive.client_for(plane) as client:
            labels = {"site": "bench", "tier": "one"}
            devices = [Device(metadata=ObjectMeta(name=f"device-{each}", labels=labels)) for each in range(count)]
            await drive.create_all(client, devices)

    asyncio.run(fill())
    return str(plane.request("POST", f"{accounts}/bench/token", {"spec": {}})["status"]["token"])


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
                url = f"{target.url}/device-{number % devices}"
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
    """Many streams while Devices change: seconds from write to message, watches at the API server, memory."""
    written: dict[bytes, float] = {}
    late: list[float] = []

    async def read(response: aiohttp.ClientResponse, synced: asyncio.Event) -> None:
        seen = 0
        async for line in response.content:
            if line.startswith(b"event: synced"):
                synced.set()
            elif synced.is_set() and (found := _CHANGE.search(line)):
                late.append(time.monotonic() - written[found[1]])
                seen += 1
                if seen == args.changes:
                    return

    async with AsyncExitStack() as stack, asyncio.timeout(_PATIENCE):
        session = await stack.enter_async_context(signed(token))
        client = await stack.enter_async_context(drive.client_for(plane))
        readers = []
        url = f"{target.url.rpartition('/')[0]}/stream?of=devices"
        for _ in range(args.streams):
            response = await stack.enter_async_context(session.get(url, timeout=aiohttp.ClientTimeout(total=None)))
            response.raise_for_status()
            synced = asyncio.Event()
            readers.append(asyncio.create_task(read(response, synced)))
            await synced.wait()
        watches = await asyncio.to_thread(watches_of, plane)
        for number in range(args.changes):
            change = f"change-{number}"
            written[change.encode()] = time.monotonic()
            key = Key("", f"device-{number % args.devices}")
            await client.of(Device).patch(key, {"metadata": {"labels": {"tier": change}}})
        await asyncio.gather(*readers)
        memory = memory_of(target.pids[0])
    late.sort()
    return {"p99": late[int(len(late) * 0.99)], "watches": watches, "memory": memory / 2**20}


def watches_of(plane: ControlPlane) -> float:
    """How many watches of Devices the API server has, by its own metrics."""
    status, text = plane.answer("GET", "/metrics")
    if status != 200:
        raise RuntimeError(f"the API server has no metrics: {status}")
    return float(sum(int(each) for each in _WATCHES.findall(text)))


def summarise(runs: dict[str, list[dict[str, float]]], streams: dict[str, float]) -> drive.Outcome:
    """The table, and the ratios with their goals."""
    outcome = drive.Outcome("console", columns=("a GET", "CPU, us", "time, us"))
    medians = {
        name: {number: drive.median(found, number) for number in ("cpu", "seconds")} for name, found in runs.items()
    }
    for name, found in medians.items():
        outcome.rows.append((name, f"{1e6 * found['cpu']:.0f}", f"{1e6 * found['seconds']:.0f}"))
    direct = medians[DIRECT]
    outcome.add("from the cache / API server, CPU", medians[CACHED]["cpu"] / direct["cpu"], "<=0.5")
    outcome.add("passed through / API server, CPU", medians[THROUGH]["cpu"] / direct["cpu"], "<=2")
    outcome.add("passed through / API server, time", medians[THROUGH]["seconds"] / direct["seconds"], "<=2")
    outcome.add("watches at the API server", streams["watches"], "<=1")
    outcome.add("memory of the console, MB", streams["memory"], "<=150")
    outcome.add("from write to message, p99, s", streams["p99"], "<=2")
    return outcome


def measure(args: Namespace) -> drive.Outcome:
    """Each target in turn, several times, so that what disturbs the machine disturbs all; then the streams."""
    runs: dict[str, list[dict[str, float]]] = {DIRECT: [], THROUGH: [], CACHED: []}
    with drive.control_plane() as plane:
        token = prepared(plane, args.devices)
        trust = ssl.create_default_context(cafile=str(plane.ca_file))
        direct = Target(f"{plane.server}{Device.kind.path()}", tls=trust)
        wait_until(lambda: readable(direct, token), what="the token has its rights", timeout=_PATIENCE)
        with console(plane) as through, console(plane, "--shared-cache") as cached:
            for number in range(args.runs):
                for name, target in ((DIRECT, direct), (THROUGH, through), (CACHED, cached)):
                    runs[name].append(one_run(plane, target, token, args))
                    drive.progress(f"run {number + 1}, {name}: {runs[name][-1]}")
            streams = asyncio.run(followed(plane, cached, token, args))
    outcome = summarise(runs, streams)
    outcome.notes.append(
        f"{args.devices} Devices; {args.runs} runs of {args.requests} GETs over {_CONNECTIONS} connections; "
        f"{args.streams} streams and {args.changes} changes."
    )
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
        changes={"type": int, "default": 200, "help": "how many changes they are told of (default 200)"},
    )
    return drive.finish(measure(args), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
