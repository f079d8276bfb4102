"""Strategic merge patches do what they do on the real server: both get the same patch, and must agree.

Ours gives an object that nobody has defaulted yet, so it is sent to the real server in a dry run: what comes back must
be what the real server itself makes of the patch.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from edgewright.local import builtin
from edgewright.local.apply import compile as compiled
from edgewright.local.apply import strategic
from edgewright.local.errors import Refusal
from tests.harness import ControlPlane, RequestError, repetition

STRATEGIC = "application/strategic-merge-patch+json"

CONTAINERS = [
    {
        "name": "a",
        "image": "one",
        "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
        "args": ["p", "q"],
    },
    {
        "name": "b",
        "image": "two",
        "ports": [{"containerPort": 80}, {"containerPort": 443, "name": "tls"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 7},
    },
    {"name": "c", "image": "three", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
]
TEMPLATE: dict[str, Any] = {
    "metadata": {
        "labels": {"app": "x", "tier": "y"},
        "finalizers": ["example.com/a", "example.com/b", "example.com/c"],
    },
    "template": {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            "containers": CONTAINERS,
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/w", "type": "Directory"}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "nodeSelector": {"disk": "ssd"},
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["h"]}],
            "imagePullSecrets": [{"name": "s"}],
            "securityContext": {"runAsUser": 1, "fsGroup": 2},
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            ],
        },
    },
}
SERVICE = {
    "spec": {
        "selector": {"app": "x"},
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 443, "targetPort": "tls"}],
        "externalIPs": ["192.0.2.1"],
    }
}
CONFIG = {"metadata": {"annotations": {"x": "1"}}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "eA=="}}
NODE = {
    "metadata": {"labels": {"zone": "a"}},
    "spec": {"taints": [{"key": "a", "value": "1", "effect": "NoSchedule"}], "podCIDRs": ["10.9.0.0/24"]},
}
POD = {"spec": {"containers": CONTAINERS[:2], "tolerations": [{"key": "k", "operator": "Exists"}]}}


@dataclass(frozen=True)
class Subject:
    """An object to patch."""

    plural: str
    kind: str
    body: dict[str, Any]
    namespaced: bool = True


SUBJECTS = {
    "template": Subject("podtemplates", "PodTemplate", TEMPLATE),
    "service": Subject("services", "Service", SERVICE),
    "config": Subject("configmaps", "ConfigMap", CONFIG),
    "node": Subject("nodes", "Node", NODE, namespaced=False),
    "pod": Subject("pods", "Pod", POD),
}


def inside(**spec: Any) -> dict[str, Any]:
    """A patch of the spec in a PodTemplate."""
    return {"template": {"spec": spec}}


def containers(*items: Any, **more: Any) -> dict[str, Any]:
    """A patch of the containers in a PodTemplate."""
    return inside(containers=list(items), **more)


ORDER = "$setElementOrder/containers"
NAMED = [{"name": "c"}, {"name": "a"}, {"name": "b"}]

PATCHES: list[tuple[str, Any]] = [
    ("config", {}),
    ("config", []),
    ("config", "x"),
    ("config", 1),
    ("config", {"data": {"a": "9", "z": "3"}}),
    ("config", {"data": {"a": None}}),
    ("config", {"data": None}),
    ("config", {"data": {"$patch": "replace", "z": "1"}}),
    ("config", {"data": {"$patch": "delete"}}),
    ("config", {"data": {"$patch": "delete", "z": "1"}}),
    ("config", {"data": {"$patch": "merge", "z": "1"}}),
    ("config", {"data": {"$patch": 1}}),
    ("config", {"data": {"$retainKeys": ["a"]}}),
    ("config", {"data": {"$retainKeys": ["a", "z"], "z": "1"}}),
    ("config", {"data": {"$retainKeys": ["a"], "z": "1"}}),
    ("config", {"data": {"$retainKeys": "a"}}),
    ("config", {"metadata": {"annotations": {"x": None, "y": "1"}, "labels": {"l": "1", "m": None}}}),
    ("config", {"metadata": {"annotations": {"$patch": "replace", "y": "1"}}}),
    ("config", {"binaryData": {"d": "eQ=="}}),
    ("config", {"data": "x"}),
    ("config", {"data": {"a": {"b": "c"}}}),
    ("config", {"data": {"a": 1}}),
    ("config", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]}}),
    ("template", {"metadata": {"finalizers": ["example.com/d"]}}),
    ("template", {"metadata": {"finalizers": ["example.com/c", "example.com/a"]}}),
    ("template", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b"]}}),
    ("template", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/z"]}}),
    ("template", {"metadata": {"$deleteFromPrimitiveList/absent": ["x"]}}),
    ("template", {"metadata": {"$deleteFromPrimitiveList": ["example.com/b"]}}),
    ("template", {"metadata": {"$deleteFromPrimitiveList/finalizers": "example.com/b"}}),
    (
        "template",
        {
            "metadata": {
                "$setElementOrder/finalizers": ["example.com/d", "example.com/c", "example.com/a"],
                "finalizers": ["example.com/d"],
            }
        },
    ),
    ("template", {"metadata": {"$setElementOrder/finalizers": ["example.com/c", "example.com/a"]}}),
    ("template", {"metadata": {"$setElementOrder/finalizers": "x"}}),
    ("template", {"metadata": {"$setElementOrder": ["x"]}}),
    ("template", {"metadata": {"$setElementOrder/ownerReferences": [{"uid": "1"}]}}),
    ("template", {"metadata": {"$setElementOrder/absent": ["x"], "absent": ["x"]}}),
    ("template", {"metadata": {"finalizers": [1]}}),
    ("template", {"metadata": {"finalizers": [["x"]]}}),
    ("template", containers({"name": "a", "image": "new"})),
    ("template", containers({"name": "d", "image": "new"})),
    ("template", containers({"name": "c", "image": "new"}, {"name": "a", "image": "newer"})),
    ("template", containers({"name": "d", "image": "new"}, {"name": "b", "image": "newer"})),
    ("template", containers({"name": "b", "$patch": "delete"})),
    ("template", containers({"name": "z", "$patch": "delete"})),
    ("template", containers({"$patch": "delete"})),
    ("template", containers({"$patch": "replace"}, {"name": "z", "image": "only"})),
    ("template", containers({"$patch": "replace"})),
    ("template", containers({"name": "a", "$patch": "merge"})),
    ("template", containers({"name": "a", "$patch": "other"})),
    ("template", containers({"image": "unnamed"})),
    ("template", containers("a")),
    ("template", inside(containers=None)),
    ("template", containers({"name": "a", "env": [{"name": "Y", "value": "9"}, {"name": "Z", "value": "3"}]})),
    ("template", containers({"name": "a", "env": [{"name": "X", "$patch": "delete"}], "args": ["r"]})),
    ("template", containers({"name": "a", "env": None, "args": None})),
    ("template", containers({"name": "b", "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]})),
    ("template", containers({"name": "b", "ports": [{"containerPort": 80, "$patch": "delete"}]})),
    ("template", containers({"name": "b", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}})),
    ("template", containers({"name": "b", "livenessProbe": {"httpGet": None, "exec": {"command": ["x"]}}})),
    (
        "template",
        containers({"name": "b", "livenessProbe": {"$retainKeys": ["exec"], "exec": {"command": ["x"]}}}),
    ),
    ("template", containers({"name": "c", "volumeMounts": [{"mountPath": "/v", "readOnly": True}]})),
    ("template", containers(**{ORDER: NAMED}) | {}),
    ("template", inside(**{ORDER: NAMED})),
    ("template", containers({"name": "d", "image": "x"}, **{ORDER: [{"name": "c"}, {"name": "d"}, {"name": "a"}]})),
    ("template", containers({"name": "d", "image": "x"}, **{ORDER: NAMED})),
    ("template", containers({"name": "a", "image": "x"}, {"name": "c", "image": "y"}, **{ORDER: NAMED})),
    ("template", containers({"name": "b", "$patch": "delete"}, **{ORDER: [{"name": "c"}, {"name": "a"}]})),
    ("template", inside(**{ORDER: [{"nome": "c"}]})),
    ("template", inside(**{ORDER: ["c"]})),
    ("template", inside(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}])),
    ("template", inside(volumes=[{"name": "w", "hostPath": {"type": None}}])),
    ("template", inside(volumes=[{"name": "n", "emptyDir": {"medium": None}}])),
    ("template", inside(volumes=[{"name": "w", "$patch": "delete"}, {"name": "v", "$patch": "delete"}])),
    ("template", inside(tolerations=[{"key": "z", "operator": "Exists"}])),
    ("template", inside(nodeSelector={"disk": None, "gpu": "yes"})),
    ("template", inside(nodeSelector={"$patch": "replace", "gpu": "yes"})),
    ("template", inside(hostAliases=[{"ip": "10.0.0.2", "hostnames": ["i"]}, {"ip": "10.0.0.1", "hostnames": ["j"]}])),
    ("template", inside(imagePullSecrets=[{"name": "t"}])),
    ("template", inside(securityContext={"runAsUser": None, "runAsGroup": 3})),
    ("template", inside(affinity={"nodeAffinity": {}, "podAffinity": None})),
    ("template", inside(affinity={"$patch": "delete"})),
    ("template", inside(initContainers=[{"name": "i", "image": "x", "env": [{"name": "N", "value": None}]}])),
    ("template", inside(initContainers=[{"name": "i", "$patch": "delete"}, {"name": "j", "image": "x"}])),
    (
        "template",
        inside(
            topologySpreadConstraints=[{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]
        ),
    ),
    ("template", {"$patch": "delete"}),
    ("template", {"template": {"$patch": "replace", "metadata": {"labels": {"n": "m"}}}}),
    ("template", {"template": {"$patch": "replace", **TEMPLATE["template"], "metadata": {"labels": {"n": "m"}}}}),
    ("template", {"template": None}),
    ("service", {"spec": {"ports": [{"port": 80, "name": "c"}]}}),
    ("service", {"spec": {"ports": [{"port": 81, "name": "c"}]}}),
    ("service", {"spec": {"ports": [{"port": 443, "$patch": "delete"}]}}),
    ("service", {"spec": {"ports": [{"port": "80", "name": "c"}]}}),
    ("service", {"spec": {"ports": [{"name": "a"}]}}),
    ("service", {"spec": {"ports": [{"$patch": "replace"}, {"port": 8080}]}}),
    ("service", {"spec": {"selector": {"app": None, "role": "z"}}}),
    ("service", {"spec": {"selector": None, "externalIPs": ["192.0.2.2"]}}),
    ("service", {"spec": {"$setElementOrder/ports": [{"port": 443}, {"port": 80}]}}),
    ("service", {"spec": {"type": "NodePort", "externalIPs": None}}),
    ("node", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}),
    ("node", {"spec": {"taints": [{"key": "a", "effect": "NoExecute", "$patch": "delete"}], "unschedulable": True}}),
    ("node", {"metadata": {"labels": {"zone": None, "rack": "1"}}}),
    ("node", {"spec": {"podCIDRs": ["10.9.1.0/24"]}}),
    ("pod", {"spec": {"containers": [{"name": "a", "image": "new"}]}}),
    ("pod", {"spec": {"containers": [{"name": "z", "image": "new"}]}}),
    ("pod", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}, {"key": "l", "operator": "Exists"}]}}),
    ("pod", {"spec": {"activeDeadlineSeconds": 30}}),
    ("pod", {"metadata": {"labels": {"l": "1"}}, "spec": {"$setElementOrder/containers": [{"name": "b"}]}}),
]


def drawn(seed: int) -> dict[str, Any]:
    """A patch of the PodTemplate at random, with directives that may make no sense."""
    draw = random.Random(seed)

    def directed(item: dict[str, Any], odds: float = 0.2) -> dict[str, Any]:
        return {**item, "$patch": draw.choice(["delete", "replace"])} if draw.random() < odds else item

    def env(name: str) -> dict[str, Any]:
        return directed({"name": name, "value": draw.choice(["1", "9", None])})

    def container(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name, "image": draw.choice("xyz")}
        if draw.random() < 0.4:
            found["env"] = draw.choice([None, [env(each) for each in draw.sample("XYZ", 2)]])
        if draw.random() < 0.3:
            found["ports"] = [{"containerPort": draw.choice([80, 443, 99]), "name": draw.choice(["p", "q"])}]
        if draw.random() < 0.2:
            found["$retainKeys"] = draw.choice([["name", "image"], list(found)])
        return directed(found)

    names = draw.sample("abcde", draw.randint(1, 5))
    body: dict[str, Any] = {"containers": [container(name) for name in names]}
    if draw.random() < 0.6:
        order = names if draw.random() < 0.7 else draw.sample("abcde", 4)
        if draw.random() < 0.5:
            order = [*draw.sample([each for each in "abcdef" if each not in order], 1), *order]
        body["$setElementOrder/containers"] = [{"name": name} for name in order]
    if draw.random() < 0.3:
        body["nodeSelector"] = draw.choice([None, {"disk": None, "gpu": "1"}, {"$patch": "replace", "gpu": "1"}])
    if draw.random() < 0.3:
        body["volumes"] = [directed({"name": draw.choice("vwx"), "emptyDir": {}}, 0.5)]
    patch: dict[str, Any] = {"template": {"spec": body}}
    if draw.random() < 0.3:
        ends = draw.sample("abcd", 2)
        patch["metadata"] = {
            draw.choice(["finalizers", "$deleteFromPrimitiveList/finalizers"]): [f"example.com/{end}" for end in ends]
        }
    return patch


PATCHES += [("template", drawn(seed)) for seed in repetition.numbers(40, 1000)]


@pytest.fixture(scope="module")
def subjects(cluster: ControlPlane) -> Iterator[dict[str, str]]:
    """The path of each object."""
    namespace = cluster.create_namespace("strategic")
    found = {}
    for name, subject in SUBJECTS.items():
        collection = f"/api/v1/namespaces/{namespace}/{subject.plural}" if subject.namespaced else "/api/v1/nodes"
        body = {"apiVersion": "v1", "kind": subject.kind, **subject.body}
        body["metadata"] = {"name": f"strategic-{name}", **subject.body.get("metadata", {})}
        cluster.request("POST", collection, body)
        found[name] = f"{collection}/strategic-{name}"
    yield found
    for path in found.values():
        if "podtemplates" in path:
            unheld = {"metadata": {"finalizers": None}}
            cluster.request("PATCH", path, unheld, content_type="application/merge-patch+json")
        cluster.request("DELETE", path)
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")


def refused(error: RequestError) -> dict[str, Any]:
    """The Status of a refusal."""
    status: dict[str, Any] = json.loads(error.answer)
    return status


def essence(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without what differs from write to write."""
    ignored = ("managedFields", "resourceVersion", "generation")
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name not in ignored}}


def asked(cluster: ControlPlane, method: str, path: str, body: Any, content_type: str) -> Any:
    """What the real server makes of a request in a dry run: the object, or code, reason and message."""
    try:
        return essence(cluster.request(method, f"{path}?dryRun=All", body, content_type=content_type))
    except RequestError as error:
        status = refused(error)
        return status["code"], status.get("reason", ""), status["message"]


@pytest.mark.repeated
@pytest.mark.parametrize("place", range(len(PATCHES)), ids=lambda place: f"{PATCHES[place][0]} {place}")
def test_a_strategic_merge_patch_ends_as_on_the_real_server(
    cluster: ControlPlane, subjects: dict[str, str], place: int
) -> None:
    name, patch = PATCHES[place]
    path = subjects[name]
    live = cluster.request("GET", path)
    definitions = builtin.definitions()
    fields = compiled(definitions[f"io.k8s.api.core.v1.{SUBJECTS[name].kind}"], definitions)
    real = asked(cluster, "PATCH", path, patch, STRATEGIC)
    try:
        merged = strategic.merge(live, patch, fields)
        refused_by_us = False
        mine = asked(cluster, "PUT", path, merged, "application/json")
    except Refusal as refusal:
        refused_by_us = True
        mine = (refusal.code, refusal.reason, refusal.message)
    if isinstance(real, tuple) and isinstance(mine, tuple) and not refused_by_us:
        # An object that cannot be decoded is told of in other ways after a patch than in an update.
        assert mine[:2] == real[:2] or (mine[1] == "BadRequest" and "patch: Invalid value" in real[2]), (mine, real)
    else:
        assert mine == real
