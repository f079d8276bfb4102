"""How releases are looked after: failures undone, drift by policy, values from elsewhere, removal, restoration."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from edgewright.controllers.chart import decisions
from edgewright.controllers.chart.helm import HelmGone
from edgewright.controllers.chart.policy import Source
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.chart.charts import CONFIG_MAP, SECRET
from tests.unit.controllers.chart.stage import Stage, staged

A = Key("default", "a")


def verbs(stage: Stage) -> list[str]:
    return [order.verb for order in stage.helm.orders]


async def until_orders(stage: Stage, *expected: str) -> None:
    """Waits until Helm was asked for these, in this order; it may have been asked for more by then."""
    await wait_until_async(
        lambda: verbs(stage)[: len(expected)] == list(expected), what=f"Helm was asked for {expected}"
    )


async def status(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = (await stage.shops.get(A)).get("status", {})
    return found


# --- failures -------------------------------------------------------------------------------------------------------


async def test_a_failed_upgrade_is_rolled_back_and_the_cause_stays_shown(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create(greeting="one")
            await stage.until_condition("Ready", "True")
            stage.helm.moods = ["fails"]
            await stage.change(greeting="two")
            condition = await stage.until_condition("Remediated", "True", reason="RollbackSucceeded")
            assert condition["message"] == "rolled back to revision 1"
            await stage.until_greeting("one")
        conditions = await stage.conditions()
        assert (conditions["ReleaseFailed"]["reason"], conditions["ReleaseFailed"]["message"]) == (
            "UpgradeError",
            "no room",
        )
        assert conditions["Ready"]["status"] == "False"
        assert await stage.statuses() == ["superseded", "failed", "deployed"]
        assert verbs(stage) == ["install", "upgrade", "rollback"]
        shown = await status(stage)
        assert (shown["state"], shown["failures"], shown["revision"]) == ("Remediated", 1, 3)


@pytest.mark.parametrize("first", [True, False])
async def test_what_was_undone_is_told_again_by_who_finds_it_untold(tmp_path: Path, first: bool) -> None:
    """As after a conflict of the write that would have told it."""
    told = (
        ("UninstallSucceeded", "what the failed install left was removed")
        if first
        else ("RollbackSucceeded", "rolled back to revision 1")
    )
    async with staged(tmp_path) as stage:
        async with stage.operating():
            if not first:
                await stage.create(greeting="one")
                await stage.until_condition("Ready", "True")
            stage.helm.moods = ["fails"]
            await (stage.create(greeting="two") if first else stage.change(greeting="two"))
            await stage.until_condition("Remediated", "True", reason=told[0])
        await stage.shops.patch(A, {"status": None}, subresource="status")
        async with stage.operating():
            condition = await stage.until_condition("Remediated", "True")
        assert (condition["reason"], condition["message"]) == told


async def test_a_new_process_waits_as_long_as_the_old_one_would_have(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create(greeting="one")
            await stage.until_condition("Ready", "True")
            stage.helm.moods = ["fails"]
            await stage.change(greeting="two")
            await stage.until_condition("Remediated", "True")
        async with stage.operating():
            await stage.create("witness")
            await stage.until_condition("Ready", "True", name="witness")
        assert verbs(stage) == ["install", "upgrade", "rollback", "install"]


async def test_what_failed_is_tried_again_until_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(tmp_path) as stage:
        monkeypatch.setattr(decisions, "FIRST_RETRY", 0.01)
        stage.helm.modified = 0
        async with stage.operating():
            await stage.create(greeting="one")
            await stage.until_condition("Ready", "True")
            stage.helm.moods = ["fails", "well", "fails"]
            await stage.change(greeting="two")
            await stage.until_condition("Deployed", "True", reason="UpgradeSuccessful")
            await stage.until_greeting("two")
        assert verbs(stage) == ["install", "upgrade", "rollback", "upgrade", "rollback", "upgrade"]
        assert "Remediated" not in await stage.conditions()
        assert "failures" not in await status(stage)


async def test_a_failed_first_install_is_removed_and_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path) as stage:
        monkeypatch.setattr(decisions, "FIRST_RETRY", 0.01)
        stage.helm.modified = 0
        stage.helm.moods = ["fails"]
        async with stage.operating():
            await stage.create(greeting="one")
            await stage.until_condition("Ready", "True")
        assert verbs(stage) == ["install", "uninstall", "install"]
        first, removed, second = stage.helm.orders
        assert (first.replace, removed.keep_history, second.replace) == (False, True, True)
        assert second.labels["edgewright.dev/revision"] == "2"


async def test_attempts_end_when_the_policy_says_so_and_start_again_on_request(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.helm.modified = 0
        stage.helm.moods = ["fails"]
        async with stage.operating(retries=0):
            await stage.create(greeting="one")
            condition = await stage.until_condition("Stalled", "True", reason="RetriesExhausted")
            assert "it failed once" in condition["message"]
            assert "no room" in condition["message"]
            assert verbs(stage) == ["install", "uninstall"]
            await stage.annotate(retry="please")
            await stage.until_condition("Ready", "True")
        assert verbs(stage) == ["install", "uninstall", "install"]


async def test_a_rollback_that_a_crash_cut_short_is_done_again(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        original = stage.helm._rollback

        async def dies(order: Any) -> None:
            stage.helm._rollback = original  # type: ignore[method-assign]
            await original(order)
            name = f"sh.helm.release.v1.{order.release}.v3"
            pending = {"metadata": {"labels": {"status": "pending-rollback"}}}
            await stage.client.raw(SECRET).patch(Key("default", name), pending)
            first = Key("default", f"sh.helm.release.v1.{order.release}.v1")
            await stage.client.raw(SECRET).patch(first, {"metadata": {"labels": {"status": "deployed"}}})
            raise HelmGone("the Helm process ended")

        stage.helm._rollback = dies  # type: ignore[method-assign]
        async with stage.operating():
            await stage.create(greeting="one")
            await stage.until_condition("Ready", "True")
            stage.helm.moods = ["fails"]
            await stage.change(greeting="two")
            await until_orders(stage, "install", "upgrade", "rollback", "rollback")
            await stage.until_condition("Remediated", "True")
            await stage.create("witness")
            await stage.until_condition("Ready", "True", name="witness")
        assert verbs(stage) == ["install", "upgrade", "rollback", "rollback", "install"], "nothing is tried before time"
        assert await stage.statuses() == ["superseded", "failed", "failed", "deployed"]
        shown = await status(stage)
        assert (shown["state"], shown["failures"], shown["revision"]) == ("Remediated", 1, 4)


async def test_a_rollback_that_fails_is_told(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating():
        await stage.create(greeting="one")
        await stage.until_condition("Ready", "True")
        stage.helm.moods = ["fails", "fails"]
        await stage.change(greeting="two")
        condition = await stage.until_condition("ReleaseFailed", "True", reason="RollbackError")
        assert condition["message"] == "cannot rollback"


async def test_no_more_revisions_are_kept_than_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(tmp_path) as stage:
        monkeypatch.setattr(decisions, "FIRST_RETRY", 0.01)
        stage.helm.modified = 0
        stage.helm.moods = ["fails", "well"] * 4
        async with stage.operating(max_history=2):
            await stage.create(greeting="one")
            await stage.until_condition("Ready", "True")
        assert len(await stage.statuses()) <= 3


# --- drift ----------------------------------------------------------------------------------------------------------


async def edit(stage: Stage, greeting: str) -> None:
    await stage.client.raw(CONFIG_MAP).patch(A, {"data": {"greeting": greeting}})


async def test_drift_is_only_told_where_that_is_the_policy(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating(drift="warn"):
        await stage.create(greeting="hello")
        await stage.until_condition("Ready", "True")
        await edit(stage, "foreign")
        condition = await stage.until_condition("Drifted", "True", reason="DriftDetected")
        assert condition["message"] == "ConfigMap a: /data/greeting"
        assert await stage.greeting() == "foreign"
        assert (await stage.conditions())["Ready"]["status"] == "True"
        await stage.annotate(drift="correct")
        await stage.until_greeting("hello")
        await stage.until(lambda conditions: "Drifted" not in conditions, what="nothing drifts")


async def test_drift_is_nobodys_business_where_that_is_the_policy(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating(drift="off"):
        await stage.create(greeting="hello")
        await stage.until_condition("Ready", "True")
        await edit(stage, "foreign")
        await stage.create("witness")
        await stage.until_condition("Ready", "True", name="witness")
        assert await stage.greeting() == "foreign"
        await stage.client.raw(CONFIG_MAP).delete(A)
        await stage.until_condition("Ready", "False", reason="DependentsMissing")
        assert verbs(stage) == ["install", "install"]


# --- values from elsewhere ------------------------------------------------------------------------------------------


async def test_values_come_from_a_config_map_and_follow_it(tmp_path: Path) -> None:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "site", "namespace": "default"},
    }
    async with staged(tmp_path) as stage:
        async with stage.operating(values_from=(Source(kind="ConfigMap", name="site"),)):
            await stage.create()
            condition = await stage.until_condition("Irreconcilable", "True")
            assert condition["message"] == "valuesFrom: ConfigMap site is not there"
            assert verbs(stage) == []
            await stage.client.raw(CONFIG_MAP).create({**body, "data": {"values.yaml": "greeting: one\n"}})
            await stage.until_greeting("one")
            await stage.client.raw(CONFIG_MAP).patch(Key("default", "site"), {"data": {"values.yaml": "greeting: two"}})
            await stage.until_greeting("two")
            await stage.change(greeting="own")
            await stage.until_greeting("own")
        assert verbs(stage) == ["install", "upgrade", "upgrade"]


async def test_a_secret_is_used_and_never_shown(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "default"}}
    data = {"token": base64.b64encode(b"s3cret").decode()}
    source = {"kind": "Secret", "name": "key", "valuesKey": "token", "targetPath": "auth.token"}
    async with staged(tmp_path) as stage:
        await stage.client.raw(SECRET).create({**secret, "data": data})
        async with stage.operating():
            await stage.create(greeting="hello")
            await stage.until_condition("Ready", "True")
            await stage.annotate(values_from=json.dumps([source]))
            await wait_until_async(lambda: len(stage.helm.orders) == 2, what="the release is upgraded")
            await stage.until_condition("Ready", "True")
        assert stage.helm.orders[-1].values == {"greeting": "hello", "auth": {"token": "s3cret"}}
        assert "s3cret" not in json.dumps(await stage.shops.get(A))


# --- suspension, tests, overrides -----------------------------------------------------------------------------------


async def test_a_suspended_object_is_left_alone_until_it_is_resumed(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating():
        await stage.create(greeting="hello")
        await stage.until_condition("Ready", "True")
        await stage.annotate(suspend="true")
        await stage.until_condition("Suspended", "True")
        await stage.change(greeting="two")
        await edit(stage, "foreign")
        await stage.create("witness")
        await stage.until_condition("Ready", "True", name="witness")
        assert verbs(stage) == ["install", "install"]
        assert await stage.greeting() == "foreign"
        await stage.annotate(suspend=None)
        await stage.until_greeting("two")
        await stage.until(lambda conditions: "Suspended" not in conditions, what="it is resumed")


async def test_tests_run_once_where_they_are_asked_for(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.helm.tests = {"connection": "Succeeded"}
        async with stage.operating(test=True):
            await stage.create(greeting="hello")
            await stage.until_condition("TestSuccess", "True", reason="TestsSucceeded")
        async with stage.operating(test=True):
            await stage.create("witness")
            await stage.until_condition("TestSuccess", "True", name="witness")
        assert verbs(stage) == ["install", "test", "install", "test"]


async def test_a_failed_test_is_told_and_not_repeated(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.helm.tests = {"connection": "Failed", "other": "Succeeded"}
        async with stage.operating(test=True):
            await stage.create(greeting="hello")
            condition = await stage.until_condition("TestSuccess", "False", reason="TestFailed")
            assert condition["message"] == "failed: connection"
            await stage.until_condition("Ready", "False", reason="TestFailed")
            await stage.create("witness")
            await stage.until_condition("TestSuccess", "False", name="witness")
        assert verbs(stage) == ["install", "test", "install", "test"]


async def test_an_annotation_that_cannot_be_read_stops_everything_but_removal(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating():
        await stage.create(greeting="hello")
        await stage.until_condition("Ready", "True")
        await stage.annotate(drift="perhaps")
        condition = await stage.until_condition("Irreconcilable", "True")
        assert "the annotation edgewright.dev/drift: 'perhaps'" in condition["message"]
        await stage.shops.delete(A)
        await stage.until_gone()


async def test_overridden_values_are_told_and_hidden_on_request(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating(overrides={"greeting": "over"}, hide_overrides=True):
            await stage.create()
            await stage.until_condition("Ready", "True")

            async def told() -> bool:
                return "OverrideValuesInUse" in await events(stage)

            await wait_until_async(told, what="the event is there")
        assert (await events(stage))["OverrideValuesInUse"] == (
            "Warning",
            'Chart value "greeting" overridden to "****" by operator\'s watches.yaml',
        )


async def events(stage: Stage) -> dict[str, tuple[str, str]]:
    from edgewright.runtime.objects import Kind

    page = await stage.client.raw(Kind(group="", version="v1", kind="Event", plural="events")).list("default")
    return {each["reason"]: (each["type"], each.get("message", "")) for each in page.items}


# --- removal and restoration ----------------------------------------------------------------------------------------


async def test_with_uninstall_wait_the_object_stays_until_all_of_its_release_is_gone(tmp_path: Path) -> None:
    name = "helm.sdk.operatorframework.io/uninstall-wait"
    async with staged(tmp_path) as stage, stage.operating():
        await stage.create(greeting="hello")
        await stage.until_condition("Ready", "True")
        await stage.shops.patch(A, {"metadata": {"annotations": {name: "true"}}})
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await stage.client.raw(CONFIG_MAP).patch(A, hold)
        await stage.shops.delete(A)
        condition = await stage.until_condition("Deployed", "False", reason="UninstallSuccessful")
        assert condition["status"] == "False"
        waiting = (await stage.conditions())["Ready"]
        assert waiting["message"] == "Waiting until all resources are deleted: ConfigMap a"
        await stage.client.raw(CONFIG_MAP).patch(A, {"metadata": {"finalizers": None}})
        await stage.until_gone()
        assert await stage.statuses() == []


async def test_objects_restored_without_their_release_are_adopted(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create(greeting="hello", password=True)
            await stage.until_condition("Ready", "True")
        password = (await stage.client.raw(SECRET).get(Key("default", "a-password")))["data"]["password"]
        for each in (await stage.client.raw(SECRET).list("default", labels="owner=helm,name=a")).items:
            await stage.client.raw(SECRET).delete(Key("default", each["metadata"]["name"]))
        await edit(stage, "old")
        await stage.shops.patch(A, {"status": None}, subresource="status")
        async with stage.operating():
            await stage.until_condition("Ready", "True")
            await stage.until_greeting("hello")
        assert verbs(stage) == ["install"], "nothing was installed, and no hook ran"
        assert await stage.statuses() == ["deployed"]
        assert (await stage.client.raw(SECRET).get(Key("default", "a-password")))["data"]["password"] == password
        assert "Adopted" in await events(stage)


async def test_where_nothing_is_left_it_is_installed(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.create(greeting="hello")
        await stage.shops.patch(A, {"metadata": {"finalizers": ["helm.sdk.operatorframework.io/uninstall-release"]}})
        stage.helm.moods = ["refuses"]
        async with stage.operating():
            condition = await stage.until_condition("Irreconcilable", "True")
            assert "greeting is required" in condition["message"]
            await stage.change(greeting="other")
            await stage.until_condition("Ready", "True")
        assert verbs(stage) == ["install"]
