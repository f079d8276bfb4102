"""Objects of built-in kinds in every shape that a table tells apart; `test_local_tables` shows them on both servers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from edgewright.runtime.objects import Kind

Body = dict[str, Any]

NAMESPACE = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
NODE = Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)
POD = Kind(group="", version="v1", kind="Pod", plural="pods")
SERVICE = Kind(group="", version="v1", kind="Service", plural="services")
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
SECRET = Kind(group="", version="v1", kind="Secret", plural="secrets")
ACCOUNT = Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts")
TEMPLATE = Kind(group="", version="v1", kind="PodTemplate", plural="podtemplates")
EVENT = Kind(group="", version="v1", kind="Event", plural="events")
NEW_EVENT = Kind(group="events.k8s.io", version="v1", kind="Event", plural="events")
LEASE = Kind(group="coordination.k8s.io", version="v1", kind="Lease", plural="leases")
SLICE = Kind(group="discovery.k8s.io", version="v1", kind="EndpointSlice", plural="endpointslices")
DEFINITION = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
KINDS = (NAMESPACE, NODE, POD, SERVICE, CONFIG_MAP, SECRET, ACCOUNT, TEMPLATE, EVENT, NEW_EVENT, LEASE, SLICE)

LONG_AGO = f"{datetime.now(UTC) - timedelta(days=100, hours=3):%Y-%m-%dT%H:%M:%SZ}"
BEFORE = f"{datetime.now(UTC) - timedelta(days=5, hours=3, minutes=30):%Y-%m-%dT%H:%M:%SZ}"
MICRO = LONG_AGO.replace("Z", ".250000Z")


def state(
    name: str, *, now: Body | None = None, restarts: int = 0, last: str = "", ready: bool = False, **more: Any
) -> Body:
    """What a node says of a container."""
    past = {"terminated": {"exitCode": 1, "finishedAt": last}} if last else {}
    return {
        "name": name,
        "image": "i",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": now or {},
        "lastState": past,
        **more,
    }


def waiting(reason: str) -> Body:
    return {"waiting": {"reason": reason}}


def ended(code: int, **more: Any) -> Body:
    return {"terminated": {"exitCode": code, **more}}


def condition(kind: str, status: str, **more: Any) -> Body:
    return {"type": kind, "status": status, **more}


RUNS = {"running": {"startedAt": LONG_AGO}}
ONE = {"containers": [{"name": "a", "image": "i"}]}
TWO = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}
INIT = {**ONE, "initContainers": [{"name": "x", "image": "i"}, {"name": "y", "image": "i"}]}
SIDECAR = {
    **ONE,
    "initContainers": [{"name": "x", "image": "i"}, {"name": "s", "image": "i", "restartPolicy": "Always"}],
}
GATED = {**ONE, "readinessGates": [{"conditionType": "e.x/one"}, {"conditionType": "e.x/two"}]}

PODS: dict[str, tuple[Body, Body]] = {
    "new": (ONE, {}),
    "two-containers": (TWO, {}),
    "running": (
        {**ONE, "nodeName": "nowhere"},
        {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "podIPs": [{"ip": "10.0.0.7"}],
            "containerStatuses": [state("a", now=RUNS, ready=True)],
        },
    ),
    "not-ready": (ONE, {"phase": "Running", "containerStatuses": [state("a", now=RUNS)]}),
    "creating": (ONE, {"containerStatuses": [state("a", now=waiting("ContainerCreating"))]}),
    "no-image": (ONE, {"containerStatuses": [state("a", now=waiting("ErrImagePull"))]}),
    "image-back-off": (ONE, {"containerStatuses": [state("a", now=waiting("ImagePullBackOff"))]}),
    "crash-loop": (
        ONE,
        {
            "phase": "Running",
            "containerStatuses": [state("a", now=waiting("CrashLoopBackOff"), restarts=7, last=LONG_AGO)],
        },
    ),
    "waiting-without-reason": (ONE, {"containerStatuses": [state("a", now={"waiting": {}})]}),
    "completed": (
        ONE,
        {"phase": "Succeeded", "containerStatuses": [state("a", now=ended(0, reason="Completed"))]},
    ),
    "error": (ONE, {"phase": "Failed", "containerStatuses": [state("a", now=ended(1, reason="Error"))]}),
    "out-of-memory": (ONE, {"phase": "Failed", "containerStatuses": [state("a", now=ended(137, reason="OOMKilled"))]}),
    "exit-code": (ONE, {"phase": "Failed", "containerStatuses": [state("a", now=ended(3))]}),
    "signal": (ONE, {"phase": "Failed", "containerStatuses": [state("a", now=ended(137, signal=9))]}),
    "exit-zero-without-reason": (ONE, {"phase": "Succeeded", "containerStatuses": [state("a", now=ended(0))]}),
    "evicted": (ONE, {"phase": "Failed", "reason": "Evicted"}),
    "deadline": (
        ONE,
        {
            "phase": "Failed",
            "reason": "DeadlineExceeded",
            "containerStatuses": [state("a", now=ended(143, reason="Error"))],
        },
    ),
    "restarted": (
        TWO,
        {
            "phase": "Running",
            "containerStatuses": [
                state("a", now=RUNS, ready=True, restarts=2, last=LONG_AGO),
                state("b", now=RUNS, ready=True, restarts=3, last=BEFORE),
            ],
        },
    ),
    "restarted-at-no-known-time": (ONE, {"containerStatuses": [state("a", now=RUNS, ready=True, restarts=2)]}),
    "ended-before-but-never-restarted": (ONE, {"containerStatuses": [state("a", now=RUNS, last=LONG_AGO)]}),
    "one-through-one-ready": (
        TWO,
        {
            "phase": "Running",
            "conditions": [condition("Ready", "True")],
            "containerStatuses": [state("a", now=ended(0, reason="Completed")), state("b", now=RUNS, ready=True)],
        },
    ),
    "one-through-one-runs": (
        TWO,
        {
            "phase": "Running",
            "conditions": [condition("Ready", "False")],
            "containerStatuses": [state("a", now=ended(0, reason="Completed")), state("b", now=RUNS, ready=True)],
        },
    ),
    "one-through-one-failed": (
        TWO,
        {
            "phase": "Running",
            "containerStatuses": [
                state("a", now=ended(0, reason="Completed")),
                state("b", now=ended(2, reason="Error")),
            ],
        },
    ),
    "first-failed-second-through": (
        TWO,
        {
            "phase": "Running",
            "containerStatuses": [
                state("a", now=ended(2, reason="Error")),
                state("b", now=ended(0, reason="Completed")),
            ],
        },
    ),
    "init-not-begun": (INIT, {"initContainerStatuses": [state("x"), state("y")]}),
    "init-first-runs": (
        INIT,
        {"initContainerStatuses": [state("x", now=RUNS), state("y", now=waiting("PodInitializing"))]},
    ),
    "init-second-runs": (
        INIT,
        {
            "initContainerStatuses": [state("x", now=ended(0, reason="Completed")), state("y", now=RUNS)],
            "containerStatuses": [state("a", now=waiting("PodInitializing"))],
        },
    ),
    "init-no-image": (INIT, {"initContainerStatuses": [state("x", now=waiting("ErrImagePull")), state("y")]}),
    "init-crash-loop": (
        INIT,
        {"initContainerStatuses": [state("x", now=waiting("CrashLoopBackOff"), restarts=4, last=LONG_AGO), state("y")]},
    ),
    "init-error": (INIT, {"initContainerStatuses": [state("x", now=ended(1, reason="Error")), state("y")]}),
    "init-exit-code": (INIT, {"initContainerStatuses": [state("x", now=ended(5)), state("y")]}),
    "init-signal": (INIT, {"initContainerStatuses": [state("x", now=ended(5, signal=6)), state("y")]}),
    "init-through": (
        INIT,
        {
            "phase": "Running",
            "initContainerStatuses": [
                state("x", now=ended(0), restarts=5, last=LONG_AGO),
                state("y", now=ended(0), restarts=1),
            ],
            "containerStatuses": [state("a", now=RUNS, ready=True, restarts=1, last=BEFORE)],
        },
    ),
    "initialized-but-init-runs-again": (
        INIT,
        {
            "phase": "Running",
            "conditions": [condition("Initialized", "True")],
            "initContainerStatuses": [state("x", now=RUNS), state("y")],
            "containerStatuses": [state("a", now=RUNS, ready=True)],
        },
    ),
    "initialized-is-false": (
        INIT,
        {
            "conditions": [condition("Initialized", "False")],
            "initContainerStatuses": [state("x", now=RUNS), state("y")],
            "containerStatuses": [state("a", now=RUNS, ready=True)],
        },
    ),
    "sidecar-starts": (
        SIDECAR,
        {"initContainerStatuses": [state("x", now=ended(0)), state("s", now=RUNS, started=False)]},
    ),
    "sidecar-runs": (
        SIDECAR,
        {
            "phase": "Running",
            "initContainerStatuses": [
                state("x", now=ended(0), restarts=1, last=BEFORE),
                state("s", now=RUNS, started=True, ready=True, restarts=2, last=LONG_AGO),
            ],
            "containerStatuses": [state("a", now=RUNS, ready=True, restarts=1)],
        },
    ),
    "sidecar-not-ready": (
        SIDECAR,
        {"initContainerStatuses": [state("x", now=ended(0)), state("s", now=RUNS, started=True)]},
    ),
    "gates": (
        GATED,
        {
            "conditions": [
                condition("e.x/one", "True"),
                condition("e.x/two", "False"),
            ]
        },
    ),
    "gates-nobody-set": (GATED, {}),
    "scheduling-gated": ({**ONE, "schedulingGates": [{"name": "e.x/gate"}]}, {}),
    "nominated": (ONE, {"nominatedNodeName": "chosen"}),
    "unknown-phase": (ONE, {"phase": "Unknown"}),
}
DELETED_PODS: dict[str, tuple[Body, Body]] = {
    "terminating": ({**ONE, "nodeName": "nowhere"}, {"phase": "Running"}),
    "terminating-and-lost": ({**ONE, "nodeName": "nowhere"}, {"phase": "Running", "reason": "NodeLost"}),
    "terminating-but-through": (
        {**ONE, "nodeName": "nowhere"},
        {"phase": "Succeeded", "containerStatuses": [state("a", now=ended(0, reason="Completed"))]},
    ),
    "terminating-but-failed": ({**ONE, "nodeName": "nowhere"}, {"phase": "Failed", "reason": "Evicted"}),
}

PORTS = [{"port": 80, "name": "a"}, {"port": 53, "protocol": "UDP", "name": "b"}]
SERVICES: dict[str, tuple[Body, list[Body]]] = {
    "plain": ({"ports": [{"port": 80}], "selector": {"b": "2", "a": "1"}}, []),
    "two-ports": ({"ports": PORTS}, []),
    "headless": ({"clusterIP": "None", "ports": PORTS}, []),
    "headless-without-ports": ({"clusterIP": "None"}, []),
    "external-addresses": ({"ports": PORTS, "externalIPs": ["192.0.2.9", "192.0.2.1"]}, []),
    "node-port": ({"type": "NodePort", "ports": PORTS}, []),
    "node-port-external": ({"type": "NodePort", "ports": PORTS, "externalIPs": ["192.0.2.9"]}, []),
    "external-name": ({"type": "ExternalName", "externalName": "example.com"}, []),
    "balancer-pending": ({"type": "LoadBalancer", "ports": PORTS}, []),
    "balancer": ({"type": "LoadBalancer", "ports": PORTS}, [{"ip": "198.51.100.7"}]),
    "balancer-names": (
        {"type": "LoadBalancer", "ports": PORTS},
        [{"hostname": "z.example.com"}, {"ip": "198.51.100.7"}, {"hostname": "a-long-name.example.com"}],
    ),
    "balancer-external": (
        {"type": "LoadBalancer", "ports": PORTS, "externalIPs": ["192.0.2.9"]},
        [{"ip": "198.51.100.8"}, {"ip": "198.51.100.7"}],
    ),
    "balancer-pending-external": ({"type": "LoadBalancer", "ports": PORTS, "externalIPs": ["192.0.2.9"]}, []),
    "balancer-without-node-ports": (
        {"type": "LoadBalancer", "ports": PORTS, "allocateLoadBalancerNodePorts": False},
        [],
    ),
}

ADDRESSES = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"]
SLICES: dict[str, Body] = {
    "empty": {"addressType": "IPv4", "endpoints": []},
    "one": {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ADDRESSES[:1]}]},
    "three": {
        "addressType": "IPv4",
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}, {"name": "c", "port": 82}],
        "endpoints": [{"addresses": [each]} for each in ADDRESSES[:3]],
    },
    "many": {
        "addressType": "IPv4",
        "ports": [{"name": name, "port": 80 + at} for at, name in enumerate("abcde")],
        "endpoints": [{"addresses": ADDRESSES[:2]}, {"addresses": ADDRESSES[2:]}],
    },
    "names": {"addressType": "FQDN", "ports": [{"name": "only-a-name"}, {"name": ""}], "endpoints": []},
}

INFO = {
    "architecture": "arm64",
    "bootID": "",
    "containerRuntimeVersion": "edgewright://1",
    "kernelVersion": "6.1",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.36.3",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "Debian 12",
    "systemUUID": "",
}
PLACES = [
    {"type": "Hostname", "address": "n"},
    {"type": "InternalIP", "address": "10.1.0.1"},
    {"type": "InternalIP", "address": "10.1.0.2"},
    {"type": "ExternalIP", "address": "192.0.2.3"},
]
NODES: dict[str, tuple[Body, Body, Body]] = {
    "new": ({}, {}, {}),
    "ready": ({}, {}, {"conditions": [condition("Ready", "True")], "addresses": PLACES, "nodeInfo": INFO}),
    "not-ready": ({}, {}, {"conditions": [condition("DiskPressure", "True"), condition("Ready", "False")]}),
    "silent": ({}, {}, {"conditions": [condition("Ready", "Unknown")]}),
    "cordoned": ({}, {"unschedulable": True}, {"conditions": [condition("Ready", "True")]}),
    "cordoned-and-new": ({}, {"unschedulable": True}, {}),
    "roles": (
        {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": "x", "kubernetes.io/role": "old"},
        {},
        {},
    ),
    "empty-role": ({"kubernetes.io/role": ""}, {}, {}),
    "half-known": ({}, {}, {"nodeInfo": {**INFO, "kernelVersion": "", "osImage": "", "containerRuntimeVersion": ""}}),
}

SUBJECT = {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}", "apiVersion": "v1"}
EVENTS: dict[str, Body] = {
    "counted": {
        "involvedObject": SUBJECT,
        "type": "Warning",
        "reason": "BackOff",
        "message": " starts again \n",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": LONG_AGO,
        "lastTimestamp": BEFORE,
        "count": 12,
    },
    "bare": {"involvedObject": {}},
    "no-name": {"involvedObject": {"kind": "Node"}, "lastTimestamp": LONG_AGO},
    "only-first": {"involvedObject": SUBJECT, "firstTimestamp": LONG_AGO},
    "by-reporter": {
        "involvedObject": SUBJECT,
        "reportingComponent": "e.x/c",
        "reportingInstance": "c-1",
        "firstTimestamp": LONG_AGO,
    },
    "series": {
        "involvedObject": SUBJECT,
        "type": "Normal",
        "reason": "Again",
        "action": "Tried",
        "eventTime": MICRO,
        "reportingComponent": "e.x/c",
        "reportingInstance": "c-1",
        "series": {"count": 4, "lastObservedTime": BEFORE.replace("Z", ".000000Z")},
    },
}
NEW_EVENTS: dict[str, Body] = {
    "single": {
        "regarding": SUBJECT,
        "type": "Normal",
        "reason": "Once",
        "action": "Tried",
        "note": "  a note ",
        "eventTime": MICRO,
        "reportingController": "e.x/c",
        "reportingInstance": "c-1",
    },
    "in-series": {
        "regarding": SUBJECT,
        "type": "Warning",
        "reason": "Again",
        "action": "Tried",
        "eventTime": MICRO,
        "reportingController": "e.x/c",
        "reportingInstance": "c-1",
        "series": {"count": 9, "lastObservedTime": MICRO},
    },
}

PLAIN: dict[tuple[Kind, str], Body] = {
    (CONFIG_MAP, "empty"): {},
    (CONFIG_MAP, "both"): {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}},
    (SECRET, "empty"): {},
    (SECRET, "typed"): {"type": "example.com/own", "data": {"a": "AA=="}, "stringData": {"b": "x"}},
    (ACCOUNT, "account"): {},
    (LEASE, "free"): {},
    (LEASE, "held"): {"spec": {"holderIdentity": "me"}},
    (TEMPLATE, "one"): {"template": {"spec": ONE}},
    (TEMPLATE, "two"): {"template": {"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": TWO}},
}
