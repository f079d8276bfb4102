"""`make undeploy` on the real node: it refuses while custom resources exist, and leaves nothing where none do."""

from __future__ import annotations

from tests.harness import wait_until
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import Fleet
from tests.node.operator_stage import NAMESPACE, SYSTEM, Installation

OURS = ("edgewright.dev", "flashjob.nbfc.io", "flux-framework.org", "project-flotta.io")


def definitions(cluster: RealCluster) -> list[str]:
    found = cluster.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    return [each["metadata"]["name"] for each in found if each["spec"]["group"].endswith(OURS)]


def test_make_undeploy_refuses_while_custom_resources_exist(operator: Installation, cluster: RealCluster) -> None:
    operator.until_available()
    with Fleet(cluster, NAMESPACE, count=1) as fleet:
        operator.flash("last", fleet, "0.2.0")
        operator.until_phase("last")
    done = operator.place.type("make undeploy")
    assert done.returncode != 0
    assert "1 flashjobs.application.flashjob.nbfc.io" in done.stderr
    assert "FORCE=yes" in done.stderr
    operator.until_available()
    assert operator.job("last")["status"]["phase"] == "Completed"


def test_make_undeploy_with_nothing_left_leaves_nothing(operator: Installation, cluster: RealCluster) -> None:
    before = definitions(cluster)
    assert before
    cluster.kubectl("delete", "flashjobs", "--all", "-n", NAMESPACE, "--timeout=240s")
    cluster.kubectl("delete", "devices.edgewright.dev", "--all", "--all-namespaces", "--timeout=240s")
    operator.place.typed("make undeploy")
    wait_until(
        lambda: not cluster.exists(f"/api/v1/namespaces/{SYSTEM}"), what="the namespace is gone", timeout=PATIENCE
    )
    assert definitions(cluster) == []
    for kind in ("clusterroles", "clusterrolebindings"):
        found = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        assert [each for each in found if "edgewright" in each["metadata"]["name"]] == []
    for kind in ("pods", "services"):
        assert cluster.request("GET", f"/api/v1/namespaces/{NAMESPACE}/{kind}")["items"] == []
