"""What goes wrong while devices are written: operator, node, registry and API server go away, and come back.

Whatever happens, no device is written by two at once, none is written again after it showed the wanted version, and
every device ends with it. The witnesses are the devices' own journals.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewright.devices.simulated.journal import Did
from tests.harness import wait_until
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import Fleet
from tests.node.operator_stage import NAMESPACE, OPERATOR, SYSTEM, Installation, check_devices, condition

SLOW = "slow:1000=1,2"
"""Two of three devices take some seconds for their firmware."""


@pytest.fixture
def fleet(cluster: RealCluster, operator: Installation) -> Iterator[Fleet]:
    """Three devices, of which two are slow."""
    operator.until_available()
    with Fleet(cluster, NAMESPACE, count=3, faults=[SLOW]) as devices:
        yield devices


def until_writing(fleet: Fleet) -> None:
    """Waits until a slow device is being written."""
    slow = fleet.addresses[:2]
    wait_until(
        lambda: any(fleet.journals()[each].count(Did.WRITING) for each in slow),
        what="a device is being written",
        timeout=PATIENCE,
    )


def until_ready(operator: Installation, fleet: Fleet, name: str) -> list[int]:
    """Waits until the job ends, and holds it to what it says and to what the devices tell; the attempts on each."""
    status = operator.until_phase(name)
    assert (status["phase"], condition(status, "Ready")) == ("Completed", "True"), status
    check_devices(fleet, "0.3.0")
    operator.delete(name)
    return [each["attempts"] for each in status["devices"]]


def test_the_leaders_pod_is_killed_in_mid_flash(operator: Installation, cluster: RealCluster, fleet: Fleet) -> None:
    leader = operator.leader()
    operator.flash("leader", fleet, "0.3.0")
    until_writing(fleet)
    cluster.kubectl("delete", "pod", leader, "-n", SYSTEM, "--grace-period=0", "--force")
    until_ready(operator, fleet, "leader")
    assert leader not in [each["metadata"]["name"] for each in cluster.pods(SYSTEM, OPERATOR)]
    assert [len(journal.written) for journal in fleet.journals().values()] == [1, 1, 1]


def test_the_node_is_stopped_in_mid_flash_and_started_again(
    operator: Installation, cluster: RealCluster, fleet: Fleet
) -> None:
    operator.flash("node", fleet, "0.3.0", retries=5)
    until_writing(fleet)
    cluster.stop_node()
    cluster.start_node()
    assert max(until_ready(operator, fleet, "node")) > 1


def test_the_kubelet_alone_stops_for_a_while(operator: Installation, cluster: RealCluster, fleet: Fleet) -> None:
    operator.flash("kubelet", fleet, "0.3.0")
    until_writing(fleet)
    cluster.kubelet.kill()
    wait_until(lambda: fleet.count(Did.REBOOTED) >= 1, what="a device has its firmware", timeout=PATIENCE)
    cluster.kubelet.start()
    cluster.kubelet.wait_ready()
    until_ready(operator, fleet, "kubelet")
    assert [len(journal.written) for journal in fleet.journals().values()] == [1, 1, 1]


def test_the_registry_is_unavailable_for_a_while(operator: Installation, cluster: RealCluster, fleet: Fleet) -> None:
    cluster.registry.kill()
    operator.flash("registry", fleet, "0.3.0", retries=10)

    def told() -> bool:
        devices = operator.job("registry").get("status", {}).get("devices", ())
        return any(each.get("attempts", 0) >= 2 and each["state"] == "Waiting" for each in devices)

    wait_until(told, what="an attempt has failed", timeout=PATIENCE)
    assert fleet.count(Did.WRITING) == 0
    cluster.registry.start()
    cluster.registry.wait_ready()
    until_ready(operator, fleet, "registry")


def test_the_api_server_is_unavailable_for_a_while(operator: Installation, cluster: RealCluster, fleet: Fleet) -> None:
    operator.flash("api", fleet, "0.3.0")
    until_writing(fleet)
    with cluster.without_api_server():
        wait_until(lambda: fleet.count(Did.REBOOTED) >= 1, what="a device has its firmware", timeout=PATIENCE)
    until_ready(operator, fleet, "api")
    assert [len(journal.written) for journal in fleet.journals().values()] == [1, 1, 1]
