"""What people type behind `rollout create`, read into a spec: durations, shares, budgets, windows, stop rules, labels.

Pure. What cannot be read is wrong usage: the message names the option and shows a right one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import typer

from edgewright.api.firmwarerollout import (
    REGRESSED,
    Approval,
    Batch,
    Budget,
    FirmwareFor,
    Gate,
    StopAction,
    StopRule,
    Window,
)
from edgewright.api.flash_pod import Outcome
from edgewright.api.label_selector import LabelSelector, LabelSelectorRequirement

_UNITS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"(?:\d+[dhms])+")
_SHARE: Final = re.compile(r"\d{1,3}%|\d+")
_SET: Final = re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=,()]*)")
_KEY: Final = re.compile(r"(?P<absent>!\s*)?(?P<key>[^\s!=,()]+)")


def _wrong(option: str, text: str, right: str) -> typer.BadParameter:
    return typer.BadParameter(f"{text!r} cannot be read; right is, for example, {right}", param_hint=option)


def seconds(text: str, option: str) -> int:
    """A duration such as 90, 90s, 5m or 1h30m, in seconds."""
    if text.isascii() and text.isdigit():
        return int(text)
    if not _DURATION.fullmatch(text):
        raise _wrong(option, text, "90s, 5m or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))


def share(text: str, option: str) -> int | str:
    """A count such as 3, or a share such as 10%."""
    if not _SHARE.fullmatch(text) or (text.endswith("%") and int(text[:-1]) > 100):
        raise _wrong(option, text, "3 or 10%")
    return text if text.endswith("%") else int(text)


def budget(text: str) -> Budget:
    """LABEL=COUNT or LABEL=PERCENT."""
    label, equals, most = text.partition("=")
    if not label or not equals:
        raise _wrong("--budget", text, "site=1 or site=10%")
    return Budget(label=label, max_unavailable=share(most, "--budget"))


def window(text: str) -> Window:
    """CRON,DURATION or CRON,DURATION,TIME-ZONE; the cron expression may have commas of its own."""
    parts = [part.strip() for part in text.split(",")]
    for zones in (0, 1):
        fields = parts[: len(parts) - 1 - zones]
        if fields and _DURATION.fullmatch(parts[-1 - zones]) and len(",".join(fields).split()) == 5:
            zone = parts[-1] if zones else ""
            return Window(
                cron=",".join(fields), duration_seconds=seconds(parts[-1 - zones], "--window"), time_zone=zone
            )
    raise _wrong("--window", text, '"0 22 * * *,4h,Europe/Athens"')


def stop(text: str) -> StopRule:
    """A threshold and an action, and perhaps outcomes and min=N, by commas: 20%,pause or 3,recall,reverted,min=10."""
    threshold: int | str | None = None
    action, sample, outcomes = "", 1, []
    for part in (each.strip() for each in text.split(",")):
        if part in set(StopAction):
            action = part
        elif part in set(Outcome) or part == REGRESSED:
            outcomes.append(part)
        elif part.startswith("min=") and part[4:].isdigit():
            sample = int(part[4:])
        elif threshold is None and _SHARE.fullmatch(part):
            threshold = share(part, "--stop")
        else:
            raise _wrong("--stop", text, '"20%,pause" or "3,recall,reverted,min=10"')
    if threshold is None or not action:
        raise _wrong("--stop", text, '"20%,pause" or "3,recall,reverted,min=10"')
    return StopRule(outcomes=tuple(outcomes), threshold=threshold, min_sample=sample, action=action)


def batch(text: str) -> Batch:
    """NAME=SIZE, and perhaps a soak time, a success share as ok=95% and `manual`, by commas."""
    head, *more = [each.strip() for each in text.split(",")]
    name, equals, size = head.partition("=")
    if not name or not equals:
        raise _wrong("--batch", text, '"canary=5%,10m,manual"')
    soak, success, approval = 0, None, None
    for part in more:
        if part in set(Approval):
            approval = part
        elif part.startswith("ok=") and _SHARE.fullmatch(part[3:].removesuffix("%") + "%"):
            success = int(part[3:].removesuffix("%"))
        elif _DURATION.fullmatch(part):
            soak = seconds(part, "--batch")
        else:
            raise _wrong("--batch", text, '"canary=5%,10m,ok=95%,manual"')
    gate = Gate(success_percent=success, approval=approval)
    return Batch(name=name, size=share(size, "--batch"), soak_seconds=soak, gate=gate)


def canary(size: str, soak: str, *, approve: bool) -> Batch:
    """The batch that tries it first."""
    gate = Gate(approval=Approval.MANUAL.value if approve else None)
    return Batch(name="canary", size=share(size, "--canary"), soak_seconds=seconds(soak, "--soak"), gate=gate)


def firmware_for(text: str) -> FirmwareFor:
    """TYPE=REFERENCE=VERSION: the firmware of one type of device."""
    parts = text.split("=")
    if len(parts) != 3 or not all(parts):
        raise _wrong("--firmware-for", text, "esp32s3=registry.example/thermo:1.4.0=1.4.0")
    return FirmwareFor(type=parts[0], firmware=parts[1], version=parts[2])


def labels(text: str) -> LabelSelector | None:
    """A label selector as kubectl takes it: site=a,zone in (x,y),!old."""
    rest = text.strip()
    if not rest:
        return None
    equal: dict[str, str] = {}
    more: list[LabelSelectorRequirement] = []
    while rest:
        if found := _SET.match(rest):
            values = tuple(value.strip() for value in found["values"].split(","))
            operator = "In" if found["operator"] == "in" else "NotIn"
            more.append(LabelSelectorRequirement(key=found["key"], operator=operator, values=values))
        elif found := _EQUAL.match(rest):
            if found["operator"] == "!=":
                more.append(LabelSelectorRequirement(key=found["key"], operator="NotIn", values=(found["value"],)))
            else:
                equal[found["key"]] = found["value"]
        elif found := _KEY.match(rest):
            operator = "DoesNotExist" if found["absent"] else "Exists"
            more.append(LabelSelectorRequirement(key=found["key"], operator=operator))
        else:
            raise _wrong("--selector", text, "site=north,zone in (a,b),!old")
        rest = rest[found.end() :].strip()
        if rest and not rest.startswith(","):
            raise _wrong("--selector", text, "site=north,zone in (a,b),!old")
        rest = rest[1:].strip()
    return LabelSelector(match_labels=equal, match_expressions=tuple(more))


def name_from(firmware: str, version: str) -> str:
    """A name for a rollout that nobody named: what it brings, as thermo-1-4-0."""
    repository = firmware.partition("@")[0].rsplit("/", 1)[-1].partition(":")[0]
    words = re.sub(r"[^a-z0-9]+", "-", f"{repository}-{version}".lower()).strip("-")
    return words[:52].rstrip("-") or "rollout"


def many(texts: Sequence[str] | None) -> tuple[str, ...]:
    """What was given by repeating an option, by commas, or both; each once."""
    parts = (part.strip() for text in texts or () for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))
