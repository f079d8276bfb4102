"""How the devices of one batch do with a new version of a workload, by what their heartbeats told; pure.

A device has succeeded when it has applied the version and its workload runs. It has failed when it went back to its
last good version, or does not run the new one in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from edgewright.api.edgedevice import DEPLOYING, ONLINE, DeviceWorkload, EdgeDevice
from edgewright.runtime.conditions import is_true

RUNNING: Final = "Running"
_NAMED: Final = 5


@dataclass
class Tally:
    """How the devices of one batch stand."""

    done: int = 0
    """How many run the new version."""
    pending: int = 0
    """How many may still come to it."""
    bad: int = 0
    """How many have failed."""
    regressed: int = 0
    """None: a device that does not run it any more has failed as any other."""
    ended: datetime | None = None
    """When the latest one ended."""
    due: datetime | None = None
    """When the next of those that are pending has failed."""
    failures: Counter[str] = field(default_factory=Counter)
    """How many failed how."""
    failed: list[str] = field(default_factory=list)
    """Which, and why, in a sentence each."""

    @property
    def size(self) -> int:
        """How many devices it has."""
        return self.done + self.pending + self.bad

    def whose(self) -> str:
        """Which devices have failed, some of them by name."""
        shown = "; ".join(sorted(self.failed)[:_NAMED])
        return shown if len(self.failed) <= _NAMED else f"{shown}; and {len(self.failed) - _NAMED} more"


def tally_of(
    devices: Iterable[EdgeDevice], workload: str, revision: str, *, opened: datetime, deadline: timedelta, now: datetime
) -> Tally:
    """How these devices stand, which got a revision when their batch was opened."""
    tally = Tally()
    for device in devices:
        entry = next((each for each in device.status.known_workloads if each.name == workload), None)
        took = entry is not None and entry.revision == revision
        changed = max(opened, (entry.last_transition_time if entry is not None else None) or opened)
        if entry is not None and took and entry.rolled_back:
            _fail(tally, device, "rolled back", entry.told or "it went back to its last good version", changed)
        elif entry is not None and took and entry.phase == RUNNING:
            tally.done += 1
            tally.ended = max(tally.ended or changed, changed)
        else:
            # One that was matched only now, or whose status was wiped, has the whole time from then on.
            begun = changed if entry is not None and entry.phase == DEPLOYING else now if entry is None else opened
            due = begun + deadline
            if now < due:
                tally.pending += 1
                tally.due = min(tally.due or due, due)
            else:
                _fail(tally, device, *_why(device, entry, took=took), due)
    return tally


def _why(device: EdgeDevice, entry: DeviceWorkload | None, *, took: bool) -> tuple[str, str]:
    if not is_true(device.status.conditions, ONLINE):
        return "offline", "it is not heard"
    if not took:
        left_out = entry.message if entry is not None else ""
        return "not applied", left_out or "it has not applied the new version"
    assert entry is not None  # noqa: S101 - it took it
    return "not running", f"{entry.phase}{f': {entry.told}' if entry.told else ''}"


def _fail(tally: Tally, device: EdgeDevice, outcome: str, why: str, when: datetime) -> None:
    tally.bad += 1
    tally.failures[outcome] += 1
    tally.failed.append(f"{device.metadata.name}: {why}")
    tally.ended = max(tally.ended or when, when)
