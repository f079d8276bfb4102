"""Whatever is sent, the API server answers in time, never with a fault of its own, and a refusal changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.local.serving import malformed
from tests.unit.local.serving.fuzzing import DEFINITIONS, WIDGET, WIDGETS, Fuzzed, encoded, fuzzed

BASE = "base"
NEW = "new"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
COLLECTIONS = sorted(malformed.KINDS)
STORED = [each for each in COLLECTIONS if not each.endswith(("reviews", "bindings"))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    for made in fuzzed(tmp_path_factory.mktemp("fuzzed")):
        for path in STORED:
            obj = malformed.plain(path, BASE)
            assert made.ask("POST", path, obj).code == 201, path
        made.quiet()
        yield made


# Objects

ways = st.sampled_from(
    [
        ("POST", "", JSON),
        ("POST", "", YAML),
        ("POST", "?dryRun=All&fieldValidation=Strict", JSON),
        ("PUT", "/{name}", JSON),
        ("PUT", "/{name}/status", JSON),
        ("PUT", "/{name}/finalize", JSON),
        ("PATCH", "/{name}", MERGE),
        ("PATCH", "/{name}", STRATEGIC),
        ("PATCH", "/{name}?fieldManager=a&force=true", APPLY),
        ("PATCH", "/{name}/status?fieldManager=b", APPLY),
        ("POST", "/{name}/binding", JSON),
        ("DELETE", "/nobody", JSON),
        ("DELETE", "?labelSelector=of=nobody", JSON),
    ]
)


@given(st.data())
def test_no_object_of_a_built_in_kind_is_answered_with_a_fault_of_the_server(
    server: Fuzzed, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(COLLECTIONS), label="collection")
    obj = malformed.plain(path, NEW)
    for _ in range(data.draw(st.integers(1, 3))):
        obj = data.draw(malformed.changed(obj, malformed.whole(path)), label="object")
    for method, suffix, media in data.draw(st.lists(ways, min_size=3, max_size=5), label="ways"):
        _send(server, path, obj, method, suffix, media)


def _send(server: Fuzzed, path: str, obj: Any, method: str, suffix: str, media: str) -> None:
    base, body = malformed.name_in(path, BASE), obj
    if "{name}" in suffix:
        body = malformed.renamed(obj, base, server.version(f"{path}/{base}") if path in STORED else "")
    answer = server.ask(method, path + suffix.format(name=base), body, media=media)
    if path == DEFINITIONS:
        server.quiet()
    if answer.code not in {200, 201} or "dryRun" in suffix or path not in STORED or method == "DELETE":
        return
    if suffix.endswith("binding"):
        return
    name = answer.body["metadata"]["name"]
    server.readable(path, name)
    if name != base:
        server.remove(f"{path}/{name}")


@given(st.data())
def test_no_object_of_a_custom_kind_is_answered_with_a_fault_of_the_server(server: Fuzzed, data: st.DataObject) -> None:
    obj: Any = WIDGET
    for _ in range(data.draw(st.integers(1, 3))):
        obj = data.draw(malformed.changed(obj, WIDGET), label="object")
    options = st.sampled_from(
        [
            ("PUT", "", JSON),
            ("PUT", "/status", JSON),
            ("PUT", "/scale", JSON),
            ("PATCH", "", MERGE),
            ("PATCH", "/status", MERGE),
            ("PATCH", "/scale", MERGE),
            ("PATCH", "?fieldManager=a&force=true", APPLY),
            ("PATCH", "?fieldManager=b", APPLY),
            ("PATCH", "/status?fieldManager=c", APPLY),
        ]
    )
    for method, suffix, media in data.draw(st.lists(options, min_size=3, max_size=5), label="ways"):
        body = malformed.renamed(obj, "base", server.version(f"{WIDGETS}/base"))
        answer = server.ask(method, f"{WIDGETS}/base{suffix}", body, media=media)
        if answer.code == 200:
            server.readable(WIDGETS, "base")


# Bodies that are no objects at all

texts = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(malformed.TEXTS),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)),
        max_leaves=12,
    ).map(encoded),
)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Good bytes with a few of them changed, cut out or doubled."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 8)))
        content = content[:start] + draw(st.binary(max_size=8)) + content[end:]
    return content


GOOD = json.dumps(malformed.plain(PODS, NEW)).encode()
PROTOBUF_POD = malformed.protobuf("v1", "Pod", b"\x0a\x05\x0a\x03new\x12\x0b\x12\x09\x0a\x01a\x12\x04x:12")


@given(
    st.one_of(texts, damaged(GOOD), damaged(PROTOBUF_POD)),
    st.sampled_from([JSON, YAML, PROTOBUF, JSON_PATCH, MERGE, STRATEGIC, APPLY, "text/plain", "", ";", "a/b;c=d;;"]),
    st.lists(
        st.sampled_from(
            [
                ("POST", PODS),
                ("PUT", f"{PODS}/{BASE}"),
                ("PATCH", f"{PODS}/{BASE}?fieldManager=x"),
                ("PATCH", f"{WIDGETS}/base?fieldManager=x"),
                ("PUT", f"{WIDGETS}/base/scale"),
                ("POST", WIDGETS),
                ("DELETE", f"{PODS}/nobody"),
                ("GET", PODS),
                ("POST", f"{PODS}/{BASE}/binding"),
            ]
        ),
        min_size=2,
        max_size=4,
    ),
)
def test_no_body_is_answered_with_a_fault_of_the_server(
    server: Fuzzed, body: bytes, media: str, ways: list[tuple[str, str]]
) -> None:
    for method, path in ways:
        answer = server.ask(method, path, body, media=media)
        if answer.code == 201 and method == "POST" and "binding" not in path:
            server.remove(f"{path}/{answer.body['metadata']['name']}")


# Patches

pointers = st.one_of(
    st.lists(
        st.sampled_from(
            [
                "metadata",
                "labels",
                "a",
                "spec",
                "containers",
                "0",
                "-",
                "-1",
                "99999999999999999999",
                "",
                "~1",
                "~",
                "~2",
            ]
        ),
        max_size=5,
    ).map(lambda parts: "".join(f"/{part}" for part in parts)),
    st.text(max_size=10),
    malformed.junk,
)
operations = st.fixed_dictionaries(
    {},
    optional={
        "op": st.one_of(
            st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "", "ADD"]), malformed.junk
        ),
        "path": pointers,
        "from": pointers,
        "value": malformed.junk,
        "extra": malformed.junk,
    },
)


@given(
    st.one_of(st.lists(st.one_of(operations, malformed.junk), max_size=6), malformed.junk),
    st.sampled_from([f"{PODS}/{BASE}", f"{WIDGETS}/base", f"{WIDGETS}/base/status", f"{WIDGETS}/base/scale"]),
)
def test_no_json_patch_is_answered_with_a_fault_of_the_server(server: Fuzzed, patch: Any, path: str) -> None:
    server.ask("PATCH", path, encoded(patch), media=JSON_PATCH)
    assert server.ask("GET", path).code == 200


DIRECTIVES = (
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "$x",
    "$patch/a",
)


@given(st.data())
def test_no_strategic_merge_patch_is_answered_with_a_fault_of_the_server(server: Fuzzed, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(STORED), label="collection")
    name = malformed.name_in(path, BASE)
    patch = data.draw(malformed.changed({}, malformed.whole(path)), label="patch")
    for place in data.draw(st.lists(st.sampled_from([(), *malformed.places(patch)]), max_size=3), label="places"):
        holder = malformed.at(patch, place) if place else patch
        if isinstance(holder, dict) and holder is not patch.get("metadata"):
            value = data.draw(st.one_of(st.sampled_from(["delete", "replace", "merge", ["a"]]), malformed.junk))
            holder[data.draw(st.sampled_from(DIRECTIVES))] = value
    server.ask("PATCH", f"{path}/{name}?dryRun=All", patch, media=STRATEGIC)
