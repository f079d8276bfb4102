"""Deleting objects: at once, after a grace period, or when the last finalizer is gone.

`server` calls `delete` and `delete_all`. Whether an object may live on is decided on its state as it is now and written
only if it is still so.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from edgewright.local.access.authentication import ADMINISTRATOR, User
from edgewright.local.errors import Refusal, conflict, forbidden, not_found
from edgewright.local.history import Stored
from edgewright.local.served import Served
from edgewright.local.serving import metadata
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.options import DeleteOptions
from edgewright.local.store import Changed, NotThere
from edgewright.runtime.objects import Kind, RawObject

_ATTEMPTS = 32
_PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_KEPT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class Deleted(NamedTuple):
    """What became of a deletion: the object as it was last, and whether it is gone."""

    obj: RawObject
    gone: bool


def warnings(served: Served, options: DeleteOptions) -> Sequence[str]:
    """What whoever deletes objects of a kind may not have meant: Jobs alone leave their Pods where nothing is said."""
    return [_PRESERVED] if served.rules.orphans and options.policy is None else []


class Deletes:
    """Deletes objects of every kind."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def delete(
        self, served: Served, namespace: str, name: str, options: DeleteOptions, *, user: User = ADMINISTRATOR
    ) -> Deleted:
        """Deletes one object, or marks it where something holds it."""
        if served.storage == "namespaces" and name in _KEPT_NAMESPACES:
            raise forbidden(served.kind, name, "this namespace may not be deleted")
        for _ in range(_ATTEMPTS):
            stored = self._objects.get(served, namespace, name)
            if stored is None:
                raise not_found(served.kind, name)
            try:
                return await self._delete(served, stored, options, user)
            except Changed:
                continue
            except NotThere:
                raise not_found(served.kind, name) from None
        raise conflict(served.kind, name, "the object has been modified too often while it was to be deleted")

    async def delete_all(self, served: Served, found: Sequence[Stored], options: DeleteOptions, *, user: User) -> None:
        """Deletes what a list found; what is gone meanwhile is no error."""
        for stored in found:
            try:
                await self.delete(served, stored.key.namespace, stored.key.name, options, user=user)
            except Refusal as refusal:
                if refusal.code != 404:
                    raise

    async def _delete(self, served: Served, stored: Stored, options: DeleteOptions, user: User) -> Deleted:
        rules = served.rules
        obj = self._objects.read(served, stored)
        about = metadata.of(obj)
        _check_preconditions(served.kind, about, options, held=rules.held(obj))
        grace = _grace(served, obj, options, self._objects.now)
        if grace is None:
            return Deleted(obj, gone=False)
        before = self._objects.read(served, stored)
        if "deletionTimestamp" not in about or not about.get("deletionGracePeriodSeconds") or grace:
            _set_finalizers(about, options.policy if rules.has_dependents else "", orphans=rules.orphans)
        if about.get("finalizers") or grace or rules.held(obj):
            _mark(about, grace, self._objects.now)
            write = self._objects.write("delete", user=user, dry_run=options.dry_run)
            if rules.held(obj) and "deletionGracePeriodSeconds" not in metadata.of(before):
                del about["deletionGracePeriodSeconds"]  # the real server marks such kinds in a way of its own
            rules.prepare_delete(obj, write)
            if obj == before or options.dry_run:
                return Deleted(obj, gone=False)
            written = await self._objects.store.update(
                stored.key, stored.revision, lambda revision: self._objects.encode(served, obj, revision)
            )
            return Deleted(self._objects.read(served, written), gone=False)
        if options.dry_run:
            return Deleted(obj, gone=True)
        if rules.graceful:
            _mark(about, 0, self._objects.now)
            if metadata.of(before).get("deletionGracePeriodSeconds"):
                # Who watches sees that the time is over before it sees that the object is gone.
                stored = await self._objects.store.update(
                    stored.key, stored.revision, lambda revision: self._objects.encode(served, obj, revision)
                )
        gone = await self._objects.store.delete(
            stored.key, stored.revision, lambda revision: self._objects.encode(served, obj, revision)
        )
        return Deleted(self._objects.read(served, gone), gone=True)


def _check_preconditions(kind: Kind, about: RawObject, options: DeleteOptions, *, held: bool) -> None:
    """Refuses to delete another object than was meant; kinds that hold their objects say so in other words."""
    if held:
        for what, name in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
            wanted = options.uid if name == "uid" else options.resource_version
            if wanted is not None and wanted != about.get(name):
                why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {about.get(name)}"
                raise conflict(kind, about["name"], why)
    shown = Kind(group=kind.group, version=kind.version, kind=kind.kind, plural=kind.kind)
    if options.uid is not None and options.uid != about.get("uid"):
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({about.get('uid')}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(shown, about["name"], why)
    if options.resource_version is not None and options.resource_version != about.get("resourceVersion"):
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            f"in record ({about.get('resourceVersion')}). The object might have been modified"
        )
        raise conflict(shown, about["name"], why)


def _grace(served: Served, obj: RawObject, options: DeleteOptions, now: datetime) -> int | None:
    """How long the object lives on; None when it is being deleted already and no sooner end is asked for."""
    asked = options.grace_seconds
    if asked is not None and asked < 0:
        asked = 1
    about = metadata.of(obj)
    granted = about.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in about:
        return served.rules.grace_seconds(obj, asked)
    if not granted:
        return 0
    if asked is None or asked >= granted:
        return None
    ends = datetime.strptime(about["deletionTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    sooner = ends - timedelta(seconds=granted - asked)
    if sooner < now:
        # It should be over by now; whoever ends it graciously still gets to see that it is being deleted.
        sooner, asked = now, min(asked, 1)
    about["deletionTimestamp"] = metadata.timestamp(sooner)
    about["deletionGracePeriodSeconds"] = asked
    return asked


def _set_finalizers(about: RawObject, policy: str | None, *, orphans: bool) -> None:
    """What becomes of the dependents is remembered as a finalizer, which the garbage collector removes."""
    before = about.get("finalizers") or []
    kept = [each for each in before if each not in (metadata.ORPHAN, metadata.FOREGROUND)]
    if policy is None:
        default = "Orphan" if orphans else ""
        policy = "Orphan" if metadata.ORPHAN in before else "Foreground" if metadata.FOREGROUND in before else default
    if policy == "Orphan":
        kept.append(metadata.ORPHAN)
    elif policy == "Foreground":
        kept.append(metadata.FOREGROUND)
    if set(kept) == set(before):
        return
    if kept:
        about["finalizers"] = kept
    else:
        about.pop("finalizers", None)


def _mark(about: RawObject, grace: int, now: datetime) -> None:
    """Says in the object that its deletion has begun."""
    if "deletionTimestamp" not in about and about.get("generation", 0) > 0:
        about["generation"] += 1
    ends = metadata.timestamp(now + timedelta(seconds=grace))
    if "deletionTimestamp" not in about or about["deletionTimestamp"] > ends:
        about["deletionTimestamp"] = ends
    about["deletionGracePeriodSeconds"] = grace
