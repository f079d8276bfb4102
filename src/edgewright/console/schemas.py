"""The schemas of custom resources, from the API server's own OpenAPI 3.0 to what OpenAPI 3.1 (JSON Schema) takes.

`openapi` puts them into its document. What the API server publishes is readable for every caller that it knows, so no
right to read CRDs is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from edgewright.api.crd import custom_resource_definitions
from edgewright.api.kinds import CUSTOM_KINDS
from edgewright.console.kinds import Served
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import UNFIT, NotFound, ServiceUnavailable
from edgewright.runtime.objects import Kind

Schema = dict[str, Any]

METADATA: Final = "#/components/schemas/ObjectMeta"
_GVK: Final = "x-kubernetes-group-version-kind"
_KEPT_SECONDS: Final = 60.0
_KEPT: Final = 256
_MANY: Final = ("allOf", "anyOf", "oneOf")
_ONE: Final = ("items", "additionalProperties", "not")
_DROPPED: Final = frozenset({"nullable", "exclusiveMinimum", "exclusiveMaximum", _GVK})


class Schemas:
    """Asks the API server for schemas, and remembers them for a minute."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is known."""
        self._clock = clock
        self._found: OrderedDict[tuple[str, str], tuple[float, Schema]] = OrderedDict()

    async def of(self, client: Client, served: Iterable[Served]) -> dict[str, Schema]:
        """The schema of each kind by the name of its component; anything will do where the API server has none."""
        found: dict[str, Schema] = {}
        for each in served:
            published = await self._published(client, each.kind.group, each.kind.version)
            found[each.component] = schema_of(published, each.kind)
        return found

    async def one(self, client: Client, served: Served) -> Schema:
        """The schema of one kind; where it is missing in what is remembered, it may have been installed since."""
        at = served.kind.group, served.kind.version
        if _published_of(await self._published(client, *at), served.kind) is None:
            self._found.pop(at, None)
        return schema_of(await self._published(client, *at), served.kind)

    async def _published(self, client: Client, group: str, version: str) -> Schema:
        at, found = self._found.get((group, version), (0.0, None))
        if found is not None and self._clock.elapsed() - at < _KEPT_SECONDS:
            return found
        try:
            document = msgspec.json.decode(await client.get_path(f"/openapi/v3/apis/{group}/{version}"))
            schemas: Schema = document["components"]["schemas"]
        except (NotFound, ServiceUnavailable, KeyError, TypeError, *UNFIT):
            schemas = {}  # not published yet: the kind is served all the same
        self._found[group, version] = (self._clock.elapsed(), schemas)
        while len(self._found) > _KEPT:
            self._found.popitem(last=False)
        return schemas


def ours() -> dict[str, Schema]:
    """The schemas of our kinds as this program knows them, for who asks without being known to the API server."""
    found: dict[str, Schema] = {}
    for document in custom_resource_definitions(CUSTOM_KINDS):
        names = document["spec"]["names"]
        for version in document["spec"]["versions"]:
            found[names["kind"]] = _whole(converted(version["schema"]["openAPIV3Schema"]))
    return found


def schema_of(published: Mapping[str, Any], kind: Kind) -> Schema:
    """The schema of a kind among those that the API server publishes."""
    schema = _published_of(published, kind)
    if schema is not None:
        return _whole(converted(schema))
    return _whole({"type": "object", "description": f"A {kind.kind}; the API server publishes no schema of it."})


def _published_of(published: Mapping[str, Any], kind: Kind) -> Mapping[str, Any] | None:
    wanted = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return next((schema for schema in published.values() if wanted in schema.get(_GVK, ())), None)


def _whole(schema: Schema) -> Schema:
    """A schema with the metadata that every object has."""
    return {**schema, "properties": {**schema.get("properties", {}), "metadata": {"$ref": METADATA}}}


def converted(schema: Mapping[str, Any]) -> Schema:
    """A schema of OpenAPI 3.0 in the words of JSON Schema 2020-12, which 3.1 uses."""
    if "$ref" in schema:
        return {}  # only metadata is published by reference, and is put in its place above
    found: Schema = {name: value for name, value in schema.items() if name not in _DROPPED}
    _limits(schema, found)
    _types(schema, found)
    for name in ("properties", "patternProperties"):
        if name in found:
            found[name] = {field: converted(inner) for field, inner in found[name].items()}
    for name in _ONE:
        if isinstance(found.get(name), Mapping):
            found[name] = converted(found[name])
    for name in _MANY:
        if name in found:
            found[name] = [converted(inner) for inner in found[name]]
    return found


def _limits(schema: Mapping[str, Any], found: Schema) -> None:
    """Bounds that do not belong to the range are numbers of their own."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        limit = schema.get(exclusive)
        if limit is True and bound in found:
            found[exclusive] = found.pop(bound)
        elif limit is not None and not isinstance(limit, bool):
            found[exclusive] = limit


def _types(schema: Mapping[str, Any], found: Schema) -> None:
    """That a value may be null, or a number or a text, is said by its type."""
    if schema.get("x-kubernetes-int-or-string") and "type" not in found:
        found["type"] = ["integer", "string"]
    if schema.get("nullable") and "type" in found:
        types = found["type"] if isinstance(found["type"], list) else [found["type"]]
        found["type"] = [*types, "null"]
        if "enum" in found and None not in found["enum"]:
            found["enum"] = [*found["enum"], None]
