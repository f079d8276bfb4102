"""A device in words: what it is and runs, who is flashing it, its history, and the log of its last failure. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from edgewright.api.device import Device, Firmware, FlashRecord
from edgewright.api.flash_pod import Outcome
from edgewright.cli import terminal
from edgewright.runtime import spans

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_SHOWN: Final = 10


def described(device: Device, now: datetime, *, colour: bool = False) -> list[str]:
    """All that people want to know, a line each."""
    spec, status, meta = device.spec, device.status, device.metadata
    facts = {
        "Device": meta.name,
        "Type": spec.type,
        "Protocol": spec.protocol or "esp32",
        "Endpoint": spec.endpoint,
        "Serial": spec.serial,
        "Labels": ", ".join(f"{key}={value}" for key, value in sorted(meta.labels.items())),
        "Runs": " ".join(filter(None, (status.application, status.version))) or "nobody knows",
        "Firmware": _firmware(status.firmware),
        "Before": _firmware(status.previous_firmware),
        "Seen": f"{spans.ago(status.last_seen, now)} ago" if status.last_seen else "never",
        "Namespaces": ", ".join(spec.allowed_namespaces),
    }
    lines = [f"{f'{name}:':<13} {value}" for name, value in facts.items() if value]
    if status.claim is not None:
        claim = status.claim
        since = spans.ago(claim.since, now)
        lines.append(f"Flashing:     {claim.job.namespace}/{claim.job.name}, attempt {claim.attempt}, for {since}")
    for condition in status.conditions:
        if condition.status == "True":
            word = terminal.state(condition.type, on=colour)
            lines.append(f"{f'{condition.type}:':<13} ".replace(condition.type, word, 1) + condition.message)
    lines += _history(status.records, now, colour=colour)
    last = status.last_flash
    if last is not None:
        when = f", {spans.ago(last.time, now)} ago" if last.time else ""
        lines.append(f"Last flash:   {terminal.state(last.outcome, on=colour)}{when}: {last.message}")
        if last.log and not _good(last.outcome):
            lines += ["Its log:", *(f"  {line}" for line in last.log)]
    return lines


def _history(records: Iterable[FlashRecord], now: datetime, *, colour: bool) -> list[str]:
    ordered = sorted(records, key=lambda each: each.time or _FIRST, reverse=True)
    if not ordered:
        return []
    lines = ["History:"]
    for each in ordered[:_SHOWN]:
        when = spans.ago(each.time, now)
        version = f" {each.version or each.image_version}" if each.version or each.image_version else ""
        before = f" (ran {each.before.version})" if each.before is not None and each.before.version else ""
        job = f"{each.job.namespace}/{each.job.name}"
        lines.append(f"  {when:>5} ago  {job}: {terminal.state(each.outcome, on=colour)}{version}{before}")
    if len(ordered) > _SHOWN:
        lines.append(f"  and {len(ordered) - _SHOWN} before that")
    return lines


def _firmware(firmware: Firmware | None) -> str:
    if firmware is None:
        return ""
    digest = f", {firmware.digest[:19]}…" if firmware.digest else ""
    return f"{firmware.version} ({firmware.reference}{digest})"


def _good(outcome: str) -> bool:
    return outcome in set(Outcome) and Outcome(outcome).good
