"""One device with real podman, nftables and S3 at a whole site: the document's three workflows, its size, a login."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.e2e.registry import PASSWORD, USER, RealRegistry
from tests.edge.bucket import S3Server
from tests.edge.machine import IMAGE
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


def test_an_image_behind_a_login_is_fetched_with_the_secret_of_its_workload_and_not_without(
    site: Site, tmp_path: Path
) -> None:
    machine, device = site.machine, site.device(tmp_path)
    (tmp_path / "registry").mkdir()
    registry = RealRegistry(tmp_path / "registry", password=True, address=machine.gateway)
    image = f"{registry.host}/shop/web:1"
    with registry, machine.speaking_plainly_to(registry.host):
        machine.push(IMAGE, image, login=f"{USER}:{PASSWORD}")
        device.agent.start()
        device.configure()
        device.serve(workload(image=image))
        device.until(lambda: device.workloads.get("nginx") in {"Error", "Created"}, "it cannot be made")
        device.until(lambda: device.told("WorkloadFailed"), "an Event says why")
        for why in device.told("WorkloadFailed"):
            assert why.startswith("nginx: ")
            assert image in why
            assert why.endswith("unauthorized: authentication required")
            assert "old one" not in why

        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        settings = json.dumps({"auths": {registry.host: {"auth": login}}}).encode()
        data = {".dockerconfigjson": base64.b64encode(settings).decode()}
        site.write("secrets", "shop-login", data, type="kubernetes.io/dockerconfigjson")
        device.serve(workload(image=image), pull_secret="shop-login")
        device.runs("nginx")
        device.page(9090)
