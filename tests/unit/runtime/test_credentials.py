"""Credentials over time: what rotates, expires or is refused is replaced, and no secret is ever shown."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import sys
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
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import ConfigError, load
from edgewright.runtime.credentials import (
    Anonymous,
    Basic,
    CertificateFiles,
    Credentials,
    CredentialsError,
    Impersonated,
    Token,
    TokenFile,
)
from edgewright.runtime.exec_plugin import API_VERSIONS, ExecEntry, ExecPlugin, exec_info, renewal_time
from edgewright.runtime.tls import ClientTls, Pem, PemFile, current
from tests.harness.certificates import Authority, Certificate
from tests.unit.runtime.tls_server import server_context, serving

AUTHORITY = Authority()
START = datetime(2026, 1, 1, tzinfo=UTC)


async def authorization(credentials: Credentials) -> str | None:
    return (await credentials.headers()).get("Authorization")


def replace(path: Path, content: str | bytes) -> None:
    """Put a new file in the place of the old one, as the kubelet and cert-manager do."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(content.encode() if isinstance(content, str) else content)
    beside.replace(path)


def overwrite(path: Path, content: str) -> None:
    path.write_text(content)


def remove(path: Path) -> None:
    path.unlink()


# --- fixed credentials


async def test_what_stands_in_the_configuration_is_sent_as_it_is() -> None:
    assert dict(await Anonymous().headers()) == {}
    assert await authorization(Token("abc")) == "Bearer abc"
    assert await authorization(Basic("jane", "secret")) == "Basic amFuZTpzZWNyZXQ="


async def test_refusing_what_is_fixed_changes_nothing() -> None:
    token = Token("abc")
    token.refused()
    assert await authorization(token) == "Bearer abc"


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "ü"], ids=["empty", "blank", "newline", "not ASCII"])
def test_a_token_that_cannot_be_sent_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(CredentialsError, match=r"^here: (holds no token|is not a token)") as caught:
        Token(token, origin="here")
    assert not token or token not in str(caught.value)


# --- token files


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("one\n")
    return path


async def test_a_token_file_is_read_again_after_it_rotates(token_file: Path) -> None:
    clock = VirtualClock()
    credentials = TokenFile(token_file, origin="o", clock=clock)
    replace(token_file, "two")
    assert await authorization(credentials) == "Bearer one"
    await clock.advance(5)
    assert await authorization(credentials) == "Bearer two"


async def test_a_token_file_behind_the_kubelets_links_is_read_again(tmp_path: Path) -> None:
    for number in ("one", "two"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "token").write_text(number)
        os.utime(tmp_path / number / "token", (1, 1))
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "token").symlink_to("..data/token")
    clock = VirtualClock()
    credentials = TokenFile(tmp_path / "token", origin="o", clock=clock)
    (tmp_path / "..tmp").symlink_to("two")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    await clock.advance(5)
    assert await authorization(credentials) == "Bearer two"


async def test_a_token_file_that_looks_the_same_is_read_each_minute(token_file: Path) -> None:
    os.utime(token_file, (1, 1))
    clock = VirtualClock()
    credentials = TokenFile(token_file, origin="o", clock=clock)
    overwrite(token_file, "two\n")
    os.utime(token_file, (1, 1))
    await clock.advance(59)
    assert await authorization(credentials) == "Bearer one"
    await clock.advance(5)
    assert await authorization(credentials) == "Bearer two"


async def test_a_refused_token_file_is_read_at_once(token_file: Path) -> None:
    credentials = TokenFile(token_file, origin="o", clock=VirtualClock())
    replace(token_file, "two")
    credentials.refused()
    assert await authorization(credentials) == "Bearer two"


async def test_a_token_file_that_vanishes_for_a_while_does_no_harm(
    token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    credentials = TokenFile(token_file, origin="o", clock=clock)
    remove(token_file)
    await clock.advance(5)
    assert await authorization(credentials) == "Bearer one"
    assert [record.message for record in caplog.records] == [
        "a token file cannot be read, the token it held before is used"
    ]
    credentials.refused()
    with pytest.raises(ConfigError, match=f"^o: {token_file}: cannot be read"):
        await credentials.headers()
    overwrite(token_file, "two")
    assert await authorization(credentials) == "Bearer two"


async def test_headers_touch_no_file_while_the_token_is_fresh(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = TokenFile(token_file, origin="o", clock=VirtualClock())

    def touched(*arguments: object, **settings: object) -> None:
        raise AssertionError("a file was touched")

    monkeypatch.setattr(Path, "stat", touched)
    monkeypatch.setattr(Path, "read_bytes", touched)
    assert await authorization(credentials) == "Bearer one"


# --- client certificates


def pem(data: bytes, origin: str = "here") -> Pem:
    return Pem(origin=origin, data=data)


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


async def user_seen(server: str, context: ssl.SSLContext) -> str | None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        return await user_seen_in(session, server)


async def user_seen_in(
    session: aiohttp.ClientSession, server: str, context: ssl.SSLContext | None = None
) -> str | None:
    async with session.get(f"{server}/who", ssl=context or True) as response:
        user: str | None = (await response.json())["user"]
        return user


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


async def test_certificate_files_that_rotate_are_loaded_for_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = (AUTHORITY.client(user) for user in ("first", "second", "third"))
    certificate, key = first.write(tmp_path, "me")
    clock = VirtualClock()
    context = ClientTls(authorities=pem(AUTHORITY.certificate))
    credentials = CertificateFiles(
        Token("t"),
        tls=context,
        certificate=PemFile(origin="c", path=certificate),
        key=PemFile(origin="k", path=key),
        clock=clock,
    )
    async with serving(server_context(AUTHORITY)) as server:
        assert await user_seen(server, context) == "first"

        replace(certificate, second.certificate)  # and the key is still the old one
        await clock.advance(5)
        assert await authorization(credentials) == "Bearer t"
        assert await user_seen(server, context) == "first"
        assert [record.message for record in caplog.records] == [
            "a new client certificate cannot be used, the old one is"
        ]

        replace(key, second.key)
        await clock.advance(5)
        await credentials.headers()
        assert await user_seen(server, context) == "second"

        replace(certificate, third.certificate)
        replace(key, third.key)
        credentials.refused()
        await credentials.headers()
        assert await user_seen(server, context) == "third"


def test_certificate_files_show_where_they_are_and_nothing_else(tmp_path: Path) -> None:
    pair = AUTHORITY.client("me")
    certificate, _ = pair.write(tmp_path, "me")
    shown = repr(
        CertificateFiles(
            Anonymous(), tls=ClientTls(), certificate=PemFile(origin="c", path=certificate), key=pem(pair.key)
        )
    )
    assert str(certificate) in shown
    assert "PRIVATE" not in shown


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


# --- impersonation


async def test_impersonation_goes_with_any_credentials(token_file: Path) -> None:
    inner = TokenFile(token_file, origin="o", clock=VirtualClock())
    credentials = Impersonated(inner=inner, user="bob", groups=("a", "b"))
    sent = await credentials.headers()
    assert sent.getall("impersonate-group") == ["a", "b"]
    assert (sent["Authorization"], sent["Impersonate-User"]) == ("Bearer one", "bob")
    replace(token_file, "two")
    credentials.refused()
    assert await authorization(credentials) == "Bearer two"


# --- exec plugins


class Plugin:
    """A real program in a folder of its own, which counts its runs and prints what the test wrote to `says`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "plugin"
        self.script('cat "$0.says"')

    def script(self, body: str) -> None:
        self.command.write_text(
            f'#!/bin/sh\necho run >> "$0.runs"\nprintf %s "$KUBERNETES_EXEC_INFO" > "$0.info"\n{body}\n'
        )
        self.command.chmod(0o700)

    def says(self, status: object, *, version: str = API_VERSIONS[0], kind: str = "ExecCredential") -> None:
        text = json.dumps({"apiVersion": version, "kind": kind, "status": status})
        self.command.with_name("plugin.says").write_text(text)

    @property
    def runs(self) -> int:
        record = self.command.with_name("plugin.runs")
        return len(record.read_text().splitlines()) if record.exists() else 0

    @property
    def info(self) -> Any:
        return json.loads(self.command.with_name("plugin.info").read_text())

    def credentials(
        self,
        *,
        tls: ClientTls | None = None,
        clock: VirtualClock | None = None,
        terminal: bool = False,
        **entry: Any,
    ) -> ExecPlugin:
        said = ExecEntry(**{"origin": "users[me].user.exec", "command": str(self.command), **entry})
        return ExecPlugin(said, environ=os.environ, tls=tls, clock=clock, at_a_terminal=lambda: terminal)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_twenty_requests_at_once_run_the_plugin_once(plugin: Plugin) -> None:
    plugin.says({"token": "t1"})
    credentials = plugin.credentials()
    found = await asyncio.gather(*(authorization(credentials) for _ in range(20)))
    assert set(found) == {"Bearer t1"}
    assert plugin.runs == 1


async def test_twenty_requests_at_once_share_one_failure_and_the_next_tries_again(plugin: Plugin) -> None:
    plugin.script("exit 3")
    credentials = plugin.credentials()
    found = await asyncio.gather(*(credentials.headers() for _ in range(20)), return_exceptions=True)
    assert {str(error) for error in found} == {
        f"users[me].user.exec: the command {plugin.command} failed with exit code 3"
    }
    assert plugin.runs == 1
    plugin.script('cat "$0.says"')
    plugin.says({"token": "t"})
    assert await authorization(credentials) == "Bearer t"


async def test_what_a_plugin_says_is_kept_until_just_before_it_expires(plugin: Plugin) -> None:
    clock = VirtualClock(START)
    credentials = plugin.credentials(clock=clock)
    plugin.says({"token": "t1", "expirationTimestamp": "2026-01-01T01:00:00.123456789Z"})
    assert await authorization(credentials) == "Bearer t1"
    plugin.says({"token": "t2"})
    await clock.advance(3589)
    assert await authorization(credentials) == "Bearer t1"
    await clock.advance(2)
    assert await authorization(credentials) == "Bearer t2"
    await clock.advance(1e8)
    assert await authorization(credentials) == "Bearer t2"
    assert plugin.runs == 2


async def test_a_refused_token_is_not_used_again(plugin: Plugin) -> None:
    plugin.says({"token": "t1"})
    credentials = plugin.credentials()
    await credentials.headers()
    plugin.says({"token": "t2"})
    credentials.refused()
    credentials.refused()
    assert await authorization(credentials) == "Bearer t2"
    assert plugin.runs == 2


async def test_a_refusal_during_a_run_does_not_throw_away_what_the_run_says(plugin: Plugin) -> None:
    os.mkfifo(plugin.folder / "gate")
    plugin.says({"token": "t"})
    plugin.script('cat "$(dirname "$0")/gate"; cat "$0.says"')
    credentials = plugin.credentials()
    asking = asyncio.create_task(credentials.headers())
    gate = await asyncio.to_thread(os.open, plugin.folder / "gate", os.O_WRONLY)  # it runs now
    credentials.refused()
    os.close(gate)
    assert (await asking)["Authorization"] == "Bearer t"
    await credentials.headers()
    assert plugin.runs == 1


async def test_a_plugin_can_give_a_client_certificate(plugin: Plugin) -> None:
    context = ClientTls(authorities=pem(AUTHORITY.certificate))
    credentials = plugin.credentials(tls=context)
    async with serving(server_context(AUTHORITY)) as server:
        for user in ("first", "second"):
            pair = AUTHORITY.client(user)
            plugin.says({"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()})
            credentials.refused()
            assert dict(await credentials.headers()) == {}
            assert await user_seen(server, context) == user


async def test_a_plugin_gets_its_arguments_its_environment_and_what_it_may_know(plugin: Plugin) -> None:
    plugin.script(
        f'''printf '{{"apiVersion":"{API_VERSIONS[1]}","kind":"ExecCredential","status":{{"token":"%s"}}}}' "$1-$X"'''
    )
    credentials = plugin.credentials(
        args=["a"], env={"X": "x"}, api_version=API_VERSIONS[1], cluster={"server": "https://s"}
    )
    assert await authorization(credentials) == "Bearer a-x"
    assert plugin.info == {
        "apiVersion": API_VERSIONS[1],
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://s"}},
    }


async def test_a_kubeconfig_with_a_plugin_beside_it(plugin: Plugin) -> None:
    plugin.says({"token": "t"})
    entry = {
        "apiVersion": API_VERSIONS[0],
        "command": "./plugin",
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    cluster = {
        "server": "https://s",
        "certificate-authority": "ca.crt",
        "tls-server-name": "n",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    (plugin.folder / "ca.crt").write_bytes(AUTHORITY.certificate)
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": entry}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (plugin.folder / "config").write_text(json.dumps(content))
    config = load(kubeconfig=plugin.folder / "config", environ=os.environ)
    assert plugin.runs == 0
    assert await authorization(config.credentials) == "Bearer t"
    told = plugin.info["spec"]["cluster"]
    assert told.pop("certificate-authority-data")
    assert told == {"server": "https://s", "tls-server-name": "n", "config": {"audience": "a"}}


WRONG_STATUS = {
    "no status": (None, "printed an ExecCredential without a token or a client certificate"),
    "empty status": ({}, "printed an ExecCredential without a token or a client certificate"),
    "half a pair": ({"clientKeyData": "hush"}, "printed only one of clientCertificateData and clientKeyData"),
    "token is a number": (
        {"token": 5},
        "printed an ExecCredential that is wrong: Expected `str | null`, got `int` - at `$.status.token`",
    ),
    "bad time": (
        {"token": "hush", "expirationTimestamp": "hush"},
        "printed an ExecCredential that is wrong: Invalid RFC3339 encoded datetime - at `$.status.expirationTimestamp`",
    ),
}


@pytest.mark.parametrize(("status", "said"), WRONG_STATUS.values(), ids=WRONG_STATUS.keys())
async def test_a_credential_that_is_wrong_is_said_without_showing_it(plugin: Plugin, status: object, said: str) -> None:
    plugin.says(status)
    with pytest.raises(CredentialsError) as caught:
        await plugin.credentials().headers()
    assert str(caught.value) == f"users[me].user.exec: the command {plugin.command} {said}"


@pytest.mark.parametrize(
    ("version", "kind", "said"),
    [
        (API_VERSIONS[1], "ExecCredential", f"printed an ExecCredential of another apiVersion than {API_VERSIONS[0]}"),
        (API_VERSIONS[0], "Secret", "printed JSON that is no ExecCredential"),
    ],
    ids=["version", "kind"],
)
async def test_another_version_or_kind_is_refused(plugin: Plugin, version: str, kind: str, said: str) -> None:
    plugin.says({"token": "hush"}, version=version, kind=kind)
    with pytest.raises(CredentialsError) as caught:
        await plugin.credentials().headers()
    assert str(caught.value) == f"users[me].user.exec: the command {plugin.command} {said}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo hush-token", "did not print JSON"),
        ("printf '\\377'", "did not print JSON"),
        ("true", "did not print JSON"),
        ("echo hush; echo one >&2; echo 'log in first' >&2; echo >&2; exit 7", "failed with exit code 7: log in first"),
        (
            "printf '\\033[31mAuthorization: Bearer hush' >&2; exit 1",
            "failed with exit code 1: [31mAuthorization: Bearer ***",
        ),
        ("kill -9 $$", "failed with exit code -9"),
    ],
    ids=["text", "bytes", "nothing", "exit code", "secret", "killed"],
)
async def test_a_plugin_that_fails_is_named_with_its_last_words(plugin: Plugin, body: str, said: str) -> None:
    plugin.script(body)
    with pytest.raises(CredentialsError) as caught:
        await plugin.credentials().headers()
    assert str(caught.value) == f"users[me].user.exec: the command {plugin.command} {said}"
    assert "hush" not in str(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__context__)


async def test_a_plugin_with_a_token_that_cannot_be_sent(plugin: Plugin) -> None:
    plugin.says({"token": "hush\nhush"})
    with pytest.raises(CredentialsError, match=r"status\.token: is not a token") as caught:
        await plugin.credentials().headers()
    assert "hush" not in str(caught.value)


async def test_a_plugin_with_a_certificate_that_is_damaged_fails_for_all_who_wait(plugin: Plugin) -> None:
    plugin.says({"clientCertificateData": "hush", "clientKeyData": "hush"})
    credentials = plugin.credentials(tls=ClientTls())
    found = await asyncio.gather(*(credentials.headers() for _ in range(3)), return_exceptions=True)
    assert {type(error) for error in found} == {CredentialsError}
    assert "status.clientCertificateData: holds no PEM certificate" in str(found[0])
    assert plugin.runs == 1


async def test_a_plugin_that_is_not_there_shows_how_to_install_it(plugin: Plugin) -> None:
    credentials = plugin.credentials(command="no-such-plugin", install_hint="Get it\n  from your administrator.")
    with pytest.raises(CredentialsError) as caught:
        await credentials.headers()
    assert str(caught.value) == (
        "users[me].user.exec: the command no-such-plugin was not found: Get it from your administrator."
    )


async def test_a_plugin_that_cannot_be_started(plugin: Plugin) -> None:
    plugin.command.chmod(0o600)
    with pytest.raises(CredentialsError, match=r"cannot be started: Permission denied$"):
        await plugin.credentials().headers()
    plugin.command.chmod(0o700)
    with pytest.raises(CredentialsError, match=r"cannot be started: bad argument$"):
        await plugin.credentials(args=["\0"]).headers()


async def let_time_pass(clock: VirtualClock, task: asyncio.Task[Any]) -> None:
    """Advance the clock until the task ends; a process needs real time to start."""
    while not task.done():
        await clock.advance(600)
        await asyncio.wait([task], timeout=0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_a_plugin_that_hangs_is_ended_with_what_it_started(plugin: Plugin) -> None:
    os.mkfifo(plugin.folder / "gate")
    plugin.script('sleep 1000 & echo $! > "$0.child"; echo > "$(dirname "$0")/gate"; wait')
    clock = VirtualClock()
    asking = asyncio.create_task(plugin.credentials(clock=clock).headers())
    await asyncio.to_thread((plugin.folder / "gate").read_bytes)  # its child runs now
    await let_time_pass(clock, asking)
    with pytest.raises(CredentialsError, match=r"did not end within 60 s$"):
        await asking
    child = int((plugin.folder / "plugin.child").read_text())
    async with asyncio.timeout(10):
        while alive(child):  # noqa: ASYNC110 - nothing tells of the end of a process that is not our child
            await asyncio.sleep(0.01)


async def test_a_request_that_is_cancelled_ends_its_plugin_and_the_next_runs_another(plugin: Plugin) -> None:
    os.mkfifo(plugin.folder / "gate")
    plugin.script('exec cat "$(dirname "$0")/gate"')
    credentials = plugin.credentials()
    asking = asyncio.create_task(credentials.headers())
    gate = await asyncio.to_thread(os.open, plugin.folder / "gate", os.O_WRONLY)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with pytest.raises(BrokenPipeError):  # nobody reads any more
        os.write(gate, b"x")
    os.close(gate)
    plugin.script('cat "$0.says"')
    plugin.says({"token": "t"})
    assert await authorization(credentials) == "Bearer t"


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [("Never", True, False), ("IfAvailable", False, False), ("IfAvailable", True, True), ("Always", True, True)],
)
async def test_a_plugin_is_told_whether_it_may_ask(
    plugin: Plugin, mode: str, terminal: bool, interactive: bool
) -> None:
    plugin.says({"token": "t"})
    await plugin.credentials(interactive_mode=mode, terminal=terminal).headers()
    assert plugin.info["spec"] == {"interactive": interactive}


async def test_a_plugin_that_must_ask_is_not_run_without_a_terminal(plugin: Plugin) -> None:
    with pytest.raises(CredentialsError, match=r"needs a terminal \(interactiveMode: Always\)"):
        await plugin.credentials(interactive_mode="Always").headers()
    assert plugin.runs == 0


async def test_a_plugin_that_hangs_at_a_terminal_is_ended(plugin: Plugin) -> None:
    plugin.script("exec sleep 1000")
    clock = VirtualClock()
    asking = asyncio.create_task(plugin.credentials(clock=clock, terminal=True).headers())
    await let_time_pass(clock, asking)
    with pytest.raises(CredentialsError, match=r"did not end within 600 s$"):
        await asking


async def test_a_standard_input_that_is_closed_is_no_terminal(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    plugin.says({"token": "t"})
    entry = ExecEntry(origin="o", command=str(plugin.command))
    await ExecPlugin(entry, environ=os.environ, tls=None).headers()
    assert plugin.info["spec"] == {"interactive": False}


def test_the_entry_and_the_plugin_show_no_secret(plugin: Plugin) -> None:
    entry = ExecEntry(origin="o", command="c", args=["hush"], env={"A": "hush"}, cluster={"config": "hush"})
    assert "hush" not in repr(entry) + repr(ExecPlugin(entry, environ={"A": "hush"}, tls=None))
    assert "hush" in exec_info(entry, interactive=False)


@given(life=st.floats(min_value=-1e6, max_value=1e6))
def test_a_credential_is_renewed_before_it_expires_but_most_of_its_life_is_used(life: float) -> None:
    expires = START + timedelta(seconds=life)
    renewed = renewal_time(expires, now=START)
    assert renewed is not None
    assert renewed <= expires
    assert expires - renewed <= timedelta(seconds=10)
    if life > 0:
        assert (renewed - START) >= 0.89 * (expires - START)


def test_nothing_is_logged_where_nothing_is_wrong(token_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="edgewright")
    TokenFile(token_file, origin="o")
    assert caplog.text == ""
