"""`edgewright up`: how its options are read, what it says, and how it ends. What it runs has tests of its own."""

from __future__ import annotations

import asyncio
import errno
import http.client
import importlib.util
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
import yaml

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.cli import operator_options, up, up_operator
from edgewright.cli.failure import Failed
from edgewright.cli.signals import stop_on_signals
from edgewright.controllers.settings import Settings
from edgewright.local.database import StoreBusy, StoreDamaged
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.tls import ConfigError
from tests.harness import free_port, wait_until_async
from tests.unit.cli.command import edgewright, sentence

DOCUMENT = {
    "clusters": [{"name": "edgewright", "cluster": {"server": "https://127.0.0.1:6443"}}],
    "users": [{"name": "edgewright", "user": {}}],
    "contexts": [{"name": "edgewright", "context": {"cluster": "edgewright", "user": "edgewright"}}],
    "current-context": "edgewright",
    "apiVersion": "v1",
    "kind": "Config",
}


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


class Serving:
    """What `plane.open` gives, without a server."""

    url = "https://127.0.0.1:6443"

    def __init__(self, fails: Exception | None = None) -> None:
        self.entrance: Any = self
        self.stopped = False
        self._fails = fails

    def kubeconfig(self, server: str) -> dict[str, Any]:
        assert server == self.url
        return DOCUMENT

    async def serve_until(self, stop: asyncio.Event) -> None:
        if self._fails is not None:
            raise self._fails
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()


@pytest.fixture(autouse=True)
def _no_lease_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave(running: Any) -> None:
        if not isinstance(running, Serving):
            await up_operator.leave_to_others(running)

    monkeypatch.setattr(up, "leave_to_others", leave)


@asynccontextmanager
async def opening(running: Serving, *, fails: Exception | None = None) -> AsyncIterator[Any]:
    if fails is not None:
        raise fails
    try:
        yield running
    finally:
        running.stopped = True


def serve(running: Serving, folder: Path, *, fails: Exception | None = None, merge: bool = False) -> None:
    asyncio.run(
        up.serve(
            opening(running, fails=fails),
            data=folder / "data",
            listen=up.Listen("127.0.0.1", 6443),
            kubeconfig=folder / "kubeconfig",
            merge=merge,
            operator=None,
        )
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:6443", "127.0.0.1", 6443),
        ("localhost:0", "localhost", 0),
        ("[::1]:65535", "::1", 65535),
        ("0.0.0.0:443", "0.0.0.0", 443),
    ],
)
def test_listen_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    listen = up.read_listen(text)
    assert (listen.host, listen.port, str(listen)) == (host, port, text)


@pytest.mark.parametrize(
    "text",
    ["", "6443", ":6443", "::1:6443", "[a]:1", "a:b", "a:", "a:65536", "a:-1", "[::1]", "a:\N{ARABIC-INDIC DIGIT ONE}"],
)
def test_what_is_no_host_and_port_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not HOST:PORT"):
        up.read_listen(text)


@pytest.mark.parametrize(
    ("host", "warns"),
    [
        ("127.0.0.1", False),
        ("127.9.9.9", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("192.0.2.7", True),
        ("edge.example", True),
    ],
)
def test_whoever_lets_other_machines_in_is_warned(host: str, warns: bool, capsys: pytest.CaptureFixture[str]) -> None:
    up.warn_of_strangers(up.Listen(host, 6443))
    assert ("other machines can reach" in capsys.readouterr().err) is warns


@pytest.mark.parametrize(
    ("given", "merge", "kubeconfig", "found"),
    [
        (None, False, "/a:/b", "/data/kubeconfig"),
        (None, True, "/a:/b", "/a"),
        (None, True, ":/b", "/b"),
        (None, True, "", "/home/me/.kube/config"),
        (Path("/mine"), True, "/a", "/mine"),
        (Path("/mine"), False, "/a", "/mine"),
    ],
)
def test_where_the_kubeconfig_goes(
    given: Path | None, merge: bool, kubeconfig: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    assert up.kubeconfig_file(given, Path("/data"), merge=merge) == Path(found)


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"cel_expr_python is not installed.*pip install 'edgewright\[local\]'"):
        up.require_libraries()


def test_with_the_extra_nothing_is_said() -> None:
    up.require_libraries()


def test_it_says_how_to_use_it_and_ends_in_good_order_at_a_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = Serving()
    serve(running, tmp_path)
    assert running.stopped
    said = capsys.readouterr().out
    assert f"Edgewright serves Kubernetes at https://127.0.0.1:6443 and keeps it in {tmp_path / 'data'}\n" in said
    assert f"  export KUBECONFIG={tmp_path / 'kubeconfig'}\n  kubectl get namespaces\n" in said
    assert yaml.safe_load((tmp_path / "kubeconfig").read_text()) == DOCUMENT


def test_a_path_with_a_space_can_be_copied_into_a_shell() -> None:
    said = up.how_to_use("https://a", Path("/d"), Path("/my files/kubeconfig"), merge=False)
    assert "export KUBECONFIG='/my files/kubeconfig'" in said


def test_with_merge_the_context_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kubeconfig").write_text("current-context: work\n")
    serve(Serving(), tmp_path, merge=True)
    assert "  kubectl --context edgewright get namespaces\n" in capsys.readouterr().out
    merged = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert (merged["current-context"], merged["contexts"]) == ("work", DOCUMENT["contexts"])


def os_error(number: int, filename: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), filename)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StoreBusy("/d is in use by another process"), "/d is in use by another process"),
        (StoreDamaged("/d/store.db is damaged"), "/d/store.db is damaged"),
        (os_error(errno.EADDRINUSE), "127.0.0.1:6443: address already in use by another program: stop it, or "),
        (os_error(errno.EADDRNOTAVAIL), "127.0.0.1:6443: is no address of this machine: "),
        (os_error(errno.EACCES), "127.0.0.1:6443: only the superuser may listen there: "),
        (os_error(errno.EACCES, "/d/store.db"), "/d/store.db: Permission denied"),
        (os_error(errno.ENOSPC), "data: No space left on device"),
        (socket.gaierror(-2, "Name or service not known"), "127.0.0.1: Name or service not known: name an address"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
@pytest.mark.parametrize("when", ["at the start", "later"])
def test_what_a_person_can_fix_is_one_sentence(tmp_path: Path, error: Exception, said: str, when: str) -> None:
    running = Serving(fails=error if when == "later" else None)
    with pytest.raises(Failed) as failed:
        serve(running, tmp_path, fails=error if when == "at the start" else None)
    assert said in str(failed.value)
    assert running.stopped is (when == "later")


def test_a_kubeconfig_that_cannot_be_written_ends_what_was_started(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("clusters: [{name: work}]")
    running = Serving()
    with pytest.raises(ConfigError, match="not ours"):
        serve(running, tmp_path)
    assert running.stopped


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_asks_for_the_end(number: signal.Signals) -> None:
    with stop_on_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stop.wait(), 60)
    assert signal.getsignal(number) is signal.SIG_DFL


async def test_without_a_signal_everything_is_as_it_was() -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    with stop_on_signals():
        assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]
    assert {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)} == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_a_process_that_hangs(number: signal.Signals) -> None:
    program = """
import asyncio, sys, time
from edgewright.cli.signals import stop_on_signals
async def main():
    with stop_on_signals() as stop:
        print("ready", flush=True)
        await stop.wait()
        print("stopping", flush=True)
        time.sleep(600)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(number)
        assert process.wait(60) == -number


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "6443"),
        ("--addresses", "here"),
        ("--image", "web"),
        ("--node-name", "A"),
        ("--attestation", "here"),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_makes_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    done = edgewright("up", "--data", data, *arguments)
    assert done.returncode == 2
    assert "Usage: edgewright up" in done.stderr
    assert not data.exists()


def test_a_directory_with_other_things_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    tmp_path.chmod(0o755)
    done = edgewright("up", "--data", tmp_path, "--listen", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence(done) == f"{tmp_path}: holds other things, such as thesis.txt: name a directory of its own"
    assert tmp_path.stat().st_mode & 0o777 == 0o755


async def test_with_a_gateway_one_machine_is_a_site_and_simulated_agents_come_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from edgewright.api.edgedevice import EdgeDevice
    from edgewright.cli import simulate_edge
    from edgewright.local import control_plane

    async with control_plane.open(control_plane.Settings(data=tmp_path / "data", port=0)) as running:
        await up_operator.add_operator(
            running, operator_options.settings(plain_registries=None, attestation="", nat=False, local=True)
        )
        port = free_port()
        up.add_gateway(running, up.Site(up.Listen("127.0.0.1", port), ("site.example",)))
        config = Config(server=running.url, tls=running.entrance.component("test"), source="test", namespace="default")
        async with Client(config) as client:

            async def listens() -> bool:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    return False
                writer.close()
                return True

            await wait_until_async(listens, what="the gateway listens")
            agents = asyncio.create_task(
                simulate_edge.run(config, 2, "127.0.0.1", port, prefix="simulated", period=1.0)
            )
            try:

                async def ready() -> bool:
                    found = (await client.of(EdgeDevice).list("default")).items
                    states = [
                        any((c.type, c.status) == ("Ready", "True") for c in each.status.conditions) for each in found
                    ]
                    return states == [True, True]

                await wait_until_async(ready, what="both agents are ready")
            finally:
                agents.cancel()
                await asyncio.gather(agents, return_exceptions=True)
    assert "2 simulated agents of 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"gateway": True, "no_operator": True}, "need the operator"),
        ({"gateway": True, "gateway_listen": "nowhere"}, "is not HOST:PORT"),
        ({"watches": Path("watches.yaml"), "no_operator": True}, "need the operator"),
    ],
)
def test_a_part_that_cannot_be_is_refused(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(typer.BadParameter, match=problem):
        up.up(data=tmp_path / "data", **options)


@pytest.mark.parametrize("options", [{"agents": 0}, {"heartbeat": -1.0}, {"server": "a b"}])
def test_simulated_agents_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    from edgewright.cli import simulate_edge

    with pytest.raises(typer.BadParameter):
        simulate_edge.edge(**options)


@pytest.mark.parametrize(
    ("where", "problem"),
    [("nowhere", "is not HOST:PORT"), ("0.0.0.0:0", "its link lets a browser act as the administrator")],
)
def test_a_console_that_cannot_be_is_refused(tmp_path: Path, where: str, problem: str) -> None:
    with pytest.raises(typer.BadParameter, match=problem):
        up.up(data=tmp_path / "data", console=True, console_listen=where)
    assert not (tmp_path / "data").exists()


async def test_a_console_whose_port_is_taken_says_which_option_names_another(tmp_path: Path) -> None:
    from edgewright.local import control_plane
    from edgewright.local.access import kubeconfig as files

    async with control_plane.open(control_plane.Settings(data=tmp_path / "data", port=0)) as running:
        files.write(tmp_path / "kubeconfig", running.entrance.kubeconfig(running.url))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            page = up.Page.at(up.Listen("127.0.0.1", taken.getsockname()[1]))
            with pytest.raises(Failed, match=r"in use by another program.* with --console-listen$"):
                async with page.served(tmp_path / "kubeconfig"):
                    raise AssertionError("it serves at a port that is taken")


def test_readiness_is_said_only_after_the_kubeconfig_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgewright.local import control_plane
    from edgewright.local.access import kubeconfig as files

    data = tmp_path / "data"
    codes: list[int] = []

    def ask(server: str) -> int:
        tls = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
        host = urlsplit(server)
        connection = http.client.HTTPSConnection(host.hostname or "", host.port, timeout=60, context=tls)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status
        finally:
            connection.close()

    def slow_write(path: Path, document: Any) -> None:
        """The last moment without a kubeconfig: everything else has had time to become ready."""
        server = document["clusters"][0]["cluster"]["server"]
        codes.extend(ask(server) for _ in range(20))
        path.touch()

    async def told_to_stop() -> None:
        config_file = tmp_path / "kubeconfig"
        serving = asyncio.create_task(
            up.serve(
                control_plane.open(control_plane.Settings(data=data, port=0)),
                data=data,
                listen=up.Listen("127.0.0.1", 0),
                kubeconfig=config_file,
                merge=False,
                operator=None,
            )
        )
        await wait_until_async(lambda: serving.done() or config_file.exists(), what="the kubeconfig is written")
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    monkeypatch.setattr(files, "write", slow_write)
    asyncio.run(told_to_stop())
    assert set(codes) == {503}


@pytest.mark.parametrize("no_operator", [True, False], ids=["without", "with"])
def test_the_operator_is_there_unless_it_is_left_out(
    no_operator: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgewright.local import control_plane
    from edgewright.runtime import process

    added: list[Any] = []

    async def add_operator(_: object, settings: Any, charts: Any) -> None:
        assert charts is None
        added.append(settings)

    monkeypatch.setattr(process, "prepare", lambda: None)  # this process is pytest's
    monkeypatch.setattr(control_plane, "open", lambda _: opening(Serving()))
    monkeypatch.setattr(up, "add_operator", add_operator)
    up.up(
        data=tmp_path / "data",
        listen="127.0.0.1:0",
        no_operator=no_operator,
        plain_registry=["registry.example:5000"],
        nat=True,
    )
    expected = Settings(local=True, nat=True, plain_registries=("registry.example:5000",), probe=True)
    assert added == ([] if no_operator else [expected])


def test_what_was_typed_becomes_the_settings_of_the_control_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from edgewright.local import control_plane
    from edgewright.runtime import process

    asked: list[control_plane.Settings] = []
    monkeypatch.setattr(process, "prepare", lambda: None)  # this process is pytest's

    def open_none(settings: control_plane.Settings) -> Any:
        asked.append(settings)
        return opening(Serving())

    monkeypatch.setattr(control_plane, "open", open_none)
    data = tmp_path / "data"
    flasher = {FLASHER_IMAGE: operator_options.flasher_command()}
    up.up(
        data=data,
        listen="127.0.0.1:0",
        addresses="127.0.0.5",
        image=["web=python3 -m http.server"],
        node_name="edge-1",
        runtime="process",
        no_operator=True,
    )
    up.up(data=tmp_path / "other", listen="0.0.0.0:7000", no_node=True, no_operator=True)
    assert asked == [
        control_plane.Settings(
            data=data,
            host="127.0.0.1",
            port=0,
            node="edge-1",
            images={**flasher, "web": ["python3", "-m", "http.server"]},
            told=operator_options.TOLD,
            addresses=("127.0.0.5",),
        ),
        control_plane.Settings(
            data=tmp_path / "other", host="0.0.0.0", port=7000, node=None, images=flasher, told=operator_options.TOLD
        ),
    ]
    assert yaml.safe_load((data / "kubeconfig").read_text()) == DOCUMENT
    assert "warning: other machines can reach 0.0.0.0:7000" in capsys.readouterr().err
