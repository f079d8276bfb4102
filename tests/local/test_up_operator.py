"""The operator in `edgewright up`: our kinds are served and acted on, unless it is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import LocalPlane, wait_until
from tests.local.test_run import operator

JOBS = "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/default/flashjobs"
DEVICES = "/apis/edgewright.dev/v1alpha1/devices"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/edgewright"
NOT_A_REFERENCE = {
    "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
    "kind": "FlashJob",
    "metadata": {"name": "job"},
    "spec": {"uuid": ["somebody"], "firmware": "fsdsdsd", "version": "0.2.0"},
}


@pytest.mark.parametrize("own_plane", [{"operator": True}], indirect=True, ids=["with the operator"])
def test_our_kinds_are_served_and_acted_on_and_both_go_on_after_a_restart(own_plane: LocalPlane) -> None:
    own_plane.request("POST", JOBS, NOT_A_REFERENCE)

    def refused() -> bool:
        status = own_plane.request("GET", f"{JOBS}/job").get("status", {})
        return status.get("phase") == "Failed" and str(status["message"]).startswith("spec.firmware: ")

    wait_until(refused, what="the job is told that its firmware is no reference")
    assert own_plane.request("GET", DEVICES)["items"] == []
    own_plane.request("DELETE", f"{JOBS}/job")
    wait_until(lambda: not own_plane.exists(f"{JOBS}/job"), what="it is gone")
    own_plane.api.kill()
    own_plane.api.restart()
    own_plane.request("POST", JOBS, NOT_A_REFERENCE)
    wait_until(refused, what="it is told again")
    # Nobody waits for the Lease of the one that was killed: it is its own.
    assert "waiting for leadership" not in own_plane.api.output()
    assert own_plane.request("GET", LEASE)["spec"]["leaseTransitions"] >= 1


@pytest.mark.parametrize("own_plane", [{"operator": True}], indirect=True, ids=["with the operator"])
def test_an_operator_next_to_it_waits_and_says_who_leads(own_plane: LocalPlane, tmp_path: Path) -> None:
    wait_until(lambda: own_plane.exists(LEASE), what="the operator in it leads")
    with operator(own_plane, tmp_path):
        said = tmp_path / "run.log"
        wait_until(lambda: "waiting for leadership" in said.read_text(), what="the second waits", timeout=120)
        assert "edgewright-up" in said.read_text()
        assert '"leading"' not in said.read_text()
    assert own_plane.request("GET", LEASE)["spec"]["holderIdentity"] == "edgewright-up"


@pytest.mark.parametrize("own_plane", [{"operator": False}], indirect=True, ids=["without the operator"])
def test_without_the_operator_it_is_kubernetes_and_nothing_else(own_plane: LocalPlane) -> None:
    assert not own_plane.exists(JOBS)
    assert not own_plane.exists(DEVICES)
    assert own_plane.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"] == []
