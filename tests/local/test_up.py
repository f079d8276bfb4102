"""`edgewright up` as a process: from nothing to a kubeconfig, who gets in, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness import LocalPlane, wait_until
from tests.local.up import Up, asked, up
from tests.unit.cli.command import edgewright, sentence

ANY_PORT = ("--listen", "127.0.0.1:0", "--no-node")


NAMESPACES = "/api/v1/namespaces"


def namespaces(kubeconfig: Path, *, context: str | None = None) -> list[str]:
    """The names of the namespaces, as whoever has a kubeconfig sees them."""
    return [each["metadata"]["name"] for each in asked(kubeconfig, NAMESPACES, context=context)["items"]]


def user_of(kubeconfig: Path) -> tuple[str, list[str]]:
    """For whom the server takes whoever has a kubeconfig."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    said = asked(kubeconfig, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]
    return said["username"], said["groups"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def answer(url: str, ca: Path, *, token: str = "") -> tuple[int, Any]:
    """The code and the body of a GET without a client certificate."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    context = ssl.create_default_context(cafile=ca)
    try:
        with urllib.request.urlopen(request, context=context, timeout=120) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


# Getting in


def test_from_nothing_to_a_kubeconfig_with_what_it_prints(tmp_path: Path) -> None:
    with up(tmp_path, *ANY_PORT) as running:
        url = running.url
        data = tmp_path / ".local" / "share" / "edgewright"
        assert running.said == (
            f"Edgewright serves Kubernetes at {url} and keeps it in {data}\n\n"
            f"  export KUBECONFIG={data / 'kubeconfig'}\n  kubectl get namespaces\n\n"
            "Ctrl-C stops it; all objects stay.\n"
        )
        assert namespaces(data / "kubeconfig") == ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert running.end(signal.SIGINT) == 0
        assert running.complained == ""


def test_everything_in_the_data_directory_is_for_its_owner_alone(local_plane: LocalPlane) -> None:
    assert mode(local_plane.data) == 0o700
    assert mode(local_plane.data / "pki") == 0o700
    private = [path for path in local_plane.data.rglob("*") if path.is_file() and path.name != "ca.crt"]
    assert {"kubeconfig", "store.db", "token", "ca.pem", "serving.pem", "admin.pem"} <= {path.name for path in private}
    assert {path.name: mode(path) for path in private if mode(path) & 0o077} == {}


def test_without_credentials_one_is_anonymous_and_may_ask_for_the_version_alone(local_plane: LocalPlane) -> None:
    code, status = answer(f"{local_plane.server}/api/v1/namespaces", local_plane.ca_file)
    assert (code, status["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "namespaces"' in status["message"]
    assert answer(f"{local_plane.server}/version", local_plane.ca_file)[0] == 200
    assert answer(f"{local_plane.server}/apis", local_plane.ca_file)[0] == 403


def test_the_token_in_the_data_directory_lets_one_in(local_plane: LocalPlane) -> None:
    token = (local_plane.data / "pki" / "token").read_text().strip()
    assert answer(f"{local_plane.server}/api/v1/namespaces", local_plane.ca_file, token=token)[0] == 200
    assert answer(f"{local_plane.server}/api/v1/namespaces", local_plane.ca_file, token=token[:-1])[0] == 401


def test_its_own_kubeconfig_names_the_administrator(local_plane: LocalPlane) -> None:
    groups = ["system:masters", "system:authenticated"]
    assert user_of(local_plane.data / "kubeconfig") == ("kubernetes-admin", groups)


def test_whoever_is_let_in_may_act_as_somebody_else(local_plane: LocalPlane) -> None:
    (admin,) = json.loads(local_plane.kubeconfig.read_text())["users"]
    jane = local_plane.kubeconfig_with({**admin["user"], "as": "jane", "as-groups": ["dev"]})
    assert user_of(jane) == ("jane", ["dev", "system:authenticated"])


def test_merge_adds_a_context_and_keeps_what_is_there(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: work, context: {cluster: work}}]\ncurrent-context: work\nx-mine: 1\n")
    config.chmod(0o640)
    arguments = ("--data", tmp_path / "data", "--kubeconfig", config, "--merge")
    with up(tmp_path, *ANY_PORT, *arguments) as running:
        assert running.url
        assert "  kubectl --context edgewright get namespaces\n" in running.said
        assert "default" in namespaces(config, context="edgewright")
    merged = yaml.safe_load(config.read_text())
    assert (merged["current-context"], merged["x-mine"], mode(config)) == ("work", 1, 0o600)
    assert [context["name"] for context in merged["contexts"]] == ["work", "edgewright"]


def test_beyond_loopback_it_warns_and_serves(tmp_path: Path) -> None:
    with up(tmp_path, "--data", tmp_path / "data", "--listen", "0.0.0.0:0", "--no-node") as running:
        assert running.url.startswith("https://127.0.0.1:")
        assert len(running.complained.splitlines()) == 1
        assert "warning: other machines can reach 0.0.0.0:0" in running.complained
        assert "default" in namespaces(tmp_path / "data" / "kubeconfig")


# What it says when it cannot


def test_a_second_one_on_the_same_directory_is_refused(local_plane: LocalPlane) -> None:
    done = edgewright("up", "--data", local_plane.data, *ANY_PORT)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence(done) == (f"{local_plane.data} is in use by another process: stop it, or choose another directory")
    assert local_plane.exists("/api/v1/namespaces/default")


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = edgewright("up", "--data", tmp_path / "data", "--listen", where, "--no-node")
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence(done) == (
        f"{where}: address already in use by another program: stop it, or name another one with --listen"
    )
    with up(tmp_path, "--data", tmp_path / "data", *ANY_PORT) as running:  # nothing that was made is in the way
        assert running.url


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("192.0.2.7", "192.0.2.7:6443: is no address of this machine: name another one with --listen"),
        ("nowhere.invalid", "nowhere.invalid: "),
    ],
)
def test_an_address_that_is_not_ours_is_named(tmp_path: Path, host: str, said: str) -> None:
    done = edgewright("up", "--data", tmp_path / "data", "--listen", f"{host}:6443", "--no-node")
    assert done.returncode == 1
    warning, line = done.stderr.splitlines()
    assert "warning: other machines can reach" in warning
    assert line.startswith(f"edgewright: {said}")


def spoil_a_page(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096 * 2 : 4096 * 2 + 200] = b"\xff" * 200
    file.write_bytes(content)


def spoil_an_object(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE objects SET body = X'7B7D' WHERE resource = 'namespaces'")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda file: file.write_bytes(b"no database " * 1000), "store.db"),
        (spoil_a_page, "damaged"),
        (spoil_an_object, "is not what was written"),
        (lambda file: os.truncate(file, file.stat().st_size // 2), "damaged"),
    ],
    ids=["no database", "a page", "an object", "cut off"],
)
def test_a_damaged_store_is_an_error_and_is_left_alone(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    data = tmp_path / "data"
    with up(tmp_path, "--data", data, *ANY_PORT) as running:
        assert running.url
        assert running.end() == 0
    spoil(data / "store.db")
    damaged = (data / "store.db").read_bytes()
    done = edgewright("up", "--data", data, *ANY_PORT)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in sentence(done)
    assert (data / "store.db").read_bytes() == damaged


def test_a_kubeconfig_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("clusters: [{name: work, cluster: {server: 'https://work.example'}}]\n")
    before = config.read_text()
    done = edgewright("up", "--data", tmp_path / "data", *ANY_PORT, "--kubeconfig", config)
    assert (done.returncode, done.stdout) == (2, "")
    assert "name another file, or add a context with --merge" in sentence(done)
    assert config.read_text() == before


# How it ends, and what stays


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_what_was_written_is_there_after_the_next_start(own_plane: LocalPlane, number: signal.Signals) -> None:
    namespace = own_plane.create_namespace("kept")
    body = {"metadata": {"name": "kept"}, "data": {"a": "b"}}
    made = own_plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    os.kill(own_plane.api.pid, number)
    code = wait_until(lambda: None if own_plane.api.running else [own_plane.api.returncode], what="it has ended")[0]
    assert code == (-9 if number is signal.SIGKILL else 0)
    own_plane.api.restart()
    assert own_plane.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/kept") == made
    later = own_plane.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "later"}})
    assert int(later["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_a_watch_does_not_keep_it_from_ending(own_plane: LocalPlane) -> None:
    url = f"{own_plane.server}{NAMESPACES}?watch=1"
    with urllib.request.urlopen(url, context=own_plane.admin_tls, timeout=240) as watching:
        assert json.loads(watching.readline())["type"] == "ADDED"
        own_plane.api.terminate(timeout=240)
        assert own_plane.api.returncode == 0


def test_the_same_certificates_serve_after_the_next_start(own_plane: LocalPlane) -> None:
    files = {name: (own_plane.data / "pki" / name).read_bytes() for name in ("ca.pem", "serving.pem", "token")}
    before = (own_plane.data / "kubeconfig").read_bytes()
    own_plane.api.restart()
    assert {name: (own_plane.data / "pki" / name).read_bytes() for name in files} == files
    assert (own_plane.data / "kubeconfig").read_bytes() == before


# Backup and restore


def test_a_backup_made_while_it_runs_is_restored_into_a_new_directory(local_plane: LocalPlane, tmp_path: Path) -> None:
    namespace = local_plane.create_namespace("precious")
    file, data = tmp_path / "copy.db", tmp_path / "restored"
    done = edgewright("backup", file, "--data", local_plane.data)
    assert (done.returncode, done.stderr) == (0, "")
    data.mkdir()
    shutil.copy(file, data / "store.db")
    with up(tmp_path, "--data", data, *ANY_PORT) as running:
        assert running.url
        restored = asked(data / "kubeconfig", f"{NAMESPACES}/{namespace}")
        assert restored == local_plane.request("GET", f"/api/v1/namespaces/{namespace}")
        assert mode(data) == 0o700
        assert stopped_well(running)


def stopped_well(running: Up) -> bool:
    return running.end() == 0 and running.complained == ""
