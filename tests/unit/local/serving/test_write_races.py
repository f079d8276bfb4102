"""Writes that meet each other, and the ways in which one can be too late."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from edgewright.local import names as object_names
from edgewright.local import store as stores
from tests.unit.local.serving.inprocess import config_map, namespace, serving

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SERVICES = "/api/v1/namespaces/default/services"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


async def test_patches_at_the_same_time_all_take_effect(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        wanted = {f"k{number}": "x" for number in range(12)}
        answers = await asyncio.gather(
            *(api("PATCH", f"{CONFIG_MAPS}/a", {"data": {key: "x"}}, media=MERGE) for key in wanted)
        )
        assert Counter(each.code for each in answers) == {200: 12}
        assert (await api("GET", f"{CONFIG_MAPS}/a")).body["data"] == wanted


async def test_of_updates_of_the_same_state_one_wins_and_the_others_are_conflicts(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        made = await api.made(CONFIG_MAPS, config_map("a"))
        answers = await asyncio.gather(
            *(api("PUT", f"{CONFIG_MAPS}/a", {**made, "data": {"n": str(number)}}) for number in range(6))
        )
        assert Counter(each.code for each in answers) == {200: 1, 409: 5}
        (winner,) = (each.body for each in answers if each.code == 200)
        assert (await api("GET", f"{CONFIG_MAPS}/a")).body == winner


async def test_of_creations_of_one_name_one_wins(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        answers = await asyncio.gather(*(api("POST", CONFIG_MAPS, config_map("a", n=str(n))) for n in range(6)))
        assert Counter((each.code, each.body.get("reason")) for each in answers) == {
            (201, None): 1,
            (409, "AlreadyExists"): 5,
        }


async def test_what_is_applied_by_several_at_once_is_made_once_and_has_all_their_fields(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        answers = await asyncio.gather(
            *(
                api("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m{n}", config_map("a", None, **{f"k{n}": "x"}), media=APPLY)
                for n in range(6)
            )
        )
        assert Counter(each.code for each in answers) == {201: 1, 200: 5}
        found = (await api("GET", f"{CONFIG_MAPS}/a")).body
        assert sorted(found["data"]) == [f"k{n}" for n in range(6)]
        assert sorted(each["manager"] for each in found["metadata"]["managedFields"]) == [f"m{n}" for n in range(6)]


async def test_of_deletions_at_the_same_time_one_finds_the_object(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        answers = await asyncio.gather(*(api("DELETE", f"{CONFIG_MAPS}/a") for _ in range(4)))
        assert Counter(each.code for each in answers) == {200: 1, 404: 3}


@pytest.mark.parametrize("verb", ["PATCH", "apply", "DELETE"])
async def test_a_write_that_is_always_overtaken_gives_up_with_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    async with serving(tmp_path) as api:
        made = await api.made(CONFIG_MAPS, config_map("a"))

        async def overtaken(*_: Any) -> Any:
            raise stores.Changed("a")

        monkeypatch.setattr(api.store, "update", overtaken)
        monkeypatch.setattr(api.store, "delete", overtaken)
        path, media = f"{CONFIG_MAPS}/a?fieldManager=me", APPLY if verb == "apply" else MERGE
        method, body = ("DELETE", None) if verb == "DELETE" else ("PATCH", config_map("a", x="1"))
        answer = await api(method, path, body, media=media)
        assert (answer.code, answer.body["reason"]) == (409, "Conflict")
        assert (await api("GET", f"{CONFIG_MAPS}/a")).body == made


@pytest.mark.parametrize(("method", "path"), [("PATCH", "/a"), ("DELETE", "/a"), ("PUT", "/a")])
async def test_a_write_of_what_goes_meanwhile_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))

        async def gone(*_: Any) -> Any:
            raise stores.NotThere("a")

        monkeypatch.setattr(api.store, "update", gone)
        monkeypatch.setattr(api.store, "delete", gone)
        body = None if method == "DELETE" else config_map("a", x="1")
        answer = await api(method, CONFIG_MAPS + path, body, media=MERGE if method == "PATCH" else "application/json")
        assert (answer.code, answer.body["reason"]) == (404, "NotFound")


async def test_a_store_that_fails_is_an_error_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as api:
        made = await api.made(CONFIG_MAPS, config_map("a"))

        async def failing(*_: Any) -> Any:
            raise stores.StoreError("the disk is full")

        monkeypatch.setattr(api.store, "create", failing)
        monkeypatch.setattr(api.store, "update", failing)
        for answer in (
            await api("POST", CONFIG_MAPS, config_map("b")),
            await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"x": "1"}}, media=MERGE),
        ):
            assert (answer.code, answer.body["reason"]) == (500, "InternalError")
            assert "the disk is full" in answer.body["message"]
        assert (await api("GET", f"{CONFIG_MAPS}/a")).body == made


async def test_an_address_that_was_given_to_a_service_is_free_again_when_the_service_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.96.0.50", "ports": [{"port": 80}]}}
    async with serving(tmp_path) as api:
        create = api.store.create

        async def failing(*_: Any) -> Any:
            raise stores.StoreError("no")

        monkeypatch.setattr(api.store, "create", failing)
        assert (await api("POST", SERVICES, service)).code == 500
        monkeypatch.setattr(api.store, "create", create)
        assert (await api("POST", f"{SERVICES}?dryRun=All", service)).code == 201
        assert (await api("POST", SERVICES, service)).code == 201
        assert (await api("POST", SERVICES, {**service, "metadata": {"name": "t"}})).code == 422


async def test_a_name_that_is_taken_is_generated_again_and_at_last_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("job-taken"))
        names = iter(["job-taken", "job-taken", "job-free"])
        monkeypatch.setattr(object_names, "generated", lambda prefix: next(names))
        body = {"metadata": {"generateName": "job-"}}
        assert (await api.made(CONFIG_MAPS, body))["metadata"]["name"] == "job-free"
        monkeypatch.setattr(object_names, "generated", lambda prefix: "job-taken")
        answer = await api("POST", CONFIG_MAPS, body)
        assert (answer.code, answer.body["reason"]) == (409, "AlreadyExists")


async def test_a_put_makes_an_object_of_a_kind_that_may_be_made_so_in_a_namespace_that_is_there(tmp_path: Path) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    async with serving(tmp_path) as api:
        assert (await api("PUT", f"{LEASES}/l", lease)).code == 201
        elsewhere = LEASES.replace("default", "nowhere")
        assert (await api("PUT", f"{elsewhere}/l", lease)).code == 404
        unknown = await api("PUT", f"{CONFIG_MAPS}/a", config_map("a"))
        assert (unknown.code, unknown.body["reason"]) == (404, "NotFound")


async def test_a_collection_is_deleted_though_some_of_it_goes_by_itself(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for name in "abc":
            await api.made(CONFIG_MAPS, config_map(name))
        answers = await asyncio.gather(api("DELETE", CONFIG_MAPS), api("DELETE", CONFIG_MAPS))
        assert [each.code for each in answers] == [200, 200]
        assert (await api("GET", CONFIG_MAPS)).body["items"] == []


async def test_a_collection_with_what_may_not_go_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made("/api/v1/namespaces", namespace("kube-system"))
        answer = await api("DELETE", f"{CONFIG_MAPS}", {"preconditions": {"uid": "x"}})
        assert answer.code == 200  # there is nothing to look at
        await api.made(CONFIG_MAPS, config_map("a"))
        answer = await api("DELETE", f"{CONFIG_MAPS}", {"preconditions": {"uid": "x"}})
        assert (answer.code, answer.body["reason"]) == (409, "Conflict")


@pytest.mark.parametrize(
    ("about", "code"),
    [
        pytest.param({}, 400, id="no name"),
        pytest.param({"name": "b"}, 400, id="another name"),
        pytest.param({"name": "a", "uid": "x"}, 409, id="another object"),
        pytest.param({"name": "a", "resourceVersion": "x"}, 400, id="a version that is none"),
        pytest.param({"name": "a", "namespace": "b"}, 400, id="another namespace"),
        pytest.param({"name": "a"}, 200, id="any state"),
    ],
)
async def test_an_update_must_be_of_the_object_of_its_path(tmp_path: Path, about: dict[str, str], code: int) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        answer = await api("PUT", f"{CONFIG_MAPS}/a", {"metadata": about, "data": {"x": "1"}})
        assert answer.code == code, answer.body
        assert ("data" in (await api("GET", f"{CONFIG_MAPS}/a")).body) is (code == 200)


async def test_a_write_that_fails_in_the_middle_holds_nothing(tmp_path: Path) -> None:
    services = "/api/v1/namespaces/default/services"

    def service(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"ports": [{"port": 1}], "clusterIP": "10.96.0.50", **spec}}

    async with serving(tmp_path) as api:
        refused = await api("POST", services, service("a", type="NodePort", ports=[{"port": 1, "nodePort": 80}]))
        assert (refused.code, "provided port is not in the valid range" in refused.body["message"]) == (422, True)
        assert (await api("POST", f"{services}?dryRun=All", service("b"))).code == 201
        assert (await api("POST", services, service("c"))).code == 201
        assert (await api("POST", services, service("d"))).code == 422
