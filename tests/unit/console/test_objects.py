"""The verbs on custom resources, over HTTP, on an API server of ours: FlashJobs, and a kind of somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.console.consoles import IN_DEFAULT, JOBS, WIDGETS, consoles, job, widget

MERGE = "application/merge-patch+json"


async def test_an_object_is_applied_read_listed_patched_and_deleted(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        made = await portal("PUT", f"{JOBS}/job", job())
        assert made.status == 201, made.body
        assert made.body["spec"]["version"] == "1.1.0"
        assert made.headers["ETag"] == f'"{made.body["metadata"]["resourceVersion"]}"'
        assert "managedFields" not in made.body["metadata"]
        again = await portal("PUT", f"{JOBS}/job", job())
        assert (again.status, again.headers["ETag"]) == (200, made.headers["ETag"])
        read = await portal("GET", f"{JOBS}/job")
        assert (read.status, read.body) == (200, again.body)
        for path in (JOBS, "/api/v1/flashjobs", "/api/v1/flashjobs?namespace=default"):
            listed = await portal("GET", path)
            assert [each["metadata"]["name"] for each in listed.body["items"]] == ["job"], path
            assert "managedFields" not in listed.body["items"][0]["metadata"]
        changed = await portal("PATCH", f"{JOBS}/job", {"spec": {"version": "2"}})
        assert (changed.status, changed.body["spec"]["version"]) == (200, "2")
        assert (await portal("DELETE", f"{JOBS}/job")).status == 204
        assert (await portal("GET", f"{JOBS}/job")).status == 404


async def test_a_kind_of_somebody_else_goes_by_plural_and_group(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        made = await portal("POST", IN_DEFAULT, widget(color="red"))
        assert made.status == 201, made.body
        assert made.headers["Location"] == f"{IN_DEFAULT}/w"
        listed = await portal("GET", f"/api/v1/{WIDGETS}")
        assert [each["metadata"]["name"] for each in listed.body["items"]] == ["w"]


async def test_what_the_body_leaves_out_and_the_path_says_is_filled_in(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        made = await portal("PUT", f"{IN_DEFAULT}/bare", {"spec": {"size": 4}})
        assert (made.status, made.body["kind"], made.body["metadata"]["name"]) == (201, "Widget", "bare")


async def test_the_version_of_the_body_counts(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        older = {**widget(), "apiVersion": "probe.example.io/v1beta1"}
        made = await portal("PUT", f"{IN_DEFAULT}/w", older)
        assert (made.status, made.body["apiVersion"]) == (201, "probe.example.io/v1beta1")
        assert "deprecated" in made.headers["Warning"]


@pytest.mark.parametrize(
    ("change", "pointers"),
    [
        ({"spec": {"size": 0}}, ["#/spec/size"]),
        ({"spec": {"size": "big"}}, ["#/spec/size"]),
        ({"spec": {"size": 3, "color": "green"}}, ["#/spec/color"]),
        ({"spec": {"size": 3, "colour": "red"}}, ["#/spec/colour"]),
        ({"metadata": {"name": "other"}}, ["#/metadata/name"]),
        ({"metadata": {"name": "w", "namespace": "other"}}, ["#/metadata/namespace"]),
        ({"metadata": 7}, ["#/metadata"]),
        ({"kind": "Gadget"}, ["#/kind"]),
        ({"apiVersion": "other.io/v1"}, ["#/apiVersion"]),
    ],
)
async def test_a_field_that_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], pointers: list[str]) -> None:
    async with consoles(tmp_path) as portal:
        body = {**widget(), **change}
        applied = await portal("PUT", f"{IN_DEFAULT}/w", body)
        assert (applied.status, applied.pointers) == (422, pointers), applied.body
        assert applied.headers["Content-Type"] == "application/problem+json"
        assert applied.body["type"] == "/api/v1/problems/invalid"
        if change != {"metadata": {"name": "other"}}:
            created = await portal("POST", IN_DEFAULT, body)
            assert (created.status, created.pointers) == (422, pointers), created.body
        assert (await portal("GET", f"{IN_DEFAULT}/w")).status == 404


async def test_an_object_without_a_name_is_refused_before_the_server_is_asked(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        answer = await portal("POST", IN_DEFAULT, {"spec": {"size": 1}})
        assert (answer.status, answer.pointers) == (422, ["#/metadata/name"])
        named = await portal("POST", IN_DEFAULT, {"metadata": {"generateName": "w-"}, "spec": {"size": 1}})
        assert named.status == 201
        assert named.headers["Location"].startswith(f"{IN_DEFAULT}/w-")


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_dry_run_changes_nothing(tmp_path: Path, method: str) -> None:
    async with consoles(tmp_path) as portal:
        path = IN_DEFAULT if method == "POST" else f"{IN_DEFAULT}/w"
        assert (await portal(method, f"{path}?dryRun=All", widget())).status == 201
        assert (await portal("GET", f"{IN_DEFAULT}/w")).status == 404


async def test_a_dry_run_of_a_patch_and_a_deletion_changes_nothing(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        made = await portal("PUT", f"{IN_DEFAULT}/w", widget())
        tried = await portal("PATCH", f"{IN_DEFAULT}/w?dryRun=All", {"spec": {"size": 9}})
        assert (tried.status, tried.body["spec"]["size"]) == (200, 9)
        assert (await portal("DELETE", f"{IN_DEFAULT}/w?dryRun=All")).status == 204
        assert (await portal("GET", f"{IN_DEFAULT}/w")).body == made.body


async def test_a_stale_etag_is_412_and_the_present_one_is_taken(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        path = f"{IN_DEFAULT}/w"
        first = (await portal("PUT", path, widget())).headers["ETag"]
        second = (await portal("PATCH", path, {"spec": {"size": 4}}, If_Match=first)).headers["ETag"]
        assert second != first
        jsonpatch = [{"op": "replace", "path": "/spec/size", "value": 7}]
        for method, body, media in (
            ("PUT", widget(), "application/json"),
            ("PATCH", {"spec": {"size": 5}}, MERGE),
            ("PATCH", jsonpatch, "application/json-patch+json"),
            ("DELETE", None, "application/json"),
        ):
            stale = await portal(method, path, body, If_Match=first, Content_Type=media)
            assert (stale.status, stale.body["type"]) == (412, "/api/v1/problems/precondition-failed"), stale.body
        assert (await portal("GET", path)).headers["ETag"] == second
        third = await portal("PATCH", path, jsonpatch, If_Match=second, Content_Type="application/json-patch+json")
        assert (third.status, third.body["spec"]["size"]) == (200, 7)
        assert (await portal("DELETE", path, If_Match=third.headers["ETag"])).status == 204


async def test_any_etag_means_that_the_object_must_be_there(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        path = f"{IN_DEFAULT}/w"
        assert (await portal("PUT", path, widget(), If_Match="*")).status == 412
        await portal("PUT", path, widget())
        assert (await portal("PUT", path, widget(size=5), If_Match="*")).status == 200
        assert (await portal("PATCH", path, {}, If_Match="*")).status == 200
        assert (await portal("PATCH", path, {}, If_Match='W/"1"')).status == 412
        assert (await portal("PATCH", path, {}, If_Match='"1", "2"')).status == 400
        assert (await portal("PATCH", path, {"metadata": 1}, If_Match='"1"')).pointers == ["#/metadata"]
        assert (await portal("DELETE", path, If_Match="*")).status == 204


async def test_what_a_caller_knows_already_is_not_sent_again(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        made = await portal("PUT", f"{IN_DEFAULT}/w", widget())
        assert (await portal("GET", f"{IN_DEFAULT}/w", If_None_Match=made.headers["ETag"])).status == 304
        assert (await portal("GET", f"{IN_DEFAULT}/w", If_None_Match='"1"')).status == 200


async def test_a_field_of_another_manager_is_a_conflict_unless_it_is_taken_over(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        path = f"{IN_DEFAULT}/w"
        await portal("PUT", f"{path}?fieldManager=portal-a", widget(size=1))
        refused = await portal("PUT", f"{path}?fieldManager=portal-b", widget(size=2))
        assert (refused.status, refused.pointers) == (409, ["#/spec/size"])
        assert 'conflict with "portal-a"' in refused.body["detail"]
        taken = await portal("PUT", f"{path}?fieldManager=portal-b&force=true", widget(size=2))
        assert (taken.status, taken.body["spec"]["size"]) == (200, 2)


async def test_an_application_applies_over_what_it_has_patched_itself(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        path = f"{IN_DEFAULT}/w"
        await portal("PUT", path, widget(size=1, color="red"))
        await portal("PATCH", path, {"spec": {"size": 2}})
        applied = await portal("PUT", path, widget(size=3, color="red"))
        assert (applied.status, applied.body["spec"]["size"]) == (200, 3)
        await portal("PATCH", path, {"spec": {"size": 4}})
        await portal("PATCH", f"{path}?fieldManager=other", {"spec": {"color": "blue"}})
        refused = await portal("PUT", path, widget(size=3, color="red"))
        assert (refused.status, sorted(refused.pointers)) == (409, ["#/spec/color", "#/spec/size"])


async def test_a_name_that_is_taken_is_a_conflict(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await portal("POST", IN_DEFAULT, widget())
        answer = await portal("POST", IN_DEFAULT, widget())
        assert (answer.status, answer.body["type"]) == (409, "/api/v1/problems/already-exists")


async def test_an_object_that_finalizers_hold_is_on_its_way(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        held = widget()
        held["metadata"]["finalizers"] = ["example.io/hold"]
        await portal("PUT", f"{IN_DEFAULT}/w", held)
        answer = await portal("DELETE", f"{IN_DEFAULT}/w?propagationPolicy=Background")
        assert answer.status == 202
        assert answer.body["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("GET", "/api/v1/pods", "there is no kind pods here"),
        ("GET", "/api/v1/deployments.apps", "there is no kind deployments.apps here"),
        ("GET", "/api/v1/secrets", "there is no kind secrets here"),
        ("GET", "/api/v1/roles.rbac.authorization.k8s.io", "there is no kind roles.rbac.authorization.k8s.io here"),
        ("GET", "/api/v1/widgets", "did you mean widgets.probe.example.io?"),
        ("GET", "/api/v1/nothing.example.io", "no kind nothing of the group example.io is installed"),
        ("GET", "/api/v1/nothing.probe.example.io", "no kind nothing of the group probe.example.io is installed"),
        ("GET", "/api/v1/flashjobs/a", "flashjobs are in namespaces"),
        ("GET", "/api/v1/namespaces/default/devices/a", "devices are not in namespaces"),
        ("GET", f"{JOBS}/..%2f..%2fsecrets", "the path has no name"),
        ("GET", "/api/v1/namespaces/..%2f/flashjobs", "the path has no namespace"),
        ("GET", "/api/v1/flashjobs?namespace=a/b", "there is no namespace 'a/b'"),
        ("GET", "/api/v2/flashjobs", "there is nothing under this path"),
    ],
)
async def test_what_is_not_served_says_what_could_be_meant(tmp_path: Path, method: str, path: str, said: str) -> None:
    async with consoles(tmp_path) as portal:
        answer = await portal(method, path)
        assert answer.status == 404, answer.body
        assert said in answer.body["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "status", "said"),
    [
        ("PUT", f"{JOBS}/a", b"{", "application/json", 400, "the body is not JSON"),
        ("PUT", f"{JOBS}/a", b"[]", "application/json", 422, "the body must be an object"),
        ("PATCH", f"{JOBS}/a", b"[]", MERGE, 422, "the body must be an object"),
        ("PATCH", f"{JOBS}/a", b"{}", "application/json-patch+json", 422, "must be a list of operations"),
        ("PUT", f"{JOBS}/a", b"a: b", "application/yaml", 415, "Content-Type must be one of application/json"),
        ("PUT", f"{JOBS}/a", b"{}" + b" " * (1 << 20), "application/json", 413, "more than 1048576 bytes"),
        ("GET", f"{JOBS}?limit=0", None, "", 400, "limit must be a number from 1 to 500"),
        ("GET", f"{JOBS}?colour=red", None, "", 400, "there is no parameter 'colour'"),
        ("GET", f"{JOBS}?limit=1&limit=2", None, "", 400, "limit is given twice"),
        ("GET", f"{JOBS}/a?token=secret", None, "", 400, "there is no parameter 'token': this operation has none"),
        ("PUT", f"{JOBS}/a?dryRun=Some", b"{}", "application/json", 400, "dryRun must be one of All"),
        ("PUT", f"{JOBS}/a?force=maybe", b"{}", "application/json", 400, "force must be true or false"),
        ("PUT", f"{JOBS}/a?fieldManager={'x' * 200}", b"{}", "application/json", 400, "fieldManager is too long"),
        ("GET", "/api/v1/devices?namespace=default", None, "", 400, "devices are not in namespaces"),
        ("GET", "/api/v1/stream", None, "", 400, "the parameter of is missing"),
        ("GET", "/api/v1/stream?of=devices&namespace=default", None, "", 400, "devices are not in namespaces"),
        ("POST", f"{JOBS}/a", b"{}", "application/json", 405, "does not have that method"),
    ],
)
async def test_a_request_that_cannot_be_read_says_why(
    tmp_path: Path, method: str, path: str, body: bytes | None, media: str, status: int, said: str
) -> None:
    async with consoles(tmp_path) as portal:
        answer = await portal(method, path, body, **({"Content_Type": media} if media else {}))
        assert (answer.status, said in answer.body["detail"]) == (status, True), answer.body
        assert "secret" not in answer.body["detail"]
