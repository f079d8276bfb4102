"""What tests build with the project's own targets is the same, whatever was typed for the tests themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness import builds
from tests.harness.programs import ROOT


def test_arguments_for_the_tests_do_not_reach_the_make_that_builds_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make images ARGS="-k chart"`: the installer has arguments of that name too, and what is built may be kept."""
    monkeypatch.setenv("ARGS", "-k chart")
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=-k\\ chart")
    (tmp_path / "Makefile").write_text("all:\n\t@test -z '$(ARGS)' -a '$(TOOL)' = buildah\n")
    subprocess.run(["make"], cwd=tmp_path, env=builds.environment({"TOOL": "buildah"}), check=True)


def test_every_suite_that_builds_images_builds_them_in_that_environment() -> None:
    for name in ("tests/node/images.py", "tests/images/stage.py", "tests/acceptance/flashjob_stage.py"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "builds.environment(" in text, name
        assert "**os.environ" not in text, f"{name}: what was typed for the tests would be handed down"
