"""The example hook for rpm-ostree with the real ostree, which keeps the remotes; there is no machine to update."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.agent.test_system_updates import OstreeHook


def ostree(repository: Path, *arguments: str) -> str:
    command = ["ostree", f"--repo={repository}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_remote_of_the_real_ostree_has_the_url_of_the_last_update(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    ostree(repository, "init", "--mode=bare-user")
    hook = OstreeHook(tmp_path, ostree='exec /usr/bin/ostree "$@"')
    for url in ("https://one.example", "https://one.example", "https://two.example"):
        done = hook.run("upgrade", "c2", url, OSTREE_REPO=str(repository))
        assert done.returncode == 0, done.stderr
        assert ostree(repository, "remote", "show-url", "edgewright") == url
    assert hook.changes[1:] == ["rpm-ostree rebase edgewright: c2", "systemctl reboot"]
    assert "gpg-verify=false" not in (repository / "config").read_text()  # unsigned commits are refused
