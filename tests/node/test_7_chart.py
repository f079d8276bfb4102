"""The chart of the offline bundle on the real node: installed with Helm, and its hook that refuses to go too early."""

from __future__ import annotations

from typing import Any, Final

from edgewright import __version__
from edgewright.devices.simulated.journal import Did
from tests.harness import wait_until
from tests.images.helm_actions import helm
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import ATTESTATION_PORT, Fleet
from tests.node.layout import FLEET_ADDRESS, REGISTRY
from tests.node.operator_stage import NAMESPACE, RESTRICTED, SYSTEM, Installation, check_devices

RELEASE: Final = "edgewright"


def on(cluster: RealCluster, verb: str, **asked: Any) -> Any:
    chart = str(cluster.bundle / f"edgewright-chart-{__version__}.tgz")
    about: dict[str, Any] = {
        "chart": chart,
        "release": RELEASE,
        "namespace": SYSTEM,
        "kubeconfig": str(cluster.kubeconfig),
    }
    return helm(verb, **about, **asked)


def test_the_chart_of_the_bundle_installs_and_its_hook_refuses_while_a_flash_runs(
    operator: Installation, cluster: RealCluster
) -> None:
    cluster.kubectl("create", "namespace", SYSTEM)
    cluster.kubectl("label", "namespace", SYSTEM, RESTRICTED)
    values = {
        "image": {"digest": cluster.digests["edgewright"]},
        "flashjob": {
            "flasherImage": cluster.image("flasher"),
            "plainRegistries": [REGISTRY],
            "attestation": f"http://{FLEET_ADDRESS}:{ATTESTATION_PORT}",
        },
        "gateway": {"enabled": False},
    }
    on(cluster, "install", values=values)
    operator.until_available()
    with Fleet(cluster, NAMESPACE, count=1, faults=["slow:500=1"]) as fleet:
        operator.flash("held", fleet, "0.2.0")
        wait_until(lambda: fleet.count(Did.WRITING), what="a device is being written", timeout=PATIENCE)
        assert "pre-delete" in on(cluster, "uninstall", fails=True)
        said = cluster.kubectl("logs", "-n", SYSTEM, "job/edgewright-pre-delete").stdout
        assert "1 flashjobs.application.flashjob.nbfc.io" in said
        assert "1 flashes that run" in said
        assert len(cluster.pods(SYSTEM, "control-plane=controller-manager")) == 2
        assert operator.until_phase("held")["phase"] == "Completed"
        check_devices(fleet, "0.2.0")
        assert "pre-delete" in on(cluster, "uninstall", fails=True)
        said = cluster.kubectl("logs", "-n", SYSTEM, "job/edgewright-pre-delete").stdout
        assert "1 flashjobs.application.flashjob.nbfc.io" in said
        assert "flashes that run" not in said
        operator.delete("held")


def test_with_nothing_left_the_chart_goes_and_only_the_kinds_stay(operator: Installation, cluster: RealCluster) -> None:
    on(cluster, "uninstall")
    wait_until(lambda: not cluster.pods(SYSTEM), what="no Pod is left", timeout=PATIENCE)
    for kind in ("clusterroles", "clusterrolebindings"):
        found = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        assert [each for each in found if "edgewright" in each["metadata"]["name"]] == []
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/devices.edgewright.dev"
    assert cluster.exists(definition)
