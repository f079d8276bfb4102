"""The kinds decode what servers hold and encode what servers take."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api import (
    CUSTOM_KINDS,
    Container,
    CustomResource,
    EnvVar,
    FlashJob,
    FlashJobPhase,
    FlashJobSpec,
    FlashJobStatus,
    Instance,
    Namespace,
    Pod,
    PodSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from edgewright.api.pod import ContainerTerminated, ContainerWaiting
from edgewright.api.schema import JsonSchema, kind_schema
from edgewright.runtime.objects import Condition, Key, ObjectMeta, Resource

SAMPLES = Path(__file__).parents[3] / "config" / "samples"
ONE = ("2559ad7a-543d-41d2-b285-82eab2a8589a",)
TWO = ("d95c7c2d-7dc5-427b-9bf7-51a5d299c99e", "44606d10-7c29-4098-9d6a-dc16f95090d1")


def sample(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((SAMPLES / name).read_text())
    return loaded


@pytest.mark.parametrize(
    ("name", "uuids"),
    [
        pytest.param("application_v1alpha1_flashjob.yaml", TWO, id="as the script writes it"),
        pytest.param("list/application_v1alpha1_flashjob.yaml", TWO, id="list"),
        pytest.param("single/application_v1alpha1_flashjob.yaml", ONE, id="single string"),
    ],
)
def test_a_published_sample_decodes_with_its_nulls(name: str, uuids: tuple[str, ...]) -> None:
    raw = sample(name)
    assert raw["spec"]["hostEndpoint"] is None
    job = msgspec.convert(raw, FlashJob)
    assert job.key == Key("default", "flashjob")
    assert job.spec.uuids == uuids
    assert (job.spec.version, job.spec.device, job.spec.application_type) == ("0.2.0", "esp32", "thermo")
    assert (job.spec.host_endpoint, job.spec.external_ip) == (None, None)
    assert job.spec.firmware == "harbor.nbfc.io/nubificus/esp32:x.x.xxxxxxx"
    assert job.spec.flashjob_pod_image is not None


@pytest.mark.parametrize(
    "name", sorted(path.name for path in SAMPLES.glob("*flashjob*.yaml")), ids=lambda name: name.removesuffix(".yaml")
)
def test_a_published_sample_survives_the_round_trip_but_for_its_nulls(name: str) -> None:
    raw = sample(name)
    without_nulls = raw | {"spec": {key: value for key, value in raw["spec"].items() if value is not None}}
    assert json.loads(msgspec.json.encode(msgspec.convert(raw, FlashJob).to_raw())) == without_nulls


def test_a_job_with_a_firmware_that_is_no_reference_decodes() -> None:
    job = msgspec.convert({"spec": {"uuid": "a", "firmware": "fsdsdsd", "version": "1"}}, FlashJob)
    assert job.spec.firmware == "fsdsdsd"


@pytest.mark.parametrize(
    ("uuid", "uuids"),
    [
        pytest.param("a", ("a",), id="string"),
        pytest.param(["a", "b"], ("a", "b"), id="list"),
        pytest.param([], (), id="empty list"),
        pytest.param(None, (), id="null"),
    ],
)
def test_uuids_is_a_list_whichever_way_it_was_written(uuid: Any, uuids: tuple[str, ...]) -> None:
    assert msgspec.convert({"uuid": uuid}, FlashJobSpec).uuids == uuids


def test_the_status_of_a_job_has_the_published_names() -> None:
    job = FlashJob(
        metadata=ObjectMeta(name="job", namespace="default"),
        spec=FlashJobSpec(uuid=("a",), firmware="host/fw:1", version="1", external_ip="192.0.2.1"),
        status=FlashJobStatus(
            phase=FlashJobPhase.IN_PROGRESS,
            message="flashing",
            host_endpoint="192.0.2.7",
            completed_uuids=("a",),
            observed_generation=3,
            conditions=(
                Condition(
                    type="Ready",
                    status="False",
                    reason="Flashing",
                    last_transition_time=datetime(2026, 1, 2, tzinfo=UTC),
                ),
            ),
        ),
    )
    raw = job.to_raw()
    assert (raw["apiVersion"], raw["kind"]) == ("application.flashjob.nbfc.io/v1alpha1", "FlashJob")
    assert raw["spec"] == {"uuid": ("a",), "firmware": "host/fw:1", "version": "1", "externalIP": "192.0.2.1"}
    assert json.loads(msgspec.json.encode(raw["status"])) == {
        "phase": "InProgress",
        "message": "flashing",
        "hostEndpoint": "192.0.2.7",
        "completedUUIDs": ["a"],
        "observedGeneration": 3,
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Flashing", "lastTransitionTime": "2026-01-02T00:00:00Z"}
        ],
    }


INTEGERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
MOMENTS = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat().replace("+00:00", "Z"))


def values(schema: JsonSchema) -> st.SearchStrategy[Any]:
    """JSON of the types that a schema allows, with no regard for its limits, its enums and what it requires."""
    if "properties" in schema:
        fields = {name: values(field) for name, field in schema["properties"].items()}
        # A list that is merged by type cannot hold an entry without one: the server needs it to find the entry.
        merged = {"type", "lastTransitionTime"} <= fields.keys()
        keys = {name: fields.pop(name) for name in ("type", "status") if merged}
        strategy: st.SearchStrategy[Any] = st.fixed_dictionaries(keys, optional=fields)
    elif schema.get("type") == "array":
        strategy = st.lists(values(schema["items"]), max_size=4)
    elif schema.get("type") == "object" and "additionalProperties" in schema:
        strategy = st.dictionaries(st.text(max_size=5), values(schema["additionalProperties"]), max_size=3)
    elif schema.get("type") == "object":
        strategy = st.just({})
    elif schema.get("x-kubernetes-int-or-string"):
        strategy = INTEGERS | st.text(max_size=5)
    elif "items" in schema:
        strategy = st.text(max_size=5) | st.lists(st.text(max_size=5), max_size=4) | st.none()
    else:
        strategy = {
            ("string", None): st.text(max_size=10),
            ("string", "date-time"): MOMENTS,
            ("integer", "int64"): INTEGERS,
            ("boolean", None): st.booleans(),
        }[schema["type"], schema.get("format")]
    return strategy | st.none() if schema.get("nullable") else strategy


@pytest.mark.parametrize("kind", [*CUSTOM_KINDS, Instance], ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_whatever_a_server_may_hold_decodes_also_beyond_the_limits_of_today(
    kind: type[CustomResource], data: st.DataObject
) -> None:
    raw = data.draw(values(kind_schema(kind)))
    decoded = msgspec.json.decode(json.dumps(raw), type=kind)
    again = msgspec.json.decode(msgspec.json.encode(decoded.to_raw()), type=kind)
    assert again == decoded


def test_an_instance_of_akri_is_read() -> None:
    raw: dict[str, Any] = {
        "metadata": {"name": "http-range-0c1c7b", "namespace": "default", "uid": ONE[0]},
        "spec": {
            "configurationName": "http-range",
            "cdiName": "akri.sh/http-range=0c1c7b",
            "capacity": 1,
            "shared": True,
            "nodes": ["node-1"],
            "deviceUsage": {"http-range-0c1c7b-0": ""},
            "brokerProperties": {"HOST_ENDPOINT": "192.0.2.7", "DEVICE": "esp32", "APPLICATION_TYPE": "thermo"},
        },
    }
    instance = msgspec.convert(raw, Instance)
    assert instance.spec.broker_properties["HOST_ENDPOINT"] == "192.0.2.7"
    assert instance.to_raw() == raw | {"apiVersion": "akri.sh/v0", "kind": "Instance"} | {
        "spec": raw["spec"] | {"nodes": ("node-1",)}
    }


def test_a_flash_pod_is_written_as_published() -> None:
    pod = Pod(
        metadata=ObjectMeta(name="job-flashing-pod-a", labels={"app": "job", "uuid": "a"}),
        spec=PodSpec(
            restart_policy="Never",
            containers=(Container(name="flash-container", image="flasher:1", env=(EnvVar(name="UUID", value="a"),)),),
        ),
    )
    assert json.loads(msgspec.json.encode(pod.to_raw())) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job-flashing-pod-a", "labels": {"app": "job", "uuid": "a"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "flash-container", "image": "flasher:1", "env": [{"name": "UUID", "value": "a"}]}],
        },
    }


def pod_with(phase: str, state: dict[str, Any]) -> Pod:
    status = {"phase": phase, "containerStatuses": [{"name": "flash-container", "ready": False, "state": state}]}
    return msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod)


def test_how_a_container_ended_is_read() -> None:
    ended = {"exitCode": 3, "reason": "Error", "message": '{"outcome": "refused"}', "containerID": "x"}
    pod = pod_with("Failed", {"terminated": ended})
    assert pod.finished
    assert pod.terminated("flash-container") == ContainerTerminated(
        exit_code=3, reason="Error", message='{"outcome": "refused"}'
    )
    assert pod.terminated("another") is None


def test_why_a_container_waits_is_read() -> None:
    pod = pod_with("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
    assert not pod.finished
    assert pod.terminated("flash-container") is None
    assert pod.status.container_statuses[0].state.waiting == ContainerWaiting(
        reason="ImagePullBackOff", message="no such image"
    )


def test_a_service_is_written_as_published() -> None:
    service = Service(
        metadata=ObjectMeta(name="job-service-a"),
        spec=ServiceSpec(
            type="LoadBalancer",
            selector={"app": "job", "uuid": "a"},
            ports=(ServicePort(port=4433, protocol="TCP", target_port=4433),),
            load_balancer_ip="192.0.2.1",
            load_balancer_source_ranges=("192.0.2.7/32",),
        ),
    )
    assert json.loads(msgspec.json.encode(service.to_raw()))["spec"] == {
        "type": "LoadBalancer",
        "selector": {"app": "job", "uuid": "a"},
        "ports": [{"port": 4433, "protocol": "TCP", "targetPort": 4433}],
        "loadBalancerIP": "192.0.2.1",
        "loadBalancerSourceRanges": ["192.0.2.7/32"],
    }


@pytest.mark.parametrize(
    ("status", "address"),
    [
        pytest.param({}, "", id="no status"),
        pytest.param({"loadBalancer": {}}, "", id="no address yet"),
        pytest.param({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}, "192.0.2.1", id="address"),
        pytest.param({"loadBalancer": {"ingress": [{"hostname": "a.example"}]}}, "a.example", id="host name"),
        pytest.param({"loadBalancer": {"ingress": [{}, {"ip": "192.0.2.2"}]}}, "192.0.2.2", id="second entry"),
    ],
)
def test_the_address_of_a_service_is_read(status: dict[str, Any], address: str) -> None:
    assert msgspec.convert({"status": status}, Service).external_address == address


@pytest.mark.parametrize(
    ("raw", "terminating"),
    [
        pytest.param({"status": {"phase": "Active"}}, False, id="active"),
        pytest.param({"status": {"phase": "Terminating"}}, True, id="terminating"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}, True, id="deleted"),
    ],
)
def test_a_namespace_that_goes_away_is_noticed(raw: dict[str, Any], terminating: bool) -> None:
    assert msgspec.convert(raw, Namespace).terminating is terminating


@pytest.mark.parametrize("kind", [FlashJob, Instance, Pod, Service, Namespace], ids=lambda kind: kind.__name__)
def test_an_object_with_nothing_but_a_name_decodes(kind: type[Resource]) -> None:
    assert msgspec.convert({"metadata": {"name": "x"}}, kind).key == Key("", "x")
