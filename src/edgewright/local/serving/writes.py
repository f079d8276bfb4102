"""Creating and changing objects: the steps that a body goes through before it is in the store.

`server` calls `create`, `update` and `patch`; deletions are in `deletes`. A change is worked out on the object as it is
now and written only if it is still so; where the client named no version it is worked out again. A write that changes
nothing is answered and not done.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from edgewright.local import field_errors
from edgewright.local.apply import apply
from edgewright.local.errors import (
    Refusal,
    already_exists,
    conflict,
    invalid,
    no_generated_name,
    not_found,
)
from edgewright.local.go_format import quote
from edgewright.local.history import Stored, StoreKey
from edgewright.local.served import Rules, Served, Write
from edgewright.local.serving import bodies, decode_errors, metadata
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.write_request import (
    WriteRequest,
    applied_twice,
    namespace_is_going,
    of_kind,
    precondition,
    said_kind,
    strictly,
    unpatchable,
)
from edgewright.local.store import AlreadyThere, Changed, NotThere
from edgewright.runtime.objects import Kind, RawObject

_NAMESPACES = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
_ATTEMPTS = 32
_NAMES_TRIED = 8
_OPTIMISTIC = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, kw_only=True)
class Written:
    """What became of a write."""

    obj: RawObject
    created: bool = False
    warnings: Sequence[str] = ()


Make = Callable[[RawObject], RawObject]
"""The wanted object, from the object as it is; it may change what it is given."""


class _Reserved:
    """What the rules of a kind reserve for an object while it is written: free again, unless the write happened."""

    def __init__(self, rules: Rules, obj: RawObject) -> None:
        self._rules = rules
        self._obj = obj
        self._kept = False

    def keep(self) -> None:
        """The object is stored: what it has is its own."""
        self._kept = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            self._rules.release(self._obj)


class Writes:
    """Creates and changes objects of every kind."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def create(self, asked: WriteRequest, body: Any, duplicates: Sequence[str] = ()) -> Written:
        """Adds an object, in a namespace that is there and stays."""
        obj, warnings = self.decoded(asked, body, duplicates)
        write = self._write(asked, "create")
        if "get" not in asked.served.verbs:
            metadata.give_namespace(obj, asked.served, asked.namespace)
            if owners := self._owners(asked, None, obj):
                metadata.of(obj)["managedFields"] = owners
        if (answer := asked.served.rules.respond(obj, write)) is not None:
            return Written(obj=answer, created=True, warnings=warnings)
        with _warning_of(warnings):
            self._admit(asked, obj)
            return await self._add(asked, obj, warnings)

    async def update(self, asked: WriteRequest, body: Any, duplicates: Sequence[str] = ()) -> Written:
        """Replaces an object by what the client sent."""
        obj, warnings = self.decoded(asked, body, duplicates)
        with _warning_of(warnings):
            metadata.match_name(obj, asked.name)
            if asked.served.rules.create_on_update and not asked.subresource:
                there = self._objects.get(asked.served, asked.namespace, asked.name)
                if there is None:
                    self._objects.check_create(asked.served, asked.namespace, asked.name, asked.user)
                    self._check_absent(asked, obj)
                    version = metadata.of(obj).pop("resourceVersion", None)
                    self._admit(asked, obj)
                    made = await self._add(asked, obj, warnings)
                    if asked.options.dry_run and version:
                        metadata.of(made.obj)["resourceVersion"] = version  # what was not stored keeps what it said
                    return made
            return await self.change(asked, lambda _: copy.deepcopy(obj), warnings=warnings)

    async def patch(
        self, asked: WriteRequest, make: Make, *, duplicates: Sequence[str] = (), shown: str | None = None
    ) -> Written:
        """Changes an object by a patch; `shown` is what a refusal of the result shows instead of the result."""
        warnings: list[str] = []

        def patched(live: RawObject) -> RawObject:
            result = make(live)
            try:
                if not asked.served.custom:
                    decode_errors.recognised(result, b"", asked.served.kind, self._objects.kinds)
                obj, said = self.decoded(asked, result, duplicates, patched=True)
            except Refusal as refusal:
                raise unpatchable(asked.served.kind, result, shown, refusal) from None
            metadata.match_name(obj, asked.name)
            warnings[:] = said
            return obj

        with _warning_of(warnings):
            return await self.change(asked, patched, verb="patch", warnings=warnings)

    async def apply(self, asked: WriteRequest, wanted: RawObject, duplicates: Sequence[str] = ()) -> Written:
        """Server-side apply: creates the object, or changes the fields that the manager has an opinion on."""
        served = asked.served
        warnings = applied_twice(
            asked, duplicates
        )  # unknown fields are refused by the merge, whatever the client wants
        fields = self._objects.kinds.fields(served)

        def merged(live: RawObject | None) -> RawObject:
            obj = apply.merge(
                live,
                wanted,
                fields,
                kind=served.kind,
                name=asked.name,
                manager=asked.manager,
                force=bool(asked.options.force),
                subresource=asked.subresource,
                now=self._objects.now,
                reset=served.rules.unowned(asked.subresource),
                versions=self._objects.kinds.versions(served),
            )
            owners = metadata.of(obj).pop("managedFields", [])
            obj, _ = served.rules.decode(of_kind(obj, served))
            metadata.match_name(obj, asked.name)
            served.rules.complete(obj)
            if owners:
                metadata.of(obj)["managedFields"] = owners
            return obj

        for _ in range(_ATTEMPTS):
            if self._objects.get(served, asked.namespace, asked.name) is None:
                if asked.subresource:
                    raise not_found(served.kind, asked.name)
                if metadata.of(wanted).get("uid"):
                    said = metadata.of(wanted)["uid"]
                    why = f"uid mismatch: the provided object specified uid {said}, and no existing object was found"
                    raise conflict(served.kind, asked.name, why)
                self._objects.check_create(served, asked.namespace, asked.name, asked.user)
                self._admit(asked, wanted)
                obj = merged(None)
                metadata.of(obj).pop("resourceVersion", None)
                try:
                    return await self._add(asked, obj, warnings, owned=True)
                except Refusal as refusal:
                    if refusal.reason != "AlreadyExists":
                        raise
                    continue
            try:
                return await self.change(asked, merged, verb="apply", warnings=warnings)
            except Refusal as refusal:
                if refusal.code != 404 or asked.subresource:
                    raise
        raise conflict(served.kind, asked.name, _OPTIMISTIC)

    async def change(
        self, asked: WriteRequest, make: Make, *, verb: str = "update", warnings: Sequence[str] = ()
    ) -> Written:
        """Works a change out on the object as it is, until one is written.

        The verb `act` is for what the server itself does to an object when something is posted to a subresource of it:
        the rules for what clients may change do not hold then.
        """
        served = asked.served
        for _ in range(_ATTEMPTS):
            stored = self._objects.get(served, asked.namespace, asked.name)
            if stored is None:
                raise not_found(served.kind, asked.name)
            live = self._objects.read(served, stored)
            obj = make(self._objects.read(served, stored))
            self._check_version(asked, obj, live, verb)
            pinned = bool(metadata.of(obj).get("resourceVersion")) and verb in {"update", "scale"}
            metadata.of(obj)["resourceVersion"] = metadata.of(live)["resourceVersion"]
            with _Reserved(served.rules, obj) as reserved:
                said = [] if verb == "act" else self._prepared(asked, obj, live, verb)
                if verb == "apply":
                    served.rules.default(obj)  # nulls count until they have been validated
                if obj == live:
                    return Written(obj=live, warnings=[*warnings, *said])
                if asked.options.dry_run:
                    return Written(obj=obj, warnings=[*warnings, *said])
                try:
                    written = await self._store(served, stored, obj, live)
                except NotThere:
                    raise not_found(served.kind, asked.name) from None
                except Changed:
                    if pinned:
                        raise conflict(served.kind, asked.name, _OPTIMISTIC) from None
                    continue
                reserved.keep()
            # The change that lets a deleted object go is answered and never stored.
            after = obj if _done(served, obj, live) else self._objects.read(served, written)
            return Written(obj=after, warnings=[*warnings, *said])
        raise conflict(served.kind, asked.name, _OPTIMISTIC)

    async def _store(self, served: Served, stored: Stored, obj: RawObject, live: RawObject) -> Stored:
        """Writes a changed object, or removes it when nothing holds a deleted one any more."""
        done = _done(served, obj, live)
        write = self._objects.store.delete if done else self._objects.store.update
        last = live if done else obj
        return await write(stored.key, stored.revision, lambda revision: self._objects.encode(served, last, revision))

    def decoded(
        self, asked: WriteRequest, body: Any, duplicates: Sequence[str], *, patched: bool = False
    ) -> tuple[RawObject, list[str]]:
        """The object of a body: of this kind, without unknown fields, with defaults; and what is to be warned of."""
        obj = of_kind(body, asked.served, patched=patched)
        warnings: list[str] = []
        reset = metadata.of(obj).get("managedFields") == []
        obj, unknown = asked.served.rules.decode(obj)
        if reset:
            metadata.of(obj)["managedFields"] = []  # else an empty list is as good as none
        strictly(asked, unknown, duplicates, warnings)
        asked.served.rules.default(obj)
        return obj, warnings

    async def _add(
        self, asked: WriteRequest, obj: RawObject, warnings: Sequence[str], *, owned: bool = False
    ) -> Written:
        served = asked.served
        prefix = metadata.of(obj).get("generateName") if not metadata.of(obj).get("name") else None
        write = self._write(asked, "create")
        for attempt in range(1, _NAMES_TRIED + 1):
            new = obj if prefix is None else copy.deepcopy(obj)  # with another name it begins again
            with _Reserved(served.rules, new) as reserved:
                said = [*warnings, *self._prepared_new(asked, new, write, owned=owned)]
                name = metadata.of(new)["name"]
                key = StoreKey(served.storage, asked.namespace if served.kind.namespaced else "", name)
                try:
                    if asked.options.dry_run:
                        if self._objects.store.get(key) is not None:
                            raise AlreadyThere(name)
                        return Written(obj=new, created=True, warnings=said)
                    if metadata.of(new).get("resourceVersion"):
                        raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
                    stored = await self._objects.store.create(key, functools.partial(self._objects.encode, served, new))
                except AlreadyThere:
                    if prefix is None:
                        raise self._taken(served, key) from None
                    if attempt == _NAMES_TRIED:
                        raise no_generated_name(served.kind, name) from None
                else:
                    reserved.keep()
                    return Written(obj=self._objects.read(served, stored), created=True, warnings=said)
        raise AssertionError("unreachable")

    def _taken(self, served: Served, key: StoreKey) -> Refusal:
        """That a name is taken, and maybe for how long no more."""
        refusal = already_exists(served.kind, key.name)
        there = self._objects.store.get(key)
        if there is None or "deletionTimestamp" not in bodies.decode_stored(there.body)["metadata"]:
            return refusal
        return Refusal(refusal.code, refusal.reason, f"object is being deleted: {refusal.message}", refusal.details)

    def _prepared_new(self, asked: WriteRequest, obj: RawObject, write: Write, *, owned: bool) -> list[str]:
        """Brings a new object into the state in which it may be stored, or refuses it; gives warnings."""
        served, rules = asked.served, asked.served.rules
        metadata.wipe(obj)
        if not owned:
            about = metadata.of(obj)
            about["managedFields"] = self._owners(asked, None, obj)
            if not about["managedFields"]:
                del about["managedFields"]
        metadata.prepare_create(obj, served, asked.namespace, self._objects.now)
        rules.prepare_create(obj, write)
        found = metadata.created_faults(obj, served) + rules.validate(obj, None, write)
        if found:
            raise invalid(said_kind(obj, served.kind), metadata.of(obj).get("name", ""), found)
        said = rules.warnings(obj, None, write)
        if owned:
            rules.default(obj)
        return said

    def _prepared(self, asked: WriteRequest, obj: RawObject, live: RawObject, verb: str) -> list[str]:
        """Brings a changed object into the state in which it may be stored, or refuses it; gives warnings."""
        served, rules = asked.served, asked.served.rules
        write = self._write(asked, verb)
        if verb not in {"apply", "scale"}:  # there the fields have found their owners already
            metadata.of(obj)["managedFields"] = self._owners(asked, live, obj)
        metadata.prepare_update(obj, live, served, asked.namespace)
        rules.prepare_update(obj, live, write)
        if not metadata.of(obj).get("managedFields"):
            metadata.of(obj).pop("managedFields", None)
        if rules.generations and asked.subresource != "status" and rules.desired(obj) != rules.desired(live):
            metadata.of(obj)["generation"] = metadata.of(live).get("generation", 0) + 1
        apply.keep_times(live, obj)
        found = metadata.updated_faults(obj, live, served) + rules.validate(obj, live, write)
        if found:
            raise invalid(said_kind(obj, served.kind), asked.name, found)
        return rules.warnings(obj, live, write)

    def _owners(self, asked: WriteRequest, live: RawObject | None, obj: RawObject) -> list[RawObject]:
        return apply.record(
            live,
            obj,
            self._objects.kinds.fields(asked.served),
            manager=asked.manager,
            api_version=asked.served.kind.api_version,
            subresource=asked.subresource,
            now=self._objects.now,
            reset=asked.served.rules.unowned(asked.subresource),
            versions=self._objects.kinds.versions(asked.served),
        )

    def _check_absent(self, asked: WriteRequest, obj: RawObject) -> None:
        """Refuses to create an object by an update that takes it to be a certain one."""
        if uid := metadata.of(obj).get("uid"):
            raise conflict(asked.served.kind, asked.name, precondition(asked, uid, ""))
        _check_number(metadata.of(obj).get("resourceVersion") or "")

    def _check_version(self, asked: WriteRequest, obj: RawObject, live: RawObject, verb: str) -> None:
        """Refuses a change that was worked out on another state of the object, or on another object."""
        kind, wanted, there = asked.served.kind, metadata.of(obj), metadata.of(live)
        uid = wanted.get("uid")
        if uid and uid != there.get("uid") and verb == "update":
            raise conflict(kind, asked.name, precondition(asked, uid, there.get("uid", "")))
        version = wanted.get("resourceVersion") or ""
        if not version:
            if not asked.served.rules.unconditional_update and verb == "update":
                cause = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
                shown = Kind(group=kind.group, version=kind.version, kind=kind.plural, plural=kind.plural)
                raise invalid(shown, asked.name, [cause])
            return
        if version != there["resourceVersion"]:
            _check_number(version)
            raise conflict(kind, asked.name, _OPTIMISTIC)

    def _admit(self, asked: WriteRequest, obj: RawObject) -> None:
        """New objects need a namespace that is there and is not going away."""
        kind, namespace = asked.served.kind, asked.namespace
        if not kind.namespaced:
            return
        stored = self._objects.store.get(StoreKey(_NAMESPACES.resource, "", namespace))
        if stored is None:
            raise not_found(_NAMESPACES, namespace)
        if (
            b'"deletionTimestamp"' in stored.body
            and "deletionTimestamp" in bodies.decode_stored(stored.body)["metadata"]
        ):
            raise namespace_is_going(kind, metadata.of(obj).get("name") or "", namespace)

    def _write(self, asked: WriteRequest, verb: str) -> Write:
        return self._objects.write(
            verb,
            subresource=asked.subresource,
            user=asked.user,
            dry_run=asked.options.dry_run,
        )


def _done(served: Served, obj: RawObject, live: RawObject) -> bool:
    """Whether nothing holds a deleted object any more."""
    before = metadata.of(live)
    return (
        "deletionTimestamp" in before
        and not before.get("deletionGracePeriodSeconds")
        and not metadata.of(obj).get("finalizers")
        and not served.rules.held(obj)
    )


def _check_number(version: str) -> None:
    if version and not (version.isascii() and version.isdigit()):
        raise Refusal(500, "", f"strconv.ParseUint: parsing {quote(version)}: invalid syntax")


@contextmanager
def _warning_of(warnings: Sequence[str]) -> Iterator[None]:
    """A refusal within also warns of what was found before."""
    try:
        yield
    except Refusal as refusal:
        refusal.warnings = [*warnings, *refusal.warnings]
        raise
