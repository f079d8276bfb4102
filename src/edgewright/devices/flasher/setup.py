"""Gets what an order needs from the world: the driver, the puller with its credentials, TLS and the attestation.

The program calls it once. It reads files that the Pod has mounted and imports only what this order needs; it neither
listens nor dials yet, and what it reads never comes into a message.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from edgewright.api.flash_pod import Outcome, Role
from edgewright.devices.attestation import AttestationClient
from edgewright.devices.drivers.catalogue import UnknownProtocol, UnusableDriver, driver_for
from edgewright.devices.drivers.driver import Driver, Ended, Image, Surroundings
from edgewright.devices.flasher.environment import Order, check_dialling_back
from edgewright.devices.flasher.steps import Equipment
from edgewright.devices.oci import Access, BadCredentials, Credentials, pull, read_dockerconfig
from edgewright.devices.resolver import pinned

CERTIFICATE_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
PULL_FILE: Final = ".dockerconfigjson"
PUBLIC_KEY_FILE: Final = "cosign.pub"
_WRITING: Final = frozenset({Role.FLASH, Role.CHECK})


def equip(order: Order, log: Callable[[str], None]) -> Equipment:
    """All that the order needs; Ended or BadOrder where something of it is missing."""
    network = order.network
    driver = pinned(find_driver(order.target.protocol), local=network.local, like=network.external_address)
    return Equipment(driver=driver, pull=puller(order, log), around=surroundings(order, driver, log))


def find_driver(protocol: str) -> Driver:
    """The driver for the protocol; Ended(FAILED) with those that there are where there is none."""
    try:
        return driver_for(protocol)
    except (UnknownProtocol, UnusableDriver) as error:
        raise Ended(Outcome.FAILED, str(error)) from error


def surroundings(order: Order, driver: Driver, log: Callable[[str], None]) -> Surroundings:
    """What the driver may use; TLS only where this run writes and the device dials back."""
    attest = attestation(order, log)
    if not driver.traits.dials_back or order.role not in _WRITING:
        return Surroundings(external_address=order.network.external_address, attest=attest)
    check_dialling_back(order)
    return Surroundings(
        listen=order.network.listen,
        external_address=order.network.external_address,
        tls=server_side(order.folders.tls),
        attest=attest,
    )


def server_side(folder: Path) -> ssl.SSLContext:
    """The TLS of the server that devices dial, with the certificate that their firmware pins."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # the published firmware speaks no later one
    try:
        context.load_cert_chain(folder / CERTIFICATE_FILE, folder / KEY_FILE, password=_no_passphrase)
    except OSError as error:  # ssl.SSLError is one
        reason = "they are not there" if isinstance(error, FileNotFoundError) else f"they cannot be used ({error})"
        raise Ended(
            Outcome.FAILED,
            f"the certificate that the devices pin and its key are to be in {CERTIFICATE_FILE} and {KEY_FILE} of the"
            f" Secret that the FlashJob's tlsSecretName names: {reason}",
        ) from error
    return context


def _no_passphrase() -> str:
    """Called for a key that is locked; without it OpenSSL would ask on a terminal, and wait."""
    raise OSError("the key has a passphrase, and nobody is here to type it")


def attestation(order: Order, log: Callable[[str], None]) -> Callable[[bytes], Awaitable[None]] | None:
    """What asks the attestation service about a certificate; None where there is no service."""
    if not order.network.attestation:
        log("there is no attestation service: the device is not attested")
        return None
    if order.network.attestation.startswith("http://"):
        log("the attestation service is asked over plain HTTP, which anybody on the way can answer")
    return AttestationClient(order.network.attestation, log=log).attest


def puller(order: Order, log: Callable[[str], None]) -> Callable[[str], Awaitable[Image]]:
    """What pulls the firmware for a type of device, with the Pod's credentials and the key that must have signed it."""

    async def pull_for(device: str) -> Image:
        return await pull(
            order.firmware.reference,
            device=device,
            access=Access(
                plain_hosts=order.firmware.plain_registries,
                token_hosts=order.firmware.token_hosts,
                credentials=credentials(order.folders.pull),
            ),
            pinned=order.firmware.pinned,
            public_key=public_key(order) if order.firmware.verify_signature else None,
            log=log,
        )

    return pull_for


def credentials(folder: Path) -> Credentials | None:
    """The credentials that the Pod has for registries; None where it has none, Ended(FAILED) where they are no such."""
    try:
        return read_dockerconfig((folder / PULL_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, BadCredentials) as error:
        raise Ended(
            Outcome.FAILED,
            f"the credentials for the registry are to be in {PULL_FILE} of the Secret that the FlashJob's"
            f" firmwarePullSecret names: {error}",
        ) from error


def public_key(order: Order) -> bytes:
    """The key that must have signed the firmware; Ended(REFUSED) where it is missing, for nothing goes unchecked."""
    try:
        return (order.folders.signature / PUBLIC_KEY_FILE).read_bytes()
    except OSError as error:
        raise Ended(
            Outcome.REFUSED,
            f"the key to check the firmware's signature by is to be in {PUBLIC_KEY_FILE} of the Secret that the"
            f" FlashJob's signaturePublicKeySecret names: {error.strerror or error}",
        ) from error
