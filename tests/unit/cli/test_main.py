"""The command line from the outside: exit codes that scripts can trust, and one sentence for what went wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from edgewright.cli import EXIT_CODES, command_line, exit_code
from edgewright.runtime.config import ConfigError
from edgewright.runtime.errors import Forbidden, KubernetesError, LeaseLost, NoCredentials, Status, Unreachable
from tests.unit.cli.command import PROGRAM, edgewright, environment, ignoring, sentence

KUBECONFIG = """
clusters: [{{name: here, cluster: {{server: "{server}"}}}}]
contexts: [{{name: here, context: {{cluster: here, user: me}}}}]
users: [{{name: me, user: {{{user}}}}}]
current-context: here
"""


def kubeconfig(folder: Path, *, server: str = "https://127.0.0.1:1", user: str = "") -> Path:
    path = folder / "kubeconfig"
    path.write_text(KUBECONFIG.format(server=server, user=user))
    return path


def commands() -> Iterator[tuple[str, ...]]:
    """Every command and group, by the words that are typed."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), typer.main.get_command(command_line()))]
    while waiting:
        words, command = waiting.pop(0)
        yield words
        inner: dict[str, object] = getattr(command, "commands", {})
        waiting += [((*words, name), each) for name, each in inner.items()]


@pytest.mark.parametrize("words", list(commands()), ids=lambda words: " ".join(words) or "edgewright")
def test_help_says_in_a_sentence_what_a_command_and_each_of_its_options_does(words: tuple[str, ...]) -> None:
    done = edgewright(*words, "--help", env={"COLUMNS": "400"})
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.strip("│ ").strip() for line in done.stdout.splitlines() if line.startswith("│")]
    assert [row for row in rows if row.startswith("--")], done.stdout
    for row in rows:
        assert row.endswith((".", ". [required]")) or ". [default: " in row, row


@pytest.mark.parametrize(
    "arguments",
    [(), ("crds",), ("bogus",), ("version", "--bogus"), ("version", "--output", "xml"), ("crds", "print", "extra")],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_says_what_is_right(arguments: tuple[str, ...]) -> None:
    done = edgewright(*arguments)
    assert done.returncode == 2
    assert "Usage: edgewright" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("version", {"aiohttp", "asyncio", "rich", "prometheus_client", "edgewright.api"}),
        ("up", {"rich", "edgewright.devices", "edgewright.cli.demo"}),
        ("run", {"aiohttp", "rich", "edgewright.local.control_plane"}),
    ],
)
def test_a_command_starts_without_what_only_others_need(command: str, heavy: set[str]) -> None:
    program = f"import sys; from edgewright import cli; cli.command_line({command!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"edgewright.cli.{command}" in done.stdout.split()
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.parametrize("arguments", [("--help",), ("bogus",), ("version",), ("crds", "print")], ids=" ".join)
def test_a_pipe_gets_no_colours(arguments: tuple[str, ...]) -> None:
    done = edgewright(*arguments, env={"TERM": "xterm-256color"})
    assert "\x1b" not in done.stdout + done.stderr


def test_a_kubeconfig_that_does_not_exist_ends_with_2_and_names_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    done = edgewright("crds", "install", "--kubeconfig", missing)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence(done) == f"{missing}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("clusters: {", "is not YAML at line "),
        ("clusters: 1", "clusters: is a number, must be a list"),
        ("[]", "is a list, must be a mapping with clusters, users and contexts"),
        ("", "current-context: is not set, so that a context must be named; there are: none"),
        (
            KUBECONFIG.format(server="ftp://a", user=""),
            "clusters[here].cluster.server: is not a http:// or https:// URL",
        ),
    ],
    ids=["no YAML", "a wrong type", "a list", "empty", "a wrong server"],
)
def test_a_wrong_kubeconfig_ends_with_2_and_names_file_and_field(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    done = edgewright("crds", "install", env={"KUBECONFIG": str(path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence(done).startswith(f"{path}: {said}")


def test_an_unknown_context_ends_with_2_and_names_those_that_there_are(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path)
    done = edgewright("crds", "install", "--kubeconfig", path, "--context", "there")
    assert done.returncode == 2
    assert sentence(done) == f"{path}: contexts: there is no context 'there'; there are: here"


def test_no_kubeconfig_at_all_ends_with_2_and_says_what_to_do(tmp_path: Path) -> None:
    done = edgewright("crds", "install", env={"HOME": str(tmp_path)})
    assert done.returncode == 2
    assert sentence(done).endswith("set KUBECONFIG or name a kubeconfig file")


def test_a_server_that_cannot_be_reached_ends_with_3_and_names_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        server = f"https://127.0.0.1:{closed.getsockname()[1]}"
    done = edgewright("crds", "install", "--kubeconfig", kubeconfig(tmp_path, server=server))
    assert (done.returncode, done.stdout) == (3, "")
    assert server in sentence(done)


def test_a_plugin_that_fails_ends_with_2_and_says_what_it_said(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text("#!/bin/sh\necho log in first >&2\nexit 7\n")
    plugin.chmod(0o700)
    api = "client.authentication.k8s.io/v1"
    user = f"exec: {{apiVersion: {api}, command: ./plugin, interactiveMode: Never}}"
    done = edgewright("crds", "install", "--kubeconfig", kubeconfig(tmp_path, user=user))
    assert done.returncode == 2
    assert sentence(done).endswith(f"the command {plugin} failed with exit code 7: log in first")


def test_a_token_in_a_wrong_kubeconfig_is_not_shown(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, user='token: "very-secret-token\\n"')
    done = edgewright("crds", "install", "--kubeconfig", path)
    assert done.returncode == 2
    assert "very-secret" not in sentence(done)


WAITING = {
    "crds": ("crds", "install"),
    "run": ("run",),
    "simulate": ("simulate", "--devices", "1", "--port", "0"),
    "node": ("node", "--name", "edge"),
}
"""Commands that ask a server first."""


@pytest.mark.parametrize(
    ("arguments", "code"), [(WAITING[each], 0 if each == "node" else 130) for each in WAITING], ids=WAITING
)
def test_ctrl_c_ends_what_waits_for_an_answer_at_once_and_without_a_word(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = kubeconfig(tmp_path, server=f"http://127.0.0.1:{silent.getsockname()[1]}")
        command = [str(PROGRAM), *arguments, "--kubeconfig", str(path)]
        env = environment(HOME=str(tmp_path))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
            silent.settimeout(60)
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)  # it has sent its request and waits for the answer
                process.send_signal(signal.SIGINT)
                assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == code


@pytest.mark.parametrize("arguments", WAITING.values(), ids=WAITING)
@pytest.mark.parametrize("ignored", [(), (signal.SIGINT,)], ids=["in the foreground", "in the background"])
def test_sigterm_ends_what_waits_for_an_answer_also_where_its_shell_ignores_ctrl_c(
    tmp_path: Path, ignored: tuple[signal.Signals, ...], arguments: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ignoring(*ignored):
        path = kubeconfig(tmp_path, server=f"http://127.0.0.1:{silent.getsockname()[1]}")
        command = [str(PROGRAM), *arguments, "--kubeconfig", str(path)]
        env = environment(HOME=str(tmp_path))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
            silent.settimeout(60)
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)
                process.send_signal(signal.SIGTERM)
                assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode in {0, 130, -signal.SIGTERM}  # those that serve end in good order


@pytest.mark.parametrize("arguments", [("version",), ("crds", "print"), ("--help",)], ids=" ".join)
@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
def test_a_reader_that_is_gone_gets_no_complaint(arguments: tuple[str, ...], env: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = edgewright(*arguments, stdout=writing, env=env)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_output_that_nobody_wants_is_no_failure() -> None:
    done = subprocess.run(
        ["bash", "-c", f"'{PROGRAM}' version >&-"], capture_output=True, env=environment(), check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_reader_that_wants_one_line_gets_it() -> None:
    script = f"set -o pipefail; '{PROGRAM}' crds print | head -1"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment(), check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("apiVersion: apiextensions.k8s.io/v1\n", "")
    assert done.returncode in {0, 1}  # 1 where it had not written everything when `head` went


def test_output_that_cannot_be_written_ends_with_1_and_one_sentence() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = edgewright("version", stdout=full)
    finally:
        os.close(full)
    assert done.returncode == 1
    assert sentence(done) == "the output cannot be written: No space left on device"


def test_what_the_system_refuses_is_not_said_of_the_output() -> None:
    done = edgewright("demo", "--data", "a" * 300)
    assert done.returncode == 1
    assert sentence(done) == f"{'a' * 300}: File name too long"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("a: b: is missing"), 2),
        (NoCredentials("the plugin failed"), 2),
        (Unreachable("no answer in time"), 3),
        (Forbidden(Status(code=403)), 1),
        (LeaseLost("gone"), 1),
        (KubernetesError("not served"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_each_error_has_an_exit_code_that_is_documented(error: Exception, code: int) -> None:
    assert exit_code(error) == code
    assert code in EXIT_CODES
