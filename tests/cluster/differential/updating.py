"""Exchanges about updates: versions, what may not change, subresources, objects that an update makes."""

from __future__ import annotations

from tests.cluster.differential.bodies import (
    EVENTS,
    LEASES,
    MAPS,
    NAMESPACES,
    NODES,
    PARTIAL,
    PODS,
    SECRETS,
    SERVICES,
    SLICES,
    named,
    pod,
    secret,
    service,
)
from tests.cluster.differential.exchange import Exchange, edited, exchange, get, made, patch, put

_MAP = made(MAPS, named("a", data={"k": "v"}))
_POD = made(PODS, pod("a"))
_UID = "11111111-2222-3333-4444-555555555555"

UPDATES: dict[str, Exchange] = {
    "with the version it has": exchange(_MAP, put(f"{MAPS}/a", edited(0, data__k="w"))),
    "without a version": exchange(_MAP, put(f"{MAPS}/a", named("a", data={"x": "y"}))),
    "nothing": exchange(_MAP, put(f"{MAPS}/a", edited(0))),
    "nothing, without a version": exchange(_MAP, put(f"{MAPS}/a", named("a", data={"k": "v"}))),
    "with an old version": exchange(
        _MAP,
        patch(f"{MAPS}/a", {"data": {"x": "y"}}, compared=False),
        put(f"{MAPS}/a", edited(0, data__k="w")),
    ),
    "with another uid": exchange(_MAP, put(f"{MAPS}/a", edited(0, metadata__uid=_UID))),
    "with another name": exchange(_MAP, put(f"{MAPS}/a", edited(0, metadata__name="b"))),
    "without a name": exchange(_MAP, put(f"{MAPS}/a", edited(0, metadata__name=None))),
    "with another namespace": exchange(_MAP, put(f"{MAPS}/a", edited(0, metadata__namespace="other"))),
    "with another kind": exchange(_MAP, put(f"{MAPS}/a", edited(0, kind="Secret", data__k="dg=="))),
    "with another version of the API": exchange(_MAP, put(f"{MAPS}/a", edited(0, apiVersion="v2"))),
    "of what is not there": exchange(put(f"{MAPS}/a", named("a"))),
    "of what is not there, with a version": exchange(put(f"{MAPS}/a", named("a", metadata={"resourceVersion": "5"}))),
    "of what is not there, with a uid": exchange(put(f"{MAPS}/a", named("a", metadata={"uid": _UID}))),
    "a Lease that is not there": exchange(put(f"{LEASES}/a", named("a", spec={"holderIdentity": "me"}))),
    "a Lease that is not there, with a version": exchange(
        put(f"{LEASES}/a", named("a", metadata={"resourceVersion": "5"}))
    ),
    "a Lease that is not there, with a uid": exchange(put(f"{LEASES}/a", named("a", metadata={"uid": _UID}))),
    "an Event that is not there": exchange(
        put(f"{EVENTS}/a", named("a", involvedObject={"kind": "Pod", "name": "p", "namespace": "{ns}"}))
    ),
    "a Lease without a version": exchange(
        made(LEASES, named("a", spec={"holderIdentity": "me"})),
        put(f"{LEASES}/a", named("a", spec={"holderIdentity": "you"})),
    ),
    "an EndpointSlice without a version": exchange(
        made(SLICES, named("a", addressType="IPv4", endpoints=[])),
        put(f"{SLICES}/a", named("a", addressType="IPv4", endpoints=[{"addresses": ["10.1.2.3"]}])),
    ),
    "a dry run": exchange(_MAP, put(f"{MAPS}/a?dryRun=All", edited(0, data__k="w"))),
    "a manager": exchange(_MAP, put(f"{MAPS}/a?fieldManager=me", edited(0, data__x="y", metadata__labels={"a": "b"}))),
    "unknown fields, strictly": exchange(_MAP, put(f"{MAPS}/a?fieldValidation=Strict", edited(0, colour="red"))),
    "unknown fields": exchange(_MAP, put(f"{MAPS}/a", edited(0, colour="red"))),
    "without managed fields": exchange(
        _MAP, put(f"{MAPS}/a", edited(0, metadata__managedFields=None, metadata__labels={"a": "b"}))
    ),
    "managed fields reset": exchange(_MAP, put(f"{MAPS}/a", edited(0, metadata__managedFields=[]))),
    "managed fields reset by an empty one": exchange(
        _MAP, put(f"{MAPS}/a", edited(0, metadata__managedFields=[{}], metadata__labels={"a": "b"}))
    ),
    "what only the server gives": exchange(
        _MAP,
        put(
            f"{MAPS}/a",
            edited(
                0,
                metadata__creationTimestamp="2020-01-01T00:00:00Z",
                metadata__generation=9,
                metadata__deletionTimestamp="2020-01-01T00:00:00Z",
                metadata__generateName="x-",
            ),
        ),
    ),
    "bad labels": exchange(_MAP, put(f"{MAPS}/a", edited(0, metadata__labels={"-": "x"}))),
    "a finalizer is added": exchange(_MAP, put(f"{MAPS}/a", edited(0, metadata__finalizers=["example.com/hold"]))),
    "answered as metadata": exchange(_MAP, put(f"{MAPS}/a", edited(0, data__k="w"), accept=PARTIAL)),
    "an immutable ConfigMap": exchange(
        made(MAPS, named("a", data={"k": "v"}, immutable=True)), put(f"{MAPS}/a", edited(0, data__k="w"))
    ),
    "the type of a Secret": exchange(made(SECRETS, secret("a")), put(f"{SECRETS}/a", edited(0, type="example.com/t"))),
    "a method that is not there": exchange(put(MAPS, named("a"))),
    "the image of a Pod": exchange(_POD, put(f"{PODS}/a", edited(0, spec__containers__0__image="other"))),
    "what a Pod may not change": exchange(_POD, put(f"{PODS}/a", edited(0, spec__restartPolicy="Never"))),
    "the node of a Pod": exchange(_POD, put(f"{PODS}/a", edited(0, spec__nodeName="n"))),
    "the status of a Pod through the Pod": exchange(_POD, put(f"{PODS}/a", edited(0, status__phase="Failed"))),
    "the cluster address of a Service": exchange(
        made(SERVICES, service("a", clusterIP="None")), put(f"{SERVICES}/a", edited(0, spec__type="NodePort"))
    ),
    "the ports of a Service": exchange(
        made(SERVICES, service("a")), put(f"{SERVICES}/a", edited(0, spec__ports=[{"port": 81, "name": "x"}]))
    ),
    "the type of a Service": exchange(
        made(SERVICES, service("a")), put(f"{SERVICES}/a", edited(0, spec__type="LoadBalancer"))
    ),
}

_STATUS = {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}

SUBRESOURCES: dict[str, Exchange] = {
    "the status of a Pod": exchange(_POD, put(f"{PODS}/a/status", edited(0, status=_STATUS))),
    "the status of a Pod, and more": exchange(
        _POD, put(f"{PODS}/a/status", edited(0, status=_STATUS, spec__nodeName="n", metadata__labels={"a": "b"}))
    ),
    "the status of a Pod that is not there": exchange(put(f"{PODS}/a/status", pod("a"))),
    "the status of a Pod, by a patch": exchange(_POD, patch(f"{PODS}/a/status", {"status": _STATUS})),
    "the conditions of a Pod, strategically": exchange(
        _POD,
        patch(
            f"{PODS}/a/status",
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}, {"type": "example.com/x", "status": "False"}]
                }
            },
            "application/strategic-merge-patch+json",
        ),
        patch(
            f"{PODS}/a/status",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            "application/strategic-merge-patch+json",
        ),
    ),
    "a phase that is none": exchange(_POD, patch(f"{PODS}/a/status", {"status": {"phase": "Odd"}})),
    "an address that is none": exchange(
        _POD, patch(f"{PODS}/a/status", {"status": {"podIP": "x", "podIPs": [{"ip": "x"}]}})
    ),
    "a dry run of a status": exchange(_POD, put(f"{PODS}/a/status?dryRun=All", edited(0, status=_STATUS))),
    "the status of a Service": exchange(
        made(SERVICES, service("a", type="LoadBalancer")),
        put(f"{SERVICES}/a/status", edited(0, status={"loadBalancer": {"ingress": [{"ip": "10.9.9.9"}]}})),
    ),
    "a bad status of a Service": exchange(
        made(SERVICES, service("a", type="LoadBalancer")),
        put(f"{SERVICES}/a/status", edited(0, status={"loadBalancer": {"ingress": [{"ip": "x"}]}})),
    ),
    "an ingress of a Service that is none": exchange(
        made(SERVICES, service("a")),
        put(f"{SERVICES}/a/status", edited(0, status={"loadBalancer": {"ingress": [{"ip": "10.9.9.9"}]}})),
    ),
    "the status of a Node": exchange(
        made(NODES, named("{ns}", spec={"unschedulable": True})),
        patch(
            f"{NODES}/{{ns}}/status",
            {
                "status": {
                    "capacity": {"cpu": "2", "memory": "1Gi"},
                    "addresses": [{"type": "Hostname", "address": "h"}],
                }
            },
        ),
    ),
    "the status of a Namespace": exchange(
        get(f"{NAMESPACES}/{{ns}}", compared=False),
        put(f"{NAMESPACES}/{{ns}}/status", edited(0, status={"phase": "Active", "conditions": []})),
    ),
    "the finalizers of a Namespace": exchange(
        made(NAMESPACES, named("{ns}-f")),
        put(f"{NAMESPACES}/{{ns}}-f/finalize", edited(0, spec__finalizers=["example.com/one", "kubernetes"])),
    ),
    "finalizers through the Namespace itself": exchange(
        made(NAMESPACES, named("{ns}-f")),
        put(f"{NAMESPACES}/{{ns}}-f", edited(0, spec__finalizers=["example.com/one"], metadata__labels={"a": "b"})),
    ),
    "finalize with PATCH": exchange(
        made(NAMESPACES, named("{ns}-f")), patch(f"{NAMESPACES}/{{ns}}-f/finalize", {"spec": {"finalizers": []}})
    ),
    "the status of a ConfigMap": exchange(_MAP, put(f"{MAPS}/a/status", edited(0))),
    "the scale of a ConfigMap": exchange(_MAP, get(f"{MAPS}/a/scale")),
    "a method that a status has not": exchange(_POD, made(f"{PODS}/a/status", {}), get(f"{PODS}/a/status")),
}

OWN_FAULTS: dict[str, Exchange] = {
    "update with a version that is no number": exchange(
        _MAP, put(f"{MAPS}/a", edited(0, metadata__resourceVersion="x"))
    ),
}
