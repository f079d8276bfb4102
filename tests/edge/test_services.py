"""What a device does besides, with real parts: a failed update, logs, metrics, data both ways, and its memory."""

from __future__ import annotations

import asyncio
import json
import shutil
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from edgewright.api.edge_protocol import (
    ComponentMetricsConfiguration,
    DataPath,
    LogsCollection,
    MetricsConfiguration,
    MetricsReceiverConfiguration,
    SyslogConfiguration,
    WorkloadMetrics,
)
from tests.edge.bucket import S3Server
from tests.edge.machine import Machine
from tests.edge.stub_device import registered
from tests.edge.support import SERVE, workload
from tests.harness.processes import Process, free_port
from tests.harness.waiting import wait_until_async

METRICS = "/bin/busybox mkdir -p /export/m; echo 'jobs_total{kind=\"x\"} 7' > /export/m/metrics; "


async def test_an_update_that_ends_again_and_again_goes_back_to_the_last_good_version(
    machine: Machine, tmp_path: Path
) -> None:
    async with registered(machine, tmp_path, probation_seconds=2) as device:
        device.serve(workload())
        await device.runs("nginx")
        good = device.state / "versions" / "nginx.json"
        await device.until(good.is_file, "the first version is good")
        device.serve(workload(script="exit 7"))
        await device.until(lambda: any(each[1] == "WorkloadRolledBack" for each in device.seen.events), "it goes back")
        await device.page()
        await device.until(
            lambda: (
                [(each.status, each.rolled_back) for each in device.seen.heartbeats[-1].workloads or ()]
                == [("Running", True)]
            ),
            "the gateway knows",
        )
        assert device.seen.heartbeats[-1].status == "degraded"
        device.serve(workload(script=f"echo third; {SERVE}"))
        await device.until(lambda: device.seen.heartbeats[-1].status == "up", "a third version is tried")
        await device.page()


async def test_an_update_whose_image_is_nowhere_leaves_the_old_version_running(
    machine: Machine, tmp_path: Path
) -> None:
    async with registered(machine, tmp_path) as device:
        device.serve(workload())
        await device.runs("nginx")
        before = await machine.podman.container("nginx-web")
        device.serve(workload(image="localhost/nowhere:2"))
        await device.until(lambda: any("the old one goes on" in each[2] for each in device.seen.events), "it is told")
        after = await machine.podman.container("nginx-web")
        assert before is not None
        assert after is not None
        assert (after.id, after.state.pid) == (before.id, before.state.pid)
        await device.page()


async def test_lines_of_a_workload_reach_a_syslog_server_also_those_printed_while_it_was_away(
    machine: Machine, tmp_path: Path
) -> None:
    lines: list[str] = []
    port = free_port()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                lines.append(line.decode())
        writer.close()

    async with registered(machine, tmp_path) as device:
        server = SyslogConfiguration(address=f"{machine.gateway}:{port}", protocol="tcp")
        logs = {"site": LogsCollection(kind="syslog", buffer_size=12, syslog_config=server)}
        script = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo number $i; /bin/busybox sleep 1; done"
        device.serve(workload(script=script, logs="site"), logs=logs)
        await device.until(lambda: any(each[1] == "SyslogUnavailable" for each in device.seen.events), "it is missed")
        receiver = await asyncio.start_server(receive, machine.gateway, port)
        try:
            await device.until(lambda: any(": web: number 3\n" in line for line in lines), "lines")
            assert any(": web: number 1\n" in line for line in lines)
            device.agent.kill()
            seen = len(lines)
            device.agent.start()
            await wait_until_async(lambda: len(lines) > seen + 2, what="lines after a restart")
            numbers = [int(line.rpartition(" ")[2]) for line in lines]
            assert sorted(set(numbers)) == list(range(1, max(numbers) + 1)), numbers
        finally:
            receiver.close()


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus (Debian: prometheus)")
async def test_metrics_of_the_machine_and_of_a_workload_reach_a_real_prometheus(
    machine: Machine, tmp_path: Path
) -> None:
    port = free_port()
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    url = f"http://{machine.gateway}:{port}"

    def asked(path: str) -> dict[str, object]:
        with suppress(OSError), urllib.request.urlopen(f"{url}{path}", timeout=10) as answer:
            return dict(json.loads(answer.read())) if "query" in path else {"ready": True}
        return {}

    def found(query: str) -> list[dict[str, dict[str, str]]]:
        data = asked(f"/api/v1/query?query={quote(query)}").get("data")
        return data["result"] if isinstance(data, dict) else []

    receiver = Process(
        "prometheus",
        [
            *(
                shutil.which("prometheus") or "",
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/tsdb",
            ),
            *("--web.enable-remote-write-receiver", f"--web.listen-address={machine.gateway}:{port}"),
        ],
        log=tmp_path / "prometheus.log",
        ready=lambda: bool(asked("/-/ready")),
    )
    receiver.start()
    try:
        receiver.wait_ready()
        async with registered(machine, tmp_path) as device:
            every = ComponentMetricsConfiguration(interval=1)
            metrics = MetricsConfiguration(
                system=every, data_transfer=every, receiver=MetricsReceiverConfiguration(url=f"{url}/api/v1/write")
            )
            own = WorkloadMetrics(path="/m/metrics", port=80, interval=1)
            device.serve(workload(script=METRICS + SERVE, metrics=own), metrics=metrics)
            await device.runs("nginx")
            await device.until(lambda: found('jobs_total{container="web",kind="x"}'), "metrics of the workload")
            (load,) = found("node_load1")
            assert load["metric"]["metric_source"] == "system"
            assert found("edgewright_data_uploaded_files_total")
    finally:
        receiver.kill()


async def test_data_goes_both_ways_within_sixty_megabytes_of_memory(machine: Machine, tmp_path: Path) -> None:
    with S3Server(tmp_path / "s3", addresses=[machine.gateway]) as s3:
        models = s3.bucket("data") / "models"
        models.mkdir()
        (models / "m1").write_bytes(b"model" * (4 << 20))
        bucket = s3.configuration("data", host=machine.gateway)
        async with registered(machine, tmp_path) as device:
            big = "/bin/busybox mkdir -p /export/out; /bin/busybox dd if=/dev/zero of=/export/out/big bs=1M count=40; "
            ingress = (DataPath(source="models", target="in"),)
            device.serve(
                workload(script=big + SERVE, data=True, ingress=ingress),
                workload("second", host_port=9091, data=True),
                s3=bucket,
            )
            await device.runs("nginx", "second")
            uploaded = s3.bucket("data") / "nginx" / "big"
            await device.until(lambda: uploaded.is_file() and uploaded.stat().st_size == 40 << 20, "the large file")
            await device.until(lambda: machine.fetch(9090, "/in/m1")[:10] == "modelmodel", "the model")
            peak, now = memory(device.agent.pid)
            print(f"agent: {now >> 20} MB, at most {peak >> 20} MB")
            assert peak <= 60 << 20


def memory(pid: int) -> tuple[int, int]:
    """What a process held at most, and holds, in bytes."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024, int(lines["VmRSS"].split()[0]) * 1024
