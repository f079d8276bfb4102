"""The address that a flasher is told, which may be one of others that knows the published spelling only."""

from __future__ import annotations

import pytest

from tests.unit.controllers.flashjob.flash_samples import a_job
from tests.unit.controllers.flashjob.test_manifests import THEIRS, environment, made


@pytest.mark.parametrize("container", ["edgewright-inspect", "flash-container", "edgewright-verify"])
@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("http://192.0.2.7", "192.0.2.7"),
        ("http://192.0.2.7:8080/", "192.0.2.7:8080"),
        ("2001:db8::7", "2001:db8::7"),
    ],
)
def test_a_flasher_is_told_an_address_without_a_scheme(written: str, told: str, container: str) -> None:
    pod = made(a_job(host_endpoint=written, flashjob_pod_image=THEIRS))
    assert environment(pod, container)["HOST_ENDPOINT"] == told
