"""`edgewright simulate edge`: agents of Linux edge devices that are not there, until it is stopped.

For trying the gateway, workloads and rollouts without machines. It takes what a bundle would give a device from the
gateway's Secrets; the EdgeDevices that it creates stay, as those of real devices would.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.api.edge_protocol import PORT
from edgewright.cli import terminal
from edgewright.cli.cluster import Context, Kubeconfig, Namespace, load
from edgewright.cli.edge import read_bundle, server_parts
from edgewright.cli.signals import stop_on_signals
from edgewright.cli.simulate import simulate
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config

if TYPE_CHECKING:
    from edgewright.devices.simulated.edge_agents import Site, Tally

_MAX: Final = 5000
_EVERY: Final = 5.0
# Handshakes cost most: not all agents at once.
_START_EVERY: Final = 0.005

app = typer.Typer(invoke_without_command=True, no_args_is_help=False)
app.callback()(simulate)


@app.command("edge")
def edge(
    *,
    agents: Annotated[int, typer.Option("--agents", help="How many agents.")] = 10,
    server: Annotated[
        str, typer.Option("--server", metavar="HOST[:PORT]", help="Where the gateway is.")
    ] = f"127.0.0.1:{PORT}",
    prefix: Annotated[str, typer.Option("--prefix", help="What their ids begin with.")] = "simulated",
    heartbeat: Annotated[
        float, typer.Option("--heartbeat", help="Seconds between two heartbeats; 0: as their configuration says.")
    ] = 0.0,
    broken: Annotated[
        str,
        typer.Option(
            "--broken",
            metavar="TEXT",
            help="Versions of workloads with this text in them fail, for example an image: agents go back from them.",
            show_default=False,
        ),
    ] = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run simulated agents of Linux edge devices, which say that all their workloads run, until Ctrl-C."""
    if not 1 <= agents <= _MAX:
        raise typer.BadParameter(f"{agents} is not from 1 to {_MAX}", param_hint="--agents")
    if not 0 <= heartbeat <= 86_400:
        raise typer.BadParameter(f"{heartbeat} is not from 0 to 86400", param_hint="--heartbeat")
    host, port = server_parts(server)
    settings = load(kubeconfig, context, namespace)
    asyncio.run(run(settings, agents, host, port, prefix=prefix, period=heartbeat, broken=broken))


async def run(
    settings: Config, count: int, host: str, port: int, *, prefix: str, period: float, broken: str = ""
) -> None:
    """Runs them until a signal comes, and says every few seconds how they are."""
    from edgewright.devices.simulated.edge_agents import Site, Tally  # noqa: PLC0415 - others need none of it

    ca, registration, names = await read_bundle(settings)
    site = Site(
        host=host,
        port=port,
        server_name="" if host in names else next(iter(sorted(names)), ""),
        authority=ca.certificate.decode(),
        certificate=registration.certificate,
        key=registration.key,
        period=period,
        broken=broken,
    )
    tally = Tally()
    with stop_on_signals() as stop:
        running = asyncio.create_task(run_all(count, site, tally, prefix=prefix))
        stopping = asyncio.create_task(stop.wait())
        try:
            terminal.say(f"{terminal.count(count, 'simulated agent')} of {host}:{port}; Ctrl-C stops them.")
            said = ""
            while not running.done():
                done, _ = await asyncio.wait([running, stopping], timeout=_EVERY, return_when=asyncio.FIRST_COMPLETED)
                if (text := words(tally, count)) != said:
                    said = text
                    print(text, flush=True)
                if done:
                    break
        finally:
            for task in (running, stopping):
                task.cancel()
            await asyncio.gather(running, stopping, return_exceptions=True)


async def run_all(count: int, site: Site, tally: Tally, *, prefix: str) -> None:
    """Starts one agent after another, and ends when all were told to disconnect."""
    from edgewright.devices.simulated.edge_agents import EdgeAgent  # noqa: PLC0415

    clock = SystemClock()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(EdgeAgent(f"{prefix}-{number:05}", site, tally, clock).run())
            await clock.sleep(_START_EVERY)


def words(tally: Tally, count: int) -> str:
    """How they are, in a line."""
    text = (
        f"{tally.registered} of {count} registered, {tally.heartbeats} heartbeats, "
        f"{tally.configurations} configurations, {tally.disconnected} disconnected"
    )
    if tally.problems:
        problem, times = tally.problems.most_common(1)[0]
        text += f"; {sum(tally.problems.values())} problems, most often ({times}): {problem}"
    return text
