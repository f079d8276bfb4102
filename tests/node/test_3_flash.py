"""FlashJobs on the real node: flash Pods from a real registry, behind real Services, for devices on a LAN."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from edgewright.devices.simulated.journal import Did
from tests.harness import wait_until
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import Fleet, Pool
from tests.node.layout import FIRMWARE, FLEET_ADDRESS, REGISTRY
from tests.node.operator_stage import NAMESPACE, SYSTEM, Installation, check_devices, condition

OPEN = "open"
"""A namespace that enforces no standard: published flashers run as root."""
ROLLOUT = f"/apis/edgewright.dev/v1alpha1/namespaces/{NAMESPACE}/firmwarerollouts"


def test_the_installer_brings_everything_up_in_a_namespace_that_enforces_the_restricted_standard(
    operator: Installation, cluster: RealCluster
) -> None:
    labels = cluster.request("GET", f"/api/v1/namespaces/{SYSTEM}")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pods = cluster.pods(SYSTEM)
    assert {container["image"] for pod in pods for container in pod["spec"]["containers"]} == {
        cluster.image("edgewright")
    }
    assert operator.leader()


def test_a_flashjob_over_five_devices_ends_ready(operator: Installation, cluster: RealCluster) -> None:
    with Fleet(cluster, NAMESPACE, count=5) as fleet:
        assert fleet.versions() == ["0.1.0"] * 5
        operator.flash("five", fleet, "0.2.0")
        status = operator.until_phase("five")
        assert (status["phase"], condition(status, "Ready")) == ("Completed", "True")
        check_devices(fleet, "0.2.0")
        operator.delete("five")


def test_a_device_with_a_fault_is_reported_as_such_and_the_others_are_flashed(
    operator: Installation, cluster: RealCluster
) -> None:
    with Fleet(cluster, NAMESPACE, count=5, faults=["refuse-attestation=3"]) as fleet:
        uids = fleet.uids()
        operator.flash("fault", fleet, "0.2.0")
        status = operator.until_phase("fault")
        assert (status["phase"], condition(status, "Ready")) == ("Failed", "False")
        told = {each["uuid"]: each for each in status["devices"]}
        outcomes = [told[uid]["outcome"] for uid in uids]
        assert outcomes == ["succeeded", "succeeded", "refused", "succeeded", "succeeded"]
        assert fleet.versions() == ["0.2.0", "0.2.0", "0.1.0", "0.2.0", "0.2.0"]
        assert "attestation" in told[uids[2]]["message"]
        operator.delete("fault")


def test_a_pool_of_one_address_is_enough_for_five_devices(
    operator: Installation, cluster: RealCluster, pool: Pool
) -> None:
    all_addresses = pool.addresses
    pool.addresses = all_addresses[:1]
    try:
        with Fleet(cluster, NAMESPACE, count=5) as fleet:
            operator.flash("narrow", fleet, "0.2.0")
            status = operator.until_phase("narrow")
            assert (status["phase"], condition(status, "Ready")) == ("Completed", "True")
            check_devices(fleet, "0.2.0")
            asked = {entry.peer for journal in fleet.journals().values() for entry in journal if entry.did == "dialled"}
            assert asked == {all_addresses[0]}
            operator.delete("narrow")
    finally:
        pool.addresses = all_addresses


# --- a rollout, and flashers of others, side by side -----------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet(operator: Installation, cluster: RealCluster) -> Iterator[Fleet]:
    """Twelve devices: ten for a rollout, one for a flasher of others, and one for it where it is forbidden."""
    cluster.kubectl("create", "namespace", OPEN)
    with Fleet(cluster, NAMESPACE, count=12) as devices:
        *ten, eleventh, twelfth = devices.uids()
        foreign = cluster.image("foreign")
        operator.flash("other", eleventh, "0.2.0", namespace=OPEN, flashjobPodImage=foreign, retries=0)
        operator.flash("forbidden", twelfth, "0.2.0", flashjobPodImage=foreign, retries=0)
        spec = {
            "selector": {"uuids": ten},
            "firmware": f"{REGISTRY}/{FIRMWARE}:0.2.0",
            "version": "0.2.0",
            "batches": [{"name": "canary", "size": 2}],
            "maxConcurrent": 4,
        }
        document = {"apiVersion": "edgewright.dev/v1alpha1", "kind": "FirmwareRollout", "spec": spec}
        cluster.request("POST", ROLLOUT, {**document, "metadata": {"name": "ten", "namespace": NAMESPACE}})
        yield devices
        cluster.kubectl("delete", "firmwarerollout", "ten", "-n", NAMESPACE, "--timeout=240s")
        operator.delete("forbidden")
    cluster.kubectl("delete", "namespace", OPEN, "--timeout=240s")


def test_where_the_namespace_forbids_a_flasher_of_others_the_devices_reason_says_so(
    operator: Installation, fleet: Fleet
) -> None:
    status = operator.until_phase("forbidden")
    (told,) = status["devices"]
    assert (status["phase"], told["outcome"]) == ("Failed", "failed")
    assert 'violates PodSecurity "restricted:latest"' in told["message"]
    assert fleet.journals()[fleet.addresses[11]].count(Did.WRITING) == 0


def test_a_flasher_of_others_has_what_it_needs_and_no_more(
    operator: Installation, cluster: RealCluster, fleet: Fleet
) -> None:
    def ran() -> str:
        pods = cluster.pods(OPEN)
        statuses = [each for pod in pods for each in pod["status"].get("containerStatuses", ())]
        ended = [each for each in statuses if each["name"] == "flash-container" and "terminated" in each["state"]]
        return str(pods[0]["metadata"]["name"]) if ended else ""

    pod = wait_until(ran, what="the flasher of others has ended", timeout=PATIENCE)
    seen = cluster.kubectl("logs", "-n", OPEN, pod, "-c", "flash-container").stdout
    variables = dict(line.partition("=")[::2] for line in seen.splitlines())
    assert variables["DICE_AUTH_SERVICE_SERVICE_HOST"] == FLEET_ADDRESS
    assert variables["HOST_ENDPOINT"] == fleet.addresses[10]
    spec = cluster.request("GET", f"/api/v1/namespaces/{OPEN}/pods/{pod}")["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert not any("projected" in volume for volume in spec["volumes"])
    (theirs,) = (each for each in spec["containers"] if each["name"] == "flash-container")
    seccomp = {"type": "RuntimeDefault"}
    assert theirs["securityContext"] == {"allowPrivilegeEscalation": False, "seccompProfile": seccomp}


def test_a_flasher_of_others_that_fails_ends_the_attempt_soon_and_the_device_goes_on(
    operator: Installation, fleet: Fleet
) -> None:
    status = operator.until_phase("other", namespace=OPEN, seconds=PATIENCE)
    (told,) = status["devices"]
    assert (status["phase"], told["outcome"]) == ("Failed", "failed")
    assert "goes on with 0.1.0" in told["message"]
    assert "the flasher itself ended with exit code 3" in told["message"]
    assert fleet.versions()[10] == "0.1.0"


def test_a_rollout_over_ten_devices_is_completed(operator: Installation, cluster: RealCluster, fleet: Fleet) -> None:
    def ended() -> dict[str, object] | None:
        status = cluster.request("GET", f"{ROLLOUT}/ten").get("status", {})
        return status if status.get("phase") in {"Completed", "Failed", "Paused", "Aborted"} else None

    status = wait_until(ended, what="the rollout has ended", timeout=240)
    assert status["phase"] == "Completed", json.dumps(status)
    assert fleet.versions()[:10] == ["0.2.0"] * 10
    journals = list(fleet.journals().values())
    assert [len(journal.written) for journal in journals] == [1] * 10 + [0, 0]
    assert not any(journal.written_by_two_at_once for journal in journals)
