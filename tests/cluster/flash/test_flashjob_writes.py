"""What a FlashJob costs the real API server, by the server's own counters: the benchmark, with a few devices."""

from __future__ import annotations

from argparse import Namespace

from bench.flashjob import BARE, OURS, compare
from tests.harness import ControlPlane

DEVICES = 12


async def test_a_device_costs_seven_writes_and_a_settled_job_no_request() -> None:
    args = Namespace(devices=[DEVICES], at_once=4, connections=4, runs=1, profile=None, verbose=False)
    with ControlPlane() as plane:
        results = (await compare(plane, args))[DEVICES]
    (ours,), (bare,) = results[OURS], results[BARE]
    assert ours["device_writes"] == bare["device_writes"] == 7 * DEVICES
    assert ours["status_writes"] <= 1 + ours["seconds"]
    assert ours["asked_when_settled"] == 0
    assert ours["most_addresses"] <= 4
