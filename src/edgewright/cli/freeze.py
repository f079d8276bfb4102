"""`edgewright freeze` and `unfreeze`: the one switch that stops every new flash of the fleet at once.

It is one object, the Fleet called fleet, which is made where it is missing. Devices under way finish.
"""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from edgewright.api.fleet import FLEET, FREEZE_MANAGER, Fleet, FleetSpec, switched
from edgewright.cli import terminal
from edgewright.cli.cluster import Context, Kubeconfig, missing, place
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import NotFound


def freeze(
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why, for everybody whose devices wait.", show_default=False)],
    by: Annotated[
        str, typer.Option("--by", help="Who freezes it; default: your name on this machine.", show_default=False)
    ] = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Start no device any more, in the whole fleet, until somebody unfreezes it; those under way finish."""
    spec = FleetSpec(frozen=True, reason=reason, by=by or _me(), since=SystemClock().now().replace(microsecond=0))
    where = place(kubeconfig, context)
    where.run(lambda client: _write(client, spec, where.typed))
    terminal.say(f"The fleet is frozen: nothing starts any more. `edgewright unfreeze{where.typed}` ends that.")


def unfreeze(*, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Let devices be started again."""
    where = place(kubeconfig, context)
    where.run(lambda client: _write(client, FleetSpec(), where.typed))
    terminal.say(f"The fleet is not frozen. What goes on now: edgewright rollout list -A{where.typed}")


async def _write(client: Client, spec: FleetSpec, typed: str) -> None:
    try:
        await client.raw(Fleet.kind).apply(switched(spec), manager=FREEZE_MANAGER, force=True)
    except NotFound as error:
        from edgewright.cli.cluster import Place  # noqa: PLC0415 - only where it failed

        raise missing(Fleet.kind, FLEET, Place(settings=client.config, typed=typed), error) from None


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user without an account
        return ""
