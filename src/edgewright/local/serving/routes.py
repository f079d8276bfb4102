"""What a method asks for at a path: the verb, as the kind offers it, or a refusal in the words of the real server.

`server` calls it once it knows the kind. The real server has two ways of saying no, one for the kinds that are built in
and one for custom kinds, which read a path more loosely.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace
from multidict import MultiDict

from edgewright.local import names
from edgewright.local.errors import bad_request, method_not_allowed, no_such_method, no_such_path, not_found
from edgewright.local.go_format import quote
from edgewright.local.served import Served
from edgewright.local.serving.target import Target

_ON_OBJECTS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ON_COLLECTIONS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def reaches(method: str, where: Target, served: Served) -> bool:
    """Whether a path is one of the kind: a custom kind has none in a wrong scope, not even for a refusal."""
    if not served.custom or served.kind.namespaced == bool(where.namespace):
        return True
    return served.kind.namespaced and method == "GET" and not where.name


def verb(method: str, where: Target, served: Served) -> str:
    """What is to be done: one of the kind's verbs, or of the subresource's that the path names."""
    asked = _of_custom(method, where, served) if served.custom else _of_builtin(method, where, served)
    if where.name and (wrong := names.path_segment(where.name)):
        raise bad_request(f"Name parameter invalid: {quote(where.name)}: {';'.join(wrong)}")
    return asked


def watched(method: str, where: Target, asked: MultiDict[str]) -> tuple[Target, MultiDict[str]]:
    """A path that says itself that it is watched, as the watch of a collection that clients use today."""
    if method != "GET":
        raise no_such_method()
    options = MultiDict(asked)
    options["watch"] = "true"
    if where.name:
        options["fieldSelector"] = f"metadata.name={where.name}"
    return replace(where, name="", watch=False), options


def _of_builtin(method: str, where: Target, served: Served) -> str:
    lacks_namespace = served.kind.namespaced and not where.namespace
    if (where.namespace and not served.kind.namespaced) or where.trailing:
        raise no_such_path()
    if where.subresource:
        offered = _offered(where, served)
        if offered is None or lacks_namespace:
            raise no_such_path()
        asked = _ON_OBJECTS.get(method, "")
    else:
        if where.name and (lacks_namespace or "get" not in served.verbs):
            raise no_such_path()
        offered = served.verbs
        asked = (_ON_OBJECTS if where.name else _ON_COLLECTIONS).get(method, "")
        if where.name and asked == "create":
            asked = ""
    if asked not in offered or (lacks_namespace and asked != "list"):
        raise no_such_method()
    return asked


def _of_custom(method: str, where: Target, served: Served) -> str:
    asked = _ON_OBJECTS.get(method, "")
    if not where.name:
        asked = _ON_COLLECTIONS.get(method, asked)
    offered = _offered(where, served) if where.subresource else served.verbs
    if offered is None:
        raise not_found(served.kind, where.name)
    if asked not in offered:
        raise method_not_allowed(served.kind, asked or method.lower())
    if asked in ("update", "patch") and not where.name:
        raise bad_request("name must be provided")
    return asked


def _offered(where: Target, served: Served) -> tuple[str, ...] | None:
    return next((each.verbs for each in served.subresources if each.name == where.subresource), None)
