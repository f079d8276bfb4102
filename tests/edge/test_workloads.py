"""Workloads on a real podman: two devices, secrets, foreign pods, refusals, busy ports, and the end of a device."""

from __future__ import annotations

import base64
import contextlib
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from edgewright.api.edge_protocol import WireSecret, Workload
from tests.edge.machine import IMAGE, Machine
from tests.edge.stub_gateway import Seen, StubGateway
from tests.edge.support import DEVICE, configuration, workload
from tests.harness.processes import Process
from tests.harness.waiting import wait_until_async

FOREIGN = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: foreign}}
spec:
  containers:
  - {{name: c, image: {IMAGE}, imagePullPolicy: IfNotPresent, command: [/bin/busybox, sleep, "3600"]}}
"""


ANSWERS = """\
import socket
server = socket.socket(type=socket.SOCK_DGRAM)
server.bind(("", 80))
while True:
    text, client = server.recvfrom(100)
    server.sendto(text + b", polo", client)
"""


def echo(name: str, *, host_port: int) -> Workload:
    """A workload that answers datagrams: by the Python of this machine, whose files it mounts; the image has none."""
    made = workload(name, host_port=host_port, protocol="UDP")
    folders = sorted(each for each in {"/usr", "/lib", "/lib64", sys.base_prefix} if Path(each).is_dir())
    pod = yaml.safe_load(made.specification)
    python = str(Path(sys.executable).resolve())
    pod["containers"][0] |= {
        "command": [python, "-I", "-S", "-c", ANSWERS],
        "volumeMounts": [{"name": f"f{at}", "mountPath": each, "readOnly": True} for at, each in enumerate(folders)],
    }
    pod["volumes"] = [{"name": f"f{at}", "hostPath": {"path": each}} for at, each in enumerate(folders)]
    return msgspec.structs.replace(made, specification=yaml.safe_dump(pod))


@dataclass
class Device:
    """A machine with an agent that runs, and what the gateway sees of it."""

    machine: Machine
    gateway: StubGateway
    agent: Process
    seen: Seen
    id: str


@asynccontextmanager
async def devices(image: Path, tmp_path: Path, *ids: str) -> AsyncIterator[list[Device]]:
    """Devices of one gateway, each registered."""
    async with AsyncExitStack() as stack:
        machines = [stack.enter_context(Machine()) for _ in ids]
        gateway = StubGateway(tmp_path / "gateway", addresses=[each.gateway for each in machines])
        await stack.enter_async_context(gateway)
        found = []
        for each, machine in zip(ids, machines, strict=True):
            await machine.podman.load_image(image)
            config = gateway.write_config(
                tmp_path / each, device=each, server=machine.gateway, podman_socket=str(machine.socket)
            )
            agent = machine.agent(config)
            agent.start()
            found.append(Device(machine, gateway, agent, gateway.devices[each], each))
        for device in found:
            await until(lambda device=device: device.seen.heartbeats, "a heartbeat")  # type: ignore[misc]
        yield found


async def until(condition: Callable[[], object | Awaitable[object]], what: str) -> None:
    await wait_until_async(condition, what=what)


async def test_two_devices_run_the_same_workload_on_the_same_host_port(image: Path, tmp_path: Path) -> None:
    async with devices(image, tmp_path, "device-a", "device-b") as pair:
        for device in pair:
            device.gateway.serve(device.id, configuration(workload(), device=device.id))
        for device in pair:
            await until(lambda seen=device.seen: seen.statuses == {"nginx": "Running"}, "nginx runs")  # type: ignore[misc]
            page = lambda device=device: device.machine.fetch(9090, "/out/hello.txt")  # noqa: E731
            await until(lambda page=page, device=device: page() == f"{device.id}\n", "the page")  # type: ignore[misc]


async def test_a_port_is_reached_from_outside_of_the_device_by_tcp_and_by_udp(image: Path, tmp_path: Path) -> None:
    async with devices(image, tmp_path, DEVICE) as (device,):
        device.gateway.serve(DEVICE, configuration(workload(), echo("udp", host_port=5353)))
        await until(lambda: device.seen.statuses == {"nginx": "Running", "udp": "Running"}, "both run")
        rules = device.machine.run("nft", "list", "table", "inet", "edgewright_agent")
        assert "udp dport 5353" in rules
        url = f"http://{device.machine.address}:9090/out/hello.txt"

        def page() -> str:
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                return str(answer.read().decode())
            return ""

        await until(lambda: page() == f"{DEVICE}\n", "the page, from this machine")

        def answer() -> bytes:
            with socket.socket(type=socket.SOCK_DGRAM) as client, contextlib.suppress(OSError):
                client.settimeout(1)
                client.connect((device.machine.address, 5353))
                client.send(b"marco")
                return client.recv(100)
            return b""

        await until(lambda: answer() == b"marco, polo", "the answer to a datagram, from this machine")


async def test_secrets_and_config_maps_reach_a_workload_and_what_is_foreign_stays(image: Path, tmp_path: Path) -> None:
    async with devices(image, tmp_path, DEVICE) as (device,):
        podman = device.machine.podman
        await podman.play(FOREIGN)
        await podman.create_secret("login", b"somebody else's")
        data = msgspec.json.encode({"user": base64.b64encode(b"ann").decode()}).decode()
        env: list[dict[str, object]] = [
            {"name": "USER", "valueFrom": {"secretKeyRef": {"name": "login", "key": "user"}}},
            {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "paint", "key": "colour"}}},
        ]
        paint = "kind: ConfigMap\nmetadata: {name: paint}\ndata: {colour: blue}\n"
        script = "echo $USER $COLOUR > /export/env.txt; exec /bin/busybox httpd -f -p 80 -h /export"
        wanted = workload(script=script, env=env, configmaps=(paint,))
        device.gateway.serve(DEVICE, configuration(wanted, secrets=(WireSecret(name="login", data=data),)))
        await until(lambda: device.machine.fetch(9090, "/env.txt") == "ann blue\n", "the environment")

        other = msgspec.json.encode({"user": base64.b64encode(b"eve").decode()}).decode()
        device.gateway.serve(DEVICE, configuration(wanted, secrets=(WireSecret(name="login", data=other),)))
        await until(lambda: device.machine.fetch(9090, "/env.txt") == "eve blue\n", "the new secret")

        device.gateway.serve(DEVICE, configuration())
        await until(lambda: device.seen.heartbeats[-1].workloads in {None, ()}, "no workload")

        async def only_foreign() -> bool:
            pods, secrets = await podman.pods(), await podman.secrets()
            return [pod.name for pod in pods] == ["foreign"] and [secret.name for secret in secrets] == ["login"]

        await until(only_foreign, "what is foreign is all that is left")


async def test_a_workload_that_podman_refuses_is_told_with_its_text_and_holds_up_no_other(
    image: Path, tmp_path: Path
) -> None:
    async with devices(image, tmp_path, DEVICE) as (device,):
        bad = workload("bad", image="localhost/nowhere:1", host_port=None)
        device.gateway.serve(DEVICE, configuration(bad, workload("good")))
        await until(lambda: device.seen.statuses.get("good") == "Running", "the good one runs")
        await until(lambda: device.seen.statuses.get("bad") in {"Error", "Created"}, "the bad one is shown")
        events = [text for kind, reason, text in device.seen.events if (kind, reason) == ("warn", "WorkloadFailed")]
        assert any(text.startswith("bad: ") and "localhost/nowhere:1" in text for text in events), events
        assert device.seen.heartbeats[-1].status == "degraded"


async def test_a_pod_of_the_same_name_that_is_not_the_agents_is_left_alone(image: Path, tmp_path: Path) -> None:
    async with devices(image, tmp_path, DEVICE) as (device,):
        await device.machine.podman.play(FOREIGN)
        before = await device.machine.podman.pod("foreign")
        assert before is not None
        device.gateway.serve(DEVICE, configuration(workload("foreign")))
        await until(lambda: device.seen.statuses == {"foreign": "Error"}, "the conflict is shown")
        assert any("not the agent's" in text for _, _, text in device.seen.events)
        after = await device.machine.podman.pod("foreign")
        assert after is not None
        assert after.id == before.id


async def test_a_workload_whose_port_is_busy_is_created_and_runs_when_the_port_is_free(
    image: Path, tmp_path: Path
) -> None:
    async with devices(image, tmp_path, DEVICE) as (device,):
        taken = FOREIGN.replace("foreign", "taker").replace(
            "command:", "ports: [{containerPort: 80, hostPort: 9090}], command:"
        )
        await device.machine.podman.play(taken)
        device.gateway.serve(DEVICE, configuration(workload()))
        await until(lambda: any(reason == "WorkloadFailed" for _, reason, _ in device.seen.events), "the refusal")
        assert device.seen.statuses["nginx"] in {"Created", "Error"}
        await device.machine.podman.remove_pod("taker", force=True)
        await until(lambda: device.seen.statuses == {"nginx": "Running"}, "nginx runs")


async def test_a_device_that_is_disconnected_removes_what_is_its_own_and_ends(image: Path, tmp_path: Path) -> None:
    async with devices(image, tmp_path, DEVICE) as (device,):
        await device.machine.podman.play(FOREIGN)
        device.gateway.serve(DEVICE, configuration(workload()))
        await until(lambda: device.seen.statuses == {"nginx": "Running"}, "nginx runs")
        device.gateway.commands[DEVICE].append("disconnect")
        await until(lambda: not device.agent.running, "the agent ends")
        assert device.agent.returncode == 0, device.agent.output()
        assert [pod.name for pod in await device.machine.podman.pods()] == ["foreign"]
        assert "edgewright_agent" not in device.machine.run("nft", "list", "tables")
        state = tmp_path / DEVICE / "state"
        assert not (state / "device.pem").exists()
        assert (state / "volumes" / "nginx" / "out" / "hello.txt").is_file()
