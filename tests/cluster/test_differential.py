"""The same exchanges with the real kube-apiserver and with `edgewright up`: the answers and the objects are the same.

What an exchange is says `differential/exchange.py`; what may differ, and why, says `differential/known.py`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace

import pytest

from tests.cluster.differential import known
from tests.cluster.differential.every_exchange import EXCHANGES, OWN_FAULTS
from tests.cluster.differential.exchange import Answer, Asker, Exchange
from tests.cluster.differential.forgetting import FORGOTTEN
from tests.cluster.differential.normalise import Normaliser
from tests.harness import ApiServer, ControlPlane, LocalPlane
from tests.harness.fixtures import run


class Pair:
    """Both servers, asked at the same time; knows which differences were met."""

    def __init__(self, real: ControlPlane, local: LocalPlane) -> None:
        self._servers = (real, local)
        self._askers = [Asker(server) for server in self._servers]
        self._threads = ThreadPoolExecutor(max_workers=2)
        self._waiting = ThreadPoolExecutor(max_workers=8)
        self._begun: dict[str, list[Future[list[Answer]]]] = {}
        self.held: set[str] = set()
        self.met: set[str] = set()

    def hold(self, title: str, exchange: Exchange) -> tuple[list[Answer], list[Answer]]:
        """The answers of the real server and of ours, in the form in which they are compared."""
        asked = self._begun.get(title) or [self._threads.submit(asker.hold, title, exchange) for asker in self._askers]
        real, local = (_comparable(each.result(), exchange) for each in asked)
        self.held.add(title)
        return real, local

    def compare(self, real: list[Answer], local: list[Answer]) -> None:
        """Fails where the answers differ beyond what is known."""
        found = [_difference(theirs, ours, self.met) for theirs, ours in zip(real, local, strict=False)]
        if len(real) != len(local):
            found.append(f"{len(real)} answers of the real one, {len(local)} of ours")
        if differences := "\n".join(filter(None, found)):
            pytest.fail(differences, pytrace=False)

    def begin(self, title: str, exchange: Exchange) -> None:
        """Begins an exchange that waits long, over connections of its own."""
        self._begun[title] = [self._waiting.submit(_held, server, title, exchange) for server in self._servers]

    def close(self) -> None:
        self._waiting.shutdown()
        self._threads.shutdown()
        for asker in self._askers:
            asker.close()


def _held(server: ApiServer, title: str, exchange: Exchange) -> list[Answer]:
    asker = Asker(server)
    try:
        return asker.hold(title, exchange)
    finally:
        asker.close()


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, counterpart: ControlPlane, compared_plane: LocalPlane) -> Iterator[Pair]:
    """Both servers; what waits long has been begun, if it is to be tested at all."""
    both = Pair(counterpart, compared_plane)
    titles = {item.callspec.params.get("title") for item in request.session.items if hasattr(item, "callspec")}
    for title, exchange in EXCHANGES.items():
        if exchange.early and title in titles:
            both.begin(title, exchange)
    yield both
    both.close()


@pytest.fixture(scope="module")
def forgetful_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Both servers, for what takes an end of each of them."""
    with contextmanager(run)(request, ControlPlane) as real, contextmanager(run)(request, LocalPlane) as local:
        both = Pair(real, local)
        yield both
        both.close()


@pytest.mark.parametrize("title", EXCHANGES)
def test_both_servers_answer_alike_and_store_the_same(title: str, pair: Pair) -> None:
    pair.compare(*pair.hold(title, EXCHANGES[title]))


@pytest.mark.parametrize("title", OWN_FAULTS)
def test_what_the_real_server_takes_for_its_own_fault_is_the_clients_here(title: str, pair: Pair) -> None:
    """Else clients would send the same again; all but code and reason is the same."""
    real, local = pair.hold(title, OWN_FAULTS[title])
    assert any(_own_fault(each) for each in real)
    pair.compare([_clients_fault(each) if _own_fault(each) else each for each in real], local)


@pytest.mark.parametrize("title", FORGOTTEN)
def test_both_servers_say_alike_what_they_have_forgotten(title: str, forgetful_pair: Pair) -> None:
    real, local = forgetful_pair.hold(title, FORGOTTEN[title])
    assert "410" in str([answer.body for answer in real])
    forgetful_pair.compare(real, local)


def test_every_known_difference_is_one_and_has_a_reason(pair: Pair) -> None:
    assert len(known.KNOWN) <= known.MAX
    assert all(each.reason for each in known.KNOWN)
    if pair.held >= EXCHANGES.keys():
        assert pair.met == {each.id for each in known.KNOWN}


def _comparable(answers: list[Answer], exchange: Exchange) -> list[Answer]:
    if exchange.select is not None:
        answers = [replace(each, body=exchange.select(each.body)) for each in answers]
    normaliser = Normaliser(answers)
    return [normaliser.normalise(each) for each in answers]


def _own_fault(answer: Answer) -> bool:
    return answer.code == 500 and "reason" not in answer.body


def _clients_fault(answer: Answer) -> Answer:
    return replace(answer, code=400, body={**answer.body, "code": 400, "reason": "BadRequest"})


def _difference(real: Answer, local: Answer, met: set[str]) -> str:
    """What differs beyond what is known, as people compare texts; empty where nothing does."""
    theirs, ours, used = known.settled(real, local)
    met.update(used)
    if theirs == ours:
        return ""
    return "\n".join(
        difflib.unified_diff(_lines(theirs), _lines(ours), f"real {theirs.title}", f"local {ours.title}", lineterm="")
    )


def _lines(answer: Answer) -> list[str]:
    return json.dumps(asdict(answer), indent=1, sort_keys=True, ensure_ascii=False).splitlines()
