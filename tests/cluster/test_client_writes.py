"""The client's writes and deletions on both API servers, and the conditions that they are made under."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.runtime import Key, ObjectMeta
from edgewright.runtime.errors import Conflict, Invalid, NotFound
from edgewright.runtime.objects import owner_reference
from tests.cluster.kinds import CONFIG_MAP, Widget, WidgetSpec, WidgetStatus, install, widget
from tests.cluster.raw import config_map
from tests.cluster.support import connected, eventually
from tests.harness import ApiServer

# Writing


async def test_apply_creates_and_then_changes_only_its_own_fields(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        first = await api.apply(widget(namespace, "one", count=3))
        await api.patch(first.key, {"spec": {"text": "by a person"}})
        second = await api.apply(widget(namespace, "one", count=4))
        assert second.metadata.uid == first.metadata.uid
        assert (second.spec.count, second.spec.text) == (4, "by a person")
        third = await api.apply(widget(namespace, "one"))
        assert third.spec == WidgetSpec(text="by a person"), "a field that is not applied any more goes"


async def test_a_field_that_another_manager_owns_is_a_conflict_that_force_overcomes(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await api.apply(widget(namespace, "one", count=3), manager="a-person")
        with pytest.raises(Conflict) as raised:
            await api.apply(widget(namespace, "one", count=4))
        (cause,) = raised.value.causes
        assert (cause.reason, cause.field) == ("FieldManagerConflict", ".spec.count")
        assert "a-person" in cause.message
        forced = await api.apply(widget(namespace, "one", count=4), force=True)
        assert forced.spec.count == 4


async def test_a_merge_patch_changes_and_removes_fields(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=3, text="hello", labels={"a": "1", "b": "2"}))
        changed = await api.patch(made.key, {"metadata": {"labels": {"a": None}}, "spec": {"text": None, "count": 7}})
        assert changed.metadata.labels == {"b": "2"}
        assert changed.spec == WidgetSpec(count=7)


async def test_a_json_patch_is_carried_out_whole_or_not_at_all(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=3))
        changed = await api.patch(made.key, [{"op": "replace", "path": "/spec/count", "value": 4}])
        assert changed.spec.count == 4
        with pytest.raises(Invalid):
            await api.patch(
                made.key,
                [
                    {"op": "replace", "path": "/spec/count", "value": 5},
                    {"op": "test", "path": "/spec/count", "value": 77},
                ],
            )
        assert (await api.get(made.key)).spec.count == 4


@pytest.mark.parametrize(
    "change",
    [{"spec": {"count": 9}}, [{"op": "replace", "path": "/spec/count", "value": 9}]],
    ids=["merge patch", "json patch"],
)
async def test_a_patch_whose_conditions_do_not_hold_is_a_conflict(
    api_server: ApiServer, namespace: str, change: Any
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        old = await api.create(widget(namespace, "one", count=3))
        new = await api.patch(old.key, {"spec": {"count": 4}})
        with pytest.raises(Conflict):
            await api.patch(old.key, change, resource_version=old.metadata.resource_version)
        with pytest.raises(Conflict):
            await api.patch(old.key, change, uid="00000000-0000-0000-0000-000000000000")
        assert await api.get(old.key) == new
        done = await api.patch(old.key, change, uid=new.metadata.uid, resource_version=new.metadata.resource_version)
        assert done.spec.count == 9


@pytest.mark.parametrize("subresource", ["status", "scale"])
async def test_a_uid_alone_is_no_condition_on_a_subresource_and_is_not_taken_for_one(
    api_server: ApiServer, namespace: str, subresource: str
) -> None:
    async with connected(api_server) as client:
        with pytest.raises(ValueError, match=f"{subresource} is not conditional by uid"):
            await client.of(Widget).patch(Key(namespace, "one"), {"status": {}}, uid="some", subresource=subresource)


async def test_an_apply_with_a_uid_does_not_make_a_deleted_object_again(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=1))
        wanted = Widget(
            metadata=ObjectMeta(name="one", namespace=namespace, uid=made.metadata.uid), spec=WidgetSpec(count=2)
        )
        assert (await api.apply(wanted, force=True)).spec.count == 2
        await api.delete(made.key)
        with pytest.raises(Conflict):
            await api.apply(wanted)
        await api.create(widget(namespace, "one", count=1))
        with pytest.raises(Conflict):
            await api.apply(wanted, force=True)
        assert (await api.get(made.key)).spec.count == 1


async def test_under_a_lease_a_write_without_a_condition_is_not_sent(api_server: ApiServer, namespace: str) -> None:
    class Always:
        def remaining(self) -> float:
            return 10.0

    async with connected(api_server) as client:
        await install(client, Widget)
        async with client.fenced(Always()) as fenced:
            api = fenced.of(Widget)
            made = await api.create(widget(namespace, "one", count=1))
            version = made.metadata.resource_version
            tries = [
                api.create(Widget(metadata=ObjectMeta(generate_name="some-", namespace=namespace))),
                api.patch(made.key, {"spec": {"count": 2}}),
                api.apply(widget(namespace, "one", count=2)),
                api.apply(Widget(metadata=ObjectMeta(name="one", namespace=namespace, resource_version=version))),
                api.delete(made.key),
                fenced.raw(Widget.kind).replace(widget(namespace, "one", count=2).to_raw()),
            ]
            for each in tries:
                with pytest.raises(ValueError, match="under a lease"):
                    await each
            assert (await api.list(namespace)).items == [made]
            changed = await api.patch(made.key, {"spec": {"count": 2}}, resource_version=version)
            await api.delete(made.key, uid=changed.metadata.uid)


async def test_a_status_is_written_apart_from_the_spec(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=3))
        status = WidgetStatus(phase="Done", count=3, observed_generation=1)
        done = await api.write_status(made, status)
        assert done.status == status
        assert done.metadata.generation == made.metadata.generation
        assert await api.write_status(done, status) is done, "the same status again is no request"
        less = await api.write_status(done, WidgetStatus(phase="Done"))
        assert less.status == WidgetStatus(phase="Done"), "a field that is gone is removed"
        untouched = await api.patch(made.key, {"status": {"phase": "by the wrong door"}})
        assert untouched.status == WidgetStatus(phase="Done")


async def test_of_two_writers_of_a_status_the_one_that_read_too_early_is_refused(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one"))
        await api.write_status(made, WidgetStatus(phase="first"))
        with pytest.raises(Conflict, match="the object has been modified"):
            await api.write_status(made, WidgetStatus(phase="second"))
        assert (await api.get(made.key)).status == WidgetStatus(phase="first")


async def test_a_raw_object_is_replaced_where_nobody_changed_it(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        api = client.raw(CONFIG_MAP)
        first = await api.create(config_map(namespace, "one", a="1", b="2"))
        second = await api.replace({**first, "data": {"a": "3"}})
        assert second["data"] == {"a": "3"}
        with pytest.raises(Conflict):
            await api.replace({**first, "data": {}})
        assert (await api.get(Key(namespace, "one")))["data"] == {"a": "3"}


async def test_a_status_is_replaced_by_its_subresource(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        await client.of(Widget).create(widget(namespace, "one", count=1))
        raw = client.raw(Widget.kind)
        obj = await raw.get(Key(namespace, "one"))
        await raw.replace({**obj, "spec": {"count": 9}, "status": {"phase": "raw"}}, subresource="status")
        done = await client.of(Widget).get(Key(namespace, "one"))
        assert done.status == WidgetStatus(phase="raw")
        assert done.spec.count == 1


# Deleting


async def test_a_deletion_spares_an_object_that_is_not_the_one_that_was_meant(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        first = await api.create(widget(namespace, "one"))
        await api.delete(first.key)
        second = await api.create(widget(namespace, "one"))
        with pytest.raises(Conflict):
            await api.delete(first.key, uid=first.metadata.uid)
        changed = await api.patch(second.key, {"spec": {"count": 1}})
        with pytest.raises(Conflict):
            await api.delete(second.key, resource_version=second.metadata.resource_version)
        assert await api.get(second.key) == changed
        await api.delete(
            second.key, uid=changed.metadata.uid, resource_version=changed.metadata.resource_version, grace_seconds=0
        )
        with pytest.raises(NotFound):
            await api.delete(second.key)


async def test_a_finalizer_holds_an_object_until_it_is_taken_off(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        held = ObjectMeta(name="one", namespace=namespace, finalizers=("test.edgewright.dev/held",))
        made = await api.create(Widget(metadata=held))
        await api.delete(made.key)
        assert (await api.get(made.key)).deleting
        await api.patch(made.key, {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await api.get(made.key)


@pytest.mark.parametrize(("propagation", "children"), [("Orphan", 1), ("Background", 0), ("Foreground", 0)])
async def test_what_belongs_to_a_deleted_object_goes_or_stays_as_asked(
    api_server: ApiServer, namespace: str, propagation: Any, children: int
) -> None:
    async with connected(api_server) as client:
        pods = client.raw(CONFIG_MAP)
        owner = await pods.create(config_map(namespace, "owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        child = config_map(namespace, "child")
        child["metadata"]["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
        await pods.create(child)
        await pods.delete(Key(namespace, "owner"), propagation=propagation)

        async def settled() -> bool:
            left = {each["metadata"]["name"]: each for each in (await pods.list(namespace)).items}
            if "owner" in left:
                return False
            if children:
                return "child" in left and not left["child"]["metadata"].get("ownerReferences")
            return "child" not in left

        await eventually(settled, what=f"the garbage collector is done after {propagation}")


async def test_an_owner_reference_of_ours_is_one_that_the_server_takes(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        owner = await api.create(widget(namespace, "owner"))
        metadata = ObjectMeta(name="child", namespace=namespace, owner_references=(owner_reference(owner),))
        child = await api.create(Widget(metadata=metadata))
        assert child.metadata.owner_references == (owner_reference(owner),)
