"""What people ask a rollout for once: to resume after a stop, or to try its failed devices once more.

A request is a text in the spec that has not been there before. When it was made is written down by the operator, on its
own clock, in an annotation of a FlashJob of the rollout: the clock of whoever asked decides nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from edgewright.api.firmwarerollout import FirmwareRolloutSpec
from edgewright.runtime.objects import Struct


class Request(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One request: its text in the spec, when the operator saw it, and how many there were with it."""

    number: int = 0
    text: str = ""
    time: datetime | None = None


NONE = Request()


class Requests(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """The latest request of each sort."""

    resume: Request = NONE
    """Outcomes up to its time do not count for stop any more."""
    retry: Request = NONE
    """Devices that failed up to its time are tried once more."""


def requests_of(spec: FirmwareRolloutSpec, noted: Iterable[Requests], now: datetime) -> tuple[Requests, bool]:
    """The latest requests, and whether one of them is not written down yet; `noted` is what stands on the FlashJobs.

    Requests are ordered by their number, for the clocks of two operators may differ. One that was taken out of the spec
    has been made all the same.
    """
    known = tuple(noted)
    resume = max((each.resume for each in known), key=_number, default=NONE)
    retry = max((each.retry for each in known), key=_number, default=NONE)
    found = Requests(resume=_latest(spec.resume_request, resume, now), retry=_latest(spec.retry_request, retry, now))
    return found, found != Requests(resume=resume, retry=retry)


def _latest(text: str, known: Request, now: datetime) -> Request:
    if not text or text == known.text:
        return known
    return Request(number=known.number + 1, text=text, time=now)


def _number(request: Request) -> int:
    return request.number
