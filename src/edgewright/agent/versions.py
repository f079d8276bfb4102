"""Which version of a workload is to run: the one of the configuration, or the last good one where an update failed.

`workloads` asks `choose` before it creates a pod and tells `observe` how the pod does. A version is good when it has
run for the time of probation without a restart; one that fails before that is remembered by its hash, on the disk, and
is not tried again until the configuration has another. The first version of a workload has nothing to go back to.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import msgspec

from edgewright.agent.state import State
from edgewright.api.edge_protocol import WireSecret, Workload

PROBATION_SECONDS: Final = 30.0
"""How long a new version must run before it is taken for good."""
MAX_FAULTS: Final = 3
"""So often a new version may end, or be refused by podman, before it has failed."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """All that one version of a workload is made from."""

    workload: Workload
    secrets: tuple[WireSecret, ...] = ()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the versions of one workload."""

    good_hash: str = ""
    good: Version | None = None
    """The last version that did its work."""
    failed_hash: str = ""
    """The version after it that did not."""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How the pod of a version is."""

    running: bool = False
    """Whether all of its containers run."""
    done: bool = False
    """Whether it has ended as it should: all that it had to do is done."""
    broken: bool = False
    """Whether it has ended badly and is not started again."""
    faults: int = 0
    """How often it ended or was refused since it was made."""
    seconds: float = 0.0
    """How long it has run without a fault."""
    why: str = ""
    """What the last fault was."""


class Verdict(Enum):
    """What is thought of a version."""

    GOOD = auto()
    FAILED = auto()
    UNDECIDED = auto()


def judge(look: Look, *, probation: float) -> Verdict:
    """Whether a version is good, has failed, or must be looked at again."""
    if look.done:
        return Verdict.GOOD
    if look.broken or look.faults >= MAX_FAULTS:
        return Verdict.FAILED
    return Verdict.GOOD if look.running and look.seconds >= probation else Verdict.UNDECIDED


class Versions:
    """The versions of the workloads of this device."""

    def __init__(self, state: State, *, probation: float = PROBATION_SECONDS) -> None:
        self._state = state
        self._probation = probation
        self._records = {name: _read(content) for name, content in state.versions().items()}

    def choose(self, name: str, wanted: str) -> tuple[Version, str] | None:
        """The last good version in place of the wanted one, and why; None where the wanted one is to run."""
        record = self._records.get(name)
        if record is None or record.good is None or record.failed_hash != wanted:
            return None
        return record.good, record.why

    def last_good(self, name: str) -> Version | None:
        """The last good version; None where none has been."""
        return self._records.get(name, Record()).good

    def undecided(self, name: str, wanted: str) -> bool:
        """Whether a version is still on probation."""
        record = self._records.get(name, Record())
        return wanted not in {record.good_hash, record.failed_hash}

    def observe(self, version: Version, wanted: str, look: Look) -> Verdict:
        """Takes a look at a version into account; what follows from it is on the disk when this returns."""
        name = version.workload.name
        record = self._records.get(name, Record())
        verdict = judge(look, probation=self._probation)
        match verdict:
            case Verdict.GOOD:
                self._keep(name, Record(good_hash=wanted, good=version))
            case Verdict.FAILED if record.good is None:
                return Verdict.UNDECIDED  # there is nothing to go back to: it is tried again
            case Verdict.FAILED:
                self._keep(name, msgspec.structs.replace(record, failed_hash=wanted, why=look.why))
            case Verdict.UNDECIDED:
                pass
        return verdict

    def forget(self, keep: Set[str]) -> None:
        """Forgets workloads that nobody wants any more."""
        for name in self._records.keys() - keep:
            self._state.drop_version(name)
            del self._records[name]

    def _keep(self, name: str, record: Record) -> None:
        self._state.keep_version(name, msgspec.json.encode(record))
        self._records[name] = record


def _read(content: bytes) -> Record:
    """A record; one that cannot be read is begun again."""
    try:
        return msgspec.json.decode(content, type=Record)
    except msgspec.MsgspecError:
        return Record()
