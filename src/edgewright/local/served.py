"""What the embedded API server knows of a kind that it serves, and the rules a kind adds to those that all follow.

`builtin` and `custom` make these, `kinds` finds them, and everything else reads them: the request path, discovery,
OpenAPI, tables, patches. Rules are plain functions from objects to objects or faults; they never read or write a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from edgewright.local.access.authentication import Recognised, User
from edgewright.local.access.authorization import Authorizer
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import Kind, RawObject

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""What can be done with a kind that is kept in the store."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the table that `kubectl get` shows; those with a priority above 0 are shown by `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, kw_only=True)
class Subresource:
    """A part of an object with a path of its own; `kind` is set where it speaks of another (a Scale, a Binding)."""

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    kind: Kind | None = None
    described: bool = True
    """Whether the OpenAPI document tells of it: a WebSocket is no operation of that."""


@dataclass(frozen=True, kw_only=True)
class ScalePaths:
    """Where a kind keeps its replicas, as field names from the object's root; a selector may be a text or an object."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Write:
    """What rules may know of the write that they are asked about."""

    verb: str
    """create, update, patch, apply or delete."""
    now: datetime
    subresource: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dry_run: bool = False
    find: Callable[[str, str, str], RawObject | None] = lambda _resource, _namespace, _name: None
    """The stored object of a resource, namespace and name; only to be read."""
    every: Callable[[str], Iterable[RawObject]] = lambda _resource: ()
    """The stored objects of a resource in all namespaces; only to be read."""
    rights: Authorizer | None = None
    """Who may do what, for the kinds that are about that."""
    recognise: Callable[[str, Sequence[str]], Recognised] = lambda _token, _audiences: Recognised()
    """Whom a token stands for, for these audiences."""

    @property
    def caller(self) -> User:
        """Who writes."""
        return User(name=self.user, groups=self.groups, uid=self.uid, extra=self.extra)


class Rules:
    """What a kind does with its objects; the base does what is right for a kind that has nothing special.

    Methods that get an object to fill in (`default`, `prepare_*`) change it in place; it is theirs. What they are given
    next to it (`old`) is never changed.
    """

    status = False
    """Whether the kind has a status subresource, so that its status and the rest are written apart."""
    generations = True
    """Whether metadata.generation counts changes of the desired state."""
    reads_as_stored = True
    """Whether stored objects are answered as they are; else each goes through `read` first."""
    unconditional_update = True
    """Whether an update without a resourceVersion replaces whatever is there."""
    create_on_update = False
    """Whether a PUT of an object that is not there creates it."""
    name_rule = "subdomain"
    """What metadata.name must be: `subdomain`, `label`, `label1035` (no digit first) or `path` (any path segment)."""
    stands_for: tuple[str, str] | None = None
    """Resource and subresource that a create of this kind is a POST to, by the object's name; it is not stored."""
    has_dependents = True
    """Whether a deletion may ask what becomes of the objects that it owns."""
    returns_deleted = False
    """Whether the answer to a deletion is the object that was there, and not a Status."""

    orphans = False
    """Whether what an object owns stays when it is deleted, unless the deletion says otherwise."""

    graceful = False
    """Whether a deletion is marked in the object that is answered, even when it is gone at once."""

    def decode(self, obj: RawObject) -> tuple[RawObject, list[str]]:
        """The object without fields that the kind does not know, and their paths; BadRequest for a wrong type."""
        return obj, []

    def default(self, obj: RawObject) -> None:
        """Fills in what was left out."""

    def complete(self, obj: RawObject) -> None:
        """Fills in what is missing in the result of a server-side apply."""
        self.default(obj)

    def read(self, obj: RawObject) -> RawObject:
        """The object in this version's form from the form in the store; where `reads_as_stored` it is not called."""
        return obj

    def to_store(self, obj: RawObject) -> RawObject:
        """The object in the store's form."""
        return obj

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """Brings a new object into the state in which it may be stored; a status that came with it goes."""
        if self.status:
            obj.pop("status", None)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """Keeps what this write may not change: the status, or for a write of the status all but it."""
        if write.subresource == "status":
            for name in [name for name in obj if name not in ("metadata", "status")]:
                if name not in old:
                    del obj[name]
            obj.update({name: value for name, value in old.items() if name not in ("metadata", "status")})
        elif self.status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """What is wrong with the object, or with the change from `old`; metadata is checked by the caller."""
        return []

    def warnings(self, obj: RawObject, old: RawObject | None, write: Write) -> list[str]:
        """What the answer warns of, a header each."""
        return []

    def respond(self, obj: RawObject, write: Write) -> RawObject | None:
        """The answer to a create of a kind that is not stored; nothing for the kinds that are."""
        return None

    def act(self, obj: RawObject, body: RawObject, write: Write) -> RawObject | None:
        """The object after a POST of `body` to `write.subresource`, or a Refusal; nothing where there is none."""
        return None

    def release(self, obj: RawObject) -> None:
        """The write that `prepare_create` or `prepare_update` was for did not happen: what it reserved is free."""

    def unowned(self, subresource: str) -> tuple[tuple[str, ...], ...]:
        """The fields that a write through this path cannot change, from the root, so that nobody owns them by it."""
        if subresource == "status":
            return (("spec",),)
        return (("status",),) if self.status else ()

    def desired(self, obj: RawObject) -> RawObject:
        """The part of an object whose change creates a new generation."""
        return {name: value for name, value in obj.items() if name not in ("metadata", "status")}

    def grace_seconds(self, obj: RawObject, asked: int | None) -> int:
        """How long the object may live on after its deletion was asked for; 0 for all that nobody has to end."""
        return 0

    def prepare_delete(self, obj: RawObject, write: Write) -> None:
        """Changes an object whose deletion has begun and that is still held."""

    def held(self, obj: RawObject) -> bool:
        """Whether something besides metadata.finalizers keeps a deleted object in the store."""
        return False


@dataclass(frozen=True, kw_only=True)
class Served:
    """A kind in one version, as the API server offers it."""

    kind: Kind
    singular: str
    list_kind: str
    storage: str
    """The name of its objects in the store, the same for all versions: `pods`, `widgets.example.com`."""
    storage_api_version: str
    """The apiVersion of the stored form; where it is another one, answers say this kind's own."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[Subresource, ...] = ()
    rules: Rules = field(default_factory=Rules)
    schema: RawObject = field(default_factory=dict)
    """The OpenAPI v3 schema of the whole object as it is published; references point into the built-in definitions."""
    definition: str = ""
    """The name of the schema in OpenAPI documents: `io.k8s.api.core.v1.Pod`, `com.example.v1.Widget`."""
    custom: bool = False
    """Whether it comes from a CustomResourceDefinition: no strategic merge patch, other sentences in some errors."""
    selectable: Mapping[str, Callable[[RawObject], str]] = field(default_factory=dict)
    """Fields that a field selector may name besides metadata.name and metadata.namespace."""
    columns: Sequence[Column] = ()
    row: Callable[[RawObject, datetime], Sequence[Any]] | None = None
    """The cells of an object at a time, one per column; without it a table shows name and age."""
    scale: ScalePaths | None = None
    deprecation: str = ""
    """What every request to this version is warned of."""

    def has(self, subresource: str) -> bool:
        """Whether a subresource of this name is served."""
        return any(each.name == subresource for each in self.subresources)
