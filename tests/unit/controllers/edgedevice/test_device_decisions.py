"""What an EdgeDevice should say of itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edgewright.api.edge_tombstone import registered_elsewhere, without_device
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.controllers.edgedevice import request_loop
from edgewright.controllers.edgedevice.decisions import (
    hardware_labels,
    held_until,
    label_value,
    labels_of,
    needs_claim,
    status_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REGISTERED = {"type": "Registered", "status": "True", "reason": "CertificateIssued", "message": "it has one"}


def device(**given: Any) -> EdgeDevice:
    metadata = {"name": "one", "namespace": "d", **given.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, **given}, EdgeDevice)


def workload(name: str) -> EdgeWorkload:
    return msgspec.convert({"metadata": {"name": name, "namespace": "d"}}, EdgeWorkload)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "intelrcoretmi7-8650ucpu1.90ghz"),
        ("localhost.localdomain", "localhost.localdomain"),
        ("-x-", "x"),
        ("a" * 80, "a" * 63),
        ("…", ""),
    ],
)
def test_a_label_is_written_as_published(text: str, value: str) -> None:
    assert label_value(text) == value


def test_labels_are_those_of_people_of_the_hardware_and_of_workloads() -> None:
    hardware = {"hostname": "Fedora", "cpu": {"architecture": "x86_64"}, "systemVendor": {"serialNumber": "42"}}
    of = device(metadata={"labels": {"foo": "bar", "workload/gone": "true"}}, status={"hardware": hardware})
    assert labels_of(of, [workload("nginx")]) == {
        "foo": "bar",
        "device.hostname": "fedora",
        "device.cpu-architecture": "x86_64",
        "device.system-serial": "42",
        "workload/nginx": "true",
    }
    assert hardware_labels(None) == {}


def test_a_new_workload_is_deploying_and_a_known_one_stays_as_it_is() -> None:
    of = device(status={"deployments": [{"name": "old", "phase": "Running"}, {"name": "gone", "phase": "Running"}]})
    status = status_of(of, [workload("new"), workload("old")], now=NOW)
    assert [(each.name, each.phase) for each in status.workloads] == [("new", "Deploying"), ("old", "Running")]
    assert status.deployments == status.workloads
    settled = msgspec.structs.replace(of, status=status)
    assert status_of(settled, [workload("new"), workload("old")], now=NOW) == status


@pytest.mark.parametrize(
    ("s3", "status", "automatic", "needed"),
    [
        (None, {}, True, True),
        (None, {}, False, False),
        ({"createOBC": True}, {}, False, True),
        ({"secretName": "a", "configMapName": "b", "createOBC": True}, {}, True, False),
        (None, {"dataObc": "one"}, True, False),
    ],
)
def test_a_bucket_is_claimed_where_none_is_named(
    s3: dict[str, Any] | None, status: dict[str, Any], automatic: bool, needed: bool
) -> None:
    of = device(spec={} if s3 is None else {"storage": {"s3": s3}}, status=status)
    assert needs_claim(of, of.spec, automatic=automatic) is needed


@pytest.mark.parametrize(
    ("finalizers", "registered", "seconds"),
    [
        (["other"], True, None),
        (["device-finalizer"], True, 600.0),
        (["yggdrasil-connection-finalizer"], True, 600.0),
        (["yggdrasil-workload-finalizer"], False, 0.0),
    ],
)
def test_a_device_that_never_registered_need_not_be_told(
    finalizers: list[str], registered: bool, seconds: float | None
) -> None:
    annotations = {"edgewright.dev/device-key": "k"} if registered else {}
    of = device(metadata={"finalizers": finalizers, "annotations": annotations})
    assert held_until(of, grace=600) == seconds


def test_a_device_that_has_a_certificate_is_told_though_it_has_not_used_it_yet() -> None:
    of = device(metadata={"finalizers": ["device-finalizer"]}, status={"conditions": [REGISTERED]})
    assert held_until(of, grace=600) == 600
    assert not without_device(of)


@pytest.mark.parametrize(
    ("metadata", "status", "elsewhere"),
    [
        ({}, {"hardware": {"hostname": "h"}}, True),
        ({}, {}, False),
        ({"labels": {"edgedeviceSignedRequest": "true"}}, {"hardware": {"hostname": "h"}}, False),
        ({"annotations": {"edgewright.dev/device-key": "k"}}, {"hardware": {"hostname": "h"}}, False),
        ({}, {"hardware": {"hostname": "h"}, "conditions": [REGISTERED]}, False),
    ],
    ids=["registered", "made by hand", "approved", "heard here", "registered here"],
)
def test_a_device_that_the_published_operator_let_in_is_known_by_what_it_left(
    metadata: dict[str, Any], status: dict[str, Any], elsewhere: bool
) -> None:
    of = device(metadata=metadata, status=status)
    assert registered_elsewhere(of) is elsewhere
    assert without_device(of) is (not elsewhere and "annotations" not in metadata and "conditions" not in status)


@pytest.mark.parametrize(
    ("approved", "problem", "phase"), [(True, "", "approved"), (False, "", "pending"), (True, "no", "declined")]
)
def test_a_request_says_where_it_stands(approved: bool, problem: str, phase: str) -> None:
    raw = {"metadata": {"name": "one"}, "spec": {"targetNamespace": "d", "approved": approved}}
    status = request_loop.status_of(msgspec.convert(raw, EdgeDeviceSignedRequest), problem)
    assert status.phase == phase
    assert [each.type for each in status.conditions if each.status == "true"] == [phase]
