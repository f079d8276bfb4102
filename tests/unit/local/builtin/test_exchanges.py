"""What our rules make of objects is what the real API server was recorded to make of them.

The record is renewed by `python hack/builtin_exchanges.py`; the cluster tests compare with the real server itself.
"""

from __future__ import annotations

import pytest

from tests.unit.local.builtin.every_exchange import EXCHANGES
from tests.unit.local.builtin.exchanges import RECORDED, body_of, changed, ours, plain


@pytest.mark.parametrize("title", EXCHANGES)
def test_an_object_is_stored_or_refused_as_the_real_server_was_recorded_to(title: str) -> None:
    exchange = EXCHANGES[title]
    body = body_of(exchange, "a-place", "a-name")
    outcome = ours(exchange, body, None)
    if exchange.change is not None:
        outcome = ours(exchange, changed(exchange, exchange.change, outcome), outcome)
    recorded = RECORDED[title]
    assert plain(outcome, exchange) == recorded


def test_every_exchange_is_recorded_and_nothing_else() -> None:
    assert sorted(RECORDED) == sorted(EXCHANGES)
