"""Credentials over time: what rotates, expires or is refused is replaced, and no secret is ever shown."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import ConfigError
from edgewright.runtime.credentials import (
    Anonymous,
    Basic,
    CertificateFiles,
    CredentialsError,
    Impersonated,
    Token,
    TokenFile,
)
from edgewright.runtime.tls import ClientTls, PemFile
from tests.unit.runtime.identities import AUTHORITY, authorization, pem, user_seen
from tests.unit.runtime.tls_server import server_context, serving


def replace(path: Path, content: str | bytes) -> None:
    """Put a new file in the place of the old one, as the kubelet and cert-manager do."""
    written = path.with_name(path.name + ".new")
    written.write_bytes(content.encode() if isinstance(content, str) else content)
    written.replace(path)


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
    assert [record.message for record in caplog.records] == ["token file cannot be read; using the previous token"]
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


# --- certificate files


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
            "new client certificate cannot be used; using the previous one"
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


# --- logs


def test_nothing_is_logged_where_nothing_is_wrong(token_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="edgewright")
    TokenFile(token_file, origin="o")
    assert caplog.text == ""
