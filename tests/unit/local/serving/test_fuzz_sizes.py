"""Huge, deep and endlessly split inputs: each is answered soon, whatever the answer is, and the server stays of use."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgewright.local.size_limits import MAX_VALUES
from tests.unit.local.serving.fuzzing import DEFINITIONS, WIDGET, WIDGETS, Fuzzed, fuzzed

pytestmark = pytest.mark.untraced

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
LARGEST = 3 * 1024 * 1024
SOON = 6.0
"""Seconds of work, for what takes one or two; how long others keep the machine busy does not count."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    yield from fuzzed(tmp_path_factory.mktemp("sizes"))


def filled(make: Callable[[int], Any]) -> bytes:
    """A body with a good part of the values that are taken."""
    each = count(make(2)) - count(make(1))
    return json.dumps(make(MAX_VALUES // 3 // each), separators=(",", ":")).encode()


def count(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(count(child) for child in children)


def named(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "huge"}, **fields}


def widget(**spec: Any) -> dict[str, Any]:
    return {**WIDGET, "metadata": {"name": "huge"}, "spec": {"size": 3, **spec}}


def bodies() -> list[Any]:
    def case(name: str, method: str, path: str, media: str, body: bytes) -> Any:
        return pytest.param(method, path, media, body, id=name)

    json_media, apply = "application/json", "application/apply-patch+yaml"
    merge, steps = "application/merge-patch+json", "application/json-patch+json"
    labels = {"metadata": {"name": "huge", "labels": {f"l{number}": "x" for number in range(40_000)}}}
    container = {"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}]}
    return [
        case("data", "POST", MAPS, json_media, filled(lambda n: named(data={f"k{i:06}": "" for i in range(n)}))),
        case("unknown fields", "POST", MAPS, json_media, filled(lambda n: named(**{f"k{i:06}": 1 for i in range(n)}))),
        case("labels", "POST", MAPS, json_media, json.dumps(labels).encode()),
        case(
            "bad labels",
            "POST",
            MAPS,
            json_media,
            filled(lambda n: {"metadata": {"name": "huge", "labels": {f"/{i:06}": "/" for i in range(n)}}}),
        ),
        case(
            "finalizers",
            "POST",
            MAPS,
            json_media,
            filled(lambda n: {"metadata": {"name": "huge", "finalizers": [f"a/{i:06}" for i in range(n)]}}),
        ),
        case(
            "owners",
            "POST",
            MAPS,
            json_media,
            filled(lambda n: {"metadata": {"name": "huge", "ownerReferences": [{}] * n}}),
        ),
        case(
            "managed fields",
            "POST",
            MAPS,
            json_media,
            filled(
                lambda n: {
                    "metadata": {
                        "name": "huge",
                        "managedFields": [
                            {
                                "manager": f"m{i}",
                                "operation": "Update",
                                "apiVersion": "v1",
                                "fieldsType": "FieldsV1",
                                "fieldsV1": {"f:data": {}},
                            }
                            for i in range(n)
                        ],
                    }
                }
            ),
        ),
        case("containers", "POST", PODS, json_media, filled(lambda n: named(spec={"containers": [{}] * n}))),
        case(
            "variables",
            "POST",
            PODS,
            json_media,
            filled(lambda n: named(spec={"containers": [{**container, "env": [{"name": "A"}] * n}]})),
        ),
        case(
            "volumes",
            "POST",
            PODS,
            json_media,
            filled(
                lambda n: named(spec={"containers": [container], "volumes": [{"name": f"v{i:06}"} for i in range(n)]})
            ),
        ),
        case(
            "endpoints",
            "POST",
            SLICES,
            json_media,
            filled(lambda n: named(addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"]}] * n)),
        ),
        case(
            "rows by key",
            "POST",
            WIDGETS,
            json_media,
            filled(lambda n: widget(rows=[{"k": f"{i:06}"} for i in range(n)])),
        ),
        case("rows of one key", "POST", WIDGETS, json_media, filled(lambda n: widget(rows=[{"k": "a"}] * n))),
        case("anything", "POST", WIDGETS, json_media, filled(lambda n: widget(any=[[]] * n))),
        case(
            "unknown in spec",
            "POST",
            WIDGETS,
            json_media,
            filled(lambda n: widget(**{f"u{i:06}": 1 for i in range(n)})),
        ),
        case(
            "wrong in spec",
            "POST",
            WIDGETS,
            json_media,
            filled(lambda n: widget(labels={f"u{i:06}": 1 for i in range(n)})),
        ),
        case(
            "applied rows",
            "PATCH",
            f"{WIDGETS}/huge?fieldManager=a",
            apply,
            filled(lambda n: widget(rows=[{"k": f"{i:06}"} for i in range(n)])),
        ),
        case(
            "applied data",
            "PATCH",
            f"{MAPS}/huge?fieldManager=a",
            apply,
            filled(
                lambda n: {"apiVersion": "v1", "kind": "ConfigMap", **named(data={f"k{i:06}": "" for i in range(n)})}
            ),
        ),
        case(
            "merged",
            "PATCH",
            f"{WIDGETS}/base",
            merge,
            filled(lambda n: {"spec": {f"u{i:06}": None for i in range(n)}}),
        ),
        case(
            "operations",
            "PATCH",
            f"{WIDGETS}/base",
            steps,
            filled(lambda n: [{"op": "test", "path": "/spec/size", "value": 3}] * n),
        ),
        case(
            "copies",
            "PATCH",
            f"{WIDGETS}/base",
            steps,
            json.dumps([{"op": "copy", "from": "/spec", "path": f"/spec/any/{i}"} for i in range(9000)]).encode(),
        ),
        case(
            "copies of copies",
            "PATCH",
            f"{WIDGETS}/base",
            steps,
            json.dumps(
                [
                    {"op": "add", "path": "/spec/any", "value": {}},
                    *({"op": "copy", "from": "/spec", "path": "/spec/any/a"} for _ in range(60)),
                ]
            ).encode(),
        ),
        case("brackets", "POST", MAPS, json_media, b"[" * (LARGEST - 10)),
        case("braces", "POST", MAPS, json_media, b'{"a":' * (LARGEST // 5 - 10)),
        case(
            "levels",
            "POST",
            WIDGETS,
            json_media,
            json.dumps(widget()).encode().replace(b'"size": 3', b'"any": ' + b"[" * 900 + b"]" * 900),
        ),
        case("a text", "POST", MAPS, json_media, json.dumps(named(data={"a": "x" * (LARGEST - 1000)})).encode()),
        case("escapes", "POST", MAPS, json_media, b'{"data":{"a":"' + b"\\u0041" * (LARGEST // 6 - 100) + b'"}}'),
        case("digits", "POST", MAPS, json_media, b'{"metadata":{"generation":' + b"9" * (LARGEST - 100) + b"}}"),
        case("spaces", "POST", MAPS, json_media, b" " * (LARGEST - 2) + b"{}"),
        case("YAML in flow style", "POST", MAPS, "application/yaml", b"{data: {" + b"a: b," * 60_000 + b"}}"),
        case(
            "YAML with many anchors",
            "POST",
            MAPS,
            "application/yaml",
            b"".join(b"k%d: &a%d x\n" % (i, i) for i in range(40_000)),
        ),
        case("YAML indented", "POST", MAPS, "application/yaml", b"".join(b" " * i + b"a:\n" for i in range(1500))),
        case("YAML of dashes", "POST", MAPS, "application/yaml", b"- " * 100_000),
        case(
            "protobuf",
            "POST",
            MAPS,
            "application/vnd.kubernetes.protobuf",
            b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\xf8\xff\x7f" + b"\x12\x00" * 1_000_000,
        ),
        case(
            "rules",
            "POST",
            DEFINITIONS,
            json_media,
            json.dumps(definition([{"rule": f"self.a{i} == 1"} for i in range(3000)])).encode(),
        ),
        case(
            "a rule",
            "POST",
            DEFINITIONS,
            json_media,
            json.dumps(definition([{"rule": " && ".join(["true"] * 100_000)}])).encode(),
        ),
        case(
            "properties",
            "POST",
            DEFINITIONS,
            json_media,
            json.dumps(definition([], **{f"p{i:05}": {"type": "string"} for i in range(50_000)})).encode(),
        ),
    ]


def definition(rules: list[Any], **properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "metadata": {"name": "huges.sizes.example.com"},
        "spec": {
            "group": "sizes.example.com",
            "scope": "Namespaced",
            "names": {"plural": "huges", "kind": "Huge"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.mark.parametrize(("method", "path", "media", "body"), bodies())
def test_a_huge_body_is_answered_soon(server: Fuzzed, method: str, path: str, media: str, body: bytes) -> None:
    began = time.process_time()
    answer = server.ask(method, path, body, media=media)
    took = time.process_time() - began
    assert took < SOON
    if answer.code in {200, 201} and answer.body["metadata"]["name"] == "huge":
        made = f"{path.partition('/huge')[0]}/huge"
        assert server.ask("GET", made).code == 200
        server.remove(made)
    elif answer.code == 201:
        server.gone(answer.body["metadata"]["name"])


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
def test_a_body_of_very_many_values_is_refused_soon(server: Fuzzed, media: str) -> None:
    body = json.dumps(named(data={f"k{number:06}": "" for number in range(180_000)})).encode()
    began = time.process_time()
    answer = server.ask("POST", MAPS, body, media=media)
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert time.process_time() - began < SOON


@pytest.mark.parametrize("size", [LARGEST + 1, 2 * LARGEST], ids=["one byte", "twice"])
def test_a_body_beyond_the_limit_is_refused(server: Fuzzed, size: int) -> None:
    answer = server.ask("POST", MAPS, b"x" * size)
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("labelSelector=" + ",".join(f"a{i}" for i in range(8000)), id="label selector"),
        pytest.param("labelSelector=a+in+(" + ",".join(f"a{i}" for i in range(8000)) + ")", id="set of labels"),
        pytest.param("fieldSelector=" + ",".join(["metadata.name=a"] * 3500), id="field selector"),
        pytest.param("fieldSelector=" + "%5C" * 20_000, id="backslashes"),
        pytest.param("labelSelector=" + "(" * 60_000, id="parentheses"),
        pytest.param("labelSelector=" + "+" * 60_000, id="spaces"),
        pytest.param("&".join(["limit=1"] * 8000), id="parameters"),
        pytest.param("resourceVersion=" + "0" * 60_000, id="zeros"),
        pytest.param("limit=" + "1" * 60_000, id="limit"),
        pytest.param("timeout=" + "1" * 60_000, id="timeout"),
        pytest.param("continue=" + "A" * 60_000, id="token"),
        pytest.param("fieldManager=" + "a" * 60_000, id="manager"),
    ],
)
def test_a_long_query_is_answered_soon(server: Fuzzed, query: str) -> None:
    began = time.process_time()
    server.ask("GET", f"{MAPS}?{query}")
    server.ask("POST", f"{WIDGETS}?{query}", b"{}")
    assert time.process_time() - began < SOON
