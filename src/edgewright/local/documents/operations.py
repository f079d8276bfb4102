"""What can be done at which path, as OpenAPI v3 tells it: the standard operations of every kind that is served.

`openapi` and `swagger` make their documents from these. They name paths, parameters and bodies, so that a client knows
what to send; no descriptions, since nobody reads them here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgewright.local.served import Served, Subresource
from edgewright.runtime.objects import RawObject

REFERENCE = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PRODUCED = ("application/json", "application/yaml")
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"

_LIST = (
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
)
_WRITE = (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
_DELETE = (
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
)
_PARAMETERS = {
    "list": _LIST,
    "deletecollection": _LIST,
    "get": (("resourceVersion", "string"),),
    "post": _WRITE,
    "put": _WRITE,
    "patch": (*_WRITE, ("force", "boolean")),
    "delete": _DELETE,
}
_CODES = {"post": ("200", "201", "202"), "put": ("200", "201"), "delete": ("200", "202")}
_TEXTS = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}


@dataclass(frozen=True)
class _Action:
    """One thing that can be done: the method, the words in x-kubernetes-action and in the operationId, the verb."""

    method: str
    action: str
    word: str
    verb: str


_COLLECTION = (
    _Action("get", "list", "list", "list"),
    _Action("post", "post", "create", "create"),
    _Action("delete", "deletecollection", "deletecollection", "deletecollection"),
)
_OBJECT = (
    _Action("get", "get", "read", "get"),
    _Action("put", "put", "replace", "update"),
    _Action("delete", "delete", "delete", "delete"),
    _Action("patch", "patch", "patch", "patch"),
)
_SUBRESOURCE = (*_OBJECT, _Action("post", "post", "create", "create"))


def paths(kinds: Iterable[Served]) -> dict[str, RawObject]:
    """The operations of kinds by path, in the order of paths."""
    found: dict[str, RawObject] = {}
    for served in kinds:
        _add_paths(served, found)
    return dict(sorted(found.items()))


def list_definition(served: Served) -> str:
    """The name of the schema of a kind's list."""
    return f"{served.definition.rpartition('.')[0]}.{served.list_kind}"


def _add_paths(served: Served, found: dict[str, RawObject]) -> None:
    kind = served.kind
    everywhere = kind.path()
    root = kind.path("{namespace}") if kind.namespaced else everywhere
    if kind.namespaced and "list" in served.verbs:
        operation = _operation(served, _COLLECTION[0], suffix="ForAllNamespaces", spread=False)
        parameters = sorted([*operation.pop("parameters"), _query("pretty", "string")], key=lambda each: each["name"])
        found[everywhere] = {"get": operation, "parameters": parameters}
    _add(found, root, _COLLECTION, served)
    _add(found, f"{root}/{{name}}", _OBJECT, served)
    for sub in (each for each in served.subresources if each.described):
        _add(found, f"{root}/{{name}}/{sub.name}", _SUBRESOURCE, served, sub)


def _add(
    found: dict[str, RawObject],
    path: str,
    actions: Sequence[_Action],
    served: Served,
    sub: Subresource | None = None,
) -> None:
    verbs = served.verbs if sub is None else sub.verbs
    operations: RawObject = {each.method: _operation(served, each, sub=sub) for each in actions if each.verb in verbs}
    if operations:
        at = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
        operations["parameters"] = [*map(_in_path, at), _query("pretty", "string")]
        found[path] = operations


def _operation(
    served: Served, action: _Action, *, sub: Subresource | None = None, suffix: str = "", spread: bool = True
) -> RawObject:
    kind = served.kind
    body, answer = _schemas(served, action, sub)
    parameters = [_query(*each) for each in _PARAMETERS[action.action]]
    operation: RawObject = {
        "tags": [f"{_camel(kind.group) or 'core'}_{kind.version}"],
        "operationId": _operation_id(served, action, sub, spread=spread) + suffix,
        "parameters": parameters,
    }
    if body:
        operation["requestBody"] = body
    operation["responses"] = {
        code: {"description": _TEXTS[code], "content": _content(_PRODUCED, answer)}
        for code in _CODES.get(action.action, ("200",))
    } | {"401": {"description": _TEXTS["401"]}}
    operation["x-kubernetes-action"] = action.action
    owner = (sub.kind if sub and not served.custom else None) or kind
    operation["x-kubernetes-group-version-kind"] = {
        "group": owner.group,
        "version": owner.version,
        "kind": owner.kind,
    }
    return operation


def _schemas(served: Served, action: _Action, sub: Subresource | None) -> tuple[RawObject | None, str]:
    """The body that is sent, if any, and the name of the schema of what is answered."""
    own = served.definition
    if sub is not None and sub.kind is not None:
        group = sub.kind.group.removesuffix(".k8s.io").partition(".")[0] or "core"
        own = f"io.k8s.api.{group}.{sub.kind.version}.{sub.kind.kind}"
    if action.action == "list":
        return None, list_definition(served)
    if action.action == "deletecollection":
        return None, f"{META}.Status"
    if action.action == "get":
        return None, own
    if action.action == "delete":
        return {"content": _content(_PRODUCED, f"{META}.DeleteOptions")}, f"{META}.Status"
    if action.action == "patch":
        sent = _PATCHES if served.custom else (*_PATCHES, _STRATEGIC)
        return {"content": _content(sent, f"{META}.Patch"), "required": True}, own
    return {"content": _content(_PRODUCED, own), "required": True}, own


def _operation_id(served: Served, action: _Action, sub: Subresource | None, *, spread: bool) -> str:
    kind = served.kind
    group = _camel(kind.group)
    place = f"{group[:1].upper()}{group[1:]}" if group else "Core"
    word, middle = action.word, ""
    if word == "deletecollection":
        word, middle = "delete", "Collection"
    scope = "Namespaced" if kind.namespaced and spread else ""
    part = sub.name.title() if sub else ""
    return f"{word}{place}{kind.version[:1].upper()}{kind.version[1:]}{middle}{scope}{kind.kind}{part}"


def _camel(group: str) -> str:
    first, *rest = group.removesuffix(".k8s.io").split(".")
    return first + "".join(f"{each[:1].upper()}{each[1:]}" for each in rest)


def _content(types: Iterable[str], definition: str) -> RawObject:
    return {each: {"schema": {"$ref": f"{REFERENCE}{definition}"}} for each in types}


def _query(name: str, kind: str) -> RawObject:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _in_path(name: str) -> RawObject:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
