"""Many simulated devices in one process, each on an address of its own: a loopback one unless told otherwise.

The demo, `edgewright simulate`, benchmarks and tests run one: `async with Fleet(count=12, pinned=pem) as fleet`. Which
device has which fault depends on the seed alone, and its certificate on the seed and its address. It knows nothing of
Kubernetes.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import resource
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from edgewright.devices.simulated.certificates import device_certificate
from edgewright.devices.simulated.device import HTTP_PORT, Device, Make, Slot, Times
from edgewright.devices.simulated.faults import Fault, FaultKind, chosen
from edgewright.devices.simulated.firmware import CHIPS
from edgewright.devices.simulated.journal import Entry
from edgewright.devices.simulated.wire import pinning
from edgewright.runtime.clock import Clock, SystemClock

NETWORK: Final = ipaddress.IPv4Network("127.32.0.0/16")
"""Where simulated devices live: apart from all that the embedded control plane uses of the loopback network."""
FIRST_ADDRESS: Final = "127.32.0.1"
OTA_PORT: Final = 4433
"""Where devices dial in for their firmware; published firmware knows no other."""
MAX: Final = 10_000
"""More devices than any machine runs in one process."""

# A listening socket, one from whoever asks, and one that dials.
_FILES_EACH: Final = 3
_FILES_BESIDES: Final = 200


def check_count(count: int) -> None:
    """ValueError where no fleet has so many devices."""
    if not 0 < count <= MAX:
        raise ValueError(f"a fleet has 1 to {MAX} devices, not {count}")


def check_type(device: str) -> None:
    """ValueError where there are no simulated devices of this type."""
    if device not in CHIPS:
        raise ValueError(f"{device!r} is no type of device that can be simulated; known: {', '.join(CHIPS)}")


def check_addresses(first_address: str, count: int, network: ipaddress.IPv4Network = NETWORK) -> ipaddress.IPv4Address:
    """The first address; ValueError where so many devices from it on are not all where simulated devices live."""
    first = ipaddress.IPv4Address(first_address)
    if first not in network or first + count - 1 not in network:
        raise ValueError(f"{count} devices from {first} on are not all in {network}, where simulated devices live")
    return first


class Fleet:
    """Simulated devices, numbered from 1: an async context manager that starts and stops them all."""

    def __init__(
        self,
        *,
        count: int,
        pinned: str,
        seed: int = 0,
        device: str = "esp32",
        application: str = "thermometer",
        version: str = "0.1.0",
        first_address: str = FIRST_ADDRESS,
        network: ipaddress.IPv4Network = NETWORK,
        port: int = HTTP_PORT,
        ota_port: int = OTA_PORT,
        faults: Sequence[Fault] = (),
        times: Times | None = None,
        tells_boot: bool | Collection[int] = False,
        clock: Clock | None = None,
        told: Callable[[Device, Entry], None] | None = None,
    ) -> None:
        """`pinned` is the PEM of the only server certificate that they trust; `port` 0 gives each any free one.

        `network` is where they live: that of the loopback interface, or a LAN whose addresses this machine has.
        `tells_boot` is whether they count their restarts in /info, which published firmware does not, or the numbers of
        those that do.
        """
        check_count(count)
        check_type(device)
        first = check_addresses(first_address, count, network)
        make = Make(
            device=device,
            ota_port=ota_port,
            trusts=pinning(pinned),
            times=times or Times(),
            clock=clock or SystemClock(),
        )
        has = chosen(faults, count=count, seed=seed)
        came_with = Slot(version=version, application=application)
        self.type = device
        self.devices = tuple(
            Device(
                make,
                number=number,
                address=str(first + number - 1),
                port=port,
                certificate=device_certificate(seed=seed, address=str(first + number - 1)),
                firmware=came_with,
                faults=has.get(number, ()),
                tells_boot=tells_boot if isinstance(tells_boot, bool) else number in tells_boot,
                told=told,
            )
            for number in range(1, count + 1)
        )
        self._by_certificate = {hashlib.sha256(each.certificate).digest(): each for each in self.devices}

    async def __aenter__(self) -> Fleet:
        """Starts them; OSError where an address or port cannot be had, and then none runs."""
        _allow_files(len(self.devices) * _FILES_EACH + _FILES_BESIDES)
        try:
            for device in self.devices:
                await device.start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops them, whatever they do."""
        await self._stop()

    def __getitem__(self, number: int) -> Device:
        """A device by its number, from 1."""
        if not 0 < number <= len(self.devices):
            raise IndexError(f"there is no device {number} in a fleet of {len(self.devices)}")
        return self.devices[number - 1]

    def __iter__(self) -> Iterator[Device]:
        """All devices, in order."""
        return iter(self.devices)

    def __len__(self) -> int:
        """How many there are, present or not."""
        return len(self.devices)

    def at(self, endpoint: str) -> Device:
        """The device at an endpoint; KeyError where there is none."""
        for device in self.devices:
            if device.endpoint == endpoint:
                return device
        raise KeyError(endpoint)

    def recognises(self, certificate: bytes) -> bool:
        """Whether the attestation service is to accept this DER certificate; the device's journal tells of it."""
        device = self._by_certificate.get(hashlib.sha256(certificate).digest())
        return device is not None and device.attest()

    @property
    def known_certificates(self) -> frozenset[bytes]:
        """The DER certificates that an attestation service is to accept now."""
        return frozenset(each.certificate for each in self.devices) - self.unknown_certificates

    @property
    def unknown_certificates(self) -> frozenset[bytes]:
        """The DER certificates of devices that an attestation service is to refuse now."""
        return frozenset(each.certificate for each in self.devices if each.has(FaultKind.REFUSE_ATTESTATION))

    async def _stop(self) -> None:
        await asyncio.gather(*(device.stop() for device in self.devices))


def _allow_files(count: int) -> None:
    """As many open files as the devices need, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
