"""The builder of the real Kubernetes: where it puts things, when it does nothing, and what it says when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.build import kubernetes_build

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "hack" / "kubernetes" / "build.py"


def run(*args: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BUILD), *args],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def always_built() -> list[str]:
    return [name for name, each in kubernetes_build().PROGRAMS.items() if each.always]


def test_everything_lies_in_the_users_cache_folder_by_version(tmp_path: Path) -> None:
    directory = Path(run("--print-dir", cache=tmp_path).stdout.strip())
    assert directory.parent == tmp_path / "edgewright" / "kubernetes"
    assert directory.name.startswith("v1.36.3-")
    assert not directory.exists()


def test_a_second_run_does_nothing_and_says_nothing(tmp_path: Path) -> None:
    directory = Path(run("--print-dir", cache=tmp_path).stdout.strip())
    for name in always_built():
        program(directory / name, "exit 0")
    again = run(cache=tmp_path, PATH="/nowhere")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_the_end_to_end_program_is_built_only_when_it_is_named() -> None:
    assert "e2e.test" in kubernetes_build().PROGRAMS
    assert "e2e.test" not in always_built()
    assert {"etcd", "kube-apiserver", "kubectl", "kubelet", "kwok"} <= set(always_built())


def test_an_unknown_program_is_a_usage_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    done = run("kube-nothing", cache=tmp_path)
    assert done.returncode == 2
    assert "unknown program kube-nothing: choose from etcd" in done.stderr


def test_a_build_that_fails_is_said_in_a_line_and_leaves_no_program_behind(tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    program(go, 'if test "$1" = env; then echo go1.99.0; else echo "no such module" >&2; exit 7; fi')
    done = run("etcd", cache=tmp_path, PATH=f"{go.parent}:/usr/bin:/bin")
    assert done.returncode == 1
    assert "etcd could not be built (exit code 7)" in done.stderr
    directory = Path(run("--print-dir", cache=tmp_path).stdout.strip())
    assert not (directory / "etcd").exists()


@pytest.mark.parametrize(
    ("says", "version"),
    [("go1.26.8", (1, 26)), ("go1.9", (1, 9)), ("go2.0rc1", (2, 0)), ("devel +abc", (0,))],
)
def test_the_version_of_a_toolchain_is_read(tmp_path: Path, says: str, version: tuple[int, ...]) -> None:
    go = tmp_path / "go"
    program(go, f"echo '{says}'")
    assert kubernetes_build().go_version(str(go)) == version


def test_a_toolchain_that_is_not_there_is_older_than_any(tmp_path: Path) -> None:
    build = kubernetes_build()
    assert build.go_version(str(tmp_path / "no-go")) < build.MINIMUM_GO
