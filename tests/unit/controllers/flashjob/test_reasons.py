"""The reasons of FlashJob's conditions and events, and how severe each is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import edgewright.controllers.flashjob
from edgewright.api.device import Device
from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.reasons import WARNINGS, Reason, creation_failed, fetch_failed, removal_failed
from edgewright.runtime.conditions import condition

PACKAGE = Path(edgewright.controllers.flashjob.__file__).parent


def test_only_what_goes_well_or_is_wanted_is_normal() -> None:
    normal = {reason for reason in Reason if reason.severity == "Normal"}
    wanted = {Reason.PAUSED, Reason.FROZEN, Reason.WINDOW_CLOSED, Reason.ROLLOUT_ABORTED}
    assert normal == {Reason.ACCEPTED, Reason.FLASHING, Reason.COMPLETED, *wanted}
    assert {str(reason) for reason in Reason} - normal == WARNINGS


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_may_stand_in_a_condition(reason: Reason) -> None:
    assert condition("Ready", "False", reason).reason == reason


def test_what_did_not_work_is_told_by_kind() -> None:
    assert [creation_failed(kind) for kind in (Pod.kind, Service.kind)] == [
        "PodCreationFailed",
        "ServiceCreationFailed",
    ]
    fetched = [fetch_failed(kind) for kind in (Pod.kind, Service.kind, FlashJob.kind, Device.kind)]
    assert fetched == ["PodFetchFailed", "ServiceFetchFailed", "FetchFailed", "FetchFailed"]
    removed = [removal_failed(kind, job_goes=goes) for kind in (Pod.kind, Service.kind) for goes in (True, False)]
    assert removed == ["PodDeletionFailed", "PodCleanupFailed", "ServiceDeletionFailed", "ServiceCleanupFailed"]


def test_no_module_writes_a_reason_as_text() -> None:
    words = "|".join(reason for reason in WARNINGS)  # the others are words of Kubernetes too
    for path in PACKAGE.rglob("*.py"):
        if path.name != "reasons.py":
            assert not re.search(rf'reason="|"(?:{words})"', path.read_text()), path
