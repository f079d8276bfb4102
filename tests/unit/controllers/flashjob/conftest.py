"""What the tests of the FlashJob loops share: a pass over a job is soon followed by the next, and few are traced.

Each of them has a whole API server at work in its process. For the coverage those count that go through the loops one
by one (test_device_loop, test_job_loop …); what the modules named here do, they do on the same ways.
"""

from __future__ import annotations

import pytest

from edgewright.controllers.flashjob import job_loop

REPEATING = (
    "test_addresses_loop",
    "test_device_loop_stale_cache",
    "test_job_loop_failed_writes",
    "test_job_loop_shared_devices",
    "test_takeover_devices",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what need not be traced."""
    for item in items:
        if "flashjob" in item.path.parts and item.path.stem in REPEATING:
            item.add_marker("untraced")


@pytest.fixture(autouse=True)
def quick_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet has the time that is between two passes; a test of one device would do nothing else but wait for it."""
    monkeypatch.setattr(job_loop, "PASS_EVERY", 0.02)
