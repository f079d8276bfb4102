"""A flasher of others as an image on `edgewright up`: it listens on every address, and the device gets its firmware.

The published flashers bind 0.0.0.0:4433. A Service of type LoadBalancer has that port on an address of the same
machine; a Pod of podman's has a network of its own, and our own containers of the Pod are processes in it.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.flashjob import TLS_SECRET
from edgewright.devices.simulated.firmware import esp_image
from tests.edge.embedded import EDGEWRIGHT, REGISTRY, Embedded
from tests.edge.machine import Machine, build
from tests.harness import wait_until
from tests.harness.processes import Process

FLASHER = f"{REGISTRY}/others/flasher:1"
FIRMWARE = "others/firmware:0.2.0"
DEVICE = "127.32.0.1"
CONTAINERFILE = """\
FROM scratch
COPY busybox /bin/busybox
COPY busybox /bin/sh
COPY root /
CMD ["/bin/sh", "/flash.sh"]
"""
SCRIPT = """\
/usr/bin/openssl s_server -4 -accept 0.0.0.0:4433 -cert /tls.crt -key /tls.key -quiet -naccept 1 < /firmware.bin &
/bin/busybox wget -q -O - --post-data "ip: $EXTERNAL_IP" "http://$HOST_ENDPOINT/update" && wait $!
"""
"""As the published ones do it: serve the firmware over TLS, tell the device where, and end when it was fetched."""


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    """`edgewright up` whose node has podman, with the operator in it."""
    with Machine() as machine:
        made = Embedded(machine, "--plain-registry", f"{machine.address}:5000", operator=True)
        made.start()
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def device(embedded: Embedded) -> Iterator[str]:
    """The uid by which discovery knows a simulated device on this machine."""
    log = embedded.machine.folder / "simulate.log"
    command = [EDGEWRIGHT, "simulate", "--devices", "1", "--first-address", DEVICE, "--port", "80", "--tells-boot"]
    simulated = Process("simulate", embedded.inside(*command), log=log, ready=lambda: "Ctrl-C" in simulated.output())
    simulated.start()
    try:
        simulated.wait_ready()
        (instance,) = embedded.get("instances.akri.sh")["items"]
        yield instance["metadata"]["uid"]
    finally:
        simulated.terminate()


def push_flasher(embedded: Embedded, folder: Path, firmware: bytes) -> None:
    """Puts a flasher into the registry that has this firmware in it, and the key that devices trust."""
    root = folder / "context" / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    secret = embedded.get(f"secret/{TLS_SECRET}")["data"]
    for name in ("tls.crt", "tls.key"):
        (root / name).write_bytes(base64.b64decode(secret[name]))
    (root / "firmware.bin").write_bytes(firmware)
    (root / "flash.sh").write_text(SCRIPT)
    program = shutil.which("openssl")
    assert program
    shutil.copy(program, root / "usr" / "bin" / "openssl")
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split()
    for library in (word for word in needed if word.startswith("/")):
        place = root / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    embedded.push(build(folder, FLASHER, CONTAINERFILE), FLASHER)


def test_a_flasher_of_others_that_binds_every_address_flashes_next_to_its_own_service(
    embedded: Embedded, device: str, tmp_path: Path
) -> None:
    firmware = tmp_path / "firmware.bin"
    firmware.write_bytes(esp_image(version="0.2.0", project="thermometer", chip="esp32"))
    registry = f"{embedded.machine.address}:5000"
    embedded.typed(EDGEWRIGHT, "firmware", "push", firmware, f"{registry}/{FIRMWARE}", "--plain-registry", registry)
    push_flasher(embedded, tmp_path, firmware.read_bytes())
    embedded.apply(
        {
            "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
            "kind": "FlashJob",
            "metadata": {"name": "foreign"},
            "spec": {
                "uuid": [device],
                "firmware": f"{registry}/{FIRMWARE}",
                "version": "0.2.0",
                "flashjobPodImage": FLASHER,
                "retries": 0,
            },
        }
    )

    def ended() -> dict[str, Any] | None:
        status: dict[str, Any] = embedded.get("flashjob/foreign").get("status", {})
        return status if status.get("phase") in {"Completed", "Failed"} else None

    status = wait_until(ended, what="the FlashJob has ended", timeout=600, interval=0.5)
    assert status["phase"] == "Completed", status
    assert '"version": "0.2.0"' in embedded.fetch(f"http://{DEVICE}/info")
    embedded.kubectl("delete", "flashjob", "foreign")
