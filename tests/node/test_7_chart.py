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
from tests.node.lan import ATTESTATION_PORT, DEVICES, Fleet
from tests.node.layout import FLEET_ADDRESS, LAN_ADDRESS, REGISTRY
from tests.node.operator_stage import NAMESPACE, RESTRICTED, SYSTEM, Installation, check_devices, condition
from tests.node.rights import refused

RELEASE: Final = "edgewright"
AGENTS: Final = 6
"""So many that both replicas of the gateway have some."""
EDGE: Final = f"/apis/management.project-flotta.io/v1alpha1/namespaces/{SYSTEM}"
SHARDS: Final = f"/apis/edgewright.dev/v1alpha1/namespaces/{SYSTEM}/edgeheartbeatshards"
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


def values(cluster: RealCluster, *, gateway: dict[str, Any]) -> dict[str, Any]:
    return {
        "image": {"digest": cluster.digests["edgewright"]},
        "flashjob": {
            "flasherImage": cluster.image("flasher"),
            "plainRegistries": [REGISTRY],
            "attestation": f"http://{FLEET_ADDRESS}:{ATTESTATION_PORT}",
        },
        "gateway": gateway,
    }


def simulated_agents(cluster: RealCluster, address: str) -> Process:
    """Agents of edge devices in the network of the devices: they reach the gateway by its Service alone."""
    file = cluster.kubeconfig_for("site", ["system:masters"], server=f"https://{LAN_ADDRESS}:{cluster.port}")
    command = [sys.executable, "-m", "edgewright", "simulate", "edge", "--agents", str(AGENTS), "--heartbeat", "2"]
    options = ["--server", address, "--kubeconfig", str(file), "--namespace", SYSTEM]
    agents = Process(
        "agents",
        ["/usr/bin/nsenter", f"--net=/run/netns/{DEVICES}", *command, *options],
        log=cluster.room / "agents.log",
        ready=lambda: f"{AGENTS} of {AGENTS} registered" in agents.output(),
    )
    return agents


def address_of_the_gateway(cluster: RealCluster) -> str:
    def given() -> str:
        service = cluster.request("GET", f"/api/v1/namespaces/{SYSTEM}/services/{RELEASE}-gateway")
        return next((str(each["ip"]) for each in service["status"]["loadBalancer"].get("ingress", ())), "")

    return wait_until(given, what="the Service has an address", timeout=PATIENCE)


def edge_devices(cluster: RealCluster) -> dict[str, dict[str, Any]]:
    """The status of each EdgeDevice, by its uid: one that was lost and came again has another."""
    found = cluster.request("GET", f"{EDGE}/edgedevices")["items"]
    return {each["metadata"]["uid"]: each.get("status", {}) for each in found}


def test_the_chart_of_the_bundle_installs_and_its_gateway_keeps_edge_devices_when_a_replica_goes(
    operator: Installation, cluster: RealCluster
) -> None:
    def all_are(word: str) -> bool:
        return [condition(each, word) for each in edge_devices(cluster).values()] == ["True"] * AGENTS

    def phases() -> list[dict[str, str]]:
        told = [each.get("workloads", ()) for each in edge_devices(cluster).values()]
        return [{each["name"]: each["phase"] for each in workloads} for workloads in told]

    cluster.kubectl("create", "namespace", SYSTEM)
    cluster.kubectl("label", "namespace", SYSTEM, RESTRICTED)
    on(cluster, "install", values=values(cluster, gateway={"enabled": False}))
    operator.until_available()
    before = len(cluster.audit_events())
    on(cluster, "upgrade", values=values(cluster, gateway={"replicas": 2, "service": {"type": "LoadBalancer"}}))
    operator.until_available()
    agents = simulated_agents(cluster, address_of_the_gateway(cluster))
    agents.start()
    try:
        agents.wait_ready(PATIENCE)
        wait_until(lambda: all_are("Online"), what="all are online", timeout=PATIENCE)
        wait_until(lambda: all_are("Ready"), what="all are ready", timeout=PATIENCE)
        known = set(edge_devices(cluster))
        first, second = (each["metadata"]["name"] for each in cluster.pods(SYSTEM, "control-plane=gateway"))
        cluster.kubectl("delete", "pod", "-n", SYSTEM, first)
        cluster.kubectl("apply", "-f", "-", input=json.dumps(WORKLOAD))
        wait_until(lambda: phases() == [{"w": "Running"}] * AGENTS, what="all run the workload", timeout=PATIENCE)
        operator.until_available()
        assert second in [each["metadata"]["name"] for each in cluster.pods(SYSTEM, "control-plane=gateway")]
        assert set(edge_devices(cluster)) == known
        assert all_are("Online")
        assert refused(cluster.audit_events()[before:]) == []
        cluster.kubectl("delete", "edgeworkloads,edgedevices", "--all", "-n", SYSTEM, "--timeout=240s")
        wait_until(lambda: not agents.running, what="all were told to disconnect", timeout=PATIENCE)
        assert f"{AGENTS} of {AGENTS} registered" in agents.output().splitlines()[-1]
        assert f"{AGENTS} disconnected" in agents.output().splitlines()[-1]
    finally:
        agents.terminate()


def test_its_hook_refuses_while_a_flash_runs(operator: Installation, cluster: RealCluster) -> None:
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
    # Who may not come back is a decision of people, and what gateways remember of heartbeats is not.
    assert "pre-delete" in on(cluster, "uninstall", fails=True)
    said = cluster.kubectl("logs", "-n", SYSTEM, "job/edgewright-pre-delete").stdout
    assert f"there is still {AGENTS} edgedevicesignedrequest.management.project-flotta.io: delete them" in said
    wait_until(lambda: cluster.request("GET", SHARDS)["items"], what="heartbeats are written", timeout=PATIENCE)
    cluster.kubectl("delete", "edgedevicesignedrequest", "--all", "-n", SYSTEM, "--timeout=240s")
    on(cluster, "uninstall")
    wait_until(lambda: not cluster.pods(SYSTEM), what="no Pod is left", timeout=PATIENCE)
    for kind in ("deployments.apps", "services", "roles", "rolebindings", "networkpolicies", "poddisruptionbudgets"):
        assert cluster.kubectl("get", kind, "-n", SYSTEM, "--output", "name").stdout == ""
    for kind in ("clusterroles", "clusterrolebindings"):
        found = cluster.request("GET", f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        assert [each for each in found if "edgewright" in each["metadata"]["name"]] == []
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/devices.edgewright.dev"
    assert cluster.exists(definition)
