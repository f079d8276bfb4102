"""What a request to the API server does, from the socket to the store and back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from edgewright.local.serving import watches
from tests.unit.local.serving.inprocess import Api, config_map, serving

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_an_object_is_created_read_changed_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        created = await api.made(CONFIG_MAPS, config_map("a", x="1"))
        assert created["metadata"]["namespace"] == "default"
        assert created["metadata"]["managedFields"][0]["operation"] == "Update"
        read = await api("GET", f"{CONFIG_MAPS}/a")
        assert read.body == created
        created["data"]["x"] = "2"
        changed = await api("PUT", f"{CONFIG_MAPS}/a", created)
        assert (changed.code, changed.body["data"]) == (200, {"x": "2"})
        assert int(changed.body["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
        deleted = await api("DELETE", f"{CONFIG_MAPS}/a")
        assert (deleted.code, deleted.body["status"]) == (200, "Success")
        assert deleted.body["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
        assert (await api("GET", f"{CONFIG_MAPS}/a")).code == 404


async def test_an_update_that_changes_nothing_is_not_written(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        created = await api.made(CONFIG_MAPS, config_map("a", x="1"))
        again = await api("PUT", f"{CONFIG_MAPS}/a", created)
        assert again.body == created


async def test_an_update_of_an_older_state_is_a_conflict_and_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        old = await api.made(CONFIG_MAPS, config_map("a", x="1"))
        new = await api("PUT", f"{CONFIG_MAPS}/a", {**old, "data": {"x": "2"}})
        answer = await api("PUT", f"{CONFIG_MAPS}/a", {**old, "data": {"x": "3"}})
        assert (answer.code, answer.body["reason"]) == (409, "Conflict")
        assert (await api("GET", f"{CONFIG_MAPS}/a")).body == new.body


@pytest.mark.parametrize(
    ("media", "patch", "data"),
    [
        pytest.param("application/merge-patch+json", {"data": {"x": None, "y": "2"}}, {"y": "2"}, id="merge"),
        pytest.param(
            "application/json-patch+json",
            [{"op": "replace", "path": "/data/x", "value": "3"}],
            {"x": "3"},
            id="JSON patch",
        ),
        pytest.param(
            "application/strategic-merge-patch+json", {"data": {"z": "4"}}, {"x": "1", "z": "4"}, id="strategic"
        ),
        pytest.param(
            "application/apply-patch+yaml",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "5"}},
            {"x": "1", "y": "5"},
            id="apply",
        ),
    ],
)
async def test_every_kind_of_patch_changes_an_object(tmp_path: Path, media: str, patch: object, data: object) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a", x="1"))
        answer = await api("PATCH", f"{CONFIG_MAPS}/a?fieldManager=test", patch, media=media)
        assert (answer.code, answer.body["data"]) == (200, data)


async def test_an_applied_object_that_is_not_there_is_created(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        path, media = f"{CONFIG_MAPS}/a?fieldManager=me", "application/apply-patch+yaml"
        answer = await api("PATCH", path, config_map("a", x="1"), media=media)
        assert (answer.code, answer.body["metadata"]["managedFields"][0]["operation"]) == (201, "Apply")
        again = await api("PATCH", path, config_map("a", x="1"), media=media)
        assert (again.code, again.body) == (200, answer.body)
        other = await api("PATCH", f"{CONFIG_MAPS}/a?fieldManager=you", config_map("a", x="2"), media=media)
        assert (other.code, other.body["reason"]) == (409, "Conflict")
        forced = await api("PATCH", f"{CONFIG_MAPS}/a?fieldManager=you&force=true", config_map("a", x="2"), media=media)
        assert forced.body["data"] == {"x": "2"}


async def test_a_dry_run_answers_and_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        before = api.store.revision
        answer = await api("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("a", x="1"))
        assert (answer.code, api.store.revision) == (201, before)
        created = await api.made(CONFIG_MAPS, config_map("a", x="1"))
        assert (await api("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("a"))).code == 409
        created["data"] = {"x": "2"}
        assert (await api("PUT", f"{CONFIG_MAPS}/a?dryRun=All", created)).body["data"] == {"x": "2"}
        assert (await api("DELETE", f"{CONFIG_MAPS}/a?dryRun=All")).code == 200
        assert (await api("GET", f"{CONFIG_MAPS}/a")).body["data"] == {"x": "1"}


async def test_unknown_and_repeated_fields_are_warned_of_refused_or_passed_over(tmp_path: Path) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"dat":{},"data":{"x":"1","x":"2"}}'
    async with serving(tmp_path) as api:
        strict = await api("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
        assert strict.code == 400
        assert 'unknown field "dat", duplicate field "data.x"' in strict.body["message"]
        warned = await api("POST", CONFIG_MAPS, body)
        assert warned.warnings == ['299 - "unknown field \\"dat\\""', '299 - "duplicate field \\"data.x\\""']
        assert warned.body["data"] == {"x": "2"}
        await api("DELETE", f"{CONFIG_MAPS}/a")
        assert (await api("POST", f"{CONFIG_MAPS}?fieldValidation=Ignore", body)).warnings == []


async def test_yaml_is_taken_and_given(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: '1'\n"
        answer = await api("POST", CONFIG_MAPS, body, media="application/yaml", Accept="application/yaml")
        assert (answer.code, answer.headers["Content-Type"]) == (201, "application/yaml")
        assert "kind: ConfigMap" in answer.body


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/apis/nowhere.io/v1/things", 404, id="unknown group"),
        pytest.param("GET", "/api/v1/things", 404, id="unknown kind"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps/a/status", 404, id="unknown subresource"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps/a/b/c", 404, id="too deep"),
        pytest.param("GET", "/api/v1/namespaces/default/nodes", 404, id="namespace of a kind without"),
        pytest.param("GET", "/api/v1/configmaps/a", 404, id="no namespace"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps/a%2Fb", 404, id="a slash in a name"),
        pytest.param("POST", "/api/v1/configmaps", 405, id="create without namespace"),
        pytest.param("POST", "/api/v1/namespaces/default/configmaps/a", 405, id="POST on an object"),
        pytest.param("PUT", "/api/v1/namespaces/default/configmaps", 405, id="PUT on a collection"),
        pytest.param("POST", "/api/v1/namespaces/default/pods/a/log", 405, id="POST on a log"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/a/log", 404, id="log of nothing"),
        pytest.param("GET", "/api//v1", 404, id="empty part"),
        pytest.param("POST", "/version", 405, id="POST on a page"),
        pytest.param("GET", "/nothing", 404, id="no page"),
        pytest.param("GET", "/openapi/v4", 404, id="no document"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps?limit=x", 400, id="limit"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps?labelSelector=(", 400, id="selector"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps?fieldSelector=data.x%3D1", 400, id="field"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps?continue=x", 400, id="token"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps?resourceVersion=99999", 504, id="future"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps?resourceVersion=x", 400, id="version"),
        pytest.param("GET", "/api/v1/namespaces/default/configmaps?resourceVersionMatch=Exact", 422, id="match"),
        pytest.param("DELETE", "/api/v1/namespaces/default", 403, id="a namespace that stays"),
    ],
)
async def test_what_is_not_there_or_cannot_be_is_refused(tmp_path: Path, method: str, path: str, code: int) -> None:
    async with serving(tmp_path) as api:
        before = api.store.revision
        answer = await api(method, path, {} if method in {"POST", "PUT"} else None)
        assert (answer.code, api.store.revision) == (code, before), answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    ],
)
async def test_a_kind_that_would_do_nothing_here_is_not_served(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path) as api:
        for method, body in (("GET", None), ("POST", {"metadata": {"name": "a"}})):
            answer = await api(method, path, body)
            assert (answer.code, answer.body) == (404, "404 page not found\n"), "as for every group that is not served"
        groups = [each["name"] for each in (await api("GET", "/apis")).body["groups"]]
        assert path.split("/")[2] not in groups, "so that kubectl says that it has no matches for the kind"


@pytest.mark.parametrize(
    ("body", "media", "code"),
    [
        pytest.param(b"{", "application/json", 400, id="broken JSON"),
        pytest.param(b"[]", "application/json", 400, id="a list"),
        pytest.param(b'{"kind":"Pod","apiVersion":"v1"}', "application/json", 400, id="another kind"),
        pytest.param(b'{"kind":"ConfigMap","apiVersion":"v2"}', "application/json", 400, id="another version"),
        pytest.param(b'{"kind":1}', "application/json", 400, id="a kind that is a number"),
        pytest.param(b'{"metadata":1}', "application/json", 400, id="metadata that is a number"),
        pytest.param(b'{"metadata":{"name":"a","namespace":"b"}}', "application/json", 400, id="another namespace"),
        pytest.param(b'{"metadata":{"name":"A"}}', "application/json", 422, id="a bad name"),
        pytest.param(b"{}", "application/json", 422, id="no name"),
        pytest.param(b'{"metadata":{"name":"a","resourceVersion":"1"}}', "application/json", 400, id="a version"),
        pytest.param(b"a: [", "application/yaml", 400, id="broken YAML"),
        pytest.param(b"x", "text/plain", 415, id="plain text"),
        pytest.param(b"[" * 100_000, "application/json", 400, id="deep"),
        pytest.param(b" " * (3 * 1024 * 1024 + 1), "application/json", 413, id="too large"),
        pytest.param(b"k8s\x00\xff", "application/vnd.kubernetes.protobuf", 400, id="broken protobuf"),
    ],
)
async def test_a_bad_body_is_refused_and_changes_nothing(tmp_path: Path, body: bytes, media: str, code: int) -> None:
    async with serving(tmp_path) as api:
        before = api.store.revision
        answer = await api("POST", CONFIG_MAPS, body, media=media)
        assert (answer.code, api.store.revision) == (code, before), answer.body


async def test_who_shows_no_credentials_gets_403_but_may_ask_whether_the_server_is_ready(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        async with api.session.get(f"{api.url}/api", ssl=False) as answer:
            why = 'forbidden: User "system:anonymous" cannot get path "/api"'
            assert (answer.status, (await answer.json())["message"]) == (403, why)
        bad = {"Authorization": "Bearer none-of-ours"}
        async with api.session.get(f"{api.url}/api", ssl=False, headers=bad) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")
        async with api.session.get(f"{api.url}/readyz", ssl=False) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        async with api.session.get(f"{api.url}/livez/none", ssl=False) as answer:
            assert answer.status == 404


async def test_a_list_comes_in_pages_of_one_revision(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for name in "abcde":
            await api.made(CONFIG_MAPS, config_map(name))
        first = (await api("GET", f"{CONFIG_MAPS}?limit=2")).body
        assert [each["metadata"]["name"] for each in first["items"]] == ["a", "b"]
        assert first["metadata"]["remainingItemCount"] == 3
        await api("DELETE", f"{CONFIG_MAPS}/c")
        token = first["metadata"]["continue"]
        rest = (await api("GET", f"{CONFIG_MAPS}?limit=5&continue={token}")).body
        assert [each["metadata"]["name"] for each in rest["items"]] == ["c", "d", "e"]
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        await api.store.compact(api.store.revision)
        await api.made(CONFIG_MAPS, config_map("f"))
        await api.store.compact(api.store.revision)
        late = await api("GET", f"{CONFIG_MAPS}?limit=5&continue={token}")
        assert (late.code, late.body["reason"]) == (410, "Expired")
        fresh = (await api("GET", f"{CONFIG_MAPS}?limit=5&continue={late.body['metadata']['continue']}")).body
        assert [each["metadata"]["name"] for each in fresh["items"]] == ["d", "e", "f"]


async def test_a_list_can_be_of_a_selection_an_older_revision_or_a_shape(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        first = await api.made(CONFIG_MAPS, config_map("a", {"app": "x"}))
        await api.made(CONFIG_MAPS, config_map("b", {"app": "y"}))

        async def names(query: str) -> list[str]:
            return [each["metadata"]["name"] for each in (await api("GET", f"{CONFIG_MAPS}?{query}")).body["items"]]

        assert await names("labelSelector=app%3Dy") == ["b"]
        assert await names("fieldSelector=metadata.name%3Da") == ["a"]
        assert await names("labelSelector=app&limit=1") == ["a"]
        version = first["metadata"]["resourceVersion"]
        assert await names(f"resourceVersion={version}&resourceVersionMatch=Exact") == ["a"]
        assert await names(f"resourceVersion={version}&resourceVersionMatch=NotOlderThan") == ["a", "b"]
        table = (await api("GET", CONFIG_MAPS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")).body
        assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
        partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        assert (await api("GET", CONFIG_MAPS, Accept=partial)).body["kind"] == "PartialObjectMetadataList"
        one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        assert (await api("GET", f"{CONFIG_MAPS}/a", Accept=one)).body["kind"] == "PartialObjectMetadata"
        table = (await api("GET", f"{CONFIG_MAPS}/a", Accept="application/json;as=Table;v=v1;g=meta.k8s.io")).body
        assert table["rows"][0]["cells"][0] == "a"
        assert (await api("GET", CONFIG_MAPS, Accept="text/html")).code == 406
        assert (await api("DELETE", f"{CONFIG_MAPS}?labelSelector=app%3Dy")).body["kind"] == "ConfigMapList"
        assert await names("") == ["a"]


async def test_a_finalizer_holds_a_deleted_object_until_it_is_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        body = config_map("a")
        body["metadata"]["finalizers"] = ["example.com/x"]
        await api.made(CONFIG_MAPS, body)
        marked = await api("DELETE", f"{CONFIG_MAPS}/a")
        assert (marked.code, "deletionTimestamp" in marked.body["metadata"]) == (200, True)
        assert (await api("DELETE", f"{CONFIG_MAPS}/a")).body == marked.body
        patch = {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}
        media = "application/merge-patch+json"
        assert (await api("PATCH", f"{CONFIG_MAPS}/a", patch, media=media)).code == 422
        assert (await api("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, media=media)).code == 200
        assert (await api("GET", f"{CONFIG_MAPS}/a")).code == 404


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param({"preconditions": {"uid": "x"}}, 409, id="another uid"),
        pytest.param({"preconditions": {"resourceVersion": "1"}}, 409, id="another version"),
        pytest.param({"propagationPolicy": "Never"}, 422, id="policy"),
        pytest.param({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, id="both policies"),
        pytest.param({"gracePeriodSeconds": "x"}, 400, id="grace"),
        pytest.param({"kind": "Pod"}, 400, id="kind"),
        pytest.param({"dryRun": ["Some"]}, 422, id="dry run"),
        pytest.param([], 400, id="a list"),
        pytest.param({"propagationPolicy": "Orphan"}, 200, id="orphan"),
        pytest.param({"orphanDependents": False}, 200, id="background"),
    ],
)
async def test_the_options_of_a_deletion(tmp_path: Path, options: object, code: int) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        answer = await api("DELETE", f"{CONFIG_MAPS}/a", options)
        assert answer.code == code, answer.body
        there = await api("GET", f"{CONFIG_MAPS}/a")
        if options == {"propagationPolicy": "Orphan"}:
            assert there.body["metadata"]["finalizers"] == ["orphan"]
        else:
            assert there.code == (404 if code == 200 else 200)


async def test_generated_names_are_new_names(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        body = {"metadata": {"generateName": "job-"}}
        made = {(await api.made(CONFIG_MAPS, body))["metadata"]["name"] for _ in range(5)}
        assert len(made) == 5
        assert all(name.startswith("job-") and len(name) == 9 for name in made)


async def test_nothing_is_created_in_a_namespace_that_is_missing_or_going(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        assert (await api("POST", "/api/v1/namespaces/none/configmaps", config_map("a"))).code == 404
        await api.made("/api/v1/namespaces", {"metadata": {"name": "going"}})
        assert (await api("DELETE", "/api/v1/namespaces/going")).body["status"]["phase"] == "Terminating"
        answer = await api("POST", "/api/v1/namespaces/going/configmaps", config_map("a"))
        assert (answer.code, answer.body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
        space = (await api("GET", "/api/v1/namespaces/going")).body
        space["spec"] = {}
        assert (await api("PUT", "/api/v1/namespaces/going/finalize", space)).code == 200
        assert (await api("GET", "/api/v1/namespaces/going")).code == 404


async def test_a_pod_is_bound_ends_graciously_and_keeps_its_status_apart(tmp_path: Path) -> None:
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    async with serving(tmp_path) as api:
        assert (await api("POST", pods, pod)).body["reason"] == "Forbidden"
        await api.made("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        await api.made(pods, pod)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
        bound = await api("POST", f"{pods}/p/binding", binding)
        assert (bound.code, bound.body["status"]) == (201, "Success")
        assert (await api("POST", f"{pods}/p/binding", binding)).code == 409
        assert (await api("POST", f"{pods}/p/binding", [])).code == 400
        status = await api(
            "PATCH",
            f"{pods}/p/status",
            {"status": {"phase": "Running"}, "spec": {"nodeName": "m"}},
            media="application/merge-patch+json",
        )
        assert (status.body["status"]["phase"], status.body["spec"]["nodeName"]) == ("Running", "n")
        marked = (await api("DELETE", f"{pods}/p")).body["metadata"]
        assert marked["deletionGracePeriodSeconds"] == 30
        sooner = (await api("DELETE", f"{pods}/p", {"gracePeriodSeconds": 5})).body["metadata"]
        assert sooner["deletionGracePeriodSeconds"] == 5
        longer = (await api("DELETE", f"{pods}/p", {"gracePeriodSeconds": 60})).body["metadata"]
        assert longer["deletionGracePeriodSeconds"] == 5
        assert (await api("DELETE", f"{pods}/p", {"gracePeriodSeconds": 0})).body["kind"] == "Pod"
        assert (await api("GET", f"{pods}/p")).code == 404
        await api.made(pods, pod)
        assert (await api("POST", "/api/v1/namespaces/default/bindings", binding)).code == 201
        assert (await api("POST", "/api/v1/namespaces/default/bindings", {"metadata": {}})).code == 400


async def test_reviews_are_answered_and_not_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        before = api.store.revision
        review = await api("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert review.body["status"]["userInfo"]["username"] == "system:test"
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        assert (await api("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, Accept=table)).code == 406
        assert api.store.revision == before


async def events_of(api: Api, path: str, count: int) -> list[tuple[str, str]]:
    """The first events of a watch: type and name."""
    found = []
    async with asyncio.timeout(180), api.session.get(api.url + path, ssl=api.tls) as response:
        async for line in response.content:
            event = json.loads(line)
            about = event["object"].get("metadata") or {}
            found.append((event["type"], about.get("name") or str(event["object"].get("code", ""))))
            if len(found) == count:
                break
    return found


async def test_a_watch_begins_with_what_is_there_and_goes_on_with_changes(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        watch = asyncio.create_task(events_of(api, f"{CONFIG_MAPS}?watch=1", 3))
        await asyncio.sleep(0)
        await api.made(CONFIG_MAPS, config_map("b"))
        await api("DELETE", f"{CONFIG_MAPS}/a")
        assert await watch == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_a_watch_of_a_selection_sees_objects_come_and_go(tmp_path: Path) -> None:
    media = "application/merge-patch+json"
    async with serving(tmp_path) as api:
        start = api.store.revision
        await api.made(CONFIG_MAPS, config_map("a", {"app": "x"}))
        await api("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"app": "y"}}}, media=media)
        await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}, media=media)
        await api("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"app": "x"}}}, media=media)
        await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "w"}}, media=media)
        await api("DELETE", f"{CONFIG_MAPS}/a")
        path = f"{CONFIG_MAPS}?watch=1&labelSelector=app%3Dx&resourceVersion={start}"
        assert await events_of(api, path, 5) == [
            ("ADDED", "a"),
            ("DELETED", "a"),
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("DELETED", "a"),
        ]


async def test_a_streamed_list_ends_with_a_bookmark(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        path = f"{CONFIG_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        assert await events_of(api, f"{path}&allowWatchBookmarks=true", 2) == [("ADDED", "a"), ("BOOKMARK", "")]
        assert (await api("GET", f"{CONFIG_MAPS}?watch=1&sendInitialEvents=true")).code == 422
        assert (await api("GET", f"{CONFIG_MAPS}?sendInitialEvents=true")).code == 422


async def test_a_watch_ends_in_time_with_a_bookmark_and_one_from_a_lost_history_says_410(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "_LAST_BOOKMARK_SECONDS", 0.9)
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        path = f"{CONFIG_MAPS}?watch=1&resourceVersion={api.store.revision}&timeoutSeconds=1&allowWatchBookmarks=1"
        assert await events_of(api, path, 9) == [("BOOKMARK", "")]
        await api.made(CONFIG_MAPS, config_map("b"))
        await api.store.compact(api.store.revision)
        assert await events_of(api, f"{CONFIG_MAPS}?watch=1&resourceVersion=1", 2) == [("ERROR", "410")]
        assert (await api("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=999999")).code == 504
        assert (await api("GET", f"{CONFIG_MAPS}?watch=1&resourceVersionMatch=Exact")).code == 422


async def test_a_watch_can_show_tables_and_metadata(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        await api.made(CONFIG_MAPS, config_map("b"))
        for accept, kind in (
            ("application/json;as=Table;v=v1;g=meta.k8s.io", "Table"),
            ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "PartialObjectMetadata"),
        ):
            async with api.session.get(
                f"{api.url}{CONFIG_MAPS}?watch=1", ssl=api.tls, headers={"Accept": accept}
            ) as said:
                events = [json.loads(await said.content.readline()) for _ in range(2)]
            assert [each["object"]["kind"] for each in events] == [kind, kind]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/version",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/coordination.k8s.io",
        "/apis/coordination.k8s.io/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openapi/v3/apis/events.k8s.io/v1",
    ],
)
async def test_the_server_says_what_it_is_and_serves(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path) as api:
        answer = await api("GET", path)
        assert answer.code == 200
        assert (await api("GET", path)).body == answer.body
        assert (await api("GET", path, Accept="text/html")).code == 406


async def test_aggregated_discovery_is_known_by_its_etag(tmp_path: Path) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    async with serving(tmp_path) as api:
        answer = await api("GET", "/apis", Accept=accept)
        assert answer.body["kind"] == "APIGroupDiscoveryList"
        again = await api("GET", "/apis", Accept=accept, If_None_Match=answer.headers["ETag"])
        assert again.code == 304


async def test_half_a_character_becomes_the_sign_for_what_cannot_be_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        body = b'{"metadata":{"name":"a"},"data":{"half":"\\ud800","bytes":"\xff\xc3"}}'
        answer = await api("POST", CONFIG_MAPS, body)
        assert (answer.code, answer.body["data"]) == (201, {"half": "\ufffd", "bytes": "\ufffd\ufffd"})
