"""Objects that the real API server gives as protobuf are read as the JSON that it gives of the same objects."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from edgewright.local import builtin
from edgewright.local.builtin import protobuf
from edgewright.local.kinds import Kinds
from tests.harness import ControlPlane, wait_until

MEDIA = protobuf.MEDIA
KINDS = Kinds(builtin.served(), builtin.definitions())
PROBE = {"httpGet": {"path": "/x", "port": "web"}, "periodSeconds": 7}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "all", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/x"]},
    "spec": {
        "automountServiceAccountToken": False,
        "activeDeadlineSeconds": 900,
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        "securityContext": {"runAsUser": 0, "fsGroup": 7, "sysctls": []},
        "initContainers": [{"name": "first", "image": "i", "command": ["true"]}],
        "containers": [
            {
                "name": "main",
                "image": "i:1",
                "args": ["a", "b"],
                "ports": [{"name": "web", "containerPort": 80}],
                "env": [
                    {"name": "E", "value": "1"},
                    {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "G", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
                ],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "0.1"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
                "livenessProbe": PROBE,
                "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
            }
        ],
        "volumes": [
            {"name": "v", "emptyDir": {"sizeLimit": "1Mi"}},
            {"name": "w", "configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 256}]}},
            {"name": "x", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "l"}]}}]}},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
                }
            }
        },
    },
}
POD["spec"]["volumes"][2]["projected"]["sources"][0]["downwardAPI"]["items"][0]["fieldRef"] = {  # type: ignore[index]
    "fieldPath": "metadata.labels"
}
OBJECTS = [
    POD,
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"a": "b"},
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "ports": [{"name": "x", "port": 80, "targetPort": "web"}, {"name": "y", "port": 81, "targetPort": 8081}],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": ""},
        "binaryData": {"b": "AAH/"},
    },
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"a": "AAE="}, "immutable": False},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}, "secrets": [{"name": "x"}]},
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-protobuf"}, "spec": {"unschedulable": True}},
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.000678Z"},
    },
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "e"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": False}, "nodeName": "n"}],
        "ports": [{"name": "", "port": 80, "protocol": "UDP"}],
    },
    {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "ev"},
        "eventTime": "2026-01-02T03:04:05.000678Z",
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "series": {"count": 3, "lastObservedTime": "2026-01-02T03:04:06.000001Z"},
    },
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "wires.protobuf.example.com"},
        "spec": {
            "group": "protobuf.example.com",
            "names": {"plural": "wires", "kind": "Wire"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "default": {"a": [1, "x", None]},
                                    "x-kubernetes-preserve-unknown-fields": True,
                                    "properties": {
                                        "list": {"type": "array", "items": {"type": "number", "maximum": 1.5}},
                                        "map": {"type": "object", "additionalProperties": {"type": "string"}},
                                        "choice": {"type": "string", "enum": ["a", "b"]},
                                    },
                                }
                            },
                        }
                    },
                }
            ],
        },
    },
]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: obj["kind"])
def test_protobuf_is_read_as_the_json_of_the_same_object(cluster: ControlPlane, namespace: str, obj: Any) -> None:
    if obj["kind"] == "Event":
        obj = {**obj, "regarding": {"kind": "Pod", "name": "p", "namespace": namespace}}
    served = next(
        each for each in KINDS.all() if (each.kind.api_version, each.kind.kind) == (obj["apiVersion"], obj["kind"])
    )
    created = cluster.request("POST", served.kind.path(namespace), obj)
    path = served.kind.path(namespace, created["metadata"]["name"])
    try:

        def both() -> tuple[Any, Any] | None:
            asked = urllib.request.Request(cluster.server + path, headers={"Accept": MEDIA})
            with urllib.request.urlopen(asked, context=cluster.admin_tls) as answer:
                body = protobuf.decode(answer.read(), KINDS.protobuf)
            as_json = cluster.request("GET", path)
            same = body["metadata"]["resourceVersion"] == as_json["metadata"]["resourceVersion"]
            return (body, as_json) if same else None

        body, as_json = wait_until(both, what="no controller writes it between the two reads")
        read, unknown = served.rules.decode(body)
        assert unknown == []
        wanted, _ = served.rules.decode(as_json)
        assert _counted(read) == _counted(wanted)
    finally:
        cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
        cluster.request("DELETE", path)


def _counted(obj: Any) -> Any:
    """An object without what changes by itself between two requests."""
    obj["metadata"].pop("resourceVersion", None)
    obj["metadata"].pop("managedFields", None)
    obj.pop("status", None)
    return obj
