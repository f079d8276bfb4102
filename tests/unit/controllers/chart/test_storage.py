"""What is kept in memory of stored releases: each content once, and no more than so much of all."""

from __future__ import annotations

import msgspec
import pytest

from edgewright.controllers.chart import storage as module
from edgewright.controllers.chart.releases import ReleaseSecret, Revision, history
from edgewright.controllers.chart.storage import Storage
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.objects import Key
from tests.unit.controllers.chart.charts import release_secret


def revision(name: str, *, uid: str = "1", size: int = 100) -> Revision:
    secret = release_secret(name, 1, "deployed", manifest=f"# {'x' * size}")
    secret["metadata"]["uid"] = uid
    (found,) = history([msgspec.json.decode(msgspec.json.encode(secret), type=ReleaseSecret)])
    return found


def storage_of_nobody() -> Storage:
    """What is kept needs no server."""
    return Storage(Client(Config(server="https://nobody.example")))


async def test_a_content_is_read_once_while_it_stays_the_same() -> None:
    storage, key = storage_of_nobody(), Key("default", "a")
    first = storage.content(key, revision("a"))
    assert storage.content(key, revision("a"))[0] is first[0]
    assert storage.content(key, revision("a", uid="2"))[0] is not first[0]


async def test_hundreds_of_releases_are_kept_up_to_a_size_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = storage_of_nobody()
    monkeypatch.setattr(module, "MAX_KEPT", 1000)
    firsts = {name: storage.content(Key("default", name), revision(name))[0] for name in map(str, range(300))}
    again = {name: storage.content(Key("default", name), revision(name))[0] for name in ("0", "298", "299")}
    assert [again[name] is firsts[name] for name in ("0", "298", "299")] == [False, True, True]


async def test_one_that_is_bigger_than_all_may_be_is_kept_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, key = storage_of_nobody(), Key("default", "big")
    monkeypatch.setattr(module, "MAX_KEPT", 1000)
    big = storage.content(key, revision("big", size=5000))[0]
    assert storage.content(key, revision("big", size=5000))[0] is big
