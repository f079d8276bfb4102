"""Keeps the gateway's authority and certificates in Secrets of its namespace, under the published names.

Several replicas may start at once: a Secret has a fixed name and is created once, and who comes late takes what is
there. Nothing is made again while it is good, so an existing installation keeps its authority and its devices.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from edgewright.api.edge_protocol import REGISTER
from edgewright.gateway.certificates import Authority, Issued
from edgewright.gateway.objects import Secret
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import AlreadyExists, Conflict, NotFound
from edgewright.runtime.objects import Key, ObjectMeta

_log = logs.get("gateway.authority")

CA_SECRET: Final = "flotta-ca"  # noqa: S105 - the name of a Secret
HOST_SECRET: Final = "flotta-host-certificate"  # noqa: S105 - the name of a Secret
REGISTRATION_LABEL: Final = "reg-client-ca"
CA_FILES: Final = ("ca.crt", "ca.key")
HOST_FILES: Final = ("server.crt", "server.key")
REGISTRATION_FILES: Final = ("client.crt", "client.key")
RENEW_BEFORE: Final = timedelta(days=30)
_NO_CHECK_TIME: Final = 0x200000
_ATTEMPTS: Final = 5


class Unusable(Exception):
    """A Secret of ours holds something that is no certificate with its key; the sentence names it."""


def registration_secret(authority: Authority) -> str:
    """The name of the Secret with the registration certificate: always the same for one authority."""
    return f"{REGISTRATION_LABEL}-{authority.fingerprint[:10]}"


class Certificates:
    """The authority and the certificates of one gateway, as its Secrets hold them."""

    def __init__(self, client: Client, settings: GatewaySettings, clock: Clock) -> None:
        self._api = client.of(Secret)
        self._settings = settings
        self._clock = clock
        self._authority: Authority | None = None

    @property
    def authority(self) -> Authority:
        """Who signs; `load` comes first."""
        if self._authority is None:
            raise RuntimeError("the authority has not been loaded yet")
        return self._authority

    async def load(self) -> ssl.SSLContext:
        """Finds or makes everything, and gives the TLS settings of the port."""
        now = self._clock.now()
        ca = await self._keep(CA_SECRET, CA_FILES, lambda: Authority.create(now).issued, lambda _: True)
        try:
            self._authority = Authority(ca)
        except (ValueError, TypeError) as error:
            raise Unusable(f"Secret {CA_SECRET}: {error}") from None
        host = await self._host()
        await self._registration()
        return tls_of(ca, host)

    async def renew(self, tls: ssl.SSLContext) -> None:
        """Makes what ends soon again; new connections get it at once, the authority stays."""
        _use(tls, await self._host())
        await self._registration()

    async def _host(self) -> Issued:
        settings, now = self._settings, self._clock.now()
        return await self._keep(
            HOST_SECRET,
            HOST_FILES,
            lambda: self.authority.host(settings.domains, settings.addresses, now),
            lambda each: self._is_good(each) and _names(each) >= {*settings.domains, *settings.addresses},
        )

    async def _registration(self) -> Issued:
        now = self._clock.now()
        return await self._keep(
            registration_secret(self.authority),
            REGISTRATION_FILES,
            lambda: self.authority.registration(now),
            lambda each: self._is_good(each) and _common_name(each) == REGISTER,
            labels={REGISTRATION_LABEL: "true"},
        )

    def _is_good(self, certificate: x509.Certificate) -> bool:
        left = certificate.not_valid_after_utc - self._clock.now()
        is_told_apart = certificate.subject != certificate.issuer  # published ones have one subject: OpenSSL balks
        return left > RENEW_BEFORE and is_told_apart and self.authority.has_signed(certificate)

    async def _keep(
        self,
        name: str,
        files: tuple[str, str],
        make: Callable[[], Issued],
        good: Callable[[x509.Certificate], bool],
        *,
        labels: dict[str, str] | None = None,
    ) -> Issued:
        """What the Secret holds, made where it is missing or no longer good."""
        key = Key(self._settings.namespace, name)
        for _ in range(_ATTEMPTS):
            try:
                secret = await self._api.get(key)
            except NotFound:
                secret = None
            if secret is not None:
                issued = issued_in(secret, files)
                if good(_certificate(issued, name)):
                    return issued
            new = make()
            data = {file: base64.b64encode(text).decode() for file, text in zip(files, _parts(new), strict=True)}
            try:
                if secret is None:
                    metadata = ObjectMeta(name=name, namespace=key.namespace, labels=labels or {})
                    await self._api.create(Secret(metadata=metadata, type="Opaque", data=data))
                else:
                    await self._api.patch(key, {"data": data}, resource_version=secret.metadata.resource_version)
            except (AlreadyExists, Conflict):
                continue  # another replica was faster: what it wrote is as good
            _log.info("certificate written", secret=str(key))
            return new
        raise Unusable(f"Secret {key} keeps changing: another program writes it too")


def tls_of(ca: Issued, host: Issued) -> ssl.SSLContext:
    """TLS 1.3 for clients whose certificate this authority has signed, whether or not it has expired.

    An expired certificate must get an answer (401), so its dates are looked at with each request. A client without a
    certificate, or with a foreign one, does not get past the handshake.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.verify_flags |= _NO_CHECK_TIME  # OpenSSL has more flags than Python names
    tls.load_verify_locations(cadata=ca.certificate.decode())
    tls.set_alpn_protocols(["http/1.1"])
    _use(tls, host)
    return tls


def _use(tls: ssl.SSLContext, host: Issued) -> None:
    with tempfile.TemporaryDirectory() as directory:  # ssl reads a key from a file only
        file = Path(directory, "host.pem")
        file.touch(mode=0o600)
        file.write_bytes(host.certificate + host.key)
        tls.load_cert_chain(file)


def names_in(host: Issued) -> set[str]:
    """The host names and addresses that a gateway's certificate is for."""
    return _names(_certificate(host, HOST_SECRET))


def issued_in(secret: Secret, files: tuple[str, str]) -> Issued:
    """The certificate and the key that a Secret holds; Unusable where it does not."""
    try:
        certificate, key = (base64.b64decode(secret.data[file], validate=True) for file in files)
    except KeyError as error:
        raise Unusable(f"Secret {secret.key} has no {error.args[0]}") from None
    except binascii.Error:
        raise Unusable(f"Secret {secret.key} holds something that is not base64") from None
    return Issued(certificate, key)


def _parts(issued: Issued) -> tuple[bytes, bytes]:
    return issued.certificate, issued.key


def _certificate(issued: Issued, name: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(issued.certificate)
    except ValueError:
        raise Unusable(f"Secret {name} holds no certificate in PEM") from None


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    found = set(names.get_values_for_type(x509.DNSName))
    return found | {str(each) for each in names.get_values_for_type(x509.IPAddress)}


def _common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""
