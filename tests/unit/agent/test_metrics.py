"""Metrics: what is read, what is asked, what is sent, and what waits while the receiver is unavailable."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from edgewright.agent.events import Events
from edgewright.agent.metrics import Metrics, endpoints, request, sources
from edgewright.agent.remote_write import Waiting, encoded, snappy
from edgewright.agent.samples import Sample, allowed, machine, parsed
from edgewright.agent.state import State
from edgewright.agent.surroundings import Surroundings
from edgewright.api.edge_protocol import (
    ComponentMetricsConfiguration,
    ContainerMetrics,
    DeviceConfiguration,
    DeviceConfigurationMessage,
    HeartbeatConfiguration,
    MetricsAllowList,
    MetricsConfiguration,
    MetricsReceiverConfiguration,
    MetricsRetention,
    Workload,
    WorkloadMetrics,
)
from edgewright.containers import Podman
from edgewright.runtime.tls import ConfigError
from tests.harness.waiting import wait_until_async
from tests.unit.agent.test_agent import HastyClock
from tests.unit.containers.fake_podman import FakePodman

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def unsnapped(data: bytes) -> bytes:
    """Snappy's block format with literals of two bytes of length, written again from its description."""
    length, at = varint(data, 0)
    out = b""
    while at < len(data):
        assert data[at] == 0xF4
        size = struct.unpack("<H", data[at + 1 : at + 3])[0] + 1
        out += data[at + 3 : at + 3 + size]
        at += 3 + size
    assert len(out) == length
    return out


def fields(data: bytes) -> list[tuple[int, bytes | int]]:
    found: list[tuple[int, bytes | int]] = []
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 2:
            size, at = varint(data, at)
            found.append((tag >> 3, data[at : at + size]))
            at += size
        elif tag & 7 == 1:
            found.append((tag >> 3, data[at : at + 8]))
            at += 8
        else:
            value, at = varint(data, at)
            found.append((tag >> 3, value))
    return found


def series(body: bytes) -> list[tuple[dict[str, str], float, int]]:
    """Labels, value and time of everything in a request."""
    out = []
    for _, each in fields(unsnapped(body)):
        assert isinstance(each, bytes)
        labels, value, millis = {}, 0.0, 0
        for number, content in fields(each):
            assert isinstance(content, bytes)
            inner = dict(fields(content))
            if number == 1:
                labels[bytes(inner[1]).decode()] = bytes(inner[2]).decode()
            else:
                value, millis = struct.unpack("<d", inner[1])[0], int(inner[2])  # type: ignore[arg-type]
        out.append((labels, value, millis))
    return out


def test_a_request_holds_every_sample_with_sorted_labels() -> None:
    samples = [
        Sample(name="b", value=1.5, labels={"z": "1", "a": "2", "empty": ""}),
        Sample(name="c", value=2, millis=-5),
    ]
    first, second = series(encoded(samples, labels={"edgedeviceid": "d"}, millis=1000))
    assert first == ({"__name__": "b", "a": "2", "edgedeviceid": "d", "z": "1"}, 1.5, 1000)
    assert list(first[0]) == sorted(first[0])
    assert second[2] == (1 << 64) - 5
    assert unsnapped(snappy(b"x" * 200_000)) == b"x" * 200_000
    assert unsnapped(snappy(b"")) == b""


def test_what_waits_is_kept_in_order_and_within_the_retention(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path / "metrics")
    assert waiting.first() is None
    for number in range(4):
        waiting.add(bytes([number]) * 100, now=NOW + timedelta(hours=number))
    assert Waiting(tmp_path / "metrics").first() == (f"000000000001-{int(NOW.timestamp())}.write", b"\0" * 100)
    assert waiting.retain(max_bytes=350, max_seconds=0, now=NOW) == 1
    assert waiting.retain(max_bytes=0, max_seconds=3600, now=NOW + timedelta(hours=3)) == 1
    assert waiting.retain(max_bytes=0, max_seconds=0, now=NOW + timedelta(days=99)) == 0
    name, body = waiting.first() or ("", b"")
    assert body == b"\2" * 100
    waiting.done(name)
    waiting.done(name)
    assert (waiting.first() or ("", b""))[1] == b"\3" * 100


def test_the_machine_is_read_with_the_names_of_the_node_exporter(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    (proc / "net").mkdir(parents=True)
    (proc / "loadavg").write_text("0.5 0.25 x 1/1 1\n")
    (proc / "stat").write_text("cpu 1 2\ncpu0 100 0 50\nbtime 1700\n\n")
    (proc / "meminfo").write_text("MemTotal: 4 kB\nOther: 1 kB\n")
    (proc / "net" / "dev").write_text("a|b\n eth0: 7 0 0 0 0 0 0 0 9 0\n veth1: 1 0 0 0 0 0 0 0 1 0\n")
    (proc / "diskstats").write_text("8 0 sda 1 0 2 0 1 0 4 0\n7 0 loop0 1 0 2 0 1 0 4 0\n")
    (proc / "mounts").write_text(
        "/dev/sda / ext4 rw 0 0\n/dev/sda /again ext4 rw\n/dev/b /none ext4 rw\nproc /p proc\n"
    )
    found = {(each.name, *sorted(each.labels.values())): each.value for each in machine(tmp_path)}
    assert found["node_load1",] == 0.5
    assert found["node_cpu_seconds_total", "0", "system"] * 2 == found["node_cpu_seconds_total", "0", "user"]
    assert found["node_memory_MemTotal_bytes",] == 4096
    assert found["node_network_transmit_bytes_total", "eth0"] == 9
    assert found["node_disk_written_bytes_total", "sda"] == 2048
    assert found["node_boot_time_seconds",] == 1700
    assert found["node_filesystem_size_bytes", "/", "/dev/sda", "ext4"] > 0
    assert not any("veth1" in key or "loop0" in key or "/none" in key for key in found)
    assert list(machine(tmp_path / "none")) == []


def test_the_text_of_a_workload_is_read_and_what_is_not_on_the_list_dropped() -> None:
    text = '# HELP a b\na 1\nb{x="1",y="a\\"b\\n"} 2.5 1000\nbad line here now\nc nope\nd{} +Inf\n'
    found = list(parsed(text))
    assert [(each.name, each.value, each.millis) for each in found] == [
        ("a", 1.0, None),
        ("b", 2.5, 1000),
        ("d", float("inf"), None),
    ]
    assert found[1].labels == {"x": "1", "y": 'a"b\n'}
    assert [each.name for each in allowed(found, ["b", "z"])] == ["b"]
    assert len(list(allowed(found, None))) == 3


def configured(url: str, *workloads: Workload, **more: object) -> DeviceConfigurationMessage:
    metrics = MetricsConfiguration(receiver=MetricsReceiverConfiguration(url=url), **more)  # type: ignore[arg-type]
    device = DeviceConfiguration(heartbeat=HeartbeatConfiguration(), metrics=metrics)
    return DeviceConfigurationMessage(configuration=device, workloads=workloads)


def test_what_is_asked_and_how_often() -> None:
    assert sources(DeviceConfigurationMessage()) == []
    assert sources(configured("")) == []
    assert [(each.name, each.interval) for each in sources(configured("u"))] == [("system", 60), ("data-transfer", 60)]
    quiet = configured(
        "u",
        Workload(name="web", metrics=WorkloadMetrics(port=1, interval=7, allow_list=MetricsAllowList(names=("a",)))),
        Workload(name="none"),
        system=ComponentMetricsConfiguration(disabled=True),
        data_transfer=ComponentMetricsConfiguration(interval=5),
    )
    assert [(each.name, each.interval, each.names) for each in sources(quiet)] == [
        ("data-transfer", 5, None),
        ("web", 7, ("a",)),
    ]


def test_containers_may_have_a_port_and_a_path_of_their_own() -> None:
    metrics = WorkloadMetrics(
        path="/m", port=1, containers={"b": ContainerMetrics(port=2, path="own"), "c": ContainerMetrics(disabled=True)}
    )
    assert endpoints(Workload(metrics=metrics), ["a", "b", "c"]) == {"a": (1, "/m"), "b": (2, "/own")}
    assert endpoints(Workload(metrics=WorkloadMetrics()), ["a"]) == {}
    assert endpoints(Workload(), ["a"]) == {}


class Receiver:
    """A receiver of remote writes, and a workload that serves metrics."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.statuses: list[int] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_post("/write", self._write)
        application.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(application, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _write(self, asked: web.Request) -> web.Response:
        status = self.statuses.pop(0) if self.statuses else 204
        if status == 204:
            assert asked.headers["Content-Encoding"] == "snappy"
            self.bodies.append(await asked.read())
        return web.Response(status=status, text="no" if status != 204 else None)

    async def _metrics(self, asked: web.Request) -> web.Response:
        return web.Response(text="jobs_total 3\nother 1\n")

    @property
    def names(self) -> set[str]:
        return {labels["__name__"] for body in self.bodies for labels, _, _ in series(body)}


@asynccontextmanager
async def running(
    tmp_path: Path, receiver: Receiver, configuration: DeviceConfigurationMessage
) -> AsyncIterator[Events]:
    async with FakePodman() as podman:
        podman.add_pod("web", labels={"edgewright.dev/device": "dev-1"})
        podman.pods["web"]["Containers"].append({"Id": "c", "Names": "web-c", "Status": "running"})
        events = Events()
        around = Surroundings(
            device="dev-1",
            podman=Podman(podman.socket),
            state=State(tmp_path),
            events=events,
            clock=HastyClock(),
            rng=random.Random(1),
        )
        metrics = Metrics(around, transfer=lambda: [Sample(name="transfer_total", value=1)])
        task = asyncio.create_task(metrics.run(lambda: configuration))
        try:
            yield events
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await receiver.stop()


async def test_metrics_of_the_machine_and_of_workloads_are_sent_when_the_receiver_is_there(tmp_path: Path) -> None:
    receiver = Receiver()
    await receiver.start()
    url, port = f"http://127.0.0.1:{receiver.port}/write", receiver.port
    allow = MetricsAllowList(names=("jobs_total",))
    workload = Workload(name="web", metrics=WorkloadMetrics(port=port, path="/metrics", interval=1, allow_list=allow))
    away = Workload(name="gone", metrics=WorkloadMetrics(port=port, interval=1))
    await receiver.stop()
    wanted = configured(url, workload, away, retention=MetricsRetention(max_mib=1, max_hours=1))
    async with running(tmp_path, receiver, wanted) as events:
        await wait_until_async(lambda: "metrics" in events.problems, what="the receiver is missed")
        await wait_until_async(lambda: "metrics of web" in events.problems, what="the workload is missed")
        receiver.statuses = [500, 400]
        await receiver.start()
        await wait_until_async(lambda: "jobs_total" in receiver.names, what="metrics of the workload")
        await wait_until_async(lambda: not events.problems, what="all is well")
        assert "other" not in receiver.names
        found = [
            labels for body in receiver.bodies for labels, _, _ in series(body) if labels["__name__"] == "jobs_total"
        ]
        assert found[0] == {
            "__name__": "jobs_total",
            "container": "c",
            "edgedeviceid": "dev-1",
            "metric_source": "web",
        }
        assert any(each.reason == "MetricsRefused" for each in events.to_send())


@pytest.mark.parametrize("url", ["ftp://h/x", "http://h:99999/", "nonsense", ""])
async def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        await request("GET", url, seconds=1)
