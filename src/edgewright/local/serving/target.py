"""What the path of a request names: a collection, an object or a part of one, of which group and version.

The first step of a request that is about a kind. It only reads the path; whether such a kind is served is not known
here.
"""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from edgewright.local.errors import no_such_path

_OF_NAMESPACES = frozenset({"status", "finalize"})


class Target(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a request points."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    trailing: str = ""
    """What follows the subresource, for those that have paths below them."""
    watch: bool = False
    """Whether the path itself says that it is watched, as clients of long ago did."""


def decoded(raw: str) -> str:
    """A path with what was escaped in it; a slash within a name is none of the path's."""
    if "%2f" in raw.lower():
        raise no_such_path()
    return unquote(raw)


def parse(path: str) -> Target | None:
    """The target of a decoded path; None for a path that is no path of a kind."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if not all(rest):
        return None
    watch = rest[0] == "watch" and len(rest) > 1
    rest = rest[1:] if watch else rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and len(rest) == 3 and rest[2] in _OF_NAMESPACES):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *trailing = [*rest, "", "", ""][: max(3, len(rest))]
    return Target(
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
        trailing="/".join(each for each in trailing if each),
        watch=watch,
    )
