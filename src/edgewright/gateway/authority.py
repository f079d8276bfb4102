"""Keeps the gateway's authority and certificates in Secrets of its namespace, under the published names.

Several replicas may start at once: a Secret has a fixed name and is created once, and who comes late takes what is
there. Nothing is made again while it is good, so an existing installation keeps its authority and its devices. Which
authority follows which is `rotation`'s business.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from edgewright.api.edge_protocol import REGISTER
from edgewright.gateway import rotation
from edgewright.gateway.certificates import Authority, Issued, is_signed_by, short_of
from edgewright.gateway.identity import Caller, caller_of
from edgewright.gateway.objects import Secret
from edgewright.gateway.rotation import CA_FILES, CA_SECRET, Authorities, Unusable, authorities_in, issued_in
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import AlreadyExists, Conflict, NotFound
from edgewright.runtime.objects import Key, ObjectMeta

_log = logs.get("gateway.authority")

HOST_SECRET: Final = "flotta-host-certificate"  # noqa: S105 - the name of a Secret
REGISTRATION_LABEL: Final = "reg-client-ca"
HOST_FILES: Final = ("server.crt", "server.key")
REGISTRATION_FILES: Final = ("client.crt", "client.key")
RENEW_BEFORE: Final = timedelta(days=30)
_NO_CHECK_TIME: Final = 0x200000
_ATTEMPTS: Final = 5
_MAX_KNOWN: Final = 50_000


def registration_secret(authority: Authority) -> str:
    """The name of the Secret with the registration certificate: always the same for one authority."""
    return f"{REGISTRATION_LABEL}-{authority.fingerprint[:10]}"


class Certificates:
    """The authorities and the certificates of one gateway, as its Secrets hold them."""

    def __init__(
        self,
        client: Client,
        settings: GatewaySettings,
        clock: Clock,
        *,
        revoked: Callable[[str], datetime | None] = lambda _: None,
    ) -> None:
        """`revoked` says up to which moment the certificates of a name are void."""
        self._api = client.of(Secret)
        self._settings = settings
        self._clock = clock
        self._revoked = revoked
        self._known: Authorities | None = None
        self._ends: dict[str, datetime] = {}
        self._callers: dict[bytes, Caller | None] = {}

    @property
    def authority(self) -> Authority:
        """Who signs; `load` comes first."""
        return self.authorities.current

    @property
    def authorities(self) -> Authorities:
        """Who signs, who will, and who did; `load` comes first."""
        if self._known is None:
            raise RuntimeError("the authority has not been loaded yet")
        return self._known

    def caller(self, certificate: bytes) -> Caller | None:
        """Whose certificate (DER) it is; None where nobody whom we trust has signed it, or where it names nobody."""
        if certificate in self._callers:
            return self._callers[certificate]
        if len(self._callers) > _MAX_KNOWN:
            self._callers.clear()
        found = caller_of(certificate)
        if found is not None:
            read = x509.load_der_x509_certificate(certificate)
            signer = next((each for each in self.authorities.trusted if is_signed_by(read, each)), None)
            found = None if signer is None else replace(found, issuer=short_of(signer))
        self._callers[certificate] = found
        return found

    def ends(self) -> dict[str, datetime]:
        """When the authority and the certificate of the gateway end, by what they are; empty before `load`."""
        return dict(self._ends)

    async def load(self) -> ssl.SSLContext:
        """Finds or creates everything, and gives the TLS settings of the port."""
        await self._authorities()
        host = await self._host()
        await self._registration()
        return tls_of(self.authorities, host)

    async def renew(self, tls: ssl.SSLContext) -> None:
        """Reads all of it again, and creates what ends soon; new connections get it at once."""
        before = self.authorities.trusted
        await self._authorities()
        known = self.authorities
        if rotation.is_due(known, self._clock.now(), after=self._settings.trusted_before_use):
            await self._promote(known)
        if self.authorities.trusted != before:
            self._callers.clear()
            tls.load_verify_locations(cadata=self.authorities.bundle)  # one that is gone is refused by `caller`
        _use(tls, await self._host(), self.authorities.chain)
        await self._registration()

    async def _authorities(self) -> None:
        now = self._clock.now()
        ca = await self._keep(CA_SECRET, CA_FILES, lambda: Authority.create(now).issued, lambda _: True)
        rotation.authority_of(ca, CA_SECRET)
        self._known = authorities_in(await self._api.get(self._key(CA_SECRET)))
        self._ends["authority"] = self.authority.certificate.not_valid_after_utc

    async def _promote(self, known: Authorities) -> None:
        """Lets the next authority sign; whichever replica is first."""
        secret = await self._api.get(self._key(CA_SECRET))
        if authorities_in(secret).current.fingerprint == known.current.fingerprint:
            data = rotation.promoted(known, self._clock.now())
            try:
                secret = await self._api.patch(
                    secret.key, {"data": data}, resource_version=secret.metadata.resource_version
                )
            except Conflict:
                return  # another replica does it; it is read with the next look
            _log.info("authority changed", secret=CA_SECRET)
        self._known = authorities_in(secret)

    async def _host(self) -> Issued:
        settings, now = self._settings, self._clock.now()
        issued = await self._keep(
            HOST_SECRET,
            HOST_FILES,
            lambda: self.authority.host(settings.domains, settings.addresses, now),
            lambda each: self._is_good(each) and _names(each) >= {*settings.domains, *settings.addresses},
        )
        self._ends["gateway"] = _certificate(issued, HOST_SECRET).not_valid_after_utc
        return issued

    async def _registration(self) -> Issued:
        now, revoked = self._clock.now(), self._revoked(REGISTER)
        issued = await self._keep(
            registration_secret(self.authority),
            REGISTRATION_FILES,
            lambda: self.authority.registration(now, after=revoked),
            lambda each: (
                self._is_good(each)
                and _common_name(each) == REGISTER
                and (revoked is None or each.not_valid_before_utc > revoked)
            ),
            labels={REGISTRATION_LABEL: "true"},
        )
        self._ends["registration"] = _certificate(issued, REGISTRATION_LABEL).not_valid_after_utc
        return issued

    def _key(self, name: str) -> Key:
        return Key(self._settings.namespace, name)

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
        key = self._key(name)
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


def tls_of(authorities: Authorities, host: Issued) -> ssl.SSLContext:
    """TLS 1.3 for clients whose certificate one of these has signed, whether or not it has expired.

    An expired certificate must get an answer (401), so its dates are looked at with each request. A client without a
    certificate, or with a foreign one, does not get past the handshake.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.verify_flags |= _NO_CHECK_TIME  # OpenSSL has more flags than Python names
    tls.load_verify_locations(cadata=authorities.bundle)
    # Agents keep their connections and resume no session. Two tickets would be a third of the cost of a handshake, and
    # by one of them a client would come in without its certificate being verified again.
    tls.num_tickets = 0
    tls.set_alpn_protocols(["http/1.1"])
    _use(tls, host, authorities.chain)
    return tls


def _use(tls: ssl.SSLContext, host: Issued, chain: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:  # ssl reads a key from a file only
        file = Path(directory, "host.pem")
        file.touch(mode=0o600)
        file.write_bytes(host.certificate + chain + host.key)
        tls.load_cert_chain(file)


def names_in(host: Issued) -> set[str]:
    """The host names and addresses that a gateway's certificate is for."""
    return _names(_certificate(host, HOST_SECRET))


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
