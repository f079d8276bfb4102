"""Exchanges about Pods: what is filled in and refused, bindings, logs, tables and watches."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.bodies import PODS, TABLE, named, pod
from tests.cluster.differential.exchange import Exchange, delete, exchange, get, made, patch, post, watch

_FULL: dict[str, Any] = {
    "restartPolicy": "Never",
    "volumes": [
        {"name": "e", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "m"}},
        {"name": "s", "secret": {"secretName": "x", "optional": True}},
        {"name": "d", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "m"}}]}},
    ],
    "initContainers": [{"name": "i", "image": "x"}],
    "containers": [
        {
            "name": "c",
            "image": "example:1",
            "ports": [{"containerPort": 80}],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "envFrom": [{"secretRef": {"name": "x"}}],
            "volumeMounts": [{"name": "e", "mountPath": "/e"}],
            "resources": {"requests": {"cpu": "0.5"}, "limits": {"memory": "1024Mi"}},
            "livenessProbe": {"httpGet": {"port": 80}},
            "lifecycle": {"preStop": {"exec": {"command": ["a"]}}},
        }
    ],
}

POD: dict[str, Exchange] = {
    "the least": exchange(post(PODS, pod("a"))),
    "with much": exchange(post(PODS, pod("a", **_FULL))),
    "without containers": exchange(post(PODS, pod("a", containers=[]))),
    "without a spec": exchange(post(PODS, named("a"))),
    "a container twice": exchange(post(PODS, pod("a", containers=[{"name": "c", "image": "i"}] * 2))),
    "a volume that is not there": exchange(
        post(
            PODS, pod("a", containers=[{"name": "c", "image": "i", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}])
        )
    ),
    "bad fields": exchange(
        post(
            PODS,
            pod(
                "a",
                restartPolicy="Sometimes",
                dnsPolicy="Odd",
                terminationGracePeriodSeconds=-1,
                activeDeadlineSeconds=0,
                containers=[{"name": "C", "image": "", "imagePullPolicy": "Odd", "ports": [{"containerPort": 0}]}],
            ),
        )
    ),
    "bad resources": exchange(
        post(
            PODS,
            pod(
                "a",
                containers=[
                    {
                        "name": "c",
                        "image": "i",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1", "x": "y"}},
                    }
                ],
            ),
        )
    ),
    "with a status": exchange(post(PODS, {**pod("a"), "status": {"phase": "Running"}})),
    "of an account that is not there": exchange(post(PODS, pod("a", serviceAccountName="none"))),
    "of a priority class that is not there": exchange(post(PODS, pod("a", priorityClassName="none"))),
    "of a runtime class that is not there": exchange(post(PODS, pod("a", runtimeClassName="none"))),
    "a name that is long": exchange(post(PODS, pod("a" * 64))),
    "a toleration": exchange(post(PODS, pod("a", tolerations=[{"operator": "Exists"}]))),
    "an ephemeral volume": exchange(post(PODS, pod("a", volumes=[{"name": "v", "ephemeral": {}}]))),
    "a host path": exchange(post(PODS, pod("a", volumes=[{"name": "v", "hostPath": {"path": "/x"}}]))),
    "on the network of the host": exchange(
        post(
            PODS, pod("a", hostNetwork=True, containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}])
        )
    ),
    "guaranteed": exchange(
        post(
            PODS,
            pod("a", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]),
        )
    ),
    "security contexts": exchange(
        post(
            PODS,
            pod(
                "a",
                securityContext={"runAsUser": 1000, "runAsNonRoot": True, "fsGroup": 5},
                containers=[{"name": "c", "image": "i", "securityContext": {"allowPrivilegeEscalation": False}}],
            ),
        )
    ),
    "a bad user": exchange(post(PODS, pod("a", securityContext={"runAsUser": -1}))),
    "bound to a node": exchange(
        made(PODS, pod("a")),
        post(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}),
    ),
    "bound twice": exchange(
        made(PODS, pod("a", nodeName="m")),
        post(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}),
    ),
    "bound that is not there": exchange(
        post(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}})
    ),
    "bound through bindings": exchange(
        made(PODS, pod("a")),
        post(
            "/api/v1/namespaces/{ns}/bindings",
            {"metadata": {"name": "a"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}},
        ),
        get(f"{PODS}/a"),
        stored=False,
    ),
    "logs of one without a node": exchange(made(PODS, pod("a")), get(f"{PODS}/a/log"), stored=False),
    "logs of one that is not there": exchange(get(f"{PODS}/a/log")),
    "logs of the only container after another one": exchange(
        made(PODS, pod("a", initContainers=[{"name": "i", "image": "x"}])), get(f"{PODS}/a/log"), stored=False
    ),
    "logs of one of several containers": exchange(
        made(
            PODS,
            pod(
                "a",
                initContainers=[{"name": "i", "image": "x"}],
                containers=[{"name": "c", "image": "x"}, {"name": "d", "image": "x"}],
            ),
        ),
        get(f"{PODS}/a/log"),
        get(f"{PODS}/a/log?container=i"),
        stored=False,
    ),
    "logs of a container that is not there": exchange(
        made(PODS, pod("a", nodeName="n")), get(f"{PODS}/a/log?container=x"), stored=False
    ),
    "logs of one of several": exchange(
        made(PODS, pod("a", containers=[{"name": "c", "image": "i"}, {"name": "d", "image": "i"}])),
        get(f"{PODS}/a/log"),
    ),
    "logs with a bad option": exchange(made(PODS, pod("a")), get(f"{PODS}/a/log?tailLines=-1")),
    "running, as a Table": exchange(
        made(PODS, pod("a", nodeName="n")),
        patch(
            f"{PODS}/a/status",
            {
                "status": {
                    "phase": "Running",
                    "podIP": "10.1.2.3",
                    "podIPs": [{"ip": "10.1.2.3"}],
                    "containerStatuses": [
                        {
                            "name": "c",
                            "ready": True,
                            "restartCount": 2,
                            "image": "example",
                            "imageID": "",
                            "started": True,
                            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                        }
                    ],
                }
            },
            compared=False,
        ),
        get(f"{PODS}/a", TABLE),
    ),
    "a watch of its life": exchange(
        watch(f"{PODS}?watch=true", 5),
        made(PODS, pod("a", nodeName="n")),
        patch(f"{PODS}/a/status", {"status": {"phase": "Running"}}, compared=False),
        delete(f"{PODS}/a?gracePeriodSeconds=5", compared=False),
        delete(f"{PODS}/a?gracePeriodSeconds=0", compared=False),
    ),
}

OWN_FAULTS: dict[str, Exchange] = {
    "bind a Pod to nothing": exchange(
        made(PODS, pod("a")), post(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {}})
    ),
}
