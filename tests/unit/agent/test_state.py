"""The device directory: what is kept, and that one agent has it at a time."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from edgewright.agent.state import State
from edgewright.runtime.tls import ConfigError


def test_what_is_kept_is_there_for_the_next_start_and_for_nobody_else(tmp_path: Path) -> None:
    state = State(tmp_path / "a" / "state")
    state.lock()
    assert (state.key(), state.identity(), state.configuration(), state.ledgers()) == (None, None, None, {})
    state.keep_key(b"key")
    state.keep_identity(b"certificate\n\n", b"key")
    state.keep_configuration(b"{}")
    state.keep_ledger("web", b"ledger")
    state.keep_version("web", b"secret")
    state.keep_downloads("web", b"ledger")
    state.keep_note("system", b"{}")
    state.part("abc").touch()
    state.unlock()
    again = State(tmp_path / "a" / "state")
    again.lock()
    assert again.key() == b"key"
    assert again.identity() == b"certificate\nkey"
    assert again.configuration() == b"{}"
    assert again.ledgers() == {"web": b"ledger"}
    for path in (again.directory / "device.pem", again.directory / "configuration.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again.drop_ledger("web")
    again.drop_ledger("web")
    again.make_volume("web")
    again.make_volume("web")
    again.forget()
    again.forget()
    assert (again.key(), again.identity(), again.configuration(), again.ledgers()) == (None, None, None, {})
    assert again.volume("web").is_dir()
    assert {path.name for path in again.directory.iterdir()} == {"lock", "uploads", "volumes"}
    again.unlock()
    again.unlock()


def test_what_a_killed_agent_was_about_to_write_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    for name in (".device.key.abc", "versions/.web.json.abc"):
        (tmp_path / name).write_text("half")
    (tmp_path / "volumes").mkdir()
    (tmp_path / "volumes" / ".keep").touch()
    state = State(tmp_path)
    state.lock()
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        "lock",
        "volumes/.keep",
    }
    state.unlock()


def test_a_second_agent_is_kept_from_the_directory(tmp_path: Path) -> None:
    first, second = State(tmp_path), State(tmp_path)
    first.lock()
    with pytest.raises(ConfigError, match="in use by another agent"):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="state-dir"):
        State(tmp_path / "file" / "state").lock()
