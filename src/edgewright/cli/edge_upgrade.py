"""`edgewright edge upgrade`, on a device: replaces the agent by another version, and goes back where it fails.

Workloads go on meanwhile: they are podman's. What is new is installed next to what is there and checked before anything
is switched; what was there stays for the way back.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from edgewright.cli import terminal
from edgewright.cli.agent import CONFIG
from edgewright.cli.failure import Failed
from edgewright.runtime.clock import SystemClock

LINK: Final = Path("/usr/local/bin/edgewright")
"""What systemd runs."""
RESTART: Final = "systemctl restart edgewright-agent"
WITHIN: Final = 300
"""Seconds in which the new agent must have reached the gateway."""
_MAX_WITHIN: Final = 86_400
_INSTALL_SECONDS: Final = 1800


def upgrade(
    *,
    wheels: Annotated[
        Path | None,
        typer.Option(
            "--wheels",
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Install from this folder of `edge bundle --offline`, and ask no index.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        str, typer.Option("--version", help="Install this version; default: the newest.", show_default=False)
    ] = "",
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Take this environment, which has the new version already, and install nothing.",
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        int, typer.Option("--within", help="Seconds in which it must have reached the gateway.")
    ] = WITHIN,
    finish: Annotated[
        bool, typer.Option("--finish", help="Only end an upgrade that was cut off: wait for it, or go back.")
    ] = False,
    link: Annotated[Path, typer.Option("--link", help="The link that is run as the agent.")] = LINK,
    restart: Annotated[str, typer.Option("--restart", metavar="COMMAND", help="What restarts the agent.")] = RESTART,
    config: Annotated[Path, typer.Option("--config", help="The settings of the agent.")] = CONFIG,
) -> None:
    """Replace the agent on this device; go back if the new one does not reach the gateway within 5 minutes."""
    from edgewright.agent import upgrade as trials  # noqa: PLC0415 - other commands need none of it
    from edgewright.agent.settings import load  # noqa: PLC0415
    from edgewright.agent.state import State  # noqa: PLC0415

    if not 1 <= within <= _MAX_WITHIN:
        raise typer.BadParameter(f"{within} is not from 1 to {_MAX_WITHIN}", param_hint="--within")
    state = State(load(config).state)
    clock = SystemClock()
    trial = trials.under_way(state)
    if finish and trial is None:
        terminal.say("No upgrade is under way.")
        return
    if not finish and trial is not None:
        raise Failed("an upgrade is under way: `edgewright edge upgrade --finish` ends it")
    if trial is None:
        if not link.is_symlink():
            raise Failed(f"{link} is not a link to the agent: name the one that systemd runs with --link")
        program = _program(to, wheels, version, link)
        _check(program, config)
        trial = trials.begin(state, link, program, seconds=within, clock=clock)
        terminal.say(f"{link} is {program} now: waiting until it reaches the gateway, {within} s at most.")
        try:
            _restart(restart)
        except Failed:
            trials.point(link, trial.old)
            trials.end(state)
            raise
    kept = asyncio.run(trials.settle(state, trial, clock=clock, restart=lambda: _restart(restart)))
    if not kept:
        raise Failed(f"the new agent did not reach the gateway in time: {link} is {trial.old} again")
    terminal.say(f"The agent is {trial.new}. The old one is still at {trial.old}.")


def _program(to: Path | None, wheels: Path | None, version: str, link: Path) -> Path:
    """The new program: of an environment that is there, or of one that is made now next to the present one."""
    if to is not None:
        if wheels is not None or version:
            raise typer.BadParameter("name either an environment or what to install", param_hint="--to")
        return to.absolute() / "bin" / "edgewright"
    present = link.resolve().parents[1]
    folder = present.with_name(f"edgewright-{time.strftime('%Y%m%d%H%M%S', time.gmtime())}")
    wanted = f"edgewright=={version}" if version else "edgewright"
    source = [] if wheels is None else ["--no-index", "--find-links", str(wheels)]
    try:
        _run([sys.executable, "-m", "venv", str(folder)], "the environment cannot be made")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *source, wanted], f"{wanted} cannot be installed")
    except Failed:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder / "bin" / "edgewright"


def _check(program: Path, config: Path) -> None:
    """The new version must at least start and understand the settings."""
    if not program.is_file():
        raise Failed(f"there is no {program}")
    _run([str(program), "agent", "--config", str(config), "--check"], f"{program} cannot run here: nothing was changed")


def _restart(command: str) -> None:
    _run(shlex.split(command), "the agent cannot be restarted")


def _run(command: list[str], problem: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - what root typed, or what was just installed
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{problem}: {error}") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Failed(f"{problem}: {''.join(last) or f'exit code {done.returncode}'}")
