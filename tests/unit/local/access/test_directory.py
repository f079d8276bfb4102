"""The data directory: made, taken again, or refused and left as it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from edgewright.local.access.directory import prepare
from edgewright.runtime.tls import ConfigError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_directory_is_made_for_us_alone(tmp_path: Path) -> None:
    data = tmp_path / "a" / "b"
    prepare(data)
    assert mode(data) == 0o700


@pytest.mark.parametrize("mark", ["store.db", "store.lock", "pki/ca.pem"])
def test_a_directory_of_ours_is_taken_again_and_closed(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).touch()
    (tmp_path / "other").touch()
    tmp_path.chmod(0o755)
    prepare(tmp_path)
    assert mode(tmp_path) == 0o700


def test_the_root_of_a_file_system_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    prepare(tmp_path)
    assert mode(tmp_path) == 0o700


def test_a_directory_of_somebody_elses_things_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    tmp_path.chmod(0o755)
    with pytest.raises(ConfigError, match="holds other things, such as pki: name a directory of its own"):
        prepare(tmp_path)
    assert mode(tmp_path) == 0o755


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        prepare(tmp_path)


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file: is a file, must be a directory"):
        prepare(tmp_path / "file")
    with pytest.raises(ConfigError, match="below: cannot be used: Not a directory"):
        prepare(tmp_path / "file" / "below")
