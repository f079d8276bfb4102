"""A delivery is judged by how the device ends the connection, at every moment at which it may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from edgewright.devices.drivers.delivery import PART, deliver
from edgewright.devices.drivers.tls_stream import End, TlsStream

CONTENT = bytes(4 * PART)


class Line(TlsStream):
    """A connection without a network: the other side ends it after so many parts, or when we have said goodbye."""

    def __init__(
        self,
        end: End | None,
        *,
        after: int | None = None,
        breaks_at: int | None = None,
        breaks_goodbye: bool = False,
        late: bool = False,
    ) -> None:
        self._end = end
        self._after = after
        self._breaks_at = breaks_at
        self._breaks_goodbye = breaks_goodbye
        self._late = late
        self.parts = 0
        self.on_its_way: list[int] = []
        self._over = asyncio.Event()

    async def send(self, data: bytes) -> None:
        if self.parts == self._breaks_at:
            raise ConnectionResetError("reset by peer")
        self.parts += 1
        if self.parts == self._after:
            self._over.set()
            await asyncio.sleep(0)

    async def say_goodbye(self) -> None:
        if self._breaks_goodbye:
            raise BrokenPipeError("broken pipe")
        if self._end is not None and not self._late:
            self._over.set()

    def unsent(self) -> int:
        """What is told one time after the other; when nothing more is told, all of it has arrived."""
        left = self.on_its_way.pop(0) if self.on_its_way else 0
        if not left and self._end is not None and self._late:
            self._over.set()
        return left

    async def ended(self) -> End:
        await self._over.wait()
        assert self._end is not None
        return self._end


@pytest.mark.parametrize(
    ("line", "whole", "words"),
    [
        pytest.param(lambda: Line(End.CLOSED), True, "has everything", id="closed properly at the end"),
        pytest.param(lambda: Line(End.LEFT), True, "has everything", id="left at the end"),
        pytest.param(lambda: Line(None), True, "did not say", id="nothing said at the end"),
        pytest.param(lambda: Line(End.BROKEN), False, "cut at its end", id="broken at the end"),
        pytest.param(lambda: Line(None, breaks_goodbye=True), False, "cut at its end", id="gone before our goodbye"),
        pytest.param(lambda: Line(End.CLOSED, after=2), False, "cut at 25 %: the device closed", id="closed half-way"),
        pytest.param(lambda: Line(End.LEFT, after=3), False, "cut at 50 %: the device closed", id="left half-way"),
        pytest.param(lambda: Line(None, breaks_at=1), False, "cut at 25 %: the device broke", id="reset half-way"),
        pytest.param(lambda: Line(None, breaks_at=0), False, "cut at 0 %", id="reset at once"),
    ],
)
async def test_the_end_tells_whether_it_has_everything(line: Callable[[], Line], whole: bool, words: str) -> None:
    sent: list[tuple[int, int]] = []
    delivery = await deliver(
        line(), CONTENT, progress=lambda done, of: sent.append((done, of)), stall=5.0, farewell=0.05
    )
    assert delivery.whole is whole
    assert words in delivery.message
    assert sent == sorted(sent)
    assert whole is False or sent[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize(
    ("on_its_way", "end", "whole", "words"),
    [
        pytest.param([9, 6, 3], End.CLOSED, True, "has everything", id="slowly, to the end"),
        pytest.param([9, 6, 3], None, True, "did not say", id="slowly, and says nothing at the end"),
        pytest.param([9, *[6] * 50], None, False, "took nothing for 0.02 s", id="stops taking it"),
    ],
)
async def test_a_device_is_waited_for_as_long_as_it_takes_what_was_sent(
    on_its_way: list[int], end: End | None, whole: bool, words: str
) -> None:
    line = Line(end, late=True)
    line.on_its_way = on_its_way
    delivery = await deliver(line, CONTENT, progress=lambda _done, _of: None, stall=0.02, farewell=0.01)
    assert (delivery.whole, words in delivery.message) == (whole, True), delivery.message
