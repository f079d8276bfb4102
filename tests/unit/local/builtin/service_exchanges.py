"""Exchanges about Services."""

from __future__ import annotations

from typing import Any

from tests.unit.local.builtin.exchanges import Body, Change, Exchange, put, without

PORT: Body = {"port": 80}


def service(*ports: Body, **spec: Any) -> Body:
    return {"spec": {"ports": list(ports) or [PORT], **spec}}


def new(*ports: Body, **spec: Any) -> Exchange:
    return Exchange("service", service(*ports, **spec))


def changed(change: Change, *ports: Body, **spec: Any) -> Exchange:
    return Exchange("service", service(*ports, **spec), change)


def status(ingress: list[Body], **spec: Any) -> Exchange:
    return Exchange("service", service(**spec), put("status.loadBalancer.ingress", ingress), subresource="status")


BALANCED = {"type": "LoadBalancer"}
NEW: dict[str, Exchange] = {
    "a plain one": new(),
    "nothing": Exchange("service", {}),
    "no ports": Exchange("service", {"spec": {"ports": []}}),
    "a selector": new(selector={"a": "b"}),
    "a bad selector": new(selector={"a b": "c d"}),
    "an empty selector": new(selector={}, externalIPs=[], publishNotReadyAddresses=False),
    "ports": new(
        {"name": "a", "port": 1, "targetPort": "web"}, {"name": "b", "port": 1, "protocol": "UDP", "targetPort": 9}
    ),
    "bad ports": new(
        {"port": 0},
        {"port": 70000, "name": "A_", "protocol": "x", "targetPort": "--", "appProtocol": "a b"},
        {"port": 1, "name": "c", "targetPort": 70000},
        {"port": 2, "name": "c"},
        {"port": 2, "name": "d"},
    ),
    "a target of no name": new({"port": 5, "targetPort": ""}),
    "a target of a wrong type": new({"port": 5, "targetPort": True}),
    "a node port": new({"port": 80, "nodePort": 30023}),
    "headless": new(clusterIP="None"),
    "headless with a selector": new(clusterIP="None", selector={"a": "b"}),
    "headless without ports": Exchange("service", {"spec": {"clusterIP": "None"}}),
    "headless in a list": new(clusterIP="None", clusterIPs=["None", "10.96.1.2"]),
    "headless for one family": new(clusterIP="None", ipFamilyPolicy="SingleStack"),
    "an address": new(clusterIP="10.96.5.77"),
    "an address elsewhere": new(clusterIP="192.168.1.1"),
    "an address of another family": new(clusterIP="fd00::1"),
    "an address that is none": new(clusterIP="x"),
    "addresses without the first": new(clusterIPs=["10.96.5.78"]),
    "addresses that differ": new(clusterIP="10.96.5.79", clusterIPs=["10.96.5.80"]),
    "too many addresses": new(clusterIP="10.96.5.81", clusterIPs=["10.96.5.81", "10.96.5.82", "fd00::1"]),
    "a family": new(ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack"),
    "another family": new(ipFamilies=["IPv6"]),
    "bad families": new(ipFamilies=["IPv4", "IPv4", "IPX"], ipFamilyPolicy="x"),
    "both families if possible": new(ipFamilyPolicy="PreferDualStack"),
    "both families": new(ipFamilyPolicy="RequireDualStack"),
    "a name elsewhere": Exchange("service", {"spec": {"type": "ExternalName", "externalName": "example.com."}}),
    "no name elsewhere": Exchange("service", {"spec": {"type": "ExternalName"}}),
    "a bad name elsewhere": Exchange(
        "service",
        {"spec": {"type": "ExternalName", "externalName": "A b", "clusterIP": "10.96.5.90", "ipFamilies": ["IPv4"]}},
    ),
    "of an unknown type": new(type="x"),
    "at nodes": new(
        {"name": "a", "port": 80},
        {"name": "b", "port": 80, "protocol": "UDP"},
        {"name": "c", "port": 81},
        type="NodePort",
    ),
    "at a port of nodes": new({"port": 80, "nodePort": 30050}, type="NodePort"),
    "at a port of nodes that is none": new({"port": 80, "nodePort": 80}, type="NodePort"),
    "at one port of nodes twice": new(
        {"name": "a", "port": 80, "nodePort": 30051}, {"name": "b", "port": 81, "nodePort": 30051}, type="NodePort"
    ),
    "headless at nodes": new(type="NodePort", clusterIP="None"),
    "balanced": new(**BALANCED),
    "balanced without node ports": new(**BALANCED, allocateLoadBalancerNodePorts=False),
    "balanced where Pods are": new(**BALANCED, externalTrafficPolicy="Local"),
    "balanced for some": new(**BALANCED, loadBalancerSourceRanges=["10.0.0.0/8", " 1.2.3.4/32 "]),
    "balanced for nobody": new(**BALANCED, loadBalancerSourceRanges=["10.0.0.0", "x", "1.2.3.4/33"]),
    "for some without balance": new(loadBalancerSourceRanges=["10.0.0.0/8"]),
    "for some by annotation": Exchange(
        "service",
        {
            "metadata": {"annotations": {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8,x"}},
            **service(),
        },
    ),
    "balanced by a class": new(**BALANCED, loadBalancerClass="example.com/x"),
    "balanced by a bad class": new(**BALANCED, loadBalancerClass="a b"),
    "a class without balance": new(loadBalancerClass="example.com/x", allocateLoadBalancerNodePorts=True),
    "balanced at an address": new(**BALANCED, loadBalancerIP="1.2.3.4"),
    "headless and balanced": new(**BALANCED, clusterIP="None"),
    "a policy of traffic": new(internalTrafficPolicy="Local"),
    "bad policies of traffic": new(internalTrafficPolicy="x", externalTrafficPolicy="y", trafficDistribution="z"),
    "a bad policy of outer traffic": new(**BALANCED, externalTrafficPolicy="y"),
    "a health check": new(healthCheckNodePort=30077),
    "a distribution of traffic": new(trafficDistribution="PreferClose"),
    "affinity": new(sessionAffinity="ClientIP"),
    "affinity for a while": new(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 5}}),
    "affinity for too long": new(
        sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 99999}}
    ),
    "affinity of nothing": new(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 5}}),
    "bad affinity": new(sessionAffinity="x"),
    "addresses from outside": new(externalIPs=["1.2.3.4"]),
    "bad addresses from outside": new(externalIPs=["127.0.0.1", "x", "0.0.0.0"]),
    "a status": Exchange(
        "service", {**service(**BALANCED), "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    ),
}
CHANGES: dict[str, Exchange] = {
    "a selector": changed(put("spec.selector", {"x": "y"})),
    "an address": changed(put("spec.clusterIP", "10.96.7.7")),
    "both addresses": changed(lambda obj: obj["spec"].update(clusterIP="10.96.7.8", clusterIPs=["10.96.7.8"])),
    "no address": changed(without("clusterIP", "clusterIPs")),
    "headless": changed(lambda obj: obj["spec"].update(clusterIP="None", clusterIPs=["None"])),
    "headless no more": changed(lambda obj: obj["spec"].update(clusterIP="", clusterIPs=[]), clusterIP="None"),
    "a port": changed(put("spec.ports", [{"port": 81}])),
    "no ports": changed(put("spec.ports", [])),
    "at nodes": changed(put("spec.type", "NodePort")),
    "at nodes no more": changed(put("spec.type", "ClusterIP"), type="NodePort"),
    "another port of nodes": changed(put("spec.ports.0.nodePort", 30019), type="NodePort"),
    "no port of nodes": changed(put("spec.ports.0.nodePort", None), type="NodePort"),
    "balanced": changed(put("spec.type", "LoadBalancer")),
    "balanced no more": changed(put("spec.type", "ClusterIP"), **BALANCED, loadBalancerClass="example.com/x"),
    "balanced where Pods are": changed(put("spec.externalTrafficPolicy", "Local"), **BALANCED),
    "balanced where Pods are no more": changed(
        put("spec.externalTrafficPolicy", "Cluster"), **BALANCED, externalTrafficPolicy="Local"
    ),
    "another class": changed(
        put("spec.loadBalancerClass", "example.com/y"), **BALANCED, loadBalancerClass="example.com/x"
    ),
    "a name elsewhere": changed(lambda obj: obj["spec"].update(type="ExternalName", externalName="example.com")),
    "a name elsewhere no more": Exchange(
        "service",
        {"spec": {"type": "ExternalName", "externalName": "example.com"}},
        lambda obj: obj["spec"].update(type="ClusterIP", ports=[{"port": 1}]),
    ),
    "a family": changed(put("spec.ipFamilies", ["IPv6"])),
    "a policy of families": changed(put("spec.ipFamilyPolicy", None)),
    "a name of a port": changed(put("spec.ports.0.name", "x"), type="NodePort"),
    "another family in front": changed(put("spec.ipFamilies", ["IPv6", "IPv4"]), clusterIP="None"),
    "no families": changed(put("spec.ipFamilies", []), clusterIP="None"),
    "a class and no balance": changed(put("spec.loadBalancerClass", "example.com/x")),
    "the ranges by annotation": changed(
        put("metadata.annotations", {"service.beta.kubernetes.io/load-balancer-source-ranges": " "}), **BALANCED
    ),
    "a status by an update": changed(put("status.loadBalancer.ingress", [{"ip": "1.2.3.4"}]), **BALANCED),
    "a balancer's address": status([{"ip": "1.2.3.4"}], **BALANCED),
    "a balancer's name": status([{"hostname": "a.b"}], **BALANCED),
    "a balancer's bad addresses": status(
        [
            {"ip": "x"},
            {"hostname": "1.2.3.4"},
            {"hostname": "A"},
            {"hostname": "a", "ipMode": "VIP"},
            {"ip": "1.1.1.1", "ipMode": "x"},
        ],
        **BALANCED,
    ),
    "an address without a balancer": status([{"ip": "1.2.3.4"}]),
}
