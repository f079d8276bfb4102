"""How far a flash is, read from what the flasher itself writes in each of its phases."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest

from edgewright.console.answers import FlashStep
from edgewright.console.flash_steps import step_of
from edgewright.devices.drivers.driver import Identity, Image, Surroundings
from tests.unit.devices.flasher.fakes import DIGEST, Bench, FakeDriver, forever


class Silent(FakeDriver):
    """A driver whose device does not answer."""

    async def inspect(self, endpoint: str) -> Identity:
        """Waits for ever."""
        await forever()
        raise AssertionError("unreachable")


async def half(around: Surroundings) -> None:
    """Sends three of eight bytes, and no more."""
    around.written()
    around.progress(3, 8)
    await forever()


async def nothing_taken(_: Surroundings) -> None:
    """The device does not come for its firmware."""
    await forever()


IMAGE = Image(content=b"firmware", digest=DIGEST)


@pytest.mark.parametrize(
    ("driver", "image", "step"),
    [
        (Silent(), IMAGE, FlashStep(phase="inspect")),
        (FakeDriver(), None, FlashStep(phase="fetch")),
        (FakeDriver(on_flash=nothing_taken), IMAGE, FlashStep(phase="send")),
        (FakeDriver(on_flash=half), IMAGE, FlashStep(phase="send", percent=37, bytes=8)),
        (FakeDriver(after=None), IMAGE, FlashStep(phase="verify")),
    ],
    ids=["inspect", "fetch", "send", "bytes", "verify"],
)
async def test_each_phase_is_known_by_what_the_flasher_writes(
    driver: FakeDriver, image: Image | None, step: FlashStep
) -> None:
    bench = Bench(driver=driver, image=image)
    task = bench.start()
    try:
        await bench.clock.advance(3)
        assert step_of(bench.said) == step, bench.said
        assert step_of([json.dumps({"level": "info", "message": each}) for each in bench.said]) == step
        # The line that enters a phase is enough: in its first second there is no other.
        entered = [each for each in bench.said if not each.endswith(" s")]
        assert (step_of(entered) or FlashStep(phase="inspect")).phase == step.phase
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("lines", [[], ["Uploading: 40%"], ["the device says: hello"]])
def test_what_another_flasher_writes_tells_nothing(lines: list[str]) -> None:
    assert step_of(lines) is None
