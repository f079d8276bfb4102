"""Whether the schema of a version can be taken: its structure, its defaults, its lists and maps, and its rules.

`spec_checks` calls it for each schema of a definition; the sentences are those of kube-apiserver. Objects of the kind
are checked elsewhere, by `schema`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from edgewright.local import field_errors
from edgewright.local import schema as schemas
from edgewright.local.custom.paths import PathFault, follow
from edgewright.local.custom.structure import structural_faults, supported
from edgewright.local.errors import Cause
from edgewright.runtime.objects import RawObject

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_META = frozenset({"metadata", "kind", "apiVersion"})
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
# With a status subresource the status is checked alone: what the root says of the whole would be lost.
_AT_ROOT = frozenset(
    {
        *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required"),
        *("items", "properties", "externalDocs", "example", "nullable"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    }
)
_ROOT_WORDS = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations]"
)


@dataclass(frozen=True)
class _Where:
    """What is known of the place of a schema from those around it."""

    no_defaults: str = ""
    in_metadata: bool = False
    root: bool = False


def schema_faults(schema: RawObject, path: str, *, status: bool) -> list[Cause]:
    """What is wrong with a whole schema; `status` tells whether the status has a subresource of its own."""
    found = [*_root_faults(schema, path, status=status)]
    structural = supported(schema)
    if structural:
        bad = structural_faults(schema, path) or [*_default_faults(schema, path, root=True)]
        structural = not bad
        found += bad
    found += _openapi_faults(schema, path, _Where(root=True))
    if structural and not found:
        found += schemas.rules_faults(schema, path)
    return found


def _root_faults(schema: RawObject, path: str, *, status: bool) -> Iterator[Cause]:
    if status and schema.get("type", "object") != "object":
        why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield field_errors.invalid(f"{path}.type", schema["type"], why)
    elif status and not set(schema) <= _AT_ROOT:
        why = f"only {_ROOT_WORDS} fields are allowed at the root of the schema if the status subresource is enabled"
        yield field_errors.invalid(path, schema, why)
    if schema.get("nullable"):
        yield field_errors.forbidden(f"{path}.nullable", "nullable cannot be true at the root")


# Defaults


def _default_faults(schema: RawObject, path: str, *, root: bool = False) -> Iterator[Cause]:
    """What is wrong with the defaults in a structural schema; those of the root's metadata are refused elsewhere."""
    if schema.get("default") is not None:
        yield from _default_fault(schema, path)
    if isinstance(schema.get("items"), dict):
        yield from _default_faults(schema["items"], f"{path}.items")
    whole = root or bool(schema.get("x-kubernetes-embedded-resource"))
    for name, child in (schema.get("properties") or {}).items():
        if not (whole and name in _META):
            yield from _default_faults(child, f"{path}.properties[{name}]")


def _default_fault(schema: RawObject, path: str) -> Iterator[Cause]:
    value = schema["default"]
    own = {name: said for name, said in schema.items() if name != "default"}
    compiled = schemas.compile({"type": "object", "properties": {"default": own}})
    if compiled.prune({"default": value})[1]:
        yield field_errors.invalid(f"{path}.default", value, "must not have unknown fields")
    for cause in compiled.validate({"default": value}):
        below = cause.field.removeprefix("default")
        field = f"{path}.default{'.' if below.startswith('[') else ''}{below}"
        message = re.sub(r"(^|: )default\.?(\S*) in body", r"\1\2 in body", cause.message, count=1)
        yield Cause(cause.reason, re.sub(r" in default\.?(\S*)$", r" in \1", message), field)


# The words of a schema


def _openapi_faults(schema: RawObject, path: str, where: _Where) -> Iterator[Cause]:
    yield from _word_faults(schema, path, where)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field_errors.forbidden(f"{path}.uniqueItems", why)
    further = schema.get("additionalProperties")
    if schema.get("properties") and further is not None and further is not True:
        why = "additionalProperties and properties are mutual exclusive"
        yield field_errors.forbidden(f"{path}.additionalProperties", why)
    below = replace(where, root=False)
    if isinstance(further, dict):
        inside = below
        if where.in_metadata:
            inside = replace(below, no_defaults="inside additionalProperties applying to object metadata")
        yield from _openapi_faults(further, f"{path}.additionalProperties", inside)
    yield from _property_faults(schema, path, where)
    if isinstance(schema.get("not"), dict):
        yield from _openapi_faults(schema["not"], f"{path}.not", below)
    for name in ("allOf", "oneOf", "anyOf"):
        for index, child in enumerate(schema.get(name) or ()):
            yield from _openapi_faults(child, f"{path}.{name}[{index}]", below)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _openapi_faults(items, f"{path}.items", below)
    for index, child in enumerate(items if isinstance(items, list) else ()):
        yield from _openapi_faults(child, f"{path}.items[{index}]", below)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield field_errors.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _map_faults(schema, path)
    yield from _list_faults(schema, path)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        yield from _rule_faults(schema, rule, f"{path}.x-kubernetes-validations[{index}]")


def _property_faults(schema: RawObject, path: str, where: _Where) -> Iterator[Cause]:
    for name, child in (schema.get("properties") or {}).items():
        inside = replace(where, root=False)
        if name in _META and (where.root or schema.get("x-kubernetes-embedded-resource")):
            inside = replace(inside, in_metadata=True)
            if where.root:
                inside = replace(inside, no_defaults=f"in top-level {name}")
        yield from _openapi_faults(child, f"{path}.properties[{name}]", inside)


def _word_faults(schema: RawObject, path: str, where: _Where) -> Iterator[Cause]:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield field_errors.unsupported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and where.no_defaults:
        yield field_errors.forbidden(f"{path}.default", f"must not be set {where.no_defaults}")
    for name in _UNSUPPORTED:
        if name in schema:
            yield field_errors.forbidden(f"{path}.{name}", f"{name} is not supported")
    if kind == "null":
        yield field_errors.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield field_errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if where.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        yield field_errors.forbidden(
            f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta"
        )


# Lists and maps


def _map_faults(schema: RawObject, path: str) -> Iterator[Cause]:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return
    yield from _must_be(schema, "object", "x-kubernetes-map-type", path)
    if map_type not in ("atomic", "granular"):
        yield field_errors.unsupported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _must_be(schema: RawObject, kind: str, word: str, path: str) -> Iterator[Cause]:
    if schema.get("type") != kind:
        why = f"must be {kind} if {word} is specified"
        said = schema.get("type")
        yield field_errors.invalid(f"{path}.type", said, why) if said else field_errors.required(f"{path}.type", why)


def _list_faults(schema: RawObject, path: str) -> Iterator[Cause]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    if list_type is not None:
        wrong = [*_must_be(schema, "array", "x-kubernetes-list-type", path)]
        yield from wrong
        if not wrong and list_type == "set":
            yield from _set_faults(schema.get("items"), path)
        if list_type not in ("atomic", "set", "map"):
            yield field_errors.unsupported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        field, why = f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty"
        yield field_errors.required(field, why) if list_type is None else field_errors.invalid(field, list_type, why)
    if list_type == "map":
        yield from _list_map_faults(schema.get("items"), keys, path)
    if list_type in ("map", "set") and isinstance(schema.get("items"), dict):
        yield from _item_faults(schema["items"], str(list_type), keys, path)


def _set_faults(items: Any, path: str) -> Iterator[Cause]:
    if not isinstance(items, dict):
        return
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield field_errors.invalid(f"{path}.items.x-kubernetes-list-type", list_type, why)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield field_errors.invalid(f"{path}.items.x-kubernetes-map-type", list_type, why)


def _list_map_faults(items: Any, keys: list[str], path: str) -> Iterator[Cause]:
    at = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield field_errors.required(at, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield field_errors.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif not isinstance(items, dict):
        yield field_errors.invalid(
            f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map"
        )
    elif items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield field_errors.invalid(f"{path}.items.type", items.get("type", ""), why)
    else:
        for index, key in enumerate(keys):
            known = (items.get("properties") or {}).get(key)
            if known is None:
                yield field_errors.invalid(at, keys, "entries must all be names of item properties")
            elif known.get("type") in ("array", "object"):
                why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield field_errors.invalid(f"{path}.items.properties[{key}].type", "object", why)
            if key in keys[:index]:
                yield field_errors.invalid(at, keys, "must not contain duplicate entries")


def _item_faults(items: RawObject, list_type: str, keys: list[str], path: str) -> Iterator[Cause]:
    if items.get("nullable"):
        why = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield field_errors.forbidden(f"{path}.items.nullable", why)
    for key in keys if list_type == "map" else ():
        known = (items.get("properties") or {}).get(key)
        if known is None:
            continue
        at, so = f"{path}.items.properties[{key}]", "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and known.get("default") is None:
            yield field_errors.required(f"{at}.default", f"{so} must have a default or be a required property")
        if known.get("nullable"):
            yield field_errors.forbidden(f"{at}.nullable", f"{so} cannot be nullable")


# Rules, but for what CEL says of them


def _rule_faults(schema: RawObject, rule: RawObject, path: str) -> Iterator[Cause]:
    text, message = str(rule.get("rule", "")).strip(), str(rule.get("message", ""))
    if not text:
        yield field_errors.required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield field_errors.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _has_lines(message.strip()):
        yield field_errors.invalid(f"{path}.message", message, "must not contain line breaks")
    elif _has_lines(text) and not message.strip():
        yield field_errors.required(f"{path}.message", "message must be specified if rule contains line breaks")
    expression = str(rule.get("messageExpression", ""))
    if expression and not expression.strip():
        yield field_errors.required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield field_errors.unsupported(f"{path}.reason", rule["reason"], _REASONS)
    yield from _field_path_faults(schema, str(rule.get("fieldPath", "")), f"{path}.fieldPath")


def _field_path_faults(schema: RawObject, said: str, path: str) -> Iterator[Cause]:
    if not said:
        return
    if not said.strip():
        yield field_errors.invalid(path, said, "must be non-empty if specified")
    if _has_lines(said):
        yield field_errors.invalid(path, said, "must not contain line breaks")
    try:
        follow(said, schema)
    except PathFault:
        yield field_errors.invalid(path, said, "must be a valid path")


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text
