"""Metrics: the familiar names, one registry a manager, and little cost."""

from __future__ import annotations

import re

import pytest
from prometheus_client import Counter, Gauge, Histogram

from edgewright.runtime.metrics import CONTENT_TYPE, RECONCILE_BUCKETS, RESULTS, Metrics

FAMILIAR = {
    "controller_runtime_reconcile_total": "counter",
    "controller_runtime_reconcile_errors_total": "counter",
    "controller_runtime_reconcile_time_seconds": "histogram",
    "controller_runtime_active_workers": "gauge",
    "controller_runtime_max_concurrent_reconciles": "gauge",
    "workqueue_depth": "gauge",
    "workqueue_adds_total": "counter",
    "workqueue_queue_duration_seconds": "histogram",
    "workqueue_work_duration_seconds": "histogram",
    "workqueue_retries_total": "counter",
    "workqueue_longest_running_processor_seconds": "gauge",
    "workqueue_unfinished_work_seconds": "gauge",
    "rest_client_requests_total": "counter",
    "leader_election_master_status": "gauge",
    "edgewright_cache_objects": "gauge",
    "edgewright_cache_relists_total": "counter",
    "edgewright_cache_undecodable_objects": "gauge",
    "edgewright_events_dropped_total": "counter",
}


def page(metrics: Metrics) -> str:
    return metrics.render().decode()


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_the_names_and_types_are_those_that_dashboards_use() -> None:
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page(Metrics(process=False)), re.MULTILINE))
    assert types == FAMILIAR


def test_the_page_is_in_the_text_format_and_tells_of_the_process() -> None:
    text = page(Metrics())
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert text.endswith("\n")
    assert "\nprocess_resident_memory_bytes " in text


def test_two_managers_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.for_queue("flashjob").added()
    assert value(one, "workqueue_adds_total", name="flashjob") == 1
    assert value(other, "workqueue_adds_total", name="flashjob") is None


def test_the_same_name_gives_the_same_part() -> None:
    metrics = Metrics(process=False)
    assert metrics.for_controller("a") is metrics.for_controller("a")
    assert metrics.for_queue("a") is metrics.for_queue("a")
    assert metrics.for_cache("pods") is metrics.for_cache("pods")
    assert metrics.for_queue("a") is not metrics.for_queue("b")


def test_a_controller_shows_every_result_from_the_start() -> None:
    metrics = Metrics(process=False)
    metrics.for_controller("flashjob")
    counts = {
        result: value(metrics, "controller_runtime_reconcile_total", controller="flashjob", result=result)
        for result in RESULTS
    }
    assert counts == dict.fromkeys(RESULTS, 0.0)


def test_a_reconcile_is_counted_by_result_and_timed() -> None:
    metrics = Metrics(process=False)
    controller = metrics.for_controller("flashjob")
    controller.workers(4)
    for result in ("success", "error", "error"):
        controller.started()
        assert value(metrics, "controller_runtime_active_workers", controller="flashjob") == 1
        controller.finished(result, 0.25)
    assert value(metrics, "controller_runtime_active_workers", controller="flashjob") == 0
    assert value(metrics, "controller_runtime_max_concurrent_reconciles", controller="flashjob") == 4
    assert value(metrics, "controller_runtime_reconcile_total", controller="flashjob", result="error") == 2
    assert value(metrics, "controller_runtime_reconcile_total", controller="flashjob", result="success") == 1
    assert value(metrics, "controller_runtime_reconcile_errors_total", controller="flashjob") == 2
    assert value(metrics, "controller_runtime_reconcile_time_seconds_sum", controller="flashjob") == 0.75
    name = "controller_runtime_reconcile_time_seconds_bucket"
    assert value(metrics, name, controller="flashjob", le="0.2") == 0
    assert value(metrics, name, controller="flashjob", le="0.25") == 3


def test_the_buckets_are_controller_runtimes() -> None:
    assert len(RECONCILE_BUCKETS) == 40
    assert (RECONCILE_BUCKETS[0], RECONCILE_BUCKETS[-1]) == (0.005, 60)
    metrics = Metrics(process=False)
    metrics.for_queue("q")
    bounds = re.findall(r'workqueue_queue_duration_seconds_bucket\{le="([^"]+)"', page(metrics))
    assert [float(each) for each in bounds] == [*(float(f"1e{n}") for n in range(-8, 4)), float("inf")]


def test_a_queue_counts_what_goes_through_it() -> None:
    metrics = Metrics(process=False)
    queue = metrics.for_queue("flashjob")
    queue.added()
    queue.added()
    queue.taken(0.5)
    queue.done(2.0)
    queue.retried()
    assert value(metrics, "workqueue_adds_total", name="flashjob") == 2
    assert value(metrics, "workqueue_queue_duration_seconds_sum", name="flashjob") == 0.5
    assert value(metrics, "workqueue_work_duration_seconds_sum", name="flashjob") == 2.0
    assert value(metrics, "workqueue_retries_total", name="flashjob") == 1


def test_the_gauges_of_a_queue_and_a_cache_are_asked_for_when_the_page_is_made() -> None:
    metrics = Metrics(process=False)
    waiting, held = ["a", "b"], {"c": 3.0, "d": 4.0}
    metrics.for_queue("q").ask(
        depth=lambda: len(waiting),
        longest_running=lambda: max(held.values(), default=0.0),
        unfinished=lambda: sum(held.values()),
    )
    metrics.for_cache("pods").ask(objects=lambda: len(held), undecodable=lambda: 1)
    waiting.append("e")
    held["c"] = 10.0
    text = page(metrics)
    assert 'workqueue_depth{name="q"} 3.0' in text
    assert 'workqueue_longest_running_processor_seconds{name="q"} 10.0' in text
    assert 'workqueue_unfinished_work_seconds{name="q"} 14.0' in text
    assert 'edgewright_cache_objects{kind="pods"} 2.0' in text
    assert 'edgewright_cache_undecodable_objects{kind="pods"} 1.0' in text


def test_requests_leases_relists_and_dropped_events_are_counted() -> None:
    metrics = Metrics(process=False)
    metrics.request(code=200, method="GET", host="10.0.0.1:443")
    metrics.request(code=200, method="GET", host="10.0.0.1:443")
    metrics.request(code="<error>", method="PATCH", host="10.0.0.1:443")
    metrics.leading("edgewright", lambda: True)
    metrics.for_cache("pods").listed("expired")
    metrics.event_dropped("full")
    name = "rest_client_requests_total"
    assert value(metrics, name, code="200", method="GET", host="10.0.0.1:443") == 2
    assert value(metrics, name, code="<error>", method="PATCH", host="10.0.0.1:443") == 1
    assert value(metrics, "leader_election_master_status", name="edgewright") == 1
    assert value(metrics, "edgewright_cache_relists_total", kind="pods", reason="expired") == 1
    assert value(metrics, "edgewright_events_dropped_total", reason="full") == 1
    metrics.leading("edgewright", lambda: False)
    assert value(metrics, "leader_election_master_status", name="edgewright") == 0


def test_creation_times_are_left_out() -> None:
    metrics = Metrics(process=False)
    metrics.for_controller("flashjob")
    metrics.for_queue("flashjob")
    assert "_created" not in page(metrics)


def test_no_label_is_looked_up_during_a_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking up labels is most of the cost of prometheus-client: with bound ones a reconcile's part is about 5 µs."""
    metrics = Metrics(process=False)
    controller, queue = metrics.for_controller("flashjob"), metrics.for_queue("flashjob")
    metrics.request(code=200, method="PATCH", host="server")

    def looked_up(*_labels: object, **_more: object) -> None:
        raise AssertionError("a label was looked up")

    for metric in (Counter, Gauge, Histogram):
        monkeypatch.setattr(metric, "labels", looked_up)
    queue.added()
    queue.taken(0.001)
    controller.started()
    metrics.request(code=200, method="PATCH", host="server")
    controller.finished("error", 0.003)
    queue.done(0.003)
    queue.retried()
    with pytest.raises(AssertionError, match="looked up"):
        metrics.for_queue("another")
