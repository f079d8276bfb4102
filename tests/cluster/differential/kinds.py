"""Exchanges about the built-in kinds: what each fills in, refuses, keeps and shows; the rules of fields are elsewhere.

`tests/unit/local/builtin` compares the rules of each kind's fields one by one; here the whole request is compared.
"""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.bodies import (
    ACCOUNTS,
    EVENTS,
    LEASES,
    MAPS,
    NAMESPACES,
    NEW_EVENTS,
    NODES,
    SECRETS,
    SERVICES,
    SLICES,
    TABLE,
    TEMPLATES,
    named,
    secret,
    service,
)
from tests.cluster.differential.exchange import Exchange, delete, edited, exchange, get, made, patch, post, put, watch

_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_TIME = "2026-01-02T03:04:05.000006Z"

NAMESPACE: dict[str, Exchange] = {
    "a new one": exchange(post(NAMESPACES, named("{ns}-n")), stored=False),
    "with labels": exchange(post(NAMESPACES, named("{ns}-n", metadata={"labels": {"a": "b"}}))),
    "with a wrong label of its name": exchange(
        post(NAMESPACES, named("{ns}-n", metadata={"labels": {"kubernetes.io/metadata.name": "other"}}))
    ),
    "with a name that is no label": exchange(post(NAMESPACES, named("a.b"))),
    "with a long name": exchange(post(NAMESPACES, named("a" * 64))),
    "that is there": exchange(post(NAMESPACES, named("{ns}"))),
    "a label taken away": exchange(
        patch(f"{NAMESPACES}/{{ns}}", {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}})
    ),
    "a generated name": exchange(post(NAMESPACES, {"metadata": {"generateName": "{ns}-"}})),
    "as a Table": exchange(get(f"{NAMESPACES}?fieldSelector=metadata.name%3D{{ns}}", TABLE)),
    "by its phase": exchange(
        get(f"{NAMESPACES}?fieldSelector=status.phase%3DActive,metadata.name%3D{{ns}}"),
        get(f"{NAMESPACES}?fieldSelector=status.phase%3DTerminating,metadata.name%3D{{ns}}"),
    ),
    "an odd phase": exchange(patch(f"{NAMESPACES}/{{ns}}/status", {"status": {"phase": "Odd"}})),
}

SERVICE: dict[str, Exchange] = {
    "the least": exchange(post(SERVICES, service("a"))),
    "without ports": exchange(post(SERVICES, named("a", spec={}))),
    "headless": exchange(post(SERVICES, service("a", clusterIP="None", selector={"x": "y"}))),
    "headless without ports": exchange(post(SERVICES, named("a", spec={"clusterIP": "None"}))),
    "a node port": exchange(post(SERVICES, service("a", type="NodePort"))),
    "a load balancer": exchange(
        post(SERVICES, service("a", type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/8"]))
    ),
    "a load balancer without node ports": exchange(
        post(SERVICES, service("a", type="LoadBalancer", allocateLoadBalancerNodePorts=False))
    ),
    "an external name": exchange(
        post(SERVICES, named("a", spec={"type": "ExternalName", "externalName": "x.example"}))
    ),
    "an external name that is none": exchange(post(SERVICES, named("a", spec={"type": "ExternalName"}))),
    "an unknown type": exchange(post(SERVICES, service("a", type="Odd"))),
    "ports without names": exchange(post(SERVICES, service("a", ports=[{"port": 1}, {"port": 2}]))),
    "the same port twice": exchange(
        post(SERVICES, service("a", ports=[{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]))
    ),
    "bad ports": exchange(
        post(SERVICES, service("a", ports=[{"port": 0, "targetPort": "A B", "protocol": "Odd", "name": "X"}]))
    ),
    "an address that is none": exchange(post(SERVICES, service("a", clusterIP="x"))),
    "an address of another range": exchange(post(SERVICES, service("a", clusterIP="192.168.1.1"))),
    "a node port outside the range": exchange(
        post(SERVICES, service("a", type="NodePort", ports=[{"port": 80, "nodePort": 80}]))
    ),
    "a node port that is taken": exchange(
        made(SERVICES, service("a", type="NodePort"), keep={"port": "spec.ports.0.nodePort"}),
        post(
            SERVICES,
            lambda seen: service(
                "b", type="NodePort", ports=[{"port": 80, "nodePort": seen[0]["spec.ports.0.nodePort"]}]
            ),
        ),
    ),
    "an address that is taken": exchange(
        made(SERVICES, service("a")),
        post(SERVICES, lambda seen: service("b", clusterIP=seen[0]["spec.clusterIP"])),
    ),
    "a dry run": exchange(post(f"{SERVICES}?dryRun=All", service("a", type="NodePort"))),
    "session affinity": exchange(post(SERVICES, service("a", sessionAffinity="ClientIP"))),
    "a name that begins with a digit": exchange(post(SERVICES, service("1a"))),
    "two families": exchange(post(SERVICES, service("a", ipFamilyPolicy="RequireDualStack"))),
    "a type changed back": exchange(
        made(SERVICES, service("a", type="NodePort")), patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})
    ),
    "to an external name": exchange(
        made(SERVICES, service("a")),
        patch(f"{SERVICES}/a", {"spec": {"type": "ExternalName", "externalName": "x.example"}}),
    ),
    "a selector changed": exchange(
        made(SERVICES, service("a", selector={"x": "y"})), patch(f"{SERVICES}/a", {"spec": {"selector": {"x": "z"}}})
    ),
    "an address changed": exchange(
        made(SERVICES, service("a")), patch(f"{SERVICES}/a", {"spec": {"clusterIP": "10.96.200.200"}})
    ),
    "an unversioned update": exchange(made(SERVICES, service("a")), put(f"{SERVICES}/a", service("a"))),
    "a watch of its life": exchange(
        watch(f"{SERVICES}?watch=true", 3),
        made(SERVICES, service("a")),
        patch(f"{SERVICES}/a", {"metadata": {"labels": {"x": "y"}}}, compared=False),
        delete(f"{SERVICES}/a", compared=False),
    ),
    "its EndpointSlice": exchange(
        made(SERVICES, service("a", selector={"x": "y"})),
        get(
            f"{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3Da",
            until=lambda answer: bool(answer.body["items"]),
        ),
        stored=False,
    ),
}

_ENDPOINT: dict[str, Any] = {"addresses": ["10.1.2.3"], "conditions": {"ready": True}}

ENDPOINT_SLICE: dict[str, Exchange] = {
    "the least": exchange(post(SLICES, named("a", addressType="IPv4", endpoints=[]))),
    "endpoints and ports": exchange(
        post(SLICES, named("a", addressType="IPv4", endpoints=[_ENDPOINT], ports=[{"port": 80, "name": "x"}]))
    ),
    "without a type": exchange(post(SLICES, named("a", endpoints=[]))),
    "an unknown type": exchange(post(SLICES, named("a", addressType="IPv9", endpoints=[]))),
    "a bad address": exchange(post(SLICES, named("a", addressType="IPv4", endpoints=[{"addresses": ["x"]}]))),
    "an address that only a machine itself reaches": exchange(
        post(SLICES, named("a", addressType="IPv4", endpoints=[{"addresses": ["127.0.0.5"]}]))
    ),
    "no address": exchange(post(SLICES, named("a", addressType="IPv4", endpoints=[{"addresses": []}]))),
    "bad ports": exchange(
        post(
            SLICES,
            named("a", addressType="IPv4", endpoints=[], ports=[{"port": 70000, "protocol": "Odd", "name": "X Y"}]),
        )
    ),
    "IPv6": exchange(post(SLICES, named("a", addressType="IPv6", endpoints=[{"addresses": ["fd00::1"]}]))),
    "names": exchange(post(SLICES, named("a", addressType="FQDN", endpoints=[{"addresses": ["x.example"]}]))),
    "another type": exchange(
        made(SLICES, named("a", addressType="IPv4", endpoints=[])), put(f"{SLICES}/a", edited(0, addressType="IPv6"))
    ),
    "endpoints changed": exchange(
        made(SLICES, named("a", addressType="IPv4", endpoints=[])), put(f"{SLICES}/a", edited(0, endpoints=[_ENDPOINT]))
    ),
    "as a Table": exchange(
        made(SLICES, named("a", addressType="IPv4", endpoints=[_ENDPOINT], ports=[{"port": 80, "name": "x"}])),
        get(f"{SLICES}/a", TABLE),
    ),
}

PLAIN: dict[str, Exchange] = {
    "a ConfigMap with binary data": exchange(post(MAPS, named("a", data={"k": "v"}, binaryData={"b": "aGk="}))),
    "a ConfigMap with a bad key": exchange(post(MAPS, named("a", data={"..": "d"}))),
    "a ConfigMap with a key twice": exchange(post(MAPS, named("a", data={"k": "v"}, binaryData={"k": "aGk="}))),
    "a ConfigMap with bad binary data": exchange(post(MAPS, named("a", binaryData={"b": "!!"}))),
    "a ConfigMap that is too large": exchange(post(MAPS, named("a", data={"k": "x" * (1024 * 1024 + 1)}))),
    "a ConfigMap as a Table": exchange(made(MAPS, named("a", data={"k": "v"})), get(f"{MAPS}/a", TABLE)),
    "a Secret": exchange(post(SECRETS, secret("a", k="v", l="ü"))),
    "a Secret with both": exchange(post(SECRETS, {**named("a"), "data": {"k": "dg=="}, "stringData": {"k": "w"}})),
    "a Secret for TLS without keys": exchange(post(SECRETS, {**named("a"), "type": "kubernetes.io/tls"})),
    "a Secret of an unknown account": exchange(
        post(SECRETS, {**named("a"), "type": "kubernetes.io/service-account-token"})
    ),
    "a Secret with bad data": exchange(post(SECRETS, {**named("a"), "data": {"k": "!!"}})),
    "an immutable Secret": exchange(
        made(SECRETS, {**secret("a", k="v"), "immutable": True}), patch(f"{SECRETS}/a", {"stringData": {"k": "w"}})
    ),
    "a ServiceAccount": exchange(post(ACCOUNTS, named("a"))),
    "a ServiceAccount with secrets": exchange(
        post(ACCOUNTS, named("a", secrets=[{"name": "x"}], imagePullSecrets=[{"name": "y"}]))
    ),
    "the default ServiceAccount deleted": exchange(
        get(f"{ACCOUNTS}/default", keep={"uid": "metadata.uid"}, compared=False),
        delete(f"{ACCOUNTS}/default"),
        get(f"{ACCOUNTS}/default", until=lambda answer: answer.code == 200, compared=False),
        stored=False,
    ),
    "a ServiceAccount as a Table": exchange(made(ACCOUNTS, named("a")), get(f"{ACCOUNTS}/a", TABLE)),
    "a PodTemplate": exchange(
        post(TEMPLATES, named("a", template={"spec": {"containers": [{"name": "c", "image": "i"}]}}))
    ),
    "a PodTemplate with a bad Pod": exchange(post(TEMPLATES, named("a", template={"spec": {"containers": []}}))),
    "a PodTemplate as a Table": exchange(
        made(TEMPLATES, named("a", template={"spec": {"containers": [{"name": "c", "image": "i"}]}})),
        get(f"{TEMPLATES}/a", TABLE),
    ),
    "a Lease": exchange(
        post(LEASES, named("a", spec={"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": _TIME}))
    ),
    "a bad Lease": exchange(
        post(LEASES, named("a", spec={"leaseDurationSeconds": 0, "leaseTransitions": -1, "holderIdentity": ""}))
    ),
    "a Lease with a bad time": exchange(post(LEASES, named("a", spec={"renewTime": "now"}))),
    "a Lease renewed": exchange(
        made(LEASES, named("a", spec={"holderIdentity": "me"})),
        put(f"{LEASES}/a", edited(0, spec__renewTime=_TIME, spec__leaseTransitions=2)),
    ),
    "a Lease as a Table": exchange(made(LEASES, named("a", spec={"holderIdentity": "me"})), get(f"{LEASES}/a", TABLE)),
}

_REGARDING = {"kind": "Pod", "name": "p", "namespace": "{ns}"}
_NEW_EVENT: dict[str, Any] = {
    "eventTime": _TIME,
    "reportingController": "example.com/me",
    "reportingInstance": "me-1",
    "action": "Doing",
    "reason": "Why",
    "regarding": _REGARDING,
    "note": "something happened",
    "type": "Normal",
}

EVENT: dict[str, Exchange] = {
    "the least": exchange(post(EVENTS, named("a", involvedObject=_REGARDING))),
    "with much": exchange(
        post(
            EVENTS,
            named(
                "a",
                involvedObject=_REGARDING,
                reason="Why",
                message="something happened",
                source={"component": "me", "host": "h"},
                firstTimestamp="2026-01-02T03:04:05Z",
                lastTimestamp="2026-01-02T03:04:05Z",
                count=3,
                type="Warning",
            ),
        )
    ),
    "about another namespace": exchange(
        post(EVENTS, named("a", involvedObject={"kind": "Pod", "name": "p", "namespace": "other"}))
    ),
    "about nothing": exchange(post(EVENTS, named("a"))),
    "new and the least": exchange(post(NEW_EVENTS, named("a", **_NEW_EVENT))),
    "new and incomplete": exchange(post(NEW_EVENTS, named("a", regarding=_REGARDING))),
    "new with a bad type": exchange(post(NEW_EVENTS, named("a", **{**_NEW_EVENT, "type": "Odd"}))),
    "new and long": exchange(post(NEW_EVENTS, named("a", **{**_NEW_EVENT, "note": "x" * 1025}))),
    "old, seen as new": exchange(
        made(EVENTS, named("a", involvedObject=_REGARDING, message="m", source={"component": "me"}, count=2)),
        get(f"{NEW_EVENTS}/a"),
    ),
    "new, seen as old": exchange(made(NEW_EVENTS, named("a", **_NEW_EVENT)), get(f"{EVENTS}/a")),
    "counted on": exchange(
        made(EVENTS, named("a", involvedObject=_REGARDING, count=1)), patch(f"{EVENTS}/a", {"count": 2})
    ),
    "a series": exchange(
        made(NEW_EVENTS, named("a", **_NEW_EVENT)),
        patch(f"{NEW_EVENTS}/a", {"series": {"count": 2, "lastObservedTime": _TIME}}),
    ),
    "what may not change": exchange(
        made(NEW_EVENTS, named("a", **_NEW_EVENT)), patch(f"{NEW_EVENTS}/a", {"reason": "Other"})
    ),
    "as a Table": exchange(
        made(EVENTS, named("a", involvedObject=_REGARDING, reason="Why", message="m", type="Normal")),
        get(f"{EVENTS}/a", TABLE),
    ),
    "new by a field": exchange(
        made(NEW_EVENTS, named("a", **_NEW_EVENT)), get(f"{NEW_EVENTS}?fieldSelector=regarding.name%3Dp,reason%3DWhy")
    ),
}

NODE: dict[str, Exchange] = {
    "the least": exchange(post(NODES, named("{ns}", spec={"unschedulable": True}))),
    "with much": exchange(
        post(
            NODES,
            named(
                "{ns}",
                metadata={"labels": {"kubernetes.io/hostname": "h"}},
                spec={
                    "unschedulable": True,
                    "podCIDR": "10.1.0.0/24",
                    "podCIDRs": ["10.1.0.0/24"],
                    "providerID": "p",
                    "taints": [{"key": "k", "effect": "NoSchedule"}],
                },
            ),
        )
    ),
    "a bad taint": exchange(post(NODES, named("{ns}", spec={"taints": [{"key": "k", "effect": "Odd"}]}))),
    "a range changed": exchange(
        made(NODES, named("{ns}", spec={"unschedulable": True, "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]})),
        put(f"{NODES}/{{ns}}", edited(0, spec__podCIDR="10.2.0.0/24", spec__podCIDRs=["10.2.0.0/24"])),
    ),
    "conditions": exchange(
        made(NODES, named("{ns}", spec={"unschedulable": True})),
        patch(
            f"{NODES}/{{ns}}/status",
            {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "m"}]}},
            "application/strategic-merge-patch+json",
        ),
        get(f"{NODES}/{{ns}}", TABLE),
    ),
    "a label": exchange(
        made(NODES, named("{ns}", spec={"unschedulable": True})),
        patch(f"{NODES}/{{ns}}", {"metadata": {"labels": {"a": "b"}}}),
    ),
    "pages": exchange(
        made(NODES, named("{ns}-a", metadata={"labels": {"l": "{ns}"}}, spec={"unschedulable": True})),
        made(NODES, named("{ns}-b", metadata={"labels": {"l": "{ns}"}}, spec={"unschedulable": True})),
        get(f"{NODES}?labelSelector=l%3D{{ns}}&limit=1", keep={"next": "metadata.continue"}),
        get(f"{NODES}?labelSelector=l%3D{{ns}}&limit=1&continue={{next}}"),
    ),
}

REVIEW: dict[str, Exchange] = {
    "who am I": exchange(post(_REVIEWS, {}), select=lambda body: {**body, "status": sorted(body["status"])}),
    "who am I, with a body": exchange(
        post(_REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
        select=lambda body: {**body, "status": sorted(body["status"])},
    ),
    "may I": exchange(
        post(_ACCESS, {"spec": {"resourceAttributes": {"namespace": "{ns}", "verb": "create", "resource": "pods"}}}),
        select=lambda body: {**body, "status": body["status"]["allowed"]},
    ),
    "may I, of a path": exchange(
        post(_ACCESS, {"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}}),
        select=lambda body: {**body, "status": body["status"]["allowed"]},
    ),
    "may I, of nothing": exchange(post(_ACCESS, {"spec": {}})),
    "may I, of both": exchange(
        post(
            _ACCESS,
            {
                "spec": {
                    "resourceAttributes": {"verb": "get", "resource": "pods"},
                    "nonResourceAttributes": {"path": "/version", "verb": "get"},
                }
            },
        )
    ),
    "may I, with a bad body": exchange(post(_ACCESS, {"spec": "text"})),
    "may I, as a Table": exchange(
        post(_ACCESS, {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}, accept=TABLE)
    ),
}
