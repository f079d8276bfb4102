"""The chart of document 003 on one machine: `edgewright up` runs its Pods from a registry, as a cluster would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.edge.embedded import EDGEWRIGHT, IMAGE, Embedded
from tests.harness import wait_until
from tests.harness.processes import Process

CHART = Path(__file__).parent.parent / "acceptance" / "minimart" / "chart"


def minimart(**values: Any) -> dict[str, Any]:
    """A Minimart whose image is the registry's."""
    repository, _, tag = IMAGE.rpartition(":")
    return {
        "apiVersion": "charts.samutup.com/v1alpha1",
        "kind": "Minimart",
        "metadata": {"name": "corner"},
        "spec": {"image": {"repository": repository, "tag": tag}, **values},
    }


def test_the_minimart_is_installed_upgraded_and_removed_without_a_trace(embedded: Embedded) -> None:
    project = embedded.machine.folder / "minimart-operator"
    project.mkdir()
    init = f"{EDGEWRIGHT} chart init --plugins helm --domain samutup.com --helm-chart {CHART}"
    embedded.typed("sh", "-c", f"cd {project} && {init}")
    embedded.kubectl("apply", "-k", str(project / "config/crd"))
    run = f"cd {project} && exec {EDGEWRIGHT} run --controllers charts --watches watches.yaml"
    log = project / "operator.log"
    operator = Process("operator", embedded.inside("sh", "-c", run), log=log, ready=log.exists)
    operator.start()
    try:
        embedded.apply(minimart(replicaCount=2, greeting="welcome"))
        embedded.kubectl("wait", "--for=condition=Deployed", "minimart/corner", "--timeout=120s")
        embedded.roll_out("corner")
        port = embedded.get("service/corner")["spec"]["ports"][0]["nodePort"]
        assert embedded.fetch(f"http://127.0.0.1:{port}/") == "welcome\n"
        embedded.apply(minimart(replicaCount=1, greeting="good evening"))
        page = f"http://127.0.0.1:{port}/"
        wait_until(lambda: embedded.fetch(page) == "good evening\n", what="the new page is served", timeout=120)
        embedded.roll_out("corner")
        embedded.kubectl("delete", "minimart", "corner", "--timeout=120s")
        wait_until(lambda: not embedded.pods_of_podman(), what="podman has nothing of it", timeout=120, interval=0.2)
        names = embedded.get("deployments,services,serviceaccounts,secrets,pods")["items"]
        assert {each["metadata"]["name"] for each in names} == {"kubernetes", "default"}
    finally:
        operator.terminate()
