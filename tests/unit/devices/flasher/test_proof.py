"""What two answers of a device prove."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flash_pod import Outcome, Variable
from edgewright.devices.drivers.driver import Ended, Facts, Identity, Image
from edgewright.devices.flasher.environment import read_order
from edgewright.devices.flasher.proof import image_version, is_current, prove, refusal, runs, wanted_version
from tests.unit.devices.flasher.fakes import BEFORE, DIGEST, ENVIRONMENT, OTHER_DIGEST


def said(version: str = "0.1.0", boots: str = "1", build: str = "") -> Identity:
    return Identity(device="esp32", version=version, boots=boots, build=build)


@pytest.mark.parametrize(
    ("before", "after", "build", "outcome", "says"),
    [
        pytest.param(said(), said("0.2.0", "2"), "", Outcome.SUCCEEDED, "0.2.0 after a restart", id="new-version"),
        pytest.param(said(), said("0.2.0"), "", Outcome.SUCCEEDED, "(before: 0.1.0)", id="new-version-alone"),
        pytest.param(said(""), said("0.2.0", "2"), "", Outcome.SUCCEEDED, "reports 0.2.0", id="said-nothing-before"),
        pytest.param(said("0.2.0"), said("0.2.0", "2"), "", Outcome.SUCCEEDED, "seen to restart", id="same-version"),
        pytest.param(said("0.2.0"), said("0.2.0"), "", Outcome.FAILED, "nothing is proven", id="same-and-nothing-seen"),
        pytest.param(
            said("0.2.0", build="x"), said("0.2.0", build="n"), "n", Outcome.SUCCEEDED, "the new build", id="new-build"
        ),
        pytest.param(
            said("0.2.0", build="n"), said("0.2.0", build="n"), "n", Outcome.FAILED, "nothing is proven", id="old-build"
        ),
        pytest.param(
            said("0.2.0", build="x"), said("0.2.0", build="y"), "n", Outcome.FAILED, "its build is y", id="other-build"
        ),
        pytest.param(
            said("0.2.0", build="x"), said("0.2.0", "2", "x"), "n", Outcome.REVERTED, "its build is x", id="build-back"
        ),
        pytest.param(said(), said("0.1.0", "2"), "", Outcome.REVERTED, "runs 0.1.0 again, not 0.2.0", id="reverted"),
        pytest.param(said(), said(), "", Outcome.FAILED, "was not seen to restart", id="never-restarted"),
        pytest.param(said(), said("0.0.9", "2"), "", Outcome.FAILED, "reports 0.0.9 after", id="third-version"),
        pytest.param(said(), said("", "2"), "", Outcome.FAILED, "reports no version", id="says-nothing-after"),
        pytest.param(said(), said(" 0.2.0\n", "2"), "", Outcome.SUCCEEDED, "reports 0.2.0", id="blanks"),
    ],
)
def test_only_what_was_seen_is_proven(
    before: Identity, after: Identity, build: str, outcome: Outcome, says: str
) -> None:
    verdict = prove(before, after, "0.2.0", Facts(build=build))
    assert (verdict.outcome, says in verdict.message) == (outcome, True), verdict.message


WORDS = st.sampled_from(["", "0.1.0", "0.2.0", "x"])
IDENTITIES = st.builds(Identity, version=WORDS, build=WORDS, boots=WORDS)


@given(before=IDENTITIES, after=IDENTITIES, build=WORDS)
def test_success_means_the_wanted_version_and_a_difference(before: Identity, after: Identity, build: str) -> None:
    verdict = prove(before, after, "0.2.0", Facts(build=build))
    if verdict.outcome is Outcome.SUCCEEDED:
        assert after.version == "0.2.0"
        assert (before.version, before.build, before.boots) != (after.version, after.build, after.boots)
        assert not (build and after.build and build != after.build)
    else:
        assert verdict.outcome in {Outcome.FAILED, Outcome.REVERTED}


@pytest.mark.parametrize(
    ("carried", "policy", "wanted"),
    [
        pytest.param("", "Image", "0.2.0", id="none"),
        pytest.param("0.2.0", "Strict", "0.2.0", id="the-same"),
        pytest.param("0.4.1", "Image", "0.4.1", id="the-image-decides"),
    ],
)
def test_the_version_in_the_image_is_what_is_proven(carried: str, policy: str, wanted: str) -> None:
    assert wanted_version(read_order({**ENVIRONMENT, Variable.VERSION_POLICY: policy}), carried) == wanted


def test_a_strict_job_refuses_an_image_of_another_version_and_names_both() -> None:
    with pytest.raises(Ended, match=r"carries version 0\.4\.1, the job asks for 0\.2\.0") as caught:
        wanted_version(read_order({**ENVIRONMENT, Variable.VERSION_POLICY: "Strict"}), "0.4.1")
    assert caught.value.outcome is Outcome.REFUSED


def test_the_version_in_the_content_goes_before_the_label() -> None:
    image = Image(content=b"", digest=DIGEST, label_version="1")
    assert image_version(image, Facts(version="2")) == "2"
    assert image_version(image, Facts()) == "1"


@pytest.mark.parametrize(
    ("ordered", "said_to_be", "says_type", "refused"),
    [
        pytest.param("esp32s3", "esp32", True, True, id="another"),
        pytest.param("ESP32S3", "esp32s3", True, False, id="ignoring-case"),
        pytest.param("esp32s3", "ESP32-S3", True, False, id="written-in-another-way"),
        pytest.param("", "esp32", True, False, id="anything-will-do"),
        pytest.param("", "", True, False, id="anything-will-do-even-without-a-name"),
        pytest.param("esp32", "", True, True, id="it-does-not-say-though-its-kind-always-does"),
        pytest.param("esp32", "", False, False, id="its-kind-cannot-say"),
        pytest.param("esp32", "qemu", False, True, id="its-kind-need-not-say-and-it-says-another"),
    ],
)
def test_a_device_of_another_type_is_incompatible(
    ordered: str, said_to_be: str, says_type: bool, refused: bool
) -> None:
    order = read_order({**ENVIRONMENT, Variable.DEVICE: ordered})
    verdict = refusal(order, replace(BEFORE, device=said_to_be), says_type=says_type)
    assert (verdict is not None) is refused
    if verdict is not None:
        assert verdict.outcome is Outcome.INCOMPATIBLE
        assert verdict.message.startswith(f"spec.device: the job is for {ordered}, ")
        assert said_to_be in verdict.message


@pytest.mark.parametrize(
    ("recorded", "force", "version", "current"),
    [
        pytest.param(DIGEST, "", "0.2.0", True, id="same-firmware-same-version"),
        pytest.param("", "", "0.2.0", False, id="nothing-recorded"),
        pytest.param(OTHER_DIGEST, "", "0.2.0", False, id="other-firmware"),
        pytest.param(DIGEST, "", "0.1.0", False, id="drifted"),
        pytest.param(DIGEST, "true", "0.2.0", False, id="forced"),
    ],
)
def test_current_means_the_wanted_version_of_the_recorded_firmware(
    recorded: str, force: str, version: str, current: bool
) -> None:
    order = read_order({**ENVIRONMENT, Variable.RECORDED_DIGEST: recorded, Variable.FORCE: force})
    assert is_current(order, replace(BEFORE, version=version), "0.2.0", DIGEST, Facts()) is current


def test_another_build_of_the_wanted_version_does_not_run_it() -> None:
    assert not runs(said("0.2.0", build="x"), "0.2.0", Facts(build="n"))
