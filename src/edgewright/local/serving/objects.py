"""Objects between the store and an answer: keys, the stored form, the form of the version that a request speaks.

Every step that touches the store goes through here. Where the stored bytes are what the client gets, they are not
decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from edgewright.local.access.attributes import Attributes
from edgewright.local.access.authentication import ADMINISTRATOR, Recognised, User
from edgewright.local.access.authorization import Authorizer
from edgewright.local.history import Stored, StoreKey
from edgewright.local.kinds import Kinds
from edgewright.local.served import Served, Write
from edgewright.local.serving import bodies
from edgewright.local.store import Store
from edgewright.runtime.clock import Clock
from edgewright.runtime.objects import RawObject


class Objects:
    """The objects of all kinds, as the steps of a request see them."""

    def __init__(self, store: Store, kinds: Kinds, clock: Clock) -> None:
        self.store = store
        self.kinds = kinds
        self.clock = clock
        self.rights = Authorizer(store)
        """Who may do what, by the roles and bindings of the store."""
        self.recognise: Callable[[str, Sequence[str]], Recognised] = lambda _token, _audiences: Recognised()
        """Whom a token stands for; set where tokens are believed."""

    @property
    def now(self) -> datetime:
        """The time that goes into objects."""
        return self.clock.now()

    def get(self, served: Served, namespace: str, name: str) -> Stored | None:
        """What the store has under a name."""
        return self.store.get(StoreKey(served.storage, namespace if served.kind.namespaced else "", name))

    def read(self, served: Served, stored: Stored) -> RawObject:
        """A stored object in the form of a version; the caller may change it."""
        return self.decode(served, stored.body)

    def decode(self, served: Served, body: bytes) -> RawObject:
        """An object in the form of a version from the stored form."""
        obj = bodies.decode_stored(body)
        if not served.rules.reads_as_stored:
            obj = served.rules.read(obj)
        obj["apiVersion"] = served.kind.api_version
        return obj

    def shown(self, served: Served, stored: Stored) -> bytes:
        """The JSON of a stored object in the form of a version."""
        if served.rules.reads_as_stored and served.kind.api_version == served.storage_api_version:
            return stored.body
        return bodies.encode(self.read(served, stored))

    def encode(self, served: Served, obj: RawObject, revision: int) -> bytes:
        """The stored form of an object that a write leaves at a revision."""
        stored = served.rules.to_store(obj)
        metadata = {**stored["metadata"], "resourceVersion": str(revision)}
        kind = {"kind": stored["kind"], "apiVersion": served.storage_api_version}
        # A copy, because it is kept: the encoder leaves room behind what it has written, half as much again.
        return bytes(memoryview(bodies.encode({**kind, **stored, **kind, "metadata": metadata})))

    def write(self, verb: str, *, subresource: str = "", user: User = ADMINISTRATOR, dry_run: bool = False) -> Write:
        """What the rules of a kind are told of a write."""
        return Write(
            verb=verb,
            now=self.now,
            subresource=subresource,
            user=user.name,
            groups=user.groups,
            uid=user.uid,
            extra=user.extra,
            dry_run=dry_run,
            find=self.find,
            every=self._every,
            rights=self.rights,
            recognise=self.recognise,
        )

    def check_create(self, served: Served, namespace: str, name: str, user: User) -> None:
        """Refuses somebody who may change objects of a kind, but not make new ones by that."""
        kind = served.kind
        asked = Attributes(verb="create", group=kind.group, resource=kind.plural, name=name, namespace=namespace)
        self.rights.check(asked, user)

    def find(self, resource: str, namespace: str, name: str) -> RawObject | None:
        """The stored object of a resource, namespace and name, in the form in which it is stored; only to be read."""
        stored = self.store.get(StoreKey(resource, namespace, name))
        return None if stored is None else bodies.decode_stored(stored.body)

    def _every(self, resource: str) -> Iterable[RawObject]:
        return (bodies.decode_stored(stored.body) for stored in self.store.list(resource).items)
