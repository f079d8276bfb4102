"""What `kubectl_scenarios` is made of: steps, and the manifests that people apply, edit and delete in them.

`NAMESPACE` stands for the namespace of the scenario, and `UID-OF-pod/worker` for the uid of an object in it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GROUP = "kubectl.example.io"
GADGETS = f"gadgets.{GROUP}"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command."""

    arguments: tuple[str, ...]
    input: str | None = None
    editor: str = ""
    """What stands for a person with an editor, as a shell command that gets a file."""
    compared: Callable[[str], str] = lambda output: output
    """The part of the output that must be equal."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """A command that goes on until it has said enough, and what happens once it has said what was there."""

    arguments: tuple[str, ...]
    before: int
    meanwhile: tuple[Step, ...]
    after: int


def run(
    command: str,
    *manifests: Any,
    argument: Any = None,
    editor: str = "",
    compared: Callable[[str], str] = lambda output: output,
) -> Step:
    """A command as it is typed, with JSON as its last argument, and with manifests on its standard input."""
    text = "\n---\n".join(each if isinstance(each, str) else json.dumps(each) for each in manifests)
    last = () if argument is None else (json.dumps(argument),)
    return Step(arguments=(*shlex.split(command), *last), input=text or None, editor=editor, compared=compared)


def made(kind: str, name: str, *, api: str = "v1", metadata: Any = None, **body: Any) -> dict[str, Any]:
    """A manifest."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **body}


def gadget(name: str, *, metadata: Any = None, **body: Any) -> dict[str, Any]:
    """A custom object."""
    return made("Gadget", name, api=f"{GROUP}/v1", metadata=metadata, **body)


DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": GADGETS},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "gadgets",
            "singular": "gadget",
            "kind": "Gadget",
            "shortNames": ["gd"],
            "categories": ["toys"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "selectableFields": [{"jsonPath": ".spec.colour"}],
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
                    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "description": "A gadget is something to play with.",
                        "type": "object",
                        "properties": {
                            "spec": {
                                "description": "What it is to be.",
                                "type": "object",
                                "required": ["colour"],
                                "properties": {
                                    "size": {
                                        "description": "How large.",
                                        "type": "integer",
                                        "minimum": 0,
                                        "default": 1,
                                    },
                                    "colour": {"type": "string", "enum": ["red", "green", "blue"]},
                                    "parts": {
                                        "description": "What it is made of.",
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "count": {"type": "integer", "format": "int32"},
                                            },
                                        },
                                    },
                                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}

BASKET = made("ConfigMap", "basket", metadata={"labels": {"app": "a", "tier": "x"}}, data={"apple": "1", "pear": "2"})
EMPTY = made("ConfigMap", "empty", metadata={"labels": {"app": "b"}})
KEYS = made("Secret", "keys", type="Opaque", data={"user": "YWRtaW4=", "pass": "c2VjcmV0"})
ACCOUNT = made("ServiceAccount", "robot")
WEB = made(
    "Service",
    "web",
    metadata={"labels": {"app": "a"}},
    spec={"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
)
POD_SPEC: dict[str, Any] = {
    "schedulerName": "nobody",
    "automountServiceAccountToken": False,
    "containers": [
        {
            "name": "main",
            "image": "example/main:1",
            "command": ["main"],
            "args": ["--fast", "x y"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "basket", "key": "pear"}}},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "ports": [{"containerPort": 8080}],
            "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "0.1"}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        },
        {"name": "side", "image": "example/side"},
    ],
    "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "keys", "secret": {"secretName": "keys"}}],
}
POD = made("Pod", "worker", metadata={"labels": {"app": "a"}, "annotations": {"note": "n"}}, spec=POD_SPEC)
A_READY_ENDPOINT = "jsonpath='{.endpoints[0].conditions.ready}'=true"
RESTARTED = "jsonpath='{.status.containerStatuses[0].restartCount}'=1"
EDGE = "kubectl-edge"
"""The node on which programs run."""
SHELL = "shell"
"""An image that both nodes know: what it is given is a script."""
OF_WEB = "kubernetes.io/service-name=web"
NODE = made("Node", "node-of-NAMESPACE", metadata={"labels": {"kubernetes.io/hostname": "n"}})
STARTED = {"running": {"startedAt": "2020-01-01T00:00:00Z"}}
RUNNING = {
    "status": {
        "phase": "Running",
        "hostIP": "10.1.0.1",
        "podIP": "10.2.0.7",
        "podIPs": [{"ip": "10.2.0.7"}],
        "startTime": "2020-01-01T00:00:00Z",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": name,
                "image": f"example/{name}",
                "imageID": "",
                "ready": True,
                "restartCount": restarts,
                "state": STARTED,
                "lastState": {
                    "terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2020-01-01T00:00:00Z"}
                    if restarts
                    else None
                },
            }
            for name, restarts in (("main", 2), ("side", 0))
        ],
    }
}
READY_NODE = {
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": "It runs."}],
        "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Debian", "kernelVersion": "6", "architecture": "amd64"},
    }
}
UNSCHEDULED = {"spec": {"schedulerName": "nobody", "automountServiceAccountToken": False}}
BARE_POD = made(
    "Pod",
    "bare",
    spec={
        "schedulerName": "nobody",
        "automountServiceAccountToken": False,
        "containers": [{"name": "only", "image": "example/only"}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
    },
)
LEASE = made("Lease", "lock", api="coordination.k8s.io/v1", spec={"holderIdentity": "me", "leaseDurationSeconds": 15})
SLICE = made(
    "EndpointSlice",
    "web-1",
    api="discovery.k8s.io/v1",
    metadata={"labels": {"kubernetes.io/service-name": "other"}},
    addressType="IPv4",
    ports=[{"name": "http", "port": 8080}],
    endpoints=[{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}],
)
TEMPLATE = made(
    "PodTemplate",
    "mould",
    template={"metadata": {"labels": {"app": "t"}}, "spec": {"containers": [{"name": "c", "image": "example/c"}]}},
)
RED = gadget("red", metadata={"labels": {"app": "a"}}, spec={"colour": "red", "parts": [{"name": "p", "count": 2}]})
BLUE = gadget("blue", metadata={"labels": {"app": "b"}}, spec={"colour": "blue", "size": 5})
EVERYTHING = (BASKET, EMPTY, KEYS, ACCOUNT, WEB, POD, LEASE, SLICE, TEMPLATE, RED, BLUE)
ALL_KINDS = "configmaps/basket configmaps/empty secrets sa/robot services pods leases podtemplates gadgets"


def program(name: str, *scripts: str, image: str = SHELL, policy: str = "Never") -> dict[str, Any]:
    """A Pod that really runs, a container a script."""
    containers = [
        {
            "name": called,
            "image": image,
            "args": [script],
            "volumeMounts": [{"name": "scratch", "mountPath": "/again"}],
        }
        for called, script in zip(("first", "second"), scripts, strict=False)
    ]
    spec = {
        "nodeName": EDGE,
        "automountServiceAccountToken": False,
        "restartPolicy": policy,
        "containers": containers,
        "volumes": [{"name": "scratch", "emptyDir": {}}],
    }
    return made("Pod", name, metadata={"labels": {"app": "programs"}}, spec=spec)


def event(name: str, subject: str, **more: Any) -> dict[str, Any]:
    """Something that happened to a Pod a year ago."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": subject, "namespace": "NAMESPACE", "uid": "u-1"},
        "reason": "Tried",
        "message": "It was tried.",
        "type": "Normal",
        "source": {"component": "tester"},
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "lastTimestamp": "2020-01-02T00:00:00Z",
        "count": 3,
        **more,
    }


EVENTS = (
    event("worker.1", "worker"),
    event("worker.2", "worker", type="Warning", reason="Failed"),
    event("other.1", "o"),
)


def without_description(output: str) -> str:
    """What `kubectl explain` says next to the sentences, which are not the same."""
    before, _, after = output.partition("DESCRIPTION:")
    _, marker, fields = after.partition("FIELDS:")
    return before + marker + fields


def without_common_descriptions(output: str) -> str:
    """What `kubectl explain` says next to the sentences of fields that every kind has."""
    return re.sub(r"^(  (?:apiVersion|kind|metadata)\t<\w+>)\n(?:    .*\n)+", r"\1\n", output, flags=re.MULTILINE)


def without_quotas(output: str) -> str:
    """A namespace without its quotas and limits, which are kinds that we do not serve."""
    return output.partition("No resource quota.")[0].rstrip()


def without_events(output: str) -> str:
    """A Service without its Events: the real server tells there that it has repaired its record of addresses."""
    return output.partition("\nEvents:")[0]


def without_node_controller(output: str) -> str:
    """A Node without what the controller of Nodes adds, which we do not have: a time to live, a taint, an Event."""
    kept = [line for line in output.splitlines() if not line.startswith(("Annotations:", "Taints:"))]
    return "\n".join(kept).partition("\nEvents:")[0]


def sorted_lines(output: str) -> str:
    """Lines in an order that does not depend on chance."""
    return "\n".join(sorted(output.splitlines()))


def first_sentence(output: str) -> str:
    """What is wrong, without the picture of it."""
    return output.partition("\n@@")[0].partition("\n- \t")[0]


def nothing(_output: str) -> str:
    """For a step that only prepares the next."""
    return ""


def ours_alone(output: str) -> str:
    """The lines of `kubectl api-resources` that tell of kinds that both servers have."""
    theirs = [line for line in output.splitlines() if line.split(" ")[0] in SERVED]
    # Other tests have kinds of the same name on the server that all share.
    return "\n".join(line for line in theirs if not line.startswith("gadgets ") or GROUP in line)


def without_suffix(output: str) -> str:
    """Without the random end of a name that a controller has made up."""
    return re.sub(r"\bweb-[a-z0-9]{5}\b", "web-SUFFIX", output)


def version(output: str) -> str:
    """The versions of client and server, without how they were built."""
    found = json.loads(output)
    sides = (found[side] for side in ("clientVersion", "serverVersion"))
    return str([(side["gitVersion"], side["major"], side["minor"], side["platform"]) for side in sides])


def shared_versions(output: str) -> str:
    """The groups and versions that both servers have."""
    return "\n".join(line for line in output.splitlines() if line in VERSIONS)


VERSIONS = (
    "apiextensions.k8s.io/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "kubectl.example.io/v1",
    "v1",
)
SERVED = (
    "NAME",
    "bindings",
    "configmaps",
    "customresourcedefinitions",
    "endpointslices",
    "events",
    "gadgets",
    "leases",
    "namespaces",
    "nodes",
    "pods",
    "podtemplates",
    "secrets",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "serviceaccounts",
    "services",
)


def managed(name: str, owner: str) -> dict[str, Any]:
    """A ConfigMap that belongs to another, whose uid is not known yet."""
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner,
        "uid": "UID-OF-owner",
        "blockOwnerDeletion": True,
    }
    return made("ConfigMap", name, metadata={"ownerReferences": [reference]})
