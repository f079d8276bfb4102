"""What every client command has in common: it starts quickly, everywhere, completes live names, and finds a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgewright import __version__
from edgewright.api.firmwarerollout import FirmwareRollout, FirmwareRolloutSpec
from edgewright.cli import cluster, completion
from edgewright.cli.line import command_line
from edgewright.runtime.client import Client
from edgewright.runtime.config import ConfigError
from edgewright.runtime.objects import ObjectMeta
from tests.unit.cli.command import PROGRAM, environment
from tests.unit.cli.typed import Plane, argv, typed

CLIENT = ("rollout", "devices", "firmware", "flash", "freeze", "unfreeze", "crds", "version")
BLOCKED = """
import sys
for name in ("fcntl", "pwd", "resource", "termios"):
    sys.modules[name] = None
"""


def run_blocked(*words: str) -> subprocess.CompletedProcess[str]:
    """A command on a system that has none of what only Unix has."""
    program = f"{BLOCKED}\nsys.argv = ['edgewright', *{list(words)!r}]\nfrom edgewright.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=False, timeout=60
    )


@pytest.mark.parametrize("command", CLIENT)
def test_client_commands_import_where_there_is_no_unix(command: str) -> None:
    done = run_blocked(command, "--help")
    assert done.returncode == 0, done.stderr


def test_what_client_commands_use_later_imports_there_too() -> None:
    modules = "edgewright.cli.rollout_plan, edgewright.controllers.rollout.why_world, edgewright.cli.rollout_dialogue"
    more = "edgewright.devices.prober, edgewright.devices.drivers.esp32, edgewright.devices.oci.push"
    done = subprocess.run(
        [sys.executable, "-c", f"{BLOCKED}\nimport {modules}, {more}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["up", "node", "agent"])
def test_what_needs_linux_says_so_in_one_sentence(command: str) -> None:
    words = {"up": ("up",), "node": ("node",), "agent": ("agent", "--config", "x")}[command]
    done = run_blocked(*words)
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"`edgewright {command}` needs Linux" in done.stderr


def test_the_version_is_there_before_anybody_waits() -> None:
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, env=environment(), check=True)
        took.append(time.perf_counter() - begin)
        assert done.stdout == f"edgewright {__version__}\n"
    bare = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], env=environment(), check=True)
        bare.append(time.perf_counter() - begin)
    # 150 ms on a machine that is not busy; on one that is, Python alone takes longer too.
    assert min(took) < max(0.15, 3 * min(bare))


def test_the_version_needs_nothing_but_the_door() -> None:
    begin = "import sys; sys.argv = ['edgewright', '--version']"
    program = f"{begin}; from edgewright.cli import main; main(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"typer", "msgspec", "yaml", "asyncio", "ssl"}.isdisjoint(done.stdout.split())


def test_kubectl_finds_the_plugin_by_its_name() -> None:
    for name in ("kubectl-edgewright", "kubectl_complete-edgewright"):
        assert (PROGRAM.parent / name).exists()
    done = subprocess.run(
        [PROGRAM.parent / "kubectl-edgewright", "rollout", "--help"],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert "Usage: kubectl edgewright rollout" in done.stdout


def test_live_names_are_completed_and_a_server_that_is_unavailable_is_not_mentioned(
    plane: Plane, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = FirmwareRolloutSpec(firmware="registry.example/a:1", version="1")

    async def make(client: Client) -> None:
        for name in ("alpha", "alps", "beta"):
            made = FirmwareRollout(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)
            await client.of(FirmwareRollout).create(made)

    plane.do(make)
    context = SimpleNamespace(params={"kubeconfig": str(plane.kubeconfig)})
    assert completion.rollouts(context, "al") == ["alpha", "alps"]  # type: ignore[arg-type]
    assert completion.devices(context, "") == []  # type: ignore[arg-type]
    assert "default" in completion.namespaces(context, "de")  # type: ignore[arg-type]
    away = SimpleNamespace(params={"kubeconfig": str(tmp_path / "missing")})
    assert completion.rollouts(away, "") == []  # type: ignore[arg-type]
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    assert completion.candidates(["rollout", "get", "al"]) == ["alpha", "alps"]
    with argv("rollout", "get", "b"):
        completion.plugin()
    assert capsys.readouterr().out == "beta\n:4\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_names(plane: Plane, shell: str) -> None:
    words = "edgewright roll"
    asked = {
        "bash": {"COMP_WORDS": words, "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": words},
        "fish": {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    env = environment(_EDGEWRIGHT_COMPLETE=f"complete_{shell}", KUBECONFIG=str(plane.kubeconfig), **asked)
    done = subprocess.run([PROGRAM], capture_output=True, text=True, env=env, check=False, timeout=60)
    assert "rollout" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_control_plane_of_this_machine_is_found_where_there_is_nothing_else(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="no Kubernetes configuration was found"):
        cluster.load(None, None, None)
    (tmp_path / "data" / "edgewright").mkdir(parents=True)
    (tmp_path / "data" / "edgewright" / "kubeconfig").write_bytes(plane.kubeconfig.read_bytes())
    assert cluster.load(None, None, "lab").namespace == "lab"
    with pytest.raises(ConfigError):
        cluster.load(None, "other", None)


def test_files_of_kubeconfig_are_merged_as_kubectl_merges_them(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tmp_path / "first"
    first.write_text("current-context: nowhere\n")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(first), str(plane.kubeconfig)]))
    wrong = typed(capsys, "rollout", "list")
    assert (wrong.code, "there is no context 'nowhere'" in wrong.err) == (2, True)
    assert typed(capsys, "rollout", "list", "--context", "edgewright").code == 0


def test_a_version_behind_more_words_is_answered_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line("version")(["--version", "version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"edgewright {__version__}\n"
