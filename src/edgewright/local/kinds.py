"""Which kinds are served now: the built-in ones, which stay, and the custom ones, which come and go with their CRDs.

The request path looks kinds up here, discovery and OpenAPI are made from the whole list, and `custom` replaces the
custom part when a definition changes. Nothing here looks at objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from edgewright.local.apply.fieldtypes import FieldType
from edgewright.local.apply.fieldtypes import compile as compile_fields
from edgewright.local.served import Served
from edgewright.local.structs.fields import GROUP_VERSION_KIND
from edgewright.runtime.objects import RawObject


class Kinds:
    """All served kinds by their path; `revision` grows with every change, so that documents can be kept until then."""

    def __init__(self, builtin: Iterable[Served], definitions: Mapping[str, RawObject]) -> None:
        self._builtin = tuple(builtin)
        self.definitions = definitions
        """The schemas that the schemas of kinds refer to."""
        self.protobuf = {(each.kind.api_version, each.kind.kind): each.definition for each in self._builtin}
        """The definitions of kinds that may be sent as protobuf, by apiVersion and kind."""
        for group_version in {each.kind.api_version for each in self._builtin} | {"meta.k8s.io/v1"}:
            self.protobuf[group_version, "DeleteOptions"] = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
        # What a subresource speaks of, such as the TokenRequest that `kubectl create token` sends.
        spoken = {each.kind for served in self._builtin for each in served.subresources if each.kind is not None}
        named = {
            _spelled(said): name for name, schema in definitions.items() for said in schema.get(GROUP_VERSION_KIND, ())
        }
        for kind in spoken:
            if name := named.get((kind.group, kind.version, kind.kind)):
                self.protobuf[kind.api_version, kind.kind] = name
        self._custom: tuple[Served, ...] = ()
        self._by_path: dict[tuple[str, str, str], Served] = {}
        self._by_storage: dict[str, Served] = {}
        self._fields: dict[int, FieldType] = {}
        self._changed = asyncio.Event()
        self.revision = 0
        self._index()

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The kind at this path."""
        return self._by_path.get((group, version, plural))

    def stored_as(self, storage: str) -> Served | None:
        """A kind whose objects have this name in the store."""
        return self._by_storage.get(storage)

    def has_builtin(self, group: str) -> bool:
        """Whether a built-in kind is served in this group."""
        return any(each.kind.group == group for each in self._builtin)

    def all(self) -> Sequence[Served]:
        """Every kind in every version, built-in ones first."""
        return self._builtin + self._custom

    def builtin(self) -> Sequence[Served]:
        """The kinds that are always there."""
        return self._builtin

    def set_custom(self, custom: Iterable[Served]) -> None:
        """Replaces the custom kinds."""
        self._custom = tuple(custom)
        self.revision += 1
        self._index()
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Returns after the next change."""
        await self._changed.wait()

    def fields(self, served: Served) -> FieldType:
        """The types of a kind's fields, for patches and apply; made when they are first needed."""
        known = self._fields.get(id(served))
        if known is None:
            known = self._fields[id(served)] = compile_fields(served.schema, self.definitions)
        return known

    def versions(self, served: Served) -> Mapping[str, FieldType] | None:
        """The types of a custom kind's fields in its other versions; those of built-in kinds say nothing."""
        if not served.custom:
            return None
        others = (each for each in self._custom if each.storage == served.storage and each is not served)
        return {each.kind.api_version: self.fields(each) for each in others}

    def _index(self) -> None:
        self._fields = {}
        self._by_path = {(each.kind.group, each.kind.version, each.kind.plural): each for each in self.all()}
        self._by_storage = {}
        for each in self.all():
            if each.kind.api_version == each.storage_api_version or each.storage not in self._by_storage:
                self._by_storage[each.storage] = each


def _spelled(said: Mapping[str, str]) -> tuple[str, str, str]:
    """Group, version and kind as an OpenAPI definition has them."""
    return said["group"], said["version"], said["kind"]
