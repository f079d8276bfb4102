"""How the images of the real node are built: once for each state of the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node import images


def test_what_a_build_makes_itself_is_no_reason_to_build_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh checkout has no page of the console; it is made with the images."""
    monkeypatch.setattr(images, "ROOT", tmp_path)
    monkeypatch.setattr(images, "_INPUTS", ("src",))
    page = tmp_path / "src/console/static/index.html"
    source = tmp_path / "src/console/page.py"
    source.parent.mkdir(parents=True)
    source.write_text("1")
    before = images.fingerprint()
    page.parent.mkdir()
    page.write_text("made")
    assert images.fingerprint() == before
    source.write_text("2")
    assert images.fingerprint() != before
