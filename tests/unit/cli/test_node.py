"""`edgewright node`: what it says, what it refuses, and how it ends. What it runs has tests of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.api.node import NODE_TAINT
from edgewright.cli import node
from edgewright.cli.failure import Failed
from edgewright.cli.operator_options import TOLD, flasher_command
from edgewright.local.access import Authority, client_tls
from edgewright.local.node.node import Advertised, Containers, Network
from edgewright.local.node.pod_ids import PodIds
from edgewright.runtime import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import Unreachable
from edgewright.runtime.tls import ConfigError
from tests.unit.cli.command import PROGRAM, edgewright, environment, sentence
from tests.unit.local.access.handshakes import handshake


async def forever() -> None:
    await asyncio.Event().wait()


async def raises(error: Exception) -> None:
    raise error


async def in_a_group(error: Exception) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(raises(error))
        group.create_task(forever())


async def ends() -> None:
    pass


async def until(*works: Coroutine[Any, Any, None], stopped: bool = False) -> list[asyncio.Task[None]]:
    stop = asyncio.Event()
    if stopped:
        stop.set()
    parts = [asyncio.create_task(work, name=f"part {number}") for number, work in enumerate(works)]
    try:
        await node.until(stop, parts)
    finally:
        assert all(part.done() for part in parts)
    return parts


async def test_a_signal_ends_every_part() -> None:
    parts = await until(forever(), forever(), stopped=True)
    assert all(part.cancelled() for part in parts)


@pytest.mark.parametrize(
    ("work", "error", "said"),
    [
        (lambda: raises(Unreachable("no answer")), Unreachable, "no answer"),
        (lambda: in_a_group(Unreachable("no answer")), Unreachable, "no answer"),
        (lambda: raises(OSError(errno.ENOSPC, "No space left on device", "/d")), Failed, "/d: No space left"),
        (lambda: raises(OSError(errno.EADDRINUSE, "in use")), Failed, "part 1: in use"),
        (ends, RuntimeError, "part 1 ended by itself"),
    ],
    ids=["a refusal", "a refusal in a group", "a file", "a socket", "an end"],
)
async def test_a_part_that_ends_ends_the_others_and_is_said(work: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        await until(forever(), work())


async def test_it_says_when_it_runs_and_does_not_end(capsys: pytest.CaptureFixture[str]) -> None:
    ready = asyncio.Event()

    async def registered() -> None:
        await ready.wait()

    said = asyncio.create_task(node.announce(registered(), "edge-1", "https://127.0.0.1:6443"))
    ready.set()
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(said), 0.05)
    assert capsys.readouterr().out.startswith("Node edge-1 of https://127.0.0.1:6443 runs Pods here\n")
    assert not said.done()
    said.cancel()


def test_a_second_node_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "node"
    with node.locked(directory):
        assert directory.stat().st_mode & 0o777 == 0o700
        with pytest.raises(Failed, match="node is in use by another node"), node.locked(directory):
            raise AssertionError
    with node.locked(directory):
        pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match="below: cannot be used: Not a directory"),
        node.locked(tmp_path / "file/below"),
    ):
        raise AssertionError


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki", clock=SystemClock())


def test_logs_are_for_those_whose_certificate_the_named_authority_has_signed(
    tmp_path: Path, authority: Authority
) -> None:
    context = node.log_tls(tmp_path / "n", "edge-1", "127.0.0.1", client_ca=authority.file, certificate=None)
    assert context is not None
    asks = client_tls(authority.client("c", user="kube-apiserver"), tmp_path / "n" / "pki" / "ca.crt")
    handshake(context, asks, "edge-1")
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        handshake(context, ssl.create_default_context(cafile=tmp_path / "n" / "pki" / "ca.crt"), "edge-1")


def test_a_certificate_that_was_given_is_shown(tmp_path: Path, authority: Authority) -> None:
    own = authority.server("own", user="edge", names=["edge.example"])
    context = node.log_tls(tmp_path, "edge-1", "127.0.0.1", client_ca=authority.file, certificate=own.file)
    assert context is not None
    handshake(context, client_tls(authority.client("c", user="kube-apiserver"), authority.file), "edge.example")


def test_without_an_authority_no_logs_are_served(tmp_path: Path) -> None:
    assert node.log_tls(tmp_path, "edge-1", "127.0.0.1", client_ca=None, certificate=None) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file or directory"), ("nothing", "holds no certificate with its key")],
)
def test_a_certificate_that_cannot_be_used_is_named(
    tmp_path: Path, authority: Authority, content: str | None, said: str
) -> None:
    path = tmp_path / "own.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=rf"--certificate: .*own\.pem: {said}"):
        node.log_tls(tmp_path, "edge-1", "127.0.0.1", client_ca=authority.file, certificate=path)


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        f"clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\n"
        "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
    )
    return path


def test_a_server_that_is_not_there_ends_with_3_and_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        server = f"http://127.0.0.1:{closed.getsockname()[1]}"
    done = edgewright("node", "--kubeconfig", kubeconfig(tmp_path, server), "--data", tmp_path / "node")
    assert (done.returncode, done.stdout) == (3, "")
    assert server in sentence(done)


def test_a_signal_before_it_is_registered_ends_it_with_0(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        path = kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        command = [str(PROGRAM), "node", "--kubeconfig", str(path), "--data", str(tmp_path / "node")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)
                os.kill(process.pid, signal.SIGTERM)
                assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [("--name", "A"), ("--image", "web"), ("--addresses", "192.0.2.7"), ("--address", "here")],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_makes_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = edgewright("node", "--data", tmp_path / "node", *arguments)
    assert done.returncode == 2
    assert "Usage: edgewright node" in done.stderr
    assert not (tmp_path / "node").exists()


class StandIn:
    """A node that is ready at once and runs nothing."""

    made: list[dict[str, Any]] = []

    def __init__(self, client: Client, **settings: Any) -> None:
        self.made.append(settings)
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        self._ready.set()
        await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
        await forever()


@pytest.mark.parametrize("addresses", ["", "127.0.0.5"], ids=["Pods only", "with Services"])
def test_what_was_typed_becomes_the_settings_of_the_node(
    tmp_path: Path,
    authority: Authority,
    addresses: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("edgewright.local.node.node.Node", StandIn)
    monkeypatch.setattr(StandIn, "made", [])
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        node.node(
            name="edge-1",
            kubeconfig=kubeconfig(tmp_path, "http://127.0.0.1:1"),
            data=tmp_path / "node",
            image=["web=python3 -m http.server"],
            addresses=addresses,
            address="127.0.0.1",
            client_ca=authority.file,
        )
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    (settings,) = StandIn.made
    network = settings.pop("network")
    assert isinstance(network.log_tls, ssl.SSLContext)
    assert network == Network(host="127.0.0.1", log_tls=network.log_tls, services=bool(addresses))
    assert settings == {
        "name": "edge-1",
        "directory": tmp_path / "node",
        "containers": Containers(
            images={FLASHER_IMAGE: flasher_command(), "web": ["python3", "-m", "http.server"]},
            told=TOLD,
            covered=[tmp_path / "node"],
            ids=PodIds(),
            environment={},
            commands=False,
        ),
        "advertised": Advertised(taints={NODE_TAINT: True}),
    }
    assert capsys.readouterr().out.startswith("Node edge-1 of http://127.0.0.1:1 runs Pods here\n")


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("https://127.0.0.1:6443", ("127.0.0.1", "6443")),
        ("https://[::1]:6443", ("::1", "6443")),
        ("https://kubernetes.example", ("kubernetes.example", "443")),
        ("https://proxy.example/clusters/a", None),
        ("http://127.0.0.1:8001", None),
    ],
)
def test_pods_are_told_where_the_api_server_is_where_they_can_use_it(server: str, told: tuple[str, str] | None) -> None:
    variables = node.api_server_variables(server)
    names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    assert variables == (dict(zip(names, told, strict=True)) if told else {})
