"""When a Pod of a Job ended, and how long the next one waits: the rules of Kubernetes' own controller."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads.job_backoff import Failures, counted, finished_at
from edgewright.local.controllers.workloads.job_review import FAILURES, IGNORED, tries_of

MADE = datetime(2026, 1, 1, tzinfo=UTC)
START = MADE.timestamp()


def at(seconds: int) -> str:
    return (MADE + timedelta(seconds=seconds)).isoformat()


def pod(*ends: int | None, ready: int | None = None, deleted: int | None = None, **metadata: Any) -> Pod:
    """A Pod whose containers ended then, or run (None); that was not ready, and was to be deleted, since then."""
    states = [{"state": {} if end is None else {"terminated": {"finishedAt": at(end)}}} for end in ends]
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": at(ready)}] if ready is not None else []
    about = {"creationTimestamp": at(0), **({"deletionTimestamp": at(deleted)} if deleted is not None else {})}
    return msgspec.convert(
        {
            "metadata": {**about, **metadata},
            "spec": {"terminationGracePeriodSeconds": 30},
            "status": {"containerStatuses": states, "conditions": conditions},
        },
        Pod,
    )


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (pod(3, 5), 5),
        (pod(3, None, ready=7), 7),
        (pod(3, ready=7), 3),
        (pod(deleted=40), 10),
        (pod(), 0),
    ],
    ids=["containers", "one runs", "containers first", "deleted", "made"],
)
def test_a_pod_ended_when_kubernetes_would_say(given: Pod, seconds: int) -> None:
    assert finished_at(given) == START + seconds


def test_the_wait_is_counted_from_the_end_of_the_pod_and_doubles() -> None:
    assert Failures().left(START) == 0
    assert Failures(1, START).left(START + 8) == 2
    assert Failures(1, START).left(START + 11) == 0
    assert Failures(3, START).left(START) == 40
    assert Failures(50, START).left(START) == 600


def test_a_success_ends_the_row_and_what_failed_after_it_begins_one() -> None:
    row = counted(Failures(), (), [pod(1), pod(4)])
    assert row == Failures(2, START + 4)
    assert counted(row, (), ()) == row
    assert counted(row, [pod(6)], [pod(5)]) == Failures()
    assert counted(row, [pod(6)], [pod(5), pod(9)]) == Failures(1, START + 9)


def test_tries_of_an_index_count_what_was_ignored() -> None:
    assert tries_of(pod()) == 1
    assert tries_of(pod(annotations={FAILURES: "2", IGNORED: "1"})) == 4
