"""Whether a schema is structural: every field has a type, and what junctors say is said of fields that are there.

`schema_checks` asks first; defaults, pruning and rules only make sense for a schema that passes. The sentences are
those of kube-apiserver. Nothing here looks at objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from edgewright.local import field_errors
from edgewright.local.errors import Cause
from edgewright.local.schema import engine, patterns
from edgewright.runtime.objects import RawObject

INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED = ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")
_EMPTY_TYPES = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
# What a schema below a junctor must not say, and in which words that is refused.
_ONLY_OUTSIDE = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_MENTIONED_IS_ENOUGH = frozenset({"additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type"})


def supported(schema: RawObject) -> bool:
    """Whether the schema keeps to the words that structural schemas have; else its structure is not looked at."""
    if any(name in schema for name in _UNSUPPORTED):
        return False
    return all(supported(child) for child in children(schema))


def children(schema: RawObject) -> Iterator[RawObject]:
    """The schemas inside a schema, those below junctors too."""
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            yield schema[name]
    for name in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(name) or ()
    if isinstance(schema.get("items"), list):
        yield from schema["items"]
    yield from (schema.get("properties") or {}).values()


def structural_faults(schema: RawObject, path: str) -> list[Cause]:
    """What keeps a schema from being structural."""
    return [*_invariants(schema, "root", path), *_complete(schema, schema, path, path)]


def _invariants(schema: RawObject, level: str, path: str) -> Iterator[Cause]:
    items, properties = schema.get("items"), schema.get("properties") or {}
    if schema.get("type") == "array" and items is None:
        yield field_errors.required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, "item", f"{path}.items")
    for name, child in properties.items():
        yield from _invariants(child, "field", f"{path}.properties[{name}]")
    if "additionalProperties" in schema:
        if level == "root":
            yield field_errors.forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(schema["additionalProperties"], dict):
            yield from _invariants(schema["additionalProperties"], "field", f"{path}.additionalProperties")
    yield from _extensions(schema, path)
    yield from _values(schema, path, skip_any=_any_of_both(schema), skip_first=_all_of_both(schema))
    yield from _types(schema, level, path)
    yield from _identity(schema, level, path)


def _extensions(schema: RawObject, path: str) -> Iterator[Cause]:
    if schema.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(name):
                yield field_errors.invalid(
                    f"{path}.{name}", True, "must be false if x-kubernetes-int-or-string is true"
                )


def _types(schema: RawObject, level: str, path: str) -> Iterator[Cause]:
    kind, embedded = schema.get("type", ""), bool(schema.get("x-kubernetes-embedded-resource"))
    open_ = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if embedded and kind != "object":
        why = "must be object if x-kubernetes-embedded-resource is true"
        yield field_errors.invalid(f"{path}.type", kind, why) if kind else field_errors.required(f"{path}.type", why)
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not open_:
        yield field_errors.required(f"{path}.type", _EMPTY_TYPES[level])
    if embedded and "additionalProperties" in schema:
        why = "must not be used if x-kubernetes-embedded-resource is set"
        yield field_errors.forbidden(f"{path}.additionalProperties", why)
    if level == "root" and kind and kind != "object":
        yield field_errors.invalid(f"{path}.type", kind, "must be object at the root")
    if embedded and not open_ and not schema.get("properties"):
        why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield field_errors.required(f"{path}.properties", why)


def _identity(schema: RawObject, level: str, path: str) -> Iterator[Cause]:
    """Kind, apiVersion and metadata of an object are what they are, and a schema may say little of them."""
    properties = schema.get("properties") or {}
    whole = level == "root" or bool(schema.get("x-kubernetes-embedded-resource"))
    for name in ("kind", "apiVersion"):
        if whole and name in properties and properties[name].get("type", "") != "string":
            yield field_errors.invalid(
                f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string"
            )
    if "metadata" in properties:
        metadata, at = properties["metadata"], f"{path}.properties[metadata]"
        if whole and metadata.get("type", "") != "object":
            yield field_errors.invalid(f"{at}.type", metadata.get("type", ""), "must be object")
        if level == "root" and not _only_names(metadata):
            why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield field_errors.forbidden(at, why)


def _only_names(metadata: RawObject) -> bool:
    if not set(metadata.get("properties") or {}) <= {"name", "generateName"}:
        return False
    return not {name for name in metadata if name not in ("type", "properties", "default")}


def _any_of_both(schema: RawObject) -> bool:
    return schema.get("anyOf") == INT_OR_STRING


def _all_of_both(schema: RawObject) -> bool:
    return bool(schema.get("allOf")) and schema["allOf"][0].get("anyOf") == INT_OR_STRING


def _values(schema: RawObject, path: str, *, skip_any: bool = False, skip_first: bool = False) -> Iterator[Cause]:
    """What a schema says of values, at any depth of junctors."""
    if not skip_any:
        for index, child in enumerate(schema.get("anyOf") or ()):
            yield from _nested(child, f"{path}.anyOf[{index}]")
    for index, child in enumerate(schema.get("allOf") or ()):
        yield from _nested(child, f"{path}.allOf[{index}]", skip_any=skip_first and index == 0)
    for index, child in enumerate(schema.get("oneOf") or ()):
        yield from _nested(child, f"{path}.oneOf[{index}]")
    if "not" in schema:
        yield from _nested(schema["not"], f"{path}.not")
    if pattern := schema.get("pattern"):
        yield from _pattern(pattern, f"{path}.pattern")


def _nested(schema: RawObject, path: str, *, skip_any: bool = False) -> Iterator[Cause]:
    yield from _values(schema, path, skip_any=skip_any)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    properties = schema.get("properties") or {}
    for name, child in properties.items():
        yield from _nested(child, f"{path}.properties[{name}]")
    for name, why in _ONLY_OUTSIDE:
        if schema.get(name) or (name in _MENTIONED_IS_ENOUGH and schema.get(name) is not None):
            yield field_errors.forbidden(f"{path}.{name}", why)
    if "metadata" in properties:
        yield field_errors.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _pattern(pattern: str, path: str) -> Iterator[Cause]:
    # A pattern that finds nothing where nothing is allowed as well is none: RE2 could not read it.
    if patterns.compiled(pattern) is not None or engine.matches("", f"|{pattern}"):
        return
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        why = str(error)
        if why.startswith("unterminated character set"):
            why = f"missing closing ]: `{pattern[pattern.rfind('[') :]}`"
    else:
        why = "it is not in the syntax of RE2"
    wrong = f"must be a valid regular expression, but isn't: error parsing regexp: {why}"
    yield field_errors.invalid(path, pattern, wrong)


def _complete(values: RawObject, schema: RawObject, path: str, said: str) -> Iterator[Cause]:
    """Whatever a junctor speaks of must be in the schema itself; `said` is where the junctor does."""
    if "not" in values:
        yield from _nested_complete(values["not"], schema, path, f"{said}.not")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, child in enumerate(values.get(name) or ()):
            yield from _nested_complete(child, schema, path, f"{said}.{name}[{index}]")


def _nested_complete(values: RawObject, schema: Any, path: str, said: str) -> Iterator[Cause]:
    if not isinstance(schema, dict):
        yield field_errors.required(path, f"because it is defined in {said}")
        return
    yield from _complete(values, schema, path, said)
    if isinstance(values.get("items"), dict):
        yield from _nested_complete(values["items"], schema.get("items"), f"{path}.items", f"{said}.items")
    for name, child in (values.get("properties") or {}).items():
        known = (schema.get("properties") or {}).get(name)
        at = f"properties[{name}]"
        yield from _nested_complete(child, known, f"{path}.{at}", f"{said}.{at}")
