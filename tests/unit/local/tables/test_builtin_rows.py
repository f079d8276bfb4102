"""What a table shows of the built-in kinds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local.tables import builtin_columns
from edgewright.runtime.objects import Kind

NOW = datetime(2026, 11, 16, 3, 0, 0, tzinfo=UTC)
HOUR_AGO, MINUTE_AGO = "2026-11-16T02:00:00Z", "2026-11-16T02:59:00.000000Z"
GROUPS = {"Lease": "coordination.k8s.io", "EndpointSlice": "discovery.k8s.io"}


def shown(kind: str, *, group: str | None = None, metadata: Any = None, **body: Any) -> list[Any]:
    """The cells of an object that was created an hour ago; name and age are cut off where they are first and last."""
    found = Kind(group=GROUPS.get(kind, "") if group is None else group, version="v1", kind=kind, plural="x")
    columns, row = builtin_columns(found)
    cells = row({"metadata": {"name": "x", "creationTimestamp": HOUR_AGO, **(metadata or {})}, **body}, NOW)
    assert len(cells) == len(columns)
    return list(cells)


PORTS = [{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]
INGRESS = {"loadBalancer": {"ingress": [{"hostname": "z.example"}, {"ip": "198.51.100.7"}, {}]}}


@pytest.mark.parametrize(
    ("kind", "body", "cells"),
    [
        ("Namespace", {"status": {"phase": "Active"}}, ["Active"]),
        ("Namespace", {}, [""]),
        ("ConfigMap", {}, [0]),
        ("ConfigMap", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": ""}}, [3]),
        ("Secret", {"type": "Opaque", "data": {"a": ""}}, ["Opaque", 1]),
        ("ServiceAccount", {}, []),
        ("Lease", {"spec": {"holderIdentity": "me"}}, ["me"]),
        ("Lease", {"spec": {"holderIdentity": None}}, [""]),
    ],
)
def test_small_kinds_are_shown_between_name_and_age(kind: str, body: Any, cells: list[Any]) -> None:
    assert shown(kind, **body) == ["x", *cells, "60m"]


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"]}, {}, ["ClusterIP", "10.0.0.1", "<none>", "<none>"]),
        ({"type": "ClusterIP", "clusterIP": "None"}, {}, ["ClusterIP", "None", "<none>", "<none>"]),
        (
            {"type": "NodePort", "clusterIPs": ["10.0.0.1"], "ports": PORTS, "externalIPs": ["b", "a"]},
            {},
            ["NodePort", "10.0.0.1", "b,a", "80/TCP,53:30053/UDP"],
        ),
        (
            {"type": "ExternalName", "externalName": "example.com"},
            {},
            ["ExternalName", "<none>", "example.com", "<none>"],
        ),
        ({"type": "LoadBalancer"}, {}, ["LoadBalancer", "<none>", "<pending>", "<none>"]),
        ({"type": "LoadBalancer"}, INGRESS, ["LoadBalancer", "<none>", "198.51.100.7,z.example", "<none>"]),
        (
            {"type": "LoadBalancer", "externalIPs": ["e"]},
            INGRESS,
            ["LoadBalancer", "<none>", "198.51.100.7,z.example,e", "<none>"],
        ),
        ({}, {}, ["", "<none>", "<unknown>", "<none>"]),
    ],
)
def test_a_service_shows_its_addresses_and_ports(spec: Any, status: Any, cells: list[str]) -> None:
    assert shown("Service", spec=spec, status=status) == ["x", *cells, "60m", "<none>"]


def test_a_service_shows_its_selector_in_order() -> None:
    assert shown("Service", spec={"selector": {"b": "2", "a": "1"}})[-1] == "a=1,b=2"


@pytest.mark.parametrize(
    ("ports", "addresses", "cells"),
    [
        (None, [], ["<unset>", "<unset>"]),
        ([{"port": 80}], [["10.0.0.1"]], ["80", "10.0.0.1"]),
        ([{"name": "web"}, {}, {"port": 1}], [["1"], ["2", "3"]], ["web,*,1", "1,2,3"]),
        (
            [{"port": each} for each in range(1, 6)],
            [["1", "2"], ["3", "4"]],
            ["1,2,3 + 2 more...", "1,2,3 + 1 more..."],
        ),
    ],
)
def test_an_endpoint_slice_shows_three_of_each(ports: Any, addresses: Any, cells: list[str]) -> None:
    endpoints = [{"addresses": each} for each in addresses]
    assert shown("EndpointSlice", addressType="IPv4", ports=ports, endpoints=endpoints) == ["x", "IPv4", *cells, "60m"]


def test_a_pod_template_shows_its_containers() -> None:
    spec = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}
    assert shown("PodTemplate", template={"metadata": {"labels": {"k": "v"}}, "spec": spec}) == [
        "x",
        "a,b",
        "i,j",
        "k=v",
    ]
    assert shown("PodTemplate") == ["x", "", "", "<none>"]


@pytest.mark.parametrize(
    ("conditions", "unschedulable", "word"),
    [
        ([], False, "Unknown"),
        ([("Ready", "True")], False, "Ready"),
        ([("Disk", "True"), ("Ready", "False")], False, "NotReady"),
        ([("Ready", "Unknown")], True, "NotReady,SchedulingDisabled"),
    ],
)
def test_a_node_shows_whether_it_takes_pods(conditions: Any, unschedulable: bool, word: str) -> None:
    status = {"conditions": [{"type": kind, "status": value} for kind, value in conditions]}
    assert shown("Node", spec={"unschedulable": unschedulable}, status=status)[1] == word


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        (None, "<none>"),
        ({"kubernetes.io/role": ""}, "<none>"),
        ({"node-role.kubernetes.io/": "x"}, "<none>"),
        ({"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a", "other": "c"}, "a,b"),
    ],
)
def test_a_node_shows_its_roles(labels: Any, roles: str) -> None:
    assert shown("Node", metadata={"labels": labels})[2] == roles


def test_a_node_shows_what_it_runs_on() -> None:
    info = {
        "kubeletVersion": "v1",
        "osImage": "Debian",
        "kernelVersion": "6.1",
        "architecture": "arm64",
        "containerRuntimeVersion": "r://1",
    }
    addresses = [{"type": "InternalIP", "address": "a"}, {"type": "ExternalIP", "address": "b"}]
    wide = shown("Node", status={"nodeInfo": info, "addresses": addresses})[3:]
    assert wide == ["60m", "v1", "a", "b", "Debian", "6.1 (arm64)", "r://1"]
    assert shown("Node")[3:] == ["60m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]


def test_an_event_that_was_counted_is_shown() -> None:
    event: dict[str, Any] = {
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
        "type": "Warning",
        "reason": "BackOff",
        "message": " text \n",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": HOUR_AGO,
        "lastTimestamp": MINUTE_AGO,
        "count": 12,
    }
    assert shown("Event", **event) == [
        "60s",
        "Warning",
        "BackOff",
        "pod/p",
        "spec",
        "kubelet, n",
        "text",
        "60m",
        12,
        "x",
    ]


def test_an_event_without_times_or_name_is_shown() -> None:
    assert shown("Event", involvedObject={"kind": "Node"}) == [
        "<unknown>",
        "",
        "",
        "node",
        "",
        "",
        "",
        "<unknown>",
        1,
        "x",
    ]


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
def test_both_groups_show_the_same_event(group: str) -> None:
    subject, message, controller = (
        ("involvedObject", "message", "reportingComponent")
        if not group
        else ("regarding", "note", "reportingController")
    )
    event: dict[str, Any] = {
        subject: {"kind": "Pod", "name": "p"},
        message: "text",
        controller: "c",
        "reportingInstance": "c-1",
        "eventTime": MINUTE_AGO.replace("59", "00"),
        "series": {"count": 4, "lastObservedTime": MINUTE_AGO},
    }
    assert shown("Event", group=group, **event) == ["60s", "", "", "pod/p", "", "c, c-1", "text", "60m", 4, "x"]


def test_an_event_of_the_newer_group_may_be_an_old_one() -> None:
    event: dict[str, Any] = {
        "deprecatedSource": {"component": "kubelet"},
        "deprecatedFirstTimestamp": HOUR_AGO,
        "deprecatedCount": 2,
    }
    assert shown("Event", group="events.k8s.io", **event)[5:9] == ["kubelet", "", "60m", 2]


def test_a_kind_without_a_table_of_its_own_shows_when_it_was_created() -> None:
    assert shown("CustomResourceDefinition", group="apiextensions.k8s.io") == ["x", HOUR_AGO]
    metadata = {"creationTimestamp": None}
    assert (
        shown("CustomResourceDefinition", group="apiextensions.k8s.io", metadata=metadata)[1] == "0001-01-01T00:00:00Z"
    )


def test_a_volume_shows_its_claim() -> None:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "shop", "name": "data"},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
    }
    cells = ["x", "1Gi", "RWO,RWX", "Delete", "Bound", "shop/data", "fast", "<unset>", "", "60m", "Filesystem"]
    assert shown("PersistentVolume", spec=spec, status={"phase": "Bound"}) == cells
    going = shown("PersistentVolume", metadata={"deletionTimestamp": HOUR_AGO}, spec={})
    assert going == ["x", "0", "", "", "Terminating", "", "", "<unset>", "", "60m", "<unset>"]
