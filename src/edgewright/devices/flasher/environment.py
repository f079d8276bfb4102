"""Reads the environment of a flash Pod into an Order, and says in sentences what is wrong with it.

The program calls it first of all. Pure: it gets the environment as a mapping, opens no file and asks nobody. What only
some drivers need, such as an address to listen on, is checked once the driver is known.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from edgewright.api.endpoint import BadEndpoint, parse_endpoint
from edgewright.api.flash_pod import (
    ATTESTATION_HOST,
    NOTE_FOLDER_VARIABLE,
    PULL_FOLDER,
    PULL_FOLDER_VARIABLE,
    SCRATCH_FOLDER,
    SIGNATURE_FOLDER,
    SIGNATURE_FOLDER_VARIABLE,
    TLS_FOLDER,
    TLS_FOLDER_VARIABLE,
    Protocol,
    Role,
    Variable,
    VersionPolicy,
)
from edgewright.api.flashjob import DEFAULT_TIMEOUT
from edgewright.api.reference import BadReference, Reference, is_digest, parse_reference
from edgewright.devices.attestation import service_url
from edgewright.devices.timescale import time_scale

_Word = TypeVar("_Word", Role, VersionPolicy)


class BadOrder(ValueError):
    """The environment is no order; the message names every variable that is wrong and what it should be."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, kw_only=True)
class WantedFirmware:
    """What the device must run afterwards."""

    reference: Reference
    """The firmware as the job names it."""
    version: str
    pinned: str = ""
    """The digest to pull instead of the tag."""
    version_policy: VersionPolicy = VersionPolicy.IMAGE
    verify_signature: bool = False
    plain_registries: frozenset[str] = frozenset()
    token_hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Target:
    """The device, as far as the operator knows it."""

    endpoint: str
    protocol: str = Protocol.ESP32
    uuid: str = ""
    device: str = ""
    """What it must be; empty: anything."""
    application: str = ""
    recorded: str = ""
    """The digest of the firmware that it is known to run."""
    recorded_certificate: str = ""
    """The SHA-256 of the certificate that it is known by, in hex; empty: of none."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """Who finds whom where."""

    external_address: str = ""
    """What the device is told to dial."""
    listen: str = ""
    """The address of the Pod: nothing else is listened on."""
    attestation: str = ""
    """The URL of the attestation service; empty: there is none."""
    local: bool = False
    """Whether the name of a device may lead to this machine."""


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where the Pod has what it was given."""

    tls: Path = field(default=Path(TLS_FOLDER))
    pull: Path = field(default=Path(PULL_FOLDER))
    signature: Path = field(default=Path(SIGNATURE_FOLDER))
    note: Path = field(default=Path(SCRATCH_FOLDER))
    """Where the inspecting container leaves what it saw for the verifying one."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one run of the flasher must do, as the operator wrote it."""

    role: Role = Role.FLASH
    firmware: WantedFirmware
    target: Target
    network: Network = field(default_factory=Network)
    folders: Folders = field(default_factory=Folders)
    timeout: float = DEFAULT_TIMEOUT
    check: bool = False
    """Whether running the wanted version is enough, because somebody else has just flashed it."""
    force: bool = False
    allow_insecure: bool = False


def read_order(environ: Mapping[str, str]) -> Order:
    """The order in the environment of a flash Pod; BadOrder with all that is wrong, not only the first of it."""
    reader = _Reader(environ)
    reference, target = reader.reference(), _target(reader)
    order = Order(
        role=reader.word(Variable.ROLE, Role.FLASH),
        firmware=_firmware(reader, reference),
        target=target,
        network=Network(
            external_address=reader.place(Variable.EXTERNAL_IP),
            listen=reader.text(Variable.POD_IP),
            attestation=reader.attestation(),
            local=reader.flag(Variable.LOCAL),
        ),
        folders=Folders(
            tls=reader.folder(TLS_FOLDER_VARIABLE, TLS_FOLDER),
            pull=reader.folder(PULL_FOLDER_VARIABLE, PULL_FOLDER),
            signature=reader.folder(SIGNATURE_FOLDER_VARIABLE, SIGNATURE_FOLDER),
            note=reader.folder(NOTE_FOLDER_VARIABLE, SCRATCH_FOLDER),
        ),
        timeout=reader.seconds(Variable.TIMEOUT, DEFAULT_TIMEOUT),
        check=reader.flag(Variable.CHECK),
        force=reader.flag(Variable.FORCE),
        allow_insecure=reader.flag(Variable.ALLOW_INSECURE),
    )
    reader.check_time_scale()
    if reader.mistakes:
        raise BadOrder(reader.mistakes)
    return order


def _firmware(reader: _Reader, reference: Reference) -> WantedFirmware:
    return WantedFirmware(
        reference=reference,
        version=reader.needed(Variable.VERSION, "the version that the device must report afterwards"),
        pinned=reader.digest(Variable.DIGEST),
        version_policy=reader.word(Variable.VERSION_POLICY, VersionPolicy.IMAGE),
        verify_signature=reader.flag(Variable.VERIFY_SIGNATURE),
        plain_registries=reader.hosts(Variable.PLAIN_REGISTRIES),
        token_hosts=reader.hosts(Variable.TOKEN_HOSTS),
    )


def _target(reader: _Reader) -> Target:
    return Target(
        endpoint=_dialled(reader.place(Variable.HOST_ENDPOINT, needed="the address of the device")),
        protocol=reader.text(Variable.PROTOCOL) or Protocol.ESP32,
        uuid=reader.text(Variable.UUID),
        device=reader.text(Variable.DEVICE),
        application=reader.text(Variable.APPLICATION_TYPE),
        recorded=reader.digest(Variable.RECORDED_DIGEST),
        recorded_certificate=reader.text(Variable.RECORDED_CERTIFICATE).lower(),
    )


def check_dialling_back(order: Order) -> None:
    """BadOrder where a device that dials back could not be told where, or would be listened for on every address."""
    mistakes = []
    if not order.network.external_address:
        mistakes.append(f"{Variable.EXTERNAL_IP} is empty: it must be the address that the device must dial")
    listen = order.network.listen
    try:
        if ipaddress.ip_address(listen).is_unspecified:
            mistakes.append(
                f"{Variable.POD_IP} must be the Pod's own address, not {listen}, which stands for every one"
            )
    except ValueError:
        mistakes.append(f"{Variable.POD_IP} must be the Pod's own address, not {listen!r}")
    if mistakes:
        raise BadOrder(mistakes)


def _dialled(endpoint: str) -> str:
    """The endpoint as drivers dial it, for people may write http:// before it; what is none of ours stays as it is."""
    try:
        return str(parse_endpoint(endpoint))
    except BadEndpoint:
        return endpoint


class _Reader:
    """Takes variables from an environment, and gathers what is wrong with them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.mistakes: list[str] = []

    def text(self, name: str) -> str:
        return self._environ.get(name, "").strip()

    def needed(self, name: str, what: str) -> str:
        text = self.text(name)
        if not text:
            self.mistakes.append(f"{name} is empty: it must be {what}")
        return text

    def place(self, name: str, *, needed: str = "") -> str:
        text = self.needed(name, needed) if needed else self.text(name)
        # It goes into a line of a request: whoever could put a line break here could write requests of their own.
        if any(letter.isspace() or not letter.isprintable() for letter in text):
            self.mistakes.append(f"{name} must be an address, not {text!r}")
        return text

    def hosts(self, name: str) -> frozenset[str]:
        return frozenset(host for part in self.text(name).split(",") if (host := part.strip()))

    def reference(self) -> Reference:
        try:
            return parse_reference(self.text(Variable.FIRMWARE))
        except BadReference as error:
            self.mistakes.append(f"{Variable.FIRMWARE}: {error}")
            return Reference(host="", repository="")

    def digest(self, name: str) -> str:
        text = self.text(name)
        if text and not is_digest(text):
            self.mistakes.append(f"{name} must be a digest (sha256: and 64 hexadecimal digits), not {text!r}")
        return text

    def flag(self, name: str) -> bool:
        text = self.text(name).lower()
        if text not in {"", "true", "false"}:
            self.mistakes.append(f"{name} must be true or false, not {text!r}")
        return text == "true"

    def word(self, name: str, default: _Word) -> _Word:
        text = self.text(name)
        if not text:
            return default
        try:
            return type(default)(text)
        except ValueError:
            self.mistakes.append(f"{name} must be one of {', '.join(type(default))}, not {text!r}")
            return default

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            self.mistakes.append(f"{name} must be a number of seconds above 0, not {text!r}")
            return default
        return value

    def folder(self, name: str, default: str) -> Path:
        return Path(self.text(name) or default)

    def check_time_scale(self) -> None:
        """Drivers read it themselves; here it is told with the other mistakes."""
        try:
            time_scale(self._environ)
        except ValueError as error:
            self.mistakes.append(str(error))

    def attestation(self) -> str:
        url = self.text(Variable.ATTESTATION)
        if url:
            if not url.startswith(("http://", "https://")):
                self.mistakes.append(f"{Variable.ATTESTATION} must be an http or https URL, not {url!r}")
            return url
        host = self.text(ATTESTATION_HOST)
        return service_url(host) if host else ""
