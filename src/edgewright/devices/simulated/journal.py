"""What a simulated device did, in order: written by the device, read by whoever checks afterwards what happened to it.

It is the witness of the tests: nothing that an operator says of a flash is believed unless the journals agree. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Did(StrEnum):
    """What happened."""

    ASKED = "asked"
    """Somebody told it to update."""
    DIALLED = "dialled"
    """It has a connection to a flash Pod whose certificate it trusts."""
    GAVE_UP = "gave up"
    """It could not get such a connection, however often it tried."""
    ATTESTED = "attested"
    """The attestation service was asked for it, and knew it."""
    NOT_ATTESTED = "not attested"
    """The attestation service was asked for it, and did not know it."""
    TURNED_AWAY = "turned away"
    """The flash Pod ended the connection before it had sent anything."""
    WRITING = "writing"
    """The first bytes of a firmware came."""
    WRITTEN = "written"
    """A whole firmware is in the other slot, was checked, and is what starts next."""
    CUT = "cut"
    """The transfer ended before the firmware did; nothing was taken."""
    DAMAGED = "damaged"
    """What came is no firmware for it; nothing was taken."""
    REBOOTED = "rebooted"
    """It has started."""
    REVERTED = "reverted"
    """It has started with the firmware from before, as the new one failed."""
    VANISHED = "vanished"
    """It is gone."""
    RETURNED = "returned"
    """It is back."""


_ENDS_WRITING: Final = frozenset({Did.WRITTEN, Did.CUT, Did.DAMAGED})
_ENDS_ALL: Final = frozenset({Did.REBOOTED, Did.REVERTED, Did.VANISHED})


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One thing that happened to a device."""

    at: float
    """When, in seconds of the fleet's clock."""
    did: Did
    run: int = 0
    """Which of its updates it belongs to: 1 for the first time that it was told to; 0 where to none."""
    peer: str = ""
    """Who was at the other end."""
    version: str = ""
    """The version in the firmware that it is about."""
    sha256: str = ""
    """The hash of the firmware that it is about."""
    detail: str = ""
    """More for people."""


class Journal:
    """The entries of one device, and the questions that checkers ask."""

    def __init__(self, told: Callable[[Entry], None] | None = None) -> None:
        """`told` is called with every new entry."""
        self._entries: list[Entry] = []
        self._told = told

    def add(self, entry: Entry) -> None:
        """Notes what happened."""
        self._entries.append(entry)
        if self._told is not None:
            self._told(entry)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, the oldest first."""
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        """How many there are."""
        return len(self._entries)

    def of(self, *kinds: Did) -> list[Entry]:
        """The entries of these kinds, the oldest first."""
        return [entry for entry in self._entries if entry.did in kinds]

    def count(self, did: Did) -> int:
        """How often this happened."""
        return len(self.of(did))

    @property
    def written(self) -> tuple[str, ...]:
        """The hashes of the firmwares that were written whole, one for every time, the oldest first."""
        return tuple(entry.sha256 for entry in self.of(Did.WRITTEN))

    @property
    def written_by_two_at_once(self) -> bool:
        """Whether a second transfer ever began while one was under way."""
        under_way: set[int] = set()
        for entry in self._entries:
            if entry.did is Did.WRITING:
                if under_way:
                    return True
                under_way.add(entry.run)
            elif entry.did in _ENDS_WRITING:
                under_way.discard(entry.run)
            elif entry.did in _ENDS_ALL:
                under_way.clear()
        return False
