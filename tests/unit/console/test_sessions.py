from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.console.sessions import (
    CHUNK,
    MAX_CHUNKS,
    Attempt,
    NotSealed,
    Sealer,
    Session,
    TooBig,
    chunked,
    joined,
    new_keys,
    present,
    read_keys,
)
from edgewright.runtime.config import ConfigError

SESSION = Session(
    id="s1",
    id_token="secret-token",
    refresh_token="secret-refresh",
    subject="jane",
    nonce="n",
    expires=10.0,
    renew_at=5.0,
    ends=20.0,
)


def test_what_was_sealed_comes_back_and_cannot_be_read_meanwhile() -> None:
    sealer = Sealer(new_keys(), context="a")
    sealed = sealer.seal("session", SESSION)
    assert sealer.unseal("session", sealed, Session) == SESSION
    assert "secret" not in sealed
    assert sealer.seal("session", SESSION) != sealed
    assert "secret" not in repr(SESSION)


def test_no_character_can_be_changed() -> None:
    sealer = Sealer(new_keys(), context="a")
    sealed = sealer.seal("session", SESSION)
    for at in range(len(sealed) - 1):
        changed = sealed[:at] + ("A" if sealed[at] != "A" else "B") + sealed[at + 1 :]
        with pytest.raises(NotSealed):
            sealer.unseal("session", changed, Session)
    for wrong in ("", "A", "AAAA", "é", "a b", sealed[:-4], sealed + "AAAA", "!" + sealed):
        with pytest.raises(NotSealed):
            sealer.unseal("session", wrong, Session)


def test_a_seal_is_for_one_purpose_one_context_and_one_key() -> None:
    keys = new_keys()
    sealer = Sealer(keys, context="a")
    attempt = sealer.seal("attempt", Attempt(state="s", nonce="n", verifier="v", redirect_uri="r", until=1.0))
    with pytest.raises(NotSealed):
        sealer.unseal("session", attempt, Attempt)
    with pytest.raises(NotSealed):
        Sealer(keys, context="b").unseal("attempt", attempt, Attempt)
    with pytest.raises(NotSealed):
        Sealer(new_keys(), context="a").unseal("attempt", attempt, Attempt)
    with pytest.raises(NotSealed):
        sealer.unseal("attempt", attempt, Session)
    assert Sealer(keys, context="a").unseal("attempt", attempt, Attempt).state == "s"


def test_keys_are_exchanged_without_an_end_of_sessions(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("a" * 32 + "\n")
    old = Sealer(read_keys(file, option="--key"), context="c").seal("session", SESSION)
    file.write_text("\n" + "b" * 32 + "\n" + "a" * 32)
    both = Sealer(read_keys(file, option="--key"), context="c")
    assert both.unseal("session", old, Session) == SESSION
    with pytest.raises(NotSealed):
        Sealer([b"a" * 32], context="c").unseal("session", both.seal("session", SESSION), Session)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"short", b"a" * 32 + b"\nshort", b"a" * 20_000])
def test_a_file_without_good_keys_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"--key: .*keys: must have one key per line, each of at least 32 characters"):
        read_keys(file, option="--key")


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--key: .*none: No such file"):
        read_keys(tmp_path / "none", option="--key")


@pytest.mark.parametrize(
    ("length", "count"),
    [(0, 1), (1, 1), (CHUNK, 1), (CHUNK + 1, 2), (2 * CHUNK, 2), (MAX_CHUNKS * CHUNK, MAX_CHUNKS)],
)
def test_a_value_is_cut_into_cookies_that_browsers_take_and_joined_again(length: int, count: int) -> None:
    value = "abcdefghij" * (length // 10) + "k" * (length % 10)
    cookies = dict(chunked("__Host-a", value))
    assert list(cookies) == [f"__Host-a-{number}" for number in range(count)]
    assert all(
        len(f"{name}={part}; Max-Age=43200; Path=/; Secure; HttpOnly; SameSite=Strict") < 4096
        for name, part in cookies.items()
    )
    assert joined("__Host-a", cookies) == value
    # One that is left over from a longer value does no harm, and is found so that it can go.
    assert joined("__Host-a", {**cookies, "__Host-a-5": cookies.get("__Host-a-5", "old")}) == value
    assert set(present("__Host-a", {**cookies, "other": "1"})) == set(cookies)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TooBig):
        dict(chunked("a", "x" * (MAX_CHUNKS * CHUNK + 1)))


@pytest.mark.parametrize(
    "cookies",
    [
        {},
        {"a-1": "x"},
        {"a-0": ""},
        {"a-0": "x"},
        {"a-0": "2.x"},
        {"a-0": "3.x", "a-1": "y"},
        {"a-0": "0.x"},
        {"a-0": "9.x"},
        {"a-0": "-1.x"},
        {"a-0": "²2.x"},
        {"a-0": "².x"},
        {"a-0": "12.x"},
    ],
)
def test_a_part_that_is_missing_or_made_up_gives_nothing(cookies: dict[str, str]) -> None:
    assert joined("a", cookies) == ""
