"""What the gateway costs for thousands of agents, against a bare aiohttp server over the same TLS with the same bytes.

A Go program in a process of its own is the agents: each has a certificate and a connection. They ask as published
agents do (two questions every five seconds, a heartbeat a minute), and then wait for news while a workload is written
that selects them all. Both servers are measured one after the other with the same agents: CPU time per request, memory
per connection, handshakes, p99, writes to the API server per heartbeat, and how long news take to the last agent.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from bench.peers import build
from edgewright.api.capabilities import EDGE
from edgewright.api.crd import custom_resource_definitions
from edgewright.api.edgedevice import KEY_ANNOTATION, EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.gateway import rotation
from edgewright.gateway.authority import HOST_FILES, HOST_SECRET
from edgewright.gateway.certificates import Authority, read_request
from edgewright.gateway.objects import Secret
from edgewright.runtime import Key, ObjectMeta
from edgewright.runtime.definitions import install
from tests.harness.controlplane import ControlPlane
from tests.harness.processes import free_port
from tests.harness.waiting import wait_until

LOAD = Path(__file__).resolve().parent / "peers" / "edge-load"
NAMESPACE = "default"
OURS, BARE = "edgewright gateway", "bare aiohttp server"
_PATIENCE = 900.0
_AT_ONCE = 250
_TICKS = os.sysconf("SC_CLK_TCK")


class Load:
    """The agents."""

    def __init__(self, program: Path, directory: Path, port: int) -> None:
        command = [str(program), "-dir", str(directory), "-server", f"127.0.0.1:{port}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.failures: Counter[str] = Counter()
        """What went wrong so far: the phase, what the agent did, and how that failed."""

    def order(self, *words: object) -> dict[str, Any]:
        """What came of an order; what failed meanwhile is counted."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        self.failures.update(found.pop("failures"))
        return found

    def failed(self, phase: str = "") -> int:
        """How many requests and handshakes failed, in one phase or in all."""
        return sum(count for kind, count in self.failures.items() if kind.startswith(phase))

    def end(self) -> None:
        """Ends them."""
        self._process.kill()
        self._process.wait()


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_of(pid: int, *, peak: bool = False) -> float:
    """The memory of a process, in bytes: as it is now, or the most that it ever was."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:" if peak else "VmRSS:"):
            return float(line.split()[1]) * 1024
    raise RuntimeError("the process has no memory")


def connected(load: Load, pid: int, news: Written | Signalled, agents: int) -> dict[str, float]:
    """All agents with a connection and heard once, some at a time: one that never asks anything is cut.

    Handshakes are counted and timed without what comes after them. While what the first heartbeats change is written,
    those that are inside go on asking: the gateway closes a connection that is idle for longer than any agent is.
    """
    found = dict.fromkeys(("connected", "seconds", "cpu"), 0.0)
    for first in range(0, agents, _AT_ONCE):
        last = min(first + _AT_ONCE, agents)
        before = cpu_of(pid)
        told = load.order("connect", first, last)
        found["cpu"] += cpu_of(pid) - before
        for name, value in told.items():
            found[name] += value
        load.order("greet", first, last)

        def settled(last: int = last) -> bool:
            load.order("keep", 0, last)
            return news.settled()

        wait_until(settled, what="what the first heartbeats change is written", timeout=_PATIENCE, interval=2.0)
    drive.progress(f"connected: {found}")
    return found


def measured(load: Load, pid: int, news: Written | Signalled, args: Namespace) -> dict[str, float]:
    """One server under the agents."""
    empty = memory_of(pid)
    inside = connected(load, pid, news, args.agents)
    full = memory_of(pid)
    written_before, before = news.writes(), cpu_of(pid)
    loaded = load.order("load", args.seconds, args.interval)
    spent, writes = cpu_of(pid) - before, news.writes() - written_before
    drive.progress(f"load: {loaded}")
    load.order("wait")
    wait_until(news.ready, what="the agents wait", timeout=_PATIENCE)
    before, written = cpu_of(pid), news.tell()
    found = wait_until(
        lambda: (told := load.order("heard"))["heard"] + load.failed("wait") >= inside["connected"] and told,
        what="all agents have the news",
        timeout=_PATIENCE,
        interval=0.2,
    )
    drive.progress(f"news: {found}, {cpu_of(pid) - before:.3f} CPU seconds")
    drive.progress(f"failures: {dict(load.failures)}")
    return {
        "handshakes": inside["connected"] / inside["seconds"],
        "handshake cpu": inside["cpu"] / max(inside["connected"], 1),
        "connected": inside["connected"],
        "failed": load.failed(),
        "bytes": (full - empty) / max(inside["connected"], 1),
        "cpu": spent / max(loaded["requests"], 1),
        "rate": loaded["requests"] / loaded["seconds"],
        "p99": loaded.get("p99", 0.0),
        "idle": 1 - loaded["cpu"] / loaded["seconds"],
        "heartbeats": loaded["heartbeats"],
        "writes": writes,
        "news": found["last"] - written,
    }


class Written:
    """News by a workload at the API server."""

    def __init__(self, plane: ControlPlane, metrics: str, agents: int) -> None:
        self._plane = plane
        self._metrics = metrics
        self._agents = agents
        self._written = -1.0

    def writes(self) -> float:
        """How many requests the gateway has sent that write."""
        return sum(number(self._metrics, "rest_client_requests_total", f'"{verb}"') for verb in ("PATCH", "POST"))

    def settled(self) -> bool:
        """Whether nothing has been written since the last look."""
        before, self._written = self._written, self.writes()
        return before == self._written

    def ready(self) -> bool:
        """Whether all agents wait at the gateway."""
        return number(self._metrics, "edgewright_gateway_waiting") >= self._agents

    def tell(self) -> float:
        """Writes it; gives when that was acknowledged."""
        body = {
            "apiVersion": EdgeWorkload.kind.api_version,
            "kind": "EdgeWorkload",
            "metadata": {"name": "news", "namespace": NAMESPACE},
            "spec": {
                "type": "pod",
                "deviceSelector": {},
                "pod": {"spec": {"containers": [{"name": "web", "image": "docker.io/nginx:1.14.2"}]}},
            },
        }

        async def write() -> float:
            async with drive.client_for(self._plane) as client:
                await client.raw(EdgeWorkload.kind).create(body)
            return time.time()

        return asyncio.run(write())


class Signalled:
    """News by a signal to the bare server, which has had all questions when its time to read them has passed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._quiet = 0
        self._last = -1.0

    def writes(self) -> float:
        """None: it has no API server."""
        return 0.0

    def settled(self) -> bool:
        """Always."""
        return True

    def ready(self) -> bool:
        """Whether the server has read all questions: its CPU time stands still."""
        spent = cpu_of(self._pid)
        self._quiet = self._quiet + 1 if spent == self._last else 0
        self._last = spent
        return self._quiet >= 50

    def tell(self) -> float:
        """Sends it."""
        os.kill(self._pid, signal.SIGUSR1)
        return time.time()


def number(url: str, name: str, label: str = "") -> float:
    """A metric, summed over its labels, or over those lines with this label."""
    with urllib.request.urlopen(url, timeout=60) as page:
        lines = page.read().decode().splitlines()
    named = [line for line in lines if line.startswith((f"{name} ", f"{name}{{")) and label in line]
    return sum(float(line.rpartition(" ")[2]) for line in named)


async def prepared(plane: ControlPlane, directory: Path, count: int) -> None:
    """The EdgeDevices, and a certificate for each by the gateway's authority."""
    async with drive.client_for(plane) as client:
        secret = await client.of(Secret).get(Key(NAMESPACE, rotation.CA_SECRET))
        authority = rotation.authorities_in(secret).current
        host = rotation.issued_in(await client.of(Secret).get(Key(NAMESPACE, HOST_SECRET)), HOST_FILES)
        names = [f"agent-{place:05}" for place in range(count)]
        devices = [
            EdgeDevice(metadata=ObjectMeta(name=name, namespace=NAMESPACE, annotations={KEY_ANNOTATION: "bench"}))
            for name in names
        ]
        await drive.create_all(client, devices)
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (directory / "ca.pem").write_bytes(authority.issued.certificate)
    (directory / "host.pem").write_bytes(host.certificate + host.key)
    (directory / "key.pem").write_bytes(pem)
    (directory / "certificates.pem").write_bytes(b"".join(_certificates(authority, key, names)))


def _certificates(authority: Authority, key: ec.EllipticCurvePrivateKey, names: list[str]) -> Iterator[bytes]:
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    read = read_request(request.public_bytes(serialization.Encoding.PEM).decode())
    now = datetime.now(UTC)
    return (authority.device(read, name, NAMESPACE, days=1, now=now) for name in names)


@contextmanager
def gateway(plane: ControlPlane, ports: tuple[int, int, int]) -> Iterator[subprocess.Popen[bytes]]:
    """The gateway as a process."""
    program = str(Path(sys.executable).parent / "edgewright")
    port, metrics, health = map(str, ports)
    command = [
        program,
        "gateway",
        "--kubeconfig",
        str(plane.kubeconfig),
        "--namespace",
        NAMESPACE,
        "--host",
        "127.0.0.1",
    ]
    command += ["--port", port, "--metrics-port", metrics, "--health-port", health]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:

        def ready() -> bool:
            try:
                return bool(urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5).status == 200)
            except OSError:
                return False

        wait_until(ready, what="the gateway is ready", timeout=_PATIENCE)
        yield process
    finally:
        process.terminate()
        process.wait()


def main() -> int:
    """Measures and reports."""
    args = drive.arguments(
        __doc__,
        agents={"type": int, "default": 10_000, "help": "how many agents (default 10,000)"},
        seconds={"type": float, "default": 60.0, "help": "how long they ask (default 60)"},
        interval={"type": float, "default": 5.0, "help": "seconds between two rounds of questions (default 5)"},
    )
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    program = build.kubernetes_build().build_module(LOAD, among="bench")
    results: dict[str, dict[str, float]] = {}
    ports = (free_port(), free_port(), free_port())
    with drive.control_plane() as plane, tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        asyncio.run(_installed(plane))
        with gateway(plane, ports):  # makes the authority
            asyncio.run(prepared(plane, directory, args.agents))
        with gateway(plane, ports) as process:
            page = f"http://127.0.0.1:{ports[1]}/metrics"
            load = Load(program, directory, ports[0])
            try:
                results[OURS] = measured(load, process.pid, Written(plane, page, args.agents), args)
                body = asyncio.run(_body(directory, ports[0]))
            finally:
                load.end()
        (directory / "body.json").write_bytes(body)
        command = [sys.executable, "-m", "bench.peers.bare_gateway", str(directory)]
        peer = subprocess.Popen(
            command, cwd=drive.ROOT, stdout=subprocess.PIPE, text=True, env=drive.peer_environment()
        )
        try:
            assert peer.stdout is not None
            load = Load(program, directory, json.loads(peer.stdout.readline())["port"])
            try:
                results[BARE] = measured(load, peer.pid, Signalled(peer.pid), args)
            finally:
                load.end()
        finally:
            peer.kill()
            peer.wait()
    return drive.finish(summarise(results, args), as_json=args.json)


async def _installed(plane: ControlPlane) -> None:
    async with drive.client_for(plane) as client:
        for each in custom_resource_definitions(EDGE.kinds):
            await install(client, each)


async def _body(directory: Path, port: int) -> bytes:
    """What the gateway answers the first agent."""
    import ssl  # noqa: PLC0415 - only here

    import aiohttp  # noqa: PLC0415

    tls = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    first = (directory / "certificates.pem").read_bytes().split(b"-----END CERTIFICATE-----\n")[0]
    (directory / "first.pem").write_bytes(first + b"-----END CERTIFICATE-----\n" + (directory / "key.pem").read_bytes())
    tls.load_cert_chain(directory / "first.pem")
    url = f"https://127.0.0.1:{port}/api/flotta-management/v1/data/agent-00000/in"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls) as response:
        return await response.read()


def summarise(results: dict[str, dict[str, float]], args: Namespace) -> drive.Outcome:
    """The table and the ratios."""
    names = ("connected", "failed", "handshakes", "handshake cpu", "rate", "p99", "cpu", "bytes", "news")
    outcome = drive.Outcome("gateway", columns=("server", *names))
    for server, found in results.items():
        outcome.rows.append((server, *(f"{found[name]:.6g}" for name in names)))
    ours, bare = results[OURS], results[BARE]
    outcome.add("requests that failed", ours["failed"] + bare["failed"], "<=0")
    outcome.add("CPU per request / bare server", ours["cpu"] / bare["cpu"], "<=1.5")
    outcome.add("memory per connection / bare server", ours["bytes"] / bare["bytes"], "<=1.3")
    outcome.add("kB per connection", ours["bytes"] / 1000, "<=80")
    outcome.add("handshakes per second", ours["handshakes"], ">=300")
    outcome.add("CPU per handshake / bare server", ours["handshake cpu"] / bare["handshake cpu"])
    outcome.add("p99 in seconds", ours["p99"], "<=1")
    outcome.add("idle share of one CPU of the agents' program", ours["idle"])
    outcome.add("writes per heartbeat", ours["writes"] / max(ours["heartbeats"], 1), "<=0.01")
    outcome.add("news to the last agent / bare server", ours["news"] / bare["news"], "<=5")
    outcome.notes.append(
        f"{args.agents} agents, {args.seconds:g} s of questions every {args.interval:g} s. Writes are counted after "
        "each agent was heard once."
    )
    return outcome


if __name__ == "__main__":
    sys.exit(main())
