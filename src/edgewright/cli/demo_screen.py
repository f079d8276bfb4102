"""What the demo shows and claims: its sentences, its table, and how each claim is held against what devices did.

Pure: it prints nothing itself, and asks nobody. What a device did is read from its own journal, not from the operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import FirmwareRollout, RolloutPhase
from edgewright.api.flash_pod import Outcome
from edgewright.devices.simulated.journal import Did, Entry
from edgewright.runtime.objects import Key

OLD, NEW, BAD = "0.1.0", "0.2.0", "0.3.0"
CANARIES = (1, 5)
"""The devices that get a firmware first."""
CRASHING = 5
"""The canary on which the bad firmware crashes, some seconds after it was proven to run."""
REFUSED, DROPPING = 4, 7
"""The devices that are faulty: not known to the attestation service, and breaking off the first transfer."""
SITES = ("athens", "berlin", "cork")
PER_SITE = 4
BUDGET = 2
"""How many devices of a site may be updating or broken at once."""

_ENDS = frozenset({Did.REBOOTED, Did.REVERTED, Did.CUT, Did.TURNED_AWAY, Did.GAVE_UP, Did.DAMAGED, Did.VANISHED})


@dataclass(frozen=True, kw_only=True)
class Row:
    """One device of the demo."""

    number: int
    endpoint: str
    name: str
    """Of its Device."""
    fault: str = ""
    """What is wrong with it, on purpose."""

    @property
    def site(self) -> str:
        """Where it stands."""
        return SITES[(self.number - 1) // PER_SITE % len(SITES)]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the devices and the API server say once all has ended."""

    answers: Mapping[int, str]
    """The version that each device tells, by its number."""
    journals: Mapping[int, Sequence[Entry]]
    """What each did, by its own journal."""
    devices: Mapping[int, Device]
    good: FirmwareRollout
    bad: FirmwareRollout
    recall: FirmwareRollout
    why: str = ""
    """What was said of the device that is refused."""
    left: Sequence[Key] = ()
    """The Pods and Services that are still there."""

    def written(self, number: int) -> list[str]:
        """The versions that were written to a device, the oldest first."""
        return [entry.version for entry in self.journals[number] if entry.did is Did.WRITTEN]


@dataclass(frozen=True, kw_only=True)
class Check:
    """Something that the demo claims, and whether it is so."""

    claim: str
    holds: bool
    found: str = ""
    """What was found instead."""


def proof_table(rows: Sequence[Row], seen: Seen) -> Table:
    """What the devices themselves say that they run, and what was written to them."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("device", "site", "says it runs", "was written", "last outcome"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        last = seen.devices[row.number].status.last_flash if row.number in seen.devices else None
        outcome = last.outcome if last is not None else "-"
        good = seen.answers.get(row.number) == NEW
        table.add_row(
            str(row.number),
            row.site,
            f"[{'green' if good else 'red'}]{escape(seen.answers.get(row.number, 'no answer'))}[/]",
            ", ".join(seen.written(row.number)) or "never",
            escape(outcome),
        )
    return table


def claims(rows: Sequence[Row], seen: Seen) -> list[Check]:
    """Everything that the demo claims, held against what was seen."""
    return [*_first_rollout(rows, seen), *_second_rollout(rows, seen), _nothing_left(seen)]


def _first_rollout(rows: Sequence[Row], seen: Seen) -> list[Check]:
    fine = [row.number for row in rows if row.number != REFUSED]
    others = [row.number for row in rows if row.number not in CANARIES]
    proven = max((_first(seen, number, Did.REBOOTED) for number in CANARIES), default=0.0)
    asked = min((_first(seen, number, Did.ASKED) for number in others), default=0.0)
    crowds = {
        site: most_at_once(_busy(seen.journals[row.number]) for row in rows if row.site == site) for site in SITES
    }
    attempts = max((record.attempts for record in seen.devices[DROPPING].status.records), default=0)
    refused = seen.devices[REFUSED].status.last_flash
    return [
        Check(
            claim=f"{len(fine)} devices say that they run {NEW}, and the rollout of it has completed",
            holds=all(seen.answers[number] == NEW for number in fine)
            and seen.good.status.phase == RolloutPhase.COMPLETED,
            found=f"{seen.good.status.phase}, answers {dict(seen.answers)}",
        ),
        Check(
            claim="the canaries went first: no other device was asked before both had restarted with it",
            holds=proven < asked,
            found=f"restarted at {proven:.1f} s, others asked at {asked:.1f} s",
        ),
        Check(
            claim=f"never were more than {BUDGET} devices of one site updating at once, by their own journals",
            holds=all(0 < most <= BUDGET for most in crowds.values()),
            found=str(crowds),
        ),
        Check(
            claim=f"device {DROPPING} dropped the first transfer and was flashed by the second attempt",
            holds=seen.written(DROPPING) == [NEW] and attempts == 2,
            found=f"{attempts} attempts, written {seen.written(DROPPING)}",
        ),
        Check(
            claim=f"device {REFUSED} was refused and says why; it was not written and runs {OLD}",
            holds=refused is not None
            and refused.outcome == Outcome.REFUSED
            and "attestation" in seen.why
            and (seen.answers[REFUSED], seen.written(REFUSED)) == (OLD, []),
            found=f"runs {seen.answers[REFUSED]}, written {seen.written(REFUSED)}, why: {seen.why}",
        ),
    ]


def _second_rollout(rows: Sequence[Row], seen: Seen) -> list[Check]:
    got_it = [row.number for row in rows if BAD in seen.written(row.number)]
    back = [number for number in CANARIES if number != CRASHING]
    fell = any(entry.did is Did.REVERTED for entry in seen.journals[CRASHING])
    return [
        Check(
            claim=f"{BAD} was stopped by itself when device {CRASHING} fell back: nobody but the canaries got it",
            holds=got_it == list(CANARIES) and fell and seen.bad.status.phase == RolloutPhase.RECALLED,
            found=f"written to {got_it}, {seen.bad.status.phase}: {seen.bad.status.message}",
        ),
        Check(
            claim=f"device {', '.join(map(str, back))}, which ran {BAD}, was taken back to {NEW} by the recall",
            holds=all(seen.written(number) == [NEW, BAD, NEW] for number in back)
            and seen.recall.status.phase == RolloutPhase.COMPLETED,
            found=f"{seen.recall.status.phase}: {[seen.written(number) for number in back]}",
        ),
    ]


def _nothing_left(seen: Seen) -> Check:
    return Check(
        claim="nothing is left of all this: no Pod, no Service",
        holds=not seen.left,
        found=", ".join(map(str, seen.left)),
    )


def _first(seen: Seen, number: int, did: Did) -> float:
    return next((entry.at for entry in seen.journals[number] if entry.did is did), float("inf"))


def _busy(journal: Iterable[Entry]) -> list[tuple[float, float]]:
    """When a device was being updated: from when it was told to until it had restarted, or it had come to nothing."""
    found: list[tuple[float, float]] = []
    began: float | None = None
    for entry in journal:
        if entry.did is Did.ASKED:
            began = entry.at
        elif entry.did in _ENDS and began is not None:
            found.append((began, entry.at))
            began = None
    return found


def most_at_once(devices: Iterable[Iterable[tuple[float, float]]]) -> int:
    """The largest number of spans, each from one moment to another, that were under way at the same time."""
    changes = sorted(
        change for spans in devices for began, ended in spans for change in ((began, 1), (ended, -1))
    )  # of two changes at one moment, the end comes first
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def checks_text(checks: Sequence[Check]) -> list[str]:
    """The claims, with a mark each."""
    return [
        f"  [green]✓[/] {escape(check.claim)}"
        if check.holds
        else f"  [red]✗ {escape(check.claim)}[/] (found: {escape(check.found)})"
        for check in checks
    ]
