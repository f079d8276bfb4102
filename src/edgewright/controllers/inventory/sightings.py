"""What one Instance tells about a device, put in order: identity, address, type, application, version.

The rest of the inventory reads Instances only through this, so that spellings and placeholders of discovery handlers
are dealt with once. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from edgewright.api.endpoint import normalize_endpoint
from edgewright.api.instance import Instance
from edgewright.runtime.objects import Key

SERIAL_PROPERTIES: Final = (
    "SERIAL",
    "SERIAL_NUMBER",
    "SERIALNUMBER",
    "DEVICE_SERIAL",
    "DEVICE_SERIAL_NUMBER",
    "ID_SERIAL",
    "MAC",
    "MAC_ADDRESS",
    "MACADDRESS",
    "DEVICE_MAC",
    "DEVICE_ID",
    "DEVICEID",
    "CHIP_ID",
    "ID",
)
"""Properties that identify the hardware, the most telling first."""
CERTIFICATE_PROPERTIES: Final = (
    "CERTIFICATE_SHA256",
    "CERTIFICATE_FINGERPRINT",
    "CERT_FINGERPRINT",
    "FINGERPRINT",
)
"""Properties that hold the SHA-256 of the device's certificate."""

_PLACEHOLDERS: Final = frozenset(
    {"unknown", "none", "null", "nil", "n/a", "na", "undefined", "unset", "default", "default string", "not specified"}
)
_SEPARATORS: Final = re.compile(r"[\W_]+")
_SHORTEST_FILL: Final = 4
_MAC: Final = re.compile(r"[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}")
_BARE_MAC: Final = re.compile(r"[0-9a-f]{12}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
# As much as the Device's schema takes: a device's chatter must not keep its Device from being written.
_MAX_TYPE, _MAX_ENDPOINT, _MAX_NAME, _MAX_TEXT = 63, 512, 253, 256


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """A device as one Instance shows it."""

    instance: Key
    uid: str
    since: datetime
    """When the Instance was made."""
    configuration: str
    endpoint: str
    """Where the device is, as the Instance says."""
    serials: tuple[str, ...] = ()
    """Everything that identifies the hardware, in one spelling each, the most telling first."""
    certificate: str = ""
    type: str = ""
    application: str = ""
    version: str = ""
    protocol: str = ""

    @property
    def place(self) -> str:
        """Where the device is, in one spelling: what endpoints are compared by."""
        return canonical_endpoint(self.endpoint)

    def contradicts(self, serial: str) -> bool:
        """Whether a device with this serial must be another one."""
        return bool(serial and self.serials) and canonical_serial(serial) not in self.serials


def sighting_of(instance: Instance) -> Sighting | None:
    """What the Instance tells; None where it shows nothing that could be flashed, for it has no address."""
    properties = {name.upper(): value.strip() for name, value in instance.spec.broker_properties.items()}
    endpoint = properties.get("HOST_ENDPOINT", "").casefold()
    if not endpoint or len(endpoint) > _MAX_ENDPOINT:
        return None
    metadata = instance.metadata
    return Sighting(
        instance=instance.key,
        uid=metadata.uid,
        since=metadata.creation_timestamp or _BEGINNING,
        # Akri's schema demands a Configuration; without one the Device would pass for one that people wrote.
        configuration=(instance.spec.configuration_name or metadata.name)[:_MAX_NAME],
        endpoint=endpoint,
        serials=_serials(properties),
        certificate=next(filter(None, (_fingerprint(properties.get(name, "")) for name in CERTIFICATE_PROPERTIES)), ""),
        type=properties.get("DEVICE", "")[:_MAX_TYPE],
        application=properties.get("APPLICATION_TYPE", "")[:_MAX_TEXT],
        version=properties.get("VERSION", "")[:_MAX_TEXT],
        protocol=properties.get("PROTOCOL", "")[:_MAX_TYPE],
    )


def canonical_serial(serial: str) -> str:
    """One spelling for each serial: letter case never counts, nor how the pairs of a MAC address are set apart."""
    serial = serial.strip().casefold()
    if _MAC.fullmatch(serial):
        return _with_colons(re.sub(r"[:.-]", "", serial))
    return serial


def canonical_endpoint(endpoint: str) -> str:
    """One spelling for each endpoint, also where a handler of its own tells one that is no address."""
    return normalize_endpoint(endpoint) or endpoint.strip().casefold()


def _serials(properties: Mapping[str, str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in SERIAL_PROPERTIES:
        value = canonical_serial(properties.get(name, ""))
        if "MAC" in name and _BARE_MAC.fullmatch(value):
            value = _with_colons(value)
        if value not in _PLACEHOLDERS and not _blank(value) and len(value) <= _MAX_NAME:
            found[value] = None
    return tuple(found)


def _blank(value: str) -> bool:
    """Whether it is nothing but zeros or nothing but ff, as hardware without an identity says."""
    letters = _SEPARATORS.sub("", value)
    return not letters.strip("0") or (not letters.strip("f") and len(letters) >= _SHORTEST_FILL)


def _with_colons(digits: str) -> str:
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


def _fingerprint(text: str) -> str:
    digits = text.casefold().removeprefix("sha256:").removeprefix("sha256/").replace(":", "").replace(" ", "")
    return digits if _SHA256.fullmatch(digits) else ""
