"""Installed over what is there: over the original operator with a job half done, and over the version before this one.

It comes first, because the other tests go on with what it installs. Of the version before, its installer is kept in
this folder; its manifests run the program of today, for what an upgrade must carry over is in the objects. After a
release: git show vX.Y.Z:dist/install.yaml | gzip -9n >tests/node/previous-install.yaml.gz (tests/unit/test_release.py
says when).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from edgewright.devices.simulated.journal import Did
from edgewright.runtime.yaml_loader import Loader
from tests.harness import wait_until
from tests.node import original
from tests.node.cluster import PATIENCE, RealCluster
from tests.node.lan import Fleet, Pool
from tests.node.operator_stage import NAMESPACE, Installation, check_devices, condition, previous_installer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def fields_of(definition: dict[str, Any]) -> set[tuple[str, ...]]:
    """All fields that a definition has, each with the way to it."""

    def below(schema: dict[str, Any], way: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, each in schema.get("properties", {}).items():
            yield (*way, name)
            yield from below(each, (*way, name))
        if "items" in schema:
            yield from below(schema["items"], (*way, "[]"))

    versions = definition["spec"]["versions"]
    return {way for each in versions for way in below(each["schema"]["openAPIV3Schema"], (each["name"],))}


def assert_definitions_are_of(installer: str, cluster: RealCluster) -> None:
    """Every definition that an installer has is installed, with its fields."""
    there = {each["metadata"]["name"]: each for each in cluster.request("GET", DEFINITIONS)["items"]}
    for document in yaml.load_all(installer, Loader=Loader):
        if document["kind"] == "CustomResourceDefinition":
            name = document["metadata"]["name"]
            assert fields_of(there[name]) == fields_of(document), name


def test_ours_waits_for_the_original_says_so_and_takes_its_job_over(
    cluster: RealCluster, pool: Pool, request: pytest.FixtureRequest
) -> None:
    before = original.OriginalOperator(cluster)
    before.install()
    with Fleet(cluster, original.NAMESPACE, count=3, faults=["slow:1000=2"]) as fleet:
        before.leave_half_done(fleet)
        operator: Installation = request.getfixturevalue("operator")  # over all that

        def told() -> str:
            status = cluster.request("GET", f"{original.JOBS}/{original.JOB}").get("status", {})
            reasons: dict[str, str] = {each["reason"]: each.get("message", "") for each in status.get("conditions", ())}
            return reasons.get("OriginalOperatorRuns", "")

        message = wait_until(told, what="ours says that it waits for the original", timeout=PATIENCE)
        assert "kubectl -n operator-system scale deployment operator-controller-manager --replicas=0" in message
        first, _, third = fleet.journals().values()
        assert (first.count(Did.WRITING), third.count(Did.WRITING)) == (0, 0)
        operator.place.typed(message.rpartition("stop it with: ")[2])

        def completed() -> bool:
            status = cluster.request("GET", f"{original.JOBS}/{original.JOB}").get("status", {})
            return status.get("phase") == "Completed" and condition(status, "Ready") == "True"

        wait_until(completed, what="the job is completed by ours", timeout=PATIENCE)
        check_devices(fleet, original.VERSION)
        assert [len(journal.written) for journal in fleet.journals().values()] == [1, 1, 1]

        def left() -> list[str]:
            paths = [f"/api/v1/namespaces/{original.NAMESPACE}/{kind}" for kind in ("pods", "services")]
            return [each["metadata"]["name"] for path in paths for each in cluster.request("GET", path)["items"]]

        wait_until(lambda: not left(), what="nothing of the original is left", timeout=PATIENCE)
    before.close()
    cluster.kubectl("delete", "flashjob", original.JOB, "-n", original.NAMESPACE, "--timeout=240s")
    cluster.kubectl("delete", "namespace", original.NAMESPACE, original.SYSTEM, "--wait=false")


def test_the_version_before_is_upgraded_while_devices_are_written(operator: Installation, cluster: RealCluster) -> None:
    operator.install_previous()
    operator.until_available()
    assert_definitions_are_of(previous_installer(), cluster)
    with Fleet(cluster, NAMESPACE, count=2, faults=["slow:1000=1"]) as fleet:
        operator.flash("upgrade", fleet, "0.2.0")
        wait_until(lambda: fleet.count(Did.WRITING), what="a device is being written", timeout=PATIENCE)
        operator.install()
        operator.until_available()
        assert_definitions_are_of(operator.installer(), cluster)
        status = operator.until_phase("upgrade")
        assert (status["phase"], condition(status, "Ready")) == ("Completed", "True")
        check_devices(fleet, "0.2.0")
        assert [len(journal.written) for journal in fleet.journals().values()] == [1, 1]
        operator.delete("upgrade")
