"""OpenAPI v3: an index of documents, one per group and version, from which `kubectl explain` and validation read.

The request path asks for a document when the kinds have changed and keeps it until they change again. A document holds
the paths of its kinds and the schemas that can be reached from them, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from edgewright.local.documents.operations import META, REFERENCE, list_definition, paths
from edgewright.local.served import Served
from edgewright.runtime.objects import RawObject

_INFO = {"title": "Kubernetes", "version": "v1.36.3"}


def index(kinds: Sequence[Served], definitions: Mapping[str, RawObject]) -> RawObject:
    """`/openapi/v3`: where the document of each group and version is, with its hash so that it can be kept."""
    found = {}
    for group, version in sorted({(each.kind.group, each.kind.version) for each in kinds}):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        whole = document(kinds, definitions, group, version)
        found[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest(whole)}"}
    return {"paths": dict(sorted(found.items()))}


def document(
    kinds: Sequence[Served], definitions: Mapping[str, RawObject], group: str, version: str
) -> RawObject | None:
    """`/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION`; None where nothing of it is served."""
    here = [each for each in kinds if (each.kind.group, each.kind.version) == (group, version)]
    if not here:
        return None
    operations = paths(here)
    known = {**definitions, **_own(here)}
    schemas = _reachable([operations, *({"$ref": f"{REFERENCE}{each.definition}"} for each in here)], known)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": operations,
        "components": {"schemas": {name: schemas[name] for name in sorted(schemas)}},
    }


def digest(document: RawObject | None) -> str:
    """What a document is known by in the index and, in quotes, as its ETag."""
    return hashlib.sha512(msgspec.json.encode(document)).hexdigest().upper()


def schemas_of(kinds: Iterable[Served], definitions: Mapping[str, RawObject]) -> dict[str, RawObject]:
    """Every schema that the kinds or their operations refer to, by name."""
    here = list(kinds)
    known = {**definitions, **_own(here)}
    found = _reachable([paths(here), *({"$ref": f"{REFERENCE}{each.definition}"} for each in here)], known)
    return {name: found[name] for name in sorted(found)}


def _own(kinds: Iterable[Served]) -> dict[str, RawObject]:
    """The schemas that custom kinds bring: of their objects and of lists of them."""
    found: dict[str, RawObject] = {}
    for served in kinds:
        if served.custom:
            found[served.definition] = served.schema
            found[list_definition(served)] = _list_schema(served)
    return found


def _list_schema(served: Served) -> RawObject:
    kind = served.kind
    schema: RawObject = {
        "description": f"{served.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": f"{REFERENCE}{served.definition}"}},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": f"{REFERENCE}{META}.ListMeta"}]},
        },
        "x-kubernetes-group-version-kind": [{"group": kind.group, "kind": served.list_kind, "version": kind.version}],
    }
    if "x-kubernetes-selectable-fields" in served.schema:
        schema["x-kubernetes-selectable-fields"] = served.schema["x-kubernetes-selectable-fields"]
    return schema


def _reachable(roots: Iterable[Any], known: Mapping[str, RawObject]) -> dict[str, RawObject]:
    found: dict[str, RawObject] = {}
    waiting: list[Any] = list(roots)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                name = reference.removeprefix(REFERENCE)
                if name in known and name not in found:
                    found[name] = known[name]
                    waiting.append(known[name])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found
