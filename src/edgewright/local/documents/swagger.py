"""OpenAPI v2, the older document that is one for all kinds; conformance tests and old clients still read it.

It is made from what OpenAPI v3 says, and says less: v2 has no junctors, no null and no defaults, and a field that takes
anything has no type. `wire` has its protobuf form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgewright.local.custom.published import below
from edgewright.local.documents.openapi import schemas_of
from edgewright.local.documents.operations import REFERENCE, paths
from edgewright.local.served import Served
from edgewright.runtime.objects import RawObject

_JUNCTORS = ("allOf", "anyOf", "oneOf", "not", "default")
_GVK, _SELECTABLE = "x-kubernetes-group-version-kind", "x-kubernetes-selectable-fields"
_PATCH = "x-kubernetes-patch-strategy"


def document(kinds: Sequence[Served], definitions: Mapping[str, RawObject]) -> RawObject:
    """`/openapi/v2`."""
    schemas = schemas_of(kinds, definitions)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": {path: _path(operations) for path, operations in paths(kinds).items()},
        "definitions": {name: _root(schema) for name, schema in schemas.items()},
    }


def _root(schema: RawObject) -> RawObject:
    if _GVK in schema and schema.get("x-kubernetes-preserve-unknown-fields"):
        # Any field that was named here would make kubectl refuse all others.
        kept = {name: schema[name] for name in (_GVK, _SELECTABLE) if name in schema}
        return {"type": "object", **kept}
    return _schema(schema)


def _schema(schema: RawObject) -> RawObject:
    if reference := _reference(schema):
        # kubectl reads from it how a field is patched and who owns what of it.
        about = {name: schema[name] for name in ("description", _PATCH, "x-kubernetes-map-type") if name in schema}
        return {**about, "$ref": f"#/definitions/{reference.removeprefix(REFERENCE)}"}
    children = schema.get("properties") or {}
    copy = below(schema, _schema)
    if "oneOf" in copy and "type" not in copy:
        # A text or a number, and on the wire of v2 a text.
        copy["type"] = "string"
    open_, null = copy.get("x-kubernetes-preserve-unknown-fields"), copy.pop("nullable", False)
    for name in _JUNCTORS:
        copy.pop(name, None)
    if open_ or null:
        copy.pop("items", None)
        copy.pop("properties", None)
    if null or (open_ and copy.get("type") == "object") or (copy.get("type") == "array" and "items" not in copy):
        copy.pop("type", None)
    _loosen_required(copy, children)
    return copy


def _loosen_required(schema: RawObject, children: Mapping[str, RawObject]) -> None:
    """What may be null is not required, and what an embedded object must have is not said of one that takes all."""
    optional = {name for name, child in children.items() if child.get("nullable")}
    if schema.get("x-kubernetes-embedded-resource") and schema.get("x-kubernetes-preserve-unknown-fields"):
        optional |= {"kind", "apiVersion"}
    if "required" in schema:
        required = [name for name in schema["required"] if name not in optional]
        if required:
            schema["required"] = required
        else:
            del schema["required"]


def _reference(schema: RawObject) -> str:
    if "$ref" in schema:
        return str(schema["$ref"])
    parts = schema.get("allOf") or []
    return str(parts[0]["$ref"]) if len(parts) == 1 and "$ref" in parts[0] else ""


def _path(operations: RawObject) -> RawObject:
    return {
        method: [_parameter(each) for each in said] if method == "parameters" else _operation(said)
        for method, said in operations.items()
    }


def _operation(operation: RawObject) -> RawObject:
    made: RawObject = {}
    parameters = [_parameter(each) for each in operation.get("parameters", ())]
    if body := operation.get("requestBody"):
        made["consumes"] = list(body["content"])
        about = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **about, "schema": _content(body)})
    made["produces"] = ["application/json", "application/yaml"]
    for name in ("tags", "operationId"):
        made[name] = operation[name]
    if parameters:
        made["parameters"] = parameters
    made["responses"] = {code: _response(said) for code, said in operation["responses"].items()}
    for name in ("x-kubernetes-action", _GVK):
        made[name] = operation[name]
    return made


def _response(response: RawObject) -> RawObject:
    said = {"description": response["description"]}
    return {**said, "schema": _content(response)} if "content" in response else said


def _content(body: RawObject) -> Any:
    return _schema(next(iter(body["content"].values()))["schema"])


def _parameter(parameter: RawObject) -> RawObject:
    plain = {name: said for name, said in parameter.items() if name != "schema"}
    return {**parameter["schema"], **plain}
