"""Objects as tables: of a scale, in a watch with its bookmarks, and what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.custom.crd_controller import Definitions
from edgewright.local.documents import wire
from edgewright.runtime.clock import SystemClock
from tests.harness.waiting import wait_until_async
from tests.unit.local.serving.inprocess import Api, config_map, serving
from tests.unit.runtime.fakeserver import running

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
GADGETS = "/apis/example.io/v1/namespaces/default/gadgets"
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@asynccontextmanager
async def with_a_gadget(directory: Path) -> AsyncIterator[Api]:
    async with serving(directory) as api, running(Definitions(api.store, api.kinds, clock=SystemClock()).run()):
        await api.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        await wait_until_async(
            lambda: api.kinds.find("example.io", "v1", "gadgets") is not None, what="gadgets are served"
        )
        body = {"apiVersion": "example.io/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"size": 3}}
        await api.made(GADGETS, body)
        yield api


async def test_a_scale_has_a_table_of_its_own(tmp_path: Path) -> None:
    async with with_a_gadget(tmp_path) as api:
        table = (await api("GET", f"{GADGETS}/a/scale", Accept=TABLE)).body
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
        assert table["rows"][0]["cells"][:3] == ["a", 3, 0]
        scaled = await api(
            "PATCH",
            f"{GADGETS}/a/scale",
            {"spec": {"replicas": 5}},
            media="application/merge-patch+json",
            Accept=TABLE,
        )
        assert scaled.body["rows"][0]["cells"][:3] == ["a", 5, 0]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{CONFIG_MAPS}/a", "415: Unsupported Media Type"),
        (
            f"{GADGETS}/a",
            (
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            ),
        ),
    ],
    ids=["built-in", "custom"],
)
async def test_a_patch_of_a_kind_that_is_not_taken_is_refused(tmp_path: Path, path: str, message: str) -> None:
    async with with_a_gadget(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        answer = await api("PATCH", path, {}, media="application/nonsense")
        assert (answer.code, answer.body["reason"], answer.body["message"]) == (415, "UnsupportedMediaType", message)


async def test_a_table_says_what_may_be_included_in_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        answer = await api("GET", f"{CONFIG_MAPS}?includeObject=Nonsense", Accept=TABLE)
        assert answer.code == 400
        assert answer.body["message"] == (
            'Unable to convert to Table as requested: includeObject: Invalid value: "Nonsense": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )


async def test_a_bookmark_in_a_watch_of_tables_is_a_table(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        path = (
            f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true"
            "&resourceVersionMatch=NotOlderThan&includeObject=None"
        )
        async with api.session.get(api.url + path, ssl=api.tls, headers={"Accept": TABLE}) as response:
            events = [json.loads(line) for line in (await response.read()).splitlines()]
        assert [each["type"] for each in events[:2]] == ["ADDED", "BOOKMARK"]
        added, bookmark = (each["object"] for each in events[:2])
        assert (added["kind"], bookmark["kind"]) == ("Table", "Table")
        assert (bool(added["columnDefinitions"]), bookmark["columnDefinitions"]) == (True, None)
        about = bookmark["rows"][0]["object"]["metadata"]
        assert about["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert about["resourceVersion"] == bookmark["metadata"]["resourceVersion"] == str(api.store.revision)


async def test_the_old_document_is_there_as_protobuf_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        media = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        for _ in range(2):
            headers = {"Accept": media}
            async with api.session.get(f"{api.url}/openapi/v2", ssl=api.tls, headers=headers) as answer:
                assert (answer.status, answer.content_type) == (200, wire.MEDIA)
                assert (await answer.read()).startswith(b"\n\x032.0\x12\x15\n\nKubernetes\x12\x07v1.36.3B")
        assert (await api("GET", "/openapi/v2", Accept=f"application/json,{media}")).body["swagger"] == "2.0"
