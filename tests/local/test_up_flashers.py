"""Flashers of others as programs of `edgewright up`: they listen on every address, as the published ones do.

A Service of type LoadBalancer has the same port on an address of the same machine, and other Pods do the same at once.
"""

from __future__ import annotations

import base64
import functools
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.flashjob import TLS_SECRET
from edgewright.devices.simulated.firmware import esp_image
from tests.harness import LocalPlane, free_port, wait_until
from tests.harness.fixtures import run
from tests.local.test_run import FLASHER, JOBS, SCALE
from tests.local.test_simulate import instances, simulation

IMAGE = "others/ota-agent"
PROGRAM = Path(__file__).with_name("everywhere_flasher.py")
PATIENCE = 300.0


@pytest.fixture
def starter() -> Iterator[socket.socket]:
    """Where flashers tell that they listen, and wait until they may go on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


@pytest.fixture
def registry() -> str:
    """Where the firmware is offered."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def plane(
    request: pytest.FixtureRequest, tmp_path: Path, starter: socket.socket, registry: str
) -> Iterator[LocalPlane]:
    """`edgewright up` with its operator, which knows the flasher."""
    (tmp_path / "firmware.bin").write_bytes(esp_image(version="0.2.0", project="thermometer"))
    files = [str(tmp_path / name) for name in ("tls.crt", "tls.key", "firmware.bin")]
    flasher = " ".join([sys.executable, str(PROGRAM), *files, f"127.0.0.1:{starter.getsockname()[1]}"])
    arguments = ("--image", FLASHER, "--image", f"{IMAGE}={flasher}", "--plain-registry", registry)
    yield from run(request, functools.partial(LocalPlane, node=True, operator=True, arguments=arguments))


def test_flashers_that_bind_every_address_flash_at_the_same_time_next_to_their_services(
    plane: LocalPlane, tmp_path: Path, starter: socket.socket, registry: str
) -> None:
    places = ("--first-address", "127.32.72.1", "--registry-port", registry.partition(":")[2])
    fleet = ("--devices", "2", "--firmware", "0.2.0", "--time-scale", str(SCALE))
    with simulation(plane, "default", tmp_path, *fleet, *places) as running:
        (firmware,) = running.seen("ready")["firmware"]
        secret = plane.request("GET", f"/api/v1/namespaces/default/secrets/{TLS_SECRET}")["data"]
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).write_bytes(base64.b64decode(secret[name]))
        devices = {each["metadata"]["uid"] for each in instances(plane, "default").values()}
        spec = {"uuid": sorted(devices), "firmware": firmware, "version": "0.2.0", "flashjobPodImage": IMAGE}
        kind = {"apiVersion": "application.flashjob.nbfc.io/v1alpha1", "kind": "FlashJob"}
        plane.request("POST", JOBS, {**kind, "metadata": {"name": "foreign"}, "spec": {**spec, "retries": 0}})

        waiting = [starter.accept()[0] for _ in devices]  # all of them listen now
        assert {each.makefile().readline().strip() for each in waiting} == devices
        for each in waiting:
            each.sendall(b"g")
            each.close()

        def ended() -> dict[str, Any] | None:
            status: dict[str, Any] = plane.request("GET", f"{JOBS}/foreign").get("status", {})
            return status if status.get("phase") in {"Completed", "Failed"} else None

        status = wait_until(ended, what="the FlashJob has ended", timeout=PATIENCE)
        assert status["phase"] == "Completed", status
        assert [each["outcome"] for each in status["devices"]] == ["succeeded", "succeeded"]
        assert [each["version"] for each in running.printed if each["event"] == "written"] == ["0.2.0", "0.2.0"]
