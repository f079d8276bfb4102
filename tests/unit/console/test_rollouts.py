"""Actions on rollouts, their plan, the fleet at a glance and keys that make a create repeatable, over HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from edgewright.api.firmwarerollout import REVISION_ANNOTATION, ROLLOUT_UID_LABEL, FirmwareRollout
from edgewright.console.actions import ACTION_ANNOTATION
from edgewright.runtime.client import Api
from tests.unit.console.consoles import IN_DEFAULT, JOBS, ROLLOUTS, Portal, consoles, device, job, rollout, widget
from tests.unit.console.narrow import narrow


async def test_an_action_changes_the_spec_and_says_who_and_why(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await portal("PUT", f"{ROLLOUTS}/thermo", rollout())
        done = await portal("POST", f"{ROLLOUTS}/thermo/pause", {"reason": "a holiday"})
        assert (done.status, done.body["spec"]["paused"]) == (202, True), done.body
        said = json.loads(done.body["metadata"]["annotations"][ACTION_ANNOTATION])
        assert (said["action"], said["reason"]) == ("pause", "a holiday")
        assert said["by"]
        again = await portal("POST", f"{ROLLOUTS}/thermo/pause")
        assert (again.status, again.headers["ETag"]) == (202, done.headers["ETag"])
        gone_on = await portal("POST", f"{ROLLOUTS}/thermo/resume", {})
        assert "paused" not in gone_on.body["spec"]
        events = (await portal.api("GET", "/api/v1/namespaces/default/events")).body["items"]
        assert {each["reason"] for each in events} == {"PauseRequested", "ResumeRequested"}


async def answered(portal: Portal, path: str, header: bytes) -> bytes:
    """The first line of the answer to a POST with a header that no client library sends."""
    address = urlsplit(portal.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        start = f"POST {ROLLOUTS}{path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {portal.token}\r\n"
        writer.write(start.encode() + header + b"\r\nContent-Length: 0\r\n\r\n")
        return await reader.readline()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_whom_an_application_acts_for_is_a_remark_next_to_the_caller(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await portal("PUT", f"{ROLLOUTS}/thermo", rollout())
        asked = {"reason": "a holiday"}
        done = await portal("POST", f"{ROLLOUTS}/thermo/pause", asked, X_On_Behalf_Of="Zoë of the night shift")
        said = json.loads(done.body["metadata"]["annotations"][ACTION_ANNOTATION])
        assert said["onBehalfOf"] == "Zoë of the night shift"
        by = said["by"]
        assert "Zoë" not in by
        events = (await portal.api("GET", "/api/v1/namespaces/default/events")).body["items"]
        told = f"{by} (on behalf of Zoë of the night shift, as it says) asked for pause: a holiday"
        assert [each["message"] for each in events] == [told]
        plain = await portal("POST", f"{ROLLOUTS}/thermo/resume", {})
        assert "onBehalfOf" not in json.loads(plain.body["metadata"]["annotations"][ACTION_ANNOTATION])
        assert b" 400 " in await answered(portal, "/thermo/abort", b"X-On-Behalf-Of: \xff")
        for odd in ("x" * 254, "a\tb"):
            refused = await portal("POST", f"{ROLLOUTS}/thermo/abort", {}, X_On_Behalf_Of=odd)
            assert (refused.status, "X-On-Behalf-Of" in refused.body["detail"]) == (400, True), refused.body
        assert "aborted" not in (await portal("GET", f"{ROLLOUTS}/thermo")).body["spec"]


@pytest.mark.parametrize(
    ("action", "body", "status", "told"),
    [
        ("approve", {}, 409, "no batch of rollout thermo waits for approval"),
        ("approve", {"batch": "other"}, 409, "rollout thermo has no batch other: it has canary"),
        ("approve", {"batch": "canary"}, 202, ""),
        ("pause", {"revision": 7}, 409, "revision 7 is not the present one"),
        ("pause", {"why": "x"}, 422, "batch, revision and reason"),
        ("explode", {}, 404, "a rollout has no action explode"),
    ],
)
async def test_an_action_that_makes_no_sense_is_refused_with_the_reason(
    tmp_path: Path, action: str, body: dict[str, Any], status: int, told: str
) -> None:
    async with consoles(tmp_path) as portal:
        await portal("PUT", f"{ROLLOUTS}/thermo", rollout())
        done = await portal("POST", f"{ROLLOUTS}/thermo/{action}", body)
        assert done.status == status, done.body
        assert told in done.body.get("detail", "")


async def test_what_was_aborted_cannot_be_resumed(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await portal("PUT", f"{ROLLOUTS}/thermo", rollout())
        assert (await portal("POST", f"{ROLLOUTS}/thermo/abort")).body["spec"]["aborted"] is True
        refused = await portal("POST", f"{ROLLOUTS}/thermo/resume")
        assert (refused.status, refused.body["type"]) == (409, "/api/v1/problems/conflict")


async def test_a_recall_is_a_rollout_of_its_own_and_is_made_once(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        made = await portal("PUT", f"{ROLLOUTS}/thermo", rollout())
        first = await portal("POST", f"{ROLLOUTS}/thermo/recall", {"reason": "it overheats"})
        assert first.status == 202, first.body
        assert first.body["spec"]["recall"] == {"name": "thermo", "uid": made.body["metadata"]["uid"]}
        assert (await portal("GET", f"{ROLLOUTS}/thermo")).body["spec"]["aborted"] is True
        again = await portal("POST", f"{ROLLOUTS}/thermo/recall")
        assert again.body["metadata"]["uid"] == first.body["metadata"]["uid"]
        name = first.body["metadata"]["name"]
        assert (await portal("POST", f"{ROLLOUTS}/{name}/recall")).status == 409


async def test_a_recall_is_made_although_the_operator_writes_the_rollout_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Api.create

    async with consoles(tmp_path) as portal:

        async def tried(api: Api[Any], obj: Any, *, dry_run: bool = False) -> Any:
            made = await create(api, obj, dry_run=dry_run)
            if dry_run:  # the console has read the rollout, and writes it next
                label = {"metadata": {"labels": {"written": "meanwhile"}}}
                assert (await portal("PATCH", f"{ROLLOUTS}/thermo", label)).status == 200
            return made

        await portal("PUT", f"{ROLLOUTS}/thermo", rollout())
        monkeypatch.setattr(Api, "create", tried)
        done = await portal("POST", f"{ROLLOUTS}/thermo/recall")
        assert (done.status, done.body.get("kind")) == (202, "FirmwareRollout"), done.body
        there = (await portal("GET", f"{ROLLOUTS}/thermo")).body
        assert (there["spec"]["aborted"], there["metadata"]["labels"]) == (True, {"written": "meanwhile"})


async def test_an_undo_brings_what_came_before_and_is_made_once(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        chosen = {"selector": {"labels": {"matchLabels": {"site": "a"}}}}
        made = await portal("PUT", f"{ROLLOUTS}/first", rollout("first", **chosen))
        assert made.status == 201, made.body
        nothing = await portal("POST", f"{ROLLOUTS}/first/undo", {})
        assert (nothing.status, "recall it instead" in nothing.body["detail"]) == (409, True)
        second = rollout("second", **chosen, firmware="registry.example/thermo:3", version="3")
        assert (await portal("PUT", f"{ROLLOUTS}/second", second)).status == 201
        only_shown = await portal("POST", f"{ROLLOUTS}/second/undo?dryRun=All", {})
        assert (only_shown.status, only_shown.body["spec"]["version"]) == (202, "2"), only_shown.body
        assert only_shown.body["kind"] == "FirmwareRollout"
        assert (await portal("GET", f"{ROLLOUTS}/second-undo")).status == 404
        assert "aborted" not in (await portal("GET", f"{ROLLOUTS}/second")).body["spec"]
        done = await portal("POST", f"{ROLLOUTS}/second/undo", {"reason": "it overheats"})
        assert done.status == 202, done.body
        assert (done.body["metadata"]["name"], done.body["spec"]["version"]) == ("second-undo", "2")
        said = json.loads(done.body["metadata"]["annotations"][ACTION_ANNOTATION])
        assert (said["action"], said["reason"]) == ("undo", "it overheats")
        assert (await portal("GET", f"{ROLLOUTS}/second")).body["spec"]["aborted"] is True
        again = await portal("POST", f"{ROLLOUTS}/second/undo", {})
        assert (again.status, again.body["metadata"]["uid"]) == (202, done.body["metadata"]["uid"])
        taken = rollout("third", **chosen, firmware="registry.example/thermo:4", version="4")
        for name in ("third", "third-undo"):
            assert (await portal("PUT", f"{ROLLOUTS}/{name}", {**taken, "metadata": {"name": name}})).status == 201
        refused = await portal("POST", f"{ROLLOUTS}/third/undo", {})
        assert (refused.status, "third-undo is taken" in refused.body["detail"]) == (409, True)


async def test_a_recall_is_not_undone_and_nothing_is_changed_by_trying(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        chosen = {"selector": {"labels": {"matchLabels": {"site": "a"}}}}
        for number, name in enumerate(("first", "second")):
            of = rollout(name, **chosen, firmware=f"registry.example/thermo:{number}", version=str(number))
            assert (await portal("PUT", f"{ROLLOUTS}/{name}", of)).status == 201
        back = (await portal("POST", f"{ROLLOUTS}/second/recall")).body["metadata"]["name"]
        # What came before by its jobs, too: those of an earlier revision of the recall.
        uid = (await portal("GET", f"{ROLLOUTS}/{back}")).body["metadata"]["uid"]
        told = await portal.api(
            "PATCH",
            f"/apis/edgewright.dev/v1alpha1/namespaces/default/firmwarerollouts/{back}/status",
            {"status": {"revision": 2}},
            media="application/merge-patch+json",
        )
        assert told.code == 200, told.body
        earlier = job("earlier")
        earlier["metadata"] |= {
            "labels": {ROLLOUT_UID_LABEL: uid},
            "annotations": {REVISION_ANNOTATION: "1"},
        }
        assert (await portal("PUT", f"{JOBS}/earlier", earlier)).status == 201
        for action in ("undo", "undo?dryRun=All", "recall"):
            refused = await portal("POST", f"{ROLLOUTS}/{back}/{action}", {})
            assert (refused.status, refused.body.get("type")) == (409, "/api/v1/problems/conflict"), refused.body
            assert f"rollout {back} is the recall of second" in refused.body["detail"]
        assert "aborted" not in (await portal("GET", f"{ROLLOUTS}/{back}")).body["spec"]
        assert len((await portal("GET", ROLLOUTS)).body["items"]) == 3


@pytest.mark.parametrize("spec", [{"paused": True}, {"aborted": True}, {"approvals": ["canary"]}])
async def test_what_is_so_already_takes_the_right_to_change_it_too(tmp_path: Path, spec: dict[str, Any]) -> None:
    async with consoles(tmp_path) as portal:
        await portal("PUT", f"{ROLLOUTS}/thermo", rollout(**spec))
        action = {"paused": "pause", "aborted": "abort", "approvals": "approve"}[next(iter(spec))]
        caller = await narrow(portal, "default", kind=FirmwareRollout.kind)
        refused = await caller("POST", f"{ROLLOUTS}/thermo/{action}", {"batch": "canary"})
        said = {name: refused.body.get(name) for name in ("status", "verb", "resource", "namespace")}
        wanted = {"status": 403, "verb": "patch", "resource": "firmwarerollouts.edgewright.dev", "namespace": "default"}
        assert said == wanted, refused.body
        before = (await portal("GET", f"{ROLLOUTS}/thermo")).headers["ETag"]
        done = await portal("POST", f"{ROLLOUTS}/thermo/{action}", {"batch": "canary"})
        assert (done.status, done.headers["ETag"]) == (202, before)


async def test_what_is_not_possible_is_explained_to_who_might_do_it(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await portal("PUT", f"{ROLLOUTS}/thermo", rollout(aborted=True))
        caller = await narrow(portal, "default", kind=FirmwareRollout.kind)
        for action, body in (("resume", {}), ("approve", {"batch": "other"}), ("pause", {"revision": 7})):
            refused = await caller("POST", f"{ROLLOUTS}/thermo/{action}", body)
            assert (refused.status, refused.body.get("verb")) == (403, "patch"), refused.body
            assert (await portal("POST", f"{ROLLOUTS}/thermo/{action}", body)).status == 409


async def test_the_fleet_is_frozen_once_and_says_who_and_why(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        done = await portal("POST", "/api/v1/fleet/freeze", {"reason": "a holiday"})
        assert (done.status, done.body["spec"]["frozen"], done.body["spec"]["reason"]) == (202, True, "a holiday")
        by = done.body["spec"]["by"]
        assert json.loads(done.body["metadata"]["annotations"][ACTION_ANNOTATION])["by"] == by
        again = await portal("POST", "/api/v1/fleet/freeze", {"reason": "another"})
        assert (again.status, again.headers["ETag"]) == (202, done.headers["ETag"])
        told = (await portal("GET", "/api/v1/fleet")).body["freeze"]
        assert (told["reason"], told["by"]) == ("a holiday", by)
        ended = await portal("POST", "/api/v1/fleet/unfreeze")
        assert (ended.status, ended.body["spec"]["frozen"], ended.body["spec"]["reason"]) == (202, False, "")
        assert (await portal("GET", "/api/v1/fleet")).body["freeze"] is None
        assert (await portal("POST", "/api/v1/fleet/melt", {})).status == 404
        events = (await portal.api("GET", "/api/v1/namespaces/default/events")).body["items"]
        assert {each["reason"] for each in events} == {"FreezeRequested", "UnfreezeRequested"}


async def test_a_plan_tells_the_batches_and_changes_nothing(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        for name in ("a", "b", "c"):
            await device(portal, name)
        spec = rollout(exclude={"names": ["c"]})["spec"]
        found = await portal("POST", f"{ROLLOUTS}/plan", {"spec": spec})
        assert found.status == 200, found.body
        assert [(each["name"], each["size"]) for each in found.body["batches"]] == [("canary", 1), ("rest", 1)]
        assert found.body["excluded"] == {"c": "spec.exclude names it"}
        assert (await portal("GET", ROLLOUTS)).body["items"] == []
        wrong = await portal("POST", f"{ROLLOUTS}/plan", {"spec": {"batchSize": "many"}})
        assert (wrong.status, wrong.pointers) == (422, ["#/spec/batchSize"])


async def test_a_plan_counts_who_is_left_out_for_which_reason(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        for name in ("a", "b", "c"):
            await device(portal, name)
        found = await portal("POST", f"{ROLLOUTS}/plan", {"spec": rollout(exclude={"names": ["b", "c"]})["spec"]})
        assert found.body["reasons"] == {"spec.exclude names it": 2}


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"version": "1"}, "#/spec/firmware"),
        ({"firmware": "r.example/f:1"}, "#/spec/version"),
        ({"batches": [{"name": "a", "size": "some"}]}, "#/spec/batches/0/size"),
        ({"batches": [{"name": "a", "size": 1}, {"name": "b", "soakSeconds": "long"}]}, "#/spec/batches/1/soakSeconds"),
        ({"stop": [{"threshold": "many", "action": "pause"}]}, "#/spec/stop/0/threshold"),
    ],
)
async def test_what_is_wrong_with_a_plan_is_told_at_its_field(
    tmp_path: Path, spec: dict[str, Any], pointer: str
) -> None:
    async with consoles(tmp_path) as portal:
        whole = (
            spec if "firmware" in spec or "version" in spec else {"firmware": "r.example/f:1", "version": "1", **spec}
        )
        wrong = await portal("POST", f"{ROLLOUTS}/plan", {"spec": whole})
        assert (wrong.status, wrong.pointers) == (422, [pointer]), wrong.body


async def test_the_fleet_is_counted_by_state_version_and_label(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await device(portal, "a", version="1", labels={"site": "north"})
        await device(portal, "b", version="2", labels={"site": "north"})
        await device(portal, "c", version="2")
        found = (await portal("GET", "/api/v1/fleet?groupBy=site")).body
        assert (found["total"], found["states"]["ok"], found["versions"]) == (3, 3, {"2": 2, "1": 1})
        assert [(each["name"], each["total"]) for each in found["groups"]] == [("(none)", 1), ("north", 2)]
        assert found["freeze"] is None
        body = {"spec": {"frozen": True, "reason": "a storm", "by": "ops"}}
        assert (await portal("PUT", "/api/v1/fleets/fleet", body)).status == 201
        assert (await portal("GET", "/api/v1/fleet")).body["freeze"]["reason"] == "a storm"


async def test_a_device_tells_its_history(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await device(portal, "a")
        found = await portal("GET", "/api/v1/devices/a/history")
        assert (found.status, found.body) == (200, {"flashes": [], "log": []})
        assert (await portal("GET", "/api/v1/devices/none/history")).status == 404


async def test_a_device_says_why_it_is_not_updated(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await device(portal, "a")
        alone = await portal("GET", "/api/v1/devices/a/why")
        assert alone.status == 200, alone.body
        assert "a is in no rollout and in no FlashJob" in alone.body["sentence"]
        await portal("PUT", f"{ROLLOUTS}/thermo", rollout(paused=True))
        assert "rollout thermo is paused" in (await portal("GET", "/api/v1/devices/a/why")).body["sentence"]
        elsewhere = await portal("GET", "/api/v1/devices/a/why?namespace=other")
        assert "in no rollout" in elsewhere.body["sentence"]
        assert (await portal("GET", "/api/v1/devices/none/why")).status == 404


async def test_the_same_key_makes_one_object_and_another_body_is_refused(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        body = {**widget(), "metadata": {"generateName": "order-"}}
        first = await portal("POST", IN_DEFAULT, body, Idempotency_Key="42")
        again = await portal("POST", IN_DEFAULT, body, Idempotency_Key="42")
        assert (first.status, again.status) == (201, 201), again.body
        assert first.body["metadata"]["uid"] == again.body["metadata"]["uid"]
        assert first.body["metadata"]["name"].startswith("order-")
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        other = await portal("POST", IN_DEFAULT, {**body, "spec": {"size": 9}}, Idempotency_Key="42")
        assert (other.status, other.body["type"]) == (422, "/api/v1/problems/invalid")
        assert (await portal("POST", IN_DEFAULT, body, Idempotency_Key="43")).body["metadata"]["uid"] != (
            first.body["metadata"]["uid"]
        )


async def test_the_plural_leads_to_rollouts_too(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        assert (await portal("GET", "/api/v1/firmwarerollouts")).status == 200
        assert (await portal("GET", "/api/v1/rollouts")).status == 200
