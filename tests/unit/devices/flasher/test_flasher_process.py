"""The flasher as a process, as a Pod runs it, against a simulated device, a registry and an attestation service."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from edgewright.api.flash_pod import EXIT_CODES, INSPECTED_EXIT_CODE, Outcome, Report, Role, Variable, decode_report
from edgewright.devices.simulated.attestation import AttestationService
from edgewright.devices.simulated.certificates import Pair, server_pair
from edgewright.devices.simulated.device import Device, Times
from edgewright.devices.simulated.faults import parse_fault
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did
from edgewright.devices.simulated.registry import Registry
from edgewright.devices.timescale import TIME_SCALE
from tests.harness.waiting import wait_until_async

SCALE = 0.02
# Devices dial port 4433 and no other, so every flasher has an address of its own, also next to other runs of the suite.
ADDRESSES = (f"127.33.{os.getpid() % 250}.{number}" for number in itertools.count(1))


@cache
def pinned() -> Pair:
    """The certificate of the flasher that all devices pin: made once, for it takes a while."""
    return server_pair()


@dataclass(kw_only=True)
class Process:
    """A flasher at work."""

    process: asyncio.subprocess.Process
    message: Path

    async def ended(self) -> tuple[int, Report, str]:
        """Its exit code, its termination message and its log."""
        output, _ = await self.process.communicate()
        report = decode_report(self.message.read_text())
        assert report is not None, output.decode()
        assert self.process.returncode is not None
        return self.process.returncode, report, output.decode()


@dataclass(kw_only=True)
class World:
    """One device and all that is around it."""

    device: Device
    registry: Registry
    attestation: AttestationService
    folder: Path
    digest: str

    async def start(self, **changed: str) -> Process:
        """Starts a flasher for the device."""
        address = next(ADDRESSES)
        message = self.folder / f"message-{address}"
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": os.pathsep.join(sys.path),
            TIME_SCALE: str(SCALE),
            Variable.FIRMWARE: f"{self.registry.host}/team/firmware:0.2.0",
            Variable.UUID: "5f0c",
            Variable.HOST_ENDPOINT: self.device.endpoint,
            Variable.DEVICE: "esp32",
            Variable.APPLICATION_TYPE: "thermometer",
            Variable.VERSION: "0.2.0",
            Variable.EXTERNAL_IP: address,
            Variable.POD_IP: address,
            Variable.TIMEOUT: "30",
            Variable.PLAIN_REGISTRIES: self.registry.host,
            Variable.ATTESTATION: self.attestation.url,
            "EDGEWRIGHT_TLS_FOLDER": str(self.folder),
            "EDGEWRIGHT_NOTE_FOLDER": str(self.folder),
            "EDGEWRIGHT_TERMINATION_LOG": str(message),
            **changed,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "edgewright.devices.flasher",
            env=environ,
            cwd=self.folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        return Process(process=process, message=message)

    async def run(self, **changed: str) -> tuple[int, Report, str]:
        """Starts a flasher and waits for its end."""
        return await (await self.start(**changed)).ended()

    async def until_device(self, did: Did) -> None:
        """Waits until the device has noted that."""
        await wait_until_async(lambda: self.device.journal.count(did) > 0, what=f"the device has {did}")


@asynccontextmanager
async def world(folder: Path, *faults: str, size: int = 64 << 10, tells_boot: bool = False) -> AsyncIterator[World]:
    """A simulated device with these faults, a registry that has its firmware, and the attestation service."""
    (folder / "tls.crt").write_text(pinned().certificate)
    (folder / "tls.key").write_text(pinned().key)
    fleet = Fleet(
        count=1,
        pinned=pinned().certificate,
        port=0,
        times=Times(scale=SCALE),
        tells_boot=tells_boot,
        faults=[parse_fault(f"{fault}=1") for fault in faults],
    )
    async with fleet, Registry() as registry, AttestationService(fleet.recognises) as attestation:
        firmware = esp_image(version="0.2.0", project="thermometer", size=size)
        digest = registry.add_image("team/firmware", "0.2.0", firmware)
        yield World(device=fleet[1], registry=registry, attestation=attestation, folder=folder, digest=digest)


async def test_a_device_is_flashed_and_proven(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        code, report, log = await here.run()
        assert (code, report.outcome) == (0, Outcome.SUCCEEDED), log
        assert here.device.running.version == "0.2.0"
    assert (report.version_before, report.version_after, report.digest) == ("0.1.0", "0.2.0", here.digest)
    assert (report.rebooted, report.written, report.attested) == (True, True, True)
    assert (report.image_version, report.device, report.application) == ("0.2.0", "esp32", "thermometer")
    assert len(report.certificate) == 64
    assert report.seconds > 0


async def test_firmware_which_counts_its_restarts_is_flashed_and_proven(tmp_path: Path) -> None:
    async with world(tmp_path, tells_boot=True) as here:
        code, report, log = await here.run()
    assert (code, report.rebooted) == (0, True), log


@pytest.mark.parametrize(
    ("fault", "outcome", "version", "written"),
    [
        pytest.param("refuse-attestation", Outcome.REFUSED, "0.1.0", False, id="refused"),
        pytest.param("drop-transfer:50", Outcome.FAILED, "0.1.0", True, id="transfer-cut"),
        pytest.param("wrong-version:0.0.9", Outcome.FAILED, "0.0.9", True, id="wrong-version"),
        pytest.param("boot-loop", Outcome.REVERTED, "0.1.0", True, id="reverted"),
        pytest.param("corrupt", Outcome.FAILED, "0.1.0", True, id="never-restarts"),
    ],
)
async def test_a_device_that_does_not_run_the_firmware_is_never_a_success(
    fault: str, outcome: Outcome, version: str, written: bool, tmp_path: Path
) -> None:
    async with world(tmp_path, fault) as here:
        code, report, log = await here.run()
        assert here.device.running.version == version
    assert (code, report.outcome, report.written) == (EXIT_CODES[outcome], outcome, written), log
    if written:
        assert report.version_after == version
    assert report.log


@pytest.mark.parametrize(
    ("fault", "outcome", "written"),
    [
        pytest.param("vanish", Outcome.TIMED_OUT, True, id="after-the-transfer"),
        pytest.param("vanish:before", Outcome.TIMED_OUT, False, id="when-it-is-told-to-come"),
        pytest.param("slow:2000", Outcome.TIMED_OUT, True, id="too-slow"),
    ],
)
async def test_a_device_that_takes_too_long_has_timed_out(
    fault: str, outcome: Outcome, written: bool, tmp_path: Path
) -> None:
    async with world(tmp_path, fault, size=4 << 20 if "slow" in fault else 64 << 10) as here:
        code, report, log = await here.run(**{Variable.TIMEOUT: "3"})
    assert (code, report.outcome, report.written) == (EXIT_CODES[outcome], outcome, written), log
    assert "longer than 3 s, waiting for" in report.message


async def test_a_device_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.device.stop()
        code, report, log = await here.run()
    assert (code, report.outcome) == (EXIT_CODES[Outcome.UNREACHABLE], Outcome.UNREACHABLE), log


async def test_a_second_flash_of_the_same_firmware_is_current_and_by_force_is_flashed_again(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.run()
        code, report, log = await here.run(**{Variable.RECORDED_DIGEST: here.digest})
        assert (code, report.outcome, report.written) == (0, Outcome.ALREADY_CURRENT, False), log
        code, report, log = await here.run(**{Variable.RECORDED_DIGEST: here.digest, Variable.FORCE: "true"})
        assert (code, report.outcome, report.rebooted) == (0, Outcome.SUCCEEDED, True), log
        assert here.device.journal.count(Did.WRITTEN) == 2


async def test_a_stop_before_the_writing_ends_it_at_once_and_leaves_the_device_alone(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.attestation._seconds = 60.0
        flasher = await here.start()
        await here.until_device(Did.DIALLED)
        before = asyncio.get_running_loop().time()
        flasher.process.send_signal(signal.SIGTERM)
        code, report, log = await flasher.ended()
        assert asyncio.get_running_loop().time() - before < 5, log
        assert here.device.journal.count(Did.WRITING) == 0
    assert (code, report.outcome, report.written) == (EXIT_CODES[Outcome.CANCELLED], Outcome.CANCELLED, False), log


async def test_a_stop_while_sending_is_taken_without_harm_by_a_device_with_two_slots(tmp_path: Path) -> None:
    async with world(tmp_path, "slow:2000", size=4 << 20) as here:
        flasher = await here.start()
        await here.until_device(Did.WRITING)
        flasher.process.send_signal(signal.SIGTERM)
        code, report, log = await flasher.ended()
        assert (here.device.running.version, here.device.journal.count(Did.WRITTEN)) == ("0.1.0", 0)
    assert (code, report.outcome, report.written) == (EXIT_CODES[Outcome.CANCELLED], Outcome.CANCELLED, True), log


async def test_a_stop_after_the_sending_waits_for_the_proof(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        flasher = await here.start()
        await here.until_device(Did.WRITTEN)
        await wait_until_async(lambda: not here.device.present, what="the device restarts")
        flasher.process.send_signal(signal.SIGTERM)
        flasher.process.send_signal(signal.SIGTERM)
        code, report, log = await flasher.ended()
    assert (code, report.outcome) == (0, Outcome.SUCCEEDED), log
    assert log.count("it goes on") == 1


async def test_a_killed_flasher_has_left_word(tmp_path: Path) -> None:
    async with world(tmp_path, "slow:2000", size=4 << 20) as here:
        flasher = await here.start()
        await here.until_device(Did.WRITING)
        flasher.process.kill()
        code, report, _ = await flasher.ended()
    assert (code, report.outcome, report.written) == (-signal.SIGKILL, Outcome.FAILED, True)
    assert "ended from outside" in report.message


async def test_the_one_that_verifies_proves_what_another_flashed(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        inspected = await here.start(**{Variable.ROLE: Role.INSPECT})
        output, _ = await inspected.process.communicate()
        assert (inspected.process.returncode, inspected.message.exists()) == (0, False), output
        verifying = await here.start(**{Variable.ROLE: Role.VERIFY})
        await here.run()
        code, report, log = await verifying.ended()
        assert (code, report.outcome, report.version_after) == (0, Outcome.SUCCEEDED, "0.2.0"), log
        code, report, log = await here.run(**{Variable.ROLE: Role.INSPECT, Variable.RECORDED_DIGEST: here.digest})
    assert (code, report.outcome) == (INSPECTED_EXIT_CODE, Outcome.ALREADY_CURRENT), log


async def test_a_missing_certificate_is_told_by_the_name_of_its_secret(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        (tmp_path / "tls.key").unlink()
        code, report, _ = await here.run()
    assert (code, report.outcome) == (1, Outcome.FAILED)
    assert "tlsSecretName" in report.message
