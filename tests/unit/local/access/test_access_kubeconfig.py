"""Kubeconfigs for people: a file of its own, or a context in one that they have, which loses nothing."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.access import Authority, Identity, kubeconfig
from edgewright.runtime import config
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.tls import ConfigError

OURS = kubeconfig.document(
    server="https://127.0.0.1:6443",
    authority="CA",
    identity=Identity(file=Path("admin.pem"), certificate="CERTIFICATE", key="KEY"),
)
THEIRS = """\
# a comment
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: work
  cluster: {server: "https://work.example", certificate-authority: ca.crt}
users:
- name: work
  user:
    token: "0123"
    since: 2026-01-01
contexts:
- {name: work, context: {cluster: work, user: work}}
current-context: work
x-own: [yes, 0o17, ~, 1_000, "on"]
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(document: dict[str, Any], section: str) -> list[str]:
    return [entry["name"] for entry in document[section]]


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def test_a_file_of_our_own_is_read_by_our_own_runtime(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki", clock=SystemClock())
    admin = authority.client("admin", user="kubernetes-admin", groups=["system:masters"])
    path = tmp_path / "sub" / "kubeconfig"
    server = "https://127.0.0.1:6443"
    kubeconfig.write(path, kubeconfig.document(server=server, authority=authority.certificate, identity=admin))
    assert mode(path) == 0o600
    loaded = config.load(kubeconfig=path, environ={})
    assert (loaded.server, loaded.tls is not None) == (server, True)
    assert asyncio.run(loaded.credentials.headers()) == {}


def test_a_file_of_our_own_is_replaced_and_its_mode_closed(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    kubeconfig.write(path, {**OURS, "current-context": "old"})
    path.chmod(0o644)
    kubeconfig.write(path, OURS)
    assert load(path) == OURS
    assert mode(path) == 0o600


def test_a_file_with_the_entries_of_others_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(THEIRS)
    with pytest.raises(ConfigError, match=r"kubeconfig: has clusters\[work\], which is not ours: .*--merge"):
        kubeconfig.write(path, OURS)
    assert path.read_text() == THEIRS


def test_a_merge_adds_a_context_and_keeps_everything_else(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    path.chmod(0o640)
    kubeconfig.merge(path, OURS)
    before, after = yaml.safe_load(THEIRS), load(path)
    assert after["current-context"] == "work"
    assert mode(path) == 0o600  # the key of an administrator is in it now
    for section in ("clusters", "users", "contexts"):
        assert after[section] == [*before[section], *OURS[section]]
        del before[section], after[section]
    assert after == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["config"]


def test_what_yaml_could_take_for_something_else_is_written_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    kubeconfig.merge(path, OURS)
    assert 'x-own: [yes, 0o17, ~, 1_000, "on"]' in path.read_text()
    assert 'token: "0123"' in path.read_text()
    assert "since: 2026-01-01" in path.read_text()


def test_a_second_merge_replaces_our_entries_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    kubeconfig.merge(path, OURS)
    moved = {**OURS, "clusters": [{"name": "edgewright", "cluster": {"server": "https://127.0.0.1:7000"}}]}
    kubeconfig.merge(path, moved)
    after = load(path)
    assert [names(after, section) for section in ("clusters", "users", "contexts")] == [["work", "edgewright"]] * 3
    assert after["clusters"][1]["cluster"] == {"server": "https://127.0.0.1:7000"}
    again = path.read_text()
    kubeconfig.merge(path, moved)
    assert path.read_text() == again


@pytest.mark.parametrize(
    "there",
    ["", "# nothing\n", "{}", "clusters: []\nusers: null\ncontexts:\n", "kind: Config\n", 'current-context: ""\n'],
    ids=["empty", "a comment", "an empty mapping", "empty lists", "a kind", "an empty context"],
)
def test_a_file_without_a_current_context_gets_ours(tmp_path: Path, there: str) -> None:
    path = tmp_path / "config"
    path.write_text(there)
    kubeconfig.merge(path, OURS)
    assert load(path) == OURS


def test_a_merge_into_json_stays_a_file_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text('{"clusters": [{"name": "a", "cluster": {"server": "https://a"}}], "current-context": "a"}')
    kubeconfig.merge(path, OURS)
    after = load(path)
    assert (names(after, "clusters"), after["users"], after["current-context"]) == (
        ["a", "edgewright"],
        OURS["users"],
        "a",
    )


def test_a_merge_into_a_missing_file_writes_one_that_nobody_else_can_read(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    kubeconfig.merge(path, OURS)
    assert load(path) == OURS
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_a_symbolic_link_stays_one_and_its_file_is_changed(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "config", tmp_path / "config"
    real.parent.mkdir()
    real.write_text(THEIRS)
    link.symlink_to("dotfiles/config")
    kubeconfig.merge(link, OURS)
    assert link.is_symlink()
    assert names(load(real), "contexts") == ["work", "edgewright"]


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("clusters: {", "is not YAML at line "),
        ("- a", "is a list, must be a mapping"),
        ("clusters: 1", "clusters: is a number, must be a list"),
        ("contexts: [{}]", r"contexts\[0\].name: is missing"),
        ("users: [{name: a}, {name: a}]", r"users\[a\]: is there more than once"),
        ("current-context: [a]", "current-context: is a list"),
    ],
)
def test_a_file_that_is_wrong_is_said_to_be_and_left_alone(tmp_path: Path, there: str, said: str) -> None:
    path = tmp_path / "config"
    path.write_text(there)
    with pytest.raises(ConfigError, match=f"config: {said}"):
        kubeconfig.merge(path, OURS)
    assert path.read_text() == there
    assert [entry.name for entry in tmp_path.iterdir()] == ["config"]


def test_a_file_that_kubectl_changes_at_this_moment_is_left_alone(tmp_path: Path) -> None:
    path, lock = tmp_path / "config", tmp_path / "config.lock"
    path.write_text(THEIRS)
    lock.touch()
    with pytest.raises(ConfigError, match=r"config: another program changes it: try again, or remove .*config\.lock"):
        kubeconfig.merge(path, OURS)
    assert path.read_text() == THEIRS
    assert lock.exists()


@pytest.mark.parametrize("put", [kubeconfig.write, kubeconfig.merge])
def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path, put: Any) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file/config: cannot be written: "):
        put(tmp_path / "file" / "config", OURS)
    (tmp_path / "config").mkdir()
    with pytest.raises(ConfigError, match=r"config: cannot be "):
        put(tmp_path / "config", OURS)
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(ConfigError, match=r"circle: cannot be written: "):
        put(tmp_path / "circle", OURS)


def test_a_disk_that_is_full_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="config: cannot be written: No space left on device"):
        kubeconfig.merge(path, OURS)
    assert path.read_text() == THEIRS
    assert [entry.name for entry in tmp_path.iterdir()] == ["config"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_somebody_else_stays_theirs(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(THEIRS)
    os.chown(path, 1234, 1235)
    kubeconfig.merge(path, OURS)
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
entries = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=5), plain),
    unique_by=lambda entry: entry[0],
    max_size=3,
)


@given(clusters=entries, unknown=plain, current=st.sampled_from(["", "a"]))
def test_whatever_else_is_in_a_file_is_the_same_after_a_merge(
    clusters: list[tuple[str, Any]], unknown: Any, current: str
) -> None:
    listed = [{"name": name, "unknown": value} for name, value in clusters if name != "edgewright"]
    before = {"clusters": listed, "x-unknown": unknown, "current-context": current}
    text = kubeconfig.merged_text(Path("config"), yaml.safe_dump(before).encode(), OURS)
    after = yaml.safe_load(text)
    assert after["clusters"] == [*listed, *OURS["clusters"]]
    assert after["x-unknown"] == unknown
    assert after["current-context"] == (current or "edgewright")
