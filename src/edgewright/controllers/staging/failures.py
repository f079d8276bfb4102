"""Whether too many devices of a staged change have failed, in a sentence that says which and what is allowed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from edgewright.controllers.staging.amounts import parse_amount


def too_many(failures: Mapping[str, int], ended: int, threshold: int | str, *, field: str, min_sample: int = 1) -> str:
    """Why there are too many failures among so many devices that have ended; empty where there are not.

    `failures` counts them by their outcome, `field` is the one of the spec that holds the threshold. A share counts
    only once `min_sample` devices have ended.
    """
    found = Counter({outcome: number for outcome, number in failures.items() if number})
    part = sum(found.values())
    allowed = parse_amount(threshold)
    if (allowed.share and ended < min_sample) or not allowed.reached(part, ended):
        return ""
    which = ", ".join(
        f"{number} {outcome}" for outcome, number in sorted(found.items(), key=lambda each: (-each[1], each[0]))
    )
    limit = f"{allowed} of those that have ended" if allowed.share else str(allowed)
    return f"{part} of {ended} devices that have ended failed ({which}): {field} allows fewer than {limit}"
