"""Builds the CustomResourceDefinition of a kind from its struct and its `definition`.

Called by `manifests` (the files in config/crd/bases), by `edgewright crds` and by tests. One struct is one version of a
kind; several versions of a kind become one document. This module never talks to a server.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from edgewright.api.schema import SchemaError, kind_schema
from edgewright.runtime.objects import RawObject, Resource

_CAMEL_CASE = re.compile(r"[A-Z][A-Za-z0-9]*")
_SELECTABLE_FIELDS = 8


def _check_path(path: str, *beginnings: str) -> None:
    if not path.startswith(beginnings or "."):
        raise ValueError(f"the path {path!r} must begin with {' or '.join(beginnings) or 'a dot'}")


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of `kubectl get`; one with a priority above 0 is shown with `-o wide` only."""

    name: str
    path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    description: str = ""
    format: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        """The server refuses a path without its leading dot, long after it was written."""
        _check_path(self.path)


AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")
"""The column that people expect last in every list."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Where the scale subresource (`kubectl scale`, autoscalers) finds its numbers."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    label_selector: str = ""

    def __post_init__(self) -> None:
        """Wanted numbers stand in spec, observed ones in status."""
        _check_path(self.spec_replicas, ".spec.")
        _check_path(self.status_replicas, ".status.")
        if self.label_selector:
            _check_path(self.label_selector, ".spec.", ".status.")


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What a CRD says about a kind besides its schema; the status subresource follows from a `status` field.

    The names (singular, list kind, short names, categories) belong to the kind and are the same in all its versions;
    the rest belongs to the one version.
    """

    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    selectable_fields: tuple[str, ...] = ()
    served: bool = True
    storage: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""

    def __post_init__(self) -> None:
        """What the server would refuse is refused where it is written."""
        if self.deprecation_warning and not self.deprecated:
            raise ValueError("a deprecation warning needs deprecated=True")
        if len(self.selectable_fields) > _SELECTABLE_FIELDS:
            raise ValueError(f"a kind has at most {_SELECTABLE_FIELDS} selectable fields")
        for path in self.selectable_fields:
            _check_path(path)


class CustomResource(Resource, frozen=True, kw_only=True):
    """The base of every kind that a CRD of ours defines."""

    definition: ClassVar[Definition] = Definition()


def custom_resource_definition(*versions: type[CustomResource]) -> RawObject:
    """The CRD of one kind, with its versions in the order given; exactly one of them is the stored one."""
    definition: RawObject = msgspec.json.decode(_encoded(versions))
    return definition


@functools.cache
def _encoded(versions: tuple[type[CustomResource], ...]) -> bytes:
    """As JSON, from which every caller gets a document of its own: to read a schema off the structs takes long."""
    first = versions[0]
    kind = first.kind
    names = _names(first)
    for version in versions:
        _check_version(version)
        if (version.kind.resource, version.kind.namespaced, _names(version)) != (kind.resource, kind.namespaced, names):
            raise SchemaError(f"{version.__qualname__} and {first.__qualname__} are not versions of one kind")
    if len({version.kind.version for version in versions}) < len(versions):
        raise SchemaError(f"{kind.resource} has a version twice")
    if sum(version.definition.storage for version in versions) != 1:
        raise SchemaError(f"{kind.resource} needs exactly one version with storage=True")
    definition: RawObject = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(version) for version in versions],
        },
    }
    return msgspec.json.encode(definition)


def custom_resource_definitions(kinds: Iterable[type[CustomResource]]) -> list[RawObject]:
    """A CRD for each kind, where structs that are versions of one kind share theirs, in the order of first mention."""
    by_resource: dict[str, list[type[CustomResource]]] = {}
    for kind in kinds:
        by_resource.setdefault(kind.kind.resource, []).append(kind)
    return [custom_resource_definition(*versions) for versions in by_resource.values()]


def _names(kind: type[CustomResource]) -> RawObject:
    definition = kind.definition
    names: RawObject = {
        "kind": kind.kind.kind,
        "listKind": definition.list_kind or f"{kind.kind.kind}List",
        "plural": kind.kind.plural,
        "singular": definition.singular or kind.kind.kind.lower(),
        "shortNames": list(definition.short_names),
        "categories": list(definition.categories),
    }
    return {name: value for name, value in names.items() if value}


def _check_version(kind: type[CustomResource]) -> None:
    served = kind.kind
    if not served.group:
        raise SchemaError(f"{kind.__qualname__}: a custom resource needs a group")
    if not _CAMEL_CASE.fullmatch(served.kind) or served.plural != served.plural.lower():
        raise SchemaError(f"{kind.__qualname__}: the kind is CamelCase, the plural lower case")
    if kind.definition.scale and not _has_status(kind):
        raise SchemaError(f"{kind.__qualname__}: the scale subresource needs a status field")


def _version(kind: type[CustomResource]) -> RawObject:
    definition = kind.definition
    version: RawObject = {"name": kind.kind.version, "served": definition.served, "storage": definition.storage}
    if definition.deprecated:
        version["deprecated"] = True
    if definition.deprecation_warning:
        version["deprecationWarning"] = definition.deprecation_warning
    if definition.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in definition.columns]
    if definition.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in definition.selectable_fields]
    if subresources := _subresources(kind):
        version["subresources"] = subresources
    version["schema"] = {"openAPIV3Schema": kind_schema(kind)}
    return version


def _subresources(kind: type[CustomResource]) -> RawObject:
    subresources: RawObject = {"status": {}} if _has_status(kind) else {}
    if scale := kind.definition.scale:
        subresources["scale"] = {
            "specReplicasPath": scale.spec_replicas,
            "statusReplicasPath": scale.status_replicas,
        }
        if scale.label_selector:
            subresources["scale"]["labelSelectorPath"] = scale.label_selector
    return subresources


def _column(column: Column) -> dict[str, Any]:
    published = {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "jsonPath": column.path,
        "description": column.description,
        "priority": column.priority,
    }
    return {name: value for name, value in published.items() if value}


def _has_status(kind: type[CustomResource]) -> bool:
    return any(field.encode_name == "status" for field in msgspec.structs.fields(kind))
