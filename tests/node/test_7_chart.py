"""The chart of the offline bundle on the real node: installed with Helm, its gateway, its hook that refuses to go."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from edgewright import __version__
from edgewright.devices.simulated.journal import Did
from tests.harness import Process, wait_until
from tests.images.helm_actions import helm
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import ATTESTATION_PORT, DEVICES, Fleet, Pool
from tests.node.layout import FLEET_ADDRESS, LAN_ADDRESS, REGISTRY
from tests.node.operator_stage import NAMESPACE, RESTRICTED, SYSTEM, Installation, check_devices, condition

RELEASE: Final = "edgewright"
AGENTS: Final = 3
EDGE: Final = f"/apis/management.project-flotta.io/v1alpha1/namespaces/{SYSTEM}"
WORKLOAD: Final = {
    "apiVersion": "management.project-flotta.io/v1alpha1",
    "kind": "EdgeWorkload",
    "metadata": {"name": "w", "namespace": SYSTEM},
    "spec": {"type": "pod", "deviceSelector": {}, "pod": {"spec": {"containers": [{"name": "a", "image": "a"}]}}},
}


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
        "gateway": {"enabled": True, "replicas": 2, "service": {"type": "LoadBalancer"}},
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


class Agents:
    """Agents of edge devices in the namespace of the devices: they reach the gateway by its Service alone."""

    def __init__(self, cluster: RealCluster, address: str) -> None:
        file = cluster.kubeconfig_for("site", ["system:masters"], server=f"https://{LAN_ADDRESS}:{cluster.port}")
        command = [sys.executable, "-m", "edgewright", "simulate", "edge", "--agents", str(AGENTS)]
        options = ["--server", address, "--kubeconfig", str(file), "--namespace", SYSTEM]
        self.process = Process(
            "agents",
            ["/usr/bin/nsenter", f"--net=/run/netns/{DEVICES}", *command, *options],
            log=cluster.room / "agents.log",
            ready=lambda: f"{AGENTS} of {AGENTS} registered" in self.process.output(),
        )

    def __enter__(self) -> Process:
        self.process.start()
        self.process.wait_ready()
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.terminate()


def test_edge_devices_come_in_through_the_service_of_the_charts_gateway(
    operator: Installation, cluster: RealCluster, pool: Pool
) -> None:
    def given() -> str:
        service = cluster.request("GET", f"/api/v1/namespaces/{SYSTEM}/services/{RELEASE}-gateway")
        return next((each["ip"] for each in service["status"]["loadBalancer"].get("ingress", ())), "")

    def devices() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = cluster.request("GET", f"{EDGE}/edgedevices")["items"]
        return found

    def all_are(word: str) -> bool:
        return [condition(each.get("status", {}), word) for each in devices()] == ["True"] * AGENTS

    def phases() -> list[dict[str, str]]:
        told = [each.get("status", {}).get("workloads", ()) for each in devices()]
        return [{each["name"]: each["phase"] for each in workloads} for workloads in told]

    operator.until_available()
    address = wait_until(given, what="the Service has an address", timeout=PATIENCE)
    with Agents(cluster, address) as agents:
        wait_until(lambda: all_are("Registered"), what="all are registered", timeout=PATIENCE)
        wait_until(lambda: all_are("Online"), what="all are online", timeout=PATIENCE)
        first, _ = cluster.pods(SYSTEM, "control-plane=gateway")
        cluster.kubectl("delete", "pod", "-n", SYSTEM, first["metadata"]["name"])
        cluster.kubectl("apply", "-f", "-", input=json.dumps(WORKLOAD))
        running = [{"w": "Running"}] * AGENTS
        wait_until(lambda: phases() == running, what="all run it at the replica that is left", timeout=PATIENCE)
        cluster.kubectl("delete", "edgeworkloads,edgedevices", "--all", "-n", SYSTEM, "--timeout=240s")
        wait_until(lambda: not agents.running, what="all were told to go", timeout=PATIENCE)
        assert f"{AGENTS} disconnected" in agents.output()
    # What was decided about their ids stays until somebody removes it.
    assert (
        "edgedevicesignedrequest"
        in on(cluster, "uninstall", fails=True)
        + cluster.kubectl("logs", "-n", SYSTEM, "job/edgewright-pre-delete").stdout
    )
    cluster.kubectl("delete", "edgedevicesignedrequest", "--all", "-n", SYSTEM)
    operator.until_available()


def test_with_nothing_left_the_chart_goes_and_only_the_kinds_stay(operator: Installation, cluster: RealCluster) -> None:
    on(cluster, "uninstall")
    wait_until(lambda: not cluster.pods(SYSTEM), what="no Pod is left", timeout=PATIENCE)
    for kind in ("clusterroles", "clusterrolebindings"):
        found = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        assert [each for each in found if "edgewright" in each["metadata"]["name"]] == []
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/devices.edgewright.dev"
    assert cluster.exists(definition)
