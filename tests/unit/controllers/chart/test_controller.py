"""The loop over objects that a chart serves, against a server of ours: one release for each, and nothing twice."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path

import pytest

from edgewright.controllers.chart import decisions, storage
from edgewright.controllers.chart.objects import FINALIZER
from edgewright.runtime.errors import Forbidden
from edgewright.runtime.events import Event
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.chart.charts import CONFIG_MAP, POD, release_secret
from tests.unit.controllers.chart.stage import staged


async def test_an_object_becomes_a_release_of_its_name(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create(greeting="hello")
            await stage.until_condition("Ready", "True", reason="ReleaseReady")
        found = await stage.shops.get(Key("default", "a"))
        assert found["metadata"]["finalizers"] == [FINALIZER]
        conditions = await stage.conditions()
        assert sorted(conditions) == ["Deployed", "Initialized", "Ready"]
        assert (conditions["Deployed"]["reason"], conditions["Deployed"]["message"]) == (
            "InstallSuccessful",
            "a says hello",
        )
        assert found["status"]["deployedRelease"]["name"] == "a"
        assert "kind: ConfigMap" in found["status"]["deployedRelease"]["manifest"]
        (order,) = stage.helm.orders
        assert (order.verb, order.namespace, order.release, order.values) == (
            "install",
            "default",
            "a",
            {"greeting": "hello"},
        )
        assert order.labels["edgewright.dev/revision"] == "1"


async def test_the_finalizer_comes_before_the_first_effect(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating() as wrote:
            await stage.create()
            await stage.until_condition("Deployed", "True")
        assert wrote.writes[0] == ("PATCH", "/apis/charts.example.com/v1alpha1/namespaces/default/shops/a")


async def test_an_object_of_a_release_names_its_owner(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating():
        uid = (await stage.create())["metadata"]["uid"]
        await stage.until_condition("Ready", "True")

        async def owned() -> bool:
            found = await stage.client.raw(CONFIG_MAP).get(Key("default", "a"))
            return [each["uid"] for each in found["metadata"].get("ownerReferences", ())] == [uid]

        await wait_until_async(owned, what="the ConfigMap has its owner")


async def test_a_changed_object_is_upgraded_and_emptied_values_are_gone(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create(greeting="one")
            await stage.until_condition("Ready", "True")
            await stage.change(greeting="two")
            await stage.until_condition("Deployed", "True", reason="UpgradeSuccessful")
            await stage.change(greeting=None)
            await stage.until_greeting("nothing")
        assert [order.verb for order in stage.helm.orders] == ["install", "upgrade", "upgrade"]
        assert await stage.statuses() == ["superseded", "superseded", "deployed"]


async def test_a_settled_object_causes_no_order_and_no_write_after_a_restart(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create(greeting="hello")
            await stage.until_condition("Ready", "True")
        async with stage.operating() as wrote:
            await stage.create("witness")
            await stage.until_condition("Ready", "True", name="witness")
        assert [order.release for order in stage.helm.orders] == ["a", "witness"]
        foreign = [each for each in wrote.writes if "witness" not in each[1]]
        assert foreign == [], "not even a dry run: what is there says itself that it is what was applied"


async def test_events_tell_of_conditions_that_changed_and_of_nothing_else(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:

        async def told(name: str) -> list[tuple[str, int]]:
            # That something is under way is told of what takes longer than a second, as it may on a busy machine.
            events = (await stage.client.of(Event).list("default")).items
            ended = [each for each in events if each.reason not in {"Installing", "Progressing"}]
            return sorted((each.reason, each.count or 0) for each in ended if each.involved_object.name == name)

        async def ready_is_told(name: str) -> bool:
            return any(reason == "ReleaseReady" for reason, _ in await told(name))

        async def made(name: str) -> None:
            await stage.create(name)
            await wait_until_async(functools.partial(ready_is_told, name), what=f"{name} is told to be ready")

        # Events are sent in their order: what is told of one object is told when the next is ready.
        async with stage.operating():
            await made("a")
            await made("second")
        before = await told("a")
        assert {"InstallSuccessful", "ReleaseReady"} <= {reason for reason, _ in before}
        assert await told("second") == [("InstallSuccessful", 1), ("ReleaseReady", 1)]
        async with stage.operating():
            await stage.shops.patch(Key("default", "a"), {"metadata": {"annotations": {"look": "again"}}})
            await made("third")
        assert await told("a") == before


async def test_an_action_that_takes_a_while_is_told_before_it_ends(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.helm.held = asyncio.Event()
        async with stage.operating():
            await stage.create()
            await stage.until_condition("Ready", "Unknown", reason="Installing")
            assert "Deployed" not in await stage.conditions()
            stage.helm.held.set()
            await stage.until_condition("Ready", "True")


async def test_a_new_release_costs_a_finalizer_a_status_and_its_owners_marks(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating() as wrote:
        await stage.create("first")  # with it the kinds of its objects begin to be watched
        await stage.until_condition("Ready", "True", name="first")
        await stage.create("second")
        await stage.until_condition("Ready", "True", name="second")
        mine = [(method, path) for method, path, *_ in wrote.writes if "second" in path and "/events" not in path]
        assert mine == [
            ("PATCH", "/apis/charts.example.com/v1alpha1/namespaces/default/shops/second"),
            ("PATCH", "/api/v1/namespaces/default/configmaps/second"),
            ("PATCH", "/apis/charts.example.com/v1alpha1/namespaces/default/shops/second/status"),
        ]


async def test_a_deleted_object_takes_its_release_with_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create()
            await stage.until_condition("Deployed", "True")
            await stage.shops.delete(Key("default", "a"))
            await stage.until_gone()
        assert stage.helm.orders[-1].verb == "uninstall"
        assert await stage.statuses() == []
        assert await stage.greeting() is None


async def test_a_release_that_cannot_be_removed_holds_the_object_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path) as stage:
        monkeypatch.setattr(decisions, "FIRST_RETRY", 0.01)
        async with stage.operating():
            await stage.create()
            await stage.until_condition("Deployed", "True")
            stage.helm.moods = ["fails"] * 3
            await stage.shops.delete(Key("default", "a"))
            await stage.until_gone()
        assert [order.verb for order in stage.helm.orders] == ["install", *["uninstall"] * 4]


async def test_a_foreign_edit_is_taken_back_without_helm(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create(greeting="hello")
            await stage.until_condition("Ready", "True")
            await stage.client.raw(CONFIG_MAP).patch(
                Key("default", "a"), {"data": {"greeting": "foreign", "more": "x"}}
            )
            await stage.until_greeting("hello")
        found = await stage.client.raw(CONFIG_MAP).get(Key("default", "a"))
        assert found["data"] == {"greeting": "hello", "more": "x"}, "a field that the chart does not have is left alone"
        assert len(stage.helm.orders) == 1


async def test_dependents_are_followed_whatever_selector_chose_their_object(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating(labels="team=a"):
        await stage.create(greeting="hello")
        await stage.shops.patch(Key("default", "a"), {"metadata": {"labels": {"team": "a"}}})
        await stage.until_condition("Ready", "True")
        await stage.client.raw(CONFIG_MAP).patch(Key("default", "a"), {"data": {"greeting": "foreign"}})
        await stage.until_greeting("hello")


async def test_what_is_missing_is_made_again_by_an_upgrade(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating():
        await stage.create(greeting="hello")
        await stage.until_condition("Ready", "True")
        await stage.client.raw(CONFIG_MAP).delete(Key("default", "a"))
        await wait_until_async(lambda: len(stage.helm.orders) == 2, what="it is upgraded")
        await stage.until_greeting("hello")
        await stage.until_condition("Ready", "True")


async def test_dependents_are_left_alone_where_they_are_not_watched(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating(dependents=False):
            await stage.create(greeting="hello")
            await stage.until_condition("Ready", "True")
            await stage.client.raw(CONFIG_MAP).delete(Key("default", "a"))
            await stage.change(greeting="two")
            await stage.until_condition("Deployed", "True", reason="UpgradeSuccessful")
        assert [order.verb for order in stage.helm.orders] == ["install", "upgrade"]


async def test_ready_waits_for_what_belongs_to_the_release(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.helm.pods = True
        async with stage.operating():
            await stage.create()
            waiting = await stage.until_condition("Ready", "Unknown", reason="DependentsNotReady")
            assert waiting["message"] == "Pod a: it is Pending"
            ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
            await stage.client.raw(POD).patch(Key("default", "a"), {"status": ready}, subresource="status")
            await stage.until_condition("Ready", "True")


async def test_a_chart_that_does_not_render_is_told_and_nothing_is_stored(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.helm.moods = ["refuses"]
        async with stage.operating():
            await stage.create()
            condition = await stage.until_condition("Irreconcilable", "True", reason="ReconcileError")
            assert "greeting is required" in condition["message"]
            assert await stage.statuses() == []
            await stage.shops.patch(Key("default", "a"), {"metadata": {"labels": {"a": "b"}}})
            await stage.change(greeting="hello")
            await stage.until_condition("Ready", "True")
        assert "Irreconcilable" not in await stage.conditions()
        assert len(stage.helm.orders) == 2, "the same values are not tried again at once"


async def test_a_failed_release_is_told_and_tried_again_later(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.helm.moods = ["fails"]
        async with stage.operating(on_failed_install="retry"):
            await stage.create()
            condition = await stage.until_condition("ReleaseFailed", "True", reason="InstallError")
            assert condition["message"] == "no room"
        await stage.shops.patch(Key("default", "a"), {"status": None}, subresource="status")
        async with stage.operating(on_failed_install="retry"):
            condition = await stage.until_condition("ReleaseFailed", "True", reason="InstallError")
            assert condition["message"] == "Upgrade failed: no room", (
                "a process that did not see it reads what is stored"
            )
            assert len(stage.helm.orders) == 1
            await stage.change(greeting="other")
            await stage.until_condition("Ready", "True")
        assert await stage.statuses() == ["failed", "deployed"]


async def test_an_action_that_a_crash_cut_short_is_recovered(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.helm.moods = ["dies"]
        async with stage.operating():
            await stage.create(greeting="hello")
            await stage.until_condition("Ready", "True")
        assert await stage.statuses() == ["failed", "deployed"]
        assert [order.verb for order in stage.helm.orders] == ["install", "upgrade"]


async def test_somebody_elses_action_is_waited_for(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.store(release_secret("a", 1, "pending-install", modified=4_000_000_000))
        async with stage.operating():
            await stage.create()
            condition = await stage.until_condition("Ready", "False", reason="Waiting")
            assert condition["message"] == "another Helm action is pending-install"
        assert stage.helm.orders == []


async def test_a_release_of_the_same_chart_is_taken_over(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.store(release_secret("a", 1, "deployed"))
        async with stage.operating():
            await stage.create()
            await stage.until_condition("Ready", "True")
        assert [order.verb for order in stage.helm.orders] == ["upgrade"]


async def test_a_release_of_another_chart_is_left_alone(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.store(release_secret("a", 1, "deployed", chart="bank"))
        async with stage.operating():
            await stage.create()
            condition = await stage.until_condition("Irreconcilable", "True")
            assert "is one of chart bank, not of shop" in condition["message"]
            await stage.shops.delete(Key("default", "a"))
            await stage.until_gone()
        assert stage.helm.orders == []
        assert await stage.statuses() == ["deployed"]


async def test_a_half_removed_release_is_removed_wholly_first(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.store(release_secret("a", 1, "uninstalling"))
        async with stage.operating():
            await stage.create()
            await stage.until_condition("Ready", "True")
        assert [order.verb for order in stage.helm.orders] == ["uninstall", "install"]


async def test_a_missing_right_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(tmp_path) as stage:

        async def refused(*_: object) -> None:
            from edgewright.runtime.errors import Status

            raise Forbidden(Status(code=403, reason="Forbidden", message="secrets is forbidden"), request="GET")

        monkeypatch.setattr(storage.Storage, "history", refused)
        async with stage.operating():
            await stage.create()
            condition = await stage.until_condition("Irreconcilable", "True")
            assert "may not read the releases in namespace default: bind its ClusterRole" in condition["message"]
        assert stage.helm.orders == []


async def test_overrides_and_a_period_are_followed(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, stage.operating(overrides={"greeting": "over"}, period=0.05):
        await stage.create(greeting="under")
        await stage.until_greeting("over")
        await stage.until_condition("Ready", "True")


async def test_a_wiped_status_comes_back(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        async with stage.operating():
            await stage.create(greeting="hello")
            await stage.until_condition("Ready", "True")
        await stage.shops.patch(Key("default", "a"), {"status": None}, subresource="status")
        async with stage.operating():
            await stage.until_condition("Ready", "True")
        assert len(stage.helm.orders) == 1
