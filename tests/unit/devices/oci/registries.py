"""Registries on loopback for the tests of pulling, plain and with TLS, and what it takes to pull from them."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Any

from edgewright.api.reference import parse_reference
from edgewright.devices.drivers.driver import Image
from edgewright.devices.oci import Access, Credentials, Limits, Login, pull
from edgewright.devices.simulated.registry import Registry
from tests.harness.certificates import Authority

AUTHORITY = Authority()
LOGIN = ("ann", "s3cret")
FIRMWARE = bytes(range(256)) * 800
QUICK = Limits(attempts=3, pause=0)


def _serving() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        certificate = AUTHORITY.server("registry", names=["localhost"], addresses=["127.0.0.1"])
        context.load_cert_chain(*certificate.write(Path(folder), "registry"))
    return context


def secure_registry(**settings: Any) -> Registry:
    """A registry with TLS, whose authority the access below trusts."""
    return Registry(tls=_serving(), **settings)


def secure(registry: Registry, login: tuple[str, str] | None = LOGIN) -> Access:
    """Access over TLS, with credentials where there are some."""
    trust = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    logins = ((registry.host, Login(*login)),) if login is not None else ()
    return Access(tls=trust, credentials=Credentials(logins))


def plain(*registries: Registry) -> Access:
    """Access over plain HTTP."""
    return Access(plain_hosts=frozenset(registry.host for registry in registries))


async def pull_from(
    registry: Registry, image: str = "team/fw:1", *, access: Access | None = None, **more: Any
) -> Image:
    """Pulls an image of a registry, impatiently."""
    settings = {"device": "esp32", "limits": QUICK, **more}
    return await pull(parse_reference(f"{registry.host}/{image}"), access=access or plain(registry), **settings)
