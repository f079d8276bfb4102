"""How a virtual environment is made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hack import environment


def run(python: Path, *arguments: str) -> str:
    """What a program of the environment says."""
    return subprocess.run([python, *arguments], check=True, capture_output=True, text=True).stdout


def test_an_environment_has_pip_and_what_is_in_it_stays_when_it_is_made_again(tmp_path: Path) -> None:
    environment.make(tmp_path)
    python = tmp_path / "bin" / "python"
    assert str(tmp_path) in run(python, "-m", "pip", "--version")
    pip = next(tmp_path.glob("lib/python*/site-packages/pip"))
    (pip / "mark").touch()
    environment.make(tmp_path)
    assert (pip / "mark").exists()


def test_where_no_wheel_of_pip_is_found_the_standard_way_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    monkeypatch.setattr(environment, "bundled_pip", lambda: None)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command))
    environment.make(tmp_path)
    assert [command[1:3] for command in ran] == [["-m", "ensurepip"]]
