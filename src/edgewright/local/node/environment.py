"""The environment and the command line of a container: what the Pod declares, and nothing of the node's own.

`container_start` calls it for each container. Everything comes in as arguments; only `Sources` asks the API server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from edgewright.local.node.sources import Missing, Sources, resource_field
from edgewright.runtime.objects import RawObject

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE = re.compile(r"\$(\$|\((?P<name>[^()$\s]+)\))")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Puts values in the place of $(NAME); $$(NAME) is written as it is, and so is a name that has no value."""

    def value(found: re.Match[str]) -> str:
        name = found["name"]
        return "$" if name is None else values.get(name, found[0])

    return _REFERENCE.sub(value, text)


async def environment(
    container: RawObject,
    sources: Sources,
    *,
    base: Mapping[str, str],
    capacity: Mapping[str, str],
) -> dict[str, str]:
    """The variables of a container: the base, then envFrom, then env in order, each able to name earlier ones."""
    declared: dict[str, str] = {}
    for each in container.get("envFrom") or ():
        declared |= await _whole(each, sources)
    for each in container.get("env") or ():
        value = await _value(each, container, sources, {**base, **declared}, capacity)
        if value is not None:
            declared[each["name"]] = value
    return {**base, **declared}


async def _whole(each: RawObject, sources: Sources) -> dict[str, str]:
    prefix = each.get("prefix") or ""
    content: dict[str, bytes] | None = None
    for name, read in (("configMapRef", sources.config_map), ("secretRef", sources.secret)):
        if reference := each.get(name):
            content = await read(reference.get("name", ""), optional=bool(reference.get("optional")))
    return {f"{prefix}{key}": value.decode("utf-8", "replace") for key, value in (content or {}).items()}


async def _value(
    each: RawObject,
    container: RawObject,
    sources: Sources,
    known: Mapping[str, str],
    capacity: Mapping[str, str],
) -> str | None:
    given = each.get("valueFrom")
    if not given:
        return expand(str(each.get("value") or ""), known)
    if reference := given.get("fieldRef"):
        return sources.field(reference["fieldPath"])
    if reference := given.get("resourceFieldRef"):
        return resource_field(container, reference["resource"], reference.get("divisor"), capacity)
    for name, what, read in (
        ("configMapKeyRef", "ConfigMap", sources.config_map),
        ("secretKeyRef", "Secret", sources.secret),
    ):
        if reference := given.get(name):
            optional = bool(reference.get("optional"))
            content = await read(reference.get("name", ""), optional=optional)
            found = (content or {}).get(reference["key"])
            if found is None and not optional:
                raise Missing(f"couldn't find key {reference['key']} in {what} {reference.get('name', '')}")
            return None if found is None else found.decode("utf-8", "replace")
    raise Missing(f"the value of {each['name']} comes from {', '.join(given)}, which this node does not support")


def command_line(container: RawObject, program: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """What is run: `command` in the place of the image's program, where given, and `args` behind it."""
    command = [expand(part, values) for part in container.get("command") or ()]
    arguments = [expand(part, values) for part in container.get("args") or ()]
    line = [*(command or program), *arguments]
    if not line:
        raise Missing(f"container {container['name']}: the image has no program of its own and no command is given")
    return line
