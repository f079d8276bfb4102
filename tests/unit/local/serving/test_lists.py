"""Lists in pages, of selections, of older states, and the old paths of watches."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.serving.inprocess import Api, config_map, namespace, serving

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
EVERYWHERE = "/api/v1/configmaps"


def token(version: Any = "meta.k8s.io/v1", revision: Any = -1, start: Any = "/a\0") -> str:
    """A page token as a client should never make one."""
    text = json.dumps({"v": version, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


async def names(api: Api, path: str) -> list[str]:
    """The names in a list, page by page, each with its namespace where there are several."""
    found, following = [], ""
    while True:
        answer = await api("GET", path + following)
        assert answer.code == 200, answer.body
        found += [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in answer.body["items"]]
        after = answer.body["metadata"].get("continue")
        if not after:
            return found
        following = f"&continue={after}"


async def test_pages_of_all_namespaces_have_every_object_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made("/api/v1/namespaces", namespace("other"))
        for space in ("default", "other"):
            for name in "abc":
                await api.made(f"/api/v1/namespaces/{space}/configmaps", config_map(name, {"on": name}))
        whole = [f"{space}/{name}" for space in ("default", "other") for name in "abc"]
        for limit in (1, 2, 4, 6, 10):
            assert await names(api, f"{EVERYWHERE}?limit={limit}") == whole
        assert await names(api, f"{EVERYWHERE}?limit=1&labelSelector=on%20in%20(a,c)") == [
            "default/a",
            "default/c",
            "other/a",
            "other/c",
        ]
        assert await names(api, f"{EVERYWHERE}?fieldSelector=metadata.namespace%3Dother,metadata.name!%3Db") == [
            "other/a",
            "other/c",
        ]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param("%21", id="no base64"),
        pytest.param(base64.urlsafe_b64encode(b"{").decode(), id="no JSON"),
        pytest.param(base64.urlsafe_b64encode(b"[1]").decode(), id="a list"),
        pytest.param(token(version="meta.k8s.io/v9"), id="another version"),
        pytest.param(token(revision=0), id="no state"),
        pytest.param(token(revision="1"), id="a state that is text"),
        pytest.param(token(start=""), id="no start"),
        pytest.param(token(start=["a"]), id="a start that is a list"),
        pytest.param(token(start="a/b/c\0"), id="a start too deep"),
        pytest.param(token(start="../a\0"), id="a start outside"),
        pytest.param(token(start="other/a\0"), id="a start in another namespace"),
        pytest.param(token() + "&resourceVersion=1", id="a version next to it"),
    ],
)
async def test_a_page_token_that_the_server_did_not_make_is_refused(tmp_path: Path, given: str) -> None:
    async with serving(tmp_path) as api:
        answer = await api("GET", f"{CONFIG_MAPS}?limit=1&continue={given}")
        assert (answer.code, answer.body["reason"]) == (400, "BadRequest"), answer.body


async def test_a_state_that_is_forgotten_is_expired_and_one_that_is_not_there_yet_is_waited_for_by_the_client(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as api:
        first = (await api.made(CONFIG_MAPS, config_map("a")))["metadata"]["resourceVersion"]
        await api.made(CONFIG_MAPS, config_map("b"))
        await api.store.compact(api.store.revision)
        old = await api("GET", f"{CONFIG_MAPS}?resourceVersion={first}&resourceVersionMatch=Exact")
        assert (old.code, old.body["reason"]) == (410, "Expired")
        late = await api("GET", f"{CONFIG_MAPS}?limit=1&continue={token(revision=99_999)}")
        assert (late.code, late.body["reason"]) == (504, "Timeout")
        assert late.headers["Retry-After"] == "1"
        object_too_new = await api("GET", f"{CONFIG_MAPS}/a?resourceVersion=99999")
        assert (object_too_new.code, object_too_new.body["reason"]) == (504, "Timeout")


async def test_the_paths_by_which_clients_once_watched_still_do(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        await api.made(CONFIG_MAPS, config_map("b"))
        for path, seen in (
            ("/api/v1/watch/configmaps", ["a", "b"]),
            ("/api/v1/watch/namespaces/default/configmaps", ["a", "b"]),
            ("/api/v1/watch/namespaces/default/configmaps/b", ["b"]),
        ):
            async with api.session.get(api.url + path, ssl=api.tls) as response:
                assert response.status == 200, path
                events = [json.loads(await response.content.readline()) for _ in seen]
            assert [each["object"]["metadata"]["name"] for each in events] == seen
        assert (await api("POST", "/api/v1/watch/namespaces/default/configmaps", config_map("c"))).code == 405
