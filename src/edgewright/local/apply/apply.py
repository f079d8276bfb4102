"""Server-side apply, with the semantics of kube-apiserver.

The request path calls `merge` with the live object and the applied one, and stores what comes out. It is pure: it never
defaults, validates or writes. Who owns what after writes of other kinds is told by `ownership`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from edgewright.local.apply import managed
from edgewright.local.apply.combine import combined, faults, removed, with_parents
from edgewright.local.apply.compare import Comparison, UnkeyedError, compare, fields_of, same
from edgewright.local.apply.fieldtypes import FieldType, zero
from edgewright.local.apply.managed import FieldSet, Managers, Owned, Owner
from edgewright.local.apply.ownership import (
    NEVER_OWNED,
    UndeclaredError,
    Versions,
    before_creation,
    capped,
    compared,
    identity,
    in_schema,
    in_versions,
    keep_times,
    left_with,
    read,
    record,
    reset_fields,
    stamp,
    unmanaged,
    updated,
)
from edgewright.local.errors import Refusal, bad_request
from edgewright.local.go_format import compact
from edgewright.runtime.objects import Kind, RawObject

__all__ = ["LAST_APPLIED", "keep_times", "merge", "record"]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Where client-side apply keeps what was applied."""
_MAX_ANNOTATION_BYTES: Final = 256 * 1024


class _ConflictsError(Exception):
    """Fields would change that others own."""

    def __init__(self, conflicts: dict[Owner, FieldSet]) -> None:
        super().__init__()
        self.conflicts = conflicts


def merge(
    live: RawObject | None,
    wanted: RawObject,
    fields: FieldType,
    *,
    kind: Kind,
    name: str,
    manager: str,
    force: bool = False,
    subresource: str = "",
    now: datetime,
    reset: Sequence[Sequence[str]] = (),
    versions: Versions | None = None,
) -> RawObject:
    """The object after a server-side apply of `wanted`, with its managedFields; refuses to take what others own.

    The object is neither defaulted nor checked. With no live object it is the one to create. `versions` are the other
    versions of a custom kind; an object that cannot be in one in which somebody owns fields is refused.
    """
    current = live
    if current is None:
        current = {"apiVersion": kind.api_version, "kind": kind.kind, **copy.deepcopy(zero(fields))}
    try:
        _checked(wanted, fields, kind, name)
        step = _Apply(
            current,
            wanted,
            fields,
            api_version=kind.api_version,
            manager=manager,
            subresource=subresource,
            now=now,
            ignored=reset_fields(reset),
            versions=versions,
        )
        result = step.forced() if force else step.unforced()
        if manager == "kubectl":
            result = _with_last_applied(result, wanted)
        # Neither the live nor the wanted object may change when somebody fills in the result.
        return copy.deepcopy(result)
    except _ConflictsError as refused:
        raise _refusal(refused.conflicts) from None
    except UnkeyedError as why:
        raise _internal(f"failed to merge config: {why}") from None
    except UndeclaredError as why:
        raise _internal(str(why)) from None
    except RecursionError:
        raise bad_request("the object is nested too deeply") from None


def _checked(wanted: RawObject, fields: FieldType, kind: Kind, name: str) -> None:
    group, _, version = str(wanted.get("apiVersion", "")).rpartition("/")
    given = f"{group}/{version}, Kind={wanted.get('kind', '')}"
    if wanted.get("apiVersion") != kind.api_version or wanted.get("kind") != kind.kind:
        raise bad_request(f"invalid object type: {given}")
    metadata = wanted.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")
    wrong = faults(wanted, fields)
    if wrong:
        told = wrong[0] if len(wrong) == 1 else "\n".join(["errors:", *(f"  {each}" for each in wrong)])
        namespace = metadata.get("namespace", "") if isinstance(metadata, dict) else ""
        named = metadata.get("name", name) if isinstance(metadata, dict) else name
        raise _internal(f"failed to create typed patch object ({namespace}/{named}; {given}): {told}")


def _internal(message: str) -> Refusal:
    """What the real server gives no reason for."""
    return Refusal(500, "", message)


class _Apply:
    """One apply, that may be tried twice: `kubectl` takes over what its client-side apply owned."""

    def __init__(
        self,
        live: RawObject,
        wanted: RawObject,
        fields: FieldType,
        *,
        api_version: str,
        manager: str,
        subresource: str,
        now: datetime,
        ignored: FieldSet,
        versions: Versions | None,
    ) -> None:
        self._live = live
        self._wanted = wanted
        self._fields = fields
        self._version = api_version
        self._manager = manager
        self._owner = managed.applier(manager, subresource)
        self._now = now
        self._ignored = ignored
        managers = read(live.get("metadata", {}).get("managedFields"))
        if not managers:
            # What is there belongs to somebody before us, so that the first apply does not silently take it.
            before = managed.updater("before-first-apply", self._version, subresource)
            change = compared(before_creation(live, fields), live, fields, ignored)
            managers = capped(updated({}, change, before, self._version, now))
        self._versions = versions
        self._managers = in_schema(in_versions(managers, [live], api_version, versions), fields)

    def unforced(self) -> RawObject:
        """The result, or the conflicts that are left."""
        try:
            return self._result(force=False)
        except _ConflictsError as refused:
            if self._manager != "kubectl" or (allowed := self._client_side()) is None:
                raise
            left = {owner: managed.difference(found, allowed) for owner, found in refused.conflicts.items()}
            left = {owner: found for owner, found in left.items() if found}
            if left:
                raise _ConflictsError(left) from None
        return self.forced()

    def forced(self) -> RawObject:
        """The result, with fields taken from whoever owns them."""
        return self._result(force=True)

    def _result(self, *, force: bool) -> RawObject:
        live = unmanaged(self._live)
        applied = managed.without(fields_of(self._wanted, self._fields), self._ignored)
        last = self._managers.get(self._owner)
        managers = {**self._managers, self._owner: Owned(applied, self._version, last.time if last else None)}
        merged = combined(live, unmanaged(self._wanted), self._fields)
        if last is not None and last.fields:
            merged = self._pruned(merged, managers, last.fields)
        in_versions(self._managers, [merged], self._version, self._versions)
        change = compare(live, merged, self._fields).but(self._ignored)
        managers = self._settled(managers, change, force=force)
        if not same(live, merged):
            mine = managers.get(self._owner)
            if mine is not None:
                managers[self._owner] = Owned(mine.fields, mine.api_version, stamp(self._now))
        return _managed(merged, managed.write(managers))

    def _settled(self, managers: Managers, change: Comparison, *, force: bool) -> Managers:
        """The owners after the change; with conflicts only by force."""
        others = {owner: owned for owner, owned in managers.items() if owner != self._owner}
        taken = managed.union(change.modified, change.added)
        conflicts = {}
        for owner, owned in others.items():
            if found := managed.intersection(owned.fields, taken):
                conflicts[owner] = found
        if conflicts and not force:
            raise _ConflictsError(conflicts)
        settled = left_with(others, taken, change.removed)
        mine = managed.difference(managers[self._owner].fields, NEVER_OWNED)
        if mine:
            settled[self._owner] = managers[self._owner].but(mine)
        return settled

    def _pruned(self, merged: RawObject, managers: Managers, last: FieldSet) -> RawObject:
        """The merged object without what this manager applied last time and now nobody owns."""
        fields = self._fields
        last = with_parents(last, fields)
        pruned = removed(merged, fields, last) or {}
        everything = with_parents(fields_of(merged, fields), fields)
        owned: FieldSet = {}
        for each in managers.values():
            owned = managed.union(owned, each.fields)
        kept = managed.union(with_parents(fields_of(pruned, fields), fields), with_parents(owned, fields))
        pruned = removed(merged, fields, managed.difference(everything, kept)) or {}
        # Only what this manager owned may go: fields of nobody stay.
        gone = managed.difference(everything, with_parents(fields_of(pruned, fields), fields))
        result: RawObject = removed(merged, fields, managed.intersection(gone, last)) or {}
        return result

    def _client_side(self) -> FieldSet | None:
        """The fields that client-side apply set and that are still as it set them; None where it was not used."""
        annotations = self._live.get("metadata", {}).get("annotations") or {}
        text = annotations.get(LAST_APPLIED) if isinstance(annotations, dict) else None
        if not text or not isinstance(text, str):
            return None
        try:
            last = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(last, dict) or last.get("apiVersion") != self._version:
            return None
        if faults(last, self._fields) or faults(unmanaged(self._live), self._fields):
            return None
        change = compare(last, self._live, self._fields)
        allowed = fields_of(last, self._fields)
        for differing in (change.modified, change.added, change.removed):
            allowed = managed.difference(allowed, differing)
        return allowed


def _managed(obj: RawObject, entries: list[RawObject]) -> RawObject:
    metadata = dict(obj.get("metadata") or {})
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}


def _with_last_applied(result: RawObject, wanted: RawObject) -> RawObject:
    """Keeps the annotation of client-side apply true, so that people can go back to it."""
    annotations = result["metadata"].get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return result
    applied = dict(wanted)
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
        others = {name: value for name, value in metadata["annotations"].items() if name != LAST_APPLIED}
        applied["metadata"] = {**metadata, "annotations": others}
    annotations = {**annotations, LAST_APPLIED: compact(applied) + "\n"}
    if sum(len(f"{name}{value}".encode()) for name, value in annotations.items()) > _MAX_ANNOTATION_BYTES:
        del annotations[LAST_APPLIED]
    return {**result, "metadata": {**result["metadata"], "annotations": annotations}}


def _refusal(conflicts: dict[Owner, FieldSet]) -> Refusal:
    ordered = sorted(conflicts.items(), key=lambda each: identity(each[0]))
    causes = []
    sentences = []
    for owner, found in ordered:
        sentences.append(f"conflicts with {owner}:")
        for path in managed.paths(found):
            where = managed.written(path)
            causes.append({"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": where})
            sentences.append(f"- {where}")
    told = "\n".join(sentences)
    message = f"Apply failed with {len(causes)} conflicts: {told}"
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    return Refusal(409, "Conflict", message, {"causes": causes})
