"""An endpoint as the operator accepts it is one that every driver can dial."""

from __future__ import annotations

import pytest

from edgewright.api.endpoint import endpoint_problem
from edgewright.api.flash_pod import Variable
from edgewright.devices.drivers.esp_device import host_of, url_of
from edgewright.devices.drivers.smp_wire import place_of
from edgewright.devices.flasher.environment import read_order
from tests.unit.devices.flasher.fakes import ENVIRONMENT


@pytest.mark.parametrize(
    ("written", "url", "host", "place"),
    [
        ("192.0.2.7", "http://192.0.2.7/info", "192.0.2.7", ("192.0.2.7", 1337)),
        ("http://192.0.2.7", "http://192.0.2.7/info", "192.0.2.7", ("192.0.2.7", 1337)),
        ("http://192.0.2.7:8080/", "http://192.0.2.7:8080/info", "192.0.2.7", ("192.0.2.7", 8080)),
        ("tcp://board.example:5000", "http://board.example:5000/info", "board.example", ("board.example", 5000)),
        ("2001:db8::7", "http://[2001:db8::7]/info", "2001:db8::7", ("2001:db8::7", 1337)),
        ("http://[2001:db8::7]:81", "http://[2001:db8::7]:81/info", "2001:db8::7", ("2001:db8::7", 81)),
    ],
)
def test_every_spelling_of_an_endpoint_is_dialled(written: str, url: str, host: str, place: tuple[str, int]) -> None:
    assert endpoint_problem(written, local=False) is None
    endpoint = read_order({**ENVIRONMENT, Variable.HOST_ENDPOINT: written}).target.endpoint
    assert (url_of(endpoint, "/info"), host_of(endpoint), place_of(endpoint, port=1337)) == (url, host, place)


def test_what_only_a_driver_of_others_understands_is_handed_to_it_as_it_is() -> None:
    assert read_order({**ENVIRONMENT, Variable.HOST_ENDPOINT: "usb:1-4.2:x"}).target.endpoint == "usb:1-4.2:x"
