"""The published gateway process of Flotta's agents (yggd) against our gateway: it registers, is heard, disconnects.

It is built from its published module (hack/yggd); a small worker of ours stands for the published one, which needs
systemd and podman of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from edgewright.api.edgedevice import EdgeDevice
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key
from hack.kubernetes import build
from tests.cluster.edge.edge_stage import gateway_program, install, until_listening
from tests.cluster.edge.test_edge_scenarios import release
from tests.cluster.support import connected, eventually
from tests.harness import ControlPlane, programs
from tests.unit.gateway.stage import registration_of

NAME = "0b8d2a7e9f5c4c0f8a53a1c0d3f9b6aa"
MODULE = programs.ROOT / "hack" / "yggd"
# Where it keeps things is decided when it is built: below the directory that it is started in.
FLAGS = "-X github.com/redhatinsights/yggdrasil.PrefixDir=."


@pytest.fixture(scope="session")
def published() -> tuple[Path, Path]:
    """The programs yggd and worker; built once."""
    go = build.find_go()
    folder = programs.ROOT / "build" / "yggd"
    for name, package in (("yggd", "github.com/redhatinsights/yggdrasil/cmd/yggd"), ("worker", "./worker")):
        command = [go, "build", "-ldflags", FLAGS, "-o", str(folder / name), package]
        subprocess.run(command, cwd=MODULE, env=build.go_environment(go), check=True)
    return folder / "yggd", folder / "worker"


def started(home: Path, log: str, program: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A program in the folder of the device; what it says goes to a file there."""
    with (home / log).open("wb") as file:
        return subprocess.Popen([program, *arguments], cwd=home, stdout=file, stderr=file)


async def test_the_published_gateway_process_registers_sends_heartbeats_and_disconnects(
    cluster: ControlPlane, namespace: str, tmp_path: Path, published: tuple[Path, Path]
) -> None:
    await asyncio.to_thread(install, cluster)
    gateway, port = gateway_program(cluster, namespace, tmp_path)
    gateway.start()
    running: list[subprocess.Popen[bytes]] = []
    try:
        await until_listening(port)
        async with connected(cluster) as client:
            ca, registration = await registration_of(client, namespace)
            home = tmp_path / "device"
            (home / "etc" / "yggdrasil" / "workers").mkdir(parents=True)
            (home / "libexec" / "yggdrasil").mkdir(parents=True)
            (home / "var" / "yggdrasil").mkdir(parents=True)
            for name, text in (
                ("ca.pem", ca.certificate),
                ("cert.pem", registration.certificate),
                ("key.pem", registration.key),
            ):
                (home / name).write_bytes(text)
            socket = f"@edgewright-{namespace}"
            options = {
                "protocol": "http",
                "path-prefix": "api/flotta-management/v1",
                "server": f"127.0.0.1:{port}",
                "client-id": NAME,
                "cert-file": str(home / "cert.pem"),
                "key-file": str(home / "key.pem"),
                "ca-root": str(home / "ca.pem"),
                "socket-addr": socket,
                "log-level": "debug",
            }
            arguments = [text for option, value in options.items() for text in (f"--{option}", value)]
            running.append(started(home, "yggd.log", published[0], *arguments))
            files = (str(home / "cert.pem"), str(home / "key.pem"))
            running.append(started(home, "worker.log", published[1], socket, *files))
            api = client.of(EdgeDevice)

            async def heard() -> bool:
                lines = (home / "worker.log").read_text().splitlines()
                answered = [json.loads(line) for line in lines if line.startswith("{")]
                return any(each.get("sent") == "heartbeat" and each["answer"]["StatusCode"] == 200 for each in answered)

            await eventually(heard, what=f"a heartbeat was answered ({home / 'worker.log'})", timeout=90)
            found = await api.get(Key(namespace, NAME))
            assert found.status.phase == "up"
            assert found.status.hardware is not None
            assert found.status.hardware.hostname == "published"

            def configured() -> bool:
                return '"received":"device"' in (home / "worker.log").read_text()

            await eventually(configured, what="the configuration was handed to the worker", timeout=240)
            # The EdgeDevice goes when the process has asked for a configuration once more, and then for commands.
            await api.delete(found.key)

            async def gone() -> bool:
                try:
                    await api.get(found.key)
                except NotFound:
                    return True
                return False

            await eventually(gone, what="the device was told to disconnect", timeout=240)

            def obeyed() -> bool:
                return '"event":"RECEIVED_DISCONNECT"' in (home / "worker.log").read_text()

            await eventually(obeyed, what=f"the worker is told to end its workloads ({home / 'yggd.log'})", timeout=90)
    finally:
        for process in running:
            process.kill()
            process.wait()
        gateway.stop()
        release(cluster, namespace)
