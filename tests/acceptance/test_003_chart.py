"""Document 003, step by step and in its order: an existing chart becomes a kind.

All steps are taken twice: on a real Kubernetes with our node, and on `edgewright up` with nothing else. Go and
operator-sdk are not needed: `edgewright chart init` stands for `operator-sdk init`. The REST part of the document has
tests of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.acceptance.chart_stage import IMAGE, SAMPLE, Stage, on_a_cluster, on_up, page, ports
from tests.e2e.registry import RealRegistry
from tests.harness import wait_until

SYSTEM = "minimart-operator-system"
MANAGER = "minimart-operator-controller-manager"
FOLDERS = """
config/crd/bases config/default config/manager config/manifests config/prometheus config/rbac config/samples
config/scorecard/bases config/scorecard/patches helm-charts/minimart/configs helm-charts/minimart/templates
"""


@pytest.fixture(scope="module", params=["cluster", "up"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A cluster, a node and the reader's folder, for all steps."""
    with (on_up if request.param == "up" else on_a_cluster)(request) as stage:
        yield stage


def test_01_init_writes_the_tree_that_the_document_shows(stage: Stage) -> None:
    assert "kind Minimart in charts.samutup.com/v1alpha1" in stage.init()
    for folder in FOLDERS.split():
        assert (stage.project / folder).is_dir(), folder
    for name in ("watches.yaml", "Makefile", "Dockerfile", "PROJECT", SAMPLE):
        assert (stage.project / name).is_file(), name
    assert (stage.project / "config/crd/bases/charts.samutup.com_minimarts.yaml").is_file()


def test_02_the_watches_file_names_the_kind_and_its_chart(stage: Stage) -> None:
    text = (stage.project / "watches.yaml").read_text()
    entry = {"group": "charts.samutup.com", "version": "v1alpha1", "kind": "Minimart", "chart": "helm-charts/minimart"}
    assert yaml.safe_load(text) == [entry]
    assert "#+kubebuilder:scaffold:watch" in text


def test_03_the_definition_has_the_documents_names(stage: Stage) -> None:
    crd = yaml.safe_load((stage.project / "config/crd/bases/charts.samutup.com_minimarts.yaml").read_text())
    assert (crd["apiVersion"], crd["kind"]) == ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert crd["metadata"]["name"] == "minimarts.charts.samutup.com"
    assert crd["spec"]["group"] == "charts.samutup.com"
    assert crd["spec"]["names"] == {
        "kind": "Minimart",
        "listKind": "MinimartList",
        "plural": "minimarts",
        "singular": "minimart",
    }


def test_04_the_makefile_is_updated_as_the_document_says(stage: Stage) -> None:
    makefile = stage.project / "Makefile"
    text = makefile.read_text()
    for line in ("VERSION ?= 0.0.1", "IMAGE_TAG_BASE ?= samutup.com/minimart-operator", "IMG ?= controller:latest"):
        assert f"\n{line}\n" in text
    text = text.replace("samutup.com/minimart-operator", "samutup/minimart-operator")
    makefile.write_text(text.replace("IMG ?= controller:latest", "IMG ?= $(IMAGE_TAG_BASE):$(VERSION)"))
    assert f"build  -t {IMAGE} ." in stage.shell("make --dry-run docker-build CONTAINER_TOOL=buildah")


# It needs no cluster: once is enough.
@pytest.mark.parametrize("stage", ["cluster"], indirect=True)
def test_05_the_image_is_built_and_pushed(stage: Stage, tmp_path: Path) -> None:
    with RealRegistry(tmp_path) as registry:
        base = f"IMAGE_TAG_BASE={registry.host}/samutup/minimart-operator"
        # Nothing is run while it is built: the base may be empty.
        flags = "BUILD_FLAGS='--build-arg OPERATOR_IMAGE=scratch' PUSH_FLAGS=--tls-verify=false"
        stage.shell(f"make docker-build docker-push {base} {flags}")
        url = f"http://{registry.host}/v2/samutup/minimart-operator/tags/list"
        assert json.loads(page(url)) == {"name": "samutup/minimart-operator", "tags": ["0.0.1"]}
        stage.shell(f"{tool(stage)} rmi {registry.host}/samutup/minimart-operator:0.0.1")


def tool(stage: Stage) -> str:
    """Which of docker, podman and buildah the Makefile found."""
    return stage.shell("make --dry-run docker-push | tail -1").split()[0]


def test_06_make_install_run_serves_metrics_and_health(stage: Stage) -> None:
    assert "--metrics-port 8080 --health-port 8081" in stage.shell("make --dry-run run")
    chosen = ports()
    health = f"http://127.0.0.1:{chosen['HEALTH_PORT']}"
    with making(stage, "install", "run", **chosen) as log:
        wait_until(lambda: answers(f"{health}/readyz"), what="the operator is ready")
        assert page(f"{health}/healthz").strip().startswith("ok")
        assert "controller_runtime_reconcile_total" in page(f"http://127.0.0.1:{chosen['METRICS_PORT']}/metrics")
        wait_until(lambda: said(log, "leading"), what="the operator leads")


@contextmanager
def making(stage: Stage, *targets: str, **variables: object) -> Iterator[Path]:
    """Targets of the project's Makefile that run until Ctrl-C; what they say is in the file."""
    log = stage.folder / "make.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            ["make", *targets, *(f"{name}={value}" for name, value in variables.items())],
            cwd=stage.project,
            env=stage.environment(),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        stop_group(process)


def said(log: Path, message: str) -> dict[str, object] | None:
    """The first line of a log that has this message."""
    lines = (json.loads(each) for each in log.read_text().splitlines(keepends=True) if each[0] + each[-1] == "{\n")
    return next((each for each in lines if each["msg"] == message), None)


def answers(url: str) -> bool:
    """Whether a page is there and well."""
    try:
        return bool(page(url))
    except OSError:
        return False


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, for make and what it runs."""
    os.killpg(process.pid, signal.SIGINT)
    process.wait(60)


def test_07_make_deploy_creates_the_documents_resources(stage: Stage) -> None:
    stage.shell("make deploy")
    wait_until(
        lambda: "1/1" in stage.shell(f"kubectl get deployment.apps/{MANAGER} -n {SYSTEM} --no-headers"),
        what="the operator's Deployment is ready",
    )
    shown = stage.shell(f"kubectl get all -n {SYSTEM}")
    assert f"pod/{MANAGER}-" in shown
    assert "Running" in shown
    service = next(line for line in shown.splitlines() if line.startswith(f"service/{MANAGER}-metrics-service"))
    assert "ClusterIP" in service
    assert "8443/TCP" in service
    assert f"deployment.apps/{MANAGER}" in shown
    assert f"replicaset.apps/{MANAGER}-" in shown


def test_08_the_operators_log_has_the_documents_line(stage: Stage) -> None:
    def line() -> dict[str, object] | None:
        text = stage.shell(f"kubectl logs deployment.apps/{MANAGER} -n {SYSTEM} -c manager")
        lines = [json.loads(each) for each in text.splitlines() if each.startswith("{")]
        return next((each for each in lines if each["msg"] == "Starting EventSource"), None)

    found = wait_until(line, what="the operator says what it watches")
    assert isinstance(found.pop("ts"), float)
    assert found == {
        "level": "info",
        "logger": "controller-runtime.manager.controller.minimart-controller",
        "msg": "Starting EventSource",
        "source": "kind source: charts.samutup.com/v1alpha1, Kind=Minimart",
    }


def test_08_make_run_next_to_it_waits_and_says_for_whom(stage: Stage) -> None:
    with making(stage, "run", **ports()) as log:
        waiting = wait_until(lambda: said(log, "waiting for leadership"), what="it waits")
        assert str(waiting["holder"]).startswith(MANAGER)
        assert said(log, "leading") is None


def test_09_kubectl_describes_the_definition(stage: Stage) -> None:
    words = " ".join(stage.shell("kubectl describe crd minimarts.charts.samutup.com").split())
    for part in (
        "Name: minimarts.charts.samutup.com",
        "API Version: apiextensions.k8s.io/v1 Kind: CustomResourceDefinition",
        "Spec: Conversion: Strategy: None Group: charts.samutup.com",
        "Names: Kind: Minimart List Kind: MinimartList Plural: minimarts Singular: minimart Scope: Namespaced",
        "Name: v1alpha1",
    ):
        assert part in words, part


def test_10_the_sample_reaches_its_pod_running(stage: Stage) -> None:
    assert "minimart-sample created" in stage.shell(f"kubectl apply -f {SAMPLE}")
    stage.until_condition("Ready", "True")
    pods = stage.shell("kubectl get pods --no-headers").split()
    assert pods[0].startswith("minimart-sample-")
    assert pods[1:3] == ["1/1", "Running"]
    shown = stage.shell("kubectl get all")
    service = next(line for line in shown.splitlines() if line.startswith("service/minimart-sample"))
    assert "NodePort" in service
    assert "80:3" in service
    for name in ("pod/minimart-sample-", "deployment.apps/minimart-sample", "replicaset.apps/minimart-sample-"):
        assert name in shown
    assert stage.cluster.exists("/api/v1/namespaces/default/serviceaccounts/minimart-sample")
    pod = stage.cluster.request("GET", "/api/v1/namespaces/default/pods")["items"][0]
    # The chart has no readiness probe: its Pod is ready before its program listens.
    url = f"http://{pod['status']['podIP']}:3000"
    wait_until(lambda: answers(url), what="the shop answers")
    assert page(url) == "welcome to the minimart"


def test_11_the_status_tells_of_the_release(stage: Stage) -> None:
    conditions = stage.conditions()
    assert {name: each["status"] for name, each in conditions.items()} == {
        "Initialized": "True",
        "Deployed": "True",
        "Ready": "True",
    }
    assert conditions["Deployed"]["reason"] == "InstallSuccessful"
    assert conditions["Deployed"]["message"] == "minimart-sample says: welcome to the minimart"
    release = stage.minimart()["status"]["deployedRelease"]
    assert release["name"] == "minimart-sample"
    assert "kind: Deployment" in release["manifest"]
    header, row = stage.shell("kubectl get minimart").splitlines()
    assert header.split() == ["NAME", "DEPLOYED", "READY", "REASON", "AGE"]
    assert row.split()[:3] == ["minimart-sample", "True", "True"]


def test_12_the_api_lists_the_kind_as_the_document_shows(stage: Stage) -> None:
    found = json.loads(stage.shell("kubectl get --raw /apis/charts.samutup.com/v1alpha1"))
    kinds, status = found["resources"]
    assert kinds.pop("storageVersionHash")
    verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    assert kinds == {
        "name": "minimarts",
        "singularName": "minimart",
        "namespaced": True,
        "kind": "Minimart",
        "verbs": verbs,
    }
    assert status == {
        "name": "minimarts/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Minimart",
        "verbs": ["get", "patch", "update"],
    }


def test_13_a_changed_object_is_followed(stage: Stage) -> None:
    changed = yaml.safe_load((stage.project / SAMPLE).read_text())
    changed["spec"] |= {"replicaCount": 2, "greeting": "good evening"}
    (stage.project / SAMPLE).write_text(yaml.safe_dump(changed))
    assert "minimart-sample configured" in stage.shell(f"kubectl apply -f {SAMPLE}")
    stage.until_condition("Ready", "True")
    pods = [
        line.split()[1:3] for line in stage.shell("kubectl get pods --no-headers").splitlines() if "Running" in line
    ]
    assert pods == [["1/1", "Running"]] * 2
    assert stage.conditions()["Deployed"]["message"] == "minimart-sample says: good evening"
    assert stage.revisions("minimart-sample") == [(1, "superseded"), (2, "deployed")]


def test_14_a_dependent_that_somebody_changes_goes_back(stage: Stage) -> None:
    stage.shell("kubectl scale deployment minimart-sample --replicas=3")
    wait_until(lambda: stage.deployment("minimart-sample")["spec"]["replicas"] == 2, what="it is scaled back")
    stage.shell("kubectl delete service minimart-sample")
    wait_until(
        lambda: stage.cluster.exists("/api/v1/namespaces/default/services/minimart-sample"), what="the Service is back"
    )
    owner = stage.deployment("minimart-sample")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Minimart", "minimart-sample")


def test_15_the_operator_is_not_removed_while_objects_exist(stage: Stage) -> None:
    said = stage.shell("make undeploy", fails=True)
    assert "there are still objects of minimarts.charts.samutup.com: delete them first" in said


def test_16_the_clean_up_leaves_nothing(stage: Stage) -> None:
    stage.shell(f"kubectl delete -f {SAMPLE}")
    assert stage.revisions("minimart-sample") == []
    for path in ("deployments.apps", "services", "serviceaccounts"):
        assert "minimart" not in stage.shell(f"kubectl get {path} --output name"), path
    wait_until(lambda: not stage.shell("kubectl get pods --output name"), what="the Pods are gone")
    stage.shell("make undeploy")
    assert not stage.cluster.exists(f"/api/v1/namespaces/{SYSTEM}")
    for path in ("crd", "clusterroles", "clusterrolebindings", "rolebindings.rbac.authorization.k8s.io"):
        assert "minimart" not in stage.shell(f"kubectl get {path} --output name"), path
