"""Who wrote what, and what became of it: the checker of the durability tests.

Writers say what they ask for before they send it and what was acknowledged after; a watch says what it saw. A write
that was cut off may have happened or not: either is right, until the server says which, and from then on only that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Write(NamedTuple):
    """One write, as a watch shows it: what it did, to which object, and the text that only this write put there."""

    type: str
    name: str
    text: str
    """For a deletion the text of the object that was deleted."""


@dataclass
class Ledger:
    """All writes of a run."""

    asked: set[Write] = field(default_factory=set)
    acknowledged: set[Write] = field(default_factory=set)
    there: dict[str, str] = field(default_factory=dict)
    """The text of each object as it was last acknowledged."""
    open: dict[str, Write] = field(default_factory=dict)
    """Writes that were sent and not answered, by the name of their object."""
    cut_off: int = 0
    newest: int = 0
    """The highest resourceVersion that any answer has had."""
    seen: set[Write] = field(default_factory=set)
    """What the watch has shown."""
    replayed: dict[str, str] = field(default_factory=dict)
    """The objects as the events tell."""
    watched: int = 0
    """The resourceVersion of the last event: where the watch resumes."""

    def ask(self, write: Write) -> int:
        """Notes a write that is about to be sent; gives the version that its answer must exceed."""
        assert write.name not in self.open
        self.asked.add(write)
        self.open[write.name] = write
        return self.newest

    def has(self, number: int) -> bool:
        """Whether so many writes are acknowledged."""
        return len(self.acknowledged) >= number

    def acknowledge(self, write: Write, version: int | None, above: int) -> None:
        """The server has said that it is done."""
        del self.open[write.name]
        self.acknowledged.add(write)
        self._happened(write)
        if version is not None:
            assert version > above, f"{write} got version {version} after {above} had been given out"
            self.newest = max(self.newest, version)

    def see(self, write: Write, version: int) -> None:
        """The watch has shown an event."""
        assert version > self.watched, f"{write} at {version} was shown after {self.watched}"
        assert write in self.asked, f"{write} was shown, and nobody asked for it"
        assert write not in self.seen, f"{write} was shown twice"
        self.watched = version
        self.seen.add(write)
        if write.type == "DELETED":
            assert self.replayed.pop(write.name) == write.text
        else:
            assert (write.name in self.replayed) is (write.type == "MODIFIED")
            self.replayed[write.name] = write.text

    def settle(self, listed: dict[str, str], version: int) -> None:
        """After a restart: what is there must be what was acknowledged, or what was asked and cut off."""
        assert version >= self.newest, f"the server is at {version} and had given out {self.newest}"
        self.newest = version
        for write in self.open.values():
            self.cut_off += 1
            before = self.there.get(write.name)
            after = None if write.type == "DELETED" else write.text
            found = listed.get(write.name)
            assert found in (before, after), f"{write.name} holds {found}: it was {before}, and {write} was asked"
            if found == after:
                self._happened(write)
        self.open.clear()
        assert listed == self.there

    def caught_up(self) -> bool:
        """Whether the watch has shown all that was acknowledged, and has come to what there is."""
        return self.replayed == self.there and self.acknowledged <= self.seen

    def _happened(self, write: Write) -> None:
        if write.type == "DELETED":
            self.there.pop(write.name, None)
        else:
            self.there[write.name] = write.text
