"""Files that are there whole or not at all, also after a power cut: what is synced, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgewright.runtime.files import write_whole


def test_the_content_is_on_the_disk_before_the_name_and_the_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut may undo what was not synced, in any order: a name without its content would be an empty file."""
    place, steps = tmp_path / "state", []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        what = Path(f"/proc/self/fd/{descriptor}").readlink()
        steps.append("directory" if what == tmp_path else f"content {what.read_text()}")
        sync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        steps.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_whole(place, b"new")
    assert steps == ["content new", "name", "directory"]


def test_what_was_there_stays_where_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "state"
    write_whole(place, b"old", mode=0o640)
    assert place.stat().st_mode & 0o777 == 0o640

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(place, b"new")
    assert place.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other, place = tmp_path / "other", tmp_path / "state"
    other.write_bytes(b"theirs")
    place.symlink_to(other)
    write_whole(place, b"ours")
    assert (other.read_bytes(), place.read_bytes(), place.is_symlink()) == (b"theirs", b"ours", False)
