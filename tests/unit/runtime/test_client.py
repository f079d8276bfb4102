"""The client: what each verb sends, how pages are put together, and what a fence forbids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from edgewright.runtime import errors
from edgewright.runtime.client import Client, read_metadata
from edgewright.runtime.config import Config
from edgewright.runtime.errors import ApiError, Expired, NotFound, Undecodable
from edgewright.runtime.objects import Condition, Key, ObjectMeta, Resource
from tests.unit.runtime.fakeserver import (
    NESTED,
    PATH,
    Asked,
    Json,
    Raw,
    Widget,
    WidgetSpec,
    WidgetStatus,
    fake_server,
    key,
    listed,
    path_of,
    refusal,
    status_body,
    typed,
    widget,
)


class Open:
    def remaining(self) -> float:
        return 10.0


async def sent(verb: Callable[[Client], Awaitable[Any]], *answers: Json) -> list[Asked]:
    """What a verb asks of a server that answers so."""
    async with fake_server() as server, Client(server.config) as client:
        for what in (
            *(f"{method} {path_of('x')}" for method in ("GET", "PATCH", "PUT", "DELETE")),
            *(
                f"{method} {path_of('x', 'default', part)}"
                for method in ("GET", "PATCH")
                for part in ("status", "scale")
            ),
            f"POST {Widget.kind.path('default')}",
        ):
            server.on(what, *(answers or (Json(widget("x", 2)),)))
        await verb(client)
        return server.asked


X = typed(widget("x", 1, size=3))


@pytest.mark.parametrize(
    ("verb", "method", "path", "query", "content", "body"),
    [
        (lambda c: c.of(Widget).get(key("x")), "GET", path_of("x"), {}, None, None),
        (
            lambda c: c.of(Widget).get(key("x"), subresource="status"),
            *("GET", path_of("x", "default", "status"), {}, None, None),
        ),
        (
            lambda c: c.of(Widget).create(X),
            "POST",
            Widget.kind.path("default"),
            {"fieldManager": "edgewright"},
            "application/json",
            X.to_raw(),
        ),
        (
            lambda c: c.of(Widget).create(X, dry_run=True),
            *("POST", Widget.kind.path("default"), {"fieldManager": "edgewright", "dryRun": "All"}),
            *("application/json", X.to_raw()),
        ),
        (
            lambda c: c.of(Widget).apply(X, manager="me", force=True, dry_run=True),
            *("PATCH", path_of("x"), {"fieldManager": "me", "force": "true", "dryRun": "All"}),
            *("application/apply-patch+yaml", X.to_raw()),
        ),
        (
            lambda c: c.of(Widget).apply(X, subresource="status"),
            *("PATCH", path_of("x", "default", "status"), {"fieldManager": "edgewright"}),
            *("application/apply-patch+yaml", X.to_raw()),
        ),
        (
            lambda c: c.of(Widget).patch(key("x"), {"spec": {"size": 4}}, resource_version="1"),
            *("PATCH", path_of("x"), {"fieldManager": "edgewright"}, "application/merge-patch+json"),
            {"spec": {"size": 4}, "metadata": {"resourceVersion": "1"}},
        ),
        (
            lambda c: c.of(Widget).patch(key("x"), [{"op": "remove", "path": "/spec"}]),
            *("PATCH", path_of("x"), {"fieldManager": "edgewright"}, "application/json-patch+json"),
            [{"op": "remove", "path": "/spec"}],
        ),
        (
            lambda c: c.of(Widget).delete(key("x")),
            *("DELETE", path_of("x"), {}, "application/json", {"apiVersion": "v1", "kind": "DeleteOptions"}),
        ),
        (
            lambda c: c.of(Widget).delete(
                key("x"), uid="u", resource_version="1", grace_seconds=0, propagation="Orphan"
            ),
            *("DELETE", path_of("x"), {}, "application/json"),
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u", "resourceVersion": "1"},
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Orphan",
            },
        ),
        (
            lambda c: c.of(Widget).change(X, {"spec": {"size": 4}}, subresource="status"),
            *("PATCH", path_of("x", "default", "status"), {"fieldManager": "edgewright"}),
            *("application/merge-patch+json", {"spec": {"size": 4}, "metadata": {"resourceVersion": "1"}}),
        ),
        (
            lambda c: c.of(Widget).discard(typed(widget("x", 1, uid="u")), propagation="Background"),
            *("DELETE", path_of("x"), {}, "application/json"),
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u"},
                "propagationPolicy": "Background",
            },
        ),
        (
            lambda c: c.raw(Widget.kind).replace(widget("x", 1)),
            *("PUT", path_of("x"), {"fieldManager": "edgewright"}, "application/json", widget("x", 1)),
        ),
    ],
    ids=[
        *("get", "get status", "create", "create, dry", "apply", "apply status", "merge patch", "json patch", "delete"),
        *("delete with conditions", "change", "discard", "replace"),
    ],
)
async def test_what_a_verb_sends(verb: Any, method: str, path: str, query: Any, content: str | None, body: Any) -> None:
    (asked,) = await sent(verb)
    assert (asked.method, asked.path, asked.query) == (method, path, query)
    assert asked.headers.get("Content-Type") == content
    assert (asked.json if asked.body else None) == body


async def test_a_status_is_written_as_the_difference_and_under_the_version_that_was_read() -> None:
    raw = {**widget("x", 7), "status": {"seen": 1, "phase": "old", "unknown": "kept"}}
    (asked,) = await sent(lambda c: c.of(Widget).write_status(typed(raw), WidgetStatus(seen=2)))
    assert asked.path == path_of("x", "default", "status")
    assert asked.json == {"status": {"seen": 2, "phase": None}, "metadata": {"resourceVersion": "7"}}


async def test_a_first_status_is_written_whole() -> None:
    status = WidgetStatus(seen=1, conditions=(Condition(type="Ready", status="True"),))
    (asked,) = await sent(lambda c: c.of(Widget).write_status(X, status))
    assert asked.json["status"] == {"seen": 1, "conditions": [{"type": "Ready", "status": "True"}]}


async def test_a_status_that_is_so_already_is_not_written() -> None:
    before = typed({**widget("x", 7), "status": {"seen": 1}})

    async def verb(client: Client) -> None:
        assert await client.of(Widget).write_status(before, WidgetStatus(seen=1)) is before

    assert await sent(verb) == []


async def test_what_is_gone_already_is_discarded_all_the_same() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"DELETE {path_of('x')}", refusal(404, "NotFound"))
        await client.of(Widget).discard(X)
        with pytest.raises(NotFound):
            await client.of(Widget).delete(key("x"))


async def test_any_path_can_be_read() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on("GET /version", Raw(b"1.36"))
        assert await client.get_path("/version") == b"1.36"
        assert client.of(Widget) is client.of(Widget)


@pytest.mark.parametrize(
    "body",
    [b"garbage", b"[]", b'{"spec":{"size":"big"},"metadata":{"name":"x"}}', b"\xff", NESTED],
    ids=["garbage", "a list", "wrong type", "not text", "nested without end"],
)
async def test_an_object_that_does_not_fit_is_undecodable(body: bytes) -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"GET {path_of('x')}", Raw(body))
        with pytest.raises(Undecodable, match=r"widgets\.example\.dev"):
            await client.of(Widget).get(key("x"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"metadata":{"name":"x","labels":{"a":"b"}}}', ObjectMeta(name="x", labels={"a": "b"})),
        (
            b'{"metadata":{"name":"x","namespace":"n","resourceVersion":"5","labels":{"a":1}}}',
            ObjectMeta(name="x", namespace="n", resource_version="5"),
        ),
        (b'{"metadata":5}', ObjectMeta()),
        (b"garbage", ObjectMeta()),
        (b"{}", ObjectMeta()),
    ],
    ids=["all of it", "a label that is no text", "no metadata", "garbage", "nothing"],
)
def test_as_much_of_the_metadata_is_read_as_can_be(body: bytes, expected: ObjectMeta) -> None:
    assert read_metadata(body) == expected


# --- lists ---------------------------------------------------------------------------------------------------------


async def test_a_list_is_put_together_from_its_pages() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(
            f"GET {PATH}",
            listed(widget("a", 1), widget("b", 2), version=10, more="token 1"),
            listed(widget("c", 3), version=10, more="token 2"),
            listed(version=10),
        )
        page = await client.of(Widget).list(labels="x=y")
        assert [obj.metadata.name for obj in page.items] == ["a", "b", "c"]
        assert (page.resource_version, page.unread) == ("10", [])
        assert [asked.query for asked in server.asked] == [
            {"limit": "500", "labelSelector": "x=y"},
            {"limit": "500", "labelSelector": "x=y", "continue": "token 1"},
            {"limit": "500", "labelSelector": "x=y", "continue": "token 2"},
        ]


async def test_a_list_in_one_piece_names_no_limit() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"GET {Widget.kind.path('n')}", Json({"metadata": {"resourceVersion": "1"}, "items": None}))
        pages = [page async for page in client.of(Widget).pages("n", size=0)]
        assert [page.items for page in pages] == [[]]
        assert server.asked[0].query == {}


async def test_a_list_that_is_forgotten_between_its_pages_raises_expired() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"GET {PATH}", listed(version=1, more="t"), refusal(410, "Expired"))
        with pytest.raises(Expired):
            await client.of(Widget).list()


async def test_one_object_that_does_not_fit_does_not_cost_the_page() -> None:
    bad = widget("bad", 2, size="big")
    worse = widget("worse", 3)
    worse["metadata"]["labels"] = {"a": 1}
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"GET {PATH}", listed(widget("a", 1), bad, worse, widget("c", 4), version=10, more=""))
        page = await client.of(Widget).list()
        assert [obj.metadata.name for obj in page.items] == ["a", "c"]
        assert [(str(each.key), each.resource_version) for each in page.unread] == [
            ("default/bad", "2"),
            ("default/worse", "3"),
        ]
        assert "size" in page.unread[0].problem


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b'{"items": []}',
        b'{"metadata": {}, "items": 5}',
        b'{"metadata":{},"items":[{"metadata":{"name":"\xff"}}]}',
        b'{"metadata":{},"items":[' + NESTED + b"]}",
    ],
    ids=["a page", "a list", "no metadata", "no items", "not text", "nested without end"],
)
async def test_a_list_that_is_none_is_undecodable(body: bytes) -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"GET {PATH}", Raw(body))
        with pytest.raises(Undecodable, match="list of widgets"):
            await client.of(Widget).list()


# --- under a fence -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda c: c.of(Widget).patch(key("x"), {"a": 1}),
        lambda c: c.of(Widget).delete(key("x")),
        lambda c: c.of(Widget).apply(Widget(metadata=ObjectMeta(name="x"))),
        lambda c: c.raw(Widget.kind).replace({"metadata": {"name": "x"}}),
        lambda c: c.of(Widget).create(Widget(metadata=ObjectMeta(generate_name="x-"))),
        lambda c: c.of(Widget).create(Widget(spec=WidgetSpec(size=1))),
        lambda c: c.raw(Widget.kind).create({}),
    ],
    ids=["patch", "delete", "apply", "replace", "generateName", "no name", "no metadata"],
)
async def test_under_a_fence_a_write_without_a_condition_is_refused_here(write: Any) -> None:
    async with Client(Config(server="http://127.0.0.1:1")) as client:
        fenced = client.fenced(Open())
        with pytest.raises(ValueError, match="under a lease"):
            await write(fenced)
        await fenced.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda c: c.of(Widget).patch(key("x"), {"a": 1}, uid="u"),
        lambda c: c.of(Widget).delete(key("x"), resource_version="1"),
        lambda c: c.of(Widget).apply(X),
        lambda c: c.raw(Widget.kind).replace(widget("x", 1)),
        lambda c: c.of(Widget).create(Widget(metadata=ObjectMeta(name="x", namespace="default"))),
        lambda c: c.of(Widget).write_status(X, WidgetStatus(seen=1)),
    ],
    ids=["patch", "delete", "apply", "replace", "create", "status"],
)
async def test_under_a_fence_a_write_with_a_condition_goes_out(write: Any) -> None:
    async def verb(client: Client) -> None:
        fenced = client.fenced(Open())
        await write(fenced)
        await fenced.close()

    assert len(await sent(verb)) == 1


@pytest.mark.parametrize(
    ("causes", "uid", "expected"),
    [
        ([{"field": "metadata.uid", "message": "immutable"}], "u", errors.Conflict),
        ([{"field": "metadata.uid", "message": "immutable"}], "", errors.Invalid),
        ([{"field": "spec.size", "message": "too big"}], "u", errors.Invalid),
    ],
    ids=["another object", "no condition", "another field"],
)
async def test_a_uid_that_does_not_hold_is_a_conflict(causes: Any, uid: str, expected: type[ApiError]) -> None:
    async with fake_server() as server, Client(server.config) as client:
        body = {**status_body(422, "Invalid"), "details": {"causes": causes}}
        server.on(f"PATCH {path_of('x')}", Json(body, 422))
        with pytest.raises(ApiError) as caught:
            await client.of(Widget).patch(key("x"), {"a": 1}, uid=uid)
        assert type(caught.value) is expected


async def test_a_uid_is_no_condition_for_a_subresource() -> None:
    async with Client(Config(server="http://127.0.0.1:1")) as client:
        with pytest.raises(ValueError, match="not conditional by uid"):
            await client.of(Widget).patch(key("x"), {"status": {}}, uid="u", subresource="status")


async def test_a_client_without_a_fence_may_leave_names_to_the_server() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"POST {PATH}", Json(widget("x-abc", 1)))
        made: Resource = await client.of(Widget).create(Widget(metadata=ObjectMeta(generate_name="x-")))
        assert made.key == Key("default", "x-abc")
