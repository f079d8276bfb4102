"""The OpenAPI 3.1 document of the REST API, from the table of operations and the schemas of the kinds. Pure.

An operation on custom resources appears once for each kind that it fits, with that kind's schema, so that a generated
client has types for FlashJob and for any CRD of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from edgewright import __version__
from edgewright.console.answers import ANSWERS
from edgewright.console.kinds import Served
from edgewright.console.operation import JSON, LIST, OBJECT, Answer, Operation, Parameter
from edgewright.console.problems import MEDIA, SORTS

Document = dict[str, Any]

COMMON: Final = ("bad-request", "unauthorized", "forbidden", "not-found", "too-many-requests", "internal")
COMMON_UPSTREAM: Final = ("bad-gateway", "unavailable", "timed-out")
_SCHEMAS: Final = "#/components/schemas/"

METADATA_SCHEMA: Final[Document] = {
    "type": "object",
    "description": "What every Kubernetes object has: name, namespace, labels, resourceVersion and more.",
    "properties": {
        "name": {"type": "string"},
        "generateName": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "resourceVersion": {"type": "string"},
        "uid": {"type": "string"},
        "generation": {"type": "integer"},
        "creationTimestamp": {"type": ["string", "null"], "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
    },
}


def document(operations: Iterable[Operation], served: Iterable[Served], schemas: Mapping[str, Document]) -> Document:
    """The document for these kinds; `schemas` by the names of their components."""
    served = tuple(served)
    paths: Document = {}
    for operation in operations:
        for each in _fitting(operation, served):
            path = operation.path.replace("{resource}", each.name) if each else operation.path
            paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, each, served)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Edgewright REST API",
            "version": __version__,
            "description": "Custom resources for applications: with the caller's token and the caller's rights.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": [
            {"name": "about", "description": "The API itself, and who is calling."},
            *({"name": each.name, "description": f"{each.kind.kind}, {each.kind.api_version}."} for each in served),
        ],
        "paths": paths,
        "components": {
            "schemas": _components(served, schemas),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token that the API server takes."}
            },
        },
    }


def problems_of(operation: Operation) -> tuple[str, ...]:
    """The sorts of problems that an operation can answer with, by their status."""
    found = {*operation.problems, *COMMON, *(() if operation.public else COMMON_UPSTREAM)}
    if operation.body:
        found |= {"too-large", "unsupported-media-type"}
    return tuple(sorted(found, key=lambda sort: (SORTS[sort].status, sort)))


def _fitting(operation: Operation, served: tuple[Served, ...]) -> list[Served | None]:
    """The kinds that an operation is described for; one that is for no kind in particular stands alone."""
    if not operation.scope:
        return [None]
    fits = {"namespaced": (True,), "cluster": (False,), "any": (True, False)}[operation.scope]
    return [each for each in served if each.kind.namespaced in fits]


def _operation(operation: Operation, served: Served | None, all_served: tuple[Served, ...]) -> Document:
    subject = re.sub(r"[^A-Za-z0-9]", "_", served.component) if served else ""
    found: Document = {
        "operationId": f"{operation.name}_{subject}" if subject else operation.name,
        "tags": [served.name if served else "about"],
        "summary": operation.summary,
        "parameters": [
            _parameter(each, all_served) for each in operation.parameters if not (served and each.name == "resource")
        ],
        "responses": _responses(operation, served),
    }
    if operation.public:
        found["security"] = [{}, {"bearer": []}]
    if operation.body:
        content = {media: {"schema": _schema(name, served)} for media, name in operation.body.items()}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _parameter(parameter: Parameter, served: tuple[Served, ...]) -> Document:
    schema = dict(parameter.schema)
    if parameter.name == "of" and served:
        schema["enum"] = [each.name for each in served]
    return {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.about,
        "required": parameter.required,
        "schema": schema,
    }


def _responses(operation: Operation, served: Served | None) -> Document:
    found: Document = {str(each.status): _answer(each, served) for each in operation.answers}
    for sort in problems_of(operation):
        known = SORTS[sort]
        status = str(known.status)
        if status in found:
            found[status]["description"] += f" {known.title}."
            continue
        found[status] = {
            "description": f"{known.title}.",
            "content": {MEDIA: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}},
        }
        if sort in {"too-many-requests", "unavailable"}:
            found[status]["headers"] = {
                "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}
            }
    return dict(sorted(found.items()))


def _answer(answer: Answer, served: Served | None) -> Document:
    found: Document = {"description": answer.about}
    if answer.schema:
        schema: Document = {"type": "string"} if answer.media != JSON else _schema(answer.schema, served)
        found["content"] = {answer.media: {"schema": schema}}
    if answer.headers:
        found["headers"] = {
            name: {"description": about, "schema": {"type": "string"}} for name, about in answer.headers.items()
        }
    return found


def _schema(name: str, served: Served | None) -> Document:
    if name in {OBJECT, LIST}:
        if served is None:
            return {"type": "object"}
        return {"$ref": _SCHEMAS + (served.component if name == OBJECT else list_component(served))}
    return {"type": name} if name in {"object", "array"} else {"$ref": _SCHEMAS + name}


def list_component(served: Served) -> str:
    """The name of the schema of a list of a kind."""
    kind, dot, group = served.component.partition(".")
    return f"{kind}List{dot}{group}"


def _components(served: Iterable[Served], schemas: Mapping[str, Document]) -> Document:
    _, components = msgspec.json.schema_components(ANSWERS, ref_template=f"{_SCHEMAS}{{name}}")
    found: Document = {"ObjectMeta": METADATA_SCHEMA, **components}
    for each in served:
        found[each.component] = schemas.get(each.component, {"type": "object"})
        found[list_component(each)] = {
            "type": "object",
            "description": f"A page of a list of {each.name}.",
            "required": ["items", "metadata"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {
                    "type": "object",
                    "properties": {
                        "resourceVersion": {"type": "string"},
                        "continue": {"type": "string", "description": "Where the next page begins."},
                        "remainingItemCount": {"type": "integer"},
                    },
                },
                "items": {"type": "array", "items": {"$ref": _SCHEMAS + each.component}},
            },
        }
    return found
