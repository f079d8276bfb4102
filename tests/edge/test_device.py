"""One device with real podman, nftables and S3, against a stub gateway: the three workflows of the document."""

from __future__ import annotations

from pathlib import Path

from tests.edge.bucket import S3Server
from tests.edge.machine import Machine
from tests.edge.stub_gateway import StubGateway
from tests.edge.support import DEVICE, configuration, workload
from tests.harness.waiting import wait_until_async


def memory(pid: int) -> int:
    """What a process holds, in bytes; a device may be small."""
    (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


async def test_a_device_registers_runs_a_workload_uploads_its_data_and_removes_it(image: Path, tmp_path: Path) -> None:
    with Machine() as machine, S3Server(tmp_path / "s3", addresses=[machine.gateway]) as s3:
        async with StubGateway(tmp_path / "gateway", addresses=[machine.gateway]) as gateway:
            await machine.podman.load_image(image)
            bucket = s3.configuration("device-data", host=machine.gateway)
            config = gateway.write_config(
                tmp_path / "agent", device=DEVICE, server=machine.gateway, podman_socket=str(machine.socket)
            )
            agent = machine.agent(config)
            agent.start()
            seen = gateway.devices[DEVICE]
            await wait_until_async(lambda: seen.heartbeats, what="a heartbeat")
            assert seen.presented == ["register"]
            hardware = seen.registrations[0].hardware
            assert hardware is not None
            assert hardware.cpu is not None
            assert hardware.cpu.count > 0

            gateway.serve(
                DEVICE, configuration(workload(data=True), workload("second", host_port=9091, data=True), s3=bucket)
            )
            await wait_until_async(lambda: seen.statuses == {"nginx": "Running", "second": "Running"}, what="both run")
            await wait_until_async(lambda: machine.fetch(9090, "/out/hello.txt") == f"{DEVICE}\n", what="the page")
            assert machine.run("nft", "list", "table", "inet", "edgewright_agent").count("9090") == 2
            uploaded = s3.bucket("device-data") / "nginx" / "hello.txt"
            await wait_until_async(uploaded.is_file, what="the file in the bucket")
            assert uploaded.read_text() == f"{DEVICE}\n"

            assert memory(agent.pid) <= 60 << 20

            gateway.serve(DEVICE, configuration(s3=bucket))
            await wait_until_async(lambda: seen.heartbeats[-1].workloads in {None, ()}, what="no workload")
            table = ("nft", "list", "table", "inet", "edgewright_agent")
            await wait_until_async(lambda: "dport" not in machine.run(*table), what="no port is open")
            assert await machine.podman.pods() == []
            assert uploaded.is_file()
            agent.terminate()
            assert agent.returncode == 0, agent.output()
