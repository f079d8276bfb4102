"""What the original left, as a snapshot of a job knows it; the tests of this folder say it in words of the original."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.legacy.leftovers import Leftovers
from edgewright.controllers.flashjob.legacy.traces import traces_of
from edgewright.controllers.flashjob.progress import JobSnapshot


def snapshot_with(
    asked: FlashJob,
    *,
    foreign: Mapping[str, Pod] | None = None,
    occupied: Iterable[str] = (),
    overdue: Iterable[str] = (),
    had: Iterable[str] = (),
    **snapshot: Any,
) -> JobSnapshot:
    """A snapshot where these Pods are left, and Services for the entries in `occupied`."""
    left = Leftovers(dict(foreign or {}), {uuid: Service() for uuid in occupied})
    return JobSnapshot(traces=traces_of(asked, left, late=set(overdue), had=set(had)), **snapshot)
