"""The client's reads on both API servers, what it creates, and as whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewright.runtime import Key, ObjectMeta
from edgewright.runtime.errors import Forbidden, NotFound, Undecodable
from tests.cluster.kinds import Loose, Planet, Widget, WidgetSpec, install, widget
from tests.cluster.raw import REVIEW
from tests.cluster.support import connected, in_parallel
from tests.harness import ApiServer, ControlPlane

# Reading and creating


async def test_what_was_created_is_read_back(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=3, text="hello"))
        assert made.metadata.uid
        assert made.metadata.generation == 1
        assert made.metadata.creation_timestamp is not None
        assert await api.get(made.key) == made
        assert made.spec == WidgetSpec(count=3, text="hello")


async def test_a_dry_run_leaves_nothing_behind(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        tried = await api.create(widget(namespace, "one", count=3), dry_run=True)
        assert tried.metadata.uid
        applied = await api.apply(widget(namespace, "two", count=4), dry_run=True)
        assert applied.spec.count == 4
        assert (await api.list(namespace)).items == []


async def test_a_name_is_made_up_by_the_server_where_only_its_beginning_is_given(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = [
            await api.create(Widget(metadata=ObjectMeta(generate_name="some-", namespace=namespace))) for _ in range(2)
        ]
        assert all(each.metadata.name.startswith("some-") for each in made)
        assert made[0].key != made[1].key


async def test_a_list_is_narrowed_by_labels_and_by_fields(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
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


async def test_a_list_of_all_namespaces_has_what_a_namespace_has(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one"))
        assert made in (await api.list()).items
        assert (await api.list(namespace)).items == [made]


async def test_pages_add_up_to_one_state_of_the_server_while_others_write(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
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


async def test_a_cluster_scoped_kind_has_no_namespace(api_server: ApiServer) -> None:
    async with connected(api_server) as client:
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
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
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


# Who one is


async def test_one_user_acts_as_another(api_server: ApiServer, namespace: str, tmp_path: Path) -> None:
    admin = api_server.kubeconfig.read_text()
    as_somebody = tmp_path / "kubeconfig"
    jane = {"as": "jane", "as-groups": ["dev", "ops"], "as-uid": "u-1", "as-user-extra": {"acme.dev/why": ["a b", "c"]}}
    as_somebody.write_text(admin.replace('"user": {', '"user": {' + json.dumps(jane)[1:-1] + ",", 1))
    async with connected(as_somebody) as client:
        if isinstance(api_server, ControlPlane):  # on ours everybody may do everything
            with pytest.raises(Forbidden, match='"jane" cannot list resource'):
                await client.of(Widget).list(namespace)
        review = await client.raw(REVIEW).create(
            {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "metadata": {}}
        )
        user = review["status"]["userInfo"]
        assert (user["username"], user["uid"]) == ("jane", "u-1")
        assert set(user["groups"]) == {"dev", "ops", "system:authenticated"}
        assert user["extra"]["acme.dev/why"] == ["a b", "c"]
