"""Document 003 under faults: a leader that freezes, processes that die, input that cannot be, and no write too many.

On a real Kubernetes without a node: Pods stay Pending, so an upgrade whose hook is a Pod waits until a test ends it.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.chart_stage import MINIMARTS, Stage, alive, working_folder, writes
from tests.harness import ControlPlane, repetition, wait_until
from tests.harness.fixtures import run

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
LEASE_SECONDS = 15


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A cluster without a node; it counts requests."""
    yield from run(request, functools.partial(ControlPlane, parts={"controller-manager"}, audit=True))


@pytest.fixture(scope="module")
def stage(cluster: ControlPlane) -> Iterator[Stage]:
    """A project whose kind is installed."""
    with working_folder() as folder:
        stage = Stage(cluster, folder)
        stage.init()
        stage.shell("make install")
        yield stage


def hook(stage: Stage, name: str, *, but: str = "") -> dict[str, Any]:
    """The hook's Pod, once it is there and another one than `but`."""

    def found() -> dict[str, Any] | None:
        pods = stage.cluster.request("GET", f"{PODS}?fieldSelector=metadata.name={name}-stocktaking")["items"]
        return next((each for each in pods if each["metadata"]["uid"] != but), None)

    return wait_until(found, what=f"the hook of {name} runs")


def end_hook(stage: Stage, name: str) -> None:
    """Lets the hook's Pod end well."""
    status = {"status": {"phase": "Succeeded"}}
    stage.cluster.request("PATCH", f"{PODS}/{name}-stocktaking/status", status, content_type=MERGE)


def greeting(stage: Stage, name: str) -> str:
    """What the Deployment says."""
    container = stage.deployment(name)["spec"]["template"]["spec"]["containers"][0]
    return str(next(each["value"] for each in container["env"] if each["name"] == "GREETING"))


def deployed(stage: Stage, name: str, text: str) -> None:
    """Waits until the release is what its object says, and nothing else is."""
    stage.until_condition("Deployed", "True", name)
    wait_until(lambda: greeting(stage, name) == text, what=f"{name} says {text}")
    revisions = stage.revisions(name)
    assert [status for _, status in revisions].count("deployed") == 1, revisions
    assert revisions[-1][1] == "deployed", revisions
    assert not any(status.startswith("pending") for _, status in revisions), revisions


def test_a_leader_stopped_in_mid_upgrade_past_its_lease_leaves_one_consistent_release(stage: Stage) -> None:
    with stage.operator(name="first") as first:
        stage.create("frozen", greeting="one")
        stage.until_condition("Deployed", "True", "frozen")
        with stage.operator(name="second") as second:
            second.until_said("waiting for leadership")
            stage.change("frozen", stocktaking=True, greeting="two")
            pod = hook(stage, "frozen")["metadata"]["uid"]
            assert stage.revisions("frozen") == [(1, "deployed"), (2, "pending-upgrade")]
            child = first.child()
            assert child is not None
            first.stop()
            since = time.monotonic()
            wait_until(lambda: not alive(child), what="the first leader's Helm process has ended by itself")
            assert time.monotonic() - since < LEASE_SECONDS
            assert not second.said("leading")
            second.until_said("leading")
            hook(stage, "frozen", but=pod)
            end_hook(stage, "frozen")
            deployed(stage, "frozen", "two")
            assert stage.revisions("frozen") == [(1, "superseded"), (2, "failed"), (3, "deployed")]
            first.resume()
            assert first.process.wait(60) != 0, "a leader that lost its lease ends"
            deployed(stage, "frozen", "two")
            assert stage.revisions("frozen") == [(1, "superseded"), (2, "failed"), (3, "deployed")]
            stage.cluster.request("DELETE", f"{MINIMARTS}/frozen")
            stage.until_gone("frozen")
            assert stage.revisions("frozen") == []


def test_the_helm_process_dies_with_the_operator(stage: Stage) -> None:
    with stage.operator("--no-leader-elect") as operator:
        stage.create("orphan")
        stage.until_condition("Deployed", "True", "orphan")
        child = operator.child()
        assert child is not None
        operator.kill()
        wait_until(lambda: not alive(child), what="the Helm process has ended")


def test_a_settled_release_causes_no_helm_action_and_no_write_after_a_restart(
    cluster: ControlPlane, stage: Stage
) -> None:
    with stage.operator("--no-leader-elect", name="before"):
        stage.create("settled", replicaCount=0)
        stage.until_condition("Ready", "True", "settled")
    before = stage.minimart("settled")
    line = len(cluster.audit_events())
    with stage.operator("--no-leader-elect", name="after") as after:
        # Later than the pass over it: the objects of a kind are passed over in their order, and this one is new.
        stage.create("witness", replicaCount=0)
        stage.until_condition("Ready", "True", "witness")
        assert [each["release"] for each in after.said("Installed release")] == ["witness"]
        assert not after.said("Upgraded release")
    assert stage.minimart("settled") == before
    assert [each for each in writes(cluster, line) if "settled" in each[1]] == []
    assert [each for each in writes(cluster, line) if "witness" in each[1]] != []


def test_a_wiped_status_comes_back_without_a_helm_action(stage: Stage) -> None:
    with stage.operator("--no-leader-elect") as operator:
        stage.create("wiped", replicaCount=0)
        stage.until_condition("Ready", "True", "wiped")
        path = f"{MINIMARTS}/wiped"
        before = stage.minimart("wiped")["status"]
        operator.kill()
        stage.cluster.request("PATCH", f"{path}/status", {"status": None}, content_type=MERGE)
        assert "status" not in stage.minimart("wiped")
    with stage.operator("--no-leader-elect") as operator:
        stage.until_condition("Ready", "True", "wiped")
        after = stage.minimart("wiped")["status"]
        assert after["deployedRelease"] == before["deployedRelease"]
        assert {each["type"]: each["message"] for each in after["conditions"] if "message" in each} == {
            each["type"]: each["message"] for each in before["conditions"] if "message" in each
        }
        assert not operator.said("Upgraded release")


def test_a_chart_that_does_not_render_is_told_in_helms_words_and_nothing_is_done(stage: Stage) -> None:
    with stage.operator("--no-leader-elect"):
        stage.create("broken", image={"repository": ""})
        condition = stage.until_condition("Irreconcilable", "True", "broken")
        assert condition["reason"] == "ReconcileError"
        assert "image.repository is required" in condition["message"]
        assert stage.conditions("broken")["Ready"]["status"] == "False"
        assert stage.revisions("broken") == []
        assert not stage.cluster.exists("/api/v1/namespaces/default/services/broken")
        stage.change("broken", image=None, greeting="fixed")
        deployed(stage, "broken", "fixed")
        assert "Irreconcilable" not in stage.conditions("broken")
        stage.cluster.request("DELETE", f"{MINIMARTS}/broken")
        stage.until_gone("broken")


def test_an_upgrade_over_a_foreign_edit_does_not_conflict(stage: Stage) -> None:
    with stage.operator("--no-leader-elect", name="editor-1"):
        stage.create("edited", greeting="one")
        deployed(stage, "edited", "one")
    stage.shell("kubectl set env deployment/edited GREETING=foreign")
    stage.change("edited", greeting="two")
    with stage.operator("--no-leader-elect", name="editor-2"):
        deployed(stage, "edited", "two")


@pytest.mark.repeated
@pytest.mark.parametrize("seed", repetition.numbers(3, 20))
def test_an_operator_killed_at_random_moments_comes_to_the_same_end(stage: Stage, seed: int) -> None:
    dice = random.Random(seed)
    name = f"killed-{seed}"

    def interrupted(until: float) -> None:
        """An operator that lives for so many seconds of work."""
        with stage.operator("--no-leader-elect", name=name) as operator:
            operator.until_said("Starting EventSource")
            operator.work_for(until)

    stage.create(name, greeting="one")
    for _ in range(repetition.times(1, 3)):
        interrupted(dice.uniform(0.2, 2.5))
    stage.change(name, greeting="two", replicaCount=2)
    for _ in range(repetition.times(1, 3)):
        interrupted(dice.uniform(0.2, 2.5))
    with stage.operator("--no-leader-elect", name=name):
        deployed(stage, name, "two")
        assert stage.deployment(name)["spec"]["replicas"] == 2
    stage.cluster.request("DELETE", f"{MINIMARTS}/{name}")
    interrupted(dice.uniform(0.2, 2.5))
    with stage.operator("--no-leader-elect", name=name):
        stage.until_gone(name)
    assert stage.revisions(name) == []
    for path in ("deployments.apps", "services", "serviceaccounts"):
        assert name not in stage.shell(f"kubectl get {path} --output name")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- {group: a.b, version: v1, kind: C, chart: helm-charts/minimart, colour: red}", "unknown key 'colour'"),
        (
            2 * "- {group: a.b, version: v1, kind: C, chart: helm-charts/minimart}\n",
            "entry 2: duplicate a.b/v1/C",
        ),
        ("- {group: a.b, version: v1, kind: C, chart: helm-charts/none}", "is no folder with a Chart.yaml"),
        ("- {group: a.b, version: v1, kind: C, chart: helm-charts/minimart}", "a.b/v1, Kind=C is not served"),
    ],
    ids=["unknown key", "duplicate", "no chart", "not served"],
)
def test_a_watches_file_that_cannot_be_is_one_sentence(stage: Stage, text: str, sentence: str) -> None:
    (stage.project / "bad.yaml").write_text(text)
    said = stage.shell("edgewright run --controllers charts --watches bad.yaml", fails=True)
    assert sentence in said.splitlines()[-1]
    assert "Traceback" not in said
