"""The node itself: before anything of ours is asked of it, it runs a Pod as any cluster does."""

from __future__ import annotations

from tests.harness import wait_until
from tests.node.cluster import PATIENCE, RealCluster, ready_pods
from tests.node.room import CGROUPS


def test_a_pod_becomes_ready_in_a_namespace_that_enforces_the_restricted_standard(cluster: RealCluster) -> None:
    namespace = cluster.create_namespace("node")
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1234,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "pause", "image": cluster.image("pause"), "securityContext": context}
    pod = {"metadata": {"name": "first"}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    wait_until(lambda: ready_pods(cluster.pods(namespace)), what="the Pod is ready", timeout=PATIENCE)
    assert cluster.container_pids()
    assert (CGROUPS / "pids").is_dir()
    cluster.kubectl("delete", "namespace", namespace, "--timeout=240s")
