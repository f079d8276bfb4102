"""TLS for the tests of drivers: one server certificate for all of them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgewright.devices.simulated.certificates import server_pair


@dataclass(frozen=True)
class Keys:
    """The server's side, and the certificate that devices pin."""

    server: ssl.SSLContext
    pem: str


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """The flasher's TLS, as it would be made of a Secret."""
    pair = server_pair()
    path: Path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(path)
    return Keys(server=context, pem=pair.certificate)
