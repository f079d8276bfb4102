"""Exchanges about the kinds with few rules: ConfigMaps, Secrets, Events, EndpointSlices, Leases, Namespaces, Nodes."""

from __future__ import annotations

import base64

from tests.unit.local.builtin.exchanges import Body, Exchange, put


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


TIME = "2026-01-02T03:04:05.000006Z"
CONFIG_MAPS: dict[str, Exchange] = {
    "an empty one": Exchange("configmap", {}),
    "data": Exchange("configmap", {"data": {"a": "b", "c": ""}}),
    "empty maps": Exchange("configmap", {"data": {}, "binaryData": {}}),
    "null maps": Exchange("configmap", {"data": None}),
    "a null value": Exchange("configmap", {"data": {"a": None}}),
    "binary data": Exchange("configmap", {"binaryData": {"a": "aGk=", "b": ""}}),
    "binary data with line breaks": Exchange("configmap", {"binaryData": {"a": "aG\nk="}}),
    "binary data that is none": Exchange("configmap", {"binaryData": {"a": "!!!"}}),
    "binary data of a wrong length": Exchange("configmap", {"binaryData": {"a": "aGkxx"}}),
    "a bad key": Exchange("configmap", {"data": {"a b": "c", "..": "x", "..d": "y", ".": "z"}}),
    "a key twice": Exchange("configmap", {"data": {"a": "c"}, "binaryData": {"a": "aGk="}}),
    "a long key": Exchange("configmap", {"data": {"k" * 254: "c"}}),
    "too much": Exchange("configmap", {"data": {"a": "x" * (1024 * 1024 + 1)}}),
    "a number as value": Exchange("configmap", {"data": {"a": 1}}),
    "a list as data": Exchange("configmap", {"data": ["a"]}),
    "a text as metadata": Exchange("configmap", {"immutable": "yes"}),
    "immutable": Exchange("configmap", {"immutable": True, "data": {"a": "b"}}),
    "not immutable": Exchange("configmap", {"immutable": False}),
    "a creation time and empty labels": Exchange("configmap", {"metadata": {"creationTimestamp": None, "labels": {}}}),
    "a change of an immutable one": Exchange("configmap", {"immutable": True, "data": {"a": "b"}}, put("data.a", "c")),
    "immutable no more": Exchange("configmap", {"immutable": True, "data": {"a": "b"}}, put("immutable", False)),
    "binary data in an immutable one": Exchange("configmap", {"immutable": True}, put("binaryData", {"x": "aGk="})),
    "made immutable": Exchange("configmap", {"data": {"a": "b"}}, put("immutable", True)),
}
SECRETS: dict[str, Exchange] = {
    "an empty one": Exchange("secret", {}),
    "texts and data": Exchange("secret", {"stringData": {"a": "hi", "b": "ü"}, "data": {"a": "eA==", "c": "eQ=="}}),
    "an empty text": Exchange("secret", {"stringData": {"a": ""}, "data": {"b": ""}}),
    "a bad key": Exchange("secret", {"stringData": {"a/b": "hi"}}),
    "too much": Exchange("secret", {"data": {"a": b64("x" * (1024 * 1024 + 1))}}),
    "a type of ours": Exchange("secret", {"type": "example.com/x", "data": {"a": "eA=="}}),
    "tls without keys": Exchange("secret", {"type": "kubernetes.io/tls"}),
    "tls": Exchange("secret", {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "x", "tls.key": "y"}}),
    "basic auth without keys": Exchange("secret", {"type": "kubernetes.io/basic-auth"}),
    "basic auth": Exchange("secret", {"type": "kubernetes.io/basic-auth", "data": {"username": ""}}),
    "ssh auth without key": Exchange("secret", {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}),
    "docker config": Exchange(
        "secret", {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}}
    ),
    "docker config that is no JSON": Exchange(
        "secret", {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "no"}}
    ),
    "docker config that is a list": Exchange(
        "secret", {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "[]"}}
    ),
    "docker config that is not there": Exchange("secret", {"type": "kubernetes.io/dockercfg"}),
    "an account's token": Exchange("secret", {"type": "kubernetes.io/service-account-token"}),
    "data that is no base64": Exchange("secret", {"data": {"a": "a"}}),
    "data that is a number": Exchange("secret", {"data": {"a": 5}}),
    "another type later": Exchange("secret", {}, put("type", "example.com/x")),
    "no type later": Exchange("secret", {"type": "example.com/x"}, put("type", None)),
    "a text later": Exchange("secret", {"data": {"a": "eA=="}}, put("stringData", {"a": "new"})),
    "a change of an immutable one": Exchange("secret", {"immutable": True}, put("data", {"a": "eA=="})),
}
OTHERS: dict[str, Exchange] = {
    "an account": Exchange("serviceaccount", {}),
    "an account with secrets": Exchange(
        "serviceaccount",
        {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}], "automountServiceAccountToken": False},
    ),
    "an account with a wrong type": Exchange("serviceaccount", {"secrets": "a"}),
    "a lease": Exchange("lease", {}),
    "a whole lease": Exchange(
        "lease",
        {
            "spec": {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 0,
                "acquireTime": TIME,
                "renewTime": "2026-01-02T03:04:05.123456+02:00",
            }
        },
    ),
    "a lease with an empty holder": Exchange("lease", {"spec": {"holderIdentity": ""}}),
    "a lease of no length": Exchange("lease", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
    "a lease with a time to the second": Exchange("lease", {"spec": {"renewTime": "2026-01-02T03:04:05Z"}}),
    "a lease with no time": Exchange("lease", {"spec": {"renewTime": "yesterday"}}),
    "a lease with a number too large": Exchange("lease", {"spec": {"leaseDurationSeconds": 2**31}}),
    "a lease with a fraction": Exchange("lease", {"spec": {"leaseDurationSeconds": 1.5}}),
    "a lease with a preferred holder": Exchange("lease", {"spec": {"preferredHolder": "x"}}),
    "a lease with a strategy": Exchange("lease", {"spec": {"preferredHolder": "x", "strategy": "Mine"}}),
    "a lease with a strategy of ours": Exchange("lease", {"spec": {"strategy": "example.com/Mine"}}),
    "a lease that passes on": Exchange("lease", {"spec": {"holderIdentity": "a"}}, put("spec.holderIdentity", "b")),
    "a namespace": Exchange("namespace", {}),
    "a namespace with a label": Exchange("namespace", {"metadata": {"labels": {"a": "b"}}}),
    "a namespace with finalizers": Exchange("namespace", {"spec": {"finalizers": ["example.com/x"]}}),
    "a namespace with a bad finalizer": Exchange("namespace", {"spec": {"finalizers": ["mine"]}}),
    "a namespace with a status": Exchange("namespace", {"status": {"phase": "Terminating"}}),
    "a namespace's finalizers": Exchange("namespace", {}, put("spec.finalizers", ["example.com/x"])),
    "a namespace's finalizers are not written by an update": Exchange("namespace", {}, put("spec.finalizers", [])),
    "a namespace is finalized": Exchange(
        "namespace", {}, put("spec.finalizers", ["example.com/x", "kubernetes"]), subresource="finalize"
    ),
    "a namespace is finalized badly": Exchange(
        "namespace", {}, put("spec.finalizers", ["kubernetes", "mine"]), subresource="finalize"
    ),
    "a namespace's phase": Exchange("namespace", {}, put("status.phase", "Terminating"), subresource="status"),
    "a namespace's label goes": Exchange("namespace", {}, put("metadata.labels", None)),
    "a node": Exchange("node", {}),
    "a node with a status": Exchange(
        "node",
        {
            "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": False},
            "status": {
                "capacity": {"cpu": "2000m", "memory": "1024Mi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
    ),
    "a node with bad taints": Exchange(
        "node", {"spec": {"taints": [{"key": "a b", "effect": "x"}, {"key": "", "effect": ""}]}}
    ),
    "a node with a taint twice": Exchange(
        "node", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]}}
    ),
    "a node with addresses for Pods": Exchange("node", {"spec": {"podCIDR": "10.1.0.0/24"}}),
    "a node with bad addresses for Pods": Exchange("node", {"spec": {"podCIDRs": ["10.1.0.0/24", "nowhere"]}}),
    "a node with amounts below zero": Exchange(
        "node", {"status": {"capacity": {"cpu": "-1", "example.com/x": "1500m"}}}
    ),
    "a node gets another range": Exchange(
        "node", {"spec": {"podCIDR": "10.1.0.0/24"}}, put("spec.podCIDR", "10.2.0.0/24")
    ),
    "a node gets a provider": Exchange("node", {}, put("spec.providerID", "x://1")),
    "a node gets another provider": Exchange(
        "node", {"spec": {"providerID": "x://1"}}, put("spec.providerID", "x://2")
    ),
    "a node's status by an update": Exchange("node", {}, put("status.phase", "Running")),
    "a node's status": Exchange(
        "node",
        {},
        put("status.addresses", [{"type": "Hostname", "address": "a"}, {"type": "Hostname", "address": "b"}]),
        subresource="status",
    ),
    "a node's address twice": Exchange(
        "node",
        {},
        put("status.addresses", [{"type": "Hostname", "address": "a"}, {"type": "Hostname", "address": "a"}]),
        subresource="status",
    ),
}
REGARDING = {"kind": "Pod", "name": "x"}
REPORTED: Body = {
    "regarding": REGARDING,
    "eventTime": TIME,
    "reportingController": "example.com/me",
    "reportingInstance": "me-1",
    "action": "Doing",
    "reason": "Because",
    "type": "Normal",
}
EVENTS: dict[str, Exchange] = {
    "an old one": Exchange("event", {"involvedObject": REGARDING, "reason": "R", "message": "M", "type": "Normal"}),
    "an old one with times": Exchange(
        "event",
        {
            "involvedObject": REGARDING,
            "firstTimestamp": "2026-01-02T03:04:05.6+01:00",
            "lastTimestamp": "2026-01-02T03:04:05Z",
            "count": 3,
            "source": {"component": "me"},
        },
    ),
    "an old one in another namespace": Exchange("event", {"involvedObject": {**REGARDING, "namespace": "elsewhere"}}),
    "an old one about nothing": Exchange("event", {}),
    "a new one in the old form": Exchange("event", {"involvedObject": REGARDING, "eventTime": TIME}),
    "a whole new one in the old form": Exchange(
        "event",
        {
            "involvedObject": REGARDING,
            "eventTime": TIME,
            "reportingComponent": "me",
            "reportingInstance": "me-1",
            "action": "Doing",
            "reason": "Because",
        },
    ),
    "a change of an old one": Exchange("event", {"involvedObject": REGARDING, "reason": "R"}, put("message", "other")),
    "a new one": Exchange("newevent", REPORTED),
    "a new one with a note": Exchange("newevent", {**REPORTED, "note": "n", "related": REGARDING}),
    "a new one with nothing": Exchange("newevent", {"regarding": REGARDING}),
    "a new one with long texts": Exchange(
        "newevent",
        {**REPORTED, "action": "a" * 129, "reason": "r" * 129, "note": "n" * 1025, "reportingInstance": "i" * 129},
    ),
    "a new one with old fields": Exchange(
        "newevent",
        {
            **REPORTED,
            "deprecatedCount": 1,
            "deprecatedSource": {"component": "x"},
            "deprecatedFirstTimestamp": "2026-01-02T03:04:05Z",
        },
    ),
    "a new one of another type": Exchange("newevent", {**REPORTED, "type": "Odd", "reportingController": "a b"}),
    "a new one with a short series": Exchange("newevent", {**REPORTED, "series": {"count": 1}}),
    "a series grows": Exchange("newevent", REPORTED, put("series", {"count": 2, "lastObservedTime": TIME})),
    "a new one changes": Exchange("newevent", REPORTED, put("reason", "Other")),
    "a new one changes a lot": Exchange(
        "newevent",
        REPORTED,
        lambda obj: obj.update(
            note="x", action="y", type="Warning", regarding={"kind": "Z", **obj["regarding"], "name": "q"}
        ),
    ),
}
SLICE: Body = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]}
SLICES: dict[str, Exchange] = {
    "a plain one": Exchange("endpointslice", SLICE),
    "one with no lists": Exchange("endpointslice", {"addressType": "IPv4"}),
    "one with empty lists": Exchange("endpointslice", {"addressType": "IPv6", "endpoints": [], "ports": []}),
    "one of no type": Exchange("endpointslice", {}),
    "one of a wrong type": Exchange("endpointslice", {"addressType": "IPX"}),
    "a whole one": Exchange(
        "endpointslice",
        {
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": ["10.1.2.3"],
                    "conditions": {"ready": True, "serving": False},
                    "nodeName": "n",
                    "hostname": "h",
                    "zone": "z",
                    "hints": {"forZones": [{"name": "z"}]},
                    "targetRef": {"kind": "Pod", "name": "p"},
                    "deprecatedTopology": {"a": "b"},
                }
            ],
            "ports": [{"name": "a", "port": 80, "protocol": "UDP", "appProtocol": "h2c"}],
        },
    ),
    "one with wrong addresses": Exchange(
        "endpointslice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["::1"]}, {"addresses": ["x"]}, {"addresses": []}, {}]},
    ),
    "one with special addresses": Exchange(
        "endpointslice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1"]}]},
    ),
    "one with names": Exchange(
        "endpointslice", {"addressType": "FQDN", "endpoints": [{"addresses": ["example.com", "short", "A.b"]}]}
    ),
    "one with bad ports": Exchange(
        "endpointslice",
        {
            "addressType": "IPv4",
            "ports": [{"name": "A_", "protocol": "x", "appProtocol": "a b"}, {"port": 1}, {"port": 2}],
        },
    ),
    "one with bad names": Exchange(
        "endpointslice",
        {
            "addressType": "IPv4",
            "endpoints": [
                {
                    "addresses": ["10.1.2.3"],
                    "nodeName": "A",
                    "hostname": "a.b",
                    "hints": {"forZones": [{"name": "a b"}, {"name": "x"}, {"name": "x"}]},
                }
            ],
        },
    ),
    "one that changes its type": Exchange("endpointslice", SLICE, put("addressType", "IPv6")),
    "one that changes its endpoints": Exchange("endpointslice", SLICE, put("endpoints.0.addresses", ["10.9.9.9"])),
}
