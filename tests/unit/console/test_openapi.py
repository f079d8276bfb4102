"""The description of the API: whole, in itself consistent, and for every kind that is installed.

There is no validator of OpenAPI in this environment: what is checked here is what generators of clients trip over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewright.console import OPERATIONS, openapi, schemas
from edgewright.console.kinds import OURS, Served, is_custom, name_of
from edgewright.console.problems import SORTS
from edgewright.local import custom
from edgewright.runtime.objects import Kind
from tests.unit.console.consoles import IN_DEFAULT, WIDGETS, consoles
from tests.unit.controllers.flashjob.harness import our_kinds
from tests.unit.local.custom.samples import widgets

TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
FOREIGN = Served(name="shops.example.com", kind=Kind(group="example.com", version="v1", kind="Shop", plural="shops"))


def faults(document: dict[str, Any]) -> Iterator[str]:
    """What is wrong with an OpenAPI 3.1 document."""
    if not re.fullmatch(r"3\.1\.\d+", document["openapi"]):
        yield "openapi"
    seen: set[str] = set()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            where = f"{method} {path}"
            if operation["operationId"] in seen or not re.fullmatch(r"\w+", operation["operationId"]):
                yield f"{where}: operationId"
            seen.add(operation["operationId"])
            declared = [(each["in"], each["name"]) for each in operation["parameters"]]
            if len(set(declared)) != len(declared):
                yield f"{where}: a parameter twice"
            if {name for place, name in declared if place == "path"} != set(re.findall(r"{(\w+)}", path)):
                yield f"{where}: parameters of the path"
            if any(each["in"] == "path" and not each["required"] for each in operation["parameters"]):
                yield f"{where}: a part of the path that may be missing"
            if set(operation["tags"]) - {each["name"] for each in document["tags"]}:
                yield f"{where}: tags"
            yield from _answers(where, operation["responses"])
    for name in document["components"]["schemas"]:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
            yield f"{name}: not a name of a component"
    yield from _nodes(document, document, "#")


def _answers(where: str, answers: dict[str, Any]) -> Iterator[str]:
    if not any(status.startswith("2") for status in answers):
        yield f"{where}: never ends well"
    if any(not each["description"] for each in answers.values()):
        yield f"{where}: an answer without a description"


def _nodes(document: dict[str, Any], node: Any, at: str) -> Iterator[str]:
    if isinstance(node, list):
        for number, inner in enumerate(node):
            yield from _nodes(document, inner, f"{at}/{number}")
    if not isinstance(node, dict):
        return
    reference = node.get("$ref")
    if isinstance(reference, str):
        target: Any = document
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step, {}) if isinstance(target, dict) else {}
        if not target:
            yield f"{at}: {reference} leads nowhere"
    if not at.endswith(("/properties", "/default", "/example")):
        kinds = node.get("type", [])
        if isinstance(kinds, list | str) and set([kinds] if isinstance(kinds, str) else kinds) - TYPES - {"http"}:
            yield f"{at}: type {kinds}"
        if "nullable" in node or isinstance(node.get("exclusiveMinimum"), bool):
            yield f"{at}: words of OpenAPI 3.0"
        if "required" in node and not isinstance(node["required"], list | bool):
            yield f"{at}: required"
    for name, inner in node.items():
        yield from _nodes(document, inner, f"{at}/{name}")


async def test_the_description_is_consistent_and_has_every_kind_that_is_installed(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        answer = await portal("GET", "/api/v1/openapi.json")
        document = answer.body
        assert list(faults(document)) == []
        put = document["paths"][f"{IN_DEFAULT.replace('default', '{namespace}')}/{{name}}"]["put"]
        assert put["requestBody"]["content"]["application/json"]["schema"] == {
            "$ref": "#/components/schemas/Widget.probe.example.io"
        }
        widget = document["components"]["schemas"]["Widget.probe.example.io"]
        spec = widget["properties"]["spec"]["properties"]
        assert spec["color"] == {"type": ["string", "null"], "enum": ["red", "blue", None]}
        assert spec["either"]["type"] == ["integer", "string"]
        assert widget["properties"]["metadata"] == {"$ref": "#/components/schemas/ObjectMeta"}
        assert set(put["responses"]) >= {"200", "201", "401", "403", "404", "409", "412", "413", "415", "422", "503"}
        assert "/api/v1/namespaces/{namespace}/flashjobs/{name}" in document["paths"]
        assert "/api/v1/devices/{name}" in document["paths"]
        assert "/api/v1/namespaces/{namespace}/devices/{name}" not in document["paths"]
        # Again, from what is remembered.
        assert (await portal("GET", "/api/v1/openapi.json")).body == document


async def test_who_is_not_known_gets_the_description_of_our_own_kinds(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        document = (await portal("GET", "/api/v1/openapi.json", token="")).body
        assert list(faults(document)) == []
        assert WIDGETS not in repr(document)
        assert "/api/v1/namespaces/{namespace}/flashjobs" in document["paths"]


async def test_the_kinds_are_listed_ours_first(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        items = (await portal("GET", "/api/v1/kinds")).body["items"]
        assert [each["name"] for each in items if each["ours"]] == sorted(OURS)
        assert items[-1] == {
            "name": WIDGETS,
            "kind": "Widget",
            "apiVersion": "probe.example.io/v1",
            "namespaced": True,
            "ours": False,
        }


async def test_a_form_is_made_from_the_schema_of_one_kind(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        answer = await portal("GET", f"/api/v1/kinds/{WIDGETS}/schema")
        assert answer.status == 200
        assert {name: answer.body[name] for name in ("name", "kind", "namespaced")} == {
            "name": WIDGETS,
            "kind": "Widget",
            "namespaced": True,
        }
        spec = answer.body["schema"]["properties"]["spec"]
        assert spec["required"] == ["size"]
        assert spec["properties"]["size"]["default"] == 3
        assert spec["properties"]["either"]["type"] == ["integer", "string"]
        ours = await portal("GET", "/api/v1/kinds/firmwarerollouts/schema")
        assert (ours.body["name"], ours.body["kind"]) == ("rollouts", "FirmwareRollout")
        assert (await portal("GET", "/api/v1/kinds/pods/schema")).status == 404


async def test_the_schema_of_a_kind_that_was_installed_a_moment_ago_is_found(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        served = portal.api.kinds
        both = [*our_kinds(), *custom.served(widgets())]
        served.set_custom(our_kinds())
        assert (await portal("GET", f"/api/v1/kinds/{WIDGETS}/schema")).status == 404
        assert (await portal("GET", "/api/v1/openapi.json")).status == 200
        served.set_custom(both)
        answer = await portal("GET", f"/api/v1/kinds/{WIDGETS}/schema")
        assert answer.body["schema"]["properties"]["spec"]["required"] == ["size"]


async def test_every_sort_of_problem_is_explained_where_its_type_leads(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        for name, sort in SORTS.items():
            told = await portal("GET", f"/api/v1/problems/{name}", token="")
            assert (told.status, told.body["status"], told.body["advice"]) == (200, sort.status, sort.advice)
        assert (await portal("GET", "/api/v1/problems/odd", token="")).status == 404


def test_a_document_that_is_not_consistent_is_found() -> None:
    good = openapi.document(OPERATIONS, [FOREIGN], {FOREIGN.component: {"type": "object"}})
    assert list(faults(good)) == []
    bad = openapi.document(OPERATIONS, [FOREIGN], {FOREIGN.component: {"type": "text", "nullable": True}})
    bad["paths"]["/odd/{x}"] = {"get": {**bad["paths"]["/api/v1/me"]["get"], "responses": {}, "tags": ["odd"]}}
    bad["components"]["schemas"]["a b"] = {"$ref": "#/components/schemas/none"}
    found = list(faults(bad))
    assert len(found) == 8, found


def test_a_kind_without_a_published_schema_is_described_all_the_same() -> None:
    schema = schemas.schema_of({}, FOREIGN.kind)
    assert schema["properties"] == {"metadata": {"$ref": "#/components/schemas/ObjectMeta"}}
    assert openapi.document(OPERATIONS, [FOREIGN], {})["components"]["schemas"]["Shop.example.com"] == {
        "type": "object"
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"nullable": True}, {}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ({"exclusiveMaximum": 5}, {"exclusiveMaximum": 5}),
        ({"x-kubernetes-int-or-string": True}, {"x-kubernetes-int-or-string": True, "type": ["integer", "string"]}),
        ({"properties": {"nullable": {"type": "string"}}}, {"properties": {"nullable": {"type": "string"}}}),
        ({"items": {"type": "string", "nullable": True}}, {"items": {"type": ["string", "null"]}}),
        ({"additionalProperties": True}, {"additionalProperties": True}),
        ({"anyOf": [{"type": "string", "nullable": True}]}, {"anyOf": [{"type": ["string", "null"]}]}),
        ({"$ref": "#/x"}, {}),
    ],
)
def test_a_schema_is_put_into_the_words_of_json_schema(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert schemas.converted(old) == new


@pytest.mark.parametrize(
    ("group", "served"),
    [
        ("", False),
        ("apps", False),
        ("rbac.authorization.k8s.io", False),
        ("gateway.networking.k8s.io", True),
        ("a.b", True),
    ],
)
def test_the_kinds_of_kubernetes_itself_are_not_served(group: str, served: bool) -> None:
    assert is_custom(group) is served


def test_a_kind_that_only_shares_its_plural_with_ours_goes_by_its_group() -> None:
    (plural, kind), *_ = OURS.items()
    assert name_of(kind) == plural
    assert name_of(Kind(group="other.io", version="v1", kind="X", plural=plural)) == f"{plural}.other.io"
