"""The client's verbs and errors on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from edgewright.runtime import Client, Key, Kind, ObjectMeta
from edgewright.runtime.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Undecodable,
    Unreachable,
)
from edgewright.runtime.objects import owner_reference
from tests.cluster.kinds import (
    CONFIG_MAP,
    Loose,
    Planet,
    Widget,
    WidgetSpec,
    WidgetStatus,
    install,
    widget,
)
from tests.cluster.support import connected, eventually, in_parallel
from tests.harness import ControlPlane, free_port

REVIEW = Kind(
    group="authentication.k8s.io", version="v1", kind="SelfSubjectReview", plural="selfsubjectreviews", namespaced=False
)


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


# Reading and creating


async def test_what_was_created_is_read_back(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=3, text="hello"))
        assert made.metadata.uid
        assert made.metadata.generation == 1
        assert made.metadata.creation_timestamp is not None
        assert await api.get(made.key) == made
        assert made.spec == WidgetSpec(count=3, text="hello")


async def test_a_dry_run_leaves_nothing_behind(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        tried = await api.create(widget(namespace, "one", count=3), dry_run=True)
        assert tried.metadata.uid
        applied = await api.apply(widget(namespace, "two", count=4), dry_run=True)
        assert applied.spec.count == 4
        assert (await api.list(namespace)).items == []


async def test_a_name_is_made_up_by_the_server_where_only_its_beginning_is_given(
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = [
            await api.create(Widget(metadata=ObjectMeta(generate_name="some-", namespace=namespace))) for _ in range(2)
        ]
        assert all(each.metadata.name.startswith("some-") for each in made)
        assert made[0].key != made[1].key


async def test_a_list_is_narrowed_by_labels_and_by_fields(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        for index in range(4):
            colour = "red" if index % 2 else "blue"
            await api.create(widget(namespace, f"w{index}", text=f"text{index}", labels={"colour": colour}))

        async def names(**selectors: str) -> list[str]:
            return [each.metadata.name for each in (await api.list(namespace, **selectors)).items]

        assert await names() == ["w0", "w1", "w2", "w3"]
        assert await names(labels="colour=red") == ["w1", "w3"]
        assert await names(labels="colour in (red,blue),colour!=red") == ["w0", "w2"]
        assert await names(fields="metadata.name=w2") == ["w2"]
        assert await names(fields="spec.text=text1") == ["w1"]
        assert await names(labels="colour=red", fields="spec.text=text0") == []


async def test_a_list_of_all_namespaces_has_what_a_namespace_has(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one"))
        assert made in (await api.list()).items
        assert (await api.list(namespace)).items == [made]


async def test_pages_add_up_to_one_state_of_the_server_while_others_write(
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await in_parallel(api.create(widget(namespace, f"w{index:03}")) for index in range(60))
        seen: list[str] = []
        versions = set()
        async for page in api.pages(namespace, size=10):
            if not seen:
                await api.delete(Key(namespace, "w059"))
                await api.patch(Key(namespace, "w058"), {"spec": {"count": 9}})
                await api.create(widget(namespace, "w057a"))
            seen += [each.metadata.name for each in page.items]
            versions.add(page.resource_version)
            assert all(each.spec.count == 0 for each in page.items)
        assert seen == [f"w{index:03}" for index in range(60)]
        assert len(versions) == 1
        assert "w057a" in [each.metadata.name for each in (await api.list(namespace)).items]


async def test_a_cluster_scoped_kind_has_no_namespace(cluster: ControlPlane) -> None:
    async with connected(cluster) as client:
        await install(client, Planet)
        api = client.of(Planet)
        key = Key("", "venus")
        made = await api.create(Planet(metadata=ObjectMeta(name="venus"), spec=WidgetSpec(count=2)))
        try:
            assert made.key == key
            assert (await api.patch(key, {"spec": {"count": 3}})).spec.count == 3
            assert [each.key for each in (await api.list()).items] == [key]
        finally:
            await api.delete(key)
        with pytest.raises(NotFound):
            await api.get(key)


async def test_an_object_that_does_not_fit_is_named_and_does_not_hide_the_others(
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Loose)
        raw, api = client.raw(Loose.kind), client.of(Loose)
        for name, count in (("a", 1), ("b", "three"), ("c", 3)):
            await raw.create(
                {
                    "apiVersion": Loose.kind.api_version,
                    "kind": "Loose",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"count": count},
                }
            )
        page = await api.list(namespace)
        assert [each.metadata.name for each in page.items] == ["a", "c"]
        (unread,) = page.unread
        assert unread.key == Key(namespace, "b")
        assert "spec.count" in unread.problem
        with pytest.raises(Undecodable, match=r"looses\.test\.edgewright\.dev b: .*spec\.count"):
            await api.get(Key(namespace, "b"))


# Writing


async def test_apply_creates_and_then_changes_only_its_own_fields(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
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
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
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


async def test_a_merge_patch_changes_and_removes_fields(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=3, text="hello", labels={"a": "1", "b": "2"}))
        changed = await api.patch(made.key, {"metadata": {"labels": {"a": None}}, "spec": {"text": None, "count": 7}})
        assert changed.metadata.labels == {"b": "2"}
        assert changed.spec == WidgetSpec(count=7)


async def test_a_json_patch_is_carried_out_whole_or_not_at_all(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
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
    cluster: ControlPlane, namespace: str, change: Any
) -> None:
    async with connected(cluster) as client:
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
    cluster: ControlPlane, namespace: str, subresource: str
) -> None:
    async with connected(cluster) as client:
        with pytest.raises(ValueError, match=f"{subresource} is not conditional by uid"):
            await client.of(Widget).patch(Key(namespace, "one"), {"status": {}}, uid="some", subresource=subresource)


async def test_an_apply_with_a_uid_does_not_make_a_deleted_object_anew(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
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


async def test_under_a_lease_a_write_without_a_condition_is_not_sent(cluster: ControlPlane, namespace: str) -> None:
    class Always:
        def remaining(self) -> float:
            return 10.0

    async with connected(cluster) as client:
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
                api.set_scale(made.key, 2),
                fenced.raw(Widget.kind).replace(widget(namespace, "one", count=2).to_raw()),
            ]
            for each in tries:
                with pytest.raises(ValueError, match="under a lease"):
                    await each
            assert (await api.list(namespace)).items == [made]
            changed = await api.patch(made.key, {"spec": {"count": 2}}, resource_version=version)
            await api.delete(made.key, uid=changed.metadata.uid)


async def test_a_status_is_written_apart_from_the_spec(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
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
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one"))
        await api.write_status(made, WidgetStatus(phase="first"))
        with pytest.raises(Conflict, match="the object has been modified"):
            await api.write_status(made, WidgetStatus(phase="second"))
        assert (await api.get(made.key)).status == WidgetStatus(phase="first")


async def test_the_scale_is_read_and_written_by_its_subresource(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        raw: dict[str, Any] = widget(namespace, "one").to_raw()
        raw["spec"] = {"replicas": 2}
        made = await client.raw(Widget.kind).create(raw)
        key = Key(namespace, "one")
        assert await api.get_scale(key) == 2
        await api.set_scale(key, 5)
        assert (await api.get(key)).spec.replicas == 5
        assert await api.get_scale(key) == 5
        with pytest.raises(Conflict):
            await api.set_scale(key, 6, resource_version=made["metadata"]["resourceVersion"])
        assert await api.get_scale(key) == 5


async def test_a_raw_object_is_replaced_where_nobody_changed_it(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        api = client.raw(CONFIG_MAP)
        first = await api.create(config_map(namespace, "one", a="1", b="2"))
        second = await api.replace({**first, "data": {"a": "3"}})
        assert second["data"] == {"a": "3"}
        with pytest.raises(Conflict):
            await api.replace({**first, "data": {}})
        assert (await api.get(Key(namespace, "one")))["data"] == {"a": "3"}


async def test_a_status_is_replaced_by_its_subresource(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
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
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
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


async def test_a_finalizer_holds_an_object_until_it_is_taken_off(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
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
    cluster: ControlPlane, namespace: str, propagation: Any, children: int
) -> None:
    async with connected(cluster) as client:
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

        await eventually(settled, timeout=40, what=f"the garbage collector is done after {propagation}")


async def test_an_owner_reference_of_ours_is_one_that_the_server_takes(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        owner = await api.create(widget(namespace, "owner"))
        metadata = ObjectMeta(name="child", namespace=namespace, owner_references=(owner_reference(owner),))
        child = await api.create(Widget(metadata=metadata))
        assert child.metadata.owner_references == (owner_reference(owner),)


# Errors

Call = Callable[[Client, str], Coroutine[Any, Any, object]]


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        (lambda c, n: c.of(Widget).get(Key(n, "nobody")), NotFound, 404),
        (lambda c, n: c.of(Widget).patch(Key(n, "nobody"), {"spec": {}}), NotFound, 404),
        (lambda c, n: c.of(Widget).delete(Key(n, "nobody")), NotFound, 404),
        (lambda c, n: c.of(Widget).create(widget("no-such-namespace", "one")), NotFound, 404),
        (lambda c, n: c.of(Widget).create(widget(n, "taken")), AlreadyExists, 409),
        (lambda c, n: c.of(Widget).create(widget(n, "Not A Name")), Invalid, 422),
        (lambda c, n: c.of(Widget).create(widget(n, "one", count=-1)), Invalid, 422),
        (lambda c, n: c.of(Widget).list(n, labels="=!="), BadRequest, 400),
        (lambda c, n: c.of(Widget).list(n, fields="spec.nothing=1"), BadRequest, 400),
        (lambda c, n: c.raw(CONFIG_MAP).create(config_map("default", "x") | {"data": 5}), BadRequest, 400),
        (lambda c, n: c.raw(REVIEW).list(), MethodNotAllowed, 405),
        (lambda c, n: c.raw(CONFIG_MAP).get(Key(n, "x"), subresource="nothing"), NotFound, 404),
        (lambda c, n: c.raw(Kind(group="no.dev", version="v1", kind="No", plural="noes")).list(), NotFound, 404),
    ],
    ids=[
        "get what is not there",
        "patch what is not there",
        "delete what is not there",
        "create in no namespace",
        "create what is there",
        "a name that is none",
        "a value out of bounds",
        "a selector that is none",
        "a field that cannot be selected",
        "a type that is wrong",
        "a verb that is not served",
        "a subresource that is not served",
        "a kind that is not served",
    ],
)
async def test_a_refusal_is_raised_by_its_type(
    cluster: ControlPlane, namespace: str, call: Call, error: type[ApiError], code: int
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        await client.of(Widget).create(widget(namespace, "taken"))
        with pytest.raises(ApiError) as raised:
            await call(client, namespace)
        assert type(raised.value) is error
        assert raised.value.code == code
        assert str(raised.value).startswith(raised.value.request)


async def test_an_invalid_object_is_refused_with_every_field_that_is_wrong(
    cluster: ControlPlane, namespace: str
) -> None:
    async with connected(cluster) as client:
        await install(client, Widget)
        with pytest.raises(Invalid) as raised:
            await client.of(Widget).create(widget(namespace, "one", count=-1, text="x" * 5000))
        assert {cause.field for cause in raised.value.causes} == {"spec.count", "spec.text"}
        assert all(cause.message for cause in raised.value.causes)


async def test_a_user_without_rights_is_told_what_is_forbidden(cluster: ControlPlane, namespace: str) -> None:
    async with connected(cluster.kubeconfig_for("nobody-in-particular")) as client:
        with pytest.raises(Forbidden, match='"nobody-in-particular" cannot list resource "widgets"'):
            await client.of(Widget).list(namespace)


async def test_a_token_that_the_server_does_not_know_is_unauthorized(cluster: ControlPlane) -> None:
    async with connected(cluster.kubeconfig_with({"token": "nonsense"})) as client:
        with pytest.raises(Unauthorized):
            await client.of(Widget).list("default")


async def test_a_server_that_is_not_there_is_unreachable_and_named(cluster: ControlPlane) -> None:
    address = f"https://127.0.0.1:{free_port()}"
    async with connected(cluster.kubeconfig_for("admin", server=address)) as client:
        with pytest.raises(Unreachable, match=address):
            await client.of(Widget).list("default")


async def test_a_server_that_does_not_answer_is_unreachable_in_time(cluster: ControlPlane) -> None:
    with cluster.proxy() as proxy:
        kubeconfig = cluster.kubeconfig_for("admin", ["system:masters"], server=proxy.url)
        async with connected(kubeconfig, timeout=0.5) as client:
            await client.get_path("/version")
            proxy.pause()
            with pytest.raises(Unreachable, match="no answer in time"):
                await client.get_path("/version")
            proxy.resume()
            assert b"gitVersion" in await client.get_path("/version")


async def test_a_connection_that_was_cut_while_idle_costs_no_request(cluster: ControlPlane) -> None:
    with cluster.proxy() as proxy:
        async with connected(cluster.kubeconfig_for("admin", ["system:masters"], server=proxy.url)) as client:
            await client.get_path("/version")
            await asyncio.to_thread(proxy.cut)
            await asyncio.sleep(0.1)  # nothing shows when the system has told the event loop of it
            assert b"gitVersion" in await client.get_path("/version")
            assert proxy.count == 2


# Who one is


async def test_one_user_acts_as_another(cluster: ControlPlane, namespace: str, tmp_path: Path) -> None:
    admin = cluster.kubeconfig.read_text()
    as_somebody = tmp_path / "kubeconfig"
    jane = {"as": "jane", "as-groups": ["dev", "ops"], "as-uid": "u-1", "as-user-extra": {"acme.dev/why": ["a b", "c"]}}
    as_somebody.write_text(admin.replace('"user": {', '"user": {' + json.dumps(jane)[1:-1] + ",", 1))
    async with connected(as_somebody) as client:
        with pytest.raises(Forbidden, match='"jane" cannot list resource'):
            await client.of(Widget).list(namespace)
        review = await client.raw(REVIEW).create(
            {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "metadata": {}}
        )
        user = review["status"]["userInfo"]
        assert (user["username"], user["uid"]) == ("jane", "u-1")
        assert set(user["groups"]) == {"dev", "ops", "system:authenticated"}
        assert user["extra"]["acme.dev/why"] == ["a b", "c"]


# Too many requests


@pytest.mark.parametrize(
    "own_cluster",
    [
        {
            "api_flags": [
                "--enable-priority-and-fairness=false",
                "--max-requests-inflight=1",
                "--max-mutating-requests-inflight=1",
            ]
        }
    ],
    indirect=True,
    ids=["two requests at a time"],
)
async def test_requests_that_are_too_many_come_back_when_the_server_says(own_cluster: ControlPlane) -> None:
    codes: list[str] = []
    names = [f"m{index:02}" for index in range(10)]
    # Administrators are exempt from these limits, so somebody else asks.
    user = own_cluster.kubeconfig_for("busy")
    await asyncio.to_thread(
        own_cluster.kubectl, "create", "clusterrolebinding", "busy", "--clusterrole=cluster-admin", "--user=busy"
    )
    async with connected(user, connections=10) as client:
        client.transport.on_answer = lambda method, code: codes.append(code)
        api = client.raw(CONFIG_MAP)
        big = "x" * 200_000
        await asyncio.gather(*(api.create(config_map("default", name, text=big)) for name in names))
        assert "429" in codes, "the server was never too busy: this test shows nothing"
        assert codes.count("201") == len(names)
        assert {each["metadata"]["name"] for each in (await api.list("default")).items} >= set(names)
    async with connected(user, connections=10, retries=0) as client:
        answers = await asyncio.gather(
            *(client.raw(CONFIG_MAP).create(config_map("default", f"{name}-b", text=big)) for name in names),
            return_exceptions=True,
        )
        refused = [each for each in answers if isinstance(each, BaseException)]
        assert refused
        assert all(type(each) is TooManyRequests for each in refused)
        assert all(isinstance(each, TooManyRequests) and each.retry_after for each in refused)
