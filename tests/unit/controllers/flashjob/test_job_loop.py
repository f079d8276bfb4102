"""The loop over FlashJobs: what it claims, what it shows, and when it leaves things alone."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.device import FlashRecord
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FINALIZER
from tests.unit.controllers.flashjob.jobs_stage import DEVICES, JOBS, Stage, condition, eventually, stage
from tests.unit.runtime.fakeserver import until

SECRETS = "/api/v1/namespaces/default/secrets"


def completed(status: dict[str, Any]) -> bool:
    return bool(status["phase"] == "Completed")


def accepted(status: dict[str, Any], value: str) -> bool:
    return bool(condition(status, "Accepted")["status"] == value)


async def claims(here: Stage) -> dict[str, Any]:
    """The claims that there are, by the names of their Devices."""
    listed = (await here.api("GET", DEVICES)).body["items"]
    return {each["metadata"]["name"]: each["status"]["claim"] for each in listed if each.get("status", {}).get("claim")}


async def claimed(here: Stage, *names: str) -> dict[str, Any]:
    """The claims, as soon as they are on exactly these Devices."""

    async def look() -> dict[str, Any] | None:
        found = await claims(here)
        return found if found.keys() == set(names) else None

    return await eventually(look)


async def test_every_device_of_a_job_is_flashed_once_and_the_job_completes(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        names = [f"device-{number}" for number in range(12)]
        for name in names:
            await here.make_device(name)
        await here.make_job("job", *names, maxConcurrent=4)
        async with here.operating():
            status = await here.shown(completed)
            await here.quiet()
        assert status["message"] == "All flashing pods completed successfully"
        assert (status["progress"], status["completedUUIDs"]) == ("12/12", names)
        assert status["counts"] == {"total": 12, "done": 12, "failed": 0, "flashing": 0, "waiting": 0}
        assert condition(status, "Ready")["status"] == "True"
        assert here.flashed == dict.fromkeys(names, 1)
        assert here.most <= 4
        assert FINALIZER not in (await here.job())["metadata"].get("finalizers", [])


async def test_the_second_pass_over_a_settled_job_makes_no_request(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("job", "one")
        async with here.operating():
            await here.shown(completed)
            await here.quiet()
        before = await here.job()
        async with here.operating():
            await until(here.passes)
            await here.quiet()
            here.requests.clear()
            passes = here.passes()
            await here.change(f"{JOBS}/job", {"metadata": {"labels": {"touched": "yes"}}})
            await until(lambda: here.passes() > passes)
            await here.quiet()
            assert not here.requests
        assert (await here.job())["status"] == before["status"]
        assert here.flashed == {"one": 1}


async def test_a_device_is_named_by_its_own_uid_its_name_or_an_instance_of_the_past(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        made = [await here.make_device(name) for name in ("by-name", "by-uid", "by-instance")]
        instances = {"status": {"instances": ["gone-long-ago", "now"]}}
        await here.change(f"{DEVICES}/by-instance/status", instances)
        await here.make_job("job", "by-name", made[1]["metadata"]["uid"], "gone-long-ago")
        async with here.operating():
            status = await here.shown(completed)
        assert [each["device"] for each in status["devices"]] == ["by-name", "by-uid", "by-instance"]


async def test_a_job_knows_what_it_has_flashed_when_the_inventory_has_forgotten_the_instance(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.change(f"{DEVICES}/one/status", {"status": {"instances": ["first"]}})
        await here.make_job("job", "first")
        async with here.operating():
            await here.shown(completed)
            await here.quiet()
        # Of a device that comes and goes all the time, only so many Instances are remembered.
        await here.change(f"{DEVICES}/one/status", {"status": {"instances": ["latest"]}})
        async with here.operating():
            await until(here.passes)
            await here.quiet()
        assert completed((await here.job())["status"])
        assert here.flashed == {"one": 1}


async def test_two_names_of_one_device_are_both_shown_and_it_is_flashed_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        made = await here.make_device("one")
        await here.make_job("job", "one", made["metadata"]["uid"])
        async with here.operating():
            status = await here.shown(completed)
        assert status["progress"] == "2/2"
        assert here.flashed == {"one": 1}


async def test_a_device_that_another_job_has_is_waited_for_and_its_job_named(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        here.flashing = False
        await here.make_device("one")
        await here.make_job("first", "one")
        async with here.operating():
            await claimed(here, "one")
            await here.make_job("second", "one", version="2.0.0")
            status = await here.shown(lambda status: status["devices"][0]["message"], "second")
            assert status["devices"][0]["message"] == "waiting for job first in namespace default, which is flashing it"
            assert (await claims(here))["one"]["job"]["name"] == "first"
            here.flashing = True
            await here.shown(completed, "second")
            superseded = await here.shown(lambda status: status["devices"][0]["superseded"], "first")
            assert superseded["phase"] == "Completed"
        assert here.flashed == {"one": 2}


async def test_a_wiped_status_and_a_restart_flash_nothing_and_are_shown_as_before(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("a", "one", version="1.0.0")
        async with here.operating():
            await here.shown(completed, "a")
            here.outcomes["one"] = FlashRecord(outcome=Outcome.SUCCEEDED, version="2.0.0", digest="sha256:" + "b" * 64)
            await here.make_job("b", "one", version="2.0.0")
            await here.shown(completed, "b")
            before = await here.shown(lambda status: status["devices"][0]["superseded"], "a")
            await here.quiet()
            await here.change(f"{JOBS}/a/status", {"status": None})
            again = await here.shown(completed, "a")
            assert again["devices"] == before["devices"]
        await here.change(f"{JOBS}/a/status", {"status": None})
        async with here.operating():
            again = await here.shown(completed, "a")
            await here.quiet()
        assert again["completionTime"] == before["completionTime"]
        assert here.flashed == {"one": 2}


async def test_a_uuid_that_is_added_is_the_only_one_flashed(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_device("two")
        await here.make_job("job", "one")
        async with here.operating():
            await here.shown(completed)
            await here.change(f"{JOBS}/job", {"spec": {"uuid": ["one", "two"]}})
            await here.shown(lambda status: status["progress"] == "2/2")
        assert here.flashed == {"one": 1, "two": 1}


@pytest.mark.parametrize(
    "change",
    [{"version": "2.0.0"}, {"firmware": "registry.example/esp32:2.0.0"}, {"force": True}],
    ids=["version", "firmware", "force"],
)
async def test_another_desired_state_is_brought_to_all_devices_once(tmp_path: Path, change: dict[str, Any]) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("job", "one")
        async with here.operating():
            await here.shown(completed)
            await here.change(f"{JOBS}/job", {"spec": change})
            await here.shown(lambda status: completed(status) and status["observedGeneration"] == 2)
            await here.quiet()
        assert here.flashed == {"one": 2}


async def test_force_that_stays_set_flashes_each_device_once_for_each_state(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("one", "two"):
            await here.make_device(name)
        await here.make_job("job", "one", force=True)
        async with here.operating():
            await here.shown(completed)
            await here.change(f"{JOBS}/job", {"spec": {"uuid": ["one", "two"]}})
            await here.shown(lambda status: completed(status) and status["progress"] == "2/2")
            await here.quiet()
        assert here.flashed == {"one": 1, "two": 1}
        async with here.operating():
            await until(here.passes)
            await here.quiet()
            assert here.flashed == {"one": 1, "two": 1}
            await here.change(f"{JOBS}/job", {"spec": {"version": "2.0.0"}})
            await here.shown(lambda status: completed(status) and status["observedGeneration"] == 3)
            await here.quiet()
        assert here.flashed == {"one": 2, "two": 2}


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED], ids=["refused", "failed"])
async def test_a_final_failure_stays_final_when_other_fields_change_and_the_job_says_what_to_do(
    tmp_path: Path, outcome: Outcome
) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        here.outcomes["one"] = FlashRecord(outcome=outcome, message="it is not wanted here")
        await here.make_job("job", "one")
        async with here.operating() as context:
            status = await here.shown(lambda status: status["phase"] == "Failed")
            assert "spec.force" not in status["message"]
            recorded = context.device("one")
            assert recorded is not None
            ended = recorded.status.records[0].time
            assert ended is not None
            await until(lambda: context.clock.now().replace(microsecond=0) > ended)  # the spec's time has whole seconds
            await here.change(f"{JOBS}/job", {"spec": {"allowInsecure": True, "flashjobPodImage": "r.example/other"}})
            status = await here.shown(lambda status: status["observedGeneration"] == 2)
            what = "set spec.force: true to try again with the changed spec"
            assert what in status["devices"][0]["message"]
            assert what in condition(status, "Stalled")["message"]
            assert what in condition(status, "Ready")["message"]
            await here.quiet()
            assert here.flashed == {"one": 1}
            del here.outcomes["one"]
            await here.change(f"{JOBS}/job", {"spec": {"force": True}})
            await here.shown(completed)
        assert here.flashed == {"one": 2}


async def test_a_paused_job_starts_nothing_until_it_goes_on(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("job", "one", paused=True)
        async with here.operating():
            status = await here.shown(lambda status: status["phase"])
            assert (status["phase"], condition(status, "Reconciling")["reason"]) == ("InProgress", "Paused")
            assert status["devices"][0]["message"] == "paused"
            await here.quiet()
            assert not await claims(here)
            await here.change(f"{JOBS}/job", {"spec": {"paused": False}})
            await here.shown(completed)


async def test_a_device_that_nobody_discovers_is_not_found_and_flashed_once_it_is(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("job", "one", "two")
        async with here.operating():
            waiting = await here.shown(lambda status: status["progress"] == "1/2")
            assert (waiting["phase"], waiting["devices"][0]["message"]) == ("InProgress", "waiting to be discovered")
            await here.change(f"{JOBS}/job", {"spec": {"discoveryTimeoutSeconds": 0}})
            failed = await here.shown(lambda status: status["phase"] == "Failed")
            assert failed["devices"][0]["outcome"] == "not-found"
            assert condition(failed, "Ready")["status"] == "False"
            assert here.manager is not None
            await here.manager.recorder.flush()
            events = (await here.api("GET", "/api/v1/namespaces/default/events")).body["items"]
            assert "AkriInstanceError" in {event["reason"] for event in events}
            await here.make_device("two")
            await here.shown(completed)


async def test_the_device_of_a_host_endpoint_is_made(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_job("job", "On My Desk", hostEndpoint="192.0.2.9", device="esp32s3")
        async with here.operating():
            status = await here.shown(completed)
        assert status["hostEndpoint"] == "192.0.2.9"
        made = (await here.api("GET", f"{DEVICES}/{status['devices'][0]['device']}")).body
        assert made["spec"] == {"endpoint": "192.0.2.9", "type": "esp32s3", "allowEndpointOverride": True}


async def test_failed_devices_make_a_failed_job_that_says_why(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("one", "two"):
            await here.make_device(name)
        here.outcomes["two"] = FlashRecord(outcome=Outcome.REFUSED, message="attestation said no")
        await here.make_job("job", "one", "two")
        async with here.operating():
            status = await here.shown(lambda status: status["phase"] == "Failed")
            await here.quiet()
        assert status["message"] == "1 of 2 devices failed: two: refused: attestation said no"
        assert condition(status, "Stalled")["reason"] == "DevicesFailed"
        assert status["completedUUIDs"] == ["one"]
        assert here.flashed == {"one": 1, "two": 1}


async def test_an_attempt_that_is_due_takes_a_place_before_it_goes_on(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        here.flashing = False
        for name in ("one", "two"):
            await here.make_device(name)
        await here.make_job("job", "one", "two", maxConcurrent=1)
        async with here.operating():
            await claimed(here, "one")
            later = {"attempt": 2, "notBefore": "2020-01-01T00:00:00Z", "lastMessage": "it was cut off"}
            await here.change(f"{DEVICES}/one/status", {"status": {"claim": later}})

            async def resumed() -> bool:
                return "notBefore" not in (await claims(here))["one"]

            await eventually(resumed)
            await here.quiet()
            assert (await claims(here)).keys() == {"one"}
            here.flashing = True
            await here.shown(completed)
        assert here.most == 1


async def test_a_missing_secret_holds_the_job_up_until_it_is_there(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("job", "one", firmwarePullSecret="pull")
        async with here.operating():
            status = await here.shown(lambda status: accepted(status, "False"))
            said = condition(status, "Accepted")
            assert said["reason"] == "SecretMissing"
            assert said["message"].startswith("spec.firmwarePullSecret: there is no Secret pull in namespace default")
            assert not await claims(here)
            assert not (await here.job())["metadata"].get("finalizers")
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}}
            await here.api.made(SECRETS, {**secret, "stringData": {"wrong": "{}"}})
            await here.shown(lambda status: "has no .dockerconfigjson" in condition(status, "Accepted")["message"])
            await here.change(f"{SECRETS}/pull", {"stringData": {".dockerconfigjson": "{}"}})
            status = await here.shown(completed)
            assert accepted(status, "True")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"firmware": "fsdsdsd"}, "spec.firmware"),
        ({"uuid": ["one", "one"]}, "spec.uuid"),
        ({"hostEndpoint": "127.0.0.1"}, "spec.hostEndpoint"),
        ({"hostEndpoint": "not an address"}, "spec.hostEndpoint"),
    ],
    ids=["firmware", "duplicates", "loopback", "no address"],
)
async def test_bad_input_is_told_with_the_field_and_nothing_is_flashed(
    tmp_path: Path, spec: dict[str, Any], field: str
) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("job", "one", **spec)
        async with here.operating():
            status = await here.shown(lambda status: status["phase"] == "Failed")
            await here.quiet()
            assert condition(status, "Accepted")["message"].startswith(field)
            assert not await claims(here)
            assert not (await here.job())["metadata"].get("finalizers")
            await here.change(
                f"{JOBS}/job", {"spec": {"uuid": ["one"], "hostEndpoint": None, "firmware": "r.example/f"}}
            )
            await here.shown(completed)


async def test_the_endpoint_of_a_device_must_be_an_address(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one", endpoint="169.254.1.1")
        await here.make_job("job", "one")
        async with here.operating():
            status = await here.shown(lambda status: status["phase"] == "Failed")
            assert status["devices"][0]["outcome"] == "refused"
            assert status["devices"][0]["message"].startswith("spec.endpoint of Device one: 169.254.1.1")
            await here.change(f"{DEVICES}/one", {"spec": {"endpoint": "192.0.2.1"}})
            await here.shown(completed)


async def test_a_job_that_is_deleted_goes_when_nothing_of_it_is_left(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        here.flashing = False
        await here.make_device("one")
        await here.make_job("job", "one")
        async with here.operating():
            await claimed(here, "one")
            await here.api("DELETE", f"{JOBS}/job")
            await here.quiet_but_for_timers()
            assert FINALIZER in (await here.job())["metadata"]["finalizers"]
            here.flashing = True
            await here.gone(f"{JOBS}/job")
        assert here.flashed == {"one": 1}


async def test_a_job_with_a_time_to_live_is_deleted_after_its_end(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("job", "one", ttlSecondsAfterFinished=0)
        async with here.operating():
            await here.gone(f"{JOBS}/job")
        assert here.flashed == {"one": 1}


async def test_events_tell_the_turns_of_a_job_and_nothing_else(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")

        async def told(job: str) -> list[tuple[str, int]]:
            events = (await here.api("GET", "/api/v1/namespaces/default/events")).body["items"]
            about = [each for each in events if each["involvedObject"]["name"] == job]
            return sorted((each["reason"], each["count"]) for each in about)

        async def completion_is_told(job: str) -> bool | None:
            return any(reason == "Completed" for reason, _ in await told(job)) or None

        async def made(job: str) -> None:
            await here.make_job(job, "one")
            await eventually(functools.partial(completion_is_told, job))

        # Events are sent in their order: what is told of one job is told when the next has come to its end.
        async with here.operating():
            await made("job")
            await made("second")
        before = await told("job")
        assert {"Accepted", "Completed"} <= {reason for reason, _ in before}
        async with here.operating():
            await made("third")
        assert await told("job") == before


async def test_a_type_that_is_too_long_for_a_device_keeps_no_job_from_going_on(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_job("job", "one", hostEndpoint="192.0.2.9", device="x" * 64)
        async with here.operating():
            await here.shown(completed)


async def test_two_devices_at_one_address_are_never_flashed_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("discovered", endpoint="192.0.2.9")
        here.flashing = False
        await here.make_job("first", "discovered")
        async with here.operating():
            await claimed(here, "discovered")
            await here.make_job("second", "unheard-of", hostEndpoint="http://192.0.2.9:80")
            status = await here.shown(lambda status: "same address" in status["devices"][0]["message"], "second")
            assert status["devices"][0]["message"] == (
                "waits for Device discovered, which has the same address and is being flashed by job first"
                " in namespace default"
            )
            assert (await claims(here)).keys() == {"discovered"}
            here.flashing = True
            await here.shown(completed, "first")
            await here.shown(completed, "second")
        assert here.flashed == {"discovered": 1, "unheard-of": 1}


async def test_of_two_jobs_that_start_together_at_one_address_one_waits(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        here.flashing = False
        for name in ("one", "two"):
            await here.make_device(name, endpoint="192.0.2.9")
            await here.make_job(f"job-{name}", name)
        async with here.operating():
            await eventually(lambda: claims(here))
            for name in ("one", "two"):
                await here.shown(lambda status: status["phase"] == "InProgress", f"job-{name}")
            assert len(await claims(here)) == 1
            here.flashing = True
            for name in ("one", "two"):
                await here.shown(completed, f"job-{name}")
        assert here.most == 1
