"""Client certificates that change: new connections present the newest, and one that cannot be used changes nothing."""

from __future__ import annotations

import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from edgewright.runtime.config import ConfigError
from edgewright.runtime.tls import ClientTls, current
from tests.harness.certificates import Certificate
from tests.unit.runtime.identities import AUTHORITY, pem, user_seen, user_seen_in
from tests.unit.runtime.tls_server import server_context, serving


def rsa_client(user: str) -> Certificate:
    """A certificate that signs itself, with an RSA key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    return Certificate(certificate.public_bytes(forms.Encoding.PEM), private)


@pytest.mark.parametrize("new_key", ["EC", "RSA"])
async def test_new_connections_present_the_newest_certificate(new_key: str) -> None:
    serves = server_context(AUTHORITY)
    first, second = AUTHORITY.client("first"), rsa_client("second") if new_key == "RSA" else AUTHORITY.client("second")
    if new_key == "RSA":
        serves.load_verify_locations(cadata=second.certificate.decode())
    context = ClientTls(authorities=pem(AUTHORITY.certificate))
    async with serving(serves) as server:
        assert await user_seen(server, context) is None
        for pair, user in ((first, "first"), (second, "second"), (first, "first")):
            context.present(pem(pair.certificate), pem(pair.key))
            assert await user_seen(server, context) == user


async def test_requests_with_the_current_context_use_no_connection_of_an_old_certificate() -> None:
    context = ClientTls(authorities=pem(AUTHORITY.certificate))
    async with serving(server_context(AUTHORITY)) as server, aiohttp.ClientSession() as session:
        for user in ("first", "second"):
            pair = AUTHORITY.client(user)
            context.present(pem(pair.certificate), pem(pair.key))
            assert await user_seen_in(session, server, current(context)) == user


def test_the_same_certificate_again_keeps_connections() -> None:
    context, pair = ClientTls(), AUTHORITY.client("me")
    context.present(pem(pair.certificate), pem(pair.key))
    before = current(context)
    context.present(pem(pair.certificate), pem(pair.key))
    assert current(context) is before


def test_the_current_of_a_plain_context_is_itself() -> None:
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert current(plain) is plain


async def test_a_certificate_that_cannot_be_used_changes_nothing() -> None:
    context = ClientTls(authorities=pem(AUTHORITY.certificate))
    good, other = AUTHORITY.client("good"), AUTHORITY.client("other")
    context.present(pem(good.certificate), pem(good.key))
    with pytest.raises(ConfigError, match=r"^key: is not the key of the certificate in cert$"):
        context.present(pem(good.certificate, "cert"), pem(other.key, "key"))
    with pytest.raises(ConfigError, match=r"^key: is not the key of the certificate in cert$"):
        context.present(pem(good.certificate, "cert"), pem(rsa_client("x").key, "key"))
    async with serving(server_context(AUTHORITY)) as server:
        assert await user_seen(server, context) == "good"


@pytest.mark.parametrize("without", ["memfd", "proc"])
def test_where_there_are_no_files_in_memory_a_private_file_is_used_and_removed(
    without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*arguments: object) -> int:
        raise OSError("not here")

    if without == "memfd":
        monkeypatch.setattr(os, "memfd_create", unsupported)
    else:
        monkeypatch.setattr(os, "memfd_create", lambda *_: os.open(tmp_path / "x", os.O_CREAT | os.O_RDWR))
        monkeypatch.setattr(Path, "exists", lambda _: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []
    load_chain = ssl.SSLContext.load_cert_chain

    def watch(self: ssl.SSLContext, certfile: str, keyfile: str, password: Any = None) -> None:
        seen.append((Path(keyfile).parent, Path(keyfile).stat().st_mode & 0o777))
        load_chain(self, certfile, keyfile, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watch)
    pair = AUTHORITY.client("me")
    ClientTls().present(pem(pair.certificate), pem(pair.key))
    assert seen == [(tmp_path, 0o600)]
    assert list(tmp_path.glob("edgewright-*")) == []


def test_where_no_file_can_be_made_at_all_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*arguments: object) -> int:
        raise OSError("not here")

    monkeypatch.setattr(os, "memfd_create", unsupported)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    pair = AUTHORITY.client("me")
    with pytest.raises(ConfigError, match=r"^here: cannot be loaded: No such file or directory$"):
        ClientTls().present(pem(pair.certificate), pem(pair.key))
