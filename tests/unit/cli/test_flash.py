"""`edgewright flash`: when what it follows has ended."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.api.flashjob import FlashCounts, FlashJob, FlashJobSpec, FlashJobStatus
from edgewright.cli import flash
from edgewright.runtime.objects import ObjectMeta


def job(*uuids: str, generation: int = 1, observed: int = 1, **fields: Any) -> FlashJob:
    """A FlashJob with this status."""
    return FlashJob(
        metadata=ObjectMeta(name="flashjob", namespace="default", generation=generation),
        spec=FlashJobSpec(uuid=uuids, firmware="registry.example/esp32:0.2.0", version="0.2.0"),
        status=FlashJobStatus(observed_generation=observed, **fields),
    )


@pytest.mark.parametrize(
    ("found", "ended"),
    [
        (job("a", phase="InProgress"), False),
        (job("a", phase="Completed"), True),
        (job("a", phase="Failed"), True),
        (job("a", phase="Failed", counts=FlashCounts(total=2, waiting=1)), False),
        (job("a", phase="Completed", generation=3, observed=2), False),
        (job("a", phase="Completed", generation=2, observed=2), False),
    ],
)
def test_a_job_has_ended_when_its_status_is_about_the_present_spec_and_nothing_is_under_way(
    found: FlashJob, ended: bool
) -> None:
    assert flash.has_ended(found, generation=3 if found.metadata.generation > 1 else 1) is ended
