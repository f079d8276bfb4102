"""Two API servers that are held to the same exchanges, and how their answers are compared.

`test_differential` and `test_differential_workloads` hold exchanges with it; it starts no server.
"""

from __future__ import annotations

import difflib
import json
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace

import pytest

from tests.cluster.differential import known
from tests.cluster.differential.exchange import Answer, Asker, Exchange
from tests.cluster.differential.normalise import Normaliser
from tests.harness import ApiServer, ControlPlane, LocalPlane


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


def _comparable(answers: list[Answer], exchange: Exchange) -> list[Answer]:
    if exchange.select is not None:
        answers = [replace(each, body=exchange.select(each.body)) for each in answers]
    normaliser = Normaliser(answers)
    return [normaliser.normalise(each) for each in answers]


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
