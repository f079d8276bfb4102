"""The objects of releases: what is compared, what is left to others, and when nobody fights any longer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.controllers.chart.dependents import Dependents, Held, release_of, signature
from edgewright.controllers.chart.discovery import Discovery
from edgewright.controllers.chart.manifests import Part, TypeName, parts
from edgewright.controllers.chart.objects import Dependent, chart_kind, dependent_kind
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.objects import Key, ObjectMeta
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.chart.charts import CONFIG_MAP
from tests.unit.controllers.chart.stage import SHOP, Stage, staged
from tests.unit.runtime.fakeserver import running

MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {greeting: hello}
"""


class Clock(SystemClock):
    """A clock that a test puts forward."""

    ahead = 0.0

    def elapsed(self) -> float:
        return super().elapsed() + self.ahead


def metadata(**fields: Any) -> ObjectMeta:
    return ObjectMeta(uid="u", **fields)


async def apply(stage: Stage, greeting: str, name: str = "a") -> None:
    """Somebody edits the object, or Helm made it."""
    marks = {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": "default"}
    names: dict[str, Any] = {"name": name, "namespace": "default", "annotations": marks}
    names["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": names, "data": {"greeting": greeting}}
    await stage.client.raw(CONFIG_MAP).apply(body, manager="helm", force=True)


async def test_a_change_that_comes_back_again_and_again_is_taken_back_less_and_less_often(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        clock = Clock()
        dependents = Dependents(stage.client, Discovery(stage.client), namespaces=(), clock=clock)
        owner = stage.client.of(chart_kind(SHOP)).decode(msgspec.json.encode(await stage.create()))
        held = Held("default", "a", 1, parts(MANIFEST))
        heard: list[Key] = []
        dependents.on_change(heard.append)
        await apply(stage, "hello")
        async with running(dependents.run()):
            health = await dependents.tend(held, owner)
            while health.unknown:
                await asyncio.sleep(0.01)
                health = await dependents.tend(held, owner)
            waits = []
            for number in range(4):
                await apply(stage, f"foreign {number}")
                while True:
                    health = await dependents.tend(held, owner)
                    if health.corrected or health.wait:
                        break
                    await asyncio.sleep(0.01)
                waits.append(health.wait)
            assert waits[:3] == [0.0, 0.0, 0.0]
            assert 0 < waits[3] <= 8
            clock.ahead = 10.0
            assert (await dependents.tend(held, owner)).corrected == ("ConfigMap a",)
            assert Key("default", "a") in heard


async def test_a_change_between_the_look_and_the_owners_mark_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(tmp_path) as stage:
        dependents = Dependents(stage.client, Discovery(stage.client), namespaces=(), clock=SystemClock())
        owner = stage.client.of(chart_kind(SHOP)).decode(msgspec.json.encode(await stage.create()))
        held = Held("default", "a", 1, parts(MANIFEST))
        await apply(stage, "hello")
        original = Dependents._own

        async def raced(self: Dependents, place: Any, live: Any, obj: Any) -> Any:
            monkeypatch.setattr(Dependents, "_own", original)
            await apply(stage, "foreign")
            return await original(self, place, live, obj)

        monkeypatch.setattr(Dependents, "_own", raced)
        async with running(dependents.run()):
            health = await dependents.tend(held, owner)
            while health.unknown:
                await asyncio.sleep(0.01)
                health = await dependents.tend(held, owner)
            assert await stage.greeting() == "hello"


async def test_what_we_write_ourselves_wakes_nobody(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        dependents = Dependents(stage.client, Discovery(stage.client), namespaces=(), clock=SystemClock())
        owner = stage.client.of(chart_kind(SHOP)).decode(msgspec.json.encode(await stage.create()))
        held = Held("default", "a", 1, parts(MANIFEST))
        heard: list[Key] = []
        dependents.on_change(heard.append)

        async def watched() -> bool:
            await dependents.tend(held, owner)  # with the first look it begins to watch
            return bool(heard)

        await apply(stage, "hello", name="first")
        async with running(dependents.run()):
            await wait_until_async(watched, what="the kind is watched")
            await apply(stage, "hello")
            assert not (await dependents.tend(held, owner)).missing
            heard.clear()
            await apply(stage, "hello", name="later")
            await wait_until_async(lambda: Key("default", "later") in heard, what="what came later is heard")
            assert Key("default", "a") not in heard
            await apply(stage, "foreign")
            await wait_until_async(lambda: Key("default", "a") in heard, what="what others write is heard")


async def test_a_kind_that_is_not_served_is_named_and_secrets_are_left_alone(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        dependents = Dependents(stage.client, Discovery(stage.client), namespaces=("default",), clock=SystemClock())
        owner = stage.client.of(chart_kind(SHOP)).decode(msgspec.json.encode(await stage.create()))
        held = Held(
            "default",
            "a",
            1,
            (Part(TypeName("x.y/v1", "Odd"), "", "one", {}), Part(TypeName("v1", "Secret"), "", "two", {})),
        )
        health = await dependents.tend(held, owner)
        assert health.unserved == ("Odd one",)
        assert not health.missing


def test_a_signature_follows_everything_but_the_status() -> None:
    first = signature(metadata(generation=1, resource_version="5", labels={"a": "b"}))
    assert signature(metadata(generation=1, resource_version="6", labels={"a": "b"})) == first
    assert signature(metadata(generation=2, resource_version="6", labels={"a": "b"})) != first
    assert signature(metadata(generation=1, resource_version="5")) != first
    assert signature(metadata(resource_version="5")) != signature(metadata(resource_version="6"))


def test_an_object_without_helms_marks_belongs_to_no_release() -> None:
    kind = dependent_kind(CONFIG_MAP, Dependent)
    assert release_of(kind()) is None
    assert isinstance(kind(), Dependent)


async def test_an_object_that_is_being_deleted_is_not_ready(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        dependents = Dependents(stage.client, Discovery(stage.client), namespaces=(), clock=SystemClock())
        owner = stage.client.of(chart_kind(SHOP)).decode(msgspec.json.encode(await stage.create()))
        held = Held("default", "a", 1, parts(MANIFEST))
        await apply(stage, "hello")
        maps, key = stage.client.raw(CONFIG_MAP), Key("default", "a")
        uid = (await maps.get(key))["metadata"]["uid"]
        await maps.patch(key, {"metadata": {"finalizers": ["example.com/held"]}}, uid=uid)

        async def unready() -> tuple[str, ...]:
            return (await dependents.tend(held, owner)).unready

        async with running(dependents.run()):
            await maps.delete(key, uid=uid)
            found = await wait_until_async(unready, what="it is not ready")
            assert found == ("ConfigMap a: it is being deleted",)
