"""The Device: what its CRD takes and shows, and how its memory is read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edgewright.api.crd import custom_resource_definition
from edgewright.api.device import (
    MAX_INSTANCES,
    MAX_RECORDS,
    Claim,
    Device,
    DeviceSpec,
    DeviceStatus,
    FlashRecord,
    JobReference,
    LastFlash,
    Mark,
)
from edgewright.api.flash_pod import LOG_LINES, Outcome

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def version() -> dict[str, Any]:
    """The one version of the CRD."""
    (only,) = custom_resource_definition(Device)["spec"]["versions"]
    assert isinstance(only, dict)
    return only


def record(uid: str, **fields: Any) -> FlashRecord:
    return FlashRecord(job=JobReference(namespace="default", name=f"job-{uid}", uid=uid), **fields)


def test_the_kind_belongs_to_no_namespace_and_has_a_status_of_its_own(version: dict[str, Any]) -> None:
    definition = custom_resource_definition(Device)
    assert definition["spec"]["scope"] == "Cluster"
    assert definition["metadata"]["name"] == "devices.edgewright.dev"
    assert version["subresources"] == {"status": {}}


def test_the_list_of_devices_reads_like_a_fleet_list(version: dict[str, Any]) -> None:
    shown = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == ["Type", "Endpoint", "Application", "Version", "Flashing", "Last-Flash", "Seen", "Age"]


def test_the_memory_is_bounded(version: dict[str, Any]) -> None:
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert status["instances"]["maxItems"] == MAX_INSTANCES
    assert status["records"]["maxItems"] == MAX_RECORDS
    assert status["lastFlash"]["properties"]["log"]["maxItems"] == LOG_LINES


def test_only_known_outcomes_are_recorded(version: dict[str, Any]) -> None:
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    allowed = status["records"]["items"]["properties"]["outcome"]["enum"]
    assert set(allowed) == set(Outcome)


def test_a_record_is_found_by_the_uid_of_its_job() -> None:
    status = DeviceStatus(records=(record("a"), record("b", outcome=Outcome.SUCCEEDED)))
    found = status.record_of("b")
    assert found is not None
    assert found.outcome == "succeeded"
    assert status.record_of("c") is None


def test_a_device_goes_to_the_server_and_back_unchanged() -> None:
    device = Device(
        spec=DeviceSpec(type="esp32s3", endpoint="10.0.0.7", configuration="http"),
        status=DeviceStatus(
            application="thermo",
            version="1.0.0",
            instances=("u1", "u2"),
            last_seen=NOW,
            claim=Claim(job=JobReference(name="job", uid="j"), uuid="u2", attempt=2, since=NOW, not_before=NOW),
            last_flash=LastFlash(outcome=Outcome.CORRUPT, time=NOW, log=("one", "two")),
            records=(record("a", outcome=Outcome.SUCCEEDED, time=NOW, forced=True),),
        ),
    )
    raw = msgspec.json.decode(msgspec.json.encode(device.to_raw()))
    assert raw["kind"] == "Device"
    assert raw["status"]["lastFlash"]["log"] == ["one", "two"]
    assert raw["status"]["claim"]["notBefore"] == "2026-01-01T00:00:00Z"
    assert msgspec.convert(raw, Device) == device


def test_a_freed_claim_is_no_claim() -> None:
    assert msgspec.json.decode(b'{"status":{"claim":null}}', type=Device).status.claim is None


def test_our_marks_are_names_that_labels_and_annotations_may_have() -> None:
    for mark in Mark:
        prefix, _, name = mark.partition("/")
        assert prefix == "edgewright.dev"
        assert name.replace("-", "").isalpha()
