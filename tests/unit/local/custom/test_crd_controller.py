"""Definitions take effect: their kinds are served, their names settled, and what is deleted goes with its objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewright.local import builtin
from edgewright.local.custom import crd_controller
from edgewright.local.custom.conditions import CLEANUP, find, is_true
from edgewright.local.custom.crd_controller import RESOURCE, Definitions
from edgewright.local.history import StoreKey, TooSlow
from edgewright.local.kinds import Kinds
from edgewright.local.served import Served
from edgewright.local.store import Store, StoreError
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.objects import Kind
from tests.unit.local.custom import samples

NEW = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]}
WIDGETS = f"widgets.{samples.GROUP}"


def made(obj: dict[str, Any]) -> Callable[[int], bytes]:
    def make(revision: int) -> bytes:
        return json.dumps({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}).encode()

    return make


async def put(store: Store, obj: dict[str, Any], resource: str = RESOURCE, namespace: str = "") -> dict[str, Any]:
    """Creates or replaces an object and gives what is stored."""
    key = StoreKey(resource, namespace, obj["metadata"]["name"])
    there = store.get(key)
    if there is None:
        stored = await store.create(key, made(obj))
    else:
        stored = await store.update(key, there.revision, made(obj))
    body: dict[str, Any] = json.loads(stored.body)
    return body


def read(store: Store, name: str = WIDGETS) -> dict[str, Any] | None:
    stored = store.get(StoreKey(RESOURCE, "", name))
    return None if stored is None else json.loads(stored.body)


async def until(store: Store, condition: Callable[[], object]) -> None:
    """Waits for changes until the condition holds."""
    with store.history.subscribe(None, None, store.revision) as changes:
        while not condition():
            await anext(changes)


async def served_until(kinds: Kinds, condition: Callable[[], object]) -> None:
    """Waits for changes of what is served until the condition holds."""
    while not condition():
        await kinds.changed()


def condition(crd: dict[str, Any] | None, name: str) -> tuple[str, str]:
    found = find(crd or {}, name) or {}
    return found.get("status", ""), found.get("reason", "")


@asynccontextmanager
async def running(
    directory: Path, *before: dict[str, Any], always: list[Served] | None = None
) -> AsyncIterator[tuple[Store, Kinds]]:
    store = await Store.open(directory, clock=VirtualClock())
    for crd in before:
        await put(store, crd)
    kinds = Kinds(always or [], {})
    definitions = Definitions(store, kinds, clock=VirtualClock())
    task = asyncio.create_task(definitions.run())
    try:
        await definitions.ready()
        yield store, kinds
    finally:
        await store.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def new_widgets(**changed: Any) -> dict[str, Any]:
    return samples.widgets(status=NEW, **changed)


def deleted(crd: dict[str, Any]) -> dict[str, Any]:
    """A definition whose deletion was asked for, as the rules leave it."""
    metadata = {**crd["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    metadata["finalizers"] = [*crd["metadata"].get("finalizers", ()), CLEANUP]
    return {**crd, "metadata": metadata}


async def test_what_was_served_before_is_served_at_once_after_a_start(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    await put(store, samples.widgets())
    await put(store, {**samples.gadgets(), "status": NEW})
    kinds = Kinds([], {})
    Definitions(store, kinds, clock=VirtualClock()).load()
    assert [each.kind.api_version for each in kinds.all()] == [f"{samples.GROUP}/v1", f"{samples.GROUP}/v1beta1"]
    await store.close()


async def test_a_new_definition_is_established_and_served_before_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as (store, kinds):
        told: list[bool] = []
        whole = kinds.set_custom

        def set_custom(served: Any) -> None:
            told.append(is_true(read(store) or {}, "Established"))
            whole(served)

        monkeypatch.setattr(kinds, "set_custom", set_custom)
        await put(store, new_widgets())
        await until(store, lambda: is_true(read(store) or {}, "Established"))
        crd = read(store)
        assert crd is not None
        assert crd["status"] == {
            "conditions": [
                {
                    "type": "NamesAccepted",
                    "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "reason": "NoConflicts",
                    "message": "no conflicts found",
                },
                {
                    "type": "Established",
                    "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "reason": "InitialNamesAccepted",
                    "message": "the initial names have been accepted",
                },
            ],
            "acceptedNames": samples.NAMES,
            "storedVersions": ["v1"],
        }
        assert crd["metadata"]["resourceVersion"] == str(store.revision)
        assert told == [False]
        assert kinds.find(samples.GROUP, "v1", "widgets") is not None


async def test_the_status_belongs_to_the_api_server_as_on_the_real_one(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    crd = {**samples.gadgets(), "status": NEW}
    creator = {"manager": "unknown", "operation": "Update", "apiVersion": "apiextensions.k8s.io/v1"}
    owned = {"time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:group": {}}}}
    crd["metadata"]["managedFields"] = [{**creator, **owned}]
    await put(store, crd)
    definitions = Definitions(store, Kinds(builtin.served(), builtin.definitions()), clock=VirtualClock())
    task = asyncio.create_task(definitions.run())
    await definitions.ready()
    stored = read(store, crd["metadata"]["name"])
    await store.close()
    await task
    assert stored is not None
    first, second = stored["metadata"]["managedFields"]
    assert second == {**creator, **owned}
    names: dict[str, Any] = {f"f:{name}": {} for name in ("kind", "listKind", "plural", "singular")}
    parts: dict[str, Any] = {
        ".": {},
        **{f"f:{name}": {} for name in ("lastTransitionTime", "message", "reason", "status", "type")},
    }
    conditions = {f'k:{{"type":"{name}"}}': parts for name in ("Established", "NamesAccepted")}
    assert first == {
        "manager": "kube-apiserver",
        "operation": "Update",
        "apiVersion": "apiextensions.k8s.io/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:acceptedNames": names, "f:conditions": conditions}},
        "subresource": "status",
    }


async def test_a_change_of_the_spec_changes_what_is_served(tmp_path: Path) -> None:
    async with running(tmp_path, samples.widgets()) as (store, kinds):
        before = kinds.revision
        crd = samples.widgets()
        crd["metadata"]["generation"] = 2
        crd["spec"]["versions"][1]["served"] = False
        await put(store, crd)
        await served_until(kinds, lambda: kinds.revision > before)
        assert [each.kind.version for each in kinds.all()] == ["v1"]
        assert kinds.revision == before + 1


async def test_a_change_that_says_nothing_new_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, samples.widgets()) as (store, kinds):
        before, served = kinds.revision, kinds.all()
        crd = samples.widgets()
        crd["metadata"]["labels"] = {"a": "b"}
        await put(store, crd)
        await put(store, {**samples.gadgets(), "status": NEW})
        await until(store, lambda: is_true(read(store, f"gadgets.{samples.GROUP}") or {}, "Established"))
        assert kinds.revision == before + 1
        assert set(map(id, served)) < set(map(id, kinds.all()))


async def test_a_name_in_use_is_not_accepted_until_it_is_free(tmp_path: Path) -> None:
    other = {**samples.gadgets(), "status": NEW}
    other["spec"]["names"] = {**other["spec"]["names"], "shortNames": ["wd"]}
    name = f"gadgets.{samples.GROUP}"
    async with running(tmp_path, samples.widgets()) as (store, kinds):
        await put(store, other)
        await until(store, lambda: find(read(store, name) or {}, "NamesAccepted"))
        assert condition(read(store, name), "NamesAccepted") == ("False", "ShortNamesConflict")
        assert condition(read(store, name), "Established") == ("False", "NotAccepted")
        assert kinds.find(samples.GROUP, "v1", "gadgets") is None
        await put(store, deleted(samples.widgets()))
        await until(store, lambda: is_true(read(store, name) or {}, "Established"))
        assert read(store) is None
        assert [each.kind.plural for each in kinds.all()] == ["gadgets"]


async def test_a_definition_whose_conditions_were_taken_away_is_no_longer_served(tmp_path: Path) -> None:
    async with running(tmp_path, samples.widgets()) as (store, kinds):
        crd = samples.widgets()
        crd["status"]["conditions"] = []
        await put(store, crd)
        await served_until(kinds, lambda: not kinds.all())
        stored = read(store)
        assert stored is not None
        assert stored["status"] == crd["status"]


async def test_a_definition_whose_names_are_accepted_is_established_after_a_stop_in_between(tmp_path: Path) -> None:
    crd = samples.widgets()
    del crd["status"]["conditions"][1]
    async with running(tmp_path, crd) as (store, kinds):
        assert condition(read(store), "Established") == ("True", "InitialNamesAccepted")
        assert kinds.find(samples.GROUP, "v1", "widgets") is not None


async def test_a_built_in_kind_is_never_replaced(tmp_path: Path) -> None:
    kind = Kind(group=samples.GROUP, version="v1", kind="Widget", plural="widgets")
    known = Served(kind=kind, singular="widget", list_kind="WidgetList", storage="w", storage_api_version="v1")
    async with running(tmp_path, new_widgets(), always=[known]) as (store, kinds):
        assert condition(read(store), "NamesAccepted")[0] == "False"
        assert list(kinds.all()) == [known]


async def test_an_established_definition_whose_new_names_are_taken_is_served_by_its_old_ones(tmp_path: Path) -> None:
    async with running(tmp_path, samples.widgets(), samples.gadgets()) as (store, kinds):
        crd = samples.widgets()
        crd["spec"]["names"] = {**samples.NAMES, "singular": "gadget"}
        await put(store, crd)
        await until(store, lambda: condition(read(store), "NamesAccepted")[0] == "False")
        assert condition(read(store), "Established")[0] == "True"
        served = kinds.find(samples.GROUP, "v1", "widgets")
        assert served is not None
        assert served.singular == "widget"


async def test_a_definition_that_cannot_be_served_does_not_stop_the_others(tmp_path: Path) -> None:
    broken = samples.widgets()
    broken["spec"]["versions"] = [{"name": "v1", "served": True}]
    async with running(tmp_path, broken, samples.gadgets()) as (_, kinds):
        assert [each.kind.plural for each in kinds.all()] == ["gadgets"]


def widget(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": f"{samples.GROUP}/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}


async def test_a_deleted_definition_takes_its_objects_with_it(tmp_path: Path) -> None:
    async with running(tmp_path, samples.widgets()) as (store, kinds):
        for namespace in "ab":
            await put(store, widget("x"), WIDGETS, namespace)
        await put(store, deleted(samples.widgets()))
        await served_until(kinds, lambda: not kinds.all())
        assert read(store) is None
        assert store.list(WIDGETS).items == []


async def test_an_object_that_a_finalizer_holds_holds_its_definition(tmp_path: Path) -> None:
    async with running(tmp_path, samples.widgets()) as (store, kinds):
        held = await put(store, widget("held", finalizers=["a/b"], generation=1), WIDGETS, "a")
        await put(store, widget("unborn", finalizers=["a/b"]), WIDGETS, "a")
        await put(store, deleted(samples.widgets()))
        key = StoreKey(WIDGETS, "a", "unborn")
        await until(store, lambda: b"deletionTimestamp" in (store.get(key) or pytest.fail("it is gone")).body)
        body = json.loads((store.get(StoreKey(WIDGETS, "a", "held")) or pytest.fail("it is gone")).body)
        assert body["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
        assert (body["metadata"]["deletionGracePeriodSeconds"], body["metadata"]["generation"]) == (0, 2)
        assert condition(read(store), "Terminating") == ("True", "InstanceDeletionInProgress")
        assert kinds.find(samples.GROUP, "v1", "widgets") is not None
        await put(store, {**held, "metadata": {"name": "held"}}, WIDGETS, "a")
        await store.delete(key)
        await until(store, lambda: read(store) is None)
        assert store.list(WIDGETS).items == []


async def test_a_definition_with_another_finalizer_stays_until_that_is_gone(tmp_path: Path) -> None:
    crd = samples.widgets()
    crd["metadata"]["finalizers"] = ["mine/own"]
    async with running(tmp_path, deleted(crd)) as (store, _):
        await until(store, lambda: condition(read(store), "Terminating") == ("False", "InstanceDeletionCompleted"))
        stored = read(store)
        assert stored is not None
        assert stored["metadata"]["finalizers"] == ["mine/own"]


async def test_a_definition_that_was_never_established_just_goes(tmp_path: Path) -> None:
    blocked = {**samples.gadgets(), "status": NEW}
    blocked["spec"]["names"] = {**blocked["spec"]["names"], "singular": "widget"}
    blocked["metadata"]["finalizers"] = ["mine/own"]
    name = blocked["metadata"]["name"]
    async with running(tmp_path, samples.widgets(), deleted(blocked)) as (store, _):
        await until(store, lambda: condition(read(store, name), "Terminating") == ("False", "NeverEstablished"))


async def test_a_store_that_fails_for_a_while_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    await put(store, new_widgets())
    await put(store, deleted(samples.gadgets()))
    clock, kinds = VirtualClock(), Kinds([], {})
    definitions = Definitions(store, kinds, clock=clock)
    update, delete = store.update, store.delete
    failures: dict[str, list[Exception]] = {
        "update": [StoreError("full"), TooSlow("slow")],
        "delete": [StoreError("full")],
    }

    async def failing_update(*args: Any) -> Any:
        if failures["update"]:
            raise failures["update"].pop()
        return await update(*args)

    async def failing_delete(*args: Any) -> Any:
        if failures["delete"]:
            raise failures["delete"].pop()
        return await delete(*args)

    monkeypatch.setattr(store, "update", failing_update)
    monkeypatch.setattr(store, "delete", failing_delete)
    task = asyncio.create_task(definitions.run())
    while not (is_true(read(store) or {}, "Established") and read(store, f"gadgets.{samples.GROUP}") is None):
        await clock.advance(crd_controller._RETRY_SECONDS)
    await store.close()
    await task
    assert failures == {"update": [], "delete": []}


async def test_a_definition_that_changes_meanwhile_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as (store, _):
        update = store.update
        told: list[StoreKey] = []

        async def slow_update(key: StoreKey, revision: int, make: Callable[[int], bytes]) -> Any:
            if not told:
                told.append(key)
                crd = new_widgets()
                crd["metadata"]["labels"] = {"a": "b"}
                await update(key, revision, made(crd))
            return await update(key, revision, make)

        monkeypatch.setattr(store, "update", slow_update)
        await put(store, new_widgets())
        await until(store, lambda: is_true(read(store) or {}, "Established"))
        stored = read(store)
        assert stored is not None
        assert stored["metadata"]["labels"] == {"a": "b"}
        assert told


async def test_an_object_that_changes_meanwhile_is_deleted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, samples.widgets()) as (store, _):
        delete = store.delete
        told: list[StoreKey] = []

        async def slow_delete(key: StoreKey, revision: int, make: Callable[[int], bytes]) -> Any:
            if key not in told:
                told.append(key)
                there = store.get(key)
                assert there is not None
                await store.update(key, revision, lambda _: there.body)
            return await delete(key, revision, make)

        monkeypatch.setattr(store, "delete", slow_delete)
        await put(store, widget("x"), WIDGETS, "a")
        await put(store, deleted(samples.widgets()))
        await until(store, lambda: read(store) is None)
        assert len(told) == 2
        assert store.list(WIDGETS).items == []


async def test_a_definition_that_is_gone_before_its_objects_is_not_missed(tmp_path: Path) -> None:
    async with running(tmp_path, samples.widgets()) as (store, kinds):
        await put(store, widget("held", finalizers=["a/b"]), WIDGETS, "a")
        await put(store, deleted(samples.widgets()))
        key = StoreKey(WIDGETS, "a", "held")
        await until(store, lambda: b"deletionTimestamp" in (store.get(key) or pytest.fail("it is gone")).body)
        await store.delete(StoreKey(RESOURCE, "", WIDGETS))
        await served_until(kinds, lambda: not kinds.all())
        await store.delete(key)
        assert read(store) is None


async def test_a_store_that_is_closed_ends_the_wait_for_objects(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    await put(store, samples.widgets())
    await put(store, widget("held", finalizers=["a/b"], deletionTimestamp="2026-01-01T00:00:00Z"), WIDGETS, "a")
    definitions = Definitions(store, Kinds([], {}), clock=VirtualClock())
    task = asyncio.create_task(definitions.run())
    await definitions.ready()
    await put(store, deleted(samples.widgets()))
    await until(store, lambda: condition(read(store), "Terminating")[1] == "InstanceDeletionInProgress")
    await store.close()
    await task
