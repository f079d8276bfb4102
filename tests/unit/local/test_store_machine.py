"""The store against a plain model, by random sequences of what can be done to it: writes in groups, reopening, cuts.

The model is a list of all states that there ever were. Whatever the store is asked, now or of an older revision, by a
list or by a watch, the model knows the answer.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edgewright.local.history import Change, ChangeType, Expired, Stored, StoreKey
from edgewright.local.store import AlreadyThere, Changed, NotThere, Store
from edgewright.runtime.clock import VirtualClock

T = TypeVar("T")
State = dict[StoreKey, tuple[int, int]]
"""Of each object the revision that wrote it and the revision that created it."""

KEYS = [StoreKey(resource, namespace, name) for resource in ("pods", "nodes") for namespace in "ab" for name in "xyz"]
WRITES = st.tuples(st.sampled_from(["create", "update", "delete", "stale"]), st.sampled_from(KEYS))


def body(revision: int) -> bytes:
    return b'{"rv":%d}' % revision


class Machine(RuleBasedStateMachine):
    """A store, and what should be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.states: list[State] = [{}]
        """The state after each revision."""
        self.changes: list[Change] = []
        self.compacted = 0
        self.store = self.run(Store.open(self.directory, clock=VirtualClock()))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.directory)

    @rule(writes=st.lists(WRITES, min_size=1, max_size=6))
    def write_a_group(self, writes: list[tuple[str, StoreKey]]) -> None:
        """Writes that come at once, each decided on what the ones before it leave."""
        expected = [self._decide(verb, key) for verb, key in writes]

        async def all_at_once() -> Sequence[object]:
            answers: Sequence[object] = await asyncio.gather(*(asked for asked, _ in expected), return_exceptions=True)
            return answers

        for found, (_, wanted) in zip(self.run(all_at_once()), expected, strict=True):
            if isinstance(wanted, Stored):
                assert found == wanted
            else:
                assert isinstance(found, wanted)

    def _decide(self, verb: str, key: StoreKey) -> tuple[Coroutine[Any, Any, Stored], Stored | type[Exception]]:
        """The call and its right answer; the model goes on."""
        before, revision = self.states[-1], len(self.states)
        there = before.get(key)
        if verb == "create":
            call = self.store.create(key, body)
            if there is not None:
                return call, AlreadyThere
            return call, self._step(ChangeType.ADDED, Stored(key, revision, revision, body(revision)), None)
        expected = (there[0] if there else 0) + (verb == "stale")
        call = self.store.delete(key, expected) if verb == "delete" else self.store.update(key, expected, body)
        if there is None:
            return call, NotThere
        if verb == "stale":
            return call, Changed
        previous = Stored(key, *there, body(there[0]))
        if verb == "delete":
            return call, self._step(ChangeType.DELETED, Stored(key, revision, there[1], previous.body), previous)
        return call, self._step(ChangeType.MODIFIED, Stored(key, revision, there[1], body(revision)), previous)

    def _step(self, kind: ChangeType, stored: Stored, previous: Stored | None) -> Stored:
        after = {key: value for key, value in self.states[-1].items() if key != stored.key}
        if kind is not ChangeType.DELETED:
            after[stored.key] = (stored.revision, stored.created)
        self.states.append(after)
        self.changes.append(Change(kind, stored, previous))
        return stored

    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.store = self.run(Store.open(self.directory, clock=VirtualClock()))

    @precondition(lambda self: len(self.states) > 1)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        upto = data.draw(st.integers(0, len(self.states) + 1))
        self.run(self.store.compact(upto))
        self.compacted = max(self.compacted, min(upto, len(self.states) - 1))

    @rule(data=st.data(), resource=st.sampled_from(["pods", "nodes"]), namespace=st.sampled_from([None, "a"]))
    def watch_from_some_revision(self, data: st.DataObject, resource: str, namespace: str | None) -> None:
        """All that happened since, in order, each once; Expired where something of it is forgotten."""
        start = data.draw(st.integers(0, len(self.states) - 1))
        if start < self.compacted:
            with pytest.raises(Expired):
                self.store.history.subscribe(resource, namespace, start)
            return
        wanted = [
            change
            for change in self.changes[start:]
            if change.stored.key.resource == resource and namespace in (None, change.stored.key.namespace)
        ]

        async def followed() -> list[Change]:
            seen: list[Change] = []
            with self.store.history.subscribe(resource, namespace, start) as subscription:
                while len(seen) < len(wanted):
                    seen += await anext(subscription)
            return seen

        assert self.run(followed()) == wanted

    @rule(data=st.data(), limit=st.integers(0, 3))
    def list_some_revision(self, data: st.DataObject, limit: int) -> None:
        revision = data.draw(st.integers(0, len(self.states) - 1))
        call = self.store.list_at(revision, "pods", after=None, limit=limit)
        if revision < self.compacted:
            with pytest.raises(Expired):
                self.run(call)
            return
        listing = self.run(call)
        wanted = sorted(key for key in self.states[revision] if key.resource == "pods")
        shown = wanted[:limit] if limit else wanted
        assert [(each.key, each.revision) for each in listing.items] == [
            (key, self.states[revision][key][0]) for key in shown
        ]
        assert (listing.revision, listing.remaining) == (revision, len(wanted) - len(shown))

    @invariant()
    def holds_what_it_should(self) -> None:
        state = self.states[-1]
        found = [each for resource in ("nodes", "pods") for each in self.store.list(resource).items]
        assert {each.key: (each.revision, each.created) for each in found} == state
        assert [each.key for each in found] == sorted(state)
        assert all(each.body == body(each.revision) for each in found)
        assert all(self.store.get(each.key) == each for each in found)
        assert (self.store.revision, self.store.history.compacted) == (len(self.states) - 1, self.compacted)


# Each step goes to the disk: fewer examples than elsewhere.
Machine.TestCase.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=20)
TestStore = Machine.TestCase
