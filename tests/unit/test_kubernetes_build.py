"""The builder of the real Kubernetes: where it puts things, when it does nothing, and what it says when it cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.build import kubernetes_build
from tests.harness import programs

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


def test_the_oldest_release_that_is_tested_has_a_module_and_a_folder_of_its_own(tmp_path: Path) -> None:
    build = kubernetes_build()
    oldest = build.RELEASES[build.OLDEST]
    directory = Path(run("--print-dir", "--release", "1.34", cache=tmp_path).stdout.strip())
    assert directory.name.startswith("v1.34.4-")
    assert directory != Path(run("--print-dir", cache=tmp_path).stdout.strip())
    assert oldest.flags.endswith("gitMinor=34")
    pinned = (oldest.module / "go.mod").read_text()
    assert "k8s.io/kubernetes v1.34.4" in pinned
    staging = set(re.findall(r"=> k8s\.io/\S+ (\S+)", pinned))
    assert staging == {"v0.34.4"}, "each staging module is that of the same release"
    assert set(oldest.programs) == programs.OF_RELEASE
    assert "go 1.24" in pinned
    done = run("etcd", "--release", "1.34", cache=tmp_path)
    assert "unknown program etcd: choose from kube-apiserver" in done.stderr
    assert "invalid choice: '1.12'" in run("--release", "1.12", cache=tmp_path).stderr


def test_a_release_is_built_in_its_own_module_with_its_own_version(tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    told = tmp_path / "told"
    program(
        go,
        f"""if test "$1" = env; then echo go1.99.0; else pwd >> {told}; echo "$@" >> {told}; """
        """while test "$1" != -o; do shift; done; touch "$2"; fi""",
    )
    done = run("kube-apiserver", "--release", "1.34", cache=tmp_path, PATH=f"{go.parent}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    where, command = told.read_text().splitlines()
    assert where == str(BUILD.parent / "v1.34")
    assert "gitVersion=v1.34.4" in command
    assert (Path(run("--print-dir", "--release", "1.34", cache=tmp_path).stdout.strip()) / "kube-apiserver").exists()


def test_the_tests_take_the_server_of_a_release_and_the_rest_of_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = programs.program  # none is started
    monkeypatch.setattr(programs, "directory", lambda release="": tmp_path / (release or "newest"))
    for name in ("newest/etcd", "newest/kube-apiserver", "1.34/kube-apiserver"):
        program(tmp_path / name, "exit 0")
    assert taken("kube-apiserver") == str(tmp_path / "newest/kube-apiserver")
    monkeypatch.setenv(programs.RELEASE, "1.34")
    assert taken("kube-apiserver") == str(tmp_path / "1.34/kube-apiserver")
    assert taken("etcd") == str(tmp_path / "newest/etcd")
    with pytest.raises(programs.NotBuiltError, match=r"build\.py --release 1\.34"):
        taken("kube-scheduler")


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


@pytest.mark.parametrize(
    ("proxies", "kept"),
    [
        ("https://a.example,direct\n", "https://a.example"),
        ("https://a.example|https://b.example|direct", "https://a.example|https://b.example"),
        ("direct,https://a.example", "https://a.example"),
        ("https://direct.example,direct", "https://direct.example"),
        ("https://a.example/direct,https://b.example|direct", "https://a.example/direct,https://b.example"),
        ("direct", "direct"),
        ("off", "off"),
        ("", "off"),
    ],
)
def test_modules_come_from_the_users_proxies_and_not_from_anywhere_else(
    tmp_path: Path, proxies: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    program(go, f"test \"$1 $2\" = 'env GOPROXY' && printf '%s' '{proxies}'")
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    monkeypatch.setenv("GOPRIVATE", "*")
    found = kubernetes_build().go_environment(str(go))
    assert (found["GOPROXY"], found["GOSUMDB"], found["GOPRIVATE"]) == (kept, "off", "")
    assert "-mod=readonly" in found["GOFLAGS"]


def test_no_other_program_of_ours_calls_go_in_another_environment() -> None:
    """The builder's is the one that pins what is built."""
    calls = re.compile(r"""\[\s*"go",|which\("go"\)|\bgo (?:build|run|install) """)
    files = [
        *ROOT.glob("hack/**/*.py"),
        *ROOT.glob("bench/**/*.py"),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("*akefile"),
    ]
    assert {path for path in files if calls.search(path.read_text())} - {Path(__file__)} == {BUILD}


def test_a_toolchain_that_is_not_there_is_older_than_any(tmp_path: Path) -> None:
    build = kubernetes_build()
    assert build.go_version(str(tmp_path / "no-go")) < build.MINIMUM_GO
