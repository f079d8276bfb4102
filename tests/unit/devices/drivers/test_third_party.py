"""A driver of others, installed as a package: the flasher flashes with it, and the operator knows what it needs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgewright.api.device import Claim, Device, DeviceSpec, JobReference
from edgewright.api.flash_pod import OTA_PORT, Outcome, Variable, decode_report
from edgewright.api.flashjob import Exposure, FlashJob, FlashJobSpec
from edgewright.api.protocols import Traits, _traits_of_others, traits_of
from edgewright.controllers.flashjob.manifests import exposure_of, secrets_of, service_for
from edgewright.controllers.settings import Settings
from edgewright.devices.drivers.catalogue import UnusableDriver, driver_for, known_protocols
from edgewright.devices.simulated.certificates import Pair, server_pair
from edgewright.devices.simulated.registry import Registry
from edgewright.runtime.objects import ObjectMeta

EXAMPLE = Path(__file__).parents[4] / "examples" / "driver"
FIRMWARE = b"LANTERN 2.0.0\n" + bytes(40_000)
ADDRESS = f"127.47.{os.getpid() % 250}.1"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example package is installed in, as pip does it, from the wheel that is built of it."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "driver")  # it is built next to its source
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--target", str(folder), str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def known(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As it is in a process whose environment has the package."""
    monkeypatch.syspath_prepend(str(installed))
    _traits_of_others.cache_clear()
    yield
    _traits_of_others.cache_clear()


class LanternDevice:
    """A lantern: it answers lines, dials in when it is told to, and restarts with what it got."""

    def __init__(self, trusted: Pair) -> None:
        self.version, self.boots, self.endpoint = "1.0.0", 1, ""
        self._tls = ssl.create_default_context(cadata=trusted.certificate)
        self._tls.check_hostname = False
        self._fetching: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listens on a port of its own."""
        server = await asyncio.start_server(self._answer, ADDRESS, 0)
        async with server:
            self.endpoint = f"{ADDRESS}:{server.sockets[0].getsockname()[1]}"
            yield
        await asyncio.gather(*self._fetching)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        words = (await reader.readline()).decode().split()
        if words[0] == "fetch":
            task = asyncio.create_task(self._fetch(words[1], int(words[2])))
            self._fetching.add(task)
        told = {"type": "lantern-2", "version": self.version, "boots": self.boots}
        writer.write(json.dumps(told).encode() + b"\n")
        writer.close()
        await writer.wait_closed()

    async def _fetch(self, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port, ssl=self._tls)
        content = await reader.read()
        writer.close()
        self.version, self.boots = content.split(b"\n")[0].split()[1].decode(), self.boots + 1


async def flashed(installed: Path, folder: Path, device: LanternDevice, registry: Registry) -> tuple[int, str]:
    """The flasher as a process that has the package; its exit code and its termination message."""
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join([str(installed), *sys.path]),
        Variable.FIRMWARE: f"{registry.host}/lanterns:2.0.0",
        Variable.PROTOCOL: "lantern",
        Variable.HOST_ENDPOINT: device.endpoint,
        Variable.DEVICE: "lantern-2",
        Variable.VERSION: "2.0.0",
        Variable.EXTERNAL_IP: ADDRESS,
        Variable.POD_IP: ADDRESS,
        Variable.TIMEOUT: "60",
        Variable.PLAIN_REGISTRIES: registry.host,
        "EDGEWRIGHT_TLS_FOLDER": str(folder),
        "EDGEWRIGHT_NOTE_FOLDER": str(folder),
        "EDGEWRIGHT_TERMINATION_LOG": str(folder / "message"),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edgewright.devices.flasher", env=environ, cwd=folder, stderr=asyncio.subprocess.STDOUT
    )
    return await process.wait(), (folder / "message").read_text()


async def test_a_device_of_theirs_is_flashed_and_proven(installed: Path, tmp_path: Path) -> None:
    pair = server_pair()
    (tmp_path / "tls.crt").write_text(pair.certificate)
    (tmp_path / "tls.key").write_text(pair.key)
    device = LanternDevice(pair)
    async with device.running(), Registry() as registry:
        registry.add_image("lanterns", "2.0.0", FIRMWARE)
        code, message = await flashed(installed, tmp_path, device, registry)
    report = decode_report(message)
    assert report is not None
    assert (code, report.outcome) == (0, Outcome.SUCCEEDED), report
    assert (report.version_before, report.version_after, report.rebooted) == ("1.0.0", "2.0.0", True)
    assert (report.sent, device.version) == (len(FIRMWARE), "2.0.0")


@pytest.mark.usefixtures("known")
def test_a_driver_of_theirs_that_dials_back_gets_its_service_and_its_key() -> None:
    assert "lantern" in known_protocols()
    assert traits_of("lantern").dials_back
    device = Device(metadata=ObjectMeta(name="hall"), spec=DeviceSpec(protocol="lantern", endpoint="192.0.2.7"))
    job = FlashJob(metadata=ObjectMeta(name="job", namespace="default", uid="u"), spec=FlashJobSpec(uuid="hall"))
    assert exposure_of(job.spec, device) is Exposure.LOAD_BALANCER
    assert secrets_of(job.spec, device, Settings()) == {"spec.tlsSecretName": "ota-agent-tls"}
    claim = Claim(job=JobReference(namespace="default", name="job", uid="u"), uuid="hall")
    assert service_for(job, device, claim, Settings())["spec"]["ports"][0]["port"] == OTA_PORT


@pytest.mark.parametrize("protocol", ["", "esp32"])
def test_no_name_has_the_traits_of_esp32(protocol: str) -> None:
    assert traits_of(protocol).shows_certificate


def test_a_protocol_that_nobody_here_speaks_has_no_traits() -> None:
    assert traits_of("smoke-signals") == Traits()


@pytest.mark.parametrize("value", ["json:JSONDecoder", "not_there_at_all:Driver"], ids=["says none", "no module"])
def test_a_driver_without_traits_is_told_where_it_is_to_be_used(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint, EntryPoints

    found = EntryPoints([EntryPoint(name="odd", value=value, group="edgewright.drivers")])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.select(group=group))
    _traits_of_others.cache_clear()
    assert traits_of("odd") == Traits()
    _traits_of_others.cache_clear()
    with pytest.raises(UnusableDriver, match="'odd'"):
        driver_for("odd")
