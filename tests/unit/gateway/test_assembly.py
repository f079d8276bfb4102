"""The configuration of a device: what goes in, what is left out and why, and when its version changes."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
import yaml

from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.gateway.assembly import Assembled, Source, assemble, needs
from edgewright.gateway.objects import ConfigMap, Secret
from edgewright.runtime.objects import ObjectMeta

POD = {"containers": [{"name": "a", "image": "a"}]}


def device(spec: dict[str, Any] | None = None, **status: Any) -> EdgeDevice:
    raw = {"metadata": {"name": "one", "namespace": "d"}, "spec": spec or {}, "status": status}
    return msgspec.convert(raw, EdgeDevice)


def workload(name: str = "w", **given: Any) -> EdgeWorkload:
    metadata = {"name": name, "namespace": "d", **given.pop("metadata", {})}
    spec = {"type": "pod", "device": "one", "pod": {"spec": POD}} | given
    return msgspec.convert({"metadata": metadata, "spec": spec}, EdgeWorkload)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(name: str, **data: str) -> tuple[Source, Secret]:
    encoded = {key.replace("__", "."): b64(value) for key, value in data.items()}
    return Source("Secret", name), Secret(metadata=ObjectMeta(name=name), data=encoded)


def config_map(name: str, **data: str) -> tuple[Source, ConfigMap]:
    named = {key.replace("__", "."): value for key, value in data.items()}
    return Source("ConfigMap", name), ConfigMap(metadata=ObjectMeta(name=name), data=named)


def made(of: EdgeDevice, *workloads: EdgeWorkload, **sources: Any) -> Assembled:
    return assemble(of, of.spec, workloads, dict(sources.get("sources", ())))


def wire(assembled: Assembled) -> dict[str, Any]:
    raw: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(assembled.message))
    return raw


def test_a_device_without_anything_gets_what_published_agents_need() -> None:
    content = wire(made(device()))
    assert content["configuration"] == {
        "heartbeat": {"period_seconds": 60, "hardware_profile": {"include": False, "scope": "full"}}
    }
    assert (content["device_id"], content["workloads_monitoring_interval"]) == ("one", 15)


def test_the_settings_of_a_device_have_their_published_names_on_the_wire() -> None:
    spec = {
        "heartbeat": {"periodSeconds": 5, "hardwareProfile": {"include": True, "scope": "delta"}},
        "osInformation": {"commitID": "c", "hostedObjectsURL": "u", "automaticallyUpgrade": True},
        "mounts": [{"device": "/dev/sda1", "folder": "/mnt", "type": "ext4", "options": "ro"}],
        "storage": {"s3": {"secretName": "keys", "configMapName": "place"}},
        "metrics": {
            "retention": {"maxMiB": 1, "maxHours": 2},
            "system": {"interval": 30, "allowList": {"name": "allowed"}},
            "dataTransfer": {"disabled": True},
            "receiverConfiguration": {"url": "https://r", "caSecretName": "trust"},
        },
        "logCollection": {"syslog": {"kind": "syslog", "bufferSize": 10, "syslogConfig": {"name": "log"}}},
    }
    sources = [
        secret("keys", AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="s", tls__crt="ca"),
        config_map("place", BUCKET_HOST="h", BUCKET_PORT="9000", BUCKET_NAME="b", BUCKET_REGION="r"),
        config_map("allowed", metrics_list__yaml="names: [up, load]"),
        secret("trust", ca__crt="PEM"),
        config_map("log", Address="192.0.2.1:514", Protocol="udp"),
    ]
    of = device(spec)
    assert needs(of, of.spec, []) == {source for source, _ in sources}
    assembled = made(of, sources=sources)
    assert assembled.problems == ()
    assert wire(assembled)["configuration"] == {
        "heartbeat": {"period_seconds": 5, "hardware_profile": {"include": True, "scope": "delta"}},
        "os": {"commit_id": "c", "hosted_objects_url": "u", "automatically_upgrade": True},
        "mounts": [{"device": "/dev/sda1", "directory": "/mnt", "type": "ext4", "options": "ro"}],
        "storage": {
            "s3": {
                "bucket_host": "h",
                "bucket_port": 9000,
                "bucket_name": "b",
                "bucket_region": "r",
                "aws_access_key_id": b64("id"),
                "aws_secret_access_key": b64("s"),
                "aws_ca_bundle": b64("ca"),
            }
        },
        "metrics": {
            "retention": {"max_mib": 1, "max_hours": 2},
            "system": {"interval": 30, "allow_list": {"names": ["up", "load"]}},
            "data-transfer": {"interval": 60, "disabled": True},
            "receiver": {"url": "https://r", "caCert": "PEM", "timeout_seconds": 10, "request_num_samples": 30000},
        },
        "log-collection": {
            "syslog": {
                "kind": "syslog",
                "buffer_size": 10,
                "syslog_config": {"address": "192.0.2.1:514", "protocol": "udp"},
            }
        },
    }


def test_the_claims_bucket_goes_before_one_that_people_named() -> None:
    of = device({"storage": {"s3": {"secretName": "x", "configMapName": "x"}}}, dataObc="claim")
    assert needs(of, of.spec, []) == {Source("ConfigMap", "claim"), Source("Secret", "claim")}
    sources = [
        secret("claim", AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="s"),
        config_map("claim", BUCKET_HOST="h", BUCKET_NAME="b"),
    ]
    s3 = wire(made(of, sources=sources))["configuration"]["storage"]["s3"]
    assert (s3["bucket_name"], s3["bucket_port"]) == ("b", 443)


@pytest.mark.parametrize(
    ("spec", "sources", "problem"),
    [
        pytest.param(
            {"storage": {"s3": {"secretName": "k", "configMapName": "p"}}},
            [],
            "storage: ConfigMap p is missing",
            id="bucket",
        ),
        pytest.param(
            {"storage": {"s3": {"secretName": "k", "configMapName": "p"}}},
            [secret("k"), config_map("p", BUCKET_PORT="many")],
            "storage: BUCKET_PORT of ConfigMap p is not a number",
            id="port",
        ),
        pytest.param(
            {"storage": {"s3": {"secretName": "k", "configMapName": "p"}}},
            [secret("k"), config_map("p", BUCKET_HOST="h", BUCKET_NAME="b")],
            "storage: Secret k has no AWS_ACCESS_KEY_ID",
            id="key",
        ),
        pytest.param(
            {"metrics": {"system": {"allowList": {"name": "m"}}}},
            [config_map("m", metrics_list__yaml="[")],
            "metrics.system.allowList: metrics_list.yaml of ConfigMap m has no list `names`",
            id="allow list",
        ),
        pytest.param(
            {"metrics": {"receiverConfiguration": {"url": "u", "caSecretName": "s"}}},
            [],
            "metrics.receiverConfiguration.caSecretName: Secret s is missing",
            id="receiver",
        ),
        pytest.param(
            {"logCollection": {"a": {"kind": "syslog"}}}, [], "logCollection.a: syslogConfig is missing", id="syslog"
        ),
        pytest.param(
            {"logCollection": {"a": {"kind": "syslog", "syslogConfig": {"name": "c"}}}},
            [],
            "logCollection.a: ConfigMap c is missing",
            id="syslog's map",
        ),
    ],
)
def test_a_part_that_lacks_something_is_left_out_alone(spec: dict[str, Any], sources: list[Any], problem: str) -> None:
    assembled = made(device(spec), workload(), sources=sources)
    assert assembled.problems == (problem,)
    assert [each["name"] for each in wire(assembled)["workloads"]] == ["w"]


def test_a_workload_carries_all_that_it_needs() -> None:
    env = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "words", "key": "a"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "b"}}},
        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "perhaps", "key": "a", "optional": True}}},
        {"name": "D", "value": "plain"},
    ]
    pod = {
        "containers": [{"name": "a", "image": "a", "env": env}],
        "initContainers": [{"name": "b", "envFrom": [{"configMapRef": {"name": "gone", "optional": True}}]}],
    }
    each = workload(
        pod={"spec": pod},
        data={"paths": [{"source": ".", "target": "nginx"}], "ingress": [{"source": "in", "target": "out"}]},
        imageRegistries={"secretRef": {"name": "pull"}},
        metrics={"port": 80, "allowList": {"name": "allowed"}, "containers": {"a": {"port": 81, "disabled": True}}},
        metadata={"labels": {"podman/app": "x", "other": "y"}, "annotations": {"podman/note": "n"}},
    )
    sources = [
        secret("words", a="1"),
        config_map("map", b="2"),
        secret("pull", __dockerconfigjson='{"auths":{}}'),
        config_map("allowed", metrics_list__yaml="names: [up]"),
    ]
    of = device()
    assert needs(of, of.spec, [each]) == {
        *(source for source, _ in sources),
        Source("Secret", "perhaps"),
        Source("ConfigMap", "gone"),
    }
    assembled = made(of, each, sources=sources)
    assert assembled.left_out == {}
    content = wire(assembled)
    (sent,) = content["workloads"]
    path = {"source": ".", "target": "nginx"}
    assert sent["data"] == {"paths": [path], "egress": [path], "ingress": [{"source": "in", "target": "out"}]}
    assert sent["imageRegistries"] == {"authFile": '{"auths":{}}'}
    assert (sent["labels"], sent["annotations"]) == ({"app": "x"}, {"note": "n"})
    assert sent["metrics"] == {
        "path": "/",
        "port": 80,
        "interval": 60,
        "allow_list": {"names": ["up"]},
        "containers": {"a": {"path": "/", "port": 81, "disabled": True}},
    }
    assert [yaml.safe_load(text)["data"] for text in sent["configmaps"]] == [{"b": "2"}]
    assert yaml.safe_load(sent["specification"]) == pod
    assert content["secrets"] == [{"name": "words", "data": f'{{"a":"{b64("1")}"}}'}]


def test_an_optional_secret_that_is_there_is_sent() -> None:
    source = {"secretRef": {"name": "perhaps", "optional": True}}
    pod = {"containers": [{"name": "a", "image": "a", "envFrom": [source]}]}
    assembled = made(device(), workload(pod={"spec": pod}), sources=[secret("perhaps", a="1")])
    assert [each["name"] for each in wire(assembled)["secrets"]] == ["perhaps"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"imageRegistries": {"secretRef": {"name": "pull"}}}, "Secret pull is missing"),
        ({"metrics": {"allowList": {"name": "m"}}}, "ConfigMap m is missing"),
        ({"logCollection": "syslog"}, "spec.logCollection: the device has no log collection 'syslog'"),
        (
            {"pod": {"spec": {"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "c"}}]}]}}},
            "ConfigMap c is missing",
        ),
    ],
)
def test_only_the_workload_that_lacks_something_is_left_out(spec: dict[str, Any], why: str) -> None:
    assembled = made(device(), workload("needy", **spec), workload("plain"))
    assert assembled.left_out == {"needy": why}
    assert [each["name"] for each in wire(assembled)["workloads"]] == ["plain"]


def test_a_secret_that_is_not_base64_is_missing() -> None:
    pull = (Source("Secret", "pull"), Secret(metadata=ObjectMeta(name="pull"), data={".dockerconfigjson": "%"}))
    assembled = made(device(), workload(imageRegistries={"secretRef": {"name": "pull"}}), sources=[pull])
    assert assembled.left_out == {"w": "its value is not text in base64"}


def test_the_version_is_that_of_the_content() -> None:
    first = made(device(), workload(metadata={"resourceVersion": "1"}))
    assert first.message.version == made(device(), workload(metadata={"resourceVersion": "2"})).message.version
    assert first.message.version != made(device({"heartbeat": {"periodSeconds": 7}}), workload()).message.version
    assert len(first.message.version) == 32
