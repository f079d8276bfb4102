"""The schema of a custom kind as OpenAPI publishes it: the author's, with what every Kubernetes object has added.

`kinds` creates it once for each version; discovery by OpenAPI, `kubectl explain`, patches and apply read it. The schema
of the definition itself is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgewright.runtime.objects import Kind, RawObject

_OBJECT_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
# Said so by the author, or not said at all: a published schema leaves them out when they are off.
_FLAGS = (
    "nullable",
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
)
_DROPPED = ("$schema", "id")


def definition_name(group: str, version: str, kind: str) -> str:
    """The name of a custom kind's schema in OpenAPI documents: `io.example.v1.Widget`."""
    return ".".join([*reversed(group.split(".")), version, kind])


def published(schema: RawObject | None, kind: Kind, selectable: Sequence[str] = ()) -> RawObject:
    """The published schema of a version; `selectable` are the paths that a field selector may name."""
    if schema is None:
        root: RawObject = {"type": "object"}
    else:
        root = _unfolded(schema)
        properties = root.setdefault("properties", {})
        properties.update(**_identity())
    root["x-kubernetes-group-version-kind"] = [{"group": kind.group, "kind": kind.kind, "version": kind.version}]
    if selectable:
        root["x-kubernetes-selectable-fields"] = [{"fieldPath": path.removeprefix(".")} for path in selectable]
    return root


def below(schema: RawObject, change: Callable[[RawObject], RawObject]) -> RawObject:
    """A shallow copy of a schema with the schemas of its fields, items and values changed."""
    copy = dict(schema)
    for name in ("items", "additionalProperties"):
        if isinstance(copy.get(name), dict):
            copy[name] = change(copy[name])
    if isinstance(properties := copy.get("properties"), Mapping):
        copy["properties"] = {name: change(child) for name, child in properties.items()}
    return copy


def _identity() -> RawObject:
    """What every object has; the words are what `kubectl explain` shows."""
    return {
        "apiVersion": {
            "type": "string",
            "description": "APIVersion defines in which group and version of its kind the object is written.",
        },
        "kind": {"type": "string", "description": "Kind says what the object is: the name of this type."},
        "metadata": {
            **_metadata(),
            "description": "Standard object's metadata: its names, labels, owners and history.",
        },
    }


def _metadata() -> RawObject:
    return {"allOf": [{"$ref": _OBJECT_META}]}


def _unfolded(schema: RawObject) -> RawObject:
    """The schema with what it means spelled out: both types of an int-or-string, the fields of an embedded object."""
    copy = below(schema, _unfolded)
    for name in (*_FLAGS, *_DROPPED):
        if not copy.get(name) or name in _DROPPED:
            copy.pop(name, None)
    if copy.get("format") == "":
        del copy["format"]
    if copy.get("x-kubernetes-int-or-string") and not _says_both(copy):
        if "anyOf" in copy:
            copy["allOf"] = [{"anyOf": _INT_OR_STRING}, *copy.get("allOf", [])]
        else:
            copy["anyOf"] = _INT_OR_STRING
    if copy.get("x-kubernetes-embedded-resource"):
        identity = _identity()
        copy["properties"] = {**copy.get("properties", {}), **identity}
        required = copy.get("required", [])
        copy["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    return copy


def _says_both(schema: RawObject) -> bool:
    if schema.get("anyOf") == _INT_OR_STRING:
        return True
    first = (schema.get("allOf") or [{}])[0]
    return bool(first.get("anyOf") == _INT_OR_STRING)
