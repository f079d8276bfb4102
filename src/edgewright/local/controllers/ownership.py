"""Who belongs to whom: a graph of all objects by uid, and the decisions of garbage collection over it. No I/O.

`garbage` feeds it with what its watches bring and asks it what to look at and what to do. An owner that is referred to
and was never seen is in the graph too (as one that is not `seen`), until somebody looks. Only what the decisions need
is kept of an object, because every object of the cluster is here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from edgewright.runtime import Key, Kind, ObjectMeta, OwnerReference

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

Propagation = Literal["Foreground", "Background", "Orphan"]


class Owner(Enum):
    """How an owner reference stands."""

    SOLID = "there"
    WAITING = "being deleted, and waiting for what belongs to it"
    ABSENT = "gone"
    UNKNOWN = "of a kind that is not served, or that cannot own this object"


class Member:
    """An object in the graph."""

    __slots__ = ("dependents", "key", "kind", "orphaning", "owners", "uid", "waiting")

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.kind: Kind | None = None
        self.key = Key("", "")
        self.owners: tuple[OwnerReference, ...] = ()
        self.dependents: dict[str, None] | None = None  # uids; a dict as an ordered set, and none for most objects
        self.waiting = False
        self.orphaning = False

    @property
    def seen(self) -> bool:
        """Whether the object itself was seen, and not only a reference to it."""
        return self.kind is not None

    def is_meant_by(self, reference: OwnerReference, dependent: Member) -> bool:
        """Whether a reference with this object's uid also has its kind and name, from a place where that can be."""
        return (
            self.kind is not None
            and reference.kind == self.kind.kind
            and reference.api_version.rpartition("/")[0] == self.kind.group
            and reference.name == self.key.name
            and self.key.namespace in {"", dependent.key.namespace}
        )


class Graph:
    """All objects and their owner references; each change answers with the uids of those to look at now."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}

    def __len__(self) -> int:
        """How many objects there are, with those that are only referred to."""
        return len(self._members)

    def get(self, uid: str) -> Member | None:
        """The object with this uid."""
        return self._members.get(uid)

    def dependents(self, member: Member) -> Iterator[tuple[Member, OwnerReference]]:
        """What belongs to an object, with the reference that says so."""
        for uid in tuple(member.dependents or ()):
            dependent = self._members[uid]
            for reference in dependent.owners:
                if reference.uid == member.uid:
                    yield dependent, reference

    def put(self, kind: Kind, metadata: ObjectMeta) -> set[str]:
        """The object is so now."""
        member = self._members.get(metadata.uid)
        if member is None:
            member = self._members[metadata.uid] = Member(metadata.uid)
        look: set[str] = set()
        if not member.seen:
            member.kind, member.key = kind, Key(metadata.namespace, metadata.name)
            look.update(
                child.uid for child, reference in self.dependents(member) if not member.is_meant_by(reference, child)
            )
        look |= self._change_owners(member, metadata.owner_references)
        deleting = metadata.deletion_timestamp is not None
        waiting = deleting and FOREGROUND in metadata.finalizers
        orphaning = deleting and ORPHAN in metadata.finalizers
        if (waiting and not member.waiting) or (orphaning and not member.orphaning):
            look.add(member.uid)
            look.update(member.dependents or ())
        member.waiting, member.orphaning = waiting, orphaning
        return look

    def remove(self, uid: str) -> set[str]:
        """The object is gone: all that belonged to it, and owners that waited for it, are to be looked at."""
        member = self._members.pop(uid, None)
        if member is None:
            return set()
        return set(member.dependents or ()) | self._leave(member, member.owners)

    def forget(self, uid: str) -> None:
        """Nothing is known of the object any more, as its kind is not served: it need not be gone."""
        member = self._members.get(uid)
        if member is None:
            return
        self._leave(member, member.owners)
        member.kind, member.owners, member.waiting, member.orphaning = None, (), False, False
        if not member.dependents:
            del self._members[uid]

    def unseen(self) -> list[str]:
        """The uids of those that are referred to and were never seen."""
        return [member.uid for member in self._members.values() if not member.seen]

    def state(self, member: Member, reference: OwnerReference) -> Owner | None:
        """How one of the object's owner references stands; None where the graph does not know."""
        owner = self._members.get(reference.uid)
        if owner is None or not owner.is_meant_by(reference, member):
            return None
        return Owner.WAITING if owner.waiting else Owner.SOLID

    def settled(self, member: Member) -> bool:
        """Whether nothing needs to be done about an object, as far as the graph knows."""
        if member.waiting or member.orphaning:
            return False
        return all(self.state(member, reference) is Owner.SOLID for reference in member.owners)

    def _change_owners(self, member: Member, owners: tuple[OwnerReference, ...]) -> set[str]:
        if owners == member.owners:
            return set()
        before = {reference.uid: reference for reference in member.owners}
        after = {reference.uid: reference for reference in owners}
        # An owner that this object held back and does not any more.
        look = {
            uid
            for uid, reference in after.items()
            if uid in before
            and before[uid].block_owner_deletion
            and not reference.block_owner_deletion
            and self._waits(uid)
        }
        look |= self._leave(member, (reference for uid, reference in before.items() if uid not in after))
        member.owners = owners
        for uid, reference in after.items():
            if uid in before and before[uid] == reference:
                continue
            owner = self._members.get(uid)
            if owner is None:
                owner = self._members[uid] = Member(uid)
                look.add(uid)
            elif not owner.seen:
                look.add(uid)
            elif owner.waiting or not owner.is_meant_by(reference, member):
                look.add(member.uid)
            if owner.dependents is None:
                owner.dependents = {}
            owner.dependents[member.uid] = None
        return look

    def _leave(self, member: Member, owners: Iterable[OwnerReference]) -> set[str]:
        look: set[str] = set()
        for reference in owners:
            owner = self._members.get(reference.uid)
            if owner is None or owner.dependents is None:
                continue
            owner.dependents.pop(member.uid, None)
            if owner.waiting:
                look.add(owner.uid)
            if not owner.dependents:
                owner.dependents = None
                if not owner.seen:
                    del self._members[owner.uid]
        return look

    def _waits(self, uid: str) -> bool:
        owner = self._members.get(uid)
        return owner is not None and owner.waiting


@dataclass(frozen=True)
class Keep:
    """The object stays as it is."""


@dataclass(frozen=True)
class Strip:
    """The object stays, without its references to these owners."""

    uids: frozenset[str]


@dataclass(frozen=True)
class Delete:
    """The object goes; `unblock` first lets go the owners that would wait for it in a circle."""

    propagation: Propagation
    unblock: bool = False


def decide(
    owners: Mapping[str, Owner], *, finalizers: Collection[str], has_dependents: bool, in_circle: bool
) -> Keep | Strip | Delete:
    """What becomes of an object, by how each of its owners stands (by uid).

    One owner that is there keeps it; one of whom nothing is known keeps it as it is. `in_circle`: something that
    belongs to the object waits for its own dependents to go.
    """
    states = set(owners.values())
    if not owners or Owner.UNKNOWN in states:
        return Keep()
    if Owner.SOLID in states:
        going = frozenset(uid for uid, state in owners.items() if state is not Owner.SOLID)
        return Strip(going) if going else Keep()
    if Owner.WAITING in states and has_dependents:
        return Delete("Foreground", unblock=in_circle)
    if ORPHAN in finalizers:
        return Delete("Orphan")
    return Delete("Foreground" if FOREGROUND in finalizers else "Background")
