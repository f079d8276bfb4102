"""`edgewright console`: what it refuses before it listens, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from edgewright.cli import console
from edgewright.cli.console_oidc import Oidc
from edgewright.cli.failure import Failed
from edgewright.cli.up import Listen
from edgewright.console import Limits, listen
from edgewright.runtime.config import Config, ConfigError, load
from tests.harness import wait_until_async
from tests.unit.cli.command import edgewright, sentence
from tests.unit.local.serving.inprocess import serving

LOOPBACK = Listen("127.0.0.1", 0)
ANYWHERE = Listen("0.0.0.0", 0)


def choose(
    where: Listen,
    *,
    cert: Path | None = None,
    key: Path | None = None,
    proxy: bool = False,
    origins: tuple[str, ...] = (),
    as_me: bool = False,
    **oidc: Any,
) -> console.Chosen:
    return console.choose(
        where,
        tls_cert=cert,
        tls_key=key,
        behind_proxy=proxy,
        origins=list(origins),
        as_me=as_me,
        oidc=Oidc(**oidc),
    )


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of this machine and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "tls.crt", folder / "tls.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def test_what_other_machines_can_reach_needs_tls() -> None:
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0:0: other machines can reach it, and tokens would travel"):
        choose(ANYWHERE)
    done = edgewright("console", "--listen", "0.0.0.0:0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "name --tls-cert and --tls-key, or --behind-proxy" in sentence(done)


def test_behind_a_proxy_any_address_will_do_and_the_host_is_the_proxy_s() -> None:
    assert not choose(ANYWHERE, proxy=True).settings.gate.loopback
    assert not choose(LOOPBACK, proxy=True).settings.gate.loopback
    assert choose(LOOPBACK).settings.gate.loopback


def test_with_a_certificate_any_address_will_do(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    chosen = choose(ANYWHERE, cert=cert, key=key)
    assert chosen.tls is not None
    assert (chosen.settings.secure, chosen.settings.gate.loopback) == (True, False)


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with pytest.raises(ConfigError, match="belong together"):
        choose(ANYWHERE, cert=cert)
    with pytest.raises(ConfigError, match=r"--tls-key: .*none: there is no such file"):
        choose(ANYWHERE, cert=cert, key=tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be used"):
        choose(ANYWHERE, cert=key, key=cert)
    secret = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    with pytest.raises(ConfigError, match="encrypted with a password"):
        choose(ANYWHERE, cert=cert, key=key)


@pytest.mark.parametrize("where", [LOOPBACK, ANYWHERE])
def test_nobody_acts_as_the_user_of_the_kubeconfig_from_another_machine(where: Listen) -> None:
    with pytest.raises(ConfigError, match="--as-me lets a browser act as you"):
        choose(where, as_me=True, proxy=True)


def test_an_origin_is_named_exactly() -> None:
    assert choose(LOOPBACK, origins=("https://a.example",)).settings.gate.origins == {"https://a.example"}
    with pytest.raises(ConfigError, match=r"--allow-origin \*: is every origin"):
        choose(LOOPBACK, origins=("*",))


PROVIDER: dict[str, Any] = {"issuer": "https://login.example.com", "client_id": "console"}


@pytest.mark.parametrize(
    ("given", "callback"),
    [
        ({}, ""),
        (PROVIDER, "http://127.0.0.1:1/sign-in/oidc/callback"),
        ({**PROVIDER, "external_url": "https://a.example"}, "https://a.example/sign-in/oidc/callback"),
    ],
)
def test_the_address_that_a_provider_must_know_is_said(given: dict[str, Any], callback: str) -> None:
    url = "http://127.0.0.1:1"
    found = console.callback_of(choose(LOOPBACK, **given).settings, url)
    assert found == callback
    told = console.how_to_use(console.Address(url=url, callback=found), "https://server")
    assert ("which must know this redirect address:\n\n  " + callback in told) == bool(given)


def test_people_sign_in_at_a_provider(tmp_path: Path) -> None:
    secret, keys = tmp_path / "secret", tmp_path / "keys"
    secret.write_text("hidden\n")
    keys.write_text("k" * 40 + "\n")
    cert, _ = certificate(tmp_path)
    here = choose(LOOPBACK, **PROVIDER).settings.oidc
    assert here is not None
    assert (here.external_url, here.client_secret, here.tls, here.keys) == ("", "", None, ())
    assert here.scope == "openid profile email groups"
    there = choose(
        ANYWHERE,
        proxy=True,
        **PROVIDER,
        client_secret_file=secret,
        ca=cert,
        scope=" openid  offline_access",
        external_url="https://console.example.com/",
        session_key_file=keys,
    ).settings.oidc
    assert there is not None
    assert (there.external_url, there.client_secret) == ("https://console.example.com", "hidden")
    assert (there.scope, there.keys) == ("openid offline_access", (b"k" * 40,))
    assert there.tls is not None
    assert choose(LOOPBACK).settings.oidc is None
    assert choose(LOOPBACK, **PROVIDER, external_url="http://localhost:8090").settings.oidc is not None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"client_id": "a"}, "--oidc-client-id is about sign-in at a provider: name that with --oidc-issuer"),
        ({"external_url": "https://a"}, "--external-url is about sign-in"),
        ({"session_key_file": Path("a")}, "--session-key-file is about sign-in"),
        ({"scope": "openid"}, "--oidc-scope is about sign-in"),
        ({"issuer": "https://a.example"}, "Name --oidc-client-id"),
        ({**PROVIDER, "issuer": "http://login.example.com"}, "--oidc-issuer http://login.example.com: must begin with"),
        ({**PROVIDER, "issuer": "login"}, "--oidc-issuer login: is not a URL"),
        ({**PROVIDER, "scope": "email"}, "--oidc-scope: must have openid"),
        ({**PROVIDER, "external_url": "https://a.example/console"}, "has a path, which a proxy cuts off: name --b"),
        ({**PROVIDER, "external_url": "https://a.example/?a=b"}, "is not an address such as https://"),
        ({**PROVIDER, "external_url": "https://a.example/a/../b"}, "is not an address such as https://"),
        ({**PROVIDER, "external_url": "a.example"}, "is not an address such as https://"),
        ({**PROVIDER, "external_url": "http://a.example"}, "--external-url http://a.example: must begin with https"),
        ({**PROVIDER, "client_secret_file": Path("none")}, "--oidc-client-secret-file: none: cannot be read"),
        ({**PROVIDER, "ca": Path("none")}, "--oidc-ca: none: cannot be read"),
        ({**PROVIDER, "session_key_file": Path("none")}, "--session-key-file: none: No such file"),
        ({**PROVIDER, "as_me": True}, "--as-me and --oidc-issuer are two ways to sign in"),
    ],
)
def test_a_sign_in_that_cannot_work_is_refused_before_anything_listens(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        choose(LOOPBACK, **given)


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"\xff\xfe"])
def test_a_secret_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="is not a secret in one line of text"):
        choose(LOOPBACK, **PROVIDER, client_secret_file=file)


@pytest.mark.parametrize("where", [LOOPBACK, ANYWHERE])
def test_behind_a_proxy_the_console_must_know_its_own_address(where: Listen) -> None:
    with pytest.raises(ConfigError, match="where browsers reach the console: name --external-url"):
        choose(where, proxy=True, **PROVIDER)


def test_behind_a_proxy_that_address_may_have_a_path() -> None:
    settings = choose(ANYWHERE, proxy=True, **PROVIDER, external_url="https://a.example/edge/").settings
    assert console.callback_of(settings, "http://127.0.0.1:1") == "https://a.example/edge/sign-in/oidc/callback"


def test_our_kinds_are_read_once_for_all_where_that_is_asked_for_and_next_to_a_control_plane_of_ones_own() -> None:
    assert not choose(LOOPBACK).settings.shared_cache
    asked = console.choose(
        LOOPBACK, tls_cert=None, tls_key=None, behind_proxy=False, origins=[], as_me=False, shared_cache=True
    )
    assert asked.settings.shared_cache
    own = console.for_its_owner(LOOPBACK, option="--console-listen").settings
    assert (own.shared_cache, own.cache_granted) == (True, False)


@pytest.mark.parametrize("shared", [True, False])
def test_foreign_kinds_are_read_once_for_all_only_where_that_is_asked_for_too(shared: bool) -> None:
    def asked() -> console.Chosen:
        return console.choose(
            LOOPBACK,
            tls_cert=None,
            tls_key=None,
            behind_proxy=False,
            origins=[],
            as_me=False,
            shared_cache=shared,
            cache_granted=True,
        )

    if shared:
        assert asked().settings.cache_granted
    else:
        with pytest.raises(ConfigError, match="name --shared-cache too"):
            asked()


def test_what_is_said_has_the_link_only_where_it_was_asked_for() -> None:
    told = console.how_to_use(console.Address(url="http://127.0.0.1:8090"), "https://server")
    assert "sign-in" not in told
    assert 'curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8090/api/v1/kinds' in told
    assert "  http://x/sign-in#abc\n" in console.how_to_use(
        console.Address(url="http://x", secret="abc"), "https://server"
    )


async def test_it_serves_over_tls_until_a_signal_comes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cert, key = certificate(tmp_path)
    chosen = choose(LOOPBACK, cert=cert, key=key, as_me=True)
    async with serving(tmp_path) as api:
        running = asyncio.create_task(console.serve(config(tmp_path, api.url), LOOPBACK, chosen))
        url = ""

        def told() -> bool:
            nonlocal url
            found = re.search(r"at (https://\S+)/api/v1,", capfd.readouterr().out)
            url = found[1] if found else url
            return bool(url)

        await wait_until_async(told, what="it says where it serves")
        trusted = ssl.create_default_context(cafile=str(cert))
        address = url.replace("127.0.0.1", "localhost")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{address}/healthz", ssl=trusted) as answer:
                assert await answer.text() == "ok"
            async with session.get(f"{address}/api/v1/me", ssl=trusted) as answer:
                assert answer.status == 401
        os.kill(os.getpid(), signal.SIGTERM)
        await running


def config(folder: Path, url: str) -> Config:
    """The configuration of an administrator with a certificate, as `edgewright up` writes it."""
    authority = folder / "data" / "pki" / "ca.crt"
    cluster = {"server": url, "certificate-authority": str(authority)}
    document = {
        "clusters": [{"name": "a", "cluster": cluster}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {}}],
        "current-context": "a",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return load(kubeconfig=file)


async def test_a_port_that_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        loaded = config(tmp_path, api.url)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            where = Listen("127.0.0.1", taken.getsockname()[1])
            with pytest.raises(Failed, match="address already in use by another program"):
                await console.serve(loaded, where, choose(where))
        with pytest.raises(Failed, match="name an address of this machine with --listen"):
            await console.serve(loaded, Listen("no.such.host.invalid", 0), choose(ANYWHERE, proxy=True))


async def test_there_are_only_so_many_connections(tmp_path: Path) -> None:
    app = aiohttp.web.Application()
    listener = await listen(
        app, host="127.0.0.1", port=0, tls=None, limits=Limits(connections=1), end_streams=lambda: None
    )
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        other, second = await asyncio.open_connection("127.0.0.1", listener.port)
        assert await other.read() == b""
        for each in (writer, second):
            each.close()
            await each.wait_closed()
    finally:
        await listener.close()


async def test_a_connection_that_never_asks_anything_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edgewright.console.listener._FIRST_REQUEST_SECONDS", 0.05)
    listener = await listen(
        aiohttp.web.Application(), host="127.0.0.1", port=0, tls=None, limits=Limits(), end_streams=lambda: None
    )
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET / HT")
        with pytest.raises(ConnectionError):
            await reader.readexactly(1)
        writer.close()
    except asyncio.IncompleteReadError:
        writer.close()
    finally:
        await listener.close()


def test_the_command_reads_what_was_typed(tmp_path: Path) -> None:
    done = edgewright("console", "--kubeconfig", tmp_path / "none")
    assert done.returncode == 2
    assert "cannot be read" in sentence(done)
    done = edgewright("console", "--listen", "nowhere")
    assert done.returncode == 2
