"""The role inspect: before a foreign flasher, ends the Pod where there is nothing to flash or nothing may be flashed.

`program` calls it. It leaves what the device said for the verifying container, which may come too late to ask that
itself; it writes nothing to a device.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended, Identity
from edgewright.devices.flasher.flash import nothing_to_do
from edgewright.devices.flasher.proof import Verdict
from edgewright.devices.flasher.steps import Work, fetch, meet

NOTE: Final = "edgewright-before.json"
_FINAL: Final = frozenset({Outcome.UNREACHABLE, Outcome.REFUSED, Outcome.INCOMPATIBLE})


async def inspect(work: Work) -> Verdict | None:
    """Why the foreign flasher must not run; None where it must."""
    device = await meet(work)
    leave_note(work.order.folders.note, device)
    try:
        firmware = await fetch(work, device)
    except Ended as error:
        # Who wants a signature wants nothing to run on firmware whose signature nobody could look at, for any reason.
        unseen = work.order.firmware.verify_signature and not work.account.report.digest
        if error.outcome in _FINAL or unseen:
            raise
        # Perhaps a form of firmware that only the other flasher knows.
        work.account.log(f"the firmware could not be looked at, which is left to the other flasher: {error.message}")
        return None
    return await nothing_to_do(work, device, firmware)


def leave_note(folder: Path, device: Identity) -> None:
    """Writes down what the device said, for another container of this Pod; where that cannot be, there is no note."""
    with suppress(OSError):
        (folder / NOTE).write_bytes(msgspec.json.encode(device))


def read_note(folder: Path) -> Identity | None:
    """What the device said to the inspecting container; None where there is no note."""
    try:
        return msgspec.json.decode((folder / NOTE).read_bytes(), type=Identity)
    except (OSError, msgspec.DecodeError):
        return None
