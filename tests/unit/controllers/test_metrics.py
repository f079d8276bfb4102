"""The fleet's metrics: each is seen with the labels and values that it has after what happened."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from edgewright.api.device import STALE, Claim, Device, DeviceSpec, DeviceStatus
from edgewright.api.flash_pod import Attestation, Outcome, Phase, Report
from edgewright.controllers.metrics import DECLARED, MAX_TYPES, MAX_VERSIONS, FlashMetrics
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.metrics import Metrics
from edgewright.runtime.objects import Condition, ObjectMeta
from tests.unit.controllers.flashjob.harness import operating, plane, stage
from tests.unit.controllers.flashjob.jobs_stage import stage as jobs_stage
from tests.unit.runtime.fakeserver import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STALE_NOW = Condition(type=STALE, status="True", reason="NotSeen")
SENT = 1_000_000
REPORT = Report(
    outcome=Outcome.SUCCEEDED,
    attestation=Attestation.RECOGNISED,
    sent=SENT,
    phases={Phase.INSPECT: 0.2, Phase.FETCH: 1.0, Phase.SEND: 8.0, Phase.VERIFY: 4.0},
)


def device(name: str = "one", *, type_: str = "ESP32S3", protocol: str = "", **status: Any) -> Device:
    return Device(
        metadata=ObjectMeta(name=name), spec=DeviceSpec(type=type_, protocol=protocol), status=DeviceStatus(**status)
    )


class Desk:
    """The metrics of these Devices, and what Prometheus sees of them."""

    def __init__(self, *devices: Device, leading: bool = True) -> None:
        self.clock = VirtualClock(NOW)
        self.registry = CollectorRegistry()
        self.metrics = FlashMetrics(self.registry, devices=devices, clock=self.clock, leading=lambda: leading)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        (family,) = (each for each in self.registry.collect() if each.name == name)
        return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_a_flash_is_counted_by_outcome_protocol_and_type() -> None:
    desk = Desk()
    desk.metrics.flashed(device(), Claim(since=NOW), REPORT, now=NOW + timedelta(seconds=15))
    labels = {"outcome": "succeeded", "protocol": "esp32"}
    assert desk.value("edgewright_flashes_total", **labels, device_type="esp32s3") == 1
    assert desk.value("edgewright_flash_duration_seconds_sum", **labels) == 15
    desk.metrics.flashed(device(type_="", protocol="smp-udp"), Claim(), REPORT, now=NOW)
    assert desk.value("edgewright_flashes_total", outcome="succeeded", protocol="smp-udp", device_type="unknown") == 1


def test_an_attempt_tells_its_phases_its_bytes_and_the_attestation() -> None:
    desk = Desk()
    desk.metrics.attempted(device(), REPORT, starting=3.0)
    for phase, seconds in {"start": 3.0, **REPORT.phases}.items():
        name = "edgewright_flash_phase_duration_seconds_sum"
        assert desk.value(name, phase=phase, protocol="esp32") == seconds
    assert desk.value("edgewright_firmware_sent_bytes_total", protocol="esp32") == SENT
    assert desk.value("edgewright_attestations_total", result="recognised") == 1
    assert desk.value("edgewright_attestations_total", result="refused") == 0


def test_what_a_flasher_of_others_makes_up_is_no_label_and_no_number() -> None:
    desk = Desk()
    made_up = Report(sent=-5, phases={"send": float("nan"), "verify": -1.0, "made-up": 2.0})
    desk.metrics.attempted(device(), made_up)
    assert "edgewright_flash_phase_duration_seconds_sum" not in str(list(desk.registry.collect()))
    assert desk.series("edgewright_firmware_sent_bytes") == {}


def test_types_that_people_choose_are_bounded() -> None:
    desk = Desk()
    for number in range(MAX_TYPES + 5):
        desk.metrics.flashed(device(type_=f"board-{number}"), Claim(), REPORT, now=NOW)
    labels = {"outcome": "succeeded", "protocol": "esp32", "device_type": "other"}
    assert desk.value("edgewright_flashes_total", **labels) == 5


def test_devices_are_told_by_state_and_version() -> None:
    desk = Desk(
        device(version="1.0"),
        device(version="1.0", conditions=(STALE_NOW,)),
        device(version="2.0", claim=Claim()),
        device(claim=Claim(not_before=NOW)),
    )
    assert desk.series("edgewright_devices") == {
        ("idle", "1.0"): 1,
        ("stale", "1.0"): 1,
        ("flashing", "2.0"): 1,
        ("claimed", "unknown"): 1,
    }
    assert desk.series("edgewright_claims") == {("active",): 1, ("waiting",): 1}


def test_only_the_versions_that_most_devices_run_are_told_apart() -> None:
    rare = [device(version=f"0.{number}") for number in range(100)]
    common = [device(version=f"{number}.0") for number in range(MAX_VERSIONS) for _ in range(2)]
    versions = {version for _, version in Desk(*rare, *common).series("edgewright_devices")}
    assert versions == {*(f"{number}.0" for number in range(MAX_VERSIONS)), "other"}


async def test_what_devices_wait_for_is_added_up_over_jobs() -> None:
    desk = Desk()
    desk.metrics.waits("a", {"slot": 3, "address": 1}, NOW - timedelta(seconds=60))
    desk.metrics.waits("b", {"slot": 2, "paused": 4}, None)
    assert desk.series("edgewright_devices_waiting") == {("slot",): 5, ("address",): 1, ("paused",): 4}
    await desk.clock.advance(5)
    assert desk.value("edgewright_oldest_waiting_device_age_seconds") == 65
    desk.metrics.waits("a", {}, None)
    desk.metrics.forget("b")
    assert desk.series("edgewright_devices_waiting") == {}
    assert desk.value("edgewright_oldest_waiting_device_age_seconds") == 0


def test_a_process_that_does_not_lead_tells_nothing_of_devices() -> None:
    desk = Desk(device(), leading=False)
    assert not {"edgewright_devices", "edgewright_claims"} & {each.name for each in desk.registry.collect()}


@pytest.mark.parametrize("declared", DECLARED, ids=lambda each: each.name)
def test_names_follow_the_rules_of_prometheus(declared: Any) -> None:
    assert re.fullmatch(r"edgewright_[a-z]+(_[a-z]+)*", declared.name)
    assert (declared.type == "counter") is declared.name.endswith("_total")
    assert not re.search(r"milli|minutes|percent|kilo|_ms(_|$)", declared.name)
    assert declared.help.endswith(".")
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in declared.labels)


def test_they_stand_on_one_page_with_those_of_the_runtime() -> None:
    metrics = Metrics(process=False)
    FlashMetrics(metrics.registry, devices=[device()], clock=VirtualClock(NOW))
    families = {each.name: each.type for each in text_string_to_metric_families(metrics.render().decode())}
    for declared in DECLARED:
        assert families[declared.name.removesuffix("_total")] == declared.type


# --- as the loops count ---------------------------------------------------------------------------------------------


def seen(context: Any, name: str, **labels: str) -> float | None:
    """A value as the operator's own page has it."""
    registry: CollectorRegistry = context.metrics.registry
    return registry.get_sample_value(name, labels)


async def test_a_flash_that_the_loops_bring_to_its_end_is_counted_once(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config, ending=lambda _: REPORT) as on:
        job = await on.job("job", "d1")
        await on.claim(job, await on.device("d1"))
        async with operating(config) as operator:
            await on.settled("d1")
            labels = {"outcome": "succeeded", "protocol": "esp32"}
            assert seen(operator.context, "edgewright_flashes_total", **labels, device_type="esp32") == 1
            assert seen(operator.context, "edgewright_flash_duration_seconds_count", **labels) == 1
            phase = {"phase": "send", "protocol": "esp32"}
            assert seen(operator.context, "edgewright_flash_phase_duration_seconds_sum", **phase) == 8
            assert seen(operator.context, "edgewright_firmware_sent_bytes_total", protocol="esp32") == SENT
            assert seen(operator.context, "edgewright_attestations_total", result="recognised") == 1
            await until(lambda: seen(operator.context, "edgewright_claims", state="active") == 0)


async def test_devices_that_wait_are_told_by_what_they_wait_for(tmp_path: Path) -> None:
    async with jobs_stage(tmp_path) as here:
        here.flashing = False
        await here.make_device("one")
        await here.make_device("two")
        await here.make_job("job", "one", "two", "nobody", maxConcurrent=1)
        await here.make_job("held", "two", paused=True)
        async with here.operating() as context:

            def waiting(reason: str) -> float | None:
                return seen(context, "edgewright_devices_waiting", reason=reason)

            await until(lambda: [waiting(each) for each in ("address", "slot", "discovery", "paused")] == [1, 1, 1, 1])
            age = "edgewright_oldest_waiting_device_age_seconds"
            await until(lambda: (seen(context, age) or 0) > 0)
            assert seen(context, "edgewright_claims", state="active") == 1
            here.flashing = True
            await until(lambda: waiting("slot") is None)
            await here.api("DELETE", "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/default/flashjobs/held")
            await until(lambda: waiting("paused") is None)
