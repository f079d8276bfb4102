"""Prometheus metrics under the names that dashboards for Go operators already use, and ours under `edgewright_`.

The queue, controllers, caches, the client and the lease each take their bound part once (`for_queue("flashjob")`) and
then call plain methods on it; `health` serves `render()`. Every instance has a registry of its own, so that several
managers in one process never collide. It never measures time itself: durations are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

ReconcileResult: TypeAlias = Literal["success", "error", "requeue_after", "requeue"]
RESULTS: Final[tuple[ReconcileResult, ...]] = ("success", "error", "requeue_after", "requeue")

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

# The bounds that controller-runtime has, so that its dashboards and alerts mean the same here.
RECONCILE_BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
QUEUE_BUCKETS: Final = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))


class Metrics:
    """Every metric of one manager, and the bound parts that the hot paths call."""

    def __init__(self, *, process: bool = True) -> None:
        """Make all metrics; `process` adds the CPU time, memory and open files of this process."""
        self.registry = registry = _Registry()
        if process:
            ProcessCollector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels, registry=registry, buckets=buckets)

        self.reconcile_total = counter(
            "controller_runtime_reconcile_total", "Reconciles that ended, by result.", "controller", "result"
        )
        self.reconcile_errors_total = counter(
            "controller_runtime_reconcile_errors_total", "Reconciles that ended with an error.", "controller"
        )
        self.reconcile_time_seconds = histogram(
            "controller_runtime_reconcile_time_seconds", "How long a reconcile took.", RECONCILE_BUCKETS, "controller"
        )
        self.active_workers = gauge(
            "controller_runtime_active_workers", "Workers that are reconciling now.", "controller"
        )
        self.max_concurrent_reconciles = gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers that there are.", "controller"
        )

        self.queue_depth = gauge("workqueue_depth", "Keys that wait.", "name")
        self.queue_adds_total = counter("workqueue_adds_total", "Keys that were added.", "name")
        self.queue_duration_seconds = histogram(
            "workqueue_queue_duration_seconds", "How long a key waited before a worker took it.", QUEUE_BUCKETS, "name"
        )
        self.work_duration_seconds = histogram(
            "workqueue_work_duration_seconds", "How long a worker held a key.", QUEUE_BUCKETS, "name"
        )
        self.queue_retries_total = counter("workqueue_retries_total", "Keys that were added after a failure.", "name")
        self.longest_running_processor_seconds = gauge(
            "workqueue_longest_running_processor_seconds", "How long the oldest work under way has been held.", "name"
        )
        self.unfinished_work_seconds = gauge(
            "workqueue_unfinished_work_seconds", "How long all work under way has been held, added up.", "name"
        )

        self.rest_client_requests_total = counter(
            "rest_client_requests_total", "Requests to the API server, by status code.", "code", "method", "host"
        )
        self.leader_election_master_status = gauge(
            "leader_election_master_status", "1 while this process holds the lease, else 0.", "name"
        )

        self.cache_objects = gauge("edgewright_cache_objects", "Objects in the cache.", "kind")
        self.cache_relists_total = counter(
            "edgewright_cache_relists_total", "Lists of a whole kind, by what made them necessary.", "kind", "reason"
        )
        self.cache_undecodable_objects = gauge(
            "edgewright_cache_undecodable_objects", "Objects on the server that could not be understood.", "kind"
        )
        self.events_dropped_total = counter("edgewright_events_dropped_total", "Events that were not sent.", "reason")

        self._controllers: dict[str, ControllerMetrics] = {}
        self._queues: dict[str, QueueMetrics] = {}
        self._caches: dict[str, CacheMetrics] = {}
        self._requests: dict[tuple[int | str, str, str], Callable[[], None]] = {}
        self._written: list[Callable[[], str]] = []

    def for_controller(self, name: str) -> ControllerMetrics:
        """The part that belongs to one controller; the same one for the same name."""
        if (known := self._controllers.get(name)) is None:
            known = self._controllers[name] = ControllerMetrics(self, name)
        return known

    def for_queue(self, name: str) -> QueueMetrics:
        """The part that belongs to one queue; the same one for the same name."""
        if (known := self._queues.get(name)) is None:
            known = self._queues[name] = QueueMetrics(self, name)
        return known

    def for_cache(self, kind: str) -> CacheMetrics:
        """The part that belongs to the cache of one kind (`pods`); the same one for the same kind."""
        if (known := self._caches.get(kind)) is None:
            known = self._caches[kind] = CacheMetrics(self, kind)
        return known

    def request(self, *, code: int | str, method: str, host: str) -> None:
        """Count one request to the API server; where no answer came, the code is `<error>`, as client-go has it."""
        labels = (code, method, host)
        if (count := self._requests.get(labels)) is None:
            count = self._requests[labels] = self.rest_client_requests_total.labels(*labels).inc
        count()

    def leading(self, name: str, leading: Callable[[], bool]) -> None:
        """Say where to ask, at each scrape, whether this process holds the lease `name`."""
        self.leader_election_master_status.labels(name).set_function(lambda: float(leading()))

    def event_dropped(self, reason: str) -> None:
        """Count one Event that was given up, and why."""
        self.events_dropped_total.labels(reason).inc()

    def add_text(self, written: Callable[[], str]) -> None:
        """Adds a family that writes its own lines at each scrape: for one so long that the registry takes too long."""
        self._written.append(written)

    def render(self) -> bytes:
        """The page for Prometheus, to be sent as `CONTENT_TYPE`."""
        return b"".join([generate_latest(self.registry), *(each().encode() for each in self._written)])


class ControllerMetrics:
    """What one controller counts: call `started` before and `finished` after each reconcile."""

    __slots__ = ("_active_dec", "_active_inc", "_errors", "_time", "_total", "_workers")

    def __init__(self, metrics: Metrics, name: str) -> None:
        """Bind every label once, which also shows all results as 0 from the start."""
        active = metrics.active_workers.labels(name)
        self._active_inc = active.inc
        self._active_dec = active.dec
        self._workers = metrics.max_concurrent_reconciles.labels(name)
        self._errors = metrics.reconcile_errors_total.labels(name).inc
        self._time = metrics.reconcile_time_seconds.labels(name).observe
        self._total = {result: metrics.reconcile_total.labels(name, result).inc for result in RESULTS}

    def workers(self, count: int) -> None:
        """Say how many workers there are."""
        self._workers.set(count)

    def started(self) -> None:
        """A worker begins to reconcile."""
        self._active_inc()

    def finished(self, result: ReconcileResult, seconds: float) -> None:
        """A worker ended with `result` after `seconds`."""
        self._active_dec()
        self._time(seconds)
        self._total[result]()
        if result == "error":
            self._errors()


class QueueMetrics:
    """What one queue counts; what can be asked of the queue is asked only when Prometheus comes."""

    __slots__ = ("_added", "_depth", "_longest", "_retried", "_unfinished", "_waited", "_worked")

    def __init__(self, metrics: Metrics, name: str) -> None:
        """Bind every label once."""
        self._added = metrics.queue_adds_total.labels(name).inc
        self._waited = metrics.queue_duration_seconds.labels(name).observe
        self._worked = metrics.work_duration_seconds.labels(name).observe
        self._retried = metrics.queue_retries_total.labels(name).inc
        self._depth = metrics.queue_depth.labels(name)
        self._longest = metrics.longest_running_processor_seconds.labels(name)
        self._unfinished = metrics.unfinished_work_seconds.labels(name)

    def ask(
        self,
        *,
        depth: Callable[[], float],
        longest_running: Callable[[], float],
        unfinished: Callable[[], float],
    ) -> None:
        """Say where the gauges come from; called once by the queue, and from then on at each scrape."""
        self._depth.set_function(depth)
        self._longest.set_function(longest_running)
        self._unfinished.set_function(unfinished)

    def added(self) -> None:
        """A key came in that did not wait already."""
        self._added()

    def taken(self, waited: float) -> None:
        """A worker took a key that had waited `waited` seconds."""
        self._waited(waited)

    def done(self, worked: float) -> None:
        """A worker gave a key back after `worked` seconds."""
        self._worked(worked)

    def retried(self) -> None:
        """A key was put back because of a failure."""
        self._retried()


class CacheMetrics:
    """What the cache of one kind counts."""

    __slots__ = ("_kind", "_objects", "_relists", "_undecodable")

    def __init__(self, metrics: Metrics, kind: str) -> None:
        """Bind every label that is known before."""
        self._kind = kind
        self._objects = metrics.cache_objects.labels(kind)
        self._undecodable = metrics.cache_undecodable_objects.labels(kind)
        self._relists = metrics.cache_relists_total

    def ask(self, *, objects: Callable[[], float], undecodable: Callable[[], float]) -> None:
        """Say where the gauges come from; called once by the cache, and from then on at each scrape."""
        self._objects.set_function(objects)
        self._undecodable.set_function(undecodable)

    def listed(self, reason: str) -> None:
        """The whole kind was listed, and why: a short word such as `start` or `again`."""
        self._relists.labels(self._kind, reason).inc()


class _Registry(CollectorRegistry):
    """Leaves out the `_created` series, which Go operators do not have and which make a page half as long again."""

    def collect(self) -> Iterable[Metric]:
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
