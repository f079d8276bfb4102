"""`edgewright edge devices|show|workloads|label|approve|deny|revoke|decommission|rotate`, typed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewright.api.edgedevice import (
    KEY_ANNOTATION,
    SIGNED_REQUEST,
    DeviceCertificate,
    DeviceWorkload,
    EdgeDevice,
    EdgeDeviceStatus,
)
from edgewright.api.edgedevice_hardware import Hardware
from edgewright.api.edgedevicesignedrequest import ADMITTED, EdgeDeviceSignedRequest, EdgeDeviceSignedRequestSpec
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard, EdgeHeartbeatShardSpec, last_heard
from edgewright.api.edgeworkload import EdgeWorkload, EdgeWorkloadStatus
from edgewright.api.edgeworkload_rollout import WorkloadRolloutStatus
from edgewright.cli import edge_text
from edgewright.gateway import rotation
from edgewright.gateway.authority import Certificates
from edgewright.gateway.objects import Secret
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.objects import Condition, Key, ObjectMeta
from tests.unit.cli.typed import Plane, Typed, typed

Capture = pytest.CaptureFixture[str]
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def condition(kind: str, status: str, message: str = "") -> Condition:
    return Condition(type=kind, status=status, reason="R", message=message, last_transition_time=NOW)


def device(name: str, *conditions: Condition, **status: Any) -> EdgeDevice:
    metadata = ObjectMeta(name=name, namespace="default")
    return EdgeDevice(metadata=metadata, status=EdgeDeviceStatus(conditions=conditions, **status))


def request(name: str, **spec: Any) -> EdgeDeviceSignedRequest:
    metadata = ObjectMeta(name=name, namespace="default")
    return EdgeDeviceSignedRequest(
        metadata=metadata, spec=EdgeDeviceSignedRequestSpec(target_namespace="default", **spec)
    )


def test_a_device_is_in_one_state_and_the_list_says_why() -> None:
    workloads = (DeviceWorkload(name="w", phase="Running"), DeviceWorkload(name="v", phase="Exited", message="no"))
    devices = [
        device(
            "fine", condition("Online", "True"), condition("Ready", "True"), last_seen_time=NOW - timedelta(hours=1)
        ),
        device("busy", condition("Online", "True"), condition("Ready", "False", "v: Exited"), workloads=workloads),
        device("away", condition("Online", "False"), condition("Ready", "False", "not heard")),
        device("new"),
    ]
    requests = [request("asks"), request("out", denied=True, reason="stolen"), request("fine", approved=True)]
    shard = EdgeHeartbeatShard(spec=EdgeHeartbeatShardSpec(heard={"default/fine": int(NOW.timestamp()) - 20}))
    rows = edge_text.rows(devices, requests, last_heard([shard]), NOW)
    assert [(row[0], row[1], row[2], row[3], row[5]) for row in rows] == [
        ("asks", "Pending", "", "", ""),
        ("away", "Offline", "<none>", "0/0", "not heard"),
        ("busy", "NotReady", "<none>", "1/2", "v: Exited"),
        ("fine", "Ready", "20s", "0/0", ""),
        ("new", "New", "<none>", "0/0", ""),
        ("out", "Denied", "", "", "stolen"),
    ]
    head, shown = edge_text.workload_rows(devices, "", NOW)
    assert head == ("DEVICE", "WORKLOAD", "PHASE", "FOR", "UPLOADED", "MESSAGE")
    assert [row[:3] for row in shown] == [
        ["busy", "v", "Exited"],
        ["busy", "w", "Running"],
    ]


def test_workloads_with_a_rollout_show_how_far_it_is_and_who_has_which_version(plane: Plane, capsys: Capture) -> None:
    assert "has a workload" in type_(plane, capsys, "edge", "workloads").err

    async def work(client: Client) -> None:
        rollout = WorkloadRolloutStatus(
            phase="Paused", revision="2b", number=2, progress="1/2", batch="canary (1/2)", message="one: exit code 1"
        )
        for name, status in (("web", EdgeWorkloadStatus(rollout=rollout)), ("plain", EdgeWorkloadStatus())):
            raw = {
                "apiVersion": EdgeWorkload.kind.api_version,
                "kind": "EdgeWorkload",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"type": "pod", "device": "a", "pod": {"spec": {"containers": [{"name": "a"}]}}},
            }
            await client.raw(EdgeWorkload.kind).create(raw)
            await client.of(EdgeWorkload).write_status(await client.of(EdgeWorkload).get(Key("default", name)), status)
        for name, revision in (("a", "2b"), ("b", "1a")):
            made = await client.of(EdgeDevice).create(EdgeDevice(metadata=ObjectMeta(name=name, namespace="default")))
            workloads = (DeviceWorkload(name="web", phase="Running", revision=revision),)
            await client.of(EdgeDevice).write_status(made, EdgeDeviceStatus(workloads=workloads))

    plane.do(work)
    rollouts, devices = (
        [line.split() for line in part.splitlines()]
        for part in type_(plane, capsys, "edge", "workloads").out.split("\n\n")
    )
    assert rollouts[0] == ["WORKLOAD", "ROLLOUT", "REVISION", "DONE", "BATCH", "MESSAGE"]
    assert rollouts[1][:6] == ["web", "Paused", "2b", "1/2", "canary", "(1/2)"]
    assert len(rollouts) == 2
    assert [(line[0], line[5]) for line in devices] == [("DEVICE", "REVISION"), ("a", "2b"), ("b", "1a")]
    assert "web" not in type_(plane, capsys, "edge", "workloads", "plain").out


def type_(plane: Plane, capsys: Capture, *words: str) -> Typed:
    return typed(capsys, *words, plane=plane)


def made(plane: Plane, name: str) -> None:
    """An EdgeDevice at the server that has used a certificate."""

    async def work(client: Client) -> None:
        annotations = {KEY_ANNOTATION: "k"}
        await client.of(EdgeDevice).create(
            EdgeDevice(metadata=ObjectMeta(name=name, namespace="default", annotations=annotations))
        )

    plane.do(work)


def record(plane: Plane, name: str) -> EdgeDeviceSignedRequest:
    return plane.do(lambda client: client.of(EdgeDeviceSignedRequest).get(Key("default", name)))


def test_who_is_let_in_is_decided_and_kept(plane: Plane, capsys: Capture) -> None:
    asks = request("asks")
    plane.do(lambda client: client.of(EdgeDeviceSignedRequest).create(asks))
    assert "asks" in type_(plane, capsys, "edge", "devices", "--state", "pending").out
    assert "Device asks is denied" in type_(plane, capsys, "edge", "deny", "asks", "--reason", "unknown").err
    assert (record(plane, "asks").spec.denied, record(plane, "asks").spec.reason) == (True, "unknown")
    assert "Denied" in type_(plane, capsys, "edge", "devices").out
    assert "is approved" in type_(plane, capsys, "edge", "approve", "asks", "--set", "all").err
    spec = record(plane, "asks").spec
    assert (spec.approved, spec.denied, spec.reason, spec.target_set) == (True, False, "", "all")
    unknown = type_(plane, capsys, "edge", "approve", "nobody")
    assert (unknown.code, "has asked to be let in" in unknown.err) == (1, True)


def test_a_known_device_is_revoked_approved_for_another_key_and_decommissioned(plane: Plane, capsys: Capture) -> None:
    made(plane, "one")
    refused = type_(plane, capsys, "edge", "deny", "one")
    assert (refused.code, "edge revoke one" in refused.err) == (1, True)
    assert "are void" in type_(plane, capsys, "edge", "revoke", "one").err
    assert record(plane, "one").spec.revoked_before is not None
    assert "may register again" in type_(plane, capsys, "edge", "approve", "one").err
    found = plane.do(lambda client: client.of(EdgeDevice).get(Key("default", "one")))
    assert KEY_ANNOTATION not in found.metadata.annotations
    assert record(plane, "one").spec.revoked_before is not None
    assert type_(plane, capsys, "edge", "label", "one", "site=north").code == 0
    shown = type_(plane, capsys, "edge", "show", "one").out
    assert "site=north" in shown
    assert "Revoked:" in shown
    assert json.loads(type_(plane, capsys, "edge", "show", "one", "-o", "json").out)["metadata"]["name"] == "one"
    assert type_(plane, capsys, "edge", "label", "one", "site").code == 2
    assert "is told to disconnect" in type_(plane, capsys, "edge", "decommission", "one", "--yes").err
    assert (record(plane, "one").spec.denied, record(plane, "one").spec.decommissioned) == (True, True)
    assert type_(plane, capsys, "edge", "show", "one").code == 1
    assert type_(plane, capsys, "edge", "decommission", "one", "--yes").code == 1
    assert type_(plane, capsys, "edge", "revoke", "never").code == 1
    assert ADMITTED not in record(plane, "one").metadata.annotations


def test_a_device_of_the_published_operator_is_let_in_again_and_needs_the_authority_that_it_has(
    plane: Plane, capsys: Capture
) -> None:
    async def work(client: Client) -> None:
        await Certificates(client, GatewaySettings(namespace="default"), SystemClock()).load()
        metadata = ObjectMeta(name="theirs", namespace="default")
        await client.of(EdgeDevice).create(EdgeDevice(metadata=metadata))
        found = await client.of(EdgeDevice).get(Key("default", "theirs"))
        await client.of(EdgeDevice).write_status(found, EdgeDeviceStatus(hardware=Hardware(hostname="theirs")))

    plane.do(work)
    refused = type_(plane, capsys, "edge", "rotate", "--finish")
    assert (refused.code, "such as theirs" in refused.err) == (1, True)
    assert "may register again" in type_(plane, capsys, "edge", "approve", "theirs").err
    found = plane.do(lambda client: client.of(EdgeDevice).get(Key("default", "theirs")))
    assert found.metadata.labels == {SIGNED_REQUEST: "true"}


def test_the_authority_is_rotated_and_the_old_one_ends_when_nobody_needs_it(plane: Plane, capsys: Capture) -> None:
    assert "there is no gateway" in type_(plane, capsys, "edge", "rotate", "-n", "kube-system").err

    async def gateway(client: Client) -> Certificates:
        made = Certificates(client, GatewaySettings(namespace="default", trusted_before_use=0.0), SystemClock())
        await made.load()
        return made

    certificates = plane.do(gateway)
    old = certificates.authority.short
    made(plane, "one")

    async def used(client: Client) -> None:
        found = await client.of(EdgeDevice).get(Key("default", "one"))
        status = EdgeDeviceStatus(certificate=DeviceCertificate(issuer=old))
        await client.of(EdgeDevice).write_status(found, status)

    plane.do(used)
    assert "is trusted within seconds" in type_(plane, capsys, "edge", "rotate").err
    assert "on its way already" in type_(plane, capsys, "edge", "rotate").err

    async def renew(client: Client) -> str:
        import ssl

        await certificates.renew(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        secret = await client.of(Secret).get(Key("default", rotation.CA_SECRET))
        return rotation.authorities_in(secret).current.short

    assert plane.do(renew) != old
    refused = type_(plane, capsys, "edge", "rotate", "--finish")
    assert (refused.code, "1 device still use" in refused.err) == (1, True)
    assert "Only the present authority" in type_(plane, capsys, "edge", "rotate", "--finish", "--force").err


def test_what_is_not_there_is_said(plane: Plane, capsys: Capture) -> None:
    assert "There are no" in type_(plane, capsys, "edge", "devices", "-n", "kube-system").err
    assert "No edge device" in type_(plane, capsys, "edge", "workloads", "-n", "kube-system").err
