"""What changes a rollout that is there: pause, resume, approve, abort, retry, delete.

Each is one conditional write of the spec, which the operator acts on; after it comes how to follow it. `rollout` adds
them to its group.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable
from typing import Annotated, Any

import typer

from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.cli import completion, rollout_follow, rollout_text, terminal
from edgewright.cli.cluster import Context, Kubeconfig, Namespace, Place, place
from edgewright.cli.failure import Failed
from edgewright.controllers.rollout import changes
from edgewright.controllers.rollout.changes import Wish
from edgewright.runtime.client import Client
from edgewright.runtime.errors import Conflict

Name = Annotated[str, typer.Argument(help="The rollout.", autocompletion=completion.rollouts, show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)]
_TRIES = 5


def hint(where: Place, name: str, verb: str = "watch") -> str:
    """How to go on with a rollout."""
    return f"edgewright rollout {verb} {name}{where.typed}"


async def changed(
    client: Client, where: Place, name: str, change: Callable[[FirmwareRollout], dict[str, Any] | None]
) -> FirmwareRollout | None:
    """The rollout after a change of its spec, made again where somebody else was quicker; None: nothing to change."""
    for _ in range(_TRIES):
        rollout = await rollout_follow.get(client, where, name)
        with changes.refused_as(Failed):
            spec = change(rollout)
        if spec is None:
            return None
        try:
            return await client.of(FirmwareRollout).patch(
                rollout.key, {"spec": spec}, resource_version=rollout.metadata.resource_version
            )
        except Conflict:
            continue
    raise Failed(f"others keep changing rollout {name}: try again")


def _changes(where: Place, name: str, change: Callable[[FirmwareRollout], dict[str, Any] | None], done: str) -> None:
    made = where.run(lambda client: changed(client, where, name, change))
    if made is None:
        terminal.say(f"Rollout {name} is so already.")
        return
    terminal.say(f"Rollout {name} {done}. Follow it with: {hint(where, name)}")


def _wish(batch: str = "") -> Wish:
    return Wish(batch=batch, request=secrets.token_hex(6))


def pause(name: Name, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Start no further device until somebody resumes it; those under way finish."""
    where = place(kubeconfig, context, namespace)
    change = functools.partial(changes.pause, wish=_wish())
    _changes(where, name, change, f"is paused; `{hint(where, name, 'resume')}` lets it go on")


def resume(name: Name, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Let a paused rollout go on; what stopped it does not count any more."""
    where = place(kubeconfig, context, namespace)
    _changes(where, name, functools.partial(changes.resume, wish=_wish()), "goes on")


def approve(
    name: Name,
    batch: Annotated[str, typer.Argument(help="The batch; default: the one that waits.", show_default=False)] = "",
    *,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Let the rollout go on after a batch that waits for approval."""
    where = place(kubeconfig, context, namespace)
    _changes(where, name, functools.partial(changes.approve, wish=_wish(batch)), "is approved")


def abort(
    name: Name,
    *,
    yes: Yes = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Start no further device, for good; those under way finish, and those that are done stay as they are."""

    def change(rollout: FirmwareRollout) -> dict[str, Any] | None:
        wanted = changes.abort(rollout, _wish())
        if wanted is not None and not terminal.asks(
            f"Abort {name} for good ({rollout_text.headline(rollout)})?", yes=yes
        ):
            raise Failed("nothing was changed")
        return wanted

    where = place(kubeconfig, context, namespace)
    _changes(where, name, change, f"is aborted; `{hint(where, name, 'recall')}` takes back the devices that it changed")


def retry(name: Name, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Try the devices that failed once more, and go on."""
    where = place(kubeconfig, context, namespace)
    _changes(where, name, functools.partial(changes.retry, wish=_wish()), "tries its failed devices once more")


def delete(
    name: Name,
    *,
    yes: Yes = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Delete a rollout with its FlashJobs: devices under way are called off, the others stay as they are."""
    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> None:
        rollout = await rollout_follow.get(client, where, name)
        if not terminal.asks(f"Delete {name} and its history ({rollout_text.headline(rollout)})?", yes=yes):
            raise Failed("nothing was changed")
        await client.of(FirmwareRollout).delete(rollout.key, uid=rollout.metadata.uid)

    where.run(work)
    terminal.say(f"Rollout {name} is deleted. Those that are left: edgewright rollout list{where.typed}")
