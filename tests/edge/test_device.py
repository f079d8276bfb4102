"""One device with real podman, nftables and S3 at a whole site: the three workflows of the document, and its size."""

from __future__ import annotations

from pathlib import Path

from tests.edge.bucket import S3Server
from tests.edge.site import Site
from tests.edge.support import workload


def memory(pid: int) -> int:
    """What a process holds, in bytes; a device may be small."""
    (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def test_a_device_registers_runs_a_workload_uploads_its_data_and_removes_it(site: Site, tmp_path: Path) -> None:
    with S3Server(tmp_path / "s3", addresses=[site.machine.gateway]) as s3:
        device = site.device(tmp_path, s3)
        device.agent.start()
        device.configure()
        device.until(lambda: device.status.get("phase") == "up", "a heartbeat")
        assert device.status["hardware"]["cpu"]["count"] > 0

        device.serve(workload(data=True), workload("second", host_port=9091, data=True))
        device.runs("nginx", "second")
        device.page(9090)
        assert device.open_ports((9090, 9091)) == [9090, 9091]
        uploaded = s3.bucket(device.name) / "nginx" / "hello.txt"
        device.until(uploaded.is_file, "the file in the bucket")
        assert uploaded.read_text() == f"{device.name}\n"

        assert memory(device.agent.pid) <= 60 << 20

        device.serve()
        device.until(lambda: device.workloads == {} and device.pods() == [], "no workload")
        device.until(lambda: device.open_ports((9090, 9091)) == [], "no port is open")
        assert uploaded.is_file()
        device.agent.terminate()
        assert device.agent.returncode == 0, device.agent.output()
