"""What a fleet's operator wants to see in Prometheus: flashes, devices, what waits and for what, claims.

The FlashJob loops count here as they write outcomes down; what stands on Devices is read from the cache when Prometheus
asks, and only where this process leads, so that nothing is told twice. Labels that people or devices choose are
bounded. It decides nothing, and `hack/reference.py` lists what is declared here.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewright.api.device import STALE, Claim, Device
from edgewright.api.firmwarerollout import FirmwareRollout, OutcomeCounts, RolloutPhase
from edgewright.api.flash_pod import Attestation, Phase, Protocol, Report
from edgewright.runtime.clock import Clock
from edgewright.runtime.conditions import is_true

MAX_VERSIONS: Final = 20
"""So many versions of firmware are told apart, those that most devices run; the rest are `other`."""
MAX_TYPES: Final = 50
"""So many device types, and protocols, are told apart, as they come; the rest are `other`."""
_MAX_LABEL: Final = 64
_OTHER: Final = "other"
_UNKNOWN: Final = "unknown"

FLASH_BUCKETS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
PHASE_BUCKETS: Final = (0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
START: Final = "start"
"""The phase before those that the flasher tells of: from the creation of its Pod until it runs."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """One metric as it is published."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


FLASHES: Final = Declared(
    name="edgewright_flashes_total",
    type="counter",
    help="Flashes that ended for good, by outcome.",
    labels=("outcome", "protocol", "device_type"),
)
FLASH_DURATION: Final = Declared(
    name="edgewright_flash_duration_seconds",
    type="histogram",
    help="From the claim on a device to its final outcome, with all attempts and the waits between them.",
    labels=("outcome", "protocol"),
)
PHASE_DURATION: Final = Declared(
    name="edgewright_flash_phase_duration_seconds",
    type="histogram",
    help="How long each phase of an attempt took: start, inspect, fetch, send or verify.",
    labels=("phase", "protocol"),
)
SENT: Final = Declared(
    name="edgewright_firmware_sent_bytes_total",
    type="counter",
    help="Bytes of firmware that were sent to devices, in attempts that failed too.",
    labels=("protocol",),
)
ATTESTATIONS: Final = Declared(
    name="edgewright_attestations_total",
    type="counter",
    help="What the attestation service said of devices: recognised, refused, or unanswered where it gave no verdict.",
    labels=("result",),
)
DEVICES: Final = Declared(
    name="edgewright_devices",
    type="gauge",
    help="Devices by state (flashing; claimed, between two attempts; stale; idle) and by the version that they run;"
    f" the {MAX_VERSIONS} most frequent versions by name.",
    labels=("state", "version"),
)
CLAIMS: Final = Declared(
    name="edgewright_claims",
    type="gauge",
    help="Claims on devices: active ones, which take up a slot, and waiting ones between two attempts.",
    labels=("state",),
)
WAITING: Final = Declared(
    name="edgewright_devices_waiting",
    type="gauge",
    help="Devices of FlashJobs that have not started or cannot go on, by what they wait for.",
    labels=("reason",),
)
OLDEST: Final = Declared(
    name="edgewright_oldest_waiting_device_age_seconds",
    type="gauge",
    help="For how long the device that has waited longest has waited; 0 where none does. What is paused, or waits for"
    " its spec to be corrected, does not count.",
)
DECLARED: Final = (
    FLASHES,
    FLASH_DURATION,
    PHASE_DURATION,
    SENT,
    ATTESTATIONS,
    DEVICES,
    CLAIMS,
    WAITING,
    OLDEST,
)
"""All of them, in the order in which they are documented."""


class FlashMetrics:
    """The metrics of FlashJob and the inventory in one registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        devices: Iterable[Device],
        clock: Clock,
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        """`devices` is gone through at each scrape while `leading` says that this process does the work."""
        self.registry = registry
        self._clock = clock
        self._devices = devices
        self._leading = leading
        self._waits: dict[str, tuple[Mapping[str, int], datetime | None]] = {}
        self._types, self._protocols = _Bounded(MAX_TYPES), _Bounded(MAX_TYPES)

        def counter(declared: Declared) -> Counter:
            return Counter(declared.name, declared.help, declared.labels, registry=registry)

        def histogram(declared: Declared, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(declared.name, declared.help, declared.labels, registry=registry, buckets=buckets)

        self._flashes = counter(FLASHES)
        self._duration = histogram(FLASH_DURATION, FLASH_BUCKETS)
        self._phases = histogram(PHASE_DURATION, PHASE_BUCKETS)
        self._sent = counter(SENT)
        self._attestations = counter(ATTESTATIONS)
        for result in Attestation:
            if result:
                self._attestations.labels(result)
        registry.register(_AtScrape(self))

    # --- what the loops tell ---------------------------------------------------------------------------------------

    def attempted(self, device: Device, report: Report, *, starting: float | None = None) -> None:
        """An attempt on a device has ended; `starting` is how many seconds its Pod took until the flasher ran."""
        protocol = self._protocols.bound(device.spec.protocol or Protocol.ESP32)
        phases = {phase.value: report.phases.get(phase) for phase in Phase}
        for phase, seconds in {START: starting, **phases}.items():
            # A flasher of others may write into a report what it likes.
            if seconds is not None and math.isfinite(seconds) and seconds >= 0:
                self._phases.labels(phase, protocol).observe(seconds)
        if report.sent > 0:
            self._sent.labels(protocol).inc(report.sent)
        if report.attestation:
            self._attestations.labels(report.attestation).inc()

    def flashed(self, device: Device, claim: Claim, report: Report, *, now: datetime) -> None:
        """The final outcome of a claim was written down."""
        protocol = self._protocols.bound(device.spec.protocol or Protocol.ESP32)
        self._flashes.labels(report.outcome, protocol, self._types.bound(device.spec.type.casefold())).inc()
        if claim.since is not None:
            seconds = max(0.0, (now - claim.since).total_seconds())
            self._duration.labels(report.outcome, protocol).observe(seconds)

    def waits(self, job_uid: str, counts: Mapping[str, int], oldest: datetime | None) -> None:
        """What the devices of a job wait for now, and since when the one does that has waited longest."""
        if counts:
            self._waits[job_uid] = counts, oldest
        else:
            self.forget(job_uid)

    def forget(self, job_uid: str) -> None:
        """The job is gone, or nothing of it waits."""
        self._waits.pop(job_uid, None)

    # --- what is read when Prometheus asks -------------------------------------------------------------------------

    def gauges(self) -> Iterator[tuple[Declared, Mapping[tuple[str, ...], float]]]:
        """The gauges with their values by labels; none where another process does the work."""
        if not self._leading():
            return
        states: Tally[tuple[str, str]] = Tally()
        claims: Tally[str] = Tally({"active": 0, "waiting": 0})
        for device in self._devices:
            claim = device.status.claim
            if claim is not None:
                claims["active" if claim.not_before is None else "waiting"] += 1
            states[_state(device), device.status.version[:_MAX_LABEL] or _UNKNOWN] += 1
        yield DEVICES, _most_frequent(states)
        yield CLAIMS, {(state,): count for state, count in claims.items()}
        waiting: Tally[str] = Tally()
        for counts, _ in self._waits.values():
            waiting.update(counts)
        yield WAITING, {(str(reason),): count for reason, count in waiting.items()}
        oldest = min((since for _, since in self._waits.values() if since is not None), default=None)
        age = 0.0 if oldest is None else max(0.0, (self._clock.now() - oldest).total_seconds())
        yield OLDEST, {(): age}


class _AtScrape(Collector):
    def __init__(self, metrics: FlashMetrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(each.name, each.help) for each in DECLARED if each.type == "gauge"]

    def collect(self) -> Iterable[Metric]:
        for declared, values in self._metrics.gauges():
            family = GaugeMetricFamily(declared.name, declared.help, labels=declared.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


class _Bounded:
    """Lets only so many different values of a label through; those that come later are `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def bound(self, value: str) -> str:
        value = value[:_MAX_LABEL]
        if not value:
            return _UNKNOWN
        if value not in self._known:
            if len(self._known) >= self._limit:
                return _OTHER
            self._known.add(value)
        return value


def _state(device: Device) -> str:
    claim = device.status.claim
    if claim is not None:
        return "flashing" if claim.not_before is None else "claimed"
    return "stale" if is_true(device.status.conditions, STALE) else "idle"


def _most_frequent(states: Mapping[tuple[str, str], int]) -> dict[tuple[str, ...], float]:
    """The counts by state and version, with the versions that few devices run under one name."""
    by_version: Tally[str] = Tally()
    for (_, version), count in states.items():
        by_version[version] += count
    named = {version for version, _ in by_version.most_common(MAX_VERSIONS)}
    found: Tally[tuple[str, ...]] = Tally()
    for (state, version), count in states.items():
        found[state, version if version in named else _OTHER] += count
    return dict(found)


# --- rollouts -------------------------------------------------------------------------------------------------------

ROLLOUTS: Final = Declared(
    name="edgewright_rollouts",
    type="gauge",
    help="FirmwareRollouts by phase.",
    labels=("phase",),
)
ROLLOUT_DEVICES: Final = Declared(
    name="edgewright_rollout_devices",
    type="gauge",
    help="Devices of the rollouts that have not ended, by where they stand, as far as the statuses say.",
    labels=("place",),
)
BATCHES: Final = Declared(
    name="edgewright_rollout_batches_opened_total",
    type="counter",
    help="Batches of rollouts that were opened.",
)
STOPS: Final = Declared(
    name="edgewright_rollout_stops_total",
    type="counter",
    help="FlashJobs that their rollout has paused, by the action: pause, abort and recall by a rule of stop or by"
    " spec.aborted, paused by spec.paused, superseded by a later revision.",
    labels=("action",),
)
ROLLOUT_DECLARED: Final = (ROLLOUTS, ROLLOUT_DEVICES, BATCHES, STOPS)
"""Those of rollouts, in the order in which they are documented."""
_PLACES: Final = tuple(name for name in OutcomeCounts.__struct_fields__ if name != "total")


class RolloutMetrics(Collector):
    """The metrics of rollouts in one registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        rollouts: Iterable[FirmwareRollout],
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        """`rollouts` is gone through at each scrape while `leading` says that this process does the work."""
        self._rollouts = rollouts
        self._leading = leading
        self._batches = Counter(BATCHES.name, BATCHES.help, registry=registry)
        self._stops = Counter(STOPS.name, STOPS.help, STOPS.labels, registry=registry)
        registry.register(self)

    def opened(self) -> None:
        """A batch was opened."""
        self._batches.inc()

    def stopped(self, action: str) -> None:
        """A FlashJob was paused by its rollout."""
        self._stops.labels(action).inc()

    def describe(self) -> Iterable[Metric]:
        """What is read when Prometheus asks."""
        return [GaugeMetricFamily(each.name, each.help) for each in (ROLLOUTS, ROLLOUT_DEVICES)]

    def collect(self) -> Iterable[Metric]:
        """The gauges; none where another process does the work."""
        if not self._leading():
            return
        phases: Tally[str] = Tally({phase.value: 0 for phase in RolloutPhase})
        places: Tally[str] = Tally(dict.fromkeys(_PLACES, 0))
        for rollout in self._rollouts:
            status = rollout.status
            phases[status.phase or RolloutPhase.PENDING.value] += 1
            if status.counts is not None and status.completion_time is None:
                for place in _PLACES:
                    places[place] += getattr(status.counts, place)
        for declared, values in ((ROLLOUTS, phases), (ROLLOUT_DEVICES, places)):
            family = GaugeMetricFamily(declared.name, declared.help, labels=declared.labels)
            for label, value in values.items():
                family.add_metric((label,), value)
            yield family
