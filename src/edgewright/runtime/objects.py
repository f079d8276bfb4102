"""What every Kubernetes object has: a kind, metadata, owners and conditions, as frozen structs.

The first module of the flow watch → cache → queue → reconcile → write: `client` decodes into these, `cache` keeps
them, controllers read them. Structs hold only the fields that we use (managedFields are never kept), and are not
tracked by the garbage collector: they come from JSON, so they cannot form a cycle. This module does no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import msgspec

RawObject: TypeAlias = dict[str, Any]
"""An object as plain JSON, with every field that the server sent."""


class Key(NamedTuple):
    """Names one object of a kind; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """The way kubectl and our logs write it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Where a kind is served: everything that is needed to build the path of a request."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` that objects of this kind carry."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The resource's full name, as in RBAC rules and CRD names: `flashjobs.application.flashjob.nbfc.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of a subresource of it."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            if not name or "/" in name or name in {".", ".."}:
                raise ValueError(f"{name!r} is not a name of a {self.kind}")
            parts.append(name)
            if subresource:
                parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        """Short and unambiguous, for messages."""
        return self.resource


class Struct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The base of everything that comes from or goes to the API server."""

    def to_raw(self) -> RawObject:
        """As the API server takes it; fields at their default are left out."""
        return cast(RawObject, msgspec.to_builtins(self))


class OwnerReference(Struct, frozen=True, gc=False, kw_only=True):
    """Names the object that another belongs to and goes with."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True, gc=False, kw_only=True):
    """The parts of an object's metadata that we use."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Condition(Struct, frozen=True, gc=False, kw_only=True):
    """One aspect of an object's state, as people and tools (kstatus, Argo CD) read it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class Resource(Struct, frozen=True, gc=False, kw_only=True):
    """The base of every typed kind. A subclass says in `kind` where it is served and adds the fields that we use."""

    kind: ClassVar[Kind]

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        """The object's namespace and name."""
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for its deletion and finalizers still hold it."""
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The one among its owners that keeps it."""
        return next((each for each in self.metadata.owner_references if each.controller), None)

    def to_raw(self) -> RawObject:
        """The object as the API server takes it, with apiVersion and kind; fields at their default are left out."""
        body: RawObject = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        body.update(super().to_raw())
        return body


def owner_reference(owner: Resource, *, controller: bool = True, blocking: bool = False) -> OwnerReference:
    """A reference that makes the garbage collector delete the child after `owner`.

    With `blocking` the child holds an owner back that is deleted in the foreground.
    """
    return OwnerReference(
        api_version=owner.kind.api_version,
        kind=owner.kind.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True if controller else None,
        block_owner_deletion=True if blocking else None,
    )
