"""Our Job controller does what that of Kubernetes does: on three control planes, as in `test_local_workloads`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.workloads_stage import Stage, conditions, job
from tests.harness import ApiServer

INDEX = "batch.kubernetes.io/job-completion-index"
TRACKING = "batch.kubernetes.io/job-tracking"


@pytest.fixture
def stage(workload_plane: ApiServer, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A namespace in which Pods can be created."""
    made = Stage(workload_plane, workload_plane.create_namespace(request.node.originalname.removeprefix("test_")))
    yield made
    made.remove()


def ended(stage: Stage, name: str, type_: str) -> dict[str, Any]:
    """Waits for the end of a Job; its conditions by their types."""
    stage.until(lambda: type_ in conditions(stage.get("jobs", name)), f"{name} is {type_}")
    return conditions(stage.get("jobs", name))


def test_a_job_is_complete_when_enough_pods_have_succeeded(stage: Stage) -> None:
    stage.create("jobs", job("work", completions=3, parallelism=2))
    first = stage.pods(2)
    assert all(pod["metadata"]["generateName"] == "work-" for pod in first)
    assert all(pod["metadata"]["finalizers"] == [TRACKING] for pod in first)
    status = stage.status("jobs", "work", active=2)
    assert status["startTime"]
    assert (status["ready"], status["terminating"], status["uncountedTerminatedPods"]) == (0, 0, {})
    stage.run(first[0])
    stage.status("jobs", "work", ready=1)
    for pod in first:
        stage.end(pod)
    stage.status("jobs", "work", succeeded=2, active=1)
    (last,) = stage.pods(1)
    stage.end(last)
    found = ended(stage, "work", "Complete")
    reached = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
    assert {name: (each["status"], each["reason"], each["message"]) for name, each in found.items()} == {
        "SuccessCriteriaMet": reached,
        "Complete": reached,
    }
    status = stage.get("jobs", "work")["status"]
    assert status["succeeded"] == 3
    assert status["completionTime"]
    assert "active" not in status
    assert all("finalizers" not in pod["metadata"] for pod in stage.all("pods"))
    assert stage.events("work", "Completed")
    stage.delete("jobs", "work")
    stage.until(lambda: not stage.all("pods"), "the Pods are gone")


def test_pods_of_an_indexed_job_know_who_they_are(stage: Stage) -> None:
    stage.create("jobs", job("work", completions=3, parallelism=3, completionMode="Indexed"))
    pods = stage.pods(3)
    for index, pod in enumerate(pods):
        about = pod["metadata"]
        assert about["generateName"] == f"work-{index}-"
        assert (about["labels"][INDEX], about["annotations"][INDEX]) == (str(index), str(index))
        assert pod["spec"]["hostname"] == f"work-{index}"
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    stage.end(pods[0])
    stage.end(pods[2])
    assert stage.status("jobs", "work", succeeded=2)["completedIndexes"] == "0,2"
    stage.patch("jobs", "work", {"spec": {"completions": 5, "parallelism": 5}})
    stage.pods(3)
    stage.patch("jobs", "work", {"spec": {"completions": 2, "parallelism": 2}})
    (left,) = stage.pods(1)
    assert left["metadata"]["annotations"][INDEX] == "1"
    stage.until(lambda: not [pod for pod in stage.all("pods") if "deletionTimestamp" in pod["metadata"]], "they went")
    stage.end(left)
    ended(stage, "work", "Complete")
    assert stage.get("jobs", "work")["status"]["completedIndexes"] == "0,1"


def test_a_job_gives_up_when_pods_fail_too_often(stage: Stage) -> None:
    stage.create("jobs", job("work", backoffLimit=0, parallelism=2, completions=2))
    pods = stage.pods(2)
    stage.end(pods[0], code=1)
    found = ended(stage, "work", "Failed")
    wanted = ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert [(each["status"], each["reason"], each["message"]) for each in found.values()] == [wanted] * 2
    assert list(found) == ["FailureTarget", "Failed"]
    assert all(each["lastProbeTime"] for each in found.values())
    status = stage.get("jobs", "work")["status"]
    assert status["failed"] == 2, "those that were ended with it count as failed"
    assert "completionTime" not in status
    stage.until(lambda: not stage.active(), "no Pod is left")


def test_a_failed_pod_is_replaced_after_a_while(stage: Stage) -> None:
    stage.create("jobs", job("work"))
    (pod,) = stage.pods(1)
    stage.end(pod, code=3)
    stage.status("jobs", "work", failed=1)
    (second,) = stage.pods(1)
    assert second["metadata"]["name"] != pod["metadata"]["name"]
    stage.end(second)
    ended(stage, "work", "Complete")


def test_a_job_ends_at_its_deadline(stage: Stage) -> None:
    stage.create("jobs", job("work", activeDeadlineSeconds=2))
    stage.pods(1)
    found = ended(stage, "work", "Failed")["Failed"]
    assert (found["reason"], found["message"]) == (
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    )
    stage.until(lambda: not stage.all("pods"), "the Pod is gone")


def test_a_suspended_job_has_no_pods_until_it_is_resumed(stage: Stage) -> None:
    stage.create("jobs", job("work", suspend=True))
    stage.until(lambda: "Suspended" in conditions(stage.get("jobs", "work")), "it says that it is suspended")
    assert "startTime" not in stage.get("jobs", "work")["status"]
    assert not stage.all("pods")
    stage.patch("jobs", "work", {"spec": {"suspend": False}})
    stage.pods(1)

    def resumed() -> bool:
        found = conditions(stage.get("jobs", "work"))["Suspended"]
        return (found["status"], found["reason"]) == ("False", "JobResumed")

    stage.until(resumed, "it says that it goes on")  # the status comes after the Pods
    stage.patch("jobs", "work", {"spec": {"suspend": True}})
    stage.until(lambda: not stage.all("pods"), "the Pod is gone")
    stage.status("jobs", "work", active=0, failed=0, terminating=0)


def test_a_finished_job_goes_after_its_time(stage: Stage) -> None:
    stage.create("jobs", job("work", ttlSecondsAfterFinished=1))
    (pod,) = stage.pods(1)
    stage.end(pod)
    stage.until(lambda: stage.find("jobs", "work") is None and not stage.all("pods"), "Job and Pod are gone")


def test_rules_say_what_a_failure_means(stage: Stage) -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    stage.create("jobs", job("work", backoffLimit=0, podFailurePolicy={"rules": rules}))
    (pod,) = stage.pods(1)
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    change = {"status": {"phase": "Failed", "conditions": [disrupted]}}
    stage.patch("pods", pod["metadata"]["name"], change, "status")
    (second,) = stage.pods(1, but=[pod])
    stage.end(second, code=42)
    found = ended(stage, "work", "Failed")["Failed"]
    name = f"{stage.namespace}/{second['metadata']['name']}"
    assert found["reason"] == "PodFailurePolicy"
    assert found["message"] == (
        f"Container main for pod {name} failed with exit code 42 matching FailJob rule at index 1"
    )


def test_an_index_that_fails_too_often_does_not_end_the_others(stage: Stage) -> None:
    stage.create(
        "jobs",
        job("work", completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=0),
    )
    pods = stage.pods(2)
    assert pods[0]["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "0"
    stage.end(pods[0], code=1)
    assert stage.status("jobs", "work", active=1, failedIndexes="0")
    stage.end(pods[1])
    found = ended(stage, "work", "Failed")["Failed"]
    assert (found["reason"], found["message"]) == ("FailedIndexes", "Job has failed indexes")
    status = stage.get("jobs", "work")["status"]
    assert (status["succeeded"], status["failed"], status["completedIndexes"]) == (1, 1, "1")


def test_a_job_can_be_done_before_all_have_succeeded(stage: Stage) -> None:
    policy = {"rules": [{"succeededIndexes": "1"}]}
    stage.create("jobs", job("work", completions=2, parallelism=2, completionMode="Indexed", successPolicy=policy))
    pods = stage.pods(2)
    stage.end(pods[1])
    found = ended(stage, "work", "Complete")
    assert {(each["reason"], each["message"]) for each in found.values()} == {
        ("SuccessPolicy", "Matched rules at index 0")
    }
    stage.until(lambda: not stage.active(), "the other Pod is gone")


def test_pods_stay_when_their_job_is_deleted_without_them(stage: Stage) -> None:
    stage.create("jobs", job("work"))
    (pod,) = stage.pods(1)
    stage.until_collector_follows()  # else it would not be known as a dependent, and go as one whose owner is missing
    stage.plane.request("DELETE", stage.path("jobs", "work"))
    stage.until(lambda: stage.find("jobs", "work") is None, "the Job is gone")
    name = pod["metadata"]["name"]
    stage.until(lambda: "finalizers" not in stage.get("pods", name)["metadata"], "the Pod is free")
    assert "ownerReferences" not in stage.get("pods", name)["metadata"]
