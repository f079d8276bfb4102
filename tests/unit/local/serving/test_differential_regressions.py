"""Details of requests in which the differential suite found this server to differ from the real one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.serving.inprocess import Api, config_map, namespace, serving

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
MERGE = "application/merge-patch+json"
UID = "11111111-2222-3333-4444-555555555555"


def named(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {**named(name), "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def events(api: Api, path: str, count: int) -> list[dict[str, Any]]:
    async with api.session.get(api.url + path, ssl=api.tls) as response:
        assert response.status == 200
        return [json.loads(await response.content.readline()) for _ in range(count)]


async def test_a_path_may_say_itself_that_it_is_watched(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(MAPS, config_map("a"))
        await api.made(MAPS, config_map("b"))
        old = "/api/v1/watch/namespaces/default/configmaps"
        assert [each["object"]["metadata"]["name"] for each in await events(api, old, 2)] == ["a", "b"]
        assert [each["object"]["metadata"]["name"] for each in await events(api, f"{old}/b", 1)] == ["b"]
        assert (await api("POST", old, {})).code == 405


@pytest.mark.parametrize("path", ["/version", "/readyz", "/livez", "/apis", "/api/v1", "/none-has-this"])
async def test_a_timeout_that_is_none_is_refused_on_every_path(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path) as api:
        assert (await api("GET", f"{path}?timeout=soon")).code == 400


async def test_what_runs_long_reads_no_timeout(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(MAPS, config_map("a"))
        assert len(await events(api, f"{MAPS}?watch=true&timeout=soon", 1)) == 1


@pytest.mark.parametrize(
    ("accept", "path", "words"),
    [
        ("text/html", f"{MAPS}/a", "406: Not Acceptable\n\nAvailable representations: application/json"),
        ("application/*", MAPS, "application/json;stream=watch"),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            f"{MAPS}/a",
            "is not a list (*core.ConfigMap)",
        ),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", MAPS, "is a list (*core.ConfigMapList)"),
        ("application/yaml", f"{MAPS}?watch=true", "application/json;stream=watch"),
    ],
    ids=["no format", "no format of a list", "an object as a list", "a list as an object", "a watch as YAML"],
)
async def test_what_cannot_be_shown_so_is_not_acceptable(tmp_path: Path, accept: str, path: str, words: str) -> None:
    async with serving(tmp_path) as api:
        await api.made(MAPS, config_map("a"))
        answer = await api("GET", path, Accept=accept)
        assert answer.code == 406
        assert words in (answer.body if isinstance(answer.body, str) else answer.body["message"])


async def test_a_refusal_is_written_as_the_client_wants_its_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        answer = await api("GET", f"{MAPS}/none", Accept="application/yaml")
        assert (answer.code, answer.headers["Content-Type"]) == (404, "application/yaml")
        assert "reason: NotFound" in answer.body


async def test_a_refusal_also_warns_of_what_was_found_before(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        answer = await api("POST", MAPS, {**config_map("a"), "data": {"a b": "c"}, "colour": "red"})
        assert (answer.code, answer.warnings) == (422, ['299 - "unknown field \\"colour\\""'])


async def test_a_name_whose_object_is_going_is_taken_for_now(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(MAPS, named("a", finalizers=["example.com/hold"]))
        await api("DELETE", f"{MAPS}/a")
        answer = await api("POST", MAPS, named("a"))
        assert (answer.code, answer.body["message"]) == (
            409,
            'object is being deleted: configmaps "a" already exists',
        )


async def test_a_change_that_lets_a_deleted_object_go_is_answered_and_not_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(SECRETS, named("a", finalizers=["example.com/hold"]))
        going = (await api("DELETE", f"{SECRETS}/a")).body["metadata"]
        last = (await api("PATCH", f"{SECRETS}/a", {"metadata": {"finalizers": None}}, media=MERGE)).body["metadata"]
        assert "finalizers" not in last
        assert last["resourceVersion"] == going["resourceVersion"]
        (event,) = await events(api, f"{SECRETS}?watch=true&resourceVersion={going['resourceVersion']}", 1)
        assert (event["type"], event["object"]["metadata"]["finalizers"]) == ("DELETED", ["example.com/hold"])


async def test_who_watches_a_pod_sees_its_time_end_before_it_is_gone(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made("/api/v1/namespaces/default/serviceaccounts", named("default"))
        made = await api.made(PODS, pod("a", nodeName="n", automountServiceAccountToken=False))
        await api("DELETE", f"{PODS}/a?gracePeriodSeconds=5")
        await api("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
        version = made["metadata"]["resourceVersion"]
        seen = await events(api, f"{PODS}?watch=true&resourceVersion={version}", 3)
        assert [each["type"] for each in seen] == ["MODIFIED", "MODIFIED", "DELETED"]
        assert [each["object"]["metadata"]["deletionGracePeriodSeconds"] for each in seen] == [5, 0, 0]


async def test_a_namespace_that_is_deleted_is_given_no_period(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        made = await api.made("/api/v1/namespaces", namespace("a"))
        path = "/api/v1/namespaces/a"
        refused = await api("DELETE", path, {"preconditions": {"uid": "other"}})
        assert refused.code == 409
        assert f"UID in precondition: other, UID in object meta: {made['metadata']['uid']}" in refused.body["message"]
        answer = await api("DELETE", path)
        assert "deletionTimestamp" in answer.body["metadata"]
        assert "deletionGracePeriodSeconds" not in answer.body["metadata"]


async def test_a_service_that_is_deleted_is_shown_as_it_was(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        path = "/api/v1/namespaces/default/services"
        await api.made(path, {**named("a"), "spec": {"ports": [{"port": 80}]}})
        assert "deletionTimestamp" not in (await api("DELETE", f"{path}/a")).body["metadata"]


async def test_an_update_that_makes_an_object_takes_a_version_and_no_uid(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        refused = await api("PUT", f"{LEASES}/a", named("a", uid=UID))
        assert refused.code == 409
        assert "Key: /registry/leases/default/a, ResourceVersion: 0, AdditionalErrorMsg" in refused.body["message"]
        assert (await api("PUT", f"{LEASES}/a", named("a", resourceVersion="5"))).code == 201


async def test_an_empty_list_of_managed_fields_forgets_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        made = await api.made(MAPS, config_map("a", x="1"))
        made["metadata"]["managedFields"] = []
        assert "managedFields" not in (await api("PUT", f"{MAPS}/a", made)).body["metadata"]


async def test_an_empty_list_in_a_slice_is_somebodys_and_stored_as_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        made = await api.made(SLICES, {**named("a"), "addressType": "IPv4", "endpoints": []})
        assert made["endpoints"] is None
        assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:addressType": {}, "f:endpoints": {}}


async def test_a_review_says_whose_its_fields_are(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
        answer = await api("POST", path, body, User_Agent="me/1")
        assert [each["manager"] for each in answer.body["metadata"]["managedFields"]] == ["me"]


async def test_a_page_of_a_selection_says_there_is_more_wherever_anything_comes(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for name, label in (("a", "x"), ("b", "y")):
            await api.made(MAPS, named(name, labels={"l": label}))
        first = (await api("GET", f"{MAPS}?limit=1&labelSelector=l%3Dx")).body["metadata"]
        assert first["continue"]
        rest = (await api("GET", f"{MAPS}?limit=1&labelSelector=l%3Dx&continue={first['continue']}")).body
        assert (rest["items"], "continue" in rest["metadata"]) == ([], False)


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({"runtimeClassName": "none"}, 403, 'pod rejected: RuntimeClass "none" not found'),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, 422, "ephemeral.volumeClaimTemplate: Required value"),
    ],
    ids=["a runtime class", "an ephemeral volume without a claim"],
)
async def test_pods_that_are_refused(tmp_path: Path, spec: dict[str, Any], code: int, words: str) -> None:
    async with serving(tmp_path) as api:
        await api.made("/api/v1/namespaces/default/serviceaccounts", named("default"))
        answer = await api("POST", PODS, pod("a", **spec))
        assert answer.code == code
        assert words in answer.body["message"]


async def test_a_patch_whose_result_is_no_object_of_the_kind_is_invalid(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(MAPS, config_map("a", x="1"))
        merged = await api("PATCH", f"{MAPS}/a", {"data": "text"}, media=MERGE)
        strategic = "application/strategic-merge-patch+json"
        joined = await api("PATCH", f"{MAPS}/a", {"data": [1]}, media=strategic)
        assert (merged.code, joined.code) == (422, 422)
        assert "cannot unmarshal string into Go struct field ConfigMap.data" in merged.body["message"]
        assert joined.body["details"]["causes"][0]["field"] == "patch"


async def test_groups_are_told_for_any_method_and_versions_that_are_not_there_are_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        answers = await asyncio.gather(
            api("POST", "/apis/coordination.k8s.io", {}),
            api("GET", "/apis/coordination.k8s.io/v9"),
            api("GET", "/api/v9"),
            api("GET", "/apis/none.example.com/v1"),
        )
        assert [each.code for each in answers] == [200, 404, 404, 404]
        assert [isinstance(each.body, dict) for each in answers] == [True, True, True, False]
