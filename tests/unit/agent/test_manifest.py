"""From a workload of the configuration to what podman is given."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from edgewright.agent.manifest import (
    BadWorkload,
    Manifest,
    Port,
    grace_of,
    manifest,
    secret_owner,
)
from edgewright.api.edge_protocol import ImageRegistries, WireSecret, Workload
from edgewright.containers import Pod
from edgewright.runtime.yaml_loader import Loader

SPEC = {"containers": [{"name": "web", "image": "nginx:1.14.2", "ports": [{"containerPort": 80, "hostPort": 9090}]}]}


def made(spec: object = None, *, secrets: tuple[WireSecret, ...] = (), **more: Any) -> Manifest:
    text = spec if isinstance(spec, str) else yaml.safe_dump(SPEC if spec is None else spec)
    workload = msgspec.convert({"name": "nginx", "specification": text, **more}, Workload)
    return manifest(workload, secrets, device="dev-1", export=Path("/data/nginx"))


def test_the_pod_of_the_document_carries_our_labels_its_device_and_its_export_directory() -> None:
    found = made(labels={"app": "nginx"}, annotations={"note": "x"})
    (pod,) = yaml.safe_load_all(found.text)
    assert pod["metadata"] == {
        "name": "nginx",
        "labels": {
            "app": "nginx",
            "edgewright.dev/device": "dev-1",
            "edgewright.dev/grace": "10",
            "edgewright.dev/hash": found.hash,
        },
        "annotations": {"note": "x"},
    }
    (container,) = pod["spec"]["containers"]
    assert container["env"] == [{"name": "DEVICE_ID", "value": "dev-1"}]
    assert container["volumeMounts"] == [{"name": "export-nginx", "mountPath": "/export"}]
    assert pod["spec"]["volumes"] == [
        {"name": "export-nginx", "hostPath": {"path": "/data/nginx", "type": "DirectoryOrCreate"}}
    ]
    assert found.ports == (Port("tcp", 9090),)
    assert found.containers == {"nginx-web"}
    assert found.restart == "Always"


def test_texts_that_look_like_something_else_reach_podman_as_texts() -> None:
    written = "containers: [{name: web, image: i, args: [12:30:45, 'n', '1e3', '08'], env: [{name: A, value: 'y'}]}]"
    (pod,) = yaml.load_all(made(written).text, Loader=Loader)  # podman reads YAML as Kubernetes does
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["12:30:45", "n", "1e3", "08"]
    assert container["env"][0] == {"name": "A", "value": "y"}


def test_the_hash_is_that_of_everything_that_makes_the_pod() -> None:
    assert made().hash == made().hash
    secret = WireSecret(name="s", data='{"k":"YQ=="}')
    uses = {"containers": [{"name": "a", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]}
    other = WireSecret(name="s", data='{"k":"Yg=="}')
    different = [
        made(),
        made(labels={"a": "b"}),
        made(configmaps=["metadata: {name: c}\ndata: {k: v}\n"]),
        made(uses, secrets=(secret,)),
        made(uses, secrets=(other,)),
        made({**SPEC, "restartPolicy": "Never"}),
    ]
    assert len({each.hash for each in different}) == len(different)


def test_secrets_get_names_of_their_own_that_say_whose_they_are() -> None:
    container = {
        "name": "a",
        "image": "i",
        "env": [
            {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k", "optional": True}}},
            {"name": "Z", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        ],
        "envFrom": [{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}],
    }
    found = made({"containers": [container]}, secrets=(WireSecret(name="s", data="{}"),))
    ((name, content),) = found.secrets.items()
    assert content == b"{}"
    assert secret_owner(name) == "nginx"
    (pod,) = yaml.safe_load_all(found.text)
    (made_container,) = pod["spec"]["containers"]
    assert made_container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == name
    assert made_container["env"][1]["valueFrom"]["secretKeyRef"]["name"] == "none"
    assert made_container["envFrom"][0]["secretRef"]["name"] == name


@pytest.mark.parametrize(("name", "owner"), [("login", None), ("edgewright-", None), ("edgewright-a.b_c_d", "a.b")])
def test_a_secret_without_our_prefix_is_not_ours(name: str, owner: str | None) -> None:
    assert secret_owner(name) == owner


def test_what_the_workload_sets_itself_stays() -> None:
    container = {
        "name": "a",
        "image": "i",
        "env": [{"name": "DEVICE_ID", "value": "mine"}],
        "volumeMounts": [{"name": "v", "mountPath": "/export"}],
    }
    volumes = [{"name": "v", "hostPath": {"path": "/srv"}}]
    found = made({"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 3})
    (pod,) = yaml.safe_load_all(found.text)
    (same,) = pod["spec"]["containers"]
    assert same["env"] == container["env"]
    assert same["volumeMounts"] == container["volumeMounts"]
    assert pod["metadata"]["labels"]["edgewright.dev/grace"] == "3"


def test_config_maps_come_before_the_pod() -> None:
    found = made(configmaps=["kind: ConfigMap\nmetadata: {name: c, namespace: d}\ndata: {k: v}\n"])
    first, pod = yaml.safe_load_all(found.text)
    assert first == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}}
    assert pod["kind"] == "Pod"


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        ({"ports": [{"containerPort": 80}]}, ()),
        ({"ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]}, (Port("udp", 53),)),
        (
            {"ports": [{"containerPort": 1, "hostPort": 2}, {"containerPort": 1, "hostPort": 1}]},
            (Port("tcp", 1), Port("tcp", 2)),
        ),
    ],
)
def test_host_ports_are_what_is_opened(spec: dict[str, object], ports: tuple[Port, ...]) -> None:
    assert made({"containers": [{"name": "a", "image": "i", **spec}]}).ports == ports


def test_on_the_hosts_network_every_port_is_a_host_port() -> None:
    container = {"name": "a", "image": "i", "ports": [{"containerPort": 80}]}
    assert made({"hostNetwork": True, "containers": [container]}).ports == (Port("tcp", 80),)


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ("", {}),
        ('{"auths":null}', {}),
        (
            '{"auths":{"r":{"auth":"%s"}}}' % base64.b64encode(b"u:p:q").decode(),  # noqa: UP031 - braces
            {"r": {"username": "u", "password": "p:q"}},
        ),
        ('{"auths":{"r":{"username":"u","password":"p"}}}', {"r": {"username": "u", "password": "p"}}),
    ],
)
def test_registry_credentials_are_read_from_an_auth_file(auth: str, expected: object) -> None:
    workload = Workload(name="a", specification=yaml.safe_dump(SPEC), image_registries=ImageRegistries(auth_file=auth))
    assert manifest(workload, (), device="d", export=Path("/e")).credentials == expected


def one(**container: object) -> dict[str, object]:
    return {"containers": [{"name": "a", "image": "i", **container}]}


@pytest.mark.parametrize(
    ("spec", "more", "text"),
    [
        (None, {"name": "../etc"}, "name: '../etc' cannot be"),
        (None, {"name": "a..b"}, "cannot be the name"),
        ("a: [", {}, "specification: is not YAML"),
        ("text", {}, "specification: is no PodSpec"),
        ({}, {}, "specification.containers: must name at least one"),
        ({"containers": ["a"]}, {}, "specification.containers: must be a list"),
        ({**one(), "initContainers": "a"}, {}, "specification.initContainers: must be a list"),
        ({**one(), "volumes": "a"}, {}, "volumes: must be a list"),
        (one(env="a"), {}, "env: must be a list"),
        (one(ports=["a"]), {}, "ports: must be a list of ports"),
        (one(ports=[{"hostPort": "http"}]), {}, "hostPort: 'http' is no port"),
        (one(ports=[{"hostPort": 70000}]), {}, "hostPort: 70000 is no port"),
        (one(ports=[{"hostPort": 1, "protocol": "SCTP"}]), {}, "protocol: must be TCP or UDP"),
        ({**one(), "terminationGracePeriodSeconds": -1}, {}, "terminationGracePeriodSeconds: must be between"),
        (
            one(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
            {},
            "env X: the configuration has no Secret 's'",
        ),
        (one(envFrom=[{"secretRef": {"name": "s"}}]), {}, "envFrom: the configuration has no Secret 's'"),
        (None, {"configmaps": ["a: ["]}, "configmaps: is not YAML"),
        (None, {"configmaps": ["text"]}, "configmaps: holds something that is no ConfigMap"),
        (None, {"imageRegistries": {"authFile": "{"}}, "authFile: cannot be read"),
        (None, {"imageRegistries": {"authFile": '{"auths":{"r":{"auth":"?"}}}'}}, "authFile: cannot be read"),
    ],
)
def test_a_workload_that_cannot_be_made_is_refused_with_the_field(
    spec: object, more: dict[str, Any], text: str
) -> None:
    with pytest.raises(BadWorkload, match=text):
        made(spec, secrets=(), **more)


@pytest.mark.parametrize(("labels", "grace"), [(None, 10), ({"edgewright.dev/grace": "3"}, 3)])
def test_the_grace_of_a_pod_is_on_its_label(labels: dict[str, str] | None, grace: int) -> None:
    assert grace_of(Pod(labels=labels)) == grace
