"""A type of device in another spelling is no other device, neither to who asks it nor to who takes over its flash."""

from __future__ import annotations

import pytest

from edgewright.api.probe import Told
from edgewright.controllers.inventory.probe_results import difference
from tests.unit.controllers.inventory.fleet import device


@pytest.mark.parametrize(
    ("recorded", "told", "differs"),
    [
        pytest.param("ESP32-S3", "esp32s3", False, id="as the maker writes it"),
        pytest.param("esp32_s3", "ESP32S3", False, id="as people write it"),
        pytest.param("esp32s3", "esp32s2", True, id="another"),
        pytest.param("esp32", "esp32s3", True, id="the beginning of another"),
    ],
)
def test_a_type_that_is_only_spelled_otherwise_is_the_same_device(recorded: str, told: str, differs: bool) -> None:
    found = difference(device(type=recorded), Told(type=told))
    assert (found is not None) == differs
