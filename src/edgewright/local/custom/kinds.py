"""Custom kinds: what a CustomResourceDefinition asks to be served, and what happens to the objects of such a kind.

`crd_controller` calls `served` for each definition whose names are accepted; the request path calls the rules.
Everything that a schema decides is left to `schema`; nothing here reads a store.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from edgewright.local import field_errors
from edgewright.local import schema as schemas
from edgewright.local.custom import metadata
from edgewright.local.custom.conditions import is_true
from edgewright.local.custom.paths import field_at, steps
from edgewright.local.custom.published import definition_name, published
from edgewright.local.custom.replicas import replicas_faults
from edgewright.local.custom.versions import preference
from edgewright.local.custom.warnings import finalizer_warnings
from edgewright.local.errors import Cause, bad_request, forbidden
from edgewright.local.go_format import plain, quote
from edgewright.local.served import Rules, ScalePaths, Served, Subresource, Write
from edgewright.runtime.objects import Kind, RawObject

# The real server lists the verbs of custom kinds in this order.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SCALE = Kind(group="autoscaling", version="v1", kind="Scale", plural="scales")


def served(crd: RawObject) -> list[Served]:
    """The kinds that a definition asks for, one per version that is served; its names should be accepted."""
    spec = crd["spec"]
    names = _names(crd)
    versions = Versions(crd)
    kinds = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        kind = Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            namespaced=spec["scope"] == "Namespaced",
        )
        kinds.append(_served(crd, version, kind, versions))
    return kinds


def _served(crd: RawObject, version: RawObject, kind: Kind, versions: Versions) -> Served:
    from edgewright.local import tables  # noqa: PLC0415  tables may look at kinds

    names = _names(crd)
    paths = [each["jsonPath"] for each in version.get("selectableFields") or ()]
    columns, row = tables.custom_columns(version.get("additionalPrinterColumns") or [])
    scale = (version.get("subresources") or {}).get("scale")
    scale_paths = None
    if scale is not None:
        scale_paths = ScalePaths(
            spec_replicas=steps(scale["specReplicasPath"]),
            status_replicas=steps(scale["statusReplicasPath"]),
            selector=steps(scale["labelSelectorPath"]) if scale.get("labelSelectorPath") else (),
        )
    rules = CustomRules(
        kind, versions, status=_has_status(version), scale=scale_paths, terminating=is_true(crd, "Terminating")
    )
    subresources = [Subresource(name="status")] if rules.status else []
    if scale_paths is not None:
        subresources.append(Subresource(name="scale", kind=_SCALE))
    return Served(
        kind=kind,
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        storage=kind.resource,
        storage_api_version=f"{kind.group}/{versions.storage}",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=_VERBS,
        subresources=tuple(subresources),
        rules=rules,
        schema=published((version.get("schema") or {}).get("openAPIV3Schema"), kind, paths),
        definition=definition_name(kind.group, kind.version, kind.kind),
        custom=True,
        selectable={path.removeprefix("."): _selected(path) for path in paths},
        columns=columns,
        row=row,
        scale=scale_paths,
        deprecation=_deprecation(crd["spec"], version),
    )


class Versions:
    """The compiled schemas of all versions of a definition, made when they are first needed."""

    def __init__(self, crd: RawObject) -> None:
        self._schemas: dict[str, RawObject] = {
            version["name"]: (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
            for version in crd["spec"]["versions"]
        }
        self._compiled: dict[str, schemas.Compiled] = {}
        self.group: str = crd["spec"]["group"]
        self.storage: str = next(each["name"] for each in crd["spec"]["versions"] if each.get("storage"))
        self.first = crd["metadata"].get("generation", 1) == 1
        """Whether the definition never changed, so that every stored object was written with these schemas."""

    @property
    def alike(self) -> bool:
        """Whether all versions have the same schema."""
        first, *others = self._schemas.values()
        return all(each == first for each in others)

    def compiled(self, version: str) -> schemas.Compiled:
        """The schema of a version; of a version that is gone, that of the stored form."""
        if version not in self._schemas:
            version = self.storage
        if version not in self._compiled:
            self._compiled[version] = schemas.compile(self._schemas[version])
        return self._compiled[version]

    def embedded(self, version: str) -> bool:
        """Whether the schema of a version has whole Kubernetes objects somewhere inside."""
        return _has_embedded(self._schemas[version])

    def schema(self, version: str) -> RawObject:
        """The schema of a version as its author wrote it."""
        return self._schemas[version]


class CustomRules(Rules):
    """What the schema and the subresources of one version do to an object."""

    unconditional_update = False

    def __init__(
        self, kind: Kind, versions: Versions, *, status: bool, scale: ScalePaths | None, terminating: bool
    ) -> None:
        self.kind = kind
        self.status = status
        # Objects that were written under an older schema, or through another version without this one's defaults, are
        # brought under this one when they are read.
        self.reads_as_stored = versions.first and versions.alike and kind.version == versions.storage
        self._versions = versions
        self._scale = scale
        self._overlooked: tuple[RawObject | None, list[str]] = (None, [])
        """The object that was validated last, and what was not held against it."""
        self.terminating = terminating
        """Whether the definition is on the way out, so that nothing new may come."""

    @cached_property
    def _schema(self) -> schemas.Compiled:
        return self._versions.compiled(self.kind.version)

    @cached_property
    def _embedded(self) -> bool:
        return self._versions.embedded(self.kind.version)

    def decode(self, obj: RawObject) -> tuple[RawObject, list[str]]:
        """The object without unknown fields, with those of its own metadata named first."""
        try:
            unknown: list[str] = []
            if "metadata" in obj:
                known, unknown = metadata.typed(obj["metadata"])
                obj = {**obj, "metadata": known}
            obj, dropped = self._schema.prune(obj)
            if self._embedded:
                inner = [*_coerce(obj, self._versions.schema(self.kind.version), "")]
                dropped += sorted(inner)
        except metadata.WrongType as wrong:
            raise bad_request(f"{self._named(obj)} cannot be handled as a {obj.get('kind', '')}: {wrong}") from None
        return obj, unknown + dropped

    def _named(self, obj: RawObject) -> str:
        return f"{obj.get('kind', '')} in version {quote(self.kind.version)}"

    def default(self, obj: RawObject) -> None:
        """Fills in the defaults of this version's schema."""
        _replace(obj, self._schema.default(obj))

    def complete(self, obj: RawObject) -> None:
        """As `default`, but nulls stay until the object is read again."""
        _replace(obj, self._schema.fill(obj))

    def read(self, obj: RawObject) -> RawObject:
        """The object as the stored version's schema now has it, and in this version's form."""
        stored = str(obj.get("apiVersion", "")).rpartition("/")[2]
        compiled = self._versions.compiled(stored)
        known = compiled.default(compiled.prune(obj)[0])
        if known.get("apiVersion") != self.kind.api_version:
            known = self._schema.prune({**known, "apiVersion": self.kind.api_version})[0]
        return known

    def to_store(self, obj: RawObject) -> RawObject:
        """The object in the storage version's form, which may not know all fields of this one."""
        _without_points(obj)
        if self.kind.version == self._versions.storage:
            return obj
        stored = {**obj, "apiVersion": f"{self.kind.group}/{self._versions.storage}"}
        return self._versions.compiled(self._versions.storage).prune(stored)[0]

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """No object is born while its definition is on the way out."""
        if self.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(self.kind, obj.get("metadata", {}).get("name", ""), why)
        super().prepare_create(obj, write)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """A write of the status changes nothing else, not even labels; any other write does not change the status."""
        super().prepare_update(obj, old, write)
        if write.subresource == "status":
            sent = obj.get("metadata") or {}
            obj["metadata"] = copy.deepcopy(old["metadata"])
            if "managedFields" in sent:
                obj["metadata"]["managedFields"] = sent["managedFields"]

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """What the schema, its rules and the scale subresource find wrong."""
        wrong = [
            field_errors.invalid(name, obj.get(name), f"must be {wanted}")
            for name, wanted in (("kind", self.kind.kind), ("apiVersion", self.kind.api_version))
            if obj.get(name) != wanted
        ]
        if wrong:
            return wrong
        further: list[Cause] = []
        if self._scale is not None:
            further = replicas_faults(obj, self._scale, status_only=write.subresource == "status")
        overlooked: list[str] = []
        self._overlooked = (obj, overlooked)
        return self._schema.validate(
            obj,
            old,
            subresource=write.subresource,
            warnings=overlooked,
            further=further,
            blocked=not (obj.get("metadata") or {}).get("name"),
        )

    def warnings(self, obj: RawObject, old: RawObject | None, write: Write) -> list[str]:
        """Rules that the object breaks as it did before, and finalizers whose names could be those of others."""
        checked, overlooked = self._overlooked
        told = list(overlooked) if checked is obj else []
        return told if write.subresource == "status" else [*told, *finalizer_warnings(obj, old)]

    def unowned(self, subresource: str) -> tuple[tuple[str, ...], ...]:
        """A write of the status changes no metadata either."""
        return (("metadata",), ("spec",)) if subresource == "status" else super().unowned(subresource)

    def desired(self, obj: RawObject) -> RawObject:
        """Everything but metadata, and but the status where that is written apart."""
        apart = ("metadata", "status") if self.status else ("metadata",)
        return {name: value for name, value in obj.items() if name not in apart}


def _names(crd: RawObject) -> RawObject:
    accepted: RawObject = (crd.get("status") or {}).get("acceptedNames") or {}
    return accepted if accepted.get("plural") and accepted.get("kind") else crd["spec"]["names"]


def _has_status(version: RawObject) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _selected(path: str) -> Callable[[RawObject], str]:
    at = steps(path)

    def value(obj: RawObject) -> str:
        found = field_at(obj, at)
        if isinstance(found, bool):
            return "true" if found else "false"
        return "" if found is None else str(found)

    return value


def _deprecation(spec: RawObject, version: RawObject) -> str:
    """What requests to a deprecated version are warned of: the author's words, or which version to use instead."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    kind = spec["names"]["kind"]
    warning = f"{spec['group']}/{version['name']} {kind} is deprecated"
    better = [
        each["name"]
        for each in spec["versions"]
        if each.get("served") and not each.get("deprecated") and preference(each["name"]) < preference(version["name"])
    ]
    if better:
        warning += f"; use {spec['group']}/{min(better, key=preference)} {kind}"
    return warning


def _replace(obj: RawObject, new: RawObject) -> None:
    obj.clear()
    obj.update(new)


def _without_points(value: Any) -> None:
    """Makes whole numbers of those that have no fraction, in place: Go writes them so, and its clients need it."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(child, dict | list):
            _without_points(child)
        elif isinstance(child, float) and child.is_integer() and abs(child) < 2**63:
            value[key] = int(child)


def _has_embedded(schema: RawObject) -> bool:
    if schema.get("x-kubernetes-embedded-resource"):
        return True
    children = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(_has_embedded(child) for child in children if isinstance(child, dict))


def _coerce(value: Any, schema: RawObject | None, path: str) -> Iterator[str]:
    """Reads the metadata of embedded objects, in place; gives the paths of what they do not know."""
    if not isinstance(schema, dict):
        return
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            yield from _coerce_embedded(value, path)
        properties, further = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, child in value.items():
            if name in properties:
                yield from _coerce(child, properties[name], f"{path}.{name}" if path else name)
            else:
                yield from _coerce(child, further, f"{path}[{name}]")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _coerce(child, schema.get("items"), f"{path}[{index}]")


def _coerce_embedded(value: RawObject, path: str) -> Iterator[str]:
    for name in ("apiVersion", "kind"):
        if name in value and not isinstance(value[name], str):
            raise metadata.WrongType(f"{path}.{name}: Invalid value: {plain(value[name])}: must be a string")
    if "metadata" in value:
        try:
            value["metadata"], unknown = metadata.typed(value["metadata"], f"{path}.metadata")
        except metadata.WrongType as wrong:
            shown = plain(value["metadata"])
            raise metadata.WrongType(f"{path}.metadata: Invalid value: {shown}: {wrong}") from None
        yield from unknown
