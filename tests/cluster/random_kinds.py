"""The kinds that random operations are done with, what their objects may say, and the definitions of custom ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.cluster.differential.exchange import APPLY, JSON_PATCH, MERGE, STRATEGIC

Object = dict[str, Any]
GROUP = "random.example.io"
_TEXT: Object = {"type": "string"}
_VALUES = ("1", "2", "")


@dataclass(frozen=True)
class Sort:
    """A kind of object, with what its objects may say."""

    path: str
    """The collection; `{ns}` stands for the namespace."""
    api_version: str
    kind: str
    fields: st.SearchStrategy[Object]
    """All fields but metadata and status."""
    status: st.SearchStrategy[Object] | None = None
    patches: tuple[str, ...] = (MERGE, STRATEGIC, JSON_PATCH, APPLY)
    pointers: tuple[tuple[str, Any], ...] = ()
    """Places that JSON patches name, each with a value."""
    applied: Callable[[Object], Object] = lambda obj: obj
    """Makes of an object one that is applied."""
    scaled: bool = False
    upsert: bool = False
    """Whether an update makes what is not there. The real server does so by an update of the status alone as well, with
    parts missing that only a creation gives (the address of a Service); nothing is compared of that."""


def as_stored(obj: Object) -> Object:
    """The custom object with what has a default said, and without what is empty or null in its metadata.

    The real server stores an object that was applied before all that is made right: the next write, if it changes
    nothing, is one there all the same, and its version tells.
    """
    about = dict(obj["metadata"])
    if "labels" in about:
        about["labels"] = {name: value for name, value in about["labels"].items() if value is not None}
    obj = {**obj, "metadata": {name: value for name, value in about.items() if value}}
    spec = obj.get("spec")
    if not isinstance(spec, dict) or obj["kind"] != "Widget":
        return obj
    size = 3 if spec.get("size") is None else spec["size"]
    rows = {"rows": [{"v": "d", **row} for row in spec["rows"]]} if "rows" in spec else {}
    return {**obj, "spec": {**spec, "size": size, **rows}}


def one(*values: Any, bad: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """One of some values; one that is refused is seldom drawn, else hardly an object would come to be."""
    return st.sampled_from((*values * 5, *bad)).map(copy.deepcopy)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """Some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


_container = st.fixed_dictionaries(
    {"name": one("c", "d"), "image": one("x:1", "x:2")},
    optional={
        "env": one([{"name": "A", "value": "1"}], [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]),
        "resources": one({"requests": {"cpu": "100m"}}, {"limits": {"memory": "1Gi"}}),
        "ports": one([{"containerPort": 80}], [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]),
    },
)
_port = st.fixed_dictionaries(
    {"port": one(80, 81, bad=(0,)), "name": one("a", "b")},
    optional={
        "protocol": one("TCP", "UDP", bad=("X",)),
        "targetPort": one(8080, "http"),
        "appProtocol": one("http"),
    },
)
_row = st.fixed_dictionaries({"k": one("a", "b", "c")}, optional={"v": one("1", "2"), "n": one(1, 2)})

SORTS: Mapping[str, Sort] = {
    "ConfigMap": Sort(
        "/api/v1/namespaces/{ns}/configmaps",
        "v1",
        "ConfigMap",
        some(
            data=st.dictionaries(one("x", "y"), one(*_VALUES), max_size=2),
            binaryData=one({"b": "AAAA"}, bad=({"x": "AAAA"},)),
            immutable=one(True, False),
        ),
        pointers=(("/data/x", "9"), ("/data", {"y": "8"}), ("/binaryData", {}), ("/immutable", False)),
    ),
    "Secret": Sort(
        "/api/v1/namespaces/{ns}/secrets",
        "v1",
        "Secret",
        some(
            data=one({"x": "djE="}, {"y": "djI="}, bad=({"x": "no base64!"},)),
            stringData=one({"x": "s"}, {"z": ""}),
            type=one("Opaque", "example.com/own", bad=("kubernetes.io/tls",)),
        ),
        pointers=(("/data/x", "djk="), ("/stringData", {"x": "t"}), ("/type", "Opaque")),
    ),
    "Service": Sort(
        "/api/v1/namespaces/{ns}/services",
        "v1",
        "Service",
        st.fixed_dictionaries(
            {
                "spec": st.fixed_dictionaries(
                    {"ports": st.lists(_port, min_size=1, max_size=2)},
                    optional={
                        "selector": one({"a": "b"}, {"c": "d"}),
                        "type": one("ClusterIP", "NodePort", bad=("ExternalName",)),
                        "clusterIP": one("None"),
                        "externalName": one("example.com"),
                        "sessionAffinity": one("ClientIP", "None"),
                        "internalTrafficPolicy": one("Local"),
                    },
                )
            }
        ),
        one(
            {"loadBalancer": {}},
            {
                "conditions": [
                    {
                        "type": "A",
                        "status": "True",
                        "reason": "B",
                        "message": "",
                        "lastTransitionTime": "2020-01-01T00:00:00Z",
                    }
                ]
            },
        ),
        pointers=(
            ("/spec/selector", {"e": "f"}),
            ("/spec/ports/0/port", 99),
            ("/spec/type", "NodePort"),
            ("/spec/ports/-", {"port": 5, "name": "z"}),
        ),
        upsert=True,
    ),
    "Pod": Sort(
        "/api/v1/namespaces/{ns}/pods",
        "v1",
        "Pod",
        st.fixed_dictionaries(
            {
                "spec": st.fixed_dictionaries(
                    {
                        "containers": st.lists(_container, min_size=1, max_size=2),
                        "schedulerName": one("nobody"),
                        "automountServiceAccountToken": one(False),
                    },
                    optional={
                        "activeDeadlineSeconds": one(20, 10, bad=(-1,)),
                        "tolerations": one([{"key": "a", "operator": "Exists"}], [{"key": "b", "value": "c"}]),
                        "restartPolicy": one("Always", bad=("Never", "x")),
                        "terminationGracePeriodSeconds": one(0, 5),
                        "nodeSelector": one({"a": "b"}),
                        "hostname": one("h"),
                    },
                )
            }
        ),
        some(
            phase=one("Running", "Failed", bad=("x",)),
            message=one("m", ""),
            conditions=one([{"type": "Ready", "status": "True"}]),
        ),
        pointers=(
            ("/spec/containers/0/image", "x:3"),
            ("/spec/activeDeadlineSeconds", 5),
            ("/spec/containers/-", {"name": "e", "image": "y"}),
            ("/spec/nodeName", "n"),
            ("/spec/tolerations/-", {"key": "z", "operator": "Exists"}),
        ),
    ),
    "Lease": Sort(
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        "coordination.k8s.io/v1",
        "Lease",
        some(
            spec=some(
                holderIdentity=one("a", "b", bad=("",)),
                leaseDurationSeconds=one(10, 20, bad=(0, -1)),
                renewTime=one("2020-01-01T00:00:00.000000Z", "2020-01-01T01:00:00.123456+01:00", bad=("x",)),
                leaseTransitions=one(0, 1, bad=(-1,)),
            )
        ),
        pointers=(("/spec/holderIdentity", "c"), ("/spec", {"leaseDurationSeconds": 3})),
    ),
    "Event": Sort(
        "/api/v1/namespaces/{ns}/events",
        "v1",
        "Event",
        st.fixed_dictionaries(
            {
                "involvedObject": one(
                    {"kind": "Pod", "name": "p", "namespace": "{ns}"}, bad=({"kind": "Node", "name": "n"},)
                )
            },
            optional={
                "reason": one("A", "B"),
                "message": one("m", "n"),
                "type": one("Normal", "Warning", bad=("x",)),
                "count": one(1, 2),
                "firstTimestamp": one("2020-01-01T00:00:00Z", None),
                "source": one({"component": "c"}, {}),
            },
        ),
        pointers=(("/count", 7), ("/message", "o"), ("/type", "Warning")),
    ),
    "Widget": Sort(
        f"/apis/{GROUP}/v1/namespaces/{{ns}}/widgets",
        f"{GROUP}/v1",
        "Widget",
        st.fixed_dictionaries(
            {
                "spec": some(
                    size=one(1, 2, 5, None, bad=(0, "x")),
                    color=one("red", "blue", None, bad=("green",)),
                    replicas=one(1, 3, bad=(-1,)),
                    rows=st.lists(_row, max_size=3),
                    names=one(["a"], ["b", "a"], [], bad=(["a", "a"],)),
                    map=st.dictionaries(one("x", "y"), one("1", "2"), max_size=2),
                    free=one({"a": {"b": 1}}, {"a": [1]}, {}),
                    either=one(1, "a", bad=(1.5,)),
                    atomic=one({"a": "1"}, {"b": "2"}),
                )
            }
        ),
        some(
            replicas=one(1, 2), selector=one("a=b"), conditions=one([{"type": "A", "status": "True"}], [{"type": "B"}])
        ),
        patches=(MERGE, JSON_PATCH, APPLY, STRATEGIC),
        pointers=(
            ("/spec/size", 9),
            ("/spec/rows/-", {"k": "d"}),
            ("/spec/rows/0", {"k": "a", "v": "7"}),
            ("/spec/map/x", "3"),
            ("/spec/free", {"c": 2}),
            ("/spec", {}),
            ("/status", {"replicas": 4}),
        ),
        applied=as_stored,
        scaled=True,
    ),
    "Gadget": Sort(
        f"/apis/{GROUP}/v1/gadgets",
        f"{GROUP}/v1",
        "Gadget",
        some(spec=one({"a": 1}, {"a": {"b": [1, 2]}}, {"c": None}, bad=("x",)), other=one("y", 1)),
        one({"a": 1}, {"b": None}),
        patches=(MERGE, JSON_PATCH, APPLY),
        applied=as_stored,
        pointers=(("/spec", {"z": 1}), ("/other", "w"), ("/spec/a", 2)),
    ),
}


def _definition(plural: str, kind: str, scope: str, version: Object) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, **version}],
        },
    }


DEFINITIONS: tuple[Object, ...] = (
    _definition(
        "widgets",
        "Widget",
        "Namespaced",
        {
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                },
            },
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "default": {},
                            "x-kubernetes-validations": [
                                {
                                    "rule": "!has(self.color) || self.color != 'blue' || self.size > 1",
                                    "message": "blue is large",
                                },
                            ],
                            "properties": {
                                "size": {
                                    "type": "integer",
                                    "minimum": 1,
                                    "default": 3,
                                    "x-kubernetes-validations": [
                                        {"rule": "self >= oldSelf", "message": "it only grows"}
                                    ],
                                },
                                "color": {**_TEXT, "enum": ["red", "blue"], "nullable": True},
                                "replicas": {"type": "integer", "minimum": 0},
                                "rows": {
                                    "type": "array",
                                    "x-kubernetes-list-type": "map",
                                    "x-kubernetes-list-map-keys": ["k"],
                                    "items": {
                                        "type": "object",
                                        "required": ["k"],
                                        "properties": {
                                            "k": _TEXT,
                                            "v": {**_TEXT, "default": "d"},
                                            "n": {"type": "integer"},
                                        },
                                    },
                                },
                                "names": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
                                "map": {"type": "object", "additionalProperties": _TEXT},
                                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                "either": {"x-kubernetes-int-or-string": True},
                                "atomic": {
                                    "type": "object",
                                    "x-kubernetes-map-type": "atomic",
                                    "additionalProperties": _TEXT,
                                },
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": {
                                "replicas": {"type": "integer"},
                                "selector": _TEXT,
                                "conditions": {
                                    "type": "array",
                                    "x-kubernetes-list-type": "map",
                                    "x-kubernetes-list-map-keys": ["type"],
                                    "items": {
                                        "type": "object",
                                        "required": ["type"],
                                        "properties": {"type": _TEXT, "status": _TEXT},
                                    },
                                },
                            },
                        },
                    },
                }
            },
        },
    ),
    _definition(
        "gadgets",
        "Gadget",
        "Cluster",
        {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}},
    ),
)
"""The custom kinds, to be installed before."""
