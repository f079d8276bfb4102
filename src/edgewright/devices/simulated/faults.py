"""What can be wrong with simulated devices, and with which of them: read from what people type, chosen by a seed.

A fault is typed as KIND[:AMOUNT][:once]=WHO, where WHO is a device's number (from 1), several with commas, or a share
such as 10%. `once` means the first time only that the device would show it. Pure: devices act it out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

GRAMMAR: Final = "KIND[:AMOUNT][:once]=WHO, such as refuse-attestation=3, drop-transfer:50:once=1,4 or slow:4096=10%"
"""How a fault is typed."""
BEFORE: Final = "before"
"""The amount of `vanish` that makes a device go away when it is asked, and not after it was written."""

_ONCE: Final = "once"


class FaultKind(StrEnum):
    """What a device does wrong, and what AMOUNT says about it."""

    does: str
    """In a sentence, for the reference."""
    takes: str
    """What AMOUNT is; empty where the kind takes none."""
    default: str
    """What it is where none is given."""

    def __new__(cls, value: str, does: str = "", takes: str = "", default: str = "") -> Self:
        """As any, by its value."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.does, kind.takes, kind.default = does, takes, default
        return kind

    REFUSE_ATTESTATION = "refuse-attestation", "The attestation service does not know its certificate."
    DROP_TRANSFER = (
        "drop-transfer",
        "It breaks the connection when it has so many per cent of the firmware, 0 to 99.",
        "PERCENT",
        "50",
    )
    WRONG_VERSION = (
        "wrong-version",
        "After a flash it reports this version, whatever it runs.",
        "VERSION",
        "0.0.0-wrong",
    )
    BOOT_LOOP = (
        "boot-loop",
        "It starts the new firmware, which answers for so many seconds and fails; it goes back to the old one.",
        "SECONDS",
        "0",
    )
    VANISH = (
        "vanish",
        "It goes for good after a flash, with `before` as soon as it is asked to update; `once`: it is back in 30 s.",
        "before",
    )
    SLOW = "slow", "It takes so many bytes of the firmware a second.", "BYTES", "16384"
    CHANGE_APPLICATION = (
        "change-application",
        "After a flash it reports this application, whatever it runs.",
        "NAME",
        "another",
    )
    CORRUPT = "corrupt", "Its flash memory damages what is written: it finds that out, and keeps the old firmware."
    SAME_VERSION = "same-version", "It runs the new firmware, and reports the version of the old one."


class BadFault(ValueError):
    """What was typed is no fault; the sentence says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One fault, of one or more devices."""

    kind: FaultKind
    amount: str = ""
    once: bool = False
    numbers: frozenset[int] = frozenset()
    """The devices that have it, by their numbers; with a share there are none."""
    share: float = 0.0
    """Or how many of all devices have it, from 0 to 1."""

    @property
    def quantity(self) -> int:
        """The amount of a kind that counts something."""
        return int(self.amount)

    def __str__(self) -> str:
        """As it is typed."""
        words = [self.kind.value]
        if self.amount and self.amount != self.kind.default:
            words.append(self.amount)
        if self.once:
            words.append(_ONCE)
        who = f"{self.share * 100:g}%" if self.share else ",".join(map(str, sorted(self.numbers)))
        return f"{':'.join(words)}={who}"


def parse_fault(text: str) -> Fault:
    """The fault that was typed; BadFault says in a sentence what is wrong with it."""
    left, equals, who = text.partition("=")
    if not equals:
        raise BadFault(f"{text!r} does not say which devices: {GRAMMAR}")
    name, *words = (each.strip() for each in left.split(":"))
    try:
        kind = FaultKind(name)
    except ValueError:
        raise BadFault(f"{name!r} is no fault that is known; known: {', '.join(FaultKind)}") from None
    once = bool(words) and words[-1] == _ONCE
    if once:
        words.pop()
    if len(words) > 1:
        raise BadFault(f"{text!r} has too many colons: {GRAMMAR}")
    numbers, share = _who(who.strip(), text)
    return Fault(kind=kind, amount=_amount(kind, words), once=once, numbers=numbers, share=share)


def chosen(faults: Iterable[Fault], *, count: int, seed: int) -> dict[int, tuple[Fault, ...]]:
    """The faults of each device of a fleet by its number; BadFault where a fault names a device that there is not.

    A share is of all devices, at least one, and which ones depends on the seed and the fault alone. A device has one
    fault of a kind at the most: BadFault where it would have two.
    """
    found: dict[int, list[Fault]] = {}
    for fault in faults:
        if beyond := [number for number in fault.numbers if number > count]:
            raise BadFault(f"{fault}: there is no device {min(beyond)} in a fleet of {count}")
        numbers: Iterable[int] = fault.numbers
        if fault.share:
            some = random.Random(f"{seed} {fault}")  # noqa: S311 - not a secret
            numbers = some.sample(range(1, count + 1), min(count, max(1, round(count * fault.share))))
        for number in sorted(numbers):
            if twice := [each for each in found.get(number, ()) if each.kind is fault.kind]:
                raise BadFault(f"{fault}: device {number} has {twice[0]} already, and one fault of a kind at the most")
            found.setdefault(number, []).append(fault)
    return {number: tuple(faults) for number, faults in found.items()}


def _amount(kind: FaultKind, words: list[str]) -> str:
    if not kind.takes:
        if words:
            raise BadFault(f"{kind} takes no amount, and got {words[0]!r}")
        return ""
    if not words:
        return kind.default
    amount = words[0]
    match kind:
        case FaultKind.DROP_TRANSFER if not (_is_number(amount) and int(amount) < 100):
            raise BadFault(f"drop-transfer: {amount!r} is not per cent, from 0 to 99")
        case FaultKind.BOOT_LOOP if not _is_number(amount):
            raise BadFault(f"boot-loop: {amount!r} is not a number of seconds")
        case FaultKind.SLOW if not (_is_number(amount) and int(amount) > 0):
            raise BadFault(f"slow: {amount!r} is not a number of bytes a second, from 1 on")
        case FaultKind.VANISH if amount != BEFORE:
            raise BadFault(f"vanish: {amount!r} is not {BEFORE!r}")
        case _ if not amount:
            raise BadFault(f"{kind}: the amount after the colon is missing")
    return amount


def _who(text: str, whole: str) -> tuple[frozenset[int], float]:
    if re.fullmatch(r"\d{1,3}(\.\d+)?%", text):
        share = float(text[:-1]) / 100
        if not 0 < share <= 1:
            raise BadFault(f"{whole!r}: a share is above 0% and not above 100%")
        return frozenset(), share
    numbers = [each.strip() for each in text.split(",")]
    if not all(_is_number(each) and int(each) > 0 for each in numbers):
        raise BadFault(
            f"{whole!r}: {text!r} is neither device numbers from 1 on, such as 3 or 1,4, nor a share like 10%"
        )
    return frozenset(map(int, numbers)), 0.0


def _is_number(text: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", text) is not None
