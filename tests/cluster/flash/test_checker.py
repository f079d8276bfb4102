"""The witness of the fault matrix: it is content with the truth, and with no lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from edgewright.api import Device, FlashJob
from edgewright.api.device import Claim, DeviceSpec, DeviceStatus, FlashRecord, JobReference
from edgewright.api.flashing import Outcome
from edgewright.api.flashjob import DeviceState, FlashedDevice, FlashJobStatus
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.device import Slot
from edgewright.devices.simulated.firmware import esp_image, read_image
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did, Entry
from edgewright.runtime import ObjectMeta
from tests.cluster.flash.checker import Expected, Witness

FIRMWARE = read_image(esp_image(version="2", project="lamp"), chip="esp32")
GOOD = FlashRecord(job=JobReference(name="job", uid="1"), outcome=Outcome.SUCCEEDED, attempts=1)
STATUS = DeviceStatus(records=(GOOD,))
SHOWN = FlashedDevice(uuid="a", device="d", state=DeviceState.DONE, outcome=Outcome.SUCCEEDED)


@dataclass
class Scene:
    """A fleet of one device, what is recorded of it and what its job shows."""

    fleet: Fleet
    witness: Witness
    status: DeviceStatus = STATUS
    shown: FlashedDevice = SHOWN
    completed: tuple[str, ...] = ("a",)
    retries: int = 1

    @property
    def device(self) -> Device:
        endpoint = self.fleet[1].endpoint
        return Device(metadata=ObjectMeta(name="d"), spec=DeviceSpec(endpoint=endpoint), status=self.status)

    def happened(self, *things: Did, run: int = 1) -> None:
        """Writes into the device's journal."""
        for did in things:
            self.fleet[1].journal.add(Entry(at=0.0, did=did, run=run))

    def shows(self, **changes: Any) -> None:
        """Changes what the job shows of the device."""
        self.shown = msgspec.structs.replace(self.shown, **changes)

    def records(self, **changes: Any) -> None:
        """Changes what the Device says."""
        self.status = msgspec.structs.replace(self.status, **changes)

    def problems(self) -> list[str]:
        """What the witness says."""
        job = FlashJob(
            metadata=ObjectMeta(name="job", uid="1"),
            status=FlashJobStatus(devices=(self.shown,), completed_uuids=self.completed),
        )
        numbers = {"a": 1}
        expected = Expected(version="2", sha256=FIRMWARE.sha256, retries=self.retries, numbers=numbers, certain={1})
        return self.witness.problems(job, [self.device], expected)


def reports_another_version(scene: Scene) -> None:
    device = scene.fleet[1]
    device.running = replace(device.running, version="3")


def runs_another_firmware(scene: Scene) -> None:
    device = scene.fleet[1]
    device.running = replace(device.running, contents=None)


def is_told_again(scene: Scene) -> None:
    scene.retries = 2
    scene.records(records=(msgspec.structs.replace(GOOD, attempts=2),))
    scene.happened(Did.ASKED, run=2)


def is_written_by_two(scene: Scene) -> None:
    scene.happened(Did.WRITING)
    scene.happened(Did.WRITING, run=2)


LIES: dict[str, tuple[Callable[[Scene], object], str]] = {
    "another version": (reports_another_version, "counted as completed and reports 3"),
    "another firmware": (runs_another_firmware, "which is not the firmware"),
    "told again after its success": (is_told_again, "1 times when its success was recorded, and has been 2"),
    "told twice in one attempt": (lambda on: on.happened(Did.ASKED, run=2), "told to update 2 times in 1 attempts"),
    "two at once": (is_written_by_two, "by two at once"),
    "claimed": (lambda on: on.records(claim=Claim(job=JobReference(name="job"))), "still claimed by job"),
    "no record": (lambda on: on.records(records=()), "no outcome is recorded"),
    "another record": (lambda on: on.shows(outcome=Outcome.ALREADY_CURRENT), "succeeded is recorded"),
    "stranded": (lambda on: on.shows(state=DeviceState.WAITING), "it is stranded: Waiting"),
    "failed for nothing": (lambda on: on.shows(state=DeviceState.FAILED), "nothing kept it from being flashed"),
    "not counted": (lambda on: setattr(on, "completed", ()), "completedUUIDs are [], and done are ['a']"),
    "not shown": (lambda on: on.shows(uuid="b"), "a is not shown"),
    "too often": (lambda on: on.records(records=(msgspec.structs.replace(GOOD, attempts=3),)), "has had 3 attempts"),
}


async def scene_of(lie: Callable[[Scene], object] | None) -> list[str]:
    """What the witness says of a device that was flashed, where somebody lies."""
    async with Fleet(count=1, pinned=server_pair().certificate, port=0, first_address="127.32.240.1") as fleet:
        fleet[1].running = Slot(version="2", application="lamp", contents=FIRMWARE)
        scene = Scene(fleet, Witness(fleet))
        scene.happened(Did.ASKED, Did.WRITING, Did.WRITTEN, Did.REBOOTED)
        scene.witness.look(scene.device)
        if lie is not None:
            lie(scene)
        return scene.problems()


async def test_the_witness_is_content_with_the_truth() -> None:
    assert await scene_of(None) == []


@pytest.mark.parametrize(("lie", "said"), LIES.values(), ids=LIES)
async def test_the_witness_is_content_with_no_lie(lie: Callable[[Scene], object], said: str) -> None:
    assert any(said in problem for problem in await scene_of(lie))


async def test_the_witness_asks_a_device_that_is_gone_in_vain() -> None:
    async with Fleet(count=1, pinned=server_pair().certificate, port=0, first_address="127.32.240.1") as fleet:
        scene = Scene(fleet, Witness(fleet))
        await fleet[1].stop()
        assert any("does not answer" in problem for problem in scene.problems())
