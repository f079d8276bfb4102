"""What a request asks for in the words of authorization: its verb and its resource, or its path.

`server` calls it before anything is looked up, so that nobody learns what is served who may not ask. Like the real
server it reads the path and two options of the query, and nothing of what is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from edgewright.local import names, selectors
from edgewright.local.access.attributes import Attributes
from edgewright.local.errors import Refusal
from edgewright.local.serving import options
from edgewright.local.serving.target import Target

_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


def attributes(method: str, path: str, where: Target | None, query: Mapping[str, str]) -> Attributes:
    """The attributes of a request; `where` is what its path names, if it is the path of a kind."""
    if where is None:
        return Attributes(verb=method.lower(), path=path or "/")
    verb, name = _VERBS.get(method, ""), where.name
    if where.watch:
        verb = "watch"
    elif not name and verb == "get":
        verb = "watch" if options.flag(query, "watch") else "list"
        name = _only(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    # To the real server a namespace lies in itself, so that a binding in it can give rights to it.
    within = where.name if (where.group, where.plural) == ("", "namespaces") else where.namespace
    return Attributes(
        verb=verb,
        group=where.group,
        resource=where.plural,
        subresource=where.subresource,
        name=name,
        namespace=within,
    )


def _only(selector: str) -> str:
    """The one name that a field selector leaves; empty where it leaves others."""
    if "metadata.name" not in selector:
        return ""
    try:
        name = selectors.exact_field(selector, "metadata.name")
    except Refusal:
        return ""  # what is wrong with it is said to those who may list
    return "" if name is None or names.path_segment(name) else name
