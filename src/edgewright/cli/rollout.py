"""`edgewright rollout`: gives devices a firmware step by step, and says at any time what happens next and why.

Here is what only reads: list, get, status, watch, history, why; what changes something is in `rollout_change`, and what
creates new rollouts in `rollout_create`. Objects are printed as the server has them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
import typer

from edgewright.api.firmwarerollout import (
    REVISION_ANNOTATION,
    ROLLOUT_UID_LABEL,
    FirmwareRollout,
    RolloutPhase,
)
from edgewright.api.flashjob import FlashJob
from edgewright.cli import (
    completion,
    objects,
    rollout_change,
    rollout_create,
    rollout_flags,
    rollout_follow,
    rollout_text,
    terminal,
)
from edgewright.cli.cluster import AllNamespaces, Context, Kubeconfig, Labels, Namespace, Place, place
from edgewright.cli.failure import Failed
from edgewright.cli.printing import Form, Output, Style, as_text, table
from edgewright.controllers.rollout import changes
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.objects import RawObject

app = typer.Typer(
    help="Firmware rollouts: try a few devices, widen step by step, stop by itself when it goes wrong.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The rollout.", autocompletion=completion.rollouts, show_default=False)]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on showing it as it changes.", show_default=False)]
Timeout = Annotated[
    str,
    typer.Option("--timeout", metavar="DURATION", help="Wait no longer, for example 30m.", show_default=False),
]
_TABLE: Final = Form()


def _limit(text: str) -> float | None:
    return rollout_flags.seconds(text, "--timeout") if text else None


@app.command("list")
def list_all(
    *,
    output: Output = _TABLE,
    selector: Labels = "",
    watch: Watch = False,
    all_namespaces: AllNamespaces = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the rollouts of a namespace, or of all with -A."""
    where = place(kubeconfig, context, namespace, all_namespaces=all_namespaces)
    objects.show_or_watch(
        where,
        FirmwareRollout,
        labels=selector,
        watch=watch,
        show=lambda client: objects.show_list(client, FirmwareRollout, where, output, labels=selector),
    )


@app.command("get")
def get(
    name: Name,
    *,
    output: Output = _TABLE,
    watch: Watch = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show a rollout as a tree: its batches, its devices, and what happens next."""
    where = place(kubeconfig, context, namespace)
    if watch:
        _watched(where, name, None)
        return

    async def work(client: Client) -> None:
        async def text(raw: RawObject) -> list[str]:
            rollout = msgspec.convert(raw, FirmwareRollout)
            return rollout_text.tree(
                rollout,
                await jobs_of(client, rollout),
                now=SystemClock().now(),
                twigs=rollout_text.UNICODE if terminal.unicode(sys.stdout) else rollout_text.ASCII,
                colour=terminal.coloured(sys.stdout),
                width=None if output.style is Style.WIDE else terminal.width(sys.stdout),
            )

        await objects.describe(client, FirmwareRollout, where, name, form=output, text=text)

    where.run(work)


@app.command("watch")
def watch_one(
    name: Name,
    *,
    timeout: Timeout = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show a rollout live until it ends: a tree on a terminal, a dated line per change elsewhere.

    It ends with 0 where the rollout completed, and with 4 where it failed or was aborted.
    """
    _watched(place(kubeconfig, context, namespace), name, _limit(timeout))


def _watched(where: Place, name: str, limit: float | None) -> None:
    display = rollout_follow.display()
    ended = where.run(
        lambda client: rollout_follow.follow(
            client, where, name, show=display.show, until=changes.has_ended, limit=limit
        )
    )
    problem = rollout_text.verdict(ended)
    if problem is not None:
        raise problem


@app.command("status")
def status(
    name: Name,
    *,
    until: Annotated[
        str,
        typer.Option("--for", metavar="STATE", help="What to wait for: complete, paused, or batch=NAME for its end."),
    ] = "complete",
    timeout: Timeout = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Wait for a rollout, for CI: ends with 0 only on success.

    It ends with 4 where the rollout failed or was aborted, with 5 where it waits for a person, and with 124 where the
    time limit is over.
    """
    where = place(kubeconfig, context, namespace)
    reached = _reached(until)
    errors = rollout_follow.display(sys.stderr)

    async def work(client: Client) -> FirmwareRollout:
        frozen = await rollout_follow.frozen(client)
        return await rollout_follow.follow(
            client,
            where,
            name,
            show=errors.show,
            until=lambda now: reached(now) or rollout_text.verdict(now, frozen=frozen) is not None,
            limit=_limit(timeout),
        )

    rollout = where.run(work)
    terminal.give(f"{rollout.metadata.name}: {rollout_text.headline(rollout)}")
    if reached(rollout):
        return
    raise rollout_text.verdict(rollout, frozen="see `edgewright rollout get`") or Failed(f"rollout {name} goes on")


def _reached(until: str) -> Callable[[FirmwareRollout], bool]:
    """Whether a rollout is as it was waited for."""
    if until == "complete":
        return lambda now: changes.has_ended(now) and now.status.phase == RolloutPhase.COMPLETED
    if until == "paused":
        return lambda now: (
            now.status.observed_generation >= now.metadata.generation and now.status.phase == RolloutPhase.PAUSED
        )
    word, _, batch = until.partition("=")
    if word == "batch" and batch:
        return lambda now: any(each.name == batch and each.phase == "Passed" for each in now.status.batches)
    raise typer.BadParameter(f"{until!r} is none of complete, paused and batch=NAME", param_hint="--for")


@app.command("history")
def history(
    name: Name,
    *,
    output: Output = _TABLE,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show the revisions of a rollout that are kept: what each brought, to how many devices, and how it went."""
    where = place(kubeconfig, context, namespace)

    async def work(client: Client) -> list[RawObject]:
        rollout = await rollout_follow.get(client, where, name)
        return revisions(rollout, await jobs_of(client, rollout))

    rows = where.run(work)
    if output.for_people:
        head = ["REVISION", "VERSION", "FIRMWARE", "DEVICES", "DONE", "FAILED"]
        cells = [[str(row[each.lower()]) for each in head] for row in rows]
        terminal.give(table(head, cells, colour=terminal.coloured(sys.stdout), width=terminal.width(sys.stdout)))
    elif output.style is Style.NAME:
        terminal.give("".join(f"{row['revision']}\n" for row in rows))
    else:
        terminal.give(as_text({"items": rows}, output))


def revisions(rollout: FirmwareRollout, jobs: Sequence[FlashJob]) -> list[RawObject]:
    """What each revision brought, the latest first, by the FlashJobs that are kept of it."""
    found: dict[tuple[int, str, str], RawObject] = {}
    for job in jobs:
        number = int(job.metadata.annotations.get(REVISION_ANNOTATION, "1"))
        row = found.setdefault(
            (number, job.spec.firmware, job.spec.version),
            {
                "revision": number,
                "version": job.spec.version,
                "firmware": job.spec.firmware,
                "devices": 0,
                "done": 0,
                "failed": 0,
            },
        )
        counts = job.status.counts
        row["devices"] += len(job.spec.uuids)
        row["done"] += counts.done if counts is not None else 0
        row["failed"] += counts.failed if counts is not None else 0
    if not found and rollout.spec.firmware:
        rows = {"revision": rollout.status.revision or 1, "version": rollout.spec.version}
        return [{**rows, "firmware": rollout.spec.firmware, "devices": 0, "done": 0, "failed": 0}]
    return [found[each] for each in sorted(found, reverse=True)]


async def jobs_of(client: Client, rollout: FirmwareRollout) -> list[FlashJob]:
    """The FlashJobs that a rollout made, of all its revisions."""
    labels = f"{ROLLOUT_UID_LABEL}={rollout.metadata.uid}"
    page = await client.of(FlashJob).list(rollout.metadata.namespace, labels=labels)
    return sorted(page.items, key=lambda each: each.metadata.name)


@app.command("why")
def why(
    device: Annotated[str, typer.Argument(help="The device.", autocompletion=completion.devices, show_default=False)],
    *,
    rollout: Annotated[
        str,
        typer.Option(
            "--rollout",
            help="The rollout to ask about; default: the latest that selects the device.",
            show_default=False,
            autocompletion=completion.rollouts,
        ),
    ] = "",
    all_namespaces: AllNamespaces = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say in one sentence why a device is not updated, and what would change that."""
    from edgewright.controllers.rollout import why_world  # noqa: PLC0415 - the others need none of it

    where = place(kubeconfig, context, namespace, all_namespaces=all_namespaces)

    async def work(client: Client) -> str:
        chosen = await rollout_follow.get(client, where, rollout) if rollout else None
        return await why_world.sentence(why_world.ServerReads(client), device, namespace=where.searched, rollout=chosen)

    terminal.give(where.run(work))


app.command("create")(rollout_create.create)
app.command("plan")(rollout_create.show_plan)
app.command("pause")(rollout_change.pause)
app.command("resume")(rollout_change.resume)
app.command("approve")(rollout_change.approve)
app.command("abort")(rollout_change.abort)
app.command("retry")(rollout_change.retry)
app.command("undo")(rollout_create.undo)
app.command("recall")(rollout_create.recall)
app.command("delete")(rollout_change.delete)
