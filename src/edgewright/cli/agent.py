"""`edgewright agent`: the program on a Linux edge device, until it is stopped or the gateway disconnects the device.

What it started goes on when it ends, and is found again by the next start.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.cli.failure import Failed
from edgewright.cli.signals import stop_on_signals
from edgewright.runtime import logs

if TYPE_CHECKING:
    from edgewright.agent import Settings

CONFIG: Final = Path("/etc/edgewright-agent/config.toml")
"""Where the settings are unless somebody says otherwise."""


def agent(
    *,
    config: Annotated[Path, typer.Option("--config", help="The settings, in TOML.")] = CONFIG,
    server: Annotated[
        str, typer.Option("--server", metavar="HOST[:PORT]", help="Another gateway than the settings name.")
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option("--state", help="Another directory for what must survive a restart.", show_default=False),
    ] = None,
    podman: Annotated[
        Path | None, typer.Option("--podman", help="Another socket of podman.", show_default=False)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the settings and end.")] = False,
) -> None:
    """Run workloads on this Linux device as the gateway says, until Ctrl-C. They go on when it ends."""
    from edgewright.agent.settings import load  # noqa: PLC0415 - other commands need none of it

    given = {"server": server, "state-dir": _absolute(state), "podman-socket": _absolute(podman)}
    settings = load(config, overrides={name: value for name, value in given.items() if value})
    if check:
        print(f"{config}: device {settings.client_id}, gateway {settings.host}:{settings.port}")
        return
    logs.setup(level=settings.log_level)
    asyncio.run(run(settings))


def _absolute(path: Path | None) -> str:
    return "" if path is None else str(path.absolute())


async def run(settings: Settings) -> None:
    """Runs the agent until a signal comes, or until the gateway disconnects the device."""
    from edgewright.agent import Agent  # noqa: PLC0415
    from edgewright.agent.upgrade import WentBack  # noqa: PLC0415

    with stop_on_signals() as stop:
        working = asyncio.create_task(Agent(settings).run())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)
        if not working.cancelled() and (problem := working.exception()) is not None:
            while isinstance(problem, BaseExceptionGroup):
                problem = problem.exceptions[0]
            if isinstance(problem, WentBack):
                raise Failed(str(problem)) from problem
            raise problem
