"""What `edgewright simulate` says: what is there, what happens to each device, and what is left at the end.

`simulate` calls it. Only the printer prints; all the rest makes texts of what it is given.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from edgewright.runtime.objects import Key, Kind

if TYPE_CHECKING:
    from edgewright.cli.instance_registration import Registration
    from edgewright.cli.simulate import Wanted
    from edgewright.devices.simulated.device import Device
    from edgewright.devices.simulated.fleet import Fleet
    from edgewright.devices.simulated.journal import Entry
    from edgewright.devices.simulated.registry import Registry

REPOSITORY: Final = "simulated/firmware"
"""What the firmware that is offered is called."""

# More devices than this are counted, and not listed one by one.
_MAX_LISTED: Final = 40


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What runs once it has begun."""

    fleet: Fleet
    registry: Registry | None
    registration: Registration
    attestation: str
    parts: Sequence[asyncio.Task[None]]
    stays: Sequence[Stays]


@dataclass(frozen=True, kw_only=True)
class Stays:
    """An object that this run creates at the server and leaves there."""

    kind: Kind
    key: Key

    @property
    def removal(self) -> str:
        """How it is removed."""
        where = f" --namespace {self.key.namespace}" if self.key.namespace else ""
        return f"kubectl delete {self.kind.kind.lower()} {self.key.name}{where}"


class Printer:
    """Prints what happens to devices, line by line: a part of its own, so that no device ever hears of the output."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    def take(self, line: str) -> None:
        """Keeps a line until it is printed."""
        self._lines.put_nowait(line)

    async def run(self) -> None:
        """Prints until it is cancelled, or until that fails."""
        while True:
            print(await self._lines.get(), flush=True)

    def print_rest(self) -> None:
        """Prints what is left when nothing more happens."""
        while not self._lines.empty():
            print(self._lines.get_nowait(), flush=True)


def references(wanted: Wanted, registry: Registry | None) -> list[str]:
    """How a FlashJob names the firmware that is offered."""
    return [f"{registry.host}/{REPOSITORY}:{version}" for version in wanted.firmware] if registry else []


def beginning(wanted: Wanted, begun: Begun) -> str:
    """What is there, for whoever has just started it."""
    fleet, names = begun.fleet, begun.registration.names
    offered = references(wanted, begun.registry)
    if wanted.as_json:
        listed = [
            {
                "device": each.number,
                "endpoint": each.endpoint,
                "instance": names.get(each.number, ""),
                "faults": [fault.kind.value for fault in each.faults],
            }
            for each in fleet
        ]
        stays = [each.removal for each in begun.stays]
        ready = {"event": "ready", "attestation": begun.attestation, "firmware": offered, "devices": listed}
        return json.dumps(ready | {"removal": stays})
    lines = [
        f"{len(fleet)} simulated {'device' if len(fleet) == 1 else 'devices'} ({fleet.type}), "
        + (f"registered in the namespace {wanted.namespace}" if wanted.registered else "not registered"),
        f"They trust the certificate in the Secret {wanted.tls_secret}",
        f"The attestation service that knows them: --attestation {begun.attestation}",
        *(f"Firmware for them: {each}" for each in offered),
        "",
    ]
    if len(fleet) <= _MAX_LISTED:
        rows = [("NO", "ENDPOINT", "INSTANCE", "APPLICATION", "VERSION", "FAULTS")]
        rows += [
            (
                str(each.number),
                each.endpoint,
                names.get(each.number, "-"),
                each.running.application,
                each.running.version,
                " ".join(fault.kind.value + (" once" if fault.once else "") for fault in each.faults) or "-",
            )
            for each in fleet
        ]
        lines += [*table(rows), ""]
    elif counted := Counter(fault.kind.value for each in fleet for fault in each.faults):
        lines += [", ".join(f"{count} with {kind}" for kind, count in counted.items()), ""]
    return "\n".join([*lines, "Ctrl-C stops them and removes their Instances."])


def event(device: Device, entry: Entry, now: datetime, *, as_json: bool) -> str:
    """One thing that happened, as a line."""
    if as_json:
        said = {"version": entry.version, "sha256": entry.sha256, "peer": entry.peer, "detail": entry.detail}
        return json.dumps(
            {
                "event": entry.did.value,
                "time": now.isoformat(timespec="milliseconds"),
                "device": device.number,
                "run": entry.run,
                **{name: text for name, text in said.items() if text},
            }
        )
    more = " ".join(filter(None, (entry.version, entry.detail)))
    return f"{now:%H:%M:%S} device {device.number} ({device.endpoint}): {entry.did}{f', {more}' if more else ''}"


def ending(fleet: Fleet, stays: Sequence[Stays] = ()) -> str:
    """What they run at the end, by version, how often they were flashed, and what is left."""
    versions = Counter(each.running.version for each in fleet)
    flashed = sum(len(each.journal.written) for each in fleet)
    runs = ", ".join(f"{count} run {version}" for version, count in sorted(versions.items()))
    lines = [f"\n{runs}; firmware was written {flashed} time{'' if flashed == 1 else 's'}"]
    if stays:
        lines += ["What was made for them and stays is removed with:", *(f"  {each.removal}" for each in stays)]
    return "\n".join(lines)


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
