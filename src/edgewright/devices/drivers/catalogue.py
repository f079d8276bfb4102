"""Which driver speaks which protocol: ours by a table, further ones by entry points.

The flasher asks here once it knows the device's protocol. Only the module of the driver asked for is imported; nothing
here speaks to a device.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, cast

from edgewright.api.flash_pod import Protocol
from edgewright.api.protocols import Traits, offered
from edgewright.devices.drivers.driver import Driver

OURS: Final = {
    Protocol.ESP32: "edgewright.devices.drivers.esp32:Esp32",
    Protocol.ESP32_PLAIN: "edgewright.devices.drivers.esp32_plain:Esp32Plain",
    Protocol.SMP_UDP: "edgewright.devices.drivers.smp:SmpUdp",
    Protocol.SMP_TCP: "edgewright.devices.drivers.smp:SmpTcp",
}
"""Our drivers: module and class, which is called without arguments. They go before entry points of the same name."""


class UnknownProtocol(LookupError):
    """No driver speaks that protocol; the message lists those that some driver speaks."""

    def __init__(self, protocol: str, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no driver for the protocol {protocol!r}; known are {', '.join(known)}")
        self.protocol = protocol
        self.known = known


class UnusableDriver(Exception):
    """There is a driver for the protocol, but it cannot be used here; the message says why."""


def driver_for(protocol: str) -> Driver:
    """The driver for that protocol, new; UnknownProtocol where there is none. An empty name means esp32."""
    protocol = protocol or Protocol.ESP32
    try:
        make = _maker(protocol)
        return make()
    except ImportError as error:
        raise UnusableDriver(f"the driver for the protocol {protocol!r} cannot be loaded: {error}") from error


def known_protocols() -> tuple[str, ...]:
    """Every protocol that some driver speaks: ours, then those of others by name."""
    return (*(str(name) for name in OURS), *sorted(set(offered()) - set(OURS)))


def _maker(protocol: str) -> Callable[[], Driver]:
    place = OURS.get(cast(Protocol, protocol))
    if place is not None:
        module, _, name = place.partition(":")
        return cast(Callable[[], Driver], getattr(importlib.import_module(module), name))
    entry = offered().get(protocol)
    if entry is None:
        raise UnknownProtocol(protocol, known_protocols())
    try:
        loaded: Any = entry.load()
    except AttributeError as error:
        raise UnusableDriver(f"the driver for the protocol {protocol!r} cannot be loaded: {error}") from error
    if not isinstance(getattr(loaded, "traits", None), Traits):
        raise UnusableDriver(f"the driver for the protocol {protocol!r} does not say its traits")
    return cast(Callable[[], Driver], loaded)
