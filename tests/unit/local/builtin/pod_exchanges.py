"""Exchanges about Pods and PodTemplates."""

from __future__ import annotations

from typing import Any

from tests.unit.local.builtin.exchanges import Body, Change, Exchange, put, without


def container(name: str = "a", **fields: Any) -> Body:
    return {"name": name, "image": "example.com/x:1", **fields}


def pod(*containers: Body, **spec: Any) -> Body:
    return {"spec": {"containers": list(containers) or [container()], **spec}}


def new(*containers: Body, **spec: Any) -> Exchange:
    return Exchange("pod", pod(*containers, **spec))


def changed(change: Change, *containers: Body, **spec: Any) -> Exchange:
    return Exchange("pod", pod(*containers, **spec), change)


def env(**variable: Any) -> Exchange:
    return new(container(env=[{"name": "A", **variable}]))


def probe(kind: str = "livenessProbe", **fields: Any) -> Exchange:
    return new({**container(), kind: fields})


RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
SPECS: dict[str, Exchange] = {
    "a plain one": new(),
    "nothing": Exchange("pod", {}),
    "no containers": Exchange("pod", {"spec": {"containers": []}}),
    "containers that are no list": Exchange("pod", {"spec": {"containers": {"name": "a"}}}),
    "a container that is no object": Exchange("pod", {"spec": {"containers": ["a"]}}),
    "a null container": Exchange("pod", {"spec": {"containers": [None]}}),
    "an empty container": new({}),
    "the same name twice": new(container(), container()),
    "a bad name": new(container("A.b")),
    "no image": new({"name": "a"}),
    "an image with spaces": new({"name": "a", "image": " x "}),
    "images by tag": new(
        {"name": "a", "image": "x"},
        {"name": "b", "image": "x:latest"},
        {"name": "c", "image": "h:5000/x"},
        {"name": "d", "image": "h:5000/x:2"},
        {"name": "e", "image": f"x@sha256:{'0' * 64}"},
        {"name": "f", "image": f"x:latest@sha256:{'0' * 64}"},
    ),
    "empty fields": new(
        container(args=[], command=[], env=[], ports=[], resources={}, securityContext={}, tty=False, stdin=False),
        nodeSelector={},
        hostNetwork=False,
        hostPID=False,
        automountServiceAccountToken=False,
        imagePullSecrets=[],
        tolerations=[],
        volumes=[],
    ),
    "ports": new(container(ports=[{"containerPort": 80}, {"containerPort": 81, "name": "web", "protocol": "UDP"}])),
    "bad ports": new(
        container(
            ports=[
                {"containerPort": 0},
                {"containerPort": 70000, "name": "A_", "hostPort": -1, "protocol": "x"},
                {"containerPort": 1, "name": "web"},
                {"containerPort": 2, "name": "web"},
            ]
        )
    ),
    "host ports twice": new(
        container(ports=[{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}])
    ),
    "host network": new(container(ports=[{"containerPort": 80}]), hostNetwork=True),
    "host network with another port": new(container(ports=[{"containerPort": 80, "hostPort": 81}]), hostNetwork=True),
    "a port as text": new(container(ports=[{"containerPort": "80"}])),
    "a variable": env(value="b"),
    "an empty variable": env(value=""),
    "a variable without a name": new(container(env=[{"name": "", "value": "x"}])),
    "a variable with an odd name": new(container(env=[{"name": "a b-1.c"}, {"name": "a=b"}, {"name": "ü"}])),
    "a variable from a field": env(valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
    "a variable from a label": env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a']"}}),
    "a variable from a bad label": env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a b']"}}),
    "a variable from all labels": env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels"}}),
    "a variable from an unknown field": env(valueFrom={"fieldRef": {"fieldPath": "spec.x"}}),
    "a variable from a subscripted field": env(valueFrom={"fieldRef": {"fieldPath": "metadata.name['a']"}}),
    "a variable from no field": env(valueFrom={"fieldRef": {}}),
    "a variable from another version": env(valueFrom={"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}),
    "a variable from a resource": env(valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}),
    "a variable from a resource in bad parts": env(
        valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}}
    ),
    "a variable from an unknown resource": env(valueFrom={"resourceFieldRef": {"resource": "limits.x"}}),
    "a variable from keys": new(
        container(
            env=[
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": False}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ]
        )
    ),
    "a variable from bad keys": new(
        container(
            env=[
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "C", "key": "a b"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {}}},
            ]
        )
    ),
    "a variable from nothing": env(valueFrom={}),
    "a variable from two places": env(
        valueFrom={"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}
    ),
    "a variable with a value and a source": env(value="x", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
    "many variables": new(
        container(envFrom=[{"configMapRef": {"name": "c"}, "prefix": "P_"}, {"secretRef": {"name": "s"}}])
    ),
    "many variables from bad places": new(
        container(envFrom=[{}, {"prefix": "a=b", "configMapRef": {"name": "C"}}, {"configMapRef": {}, "secretRef": {}}])
    ),
    "mounts": new(
        container(
            volumeMounts=[
                {"name": "v", "mountPath": "/a", "readOnly": False},
                {"name": "v", "mountPath": "/b", "subPath": "c"},
            ]
        ),
        volumes=[{"name": "v"}],
    ),
    "bad mounts": new(
        container(
            volumeMounts=[
                {"name": "x", "mountPath": "/a"},
                {"name": "v", "mountPath": "/a"},
                {"name": "", "mountPath": ""},
                {"name": "v", "mountPath": "/c", "subPath": "/x"},
                {"name": "v", "mountPath": "/d", "subPath": "a/../b", "subPathExpr": "../x"},
            ]
        ),
        volumes=[{"name": "v"}],
    ),
    "resources": new(container(resources=RESOURCES)),
    "all resources": new(
        container(resources={"limits": {"cpu": "1", "memory": "64Mi"}}),
        initContainers=[container("i", resources={"limits": {"cpu": 1, "memory": "0.5Gi"}})],
    ),
    "resources in many forms": new(
        container(
            resources={
                "requests": {"cpu": 0.5, "memory": "1536Ki", "ephemeral-storage": "1e3"},
                "limits": {"cpu": "1500m", "memory": "1.5Gi", "ephemeral-storage": "0.1G", "example.com/x": "2"},
            }
        )
    ),
    "very small amounts": new(container(resources={"requests": {"cpu": "1u", "memory": "0.5"}})),
    "requests above limits": new(container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "1100m"}})),
    "amounts below zero": new(container(resources={"requests": {"cpu": "-1"}})),
    "unknown resources": new(
        container(resources={"requests": {"x": "1", "pods": "1", "a b": "1"}, "limits": {"example.com/y": "1500m"}})
    ),
    "a request without its limit": new(container(resources={"requests": {"example.com/x": "1"}})),
    "huge pages alone": new(container(resources={"limits": {"hugepages-2Mi": "4Mi"}})),
    "an amount that is none": new(container(resources={"limits": {"cpu": "lots"}})),
    "an amount that is a flag": new(container(resources={"limits": {"cpu": True}})),
    "policies": new(
        container(imagePullPolicy="Never", terminationMessagePolicy="FallbackToLogsOnError"),
        restartPolicy="OnFailure",
        dnsPolicy="Default",
    ),
    "bad policies": new(container(imagePullPolicy="x", terminationMessagePolicy="y"), restartPolicy="z", dnsPolicy="w"),
    "a probe": probe(httpGet={"port": 80}),
    "a whole probe": probe(
        "readinessProbe",
        tcpSocket={"port": "web"},
        initialDelaySeconds=1,
        timeoutSeconds=2,
        periodSeconds=3,
        successThreshold=4,
    ),
    "a probe by gRPC": probe("startupProbe", grpc={"port": 80}),
    "a probe by command": probe(exec={"command": ["true"]}, initialDelaySeconds=0),
    "a probe of nothing": probe(),
    "a probe of two things": probe(exec={"command": ["x"]}, httpGet={"port": 1}),
    "a bad probe": probe(exec={}, successThreshold=2, timeoutSeconds=-1, terminationGracePeriodSeconds=0),
    "a bad probe by HTTP": probe(httpGet={"port": 0, "scheme": "x", "httpHeaders": [{"name": "a b", "value": "x"}]}),
    "a bad port in a probe": probe(httpGet={"port": "A--"}),
    "a readiness probe with a grace period": probe(
        "readinessProbe", httpGet={"port": 1}, terminationGracePeriodSeconds=5
    ),
    "hooks": new(
        container(lifecycle={"preStop": {"exec": {"command": ["x"]}}, "postStart": {"httpGet": {"port": 80}}})
    ),
    "bad hooks": new(container(lifecycle={"preStop": {"sleep": {"seconds": 99}}, "postStart": {}})),
    "init containers": new(initContainers=[container("i"), container("j", restartPolicy="Always")]),
    "bad init containers": new(
        initContainers=[
            container("a"),
            container("j", lifecycle={}, livenessProbe={"exec": {"command": ["x"]}}),
            container("k", restartPolicy="x"),
        ]
    ),
    "a container with a policy of its own": new(container(restartPolicy="Never")),
    "ephemeral containers": new(ephemeralContainers=[container("e")]),
    "security": new(
        container(securityContext={"runAsUser": 0, "privileged": False, "capabilities": {"add": ["X"]}}),
        securityContext={"runAsUser": 1000, "fsGroup": 5, "supplementalGroups": [1]},
    ),
    "bad security": new(
        container(securityContext={"runAsUser": -1, "privileged": True, "allowPrivilegeEscalation": False}),
        securityContext={"runAsGroup": -1, "fsGroup": 2**40, "fsGroupChangePolicy": "x", "supplementalGroups": [-1]},
    ),
    "names": new(hostname="h", subdomain="s", nodeName="n", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a.b"]}]),
    "bad names": new(hostname="H", subdomain="a.b", nodeName="N", hostAliases=[{"ip": "x", "hostnames": ["A"]}]),
    "DNS": new(
        dnsPolicy="None",
        dnsConfig={"nameservers": ["1.1.1.1"], "searches": ["a.b."], "options": [{"name": "x", "value": ""}]},
    ),
    "DNS of nothing": new(dnsPolicy="None"),
    "DNS without servers": new(dnsPolicy="None", dnsConfig={}),
    "bad DNS": new(
        dnsConfig={"nameservers": ["a", "1.1.1.1", "1.1.1.2", "1.1.1.3"], "searches": ["A b"], "options": [{}]}
    ),
    "deadlines": new(activeDeadlineSeconds=5, terminationGracePeriodSeconds=0),
    "a bad deadline": new(activeDeadlineSeconds=0),
    "a grace period below zero": new(terminationGracePeriodSeconds=-5),
    "node selection": new(
        nodeSelector={"a": "b"},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
    ),
    "bad node selection": new(
        nodeSelector={"a b": "c d"},
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    ),
    "bad node expressions": new(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "a", "operator": "In"},
                                {"key": "b", "operator": "Exists", "values": ["x"]},
                                {"key": "", "operator": "x"},
                                {"key": "c", "operator": "Gt"},
                            ]
                        }
                    ]
                }
            }
        }
    ),
    "tolerations": new(
        tolerations=[{"key": "a", "operator": "Exists"}, {"operator": "Exists", "effect": "NoSchedule"}]
    ),
    "a toleration of everything": new(tolerations=[{"operator": "Exists"}]),
    "a toleration of a node that is not ready": new(
        tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    ),
    "bad tolerations": new(
        tolerations=[
            {"key": "a b"},
            {"operator": "Equal", "value": "x y"},
            {"key": "a", "operator": "Exists", "value": "x"},
            {"key": "a", "operator": "x", "effect": "y"},
            {"key": "b", "tolerationSeconds": 3},
            {"key": "c", "operator": "Lt", "value": "1"},
        ]
    ),
    "spreading": new(
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]
    ),
    "bad spreading": new(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x"}]),
    "gates": new(schedulingGates=[{"name": "a"}]),
    "bad gates": new(
        schedulingGates=[{"name": "a b"}, {"name": "x"}, {"name": "x"}], readinessGates=[{"conditionType": "a b"}]
    ),
    "a gate and a node": new(schedulingGates=[{"name": "a"}], nodeName="n"),
    "an operating system": new(os={"name": "linux"}),
    "an unknown operating system": new(os={"name": "x"}),
    "a process namespace for all": new(shareProcessNamespace=True),
    "a process namespace for all and the host": new(shareProcessNamespace=True, hostPID=True),
    "many searches": new(dnsConfig={"searches": ["a.b"] * 33}),
    "long searches": new(dnsConfig={"searches": [f"{'a' * 60}.{'b' * 60}"] * 30}),
    "searches of odd names": new(dnsConfig={"searches": [".", "_a._b.c"]}),
    "a plain toleration": new(tolerations=[{"key": "a", "value": "b", "effect": "NoSchedule"}]),
    "a mount of an expression": new(
        container(volumeMounts=[{"name": "v", "mountPath": "/a", "subPathExpr": "$(A)"}]), volumes=[{"name": "v"}]
    ),
    "restart rules without a policy": new(
        container(restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}])
    ),
    "a resource with a bad name": new(
        container(resources={"limits": {"example.com/": "1", "requests.example.com/x": "1"}})
    ),
    "a powerful container": new(
        container(securityContext={"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}})
    ),
    "a sleep": new(container(lifecycle={"preStop": {"sleep": {"seconds": 5}}})),
    "a variable from no resource": env(valueFrom={"resourceFieldRef": {}}),
    "a priority": new(priority=5),
    "the priority": new(priority=0),
    "a class of priority": new(priorityClassName="system-node-critical"),
    "an unknown class of priority": new(priorityClassName="mine"),
    "a policy of preemption": new(preemptionPolicy="Never"),
    "an account by its old name": new(serviceAccount="default"),
    "an unknown account": new(serviceAccountName="nobody"),
    "host users": new(hostUsers=False, hostPID=True, hostIPC=True),
    "a status": Exchange("pod", {**pod(), "status": {"phase": "Running", "podIP": "1.2.3.4"}}),
}
ENDED = {
    "name": "a",
    "image": "",
    "imageID": "",
    "ready": False,
    "restartCount": 0,
    "state": {"terminated": {"exitCode": 0}},
}
CHANGES: dict[str, Exchange] = {
    "an image": changed(put("spec.containers.0.image", "example.com/y:2")),
    "no image": changed(put("spec.containers.0.image", "")),
    "a command": changed(put("spec.containers.0.command", ["x"])),
    "another container": changed(lambda obj: obj["spec"]["containers"].append(container("b"))),
    "a deadline": changed(put("spec.activeDeadlineSeconds", 9)),
    "a later deadline": changed(put("spec.activeDeadlineSeconds", 9), activeDeadlineSeconds=5),
    "an earlier deadline": changed(put("spec.activeDeadlineSeconds", 4), activeDeadlineSeconds=5),
    "no deadline": changed(put("spec.activeDeadlineSeconds", None), activeDeadlineSeconds=5),
    "one more toleration": changed(lambda obj: obj["spec"]["tolerations"].append({"key": "x", "operator": "Exists"})),
    "no tolerations": changed(put("spec.tolerations", None)),
    "one toleration less": changed(put("spec.tolerations", []), tolerations=[{"key": "x", "operator": "Exists"}]),
    "a grace period": changed(put("spec.terminationGracePeriodSeconds", 5)),
    "a node": changed(put("spec.nodeName", "n")),
    "an account": changed(put("spec.serviceAccountName", "x")),
    "no account": changed(without("serviceAccountName", "serviceAccount")),
    "no priority": changed(without("priority", "preemptionPolicy")),
    "a gate less": changed(put("spec.schedulingGates", None), schedulingGates=[{"name": "a"}]),
    "a gate more": changed(put("spec.schedulingGates", [{"name": "a"}])),
    "labels": changed(put("metadata.labels", {"x": "y"})),
    "a status by an update": changed(put("status.phase", "Running")),
    "a status": Exchange("pod", pod(), put("status.phase", "Running"), subresource="status"),
    "an address": Exchange("pod", pod(), put("status.podIP", "10.1.2.3"), subresource="status"),
    "addresses": Exchange("pod", pod(), put("status.podIPs", [{"ip": "10.1.2.3"}]), subresource="status"),
    "the node's address": Exchange("pod", pod(), put("status.hostIP", "10.1.2.3"), subresource="status"),
    "the node's addresses alone": Exchange(
        "pod", pod(), put("status.hostIPs", [{"ip": "10.1.2.3"}]), subresource="status"
    ),
    "the node's addresses": Exchange(
        "pod", pod(), put("status", {"hostIP": "10.1.2.3", "hostIPs": [{"ip": "10.1.2.3"}]}), subresource="status"
    ),
    "a bad address": Exchange("pod", pod(), put("status.podIPs", [{"ip": "x"}]), subresource="status"),
    "a condition": Exchange(
        "pod",
        pod(),
        put("status.conditions", [{"type": "Ready", "status": "True"}, {"type": "a b", "status": "x"}]),
        subresource="status",
    ),
    "a class of quality": Exchange("pod", pod(), put("status.qosClass", "Guaranteed"), subresource="status"),
    "no class of quality": Exchange("pod", pod(), put("status.qosClass", None), subresource="status"),
    "a container's end": Exchange("pod", pod(), put("status.containerStatuses", [ENDED]), subresource="status"),
    "a spec by a status": Exchange("pod", pod(), put("spec.nodeName", "n"), subresource="status"),
}
TEMPLATES: dict[str, Exchange] = {
    "a plain one": Exchange("podtemplate", {"template": pod()}),
    "an empty one": Exchange("podtemplate", {}),
    "with labels": Exchange(
        "podtemplate", {"template": {"metadata": {"labels": {"a": "b"}}, **pod(container(resources=RESOURCES))}}
    ),
    "with bad labels": Exchange("podtemplate", {"template": {"metadata": {"labels": {"a b": "c d"}}, **pod()}}),
    "with a change": Exchange("podtemplate", {"template": pod()}, put("template.spec.containers.0.command", ["x"])),
    "with ephemeral containers": Exchange("podtemplate", {"template": pod(ephemeralContainers=[container("e")])}),
}
