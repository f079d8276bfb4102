"""The roles flash and check, from the order to the report, with a device and a registry that are scripted."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from edgewright.api.flash_pod import EXIT_CODES, Outcome, Role, Variable
from edgewright.devices.drivers.driver import Ended, Facts, Identity, Image, Surroundings
from tests.unit.devices.flasher.fakes import AFTER, BEFORE, CERTIFICATE, DIGEST, OTHER_DIGEST, Bench, FakeDriver
from tests.unit.devices.flasher.fakes import Unprotected as UnprotectedDriver

UNREACHABLE = Ended(Outcome.UNREACHABLE, "192.0.2.7 does not answer")


async def test_a_good_flash_reports_all_that_was_seen() -> None:
    bench = Bench()
    assert await bench.run() == 0
    report = bench.report
    assert bench.driver.done == ["inspect", "check", "flash", "verify"]
    assert bench.pulled_for == ["esp32s3"]
    assert (report.outcome, report.digest, report.device) == (Outcome.SUCCEEDED, DIGEST, "esp32s3")
    assert (report.version_before, report.version_after, report.application) == ("0.1.0", "0.2.0", "thermo")
    assert (report.rebooted, report.written, report.attested) == (True, True, False)
    assert report.certificate == hashlib.sha256(CERTIFICATE).hexdigest()
    assert report.log == ()


@pytest.mark.parametrize(
    ("driver", "image", "environment", "outcome", "done"),
    [
        pytest.param(
            FakeDriver(before=UNREACHABLE), None, {}, Outcome.UNREACHABLE, ["inspect"], id="device-does-not-answer"
        ),
        pytest.param(UnprotectedDriver(), None, {}, Outcome.REFUSED, [], id="no-protection"),
        pytest.param(
            FakeDriver(before=replace(BEFORE, device="esp32c3")),
            None,
            {},
            Outcome.INCOMPATIBLE,
            ["inspect"],
            id="another-device",
        ),
        pytest.param(
            FakeDriver(),
            Ended(Outcome.REFUSED, "nobody signed it"),
            {},
            Outcome.REFUSED,
            ["inspect"],
            id="no-signature",
        ),
        pytest.param(
            FakeDriver(facts=Ended(Outcome.CORRUPT, "its checksum is wrong")),
            Image(content=b"x", digest=DIGEST),
            {},
            Outcome.CORRUPT,
            ["inspect", "check"],
            id="damaged",
        ),
        pytest.param(
            FakeDriver(facts=Facts(version="0.4.1")),
            Image(content=b"x", digest=DIGEST),
            {Variable.VERSION_POLICY: "Strict"},
            Outcome.REFUSED,
            ["inspect", "check"],
            id="strict",
        ),
        pytest.param(
            FakeDriver(before=replace(BEFORE, version="0.2.0")),
            Image(content=b"x", digest=DIGEST),
            {Variable.RECORDED_DIGEST: DIGEST},
            Outcome.ALREADY_CURRENT,
            ["inspect", "check"],
            id="current",
        ),
    ],
)
async def test_a_device_that_must_not_be_flashed_is_not_touched(
    driver: FakeDriver, image: Image | Ended | None, environment: dict[str, str], outcome: Outcome, done: list[str]
) -> None:
    bench = Bench(driver=driver, image=image)
    assert await bench.run(environment=environment) == EXIT_CODES[outcome]
    assert (bench.report.outcome, bench.report.written) == (outcome, False)
    assert bench.driver.done == done


async def test_an_unprotected_protocol_is_used_where_the_job_allows_it() -> None:
    bench = Bench(driver=UnprotectedDriver())
    assert await bench.run(environment={Variable.ALLOW_INSECURE: "true"}) == 0


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        pytest.param(replace(BEFORE, boots="2"), Outcome.REVERTED, id="the-old-version-again"),
        pytest.param(replace(BEFORE, version="9", boots="2"), Outcome.FAILED, id="another-version"),
        pytest.param(Ended(Outcome.REVERTED, "slot 0 runs again"), Outcome.REVERTED, id="the-driver-knows"),
        pytest.param(ConnectionResetError("cut"), Outcome.FAILED, id="the-driver-breaks"),
    ],
)
async def test_a_device_that_does_not_run_the_firmware_is_not_completed(
    after: Identity | Exception, outcome: Outcome
) -> None:
    bench = Bench(driver=FakeDriver(after=after))
    assert await bench.run() == EXIT_CODES[outcome]
    assert (bench.report.outcome, bench.report.written) == (outcome, True)
    assert any("flashing 0.2.0 over 0.1.0" in line for line in bench.report.log)


async def test_what_a_device_runs_is_asked_at_last_where_a_flash_ends_without_that() -> None:
    bench = Bench(driver=FakeDriver(after=Ended(Outcome.REVERTED, "it went back"), last=replace(BEFORE, boots="2")))
    await bench.run()
    assert (bench.report.version_after, bench.report.rebooted) == ("0.1.0", True)


async def test_a_device_that_is_silent_at_last_changes_nothing_of_the_outcome() -> None:
    bench = Bench(driver=FakeDriver(after=Ended(Outcome.FAILED, "it is gone"), last=UNREACHABLE))
    await bench.run()
    assert (bench.report.outcome, bench.report.message, bench.report.version_after) == (
        Outcome.FAILED,
        "it is gone",
        "",
    )
    assert any("does not answer" in line for line in bench.report.log)


async def test_an_image_of_another_version_is_proven_by_its_own() -> None:
    driver = FakeDriver(facts=Facts(version="0.4.1"), after=replace(AFTER, version="0.4.1"))
    bench = Bench(driver=driver)
    assert await bench.run() == 0
    assert (bench.report.image_version, bench.report.version_after) == ("0.4.1", "0.4.1")
    assert any("0.4.1 is to be proven" in line for line in bench.said)


async def test_the_version_that_the_job_names_is_no_proof_where_the_image_carries_another() -> None:
    bench = Bench(driver=FakeDriver(facts=Facts(version="0.4.1"), after=AFTER))
    assert await bench.run() == 1
    assert "reports 0.2.0 after the flash, not 0.4.1" in bench.report.message


async def test_a_drifted_device_is_not_taken_for_current_by_the_version_that_the_job_names() -> None:
    drifted = replace(BEFORE, version="0.2.0")
    driver = FakeDriver(before=drifted, facts=Facts(version="0.4.1"), after=replace(AFTER, version="0.4.1"))
    bench = Bench(driver=driver)
    assert await bench.run(environment={Variable.RECORDED_DIGEST: DIGEST}) == 0
    assert bench.report.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    "environment",
    [{}, {Variable.RECORDED_DIGEST: OTHER_DIGEST}, {Variable.RECORDED_DIGEST: DIGEST, Variable.FORCE: "true"}],
    ids=["nothing-recorded", "other-firmware", "forced"],
)
async def test_the_wanted_version_alone_does_not_keep_a_device_from_its_flash(environment: dict[str, str]) -> None:
    bench = Bench(driver=FakeDriver(before=replace(BEFORE, version="0.2.0")))
    assert await bench.run(environment=environment) == 0
    assert (bench.report.outcome, bench.report.written) == (Outcome.SUCCEEDED, True)


async def test_what_somebody_else_flashed_is_checked_and_not_written_again() -> None:
    bench = Bench(driver=FakeDriver(before=AFTER))
    assert await bench.check(Role.CHECK) == 0
    report = bench.report
    assert (report.outcome, report.written, report.version_after) == (Outcome.SUCCEEDED, False, "0.2.0")
    assert "not written by this run" in report.message
    assert "flash" not in bench.driver.done


async def test_what_somebody_else_left_undone_is_flashed() -> None:
    bench = Bench()
    assert await bench.run(Role.CHECK) == 0
    assert bench.report.written


async def test_a_device_that_the_attestation_service_knows_is_attested() -> None:
    asked: list[bytes] = []

    async def attest(certificate: bytes) -> None:
        asked.append(certificate)

    bench = Bench(around=Surroundings(attest=attest))
    assert await bench.run() == 0
    assert bench.report.attested
    assert asked == [CERTIFICATE]


async def test_a_device_that_the_attestation_service_does_not_know_is_refused_and_not_written() -> None:
    async def attest(_certificate: bytes) -> None:
        raise Ended(Outcome.REFUSED, "the attestation service does not know it")

    bench = Bench(around=Surroundings(attest=attest))
    assert await bench.run() == EXIT_CODES[Outcome.REFUSED]
    assert (bench.report.attested, bench.report.written) == (False, False)


async def test_a_device_that_does_not_say_what_it_is_gets_the_firmware_that_the_job_is_for() -> None:
    bench = Bench(driver=FakeDriver(before=replace(BEFORE, device="")))
    assert await bench.run() == 0
    assert bench.pulled_for == ["esp32s3"]
    assert any("cannot be checked" in line for line in bench.said)
