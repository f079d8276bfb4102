"""Names: the published ones wherever Kubernetes takes them, else as unique and always the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flashjob import FlashJobSpec
from edgewright.controllers.flashjob.names import device_name, label_value, pod_name, service_name, state_of

UID = "6f1a2b3c-0000-4000-8000-000000000001"
LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
TEXTS = st.text(min_size=1, max_size=253)


def test_the_published_names_are_kept() -> None:
    assert service_name("flashjob-sample", UID) == f"flashjob-sample-service-{UID}"
    assert pod_name("flashjob-sample", UID) == f"flashjob-sample-flashing-pod-{UID}"
    assert len(service_name("j" * 18, UID)) == 63


@pytest.mark.parametrize(
    ("job", "uuid"),
    [
        pytest.param("j" * 19, UID, id="one character too long"),
        pytest.param("9lives", UID, id="begins with a digit"),
        pytest.param("with.dots", UID, id="dots"),
        pytest.param("job", "Upper_Case", id="upper case"),
        pytest.param("-", "-", id="nothing that counts"),
    ],
)
def test_a_service_whose_published_name_is_no_label_gets_one_with_a_hash(job: str, uuid: str) -> None:
    name = service_name(job, uuid)
    assert LABEL.fullmatch(name)
    assert name != f"{job}-service-{uuid}"


@given(TEXTS, TEXTS)
def test_every_name_is_one_that_the_server_takes(job: str, uuid: str) -> None:
    assert LABEL.fullmatch(service_name(job, uuid))
    assert SUBDOMAIN.fullmatch(pod_name(job, uuid))
    assert len(pod_name(job, uuid)) <= 253
    assert SUBDOMAIN.fullmatch(device_name(uuid))
    assert VALUE.fullmatch(label_value(uuid))


@given(TEXTS, TEXTS, TEXTS)
def test_two_devices_of_a_job_never_share_a_name(job: str, one: str, other: str) -> None:
    different = one != other
    assert (service_name(job, one) != service_name(job, other)) is different
    assert (pod_name(job, one) != pod_name(job, other)) is different
    assert (label_value(one) != label_value(other)) is different
    assert (device_name(one) != device_name(other)) is different


def test_a_state_is_the_firmware_the_version_and_the_type_of_device_and_nothing_else() -> None:
    spec = FlashJobSpec(firmware="registry.example/a:1", version="1")
    assert state_of(spec) == state_of(FlashJobSpec(firmware="registry.example/a:1", version="1", paused=True))
    assert state_of(spec) != state_of(FlashJobSpec(firmware="registry.example/a:2", version="1"))
    assert state_of(spec) != state_of(FlashJobSpec(firmware="registry.example/a:1", version="2"))
    assert state_of(spec) != state_of(FlashJobSpec(firmware="registry.example/a:1", version="1", device="esp32s3"))
    assert re.fullmatch("[0-9a-f]{16}", state_of(spec))


def test_a_state_is_written_alike_by_every_release() -> None:
    # It stands on Devices: another hash for the same spec would flash every fleet again when the operator is updated.
    assert state_of(FlashJobSpec(firmware="registry.example/a:1", version="1")) == "1de77b4d0418a1f3"
    with_type = FlashJobSpec(firmware="registry.example/a:1", version="1", device="esp32s3")
    assert state_of(with_type) == "89251bb026f097f9"
