"""The wheels of an offline bundle: ours can be installed by pip without a network, and is this very code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import edgewright
from edgewright.cli import wheels
from edgewright.cli.failure import Failed


def test_our_own_wheel_is_installed_by_pip_without_a_network_and_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    wheel = wheels.own_wheel(first)
    assert wheel.read_bytes() == wheels.own_wheel(second).read_bytes()
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, capture_output=True)
    here = Path(edgewright.__file__).parent
    for name in ("__init__.py", "agent/agent.py", "cli/wheels.py"):
        assert (target / "edgewright" / name).read_bytes() == (here / name).read_bytes()
    assert (target / "bin" / "edgewright").is_file()


def test_wheels_are_fetched_for_the_platform_of_the_devices(tmp_path: Path) -> None:
    command = wheels.download_command(tmp_path / "w.whl", platforms=["p1", "p2"], python="3.11")
    text = " ".join(command)
    assert "--platform p1 --platform p2 --python-version 3.11" in text
    assert "--only-binary :all:" in text
    assert "--platform" not in wheels.download_command(tmp_path / "w.whl", platforms=[], python="")


@pytest.mark.parametrize("code", [0, 1])
def test_what_pip_says_is_told_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    script = f"import sys; print('ERROR: no index', file=sys.stderr); sys.exit({code})"
    monkeypatch.setattr(wheels, "download_command", lambda *_, **__: [sys.executable, "-c", script])
    if code:
        with pytest.raises(Failed, match="ERROR: no index"):
            wheels.gather(tmp_path / "wheels")
    else:
        assert wheels.gather(tmp_path / "wheels") == [f"edgewright-{edgewright.__version__}-py3-none-any.whl"]


def test_a_pip_that_cannot_be_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "download_command", lambda *_, **__: [str(tmp_path / "none")])
    with pytest.raises(Failed, match="cannot be fetched"):
        wheels.gather(tmp_path / "wheels")
