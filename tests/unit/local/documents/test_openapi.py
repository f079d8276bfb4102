"""OpenAPI: paths and schemas of what is served, in the newer and in the older form."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.local import custom
from edgewright.local.documents import openapi, swagger, words
from edgewright.local.documents.operations import META
from edgewright.local.served import Served, Subresource
from edgewright.runtime.objects import Kind
from tests.unit.local.custom import samples

PREFIX = "#/components/schemas/"
CORE = "io.k8s.api.core.v1"
DEFINITIONS: dict[str, Any] = {
    f"{META}.ObjectMeta": {"type": "object", "properties": {"time": {"$ref": f"{PREFIX}{META}.Time"}}},
    f"{META}.ListMeta": {"type": "object"},
    f"{META}.Time": {"type": "string", "format": "date-time"},
    f"{META}.Status": {"type": "object"},
    f"{META}.Patch": {"type": "object"},
    f"{META}.DeleteOptions": {"type": "object"},
    "io.k8s.api.autoscaling.v1.Scale": {"type": "object"},
    f"{CORE}.Binding": {"type": "object"},
    f"{CORE}.PodList": {"type": "object"},
    f"{CORE}.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    f"{CORE}.Pod": {
        "type": "object",
        "properties": {
            "metadata": {"allOf": [{"$ref": f"{PREFIX}{META}.ObjectMeta"}], "default": {}, "description": "its data"},
            "size": {"$ref": f"{PREFIX}{CORE}.Quantity"},
        },
        "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}],
    },
    "unused": {"type": "object"},
}
POD = Served(
    kind=Kind(group="", version="v1", kind="Pod", plural="pods"),
    singular="pod",
    list_kind="PodList",
    storage="pods",
    storage_api_version="v1",
    definition=f"{CORE}.Pod",
    subresources=(
        Subresource(name="binding", verbs=("create",), kind=Kind(group="", version="v1", kind="Binding", plural="b")),
        Subresource(name="log", verbs=("get",)),
    ),
)
KINDS = [POD, *custom.served(samples.widgets()), *custom.served(samples.gadgets())]
ROOT = f"/apis/{samples.GROUP}/v1"


def v3(group: str = samples.GROUP, version: str = "v1") -> dict[str, Any]:
    made = openapi.document(KINDS, DEFINITIONS, group, version)
    assert made is not None
    return made


def test_the_index_names_a_document_for_each_group_and_version() -> None:
    paths = openapi.index(KINDS, DEFINITIONS)["paths"]
    assert list(paths) == ["api/v1", f"apis/{samples.GROUP}/v1", f"apis/{samples.GROUP}/v1beta1"]
    assert paths["api/v1"] == {"serverRelativeURL": f"/openapi/v3/api/v1?hash={openapi.digest(v3('', 'v1'))}"}


def test_what_is_not_served_has_no_document() -> None:
    assert openapi.document(KINDS, DEFINITIONS, samples.GROUP, "v2") is None


def test_a_custom_kind_has_the_standard_paths() -> None:
    paths = v3()["paths"]
    assert list(paths) == [
        f"{ROOT}/gadgets",
        f"{ROOT}/gadgets/{{name}}",
        f"{ROOT}/namespaces/{{namespace}}/widgets",
        f"{ROOT}/namespaces/{{namespace}}/widgets/{{name}}",
        f"{ROOT}/namespaces/{{namespace}}/widgets/{{name}}/scale",
        f"{ROOT}/namespaces/{{namespace}}/widgets/{{name}}/status",
        f"{ROOT}/widgets",
    ]
    one = paths[f"{ROOT}/namespaces/{{namespace}}/widgets/{{name}}"]
    assert set(one) == {"get", "put", "delete", "patch", "parameters"}
    assert [each["name"] for each in one["parameters"]] == ["name", "namespace", "pretty"]
    everywhere = paths[f"{ROOT}/widgets"]
    assert everywhere["get"]["operationId"] == "listProbeExampleIoV1WidgetForAllNamespaces"
    assert "watch" in [each["name"] for each in everywhere["parameters"]]


def test_a_patch_says_what_it_takes_so_that_kubectl_lets_the_server_validate() -> None:
    patch = v3()["paths"][f"{ROOT}/namespaces/{{namespace}}/widgets/{{name}}"]["patch"]
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {"group": samples.GROUP, "version": "v1", "kind": "Widget"}
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    pod = v3("", "v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in pod["requestBody"]["content"]
    assert (pod["operationId"], pod["tags"]) == ("patchCoreV1NamespacedPod", ["core_v1"])


def test_a_subresource_of_another_kind_speaks_of_that() -> None:
    paths = v3("", "v1")["paths"]
    binding = paths["/api/v1/namespaces/{namespace}/pods/{name}/binding"]
    assert set(binding) == {"post", "parameters"}
    assert binding["post"]["x-kubernetes-group-version-kind"]["kind"] == "Binding"
    assert binding["post"]["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": f"{PREFIX}{CORE}.Binding"
    }
    assert set(paths["/api/v1/namespaces/{namespace}/pods/{name}/log"]) == {"get", "parameters"}


def test_a_document_has_the_schemas_that_can_be_reached_and_no_others() -> None:
    schemas = v3()["components"]["schemas"]
    own = [f"io.example.probe.v1.{name}" for name in ("Gadget", "GadgetList", "Widget", "WidgetList")]
    meta = [f"{META}.{name}" for name in ("DeleteOptions", "ListMeta", "ObjectMeta", "Patch", "Status", "Time")]
    assert list(schemas) == [*own, "io.k8s.api.autoscaling.v1.Scale", *meta]
    assert schemas["io.example.probe.v1.WidgetList"]["x-kubernetes-selectable-fields"]
    assert "x-kubernetes-selectable-fields" not in schemas["io.example.probe.v1.GadgetList"]


def test_the_published_schema_spells_out_what_every_object_has() -> None:
    widget = v3()["components"]["schemas"]["io.example.probe.v1.Widget"]
    assert widget["description"] == "A widget"
    assert widget["properties"]["metadata"]["allOf"] == [{"$ref": f"{PREFIX}{META}.ObjectMeta"}]
    assert widget["properties"]["apiVersion"]["description"].startswith("APIVersion defines")
    spec = widget["properties"]["spec"]["properties"]
    both = [{"type": "integer"}, {"type": "string"}]
    assert spec["either"] == {"anyOf": both, "x-kubernetes-int-or-string": True}
    assert spec["short"]["allOf"] == [{"anyOf": both}]
    assert spec["inner"]["required"] == ["kind", "apiVersion"]
    assert set(spec["inner"]["properties"]) == {"apiVersion", "kind", "metadata"}
    assert widget["x-kubernetes-group-version-kind"] == [{"group": samples.GROUP, "kind": "Widget", "version": "v1"}]
    assert widget["x-kubernetes-selectable-fields"][0] == {"fieldPath": "spec.color"}


def test_flags_that_are_off_are_not_published_and_neither_is_what_both_types_said_already() -> None:
    crd = samples.widgets()
    both = [{"type": "integer"}, {"type": "string"}]
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {
        "off": {"type": "string", "nullable": False, "format": ""},
        "any": {"x-kubernetes-int-or-string": True, "anyOf": both},
        "all": {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": both}]},
    }
    spec = custom.served(crd)[0].schema["properties"]["spec"]["properties"]
    assert spec["off"] == {"type": "string"}
    assert spec["any"] == {"x-kubernetes-int-or-string": True, "anyOf": both}
    assert spec["all"] == {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": both}]}


def test_metadata_is_explained_in_words_of_our_own() -> None:
    plain = {"type": "object", "properties": {"name": {"type": "string"}, "other": {"type": "string"}}}
    told = words.described({f"{META}.ObjectMeta": plain, "else": {}})
    assert told["else"] == {}
    properties = told[f"{META}.ObjectMeta"]["properties"]
    assert properties["name"]["description"].startswith("The name of the object")
    assert properties["other"] == {"type": "string"}
    assert plain["properties"] == {"name": {"type": "string"}, "other": {"type": "string"}}
    assert words.described({"else": {}}) == {"else": {}}


# The older form


def v2() -> dict[str, Any]:
    return swagger.document(KINDS, DEFINITIONS)


def test_the_older_document_is_one_for_all_groups() -> None:
    made = v2()
    assert made["swagger"] == "2.0"
    assert "/api/v1/pods" in made["paths"]
    assert f"/apis/{samples.GROUP}/v1beta1/widgets" in made["paths"]
    assert "unused" not in made["definitions"]


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        ("color", {"enum": ["red", "blue"]}),
        ("size", {"type": "integer", "format": "int32", "minimum": 1}),
        ("any", {"x-kubernetes-preserve-unknown-fields": True}),
        ("either", {"x-kubernetes-int-or-string": True}),
        ("free", {"x-kubernetes-preserve-unknown-fields": True}),
        ("inner", {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}),
        ("labels", {"type": "object", "additionalProperties": {}}),
    ],
)
def test_the_older_form_leaves_out_what_it_cannot_say(field: str, schema: dict[str, Any]) -> None:
    definition = v2()["definitions"]["io.example.probe.v1.Widget"]
    assert definition["properties"]["spec"]["properties"][field] == schema
    assert definition["properties"]["spec"]["required"] == ["size"]


def test_a_list_without_items_and_a_field_that_may_be_null_are_not_required_to_be_anything() -> None:
    crd = samples.widgets()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "required": ["maybe"],
        "properties": {
            "maybe": {"type": "string", "nullable": True},
            "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    made = swagger.document(custom.served(crd), DEFINITIONS)["definitions"]["io.example.probe.v1.Widget"]
    assert made["properties"]["spec"] == {
        "type": "object",
        "properties": {"maybe": {}, "list": {"x-kubernetes-preserve-unknown-fields": True}},
    }


def test_a_kind_that_takes_everything_names_no_fields_in_the_older_form() -> None:
    assert v2()["definitions"]["io.example.probe.v1.Gadget"] == {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": samples.GROUP, "kind": "Gadget", "version": "v1"}],
    }


def test_references_of_the_older_form_keep_their_description() -> None:
    pod = v2()["definitions"][f"{CORE}.Pod"]["properties"]
    assert pod["metadata"] == {"description": "its data", "$ref": f"#/definitions/{META}.ObjectMeta"}
    assert pod["size"] == {"$ref": f"#/definitions/{CORE}.Quantity"}
    assert v2()["definitions"][f"{CORE}.Quantity"] == {"type": "string"}


def test_an_operation_of_the_older_form_has_its_body_as_a_parameter() -> None:
    path = v2()["paths"][f"{ROOT}/namespaces/{{namespace}}/widgets/{{name}}"]
    put = path["put"]
    assert put["parameters"][0] == {
        "name": "body",
        "in": "body",
        "required": True,
        "schema": {"$ref": "#/definitions/io.example.probe.v1.Widget"},
    }
    assert put["parameters"][1] == {"type": "string", "uniqueItems": True, "name": "dryRun", "in": "query"}
    assert put["consumes"] == ["application/json", "application/yaml"]
    assert put["responses"]["401"] == {"description": "Unauthorized"}
    assert put["responses"]["200"]["schema"] == {"$ref": "#/definitions/io.example.probe.v1.Widget"}
    assert "consumes" not in path["get"]
    assert "required" not in path["delete"]["parameters"][0]
    everywhere = v2()["paths"][f"{ROOT}/widgets"]
    assert "parameters" not in everywhere["get"]
