"""Workloads, claims, budgets and evictions are answered by `edgewright up` as by the real kube-apiserver.

What is compared and how says `test_differential`; here neither server has a controller that writes workloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.differential.pair import Pair
from tests.cluster.differential.workloads import WORKLOADS
from tests.cluster.undisturbed import undisturbed_plane
from tests.harness import ControlPlane
from tests.harness.fixtures import run


@pytest.fixture(scope="module")
def pair(request: pytest.FixtureRequest, counterpart: ControlPlane) -> Iterator[Pair]:
    """Both servers, on which nobody else writes what an exchange makes."""
    with contextmanager(run)(request, undisturbed_plane) as local:
        both = Pair(counterpart, local)
        yield both
        both.close()


@pytest.mark.parametrize("title", WORKLOADS)
def test_both_servers_answer_alike_about_workloads_and_store_the_same(title: str, pair: Pair) -> None:
    pair.compare(*pair.hold(title, WORKLOADS[title]))
