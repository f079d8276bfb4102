"""Charts with what only the real API server has today: Deployments, and objects without a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.charts.chart_stage import GROUP, LIMIT, MERGE, ChartStage
from tests.harness import ControlPlane, repetition, wait_until


@pytest.fixture
def real(cluster: ControlPlane, tmp_path: Path) -> Iterator[ChartStage]:
    """The real API server, with an operator."""
    stage = ChartStage(cluster, tmp_path)
    with stage.operator():
        yield stage


def test_a_cluster_scoped_object_that_drifts_is_put_right(
    cluster: ControlPlane, real: ChartStage, namespace: str
) -> None:
    weaks = real.in_namespace(namespace)
    weaks.create("role", clusterRole=True)
    weaks.until("role", "Ready", "True")
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{namespace}-role"
    rules = cluster.request("GET", path)["rules"]
    cluster.request("PATCH", path, {"rules": []}, content_type=MERGE)
    wait_until(lambda: cluster.request("GET", path)["rules"] == rules, what="the rules are back", timeout=LIMIT)
    cluster.request("DELETE", path)
    wait_until(lambda: cluster.exists(path), what="the ClusterRole is back", timeout=LIMIT)
    weaks.delete("role")
    assert not cluster.exists(path)


def test_ready_waits_for_a_cluster_scoped_object_of_a_custom_kind(
    cluster: ControlPlane, real: ChartStage, namespace: str
) -> None:
    real.serve("Part", "Cluster")
    weaks = real.in_namespace(namespace)
    weaks.create("whole", part=True)
    weaks.until("whole", "Ready", "True")  # it has said nothing yet: kstatus takes that for ready
    path = f"/apis/{GROUP}/v1alpha1/parts/{namespace}-whole/status"

    def say(status: str, message: str) -> None:
        condition = {"type": "Ready", "status": status, "message": message}
        cluster.request("PATCH", path, {"status": {"conditions": [condition]}}, content_type=MERGE)

    say("False", "it is too cold")
    waiting = weaks.until("whole", "Ready", "Unknown", reason="DependentsNotReady")
    assert waiting["message"] == f"Part {namespace}-whole: it is not ready: it is too cold"
    say("True", "")
    weaks.until("whole", "Ready", "True")


def test_the_replicas_of_an_autoscaler_are_left_alone(cluster: ControlPlane, real: ChartStage, namespace: str) -> None:
    weaks = real.in_namespace(namespace)
    weaks.create("scaled", deployment=True)
    weaks.until("scaled", "Deployed", "True")
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/scaled"

    def scale(replicas: int, manager: str) -> None:
        body = {"spec": {"replicas": replicas}}
        cluster.request("PATCH", f"{path}/scale?fieldManager={manager}", body, content_type=MERGE)

    def replicas() -> int:
        return int(cluster.request("GET", path)["spec"]["replicas"])

    scale(3, "kubectl")
    wait_until(lambda: replicas() == 1, what="a person's scaling is taken back", timeout=LIMIT)
    scale(4, "kube-controller-manager")
    cluster.request("PATCH", path, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}}}, content_type=MERGE)
    wait_until(
        lambda: cluster.request("GET", path)["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm",
        what="the label is put right",
        timeout=LIMIT,
    )
    assert replicas() == 4


@pytest.mark.repeated
def test_a_restarted_operator_asks_helm_for_nothing_and_changes_nothing(
    cluster: ControlPlane, tmp_path: Path, namespace: str
) -> None:
    stage = ChartStage(cluster, tmp_path)
    weaks = stage.in_namespace(namespace)
    names = [f"many-{number}" for number in range(repetition.times(12, 200))]
    # The first wait is for all of them, and the one after the restart for a pass over each: as much longer as there
    # are more of them. Two hundred take half a minute on a quiet machine and many times that on a busy one.
    patience = LIMIT * repetition.times(1, 10)

    def versions() -> dict[str, str]:
        """What changes with every write of any object in the namespace; Leases and Events are not of a release."""
        found = {}
        for path in (f"{weaks.core}/configmaps", f"{weaks.core}/services", f"{weaks.core}/secrets", weaks.path("")):
            for each in cluster.request("GET", path)["items"]:
                if not each["metadata"]["name"].startswith(("later", "sh.helm.release.v1.later")):
                    found[f"{path}/{each['metadata']['name']}"] = each["metadata"]["resourceVersion"]
        return found

    with stage.operator(namespace=namespace, name="before"):
        for name in names:
            weaks.create(name, random=True)
        for name in names:
            weaks.until(name, "Ready", "True", timeout=patience)
    before = versions()
    with stage.operator(namespace=namespace, name="after") as operator:
        # Later than the pass over all of them: those that are there at the start are passed over in their order.
        weaks.create("later")
        weaks.until("later", "Ready", "True", timeout=patience)
        for name in names:
            cluster.request("PATCH", weaks.path(name), {"metadata": {"labels": {"look": "again"}}}, content_type=MERGE)
        weaks.change("later", greeting="again")
        weaks.until_greeting("later", "again")
        operator.until_said("Upgraded release")
        assert [each["release"] for each in operator.said("Installed release")] == ["later"]
        assert {each["release"] for each in operator.said("Upgraded release")} == {"later"}
    mine = {path: version for path, version in versions().items() if not path.startswith(weaks.path(""))}
    assert mine == {path: version for path, version in before.items() if not path.startswith(weaks.path(""))}
