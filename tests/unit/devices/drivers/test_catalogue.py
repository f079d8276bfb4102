"""Which driver speaks which protocol: ours by name, those of others by entry points, each imported alone."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from edgewright.api.flash_pod import Protocol
from edgewright.api.protocols import ENTRY_POINTS, TRAITS
from edgewright.devices.drivers.catalogue import (
    UnknownProtocol,
    UnusableDriver,
    driver_for,
    known_protocols,
)
from edgewright.devices.drivers.esp32_plain import Esp32Plain


def offer(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """As if a package with this entry point was installed."""
    found = EntryPoints([EntryPoint(name=name, value=value, group=ENTRY_POINTS)])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.select(group=group))


@pytest.mark.parametrize("protocol", [Protocol.ESP32, Protocol.ESP32_PLAIN])
def test_every_esp32_protocol_has_its_driver(protocol: Protocol) -> None:
    driver = driver_for(protocol)
    assert driver.protocol == protocol
    assert driver.traits is TRAITS[protocol]
    assert driver.traits.dials_back is (protocol is Protocol.ESP32)
    assert driver.traits.protected is (protocol is Protocol.ESP32)


def test_every_protocol_of_ours_is_known() -> None:
    assert known_protocols() == tuple(str(each) for each in Protocol)


def test_no_name_means_esp32() -> None:
    assert driver_for("").protocol == "esp32"


def test_a_protocol_that_nobody_speaks_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(
        UnknownProtocol, match=r"'smoke-signals'; known are esp32, esp32-plain, smp-udp, smp-tcp"
    ) as told:
        driver_for("smoke-signals")
    assert told.value.protocol == "smoke-signals"


def test_a_package_of_others_may_bring_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "pigeon", "edgewright.devices.drivers.esp32_plain:Esp32Plain")
    assert isinstance(driver_for("pigeon"), Esp32Plain)
    assert known_protocols()[-1] == "pigeon"


def test_nobody_may_replace_a_driver_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "esp32", "edgewright.devices.drivers.esp32_plain:Esp32Plain")
    assert driver_for("esp32").traits.protected
    assert known_protocols().count("esp32") == 1


@pytest.mark.parametrize(
    "value", ["not_there_at_all:Driver", "edgewright.devices.drivers.driver:NotThere"], ids=["no module", "no class"]
)
def test_a_driver_that_cannot_be_loaded_says_so(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    offer(monkeypatch, "pigeon", value)
    with pytest.raises(UnusableDriver, match="'pigeon' cannot be loaded"):
        driver_for("pigeon")


def test_one_driver_is_imported_without_the_others_and_without_what_is_heavy() -> None:
    program = (
        "import sys\n"
        "from edgewright.devices.drivers.catalogue import driver_for\n"
        "driver_for('esp32')\n"
        "heavy = ('aiohttp', 'cryptography', 'typer', 'rich', 'smpclient', 'importlib.metadata')\n"
        "others = [name for name in sys.modules if name.startswith('edgewright.devices.drivers.')\n"
        "          and name.rpartition('.')[2].startswith(('smp', 'esp32_plain'))]\n"
        "print(others + [name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
