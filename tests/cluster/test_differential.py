"""The same exchanges with the real kube-apiserver and with `edgewright up`: the answers and the objects are the same.

What an exchange is says `differential/exchange.py`; what may differ, and why, says `differential/known.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.cluster.differential import known
from tests.cluster.differential.every_exchange import EXCHANGES, OWN_FAULTS
from tests.cluster.differential.exchange import Answer
from tests.cluster.differential.forgetting import FORGOTTEN
from tests.cluster.differential.pair import Pair
from tests.harness import ControlPlane, LocalPlane
from tests.harness.fixtures import run


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


def _own_fault(answer: Answer) -> bool:
    return answer.code == 500 and "reason" not in answer.body


def _clients_fault(answer: Answer) -> Answer:
    return replace(answer, code=400, body={**answer.body, "code": 400, "reason": "BadRequest"})
