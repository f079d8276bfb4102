"""New versions of a workload: when one is good, when it has failed, and what runs then."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.agent.manifest import Port
from edgewright.agent.state import State
from edgewright.agent.versions import Look, Verdict, Version, Versions, judge
from edgewright.api.edge_protocol import WireSecret, Workload
from tests.unit.agent.test_workloads import SPEC, WEB, Stage, configuration, stage

CHANGED = Workload(name="web", specification=SPEC.replace("image: i", "image: broken").replace("9090", "9091"))


@pytest.mark.parametrize(
    ("look", "verdict"),
    [
        (Look(), Verdict.UNDECIDED),
        (Look(running=True, seconds=29.9), Verdict.UNDECIDED),
        (Look(running=True, seconds=30.0), Verdict.GOOD),
        (Look(running=True, seconds=30.0, faults=2), Verdict.GOOD),
        (Look(running=True, seconds=30.0, faults=3), Verdict.FAILED),
        (Look(running=False, seconds=90.0), Verdict.UNDECIDED),
        (Look(faults=3), Verdict.FAILED),
        (Look(broken=True), Verdict.FAILED),
        (Look(done=True, faults=3), Verdict.GOOD),
    ],
)
def test_what_is_thought_of_a_version(look: Look, verdict: Verdict) -> None:
    assert judge(look, probation=30.0) is verdict


def test_a_first_version_that_fails_has_nothing_to_go_back_to(tmp_path: Path) -> None:
    versions = Versions(State(tmp_path))
    assert versions.observe(Version(workload=WEB), "h1", Look(faults=9)) is Verdict.UNDECIDED
    assert versions.choose("web", "h1") is None
    assert versions.undecided("web", "h1")


def test_what_is_known_of_versions_survives_a_restart_and_a_damaged_file_begins_again(tmp_path: Path) -> None:
    versions = Versions(State(tmp_path))
    good = Version(workload=WEB, secrets=(WireSecret(name="s"),))
    versions.observe(good, "h1", Look(running=True, seconds=99))
    versions.observe(Version(workload=CHANGED), "h2", Look(faults=3, why="it ended"))
    again = Versions(State(tmp_path))
    assert again.choose("web", "h2") == (good, "it ended")
    assert again.choose("web", "h3") is None
    assert again.undecided("web", "h3")
    again.forget({"web"})
    (tmp_path / "versions" / "web.json").write_text("{")
    assert Versions(State(tmp_path)).choose("web", "h2") is None
    again.forget(set())
    assert not (tmp_path / "versions" / "web.json").exists()


async def settle(on: Stage, wanted: Workload) -> None:
    """The workload runs until it is taken for good."""
    await on.workloads.apply(configuration(wanted))
    await on.workloads.apply(configuration(wanted))
    await on.clock.advance(31)
    await on.workloads.apply(configuration(wanted))


async def test_an_update_that_podman_refuses_goes_back_to_the_last_good_version_and_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await settle(on, WEB)
        good = on.podman.pods["web"]["Labels"]["edgewright.dev/hash"]
        on.podman.images.add("broken")
        on.podman.refuse["play web"] = "no such entrypoint"
        for _ in range(3):
            await on.workloads.apply(configuration(CHANGED))
            await on.clock.advance(400)
        assert on.workloads.rolled_back == {"web": "no such entrypoint"}
        on.podman.refuse.clear()
        await on.workloads.apply(configuration(CHANGED))
        assert on.podman.pods["web"]["Labels"]["edgewright.dev/hash"] == good
        assert await on.workloads.statuses(configuration(CHANGED)) == {"web": "Running"}
        (told,) = [text for reason, text in on.told if reason == "WorkloadRolledBack"]
        assert told == "web: the new version failed, the last good one runs: no such entrypoint"
        assert on.events.problems == {"update web": told}
        # Nothing tries the bad version again, not even another process.
        on.podman.asked.clear()
        on.workloads = on.other()
        await on.workloads.apply(configuration(CHANGED))
        assert "POST play/kube" not in on.podman.asked
        # A third version is tried.
        third = Workload(name="web", specification=SPEC.replace("9090", "9092"))
        await on.workloads.apply(configuration(third))
        assert on.workloads.rolled_back == {}
        assert on.events.problems == {}


async def test_an_update_whose_containers_end_again_and_again_goes_back(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await settle(on, WEB)
        on.podman.images.add("broken")
        await on.workloads.apply(configuration(CHANGED))
        for restarts in (1, 2, 3):
            on.podman.pods["web"]["Containers"][1] |= {"RestartCount": restarts, "ExitCode": 7, "Status": "exited"}
            on.podman.pods["web"]["Status"] = "Degraded"
            await on.clock.advance(10)
            await on.workloads.apply(configuration(CHANGED))
        assert on.workloads.rolled_back == {"web": "web-c ended with exit code 7"}
        assert on.podman.pods["web"]["Status"] == "Running"


async def test_an_update_that_was_restarted_before_this_process_started_is_not_blamed(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await settle(on, WEB)
        on.podman.images.add("broken")
        await on.workloads.apply(configuration(CHANGED))
        on.podman.pods["web"]["Containers"][1]["RestartCount"] = 5
        on.workloads = on.other()
        await settle(on, CHANGED)
        assert on.workloads.rolled_back == {}


@pytest.mark.parametrize(("code", "back"), [(0, False), (1, True)])
async def test_a_job_is_judged_by_its_exit_code(tmp_path: Path, code: int, back: bool) -> None:
    async with stage(tmp_path) as on:
        await settle(on, WEB)
        on.podman.images.add("i")
        job = Workload(name="web", specification=f"restartPolicy: Never\n{SPEC}")
        await on.workloads.apply(configuration(job))
        on.podman.pods["web"]["Containers"][1] |= {"ExitCode": code, "Status": "exited"}
        on.podman.pods["web"]["Status"] = "Exited"
        await on.workloads.apply(configuration(job))
        assert ("web" in on.workloads.rolled_back) is back


async def test_an_update_whose_image_cannot_be_fetched_leaves_the_old_version_running(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.workloads.apply(configuration(WEB))
        on.podman.refuse["pull"] = "no such image"
        before = dict(on.podman.pods["web"])
        for _ in range(6):
            await on.workloads.apply(configuration(CHANGED))
            assert on.firewall.ports == {"web": [Port("tcp", 9090)]}
            await on.clock.advance(1)
        assert on.podman.asked.count("POST images/pull") in {2, 3}
        assert on.podman.pods["web"] == before
        assert "the old one goes on: no such image" in on.events.problems["workload web"]
        on.podman.refuse.clear()
        await on.clock.advance(400)
        await on.workloads.apply(configuration(CHANGED))
        assert on.podman.pods["web"]["Labels"] != before["Labels"]
        assert on.events.problems == {}


async def test_an_update_that_cannot_be_read_keeps_the_last_good_version_even_where_its_pod_is_gone(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as on:
        await settle(on, WEB)
        del on.podman.pods["web"]
        bad = Workload(name="web", specification="containers: []")
        await on.clock.advance(400)
        await on.workloads.apply(configuration(bad))
        assert on.podman.pods["web"]["Status"] == "Running"
        assert "specification.containers" in on.workloads.rolled_back["web"]
        await on.workloads.apply(configuration())
        assert (on.workloads.rolled_back, on.events.problems, on.podman.pods) == ({}, {}, {})


async def test_a_first_version_whose_image_cannot_be_fetched_does_not_speak_of_an_old_one(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.workloads.apply(configuration(WEB))
        on.podman.pods["web"]["Containers"] = on.podman.pods["web"]["Containers"][:1]  # podman made the pod, no more
        on.podman.refuse["pull"] = "authentication required"
        await on.clock.advance(10)
        await on.workloads.apply(configuration(WEB))
        assert on.events.problems["workload web"] == "web: its image cannot be fetched: authentication required"
