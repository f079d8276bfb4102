"""What the demo shows: its sentences and tables, for a terminal and for a log. Pure: it prints nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState, FlashedDevice, FlashJob, FlashJobPhase
from edgewright.runtime.objects import Key

REFUSED, DROPPING, REVERTED = 4, 7, 10
"""The devices that are faulty: not known to the attestation service, breaking off the first transfer, going back."""

_COLOURS = {
    DeviceState.WAITING: "dim",
    DeviceState.FLASHING: "cyan",
    DeviceState.DONE: "green",
    DeviceState.FAILED: "red",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One device of the demo."""

    number: int
    endpoint: str
    name: str
    """Of its Device; empty until the inventory has it."""
    fault: str = ""
    """What is wrong with it, on purpose."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the devices and the API server say once the job has ended."""

    answers: Mapping[int, str]
    """The version that each device tells, by its number."""
    written: Mapping[int, int]
    """How often each was written."""
    left: Sequence[Key] = ()
    """The Pods and Services that are still there."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Something that the demo claims, and whether it is so."""

    claim: str
    holds: bool
    found: str = ""
    """What was found instead."""


def live_table(rows: Sequence[Row], job: FlashJob | None) -> Table:
    """A line per device, as it stands now."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("device", "endpoint", "state", "tries", "what"):
        table.add_column(name, no_wrap=name != "what")
    standings = by_device(job)
    for row in rows:
        standing = standings.get(row.name)
        state = DeviceState(standing.state) if standing else DeviceState.WAITING
        colour = _COLOURS[state]
        table.add_row(
            str(row.number),
            row.endpoint,
            f"[{colour}]{state}[/]",
            str(standing.attempts or "") if standing else "",
            f"[{colour}]{escape(standing.message if standing else '')}[/]",
        )
    return table


def by_device(job: FlashJob | None) -> dict[str, FlashedDevice]:
    """How each Device of the job stands, by name."""
    return {each.device: each for each in job.status.devices if each.device} if job else {}


def news(rows: Sequence[Row], before: FlashJob | None, now: FlashJob) -> list[str]:
    """What has changed from one status to the next, a line per device, for a log."""
    old, new = by_device(before), by_device(now)
    lines = []
    for row in rows:
        was, standing = old.get(row.name), new.get(row.name)
        if standing is None or (was is not None and (was.state, was.message) == (standing.state, standing.message)):
            continue
        lines.append(f"  device {row.number:>2} {row.endpoint:<14} {standing.state:<8} {standing.message}")
    return lines


def proof_table(rows: Sequence[Row], job: FlashJob, answers: Mapping[int, str]) -> Table:
    """What the devices themselves say that they run, next to what the job says."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("device", "outcome", "tries", "says it runs", "why"):
        table.add_column(name, no_wrap=name != "why")
    standings = by_device(job)
    for row in rows:
        standing = standings.get(row.name, FlashedDevice())
        good = standing.state == DeviceState.DONE
        colour = "green" if good else "red"
        table.add_row(
            str(row.number),
            f"[{colour}]{standing.outcome or '-'}[/]",
            str(standing.attempts),
            answers.get(row.number, "no answer"),
            "" if good and not row.fault else escape(standing.message),
        )
    return table


def claims(rows: Sequence[Row], job: FlashJob, seen: Seen, *, old: str, new: str) -> list[Check]:
    """Everything that the demo claims, held against what was seen."""
    standings = by_device(job)
    standing = {row.number: standings.get(row.name, FlashedDevice()) for row in rows}
    done = {number for number, each in standing.items() if each.state == DeviceState.DONE}
    fine = standing.keys() - {REFUSED, REVERTED}
    answers, written = seen.answers, seen.written
    return [
        Check(
            claim=f"{len(fine)} devices are done, and each of them says that it runs {new}",
            holds=done == fine and all(answers[number] == new for number in fine),
            found=f"done {sorted(done)}, answers {dict(answers)}",
        ),
        Check(
            claim="each of them was written exactly once",
            holds=all(written[number] == 1 for number in fine),
            found=f"written {dict(written)}",
        ),
        Check(
            claim=f"device {DROPPING} dropped the first transfer and was flashed by the second attempt",
            holds=DROPPING in done and standing[DROPPING].attempts == 2,
            found=f"{standing[DROPPING].outcome}, {standing[DROPPING].attempts} attempts",
        ),
        Check(
            claim=f"device {REFUSED} was refused: the attestation service does not know it; it was not written and "
            f"runs {old}",
            holds=(standing[REFUSED].outcome, answers[REFUSED], written[REFUSED]) == (Outcome.REFUSED, old, 0),
            found=f"{standing[REFUSED].outcome}, runs {answers[REFUSED]}, written {written[REFUSED]} times",
        ),
        Check(
            claim=f"device {REVERTED} went back to {old} by itself, which counts as failed: reverted",
            holds=(standing[REVERTED].outcome, answers[REVERTED]) == (Outcome.REVERTED, old),
            found=f"{standing[REVERTED].outcome}, runs {answers[REVERTED]}",
        ),
        Check(
            claim="the FlashJob says Failed, because two devices did; nothing else is left of it, no Pod, no Service",
            holds=job.status.phase == FlashJobPhase.FAILED and len(standing.keys() - done) == 2 and not seen.left,
            found=", ".join([job.status.phase, *map(str, seen.left)]),
        ),
    ]


def checks_text(checks: Sequence[Check]) -> list[str]:
    """The claims, with a mark each."""
    return [
        f"  [green]✓[/] {escape(check.claim)}"
        if check.holds
        else f"  [red]✗ {escape(check.claim)}[/] (found: {escape(check.found)})"
        for check in checks
    ]
