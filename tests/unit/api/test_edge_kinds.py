"""The kinds of Linux edge devices: samples of every era decode, and the pure rules about workloads and devices."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from edgewright.api.capabilities import EDGE
from edgewright.api.edge_matching import oldest, selects, settings_of, workloads_of, yields_to
from edgewright.api.edge_protocol import NEVER, parsed_time
from edgewright.api.edge_rules import problem_of
from edgewright.api.edgedevice import GROUP, EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload

SAMPLES = Path(__file__).parents[3] / "config" / "samples"
PUBLISHED = [kind for kind in EDGE.kinds if kind.kind.group == GROUP]
OLD, NEW = "2022-03-01T00:00:00Z", "2022-10-01T00:00:00Z"
GOOD: dict[str, Any] = {"type": "pod", "device": "one", "pod": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}


def workload(kind: type[EdgeWorkload] = EdgeWorkload, made: str = OLD, name: str = "w", **spec: Any) -> EdgeWorkload:
    metadata = {"name": name, "namespace": "d", "creationTimestamp": made, "uid": f"{kind.kind.kind}-{made}"}
    return msgspec.convert({"metadata": metadata, "spec": GOOD | spec}, kind)


def device(**labels: str) -> EdgeDevice:
    return msgspec.convert({"metadata": {"name": "one", "namespace": "d", "labels": labels}}, EdgeDevice)


@pytest.mark.parametrize("kind", PUBLISHED, ids=lambda kind: kind.kind.kind)
def test_the_sample_of_each_kind_decodes(kind: type[Any]) -> None:
    raw = yaml.safe_load((SAMPLES / f"management_v1alpha1_{kind.kind.kind.lower()}.yaml").read_text())
    assert (raw["apiVersion"], raw["kind"]) == (kind.kind.api_version, kind.kind.kind)
    assert msgspec.convert(raw, kind).metadata.name


def test_the_data_paths_of_the_first_era_are_uploads() -> None:
    path = {"source": ".", "target": "nginx"}
    data = workload(data={"paths": [path], "egress": [path, {"source": "a", "target": "b"}]}).spec.data
    assert data is not None
    assert [each.target for each in data.uploads] == ["nginx", "b"]


def test_of_two_objects_of_one_name_the_older_counts_whichever_era_it_is_of() -> None:
    early, late = workload(EdgeDeployment, OLD), workload(EdgeWorkload, NEW)
    assert oldest([late, early])[early.key] is early
    assert yields_to(late, early)
    assert not yields_to(early, late)
    assert not yields_to(early, None)
    same = workload(EdgeWorkload, OLD)
    assert yields_to(early, same)  # of one second: the later era's kind counts


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({"matchLabels": {"foo": "bar"}}, {"foo": "bar"}, True),
        ({"matchLabels": {"foo": "bar"}}, {"foo": "no"}, False),
        ({"matchLabels": {"example.com/foo": "bar"}}, {"example.com/foo": "bar"}, True),
        ({}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}, {"a": "x"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Like"}]}, {"a": "x"}, False),
    ],
)
def test_devices_are_selected_as_labels_are_everywhere(
    selector: dict[str, Any], labels: dict[str, str], selected: bool
) -> None:
    assert selects(workload(device="", deviceSelector=selector).spec, device(**labels)) is selected


def test_a_name_goes_before_a_selector_and_neither_selects_nothing() -> None:
    assert selects(workload(device="ONE", deviceSelector={"matchLabels": {"a": "b"}}).spec, device())
    assert not selects(workload(device="two", deviceSelector={}).spec, device())
    assert not selects(workload(device="").spec, device())


def test_a_device_has_the_valid_living_workloads_of_its_namespace_by_name() -> None:
    bad = workload(name="bad", type="helm")
    going = msgspec.convert(
        {"metadata": {"name": "going", "namespace": "d", "deletionTimestamp": OLD}, "spec": GOOD}, EdgeWorkload
    )
    foreign = msgspec.convert({"metadata": {"name": "f", "namespace": "x"}, "spec": GOOD}, EdgeWorkload)
    early, late = workload(EdgeDeployment, OLD, "z"), workload(EdgeWorkload, NEW, "z")
    found = workloads_of(device(), [late, early, workload(name="a"), bad, going, foreign])
    assert [(type(each), each.metadata.name) for each in found] == [(EdgeWorkload, "a"), (EdgeDeployment, "z")]
    leaving = msgspec.convert({"metadata": {"name": "one", "namespace": "d", "deletionTimestamp": OLD}}, EdgeDevice)
    assert workloads_of(leaving, [workload()]) == []


def test_the_spec_of_a_set_replaces_that_of_its_members_whole() -> None:
    def of(kind: type[EdgeDeviceSet], made: str, period: int) -> EdgeDeviceSet:
        metadata = {"name": "all", "namespace": "d", "creationTimestamp": made}
        return msgspec.convert({"metadata": metadata, "spec": {"heartbeat": {"periodSeconds": period}}}, kind)

    member = device(**{"flotta/member-of": "all"})
    early, late = of(EdgeDeviceGroup, OLD, 1), of(EdgeDeviceSet, NEW, 2)
    assert settings_of(member, [late, early]) is early.spec
    assert settings_of(member, []) is member.spec
    assert settings_of(device(), [early]) == device().spec


def pod(**container: Any) -> dict[str, Any]:
    return {"pod": {"spec": {"containers": [{"name": "a", "image": "a", **container}]}}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, None),
        ({"type": "helm"}, "spec.type"),
        ({"device": ""}, "spec.deviceSelector"),
        ({"pod": {"spec": {}}}, "spec.pod.spec.containers"),
        ({"pod": {"spec": {"containers": [{"image": "a"}]}}}, "spec.pod.spec.containers[0].name"),
        ({"pod": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}, "spec.pod.spec.containers[1].name"),
        (pod(livenessProbe={"exec": {}}), "spec.pod.spec.containers[0].livenessProbe"),
        (pod(resources={"limits": {"cpu": 1}}), "spec.pod.spec.containers[0].resources"),
        (pod(resources={}), None),
        (
            pod(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]),
            "spec.pod.spec.containers[0].env[0].valueFrom.fieldRef",
        ),
        (pod(ports=[{"hostPort": 9100}]), "spec.pod.spec.containers[0].ports[0].hostPort"),
        (
            {"pod": {"spec": {"containers": [{"name": "a"}], "volumes": [{"name": "v", "emptyDir": {}}]}}},
            "spec.pod.spec.volumes[0].emptyDir",
        ),
        (
            {"device": "", "deviceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "spec.deviceSelector.matchExpressions[0].operator",
        ),
        (
            {"device": "", "deviceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.deviceSelector.matchExpressions[0].values",
        ),
    ],
)
def test_what_a_device_cannot_do_is_refused_with_the_field(spec: dict[str, Any], field: str | None) -> None:
    problem = problem_of(workload(**spec))
    assert (None if problem is None else problem.field) == field
    if problem is not None:
        assert str(problem).startswith(f"{field}: ")


def test_a_name_that_no_pod_can_have_is_refused() -> None:
    problem = problem_of(workload(name="a" * 64))
    assert problem is not None
    assert problem.field == "metadata.name"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (NEVER, None),
        ("", None),
        ("soon", None),
        ("2022-01-01T00:00:00", datetime(2022, 1, 1, tzinfo=UTC)),
        ("2022-01-01T00:00:00.123456789Z", datetime(2022, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)),
    ],
)
def test_times_of_agents_are_read_leniently(text: str, time: datetime | None) -> None:
    assert parsed_time(text) == time
