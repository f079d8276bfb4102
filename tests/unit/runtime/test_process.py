"""What a server asks of its process; how much it serves with that is tested on the process itself."""

from __future__ import annotations

import gc
import resource
import sys
from asyncio import sslproto
from collections.abc import Iterator

import pytest

from edgewright.runtime import process


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    files, buffer = resource.getrlimit(resource.RLIMIT_NOFILE), sslproto.SSLProtocol.max_size
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    sslproto.SSLProtocol.max_size = buffer
    gc.set_threshold(*thresholds)
    gc.enable()
    gc.unfreeze()


def test_it_may_open_as_many_files_as_the_system_allows() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, most))
    process.prepare()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)


def test_where_the_system_refuses_it_goes_on_with_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refused)
    process.prepare()
    monkeypatch.undo()
    assert sslproto.SSLProtocol.max_size < 256 * 1024


def test_garbage_is_collected_once_it_has_started_and_what_was_there_is_left_alone() -> None:
    process.prepare()
    assert not gc.isenabled()
    process.settle()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] > 700


def test_a_process_that_was_not_prepared_is_not_touched() -> None:
    before = gc.get_threshold()
    process.settle()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
