"""Patches and selectors of the embedded API server do what the real one does: both get the same, and must agree."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

import pytest

from edgewright.local.errors import Refusal
from edgewright.local.patch import json_patch, merge_patch
from edgewright.local.selectors import parse, parse_fields
from tests.cluster.raw import config_map
from tests.harness import ControlPlane, RequestError

JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
FINALIZERS = ["example.com/a", "example.com/b"]


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


PATCHES: list[tuple[str, Any]] = [
    (JSON, []),
    (JSON, {}),
    (JSON, "x"),
    (JSON, ["x"]),
    (JSON, [None]),
    (JSON, [{}]),
    (JSON, [{"op": 1}]),
    (JSON, [{"op": "add"}]),
    (JSON, [op("jump", "/data/a")]),
    (JSON, [op("add", "/data/z", value="1")]),
    (JSON, [op("add", "data/z", value="1")]),
    (JSON, [op("add", "/absent/z", value="1")]),
    (JSON, [op("add", "", value={})]),
    (JSON, [op("add", "/metadata/labels/l~1m", value="1")]),
    (JSON, [op("add", "/metadata/finalizers/-", value="example.com/c")]),
    (JSON, [op("add", "/metadata/finalizers/0", value="example.com/c")]),
    (JSON, [op("add", "/metadata/finalizers/-1", value="example.com/c")]),
    (JSON, [op("add", "/metadata/finalizers/9", value="example.com/c")]),
    (JSON, [op("add", "/metadata/finalizers/x", value="example.com/c")]),
    (JSON, [op("remove", "/metadata/finalizers/0")]),
    (JSON, [op("remove", "/metadata/finalizers/-1")]),
    (JSON, [op("remove", "/metadata/finalizers/2")]),
    (JSON, [op("remove", "/data/a")]),
    (JSON, [op("remove", "/data/absent")]),
    (JSON, [op("replace", "/data/a", value="2")]),
    (JSON, [op("replace", "/data/absent", value="2")]),
    (JSON, [op("replace", "/metadata/finalizers/1", value="example.com/c")]),
    (JSON, [op("replace", "/metadata/finalizers/-", value="example.com/c")]),
    (JSON, [op("replace", "", value=1)]),
    (JSON, [op("move", "/data/z", **{"from": "/data/a"})]),
    (JSON, [op("move", "/data/z", **{"from": "/data/absent"})]),
    (JSON, [op("move", "/data/z")]),
    (JSON, [op("move", "/data/a/b", **{"from": "/data"})]),
    (JSON, [op("copy", "/data/z", **{"from": "/data/a"})]),
    (JSON, [op("copy", "/metadata/finalizers/9", **{"from": "/data/a"})]),
    (JSON, [op("test", "/data/a", value="1"), op("remove", "/data/a")]),
    (JSON, [op("test", "/data/a", value="2"), op("remove", "/data/a")]),
    (JSON, [op("test", "/data/a", value=1)]),
    (JSON, [op("test", "/data/a")]),
    (JSON, [op("test", "/data/absent", value=None)]),
    (JSON, [op("test", "/data/absent", value="x")]),
    (JSON, [op("test", "/metadata/finalizers", value=FINALIZERS)]),
    (JSON, [op("test", "/data/a", value="1")] * 10_001),
    (MERGE, {}),
    (MERGE, []),
    (MERGE, "x"),
    (MERGE, {"data": {"a": None}}),
    (MERGE, {"data": {"a": "2", "z": "3"}}),
    (MERGE, {"data": None}),
    (MERGE, {"metadata": {"labels": {"l": None, "m": "1"}, "annotations": {"x": "y", "z": None}}}),
    (MERGE, {"metadata": {"finalizers": ["example.com/c"]}}),
    (MERGE, {"metadata": {"finalizers": None}}),
    (MERGE, {"binaryData": {"x": "eA==", "y": None}}),
]


def essence(raw: dict[str, Any]) -> dict[str, Any]:
    """What a person wrote; the server's own notes are left out, and so is what is empty."""
    metadata = {name: raw["metadata"].get(name) for name in ("name", "labels", "annotations", "finalizers")}
    found = metadata | {name: raw.get(name) for name in ("kind", "data", "binaryData")}
    return {name: value for name, value in found.items() if value}


def test_every_patch_ends_as_on_the_real_server(cluster: ControlPlane, namespace: str) -> None:
    collection = f"/api/v1/namespaces/{namespace}/configmaps"
    body = config_map(namespace, "one", a="1", b="2")
    body["metadata"] |= {"labels": {"l": "1"}, "finalizers": FINALIZERS}
    stored = cluster.request("POST", collection, body)
    different = []
    for content_type, patch in PATCHES:
        try:
            answer = cluster.request("PATCH", f"{collection}/one?dryRun=All", patch, content_type=content_type)
            real: Any = essence(answer)
        except RequestError as refused:
            status = json.loads(refused.answer)
            real = (status["code"], status["reason"])
        try:
            ours: Any = essence((json_patch if content_type == JSON else merge_patch)(stored, patch))
        except Refusal as refused:
            ours = (refused.code, refused.reason)
        if real != ours:
            different.append((content_type, str(patch)[:200], real, ours))
    cluster.request("PATCH", f"{collection}/one", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert different == []


SELECTORS = [
    *("a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b)", "a", "!a", "n>4", "n<4", "e=", "e in ()", "a in (,b)"),
    *("example.com/a=x", " a = b , n ", "a=b,", ",a", "a b", "!a=b", "a in x", "a in (", "a in (b", "a in (b,"),
    *("a=(", "!", "a>x", "-a", "a/b/c", "/b", "b/", "A_/b", "a=-b", "a in (-b,-c)", "a" * 64, "a=" + "b" * 64),
]
FIELD_SELECTORS = ["metadata.name=one", "metadata.name!=one", "spec.x=1", "metadata.name", r"metadata.name=a\b"]


@pytest.mark.parametrize("parameter", ["labelSelector", "fieldSelector"])
def test_every_selector_chooses_or_is_refused_as_on_the_real_server(
    cluster: ControlPlane, namespace: str, parameter: str
) -> None:
    collection = f"/api/v1/namespaces/{namespace}/configmaps"
    for name, labels in {
        "one": {"a": "b", "n": "5"},
        "two": {"e": "", "n": "3"},
        "three": {"example.com/a": "x"},
    }.items():
        body = config_map(namespace, name)
        body["metadata"]["labels"] = labels
        cluster.request("POST", collection, body)
    items = cluster.request("GET", collection)["items"]
    different = []
    for text in SELECTORS if parameter == "labelSelector" else FIELD_SELECTORS:
        try:
            answer = cluster.request("GET", f"{collection}?{parameter}={urllib.parse.quote(text)}")
            real: Any = [item["metadata"]["name"] for item in answer["items"]]
        except RequestError as refused:
            real = json.loads(refused.answer)["message"]
        try:
            if parameter == "labelSelector":
                chosen = [item for item in items if parse(text).matches(item["metadata"].get("labels", {}))]
            else:
                names = {"metadata.name": lambda raw: str(raw["metadata"]["name"])}
                chosen = [item for item in items if parse_fields(text, names, metadata_only=True).matches(item)]
            ours: Any = [item["metadata"]["name"] for item in chosen]
        except Refusal as refused:
            ours = refused.message
        if real != ours:
            different.append((text, real, ours))
    assert different == []
