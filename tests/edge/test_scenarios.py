"""The fourteen end-to-end scenarios that Flotta published, at a real site: gateway, operator, podman, S3 and nftables.

What they did with systemd units ("unit active") is here: podman reports the pod running, and it is restarted after a
kill. Delay comes from a proxy and loss from a rule of nftables, because not every kernel can do more.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from tests.edge.bucket import S3Server
from tests.edge.machine import IMAGE
from tests.edge.site import Device, Site
from tests.edge.support import workload
from tests.harness.proxy import Proxy
from tests.unit.cli.command import edgewright

LOSS = """
table inet loss {
  chain in { type filter hook input priority 0; iifname "ewd*" numgen random mod 100 < 10 counter drop; }
  chain out { type filter hook output priority 0; oifname "ewd*" numgen random mod 100 < 10 counter drop; }
}
"""
TAKER = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: taker}}
spec:
  containers:
  - name: c
    image: {IMAGE}
    imagePullPolicy: IfNotPresent
    command: [/bin/busybox, sleep, "3600"]
    ports: [{{containerPort: 80, hostPort: 9090}}]
"""


def started(site: Site, folder: Path) -> Device:
    """A device that is registered and heard."""
    device = site.device(folder)
    device.agent.start()
    device.configure()
    device.until(lambda: device.status.get("hardware"), "it is heard")
    return device


def test_01_a_workload_is_deployed_runs_answers_and_is_restarted_after_a_kill(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    device.serve(workload())
    device.runs("nginx")
    device.page(9090)

    def process() -> int:
        """Which process its container is; 0 while it is none."""
        found = asyncio.run(site.machine.podman.container("nginx-web"))
        return 0 if found is None or found.state.status != "running" else found.state.pid

    before = process()
    assert before
    site.machine.kill_container("nginx-web")
    device.until(lambda: process() not in {0, before}, "another process")
    device.page(9090)
    device.runs("nginx")


def test_02_a_workload_that_is_removed_is_on_no_list_any_more(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    device.serve(workload())
    device.runs("nginx")
    device.serve()
    device.runs()
    device.until(lambda: device.pods() == [], "its pod is removed")
    device.until(lambda: "dport" not in site.machine.run("nft", "list", "ruleset"), "its port is closed")


def test_03_a_container_may_have_another_name_than_its_workload(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    device.serve(workload(container="static-pages"))
    device.runs("nginx")
    (pod,) = asyncio.run(site.machine.podman.pods())
    assert [each.name for each in pod.workers] == ["nginx-static-pages"]


def test_04_a_workload_may_have_two_containers(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    second: dict[str, object] = {
        "name": "second",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/busybox", "httpd", "-f", "-p", "81", "-h", "/export"],
        "ports": [{"containerPort": 81, "hostPort": 9091}],
    }
    device.serve(workload(more=(second,)))
    device.runs("nginx")
    device.page(9090)
    device.page(9091)


def test_05_a_device_without_workloads_is_unregistered(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    device.remove()
    device.until(lambda: not device.agent.running, "the agent ends")
    assert device.agent.returncode == 0, device.agent.output()
    device.until(lambda: device.found is None, "its EdgeDevice is gone")
    assert {path.name for path in device.state.iterdir()} <= {"lock"}
    assert device.pods() == []


def test_06_a_device_with_workloads_is_unregistered_and_only_their_data_stays(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    device.serve(workload(), workload("second", host_port=9091))
    device.runs("nginx", "second")
    access = ("--kubeconfig", site.plane.kubeconfig)
    done = edgewright("edge", "decommission", device.name, "--yes", *access, timeout=400)
    assert done.returncode == 0, done.stderr
    device.until(lambda: not device.agent.running, "the agent ends")
    device.until(lambda: device.found is None, "its EdgeDevice is gone")
    assert device.pods() == []
    assert {path.name for path in device.state.iterdir()} <= {"lock", "volumes"}
    assert "edgewright_agent" not in site.machine.run("nft", "list", "tables")
    assert site.workloads() == ["nginx", "second"]


def test_07_a_workload_for_other_devices_does_not_come_here(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    device.serve(workload(), device="another")
    device.serve(workload("second", host_port=9091), keep=("nginx",))  # once this runs, the other was decided too
    device.runs("second")
    assert device.pods() == ["second"]


def test_08_a_workload_whose_port_is_busy_is_created_and_runs_when_it_is_free(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    asyncio.run(site.machine.podman.play(TAKER))
    device.serve(workload())
    device.until(lambda: device.workloads == {"nginx": "Created"}, "it is created")
    device.until(lambda: "WorkloadFailed" in device.reasons(), "that is told")
    asyncio.run(site.machine.podman.remove_pod("taker", force=True))
    device.runs("nginx")


def test_09_a_workload_is_made_again_after_its_removal(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    for _ in range(2):
        device.serve(workload())
        device.runs("nginx")
        device.page(9090)
        device.serve()
        device.runs()


def test_10_and_11_secrets_and_config_maps_are_in_the_environment(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    login = {name: base64.b64encode(name.encode()).decode() for name in ("one", "two")}
    site.write("secrets", f"{device.name}-login", login)
    site.write("configmaps", f"{device.name}-paint", {"colour": "blue"})
    script = "echo $KEY1 $KEY2 $PAINT > /export/env.txt; exec /bin/busybox httpd -f -p 80 -h /export"
    env: list[dict[str, object]] = [
        {"name": "KEY1", "valueFrom": {"secretKeyRef": {"name": f"{device.name}-login", "key": "one"}}},
        {"name": "KEY2", "valueFrom": {"secretKeyRef": {"name": f"{device.name}-login", "key": "two"}}},
        {"name": "PAINT", "valueFrom": {"configMapKeyRef": {"name": f"{device.name}-paint", "key": "colour"}}},
    ]
    device.serve(workload(script=script, env=env))
    device.runs("nginx")
    device.until(lambda: site.machine.fetch(9090, "/env.txt") == "one two blue\n", "the environment")


def test_12_agent_and_podman_are_there_and_well(site: Site, tmp_path: Path) -> None:
    device = started(site, tmp_path)
    assert device.agent.running
    assert asyncio.run(site.machine.podman.version()).version
    assert device.status["phase"] == "up"
    assert device.reasons(kind="Warning") == set()


def deploy_and_upload(device: Device, s3: S3Server) -> None:
    """What a device does all day, where the network is bad."""
    device.agent.start()
    device.configure()
    device.serve(workload(data=True))
    device.runs("nginx")
    device.page(9090)
    uploaded = s3.bucket(device.name) / "nginx" / "hello.txt"
    device.until(uploaded.is_file, "the file in the bucket")
    device.serve()
    device.runs()
    device.until(lambda: device.pods() == [], "its pod is removed")


def test_13_a_network_with_200_milliseconds_of_delay(site: Site, tmp_path: Path) -> None:
    gateway = site.machine.gateway
    with (
        S3Server(tmp_path / "s3", addresses=[gateway]) as s3,
        Proxy("127.0.0.1", site.port, listen=gateway) as to_gateway,
        Proxy("127.0.0.1", s3.port, listen=gateway) as to_bucket,
    ):
        for proxy in (to_gateway, to_bucket):
            proxy.lag(0.2)
        deploy_and_upload(site.device(tmp_path, s3, port=to_gateway.port, bucket_port=to_bucket.port), s3)
        assert to_gateway.count >= 2  # to register, and with the certificate that came of it
        assert to_bucket.count >= 1


def test_14_a_network_that_loses_every_tenth_packet(site: Site, tmp_path: Path) -> None:
    (tmp_path / "loss.nft").write_text(LOSS)
    site.machine.run("nft", "-f", str(tmp_path / "loss.nft"))
    with S3Server(tmp_path / "s3", addresses=[site.machine.gateway]) as s3:
        deploy_and_upload(site.device(tmp_path, s3), s3)
    lost = site.machine.run("nft", "list", "table", "inet", "loss")
    assert lost.count("numgen random mod 100 < 10 counter packets") == 2, lost
    assert "counter packets 0 " not in lost, lost
