"""How far the flash of a device is, by what its flasher has written: the phase, and the share of bytes that is sent.

The log is all that is known of a flash under way; the report comes at its end. What is not written is not told, so a
foreign flasher, whose words nobody knows here, has no phase. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from edgewright.api.flash_pod import Phase
from edgewright.console.answers import FlashStep

_SENT: Final = re.compile(r"\b(\d{1,3}) % of (\d{1,12}) bytes sent, \d+ s")
_WORDS: Final = (
    (Phase.INSPECT, re.compile(r"waiting for the device's answer, ")),
    (Phase.FETCH, re.compile(r"the device at \S+: .*, runs |waiting for the firmware \S+, ")),
    (Phase.SEND, re.compile(r"flashing .+ over |waiting for the device to take the firmware, ")),
    (
        Phase.VERIFY,
        re.compile(r"the firmware is with the device|waiting for the device to (restart and|go on) report"),
    ),
)
"""What the flasher writes in each phase, or when it enters one."""


def step_of(lines: Sequence[str]) -> FlashStep | None:
    """What the last line with such words tells; None where there is none."""
    for line in reversed(lines):
        if sent := _SENT.search(line):
            return FlashStep(phase=Phase.SEND, percent=int(sent[1]), bytes=int(sent[2]))
        for phase, words in _WORDS:
            if words.search(line):
                return FlashStep(phase=phase)
    return None
