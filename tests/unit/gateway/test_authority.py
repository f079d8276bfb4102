"""The Secrets with the gateway's certificates: made once, kept while they are good, and told where they are not."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from edgewright.api.capabilities import GATEWAY_RULES
from edgewright.gateway.authority import HOST_SECRET, Certificates, names_in, registration_secret
from edgewright.gateway.certificates import Authority, Issued
from edgewright.gateway.objects import Secret
from edgewright.gateway.rotation import CA_SECRET, Unusable, issued_in
from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.objects import Key
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[3]


async def contents(client: Client) -> dict[str, dict[str, str]]:
    """The data of every Secret, by name."""
    return {each.metadata.name: each.data for each in (await client.of(Secret).list(NAMESPACE)).items}


async def test_everything_is_made_once_under_the_published_names_and_renewed_in_time(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, Client(config) as client:
        clock = VirtualClock(NOW)
        certificates = Certificates(client, settings(), clock)
        with pytest.raises(RuntimeError, match="not been loaded"):
            _ = certificates.authority
        tls = await certificates.load()
        assert tls.minimum_version is ssl.TLSVersion.TLSv1_3
        assert tls.num_tickets == 0, "nobody resumes a session, and tickets are a third of a handshake"
        first = await contents(client)
        registration = registration_secret(certificates.authority)
        assert first.keys() == {CA_SECRET, HOST_SECRET, registration}
        assert {name: set(data) for name, data in first.items()} == {
            CA_SECRET: {"ca.crt", "ca.key"},
            HOST_SECRET: {"server.crt", "server.key"},
            registration: {"client.crt", "client.key"},
        }
        assert b"EC PRIVATE KEY" in base64.b64decode(first[registration]["client.key"])
        await Certificates(client, settings(), clock).load()
        assert await contents(client) == first
        await clock.advance(timedelta(days=340).total_seconds())
        await certificates.renew(tls)
        later = await contents(client)
        assert {name for name in later if later[name] != first[name]} == {HOST_SECRET, registration}
        await Certificates(client, settings(domains=("gateway.example",)), clock).load()
        host = await client.of(Secret).get(Key(NAMESPACE, HOST_SECRET))
        issued = issued_in(host, ("server.crt", "server.key"))
        assert names_in(issued) == {"gateway.example", "127.0.0.1", "::1"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param({}, "has no ca.crt", id="empty"),
        pytest.param({"ca.crt": "%", "ca.key": "%"}, "not base64", id="not base64"),
        pytest.param({"ca.crt": "aGk=", "ca.key": "aGk="}, "no certificate in PEM", id="not PEM"),
    ],
)
async def test_a_secret_that_holds_something_else_is_told_and_never_overwritten(
    tmp_path: Path, data: dict[str, str], problem: str
) -> None:
    async with plane(tmp_path) as config, Client(config) as client:
        metadata: dict[str, Any] = {"name": CA_SECRET, "namespace": NAMESPACE}
        if "%" in data.values():
            secret = Secret(data=data)
            with pytest.raises(Unusable, match=problem):
                issued_in(secret, ("ca.crt", "ca.key"))
            return
        await client.raw(Secret.kind).create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        with pytest.raises(Unusable, match=problem):
            await Certificates(client, settings(), VirtualClock(NOW)).load()
        assert await contents(client) == {CA_SECRET: data}


def test_an_authority_needs_a_key_that_it_can_sign_with() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    good = Authority.create(NOW).issued
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(TypeError, match="neither an EC nor an RSA key"):
        Authority(Issued(good.certificate, key))


def test_an_authority_knows_its_own() -> None:
    one, two = Authority.create(NOW), Authority.create(NOW)
    certificate = x509.load_pem_x509_certificate(one.registration(NOW).certificate)
    assert one.has_signed(certificate)
    assert not two.has_signed(certificate)


def test_the_role_of_the_gateway_is_what_the_capability_declares_and_lists_no_secrets() -> None:
    role = yaml.safe_load((ROOT / "config" / "gateway" / "role.yaml").read_text())
    assert role["rules"] == [
        {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
        for rule in GATEWAY_RULES
    ]
    for rule in GATEWAY_RULES:
        assert rule.why
        assert "secrets" not in rule.resources or not {"list", "watch"} & set(rule.verbs)
