"""What the tests of the rollout loop share: a pass over a job is soon followed by the next."""

from __future__ import annotations

import pytest

from edgewright.controllers.flashjob import job_loop


@pytest.fixture(autouse=True)
def quick_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet has the time that is between two passes; a test of ten devices would do nothing else but wait for it."""
    monkeypatch.setattr(job_loop, "PASS_EVERY", 0.02)
