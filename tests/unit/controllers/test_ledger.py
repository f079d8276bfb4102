"""The ledger: in whatever order answers and events arrive, what we wrote is there and what ended is not."""

from __future__ import annotations

import pytest

from edgewright.controllers import ledger as module
from edgewright.controllers.ledger import Ledger
from edgewright.runtime.cache import Cache
from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from tests.unit.runtime.fakeserver import Widget, key, typed, widget


def state(version: int, uid: str = "first") -> Widget:
    return typed(widget("a", version, uid=uid))


A = key("a")


class Stage:
    """A cache that a test feeds, and a ledger on it."""

    def __init__(self) -> None:
        client = Client(Config(server="http://127.0.0.1:1"))
        self.cache: Cache[Widget] = Cache(client.of(Widget), clock=VirtualClock())
        self.ledger = Ledger(self.cache)

    @property
    def version(self) -> str | None:
        found = self.ledger.get(A)
        return None if found is None else found.metadata.resource_version


def test_what_we_wrote_is_there_before_the_cache_has_it() -> None:
    it = Stage()
    written = state(5)
    assert it.ledger.wrote(written) is written
    assert it.version == "5"
    assert list(it.ledger.pending) == [written]
    it.cache.put(state(5))
    assert it.version == "5"
    assert list(it.ledger.pending) == []


def test_what_an_index_holds_is_told_as_new_as_we_know_it_and_without_what_is_gone() -> None:
    it = Stage()
    it.cache.add_index("all", lambda _: [""])
    it.cache.put(state(3))
    assert it.ledger.by("all", "") == [state(3)]
    it.ledger.wrote(state(7))
    assert it.ledger.by("all", "") == [state(7)]
    it.ledger.deleted(state(7))
    assert it.ledger.by("all", "") == []


def test_a_cache_that_is_behind_does_not_hide_what_we_wrote() -> None:
    it = Stage()
    it.cache.put(state(3))
    it.ledger.wrote(state(7))
    it.cache.put(state(5))
    assert it.version == "7"
    it.cache.put(state(9))
    assert it.version == "9"
    assert it.ledger.pending == ()


def test_an_answer_that_the_cache_has_overtaken_is_not_kept() -> None:
    it = Stage()
    it.cache.put(state(9))
    it.ledger.wrote(state(7))
    assert it.version == "9"
    assert it.ledger.pending == ()


def test_of_two_answers_the_newer_state_counts_whichever_comes_first() -> None:
    it = Stage()
    it.ledger.wrote(state(8))
    it.ledger.wrote(state(7))
    assert it.version == "8"


def test_an_object_that_is_gone_is_not_shown_while_the_cache_still_has_it() -> None:
    it = Stage()
    it.cache.put(state(5))
    it.ledger.deleted(state(5))
    assert it.version is None
    it.cache.put(state(6))
    assert it.version is None, "a late event of one that is gone"
    it.cache.drop(A)
    it.cache.put(state(9, uid="second"))
    assert it.version == "9"


def test_an_object_that_came_and_went_before_the_cache_saw_it_does_not_come_back() -> None:
    it = Stage()
    it.ledger.wrote(state(5))
    it.ledger.deleted(state(5))
    it.cache.put(state(5))
    assert it.version is None
    it.cache.drop(A)
    it.cache.put(state(9, uid="second"))
    assert it.version == "9"


def test_one_that_was_made_again_by_others_is_shown_though_the_end_of_the_first_was_never_seen() -> None:
    it = Stage()
    it.ledger.wrote(state(5))
    it.ledger.deleted(state(5))
    it.cache.put(state(9, uid="second"))
    assert it.version == "9"


def test_one_that_we_made_again_is_there_while_the_cache_tells_the_end_of_the_first() -> None:
    it = Stage()
    it.cache.put(state(5))
    it.ledger.deleted(state(5))
    it.ledger.wrote(state(8, uid="second"))
    assert it.version == "8"
    it.cache.drop(A)
    assert it.version == "8"
    it.cache.put(state(8, uid="second"))
    assert it.ledger.pending == ()


def test_one_that_we_made_again_and_that_is_gone_again_is_not_shown_later() -> None:
    it = Stage()
    it.cache.put(state(5))
    it.ledger.wrote(state(8, uid="second"))
    it.ledger.deleted(state(8, uid="second"))
    assert it.version == "5", "the end of the first is for the cache to tell"
    it.cache.put(state(8, uid="second"))
    assert it.version is None


def test_what_somebody_else_deleted_is_gone_though_the_cache_never_had_our_last_write() -> None:
    it = Stage()
    it.cache.put(state(5))
    it.ledger.wrote(state(7))
    it.cache.drop(A)
    assert it.version is None
    assert it.ledger.pending == ()


def test_an_answer_that_comes_after_the_end_of_its_object_is_not_kept() -> None:
    it = Stage()
    it.cache.put(state(5))
    it.cache.drop(A)
    it.ledger.wrote(state(5))
    assert it.version is None


def test_a_deletion_that_the_cache_has_told_already_leaves_nothing_behind() -> None:
    it = Stage()
    it.cache.put(state(5))
    it.cache.drop(A)
    it.ledger.deleted(state(5))
    it.cache.put(state(6, uid="second"))
    assert it.version == "6"


def test_only_so_many_ends_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    it = Stage()
    for number, uid in enumerate(("first", "second", "third"), start=1):
        it.cache.put(state(number, uid=uid))
        it.cache.drop(A)
    it.ledger.wrote(state(2, uid="second"))
    assert it.version is None
    it.ledger.wrote(state(1, uid="first"))
    assert it.version == "1"


def test_versions_that_are_no_numbers_leave_the_cache_in_the_right() -> None:
    it = Stage()
    raw = widget("a", 1, uid="first")
    raw["metadata"]["resourceVersion"] = "abc"
    it.cache.put(typed(raw))
    it.ledger.wrote(typed(raw))
    assert it.version == "abc"
    assert it.ledger.pending == ()
