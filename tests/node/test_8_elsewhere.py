"""Other ways to be installed on the real node: in one namespace alone, and as the operator of somebody's chart."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from edgewright.devices.simulated.journal import Did
from tests.acceptance.flashjob_stage import Place
from tests.harness import wait_until
from tests.images.helm_actions import helm
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.images import SCAFFOLD
from tests.node.lan import Fleet
from tests.node.layout import REGISTRY
from tests.node.operator_stage import SYSTEM, Installation
from tests.node.rights import granted, refused

MINIMARTS: Final = "/apis/charts.samutup.com/v1alpha1/namespaces/default/minimarts"
PACKED: Final = "packed"


def wide_rights(cluster: RealCluster) -> set[str]:
    """The resources on which the operator has rights in the whole cluster."""
    everywhere = granted(cluster, namespaced=False)
    return {each.resource for each in everywhere if each.account == "edgewright-controller-manager"}


def test_in_one_namespace_it_flashes_with_roles_there_and_few_rights_in_the_cluster(
    operator: Installation, cluster: RealCluster
) -> None:
    arguments = " ".join(operator.arguments())
    image = cluster.image("edgewright")
    operator.place.typed(f"make deploy CONFIG=config/namespaced IMG={image} REPLICAS=1 ARGS='{arguments}'")
    operator.until_available()
    assert not wide_rights(cluster) & {"secrets", "pods", "services", "flashjobs", "configmaps", "jobs", "statefulsets"}
    before = len(cluster.audit_events())
    with Fleet(cluster, SYSTEM, count=2, faults=["slow:500=2"]) as fleet:
        first, second = fleet.uids()
        operator.flash("here", first, "0.2.0", namespace=SYSTEM)
        assert operator.until_phase("here", namespace=SYSTEM)["phase"] == "Completed"
        assert fleet.versions()[0] == "0.2.0"
        assert refused(cluster.audit_events()[before:]) == []
        operator.flash("cut", second, "0.2.0", namespace=SYSTEM)
        wait_until(
            lambda: fleet.journals()[fleet.addresses[1]].count(Did.WRITING), what="it is written", timeout=PATIENCE
        )
        free_what_a_removed_operator_left(operator, cluster)
        assert not [journal for journal in fleet.journals().values() if journal.written_by_two_at_once]


def free_what_a_removed_operator_left(operator: Installation, cluster: RealCluster) -> None:
    """The operator goes in mid-flash; `edgewright cleanup --claims` frees the device, and nothing of it stays."""
    cleanup = f"{sys.executable} -m edgewright cleanup --claims"
    done = operator.place.type(cleanup)
    assert done.returncode != 0
    assert "stop the operator first" in done.stderr
    deployment = "edgewright-controller-manager"
    cluster.kubectl("scale", "deployment", deployment, "-n", SYSTEM, "--replicas=0")
    wait_until(
        lambda: not cluster.pods(SYSTEM, "control-plane=controller-manager"), what="it is gone", timeout=PATIENCE
    )
    cluster.kubectl("delete", "flashjobs", "--all", "-n", SYSTEM, "--wait=false")
    said = operator.place.typed(cleanup)
    assert " is free" in said
    assert "FlashJob edgewright-system/cut is let go" in said
    assert operator.place.typed(cleanup).strip() == "no flash was left"
    cluster.kubectl("delete", "devices.edgewright.dev", "--all", "--timeout=240s")
    operator.place.typed("make undeploy CONFIG=config/namespaced")
    wait_until(
        lambda: not cluster.exists(f"/api/v1/namespaces/{SYSTEM}"), what="the namespace is gone", timeout=PATIENCE
    )


# --- the operator of somebody's chart --------------------------------------------------------------------------------


def serves(cluster: RealCluster, name: str) -> None:
    """Somebody makes an object of the chart's kind, its release runs a Pod, and goes with the object."""
    image = {"repository": f"{REGISTRY}/pause", "tag": "test"}
    document = {
        "apiVersion": "charts.samutup.com/v1alpha1",
        "kind": "Minimart",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"image": image, "service": {"type": "ClusterIP"}},
    }
    cluster.kubectl("apply", "-f", "-", input=json.dumps(document))

    def deployed() -> bool:
        conditions = cluster.request("GET", f"{MINIMARTS}/{name}").get("status", {}).get("conditions", ())
        return any(each["type"] == "Deployed" and each["status"] == "True" for each in conditions)

    def running() -> bool:
        pods = cluster.pods("default")
        return any(each["metadata"]["name"].startswith(name) and each["status"]["phase"] == "Running" for each in pods)

    wait_until(deployed, what="the release is deployed", timeout=PATIENCE)
    wait_until(running, what="its Pod runs", timeout=PATIENCE)
    cluster.kubectl("delete", "minimart", name, "-n", "default", "--timeout=240s")


def until_one_is_available(cluster: RealCluster, namespace: str) -> dict[str, Any]:
    def available() -> dict[str, Any] | None:
        found = cluster.request("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]
        return found[0] if found and found[0]["status"].get("availableReplicas") == 1 else None

    return wait_until(available, what=f"the operator in {namespace} is available", timeout=PATIENCE)


def test_the_scaffold_of_a_chart_is_deployed_on_the_image_for_charts_and_packed_as_a_chart_itself(
    cluster: RealCluster, tmp_path: Path
) -> None:
    project = Place(cluster, shutil.copytree(cluster.scaffold, tmp_path / SCAFFOLD))
    image = cluster.image(SCAFFOLD)
    project.typed(f"make deploy IMG={image}")
    system = f"{SCAFFOLD}-system"
    made = until_one_is_available(cluster, system)
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == image
    serves(cluster, "first")
    project.typed("make undeploy")
    packed = project.folder / project.typed(f"make chart IMG={image}").splitlines()[-1]
    about: dict[str, Any] = {
        "chart": str(packed),
        "release": "mart",
        "namespace": PACKED,
        "kubeconfig": str(cluster.kubeconfig),
    }
    helm("install", **about)
    until_one_is_available(cluster, PACKED)
    serves(cluster, "second")
    helm("uninstall", **about)
    assert cluster.exists("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/minimarts.charts.samutup.com")
    cluster.kubectl("delete", "crd", "minimarts.charts.samutup.com", "--timeout=240s")
    cluster.kubectl("delete", "namespace", PACKED, "--wait=false")
