"""Documents 002 and 003 on `edgewright up` as people start it: with the operator in it, and nothing else to set up.

That operator serves Flux, FluxSetup and MiniCluster, and the kinds of charts by `--watches`. That each step of the
documents works there too is in their own modules; charts with an operator next to it are in `tests.edge`.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.acceptance import chart_stage, flux_stage
from tests.acceptance.flux_stage import IMAGE, NAMESPACE, ROOT, minicluster
from tests.harness import wait_until

FLUX_KINDS = "flux,fluxsetup,minicluster,statefulset,job,pod,service,configmap,secret"
CHART_KINDS = "minimart,deployment,replicaset,pod,service,serviceaccount,secret"
OF_EVERY_NAMESPACE = {"configmap/kube-root-ca.crt", "service/kubernetes", "serviceaccount/default"}
SAMPLES = [ROOT / "config" / "samples" / f"_v1alpha1_{name}.yaml" for name in ("flux", "fluxsetup")]
LIMIT = 180


@pytest.fixture(scope="module")
def charts(request: pytest.FixtureRequest) -> Iterator[chart_stage.Stage]:
    """`edgewright up --watches` with its node and its operator, for the reader of document 003."""
    with (
        flux_stage.stand_in() as images,
        chart_stage.on_up(request, operator=True, watches=True, options=images) as stage,
    ):
        yield stage


@pytest.fixture(scope="module")
def stage(charts: chart_stage.Stage, tmp_path_factory: pytest.TempPathFactory) -> flux_stage.Stage:
    """The same for the reader of document 002."""
    return flux_stage.Stage(charts.cluster, tmp_path_factory.mktemp("flux"))


def until_nothing_is_left(stage: flux_stage.Stage, kinds: str, namespace: str) -> None:
    """Waits until there is nothing of some kinds but what every namespace has."""

    def left() -> list[str]:
        return [name for name in stage.names(kinds, namespace) if name not in OF_EVERY_NAMESPACE]

    try:
        wait_until(lambda: not left(), timeout=LIMIT, interval=0.2, what="nothing is left")
    except AssertionError as error:
        raise AssertionError(f"{error}: {left()}") from None


def conditions(found: dict[str, dict[str, list[dict[str, str]]]]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in found["status"]["conditions"]}


# --- document 002 ----------------------------------------------------------------------------------------------------


def test_002_the_published_samples_run_to_their_end_and_leave_nothing(stage: flux_stage.Stage) -> None:
    stage.kubectl("create", "namespace", NAMESPACE)
    both = [word for sample in SAMPLES for word in ("-f", str(sample))]
    stage.kubectl("apply", *both)
    done = stage.until("flux-sample", phase="Succeeded", exitCode=0, workers="0/2")
    assert conditions(done) == {
        "Ready": ("True", "Succeeded"),
        "WorkersReady": ("False", "ScaledToZero"),
        "Finished": ("True", "Succeeded"),
    }
    assert stage.reason("fluxsetup", "flux-sample")[:2] == ("True", "InUse")
    assert stage.get("statefulset", "flux-sample")["spec"]["replicas"] == 0
    said = stage.kubectl("logs", "job/flux-sample-launcher", "-n", NAMESPACE)
    assert said == "flux-broker: rank 0 of 3: online: flux-sample-launcher,flux-sample-0,flux-sample-1\n"
    stage.kubectl("delete", *both)
    until_nothing_is_left(stage, FLUX_KINDS, NAMESPACE)


def test_a_minicluster_runs_scales_and_leaves_nothing(stage: flux_stage.Stage) -> None:
    namespace = stage.plane.create_namespace("mini")
    container = {"commands": {"post": "echo hello post"}}
    stage.apply(
        minicluster("hello", namespace, "echo hello world", size=3, tasks=3, container=container),
        minicluster("grows", namespace, "sleep 1000", size=1, maxSize=2),
    )
    done = stage.until("hello", namespace, kind="minicluster", phase="Succeeded", exitCode=0)
    assert conditions(done) == {
        "Ready": ("True", "Succeeded"),
        "PodsReady": ("False", "Ended"),
        "Finished": ("True", "Succeeded"),
    }
    lead = "job-name=hello,batch.kubernetes.io/job-completion-index=0"
    said = stage.kubectl("logs", "-l", lead, "-n", namespace, "--tail=-1").splitlines()
    online = "flux-broker: rank 0 of 3: online: hello-0,hello-1,hello-2"
    assert said == [online, *["hello world"] * 3, "hello post"]
    stage.until("grows", namespace, kind="minicluster", phase="Running", pods="1/1")
    assert stage.edgewright("flux", "scale", "grows", "2", "-n", namespace).returncode == 0
    stage.until("grows", namespace, kind="minicluster", phase="Running", pods="2/2")
    stage.kubectl("delete", "minicluster", "--all", "-n", namespace)
    until_nothing_is_left(stage, FLUX_KINDS, namespace)


def test_flux_run_shows_what_the_command_says_and_ends_with_its_code(stage: flux_stage.Stage) -> None:
    namespace = stage.plane.create_namespace("typed")
    # The Pods have an init container, which brings flux: the log of the only other one is meant.
    options = ("--rm", "--size", "2", "-n", namespace)
    done = stage.edgewright("flux", "run", *options, IMAGE, "--", "sh", "-c", "echo ran; exit 6")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (6, ["ran"] * 2), done.stderr
    until_nothing_is_left(stage, FLUX_KINDS, namespace)


# --- document 003 ----------------------------------------------------------------------------------------------------


def greeting(stage: chart_stage.Stage) -> str:
    """What the shop says at the node port of its Service; empty while nobody serves it."""
    service = json.loads(stage.shell("kubectl get service minimart-sample -o json"))
    try:
        url = f"http://127.0.0.1:{service['spec']['ports'][0]['nodePort']}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            said: str = answer.read().decode()
            return said
    except OSError:
        return ""


def test_003_a_chart_is_installed_upgraded_and_removed_by_one_command(
    charts: chart_stage.Stage, stage: flux_stage.Stage
) -> None:
    # No `make install` and no `make run`: the definition is the project's, and the operator is the one in `up`.
    charts.shell(f"kubectl apply -f {chart_stage.SAMPLE}")
    charts.until_condition("Ready", "True")
    assert charts.conditions()["Deployed"]["reason"] == "InstallSuccessful"
    (pod,) = charts.shell("kubectl get pods --no-headers").splitlines()
    assert pod.split()[1:3] == ["1/1", "Running"]
    # The chart has no readiness probe: its Pod is ready before its program listens.
    wait_until(lambda: greeting(charts) == "welcome to the minimart", timeout=LIMIT, what="the shop greets")
    charts.change("minimart-sample", replicaCount=2, greeting="good evening")
    charts.until_condition("Ready", "True")
    assert charts.deployment("minimart-sample")["status"]["readyReplicas"] == 2
    assert charts.revisions("minimart-sample") == [(1, "superseded"), (2, "deployed")]
    wait_until(lambda: greeting(charts) == "good evening", timeout=LIMIT, what="the shop greets otherwise")
    charts.shell(f"kubectl delete -f {chart_stage.SAMPLE}")
    until_nothing_is_left(stage, CHART_KINDS, "default")


def test_003_the_chart_is_served_by_one_operator_also_after_a_power_cut(
    charts: chart_stage.Stage, stage: flux_stage.Stage
) -> None:
    plane = charts.cluster
    plane.api.kill()
    plane.api.restart()
    charts.create("corner", replicaCount=1)
    charts.until_condition("Ready", "True", "corner")
    assert "waiting for leadership" not in plane.api.output()  # its own old Lease is no reason to
    with charts.operator() as other:
        assert other.until_said("waiting for leadership")["holder"] == "edgewright-up"
        charts.change("corner", replicaCount=2)
        charts.until_condition("Ready", "True", "corner")
        assert (other.said("leading"), other.child()) == ([], None)
    assert charts.revisions("corner") == [(1, "superseded"), (2, "deployed")]
    charts.shell("kubectl delete minimart corner")
    until_nothing_is_left(stage, CHART_KINDS, "default")
