"""What the benchmarks compute themselves: counts from the server's metrics, ratios and goals."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter

from bench import console, drive, flashjob, http_clients
from bench.flashjob import BARE, OURS, Run, counters, kind_of, summarise
from bench.report import PROGRAMS, purpose_of

METRICS = """\
# HELP apiserver_request_total Counter of apiserver requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="edgewright.dev",resource="devices",subresource="status",verb="PATCH"} 1.2e+01
apiserver_request_total{code="409",group="edgewright.dev",resource="devices",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="201",dry_run="",group="",resource="pods",subresource="",verb="POST"} 7
apiserver_request_duration_seconds_count{resource="pods",verb="POST"} 9
"""


def run_of(**numbers: float) -> Run:
    usual = {"seconds": 10.0, "writes": 7010.0, "device_writes": 7000.0, "status_writes": 8.0, "most_addresses": 200.0}
    costs = {"cpu_until_finished": 2.0, "server_cpu": 9.0, "peak_rss_mb": 70.0, "asked_when_settled": 0.0}
    return {**usual, **costs, **numbers}


def test_the_servers_counters_are_read_by_verb_and_resource_whatever_the_answer_was() -> None:
    assert counters(METRICS) == Counter({("PATCH", "devices/status"): 13, ("POST", "pods"): 7})


def test_a_subresource_belongs_to_its_kind() -> None:
    assert [kind_of("devices/status"), kind_of("pods")] == ["devices", "pods"]


def test_a_run_that_takes_longer_than_the_goal_allows_is_told_as_missed() -> None:
    results = {1000: {OURS: [run_of(seconds=13.0)], BARE: [run_of()]}}
    outcome = summarise(results, Namespace(runs=1, at_once=200))
    assert outcome.ratios["seconds / bare client, 1000 devices"] == 1.3
    assert not outcome.met


def test_time_that_grows_faster_than_the_fleet_is_told_as_missed() -> None:
    results = {
        1000: {OURS: [run_of()], BARE: [run_of()]},
        5000: {OURS: [run_of(seconds=60.0, device_writes=35_000.0)], BARE: [run_of(seconds=60.0)]},
    }
    outcome = summarise(results, Namespace(runs=1, at_once=200))
    name = "seconds a device, 5000 devices / 1000 devices"
    assert (outcome.ratios[name], outcome.goals[name]) == (1.2, "<=1.1")
    assert not outcome.met


def test_the_benchmark_of_flash_jobs_is_among_those_that_the_report_runs() -> None:
    assert flashjob.__doc__ is not None
    assert purpose_of("flashjob") == flashjob.__doc__.strip()
    assert "flashjob" in PROGRAMS


def test_what_our_http_client_costs_is_told_as_ratios_with_goals() -> None:
    runs = {http_clients.OURS: 1.0, http_clients.AIOHTTP: 3.0, http_clients.HTTPTOOLS: 0.8}
    outcome = http_clients.summarise({name: [{"cpu": cpu, "seconds": 2.0}] for name, cpu in runs.items()}, 1000)
    assert outcome.ratios == {"CPU / aiohttp": 0.333, "CPU / the same with httptools": 1.25}
    assert not outcome.met
    assert "http_clients" in PROGRAMS


def test_what_the_console_costs_is_told_as_ratios_with_goals() -> None:
    runs = {console.DIRECT: 4.0, console.THROUGH: 10.0, console.CACHED: 1.0}
    outcome = drive.Outcome("console", columns=("what", "CPU", "time"))
    console.add_gets(outcome, {name: [{"cpu": cpu, "seconds": cpu}] for name, cpu in runs.items()})
    assert outcome.ratios["from the cache / API server, CPU"] == 0.25
    assert outcome.ratios["passed through / API server, CPU"] == 2.5
    assert not outcome.met
    assert "console" in PROGRAMS
