"""The fourteen end-to-end scenarios that Flotta published, on our agent with real podman, S3 and nftables.

What they did with systemd units ("unit active") is here: podman reports the pod running, and it is restarted after a
kill. Delay comes from a proxy and loss from a rule of nftables, because not every kernel can do more.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgewright.api.edge_protocol import WireSecret, Workload
from tests.edge.bucket import S3Server
from tests.edge.machine import IMAGE, Machine
from tests.edge.stub_gateway import Seen, StubGateway
from tests.edge.support import DEVICE, configuration, workload
from tests.harness.processes import Process
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until_async

HELLO = "/out/hello.txt"
LOSS = """
table inet loss {
  chain in { type filter hook input priority 0; iifname "ewd*" numgen random mod 100 < 10 drop; }
  chain out { type filter hook output priority 0; oifname "ewd*" numgen random mod 100 < 10 drop; }
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


@dataclass
class Device:
    """A device that is registered, and what the gateway sees of it."""

    machine: Machine
    gateway: StubGateway
    agent: Process
    state: Path

    @property
    def seen(self) -> Seen:
        return self.gateway.devices[DEVICE]

    def serve(self, *workloads: Workload, **more: object) -> None:
        self.gateway.serve(DEVICE, configuration(*workloads, **more))  # type: ignore[arg-type]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        def holds() -> object:
            assert self.agent.running or "end" in what, self.agent.output()
            return condition()

        await wait_until_async(holds, what=what)

    async def runs(self, *names: str) -> None:
        expected = dict.fromkeys(names, "Running")
        await self.until(lambda: self.seen.statuses == expected, f"{names} run")

    async def removed(self) -> None:
        """No pod is left: what is not wanted any more is on no list at once, and takes a moment to stop."""

        async def none_left() -> bool:
            return not await self.machine.podman.pods()

        await wait_until_async(none_left, what="the pods are removed")

    async def page(self, port: int = 9090) -> None:
        await self.until(lambda: self.machine.fetch(port, HELLO) == f"{DEVICE}\n", f"the page at {port}")


@asynccontextmanager
async def registered(machine: Machine, tmp_path: Path, **more: object) -> AsyncIterator[Device]:
    gateway = StubGateway(tmp_path / "gateway", addresses=[machine.gateway])
    async with gateway:
        config = gateway.write_config(
            tmp_path / "agent",
            device=DEVICE,
            server=machine.gateway,
            podman_socket=str(machine.socket),
            long_poll_seconds=30,
            **more,
        )
        device = Device(machine, gateway, machine.agent(config), tmp_path / "agent" / "state")
        device.agent.start()
        await device.until(lambda: device.seen.heartbeats, "a heartbeat")
        yield device
        device.agent.kill()


async def test_01_a_workload_is_deployed_runs_answers_and_is_restarted_after_a_kill(
    machine: Machine, tmp_path: Path
) -> None:
    async with registered(machine, tmp_path) as device:
        device.serve(workload())
        await device.runs("nginx")
        await device.page()
        before = await machine.podman.container("nginx-web")
        assert before is not None
        machine.kill_container("nginx-web")

        async def restarted() -> bool:
            now = await machine.podman.container("nginx-web")
            return now is not None and now.state.status == "running" and now.state.pid != before.state.pid

        await wait_until_async(restarted, what="another process")
        await device.page()
        await device.runs("nginx")


async def test_02_a_workload_that_is_removed_is_on_no_list_any_more(machine: Machine, tmp_path: Path) -> None:
    async with registered(machine, tmp_path) as device:
        device.serve(workload())
        await device.runs("nginx")
        device.serve()
        await device.runs()
        await device.removed()
        await device.until(lambda: "dport" not in machine.run("nft", "list", "ruleset"), "its port is closed")


async def test_03_a_container_may_have_another_name_than_its_workload(machine: Machine, tmp_path: Path) -> None:
    async with registered(machine, tmp_path) as device:
        device.serve(workload(container="static-pages"))
        await device.runs("nginx")
        (pod,) = await machine.podman.pods()
        assert [each.name for each in pod.workers] == ["nginx-static-pages"]


async def test_04_a_workload_may_have_two_containers(machine: Machine, tmp_path: Path) -> None:
    async with registered(machine, tmp_path) as device:
        second: dict[str, object] = {
            "name": "second",
            "image": IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/busybox", "httpd", "-f", "-p", "81", "-h", "/export"],
            "ports": [{"containerPort": 81, "hostPort": 9091}],
        }
        device.serve(workload(more=(second,)))
        await device.runs("nginx")
        await device.page(9090)
        await device.page(9091)


async def test_05_a_device_without_workloads_is_unregistered(machine: Machine, tmp_path: Path) -> None:
    async with registered(machine, tmp_path) as device:
        device.gateway.commands[DEVICE].append("disconnect")
        device.serve()
        await device.until(lambda: not device.agent.running, "the agent ends")
        assert device.agent.returncode == 0, device.agent.output()
        assert {path.name for path in device.state.iterdir()} <= {"lock"}
        assert await machine.podman.pods() == []


async def test_06_a_device_with_workloads_is_unregistered_and_only_their_data_stays(
    machine: Machine, tmp_path: Path
) -> None:
    async with registered(machine, tmp_path, probation_seconds=0.1) as device:
        device.serve(workload(), workload("second", host_port=9091))
        await device.runs("nginx", "second")
        await device.until((device.state / "versions" / "second.json").is_file, "it is good")
        device.gateway.commands[DEVICE].append("disconnect")
        device.serve()
        await device.until(lambda: not device.agent.running, "the agent ends")
        assert await machine.podman.pods() == []
        assert {path.name for path in device.state.iterdir()} <= {"lock", "volumes"}
        assert "edgewright_agent" not in machine.run("nft", "list", "tables")


async def test_07_a_workload_for_other_devices_does_not_come_here(machine: Machine, tmp_path: Path) -> None:
    async with registered(machine, tmp_path) as device:
        device.gateway.serve("another", configuration(workload(), device="another"))
        device.serve()
        heard = len(device.seen.heartbeats)
        await device.until(lambda: len(device.seen.heartbeats) > heard + 2, "heartbeats")
        assert device.seen.statuses == {}
        assert await machine.podman.pods() == []


async def test_08_a_workload_whose_port_is_busy_is_created_and_runs_when_it_is_free(
    machine: Machine, tmp_path: Path
) -> None:
    async with registered(machine, tmp_path) as device:
        await machine.podman.play(TAKER)
        device.serve(workload())
        await device.until(lambda: device.seen.statuses == {"nginx": "Created"}, "it is created")
        await device.until(lambda: any(each[1] == "WorkloadFailed" for each in device.seen.events), "that is told")
        await machine.podman.remove_pod("taker", force=True)
        await device.runs("nginx")


async def test_09_a_workload_is_made_again_after_its_removal(machine: Machine, tmp_path: Path) -> None:
    async with registered(machine, tmp_path) as device:
        for _ in range(2):
            device.serve(workload())
            await device.runs("nginx")
            await device.page()
            device.serve()
            await device.runs()


async def test_10_and_11_secrets_and_config_maps_are_in_the_environment(machine: Machine, tmp_path: Path) -> None:
    async with registered(machine, tmp_path) as device:
        script = "echo $KEY1 $KEY2 $PAINT > /export/env.txt; exec /bin/busybox httpd -f -p 80 -h /export"
        env: list[dict[str, object]] = [
            {"name": "KEY1", "valueFrom": {"secretKeyRef": {"name": "login", "key": "one"}}},
            {"name": "KEY2", "valueFrom": {"secretKeyRef": {"name": "login", "key": "two"}}},
            {"name": "PAINT", "valueFrom": {"configMapKeyRef": {"name": "paint", "key": "colour"}}},
        ]
        pairs = {name: base64.b64encode(name.encode()).decode() for name in ("one", "two")}
        secret = WireSecret(name="login", data=msgspec.json.encode(pairs).decode())
        paint = "kind: ConfigMap\nmetadata: {name: paint}\ndata: {colour: blue}\n"
        device.serve(workload(script=script, env=env, configmaps=(paint,)), secrets=(secret,))
        await device.runs("nginx")
        await device.until(lambda: machine.fetch(9090, "/env.txt") == "one two blue\n", "the environment")


async def test_12_agent_and_podman_are_there_and_well(machine: Machine, tmp_path: Path) -> None:
    async with registered(machine, tmp_path) as device:
        assert device.agent.running
        assert (await machine.podman.version()).version
        assert device.seen.heartbeats[-1].status == "up"
        assert not device.seen.events or all(each[0] == "info" for each in device.seen.events)


async def deploy_and_upload(device: Device, s3: S3Server) -> None:
    """What a device does all day, where the network is bad."""
    bucket = s3.configuration("device-data", host=device.machine.gateway)
    device.serve(workload(data=True), s3=bucket)
    await device.runs("nginx")
    await device.page()
    uploaded = s3.bucket("device-data") / "nginx" / "hello.txt"
    await device.until(uploaded.is_file, "the file in the bucket")
    device.serve(s3=bucket)
    await device.runs()
    await device.removed()


async def test_13_a_network_with_200_milliseconds_of_delay(machine: Machine, tmp_path: Path) -> None:
    with S3Server(tmp_path / "s3", addresses=[machine.gateway]) as s3:
        async with StubGateway(tmp_path / "gateway", addresses=[machine.gateway]) as gateway:
            with Proxy("127.0.0.1", gateway.port, listen=machine.gateway) as proxy:
                proxy.lag(0.2)
                config = gateway.write_config(
                    tmp_path / "agent",
                    device=DEVICE,
                    server=machine.gateway,
                    podman_socket=str(machine.socket),
                    long_poll_seconds=30,
                )
                config.write_text(config.read_text().replace(f":{gateway.port}", f":{proxy.port}"))
                device = Device(machine, gateway, machine.agent(config), tmp_path / "agent" / "state")
                device.agent.start()
                await device.until(lambda: device.seen.heartbeats, "a heartbeat")
                await deploy_and_upload(device, s3)
                assert proxy.count >= 2
                device.agent.kill()


async def test_14_a_network_that_loses_every_tenth_packet(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "loss.nft").write_text(LOSS)
    machine.run("nft", "-f", str(tmp_path / "loss.nft"))
    with S3Server(tmp_path / "s3", addresses=[machine.gateway]) as s3:
        async with registered(machine, tmp_path) as device:
            await deploy_and_upload(device, s3)
    assert "numgen random mod 100 < 10 drop" in machine.run("nft", "list", "table", "inet", "loss")
