"""What the API servers refuse of the kinds for edge devices, by schema and CEL, and what they take as it is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from edgewright.api.edge_rules import problem_of
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.api.manifests import manifests
from tests.cluster.edge.edge_stage import GROUP, install
from tests.harness import ApiServer, RequestError, wait_until

MERGE = "application/merge-patch+json"


def workload(kind: type[EdgeWorkload] = EdgeWorkload, *, name: str = "w", **spec: Any) -> dict[str, Any]:
    """A good workload, changed as said; None takes a field out."""
    whole = {"type": "pod", "device": "one", **pod()} | spec
    return {
        "apiVersion": kind.kind.api_version,
        "kind": kind.kind.kind,
        "metadata": {"name": name},
        "spec": {field: value for field, value in whole.items() if value is not None},
    }


def pod(*more: dict[str, Any], volumes: Any = (), **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "a", **container}, *more], "volumes": list(volumes)}
    return {"pod": {"spec": spec}}


def variable(**source: Any) -> dict[str, Any]:
    return pod(env=[{"name": "A", "value": "a"}, {"name": "B", "valueFrom": source}])


def settings(kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": "s"}, "spec": spec}


def create(server: ApiServer, body: dict[str, Any]) -> dict[str, Any]:
    """What the server would have stored."""
    path = f"/apis/{body['apiVersion']}/namespaces/default/{body['kind'].lower()}s"
    created: dict[str, Any] = server.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", body)
    return created


def why_not(server: ApiServer, body: dict[str, Any]) -> str:
    with pytest.raises(RequestError) as refused:
        create(server, body)
    message: str = json.loads(refused.value.answer)["message"]
    return message


PROBE = {"tcpSocket": {"port": 80}}
FIRST = "spec.pod.spec.containers[0]"
IMPOSSIBLE = "Forbidden: is not possible on a device: leave it out"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "lifecycle": (pod(lifecycle={"preStop": {"sleep": {"seconds": 1}}}), f"{FIRST}.lifecycle: {IMPOSSIBLE}"),
    "liveness probe": (pod(livenessProbe=PROBE), f"{FIRST}.livenessProbe: {IMPOSSIBLE}"),
    "readiness probe": (pod(readinessProbe=PROBE), f"{FIRST}.readinessProbe: {IMPOSSIBLE}"),
    "startup probe": (pod(startupProbe=PROBE), f"{FIRST}.startupProbe: {IMPOSSIBLE}"),
    "block devices": (
        pod(volumeDevices=[{"name": "v", "devicePath": "/dev/v"}]),
        f"{FIRST}.volumeDevices: {IMPOSSIBLE}",
    ),
    "resources": (pod(resources={"limits": {"cpu": 1}}), f"{FIRST}.resources: {IMPOSSIBLE}"),
    "a field": (variable(fieldRef={"fieldPath": "status.podIP"}), f"{FIRST}.env[1].valueFrom: {IMPOSSIBLE}"),
    "a resource": (
        variable(resourceFieldRef={"resource": "limits.cpu"}),
        f"{FIRST}.env[1].valueFrom: {IMPOSSIBLE}",
    ),
    "another volume": (
        pod(volumes=[{"name": "v", "emptyDir": {}}]),
        "spec.pod.spec.volumes[0]: Invalid value: only hostPath is possible on a device",
    ),
    "the node exporter's port": (
        pod(ports=[{"containerPort": 80, "hostPort": 9100}]),
        f"{FIRST}.ports[0].hostPort: Invalid value: 9100: 9100 is the device's own: choose another port",
    ),
    "no port": (pod(ports=[{"hostPort": 70000}]), f"{FIRST}.ports[0].hostPort"),
    "two of one name": (pod({"name": "a"}), "spec.pod.spec: Invalid value: two containers have one name"),
    "the name of an init container": (
        {"pod": {"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "a"}]}}},
        "spec.pod.spec: Invalid value: two containers have one name",
    ),
    "no name": (pod({"image": "b"}), "spec.pod.spec.containers[1].name: Required value"),
    "no container": ({"pod": {"spec": {"containers": []}}}, "spec.pod.spec.containers"),
    "no containers": ({"pod": {"spec": {}}}, "spec.pod.spec.containers: Required value"),
    "no pod": ({"pod": None}, "spec.pod: Required value"),
    "another type": ({"type": "helm"}, 'spec.type: Unsupported value: "helm"'),
    "no device": ({"device": ""}, "spec.deviceSelector: Required value: no device is named: give deviceSelector, or"),
}


@pytest.mark.parametrize(("spec", "why"), BAD.values(), ids=BAD.keys())
def test_what_no_agent_can_do_is_refused_when_it_is_written(
    api_server: ApiServer, spec: dict[str, Any], why: str
) -> None:
    install(api_server)
    for kind in (EdgeWorkload, EdgeDeployment):
        body = workload(kind, **spec)
        assert why in why_not(api_server, body)
    if "hostPort" not in why or "9100" in why:  # the agent finds out about a port that there cannot be
        assert problem_of(msgspec.convert(body, EdgeDeployment)) is not None


@pytest.mark.parametrize("name", ["a" * 64, "a.b"])
def test_a_name_that_no_pod_can_have_is_refused_when_it_is_written(api_server: ApiServer, name: str) -> None:
    install(api_server)
    assert "a pod is named after it: use at most 63 of a-z, 0-9 and -" in why_not(api_server, workload(name=name))


GOOD: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "a selector of all": {"device": None, "deviceSelector": {}},
    "a device and a selector": {"deviceSelector": {"matchLabels": {"a": "b"}}},
    "what programs write empty": pod(resources={}, lifecycle={}, livenessProbe={}, volumeDevices=[], env=[], ports=[]),
    "a Secret and a ConfigMap": pod(
        env=[
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        ],
        envFrom=[{"secretRef": {"name": "s"}}],
    ),
    "a directory of the device": pod(
        volumes=[{"name": "v", "hostPath": {"path": "/srv", "type": "DirectoryOrCreate"}}],
        volumeMounts=[{"name": "v", "mountPath": "/srv", "readOnly": True}],
    ),
    "what only podman knows": pod(
        {"name": "b", "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}, "somethingNew": {"deep": [1]}},
        ports=[{"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}],
        livenessProbe={"somethingNew": 1},
    ),
}


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD.keys())
def test_what_agents_can_do_is_taken_and_nothing_of_it_is_lost(api_server: ApiServer, spec: dict[str, Any]) -> None:
    install(api_server)
    for kind in (EdgeWorkload, EdgeDeployment):
        body = workload(kind, **spec)
        assert create(api_server, body)["spec"] == body["spec"]


@pytest.mark.parametrize("kind", ["EdgeDevice", "EdgeDeviceSet", "EdgeDeviceGroup"])
def test_settings_that_contradict_each_other_are_refused(api_server: ApiServer, kind: str) -> None:
    install(api_server)
    both = "a bucket is claimed or named, not both: leave out createOBC, or secretName and configMapName"
    for named in ({"secretName": "s"}, {"configMapName": "c"}):
        assert both in why_not(api_server, settings(kind, storage={"s3": {"createOBC": True, **named}}))
        create(api_server, settings(kind, storage={"s3": {"createOBC": False, **named}}))
    create(api_server, settings(kind, storage={"s3": {"createOBC": True, "secretName": ""}}))
    missing = "spec.logCollection[far].syslogConfig: Required value: syslog needs the name of the ConfigMap"
    assert missing in why_not(api_server, settings(kind, logCollection={"far": {"kind": "syslog"}}))
    create(api_server, settings(kind, logCollection={"far": {"kind": "syslog", "syslogConfig": {"name": "c"}}}))


def test_a_workload_that_was_stored_before_can_be_labelled_shown_and_deleted(api_server: ApiServer) -> None:
    strict = yaml.safe_load(manifests()[f"{GROUP}_edgeworkloads.yaml"])
    strict["metadata"]["name"] = "edgeworkloads.stored.example"
    strict["spec"]["group"] = "stored.example"
    lenient = json.loads(json.dumps(strict))
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    lenient["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = open_schema
    api_server.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump(lenient))
    api_server.until_served("edgeworkloads.stored.example")
    body = workload(name="a" * 64, device=None, **pod(livenessProbe=PROBE)) | {"apiVersion": "stored.example/v1alpha1"}
    path = "/apis/stored.example/v1alpha1/namespaces/default/edgeworkloads"
    body["metadata"]["finalizers"] = ["example.com/kept"]
    api_server.request("POST", path, body)
    try:
        api_server.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump(strict))

        def refused() -> bool:
            try:
                create(api_server, body)
            except RequestError:
                return True
            return False

        wait_until(refused, what="the rules are in force")
        mine = f"{path}/{body['metadata']['name']}"
        api_server.request("PATCH", mine, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        api_server.request("PATCH", f"{mine}/status", {"status": {"progress": "0/0"}}, content_type=MERGE)
        with pytest.raises(RequestError) as changed:
            api_server.request("PATCH", mine, {"spec": {"pod": pod(startupProbe=PROBE)["pod"]}}, content_type=MERGE)
        assert "startupProbe" in changed.value.answer
        api_server.request("DELETE", mine)
        api_server.request("PATCH", mine, {"metadata": {"finalizers": None}}, content_type=MERGE)
        assert not api_server.exists(mine)
    finally:
        api_server.kubectl("delete", "crd", "edgeworkloads.stored.example", "--wait=false")
