"""Reading and printing objects of one kind, as every group of commands does it: one, all, or all as they change.

Objects are read raw, so that `-o json` shows every field that the server has. It changes nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import msgspec

from edgewright.api.crd import CustomResource
from edgewright.cli import printing, terminal
from edgewright.cli.cluster import Place, missing
from edgewright.cli.printing import Form
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, RawObject


async def one(client: Client, resource: type[CustomResource], where: Place, name: str) -> RawObject:
    """The object of a name; Failed where there is none."""
    namespace = where.namespace if resource.kind.namespaced else ""
    try:
        return await client.raw(resource.kind).get(Key(namespace, name))
    except NotFound as error:
        raise missing(resource.kind, name, where, error) from None


async def everything(
    client: Client, resource: type[CustomResource], where: Place, *, labels: str = ""
) -> list[RawObject]:
    """All objects of the kind that were asked for, by name."""
    namespace = where.searched if resource.kind.namespaced else None
    try:
        page = await client.raw(resource.kind).list(namespace, labels=labels)
    except NotFound as error:
        raise missing(resource.kind, "", where, error) from None
    return sorted(page.items, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))


async def describe(
    client: Client,
    resource: type[CustomResource],
    where: Place,
    name: str,
    *,
    form: Form,
    text: Callable[[RawObject], Awaitable[list[str]]],
) -> None:
    """Prints an object: for people as the lines of `text`, else in its form."""
    raw = await one(client, resource, where, name)
    if form.for_people:
        terminal.give("\n".join(await text(raw)))
    else:
        give([raw], resource, form, where, single=True)


async def show_list(
    client: Client, resource: type[CustomResource], where: Place, form: Form, *, labels: str = ""
) -> None:
    """Prints all objects; a person is told where there are none."""
    found = await everything(client, resource, where, labels=labels)
    if not found and form.for_people:
        inside = "" if where.all_namespaces or not resource.kind.namespaced else f" in namespace {where.namespace}"
        terminal.say(f"There are no {resource.kind.plural}{inside}.")
        return
    give(found, resource, form, where)


def give(
    items: list[RawObject], resource: type[CustomResource], form: Form, where: Place, *, single: bool = False
) -> None:
    """Prints objects in a form."""
    terminal.give(
        printing.text_of(
            items,
            resource,
            form,
            now=SystemClock().now(),
            one=single,
            namespaces=where.all_namespaces and resource.kind.namespaced,
            colour=terminal.coloured(sys.stdout),
            width=terminal.width(sys.stdout),
        )
    )


def show_or_watch(
    where: Place,
    resource: type[CustomResource],
    *,
    labels: str,
    watch: bool,
    show: Callable[[Client], Awaitable[None]],
) -> None:
    """Shows a list once, by `show`, or goes on showing it as it changes."""
    where.run(lambda client: watch_list(client, resource, where, labels=labels) if watch else show(client))


async def watch_list(
    client: Client, resource: type[CustomResource], where: Place, *, labels: str = "", limit: float | None = None
) -> None:
    """Shows all objects as they change until it is interrupted: a table on a terminal, elsewhere a dated line each."""
    await everything(client, resource, where, labels=labels)  # what is wrong with the server is said first
    columns = [each for each in resource.definition.columns if not each.priority]
    namespaces = where.all_namespaces and resource.kind.namespaced
    searched = (where.searched or "") if resource.kind.namespaced else ""
    cache = Cache(client.of(resource), namespaces=[searched], labels=labels)
    changed = asyncio.Event()
    rows: dict[Key, list[str]] = {}
    live = terminal.is_terminal(sys.stdout)
    screen = terminal.Screen(sys.stdout)

    def heard(change: Change[CustomResource]) -> None:
        key = change.latest.key
        now = SystemClock().now()
        if change.new is None:
            rows.pop(key, None)
            told = "deleted"
        else:
            raw: RawObject = msgspec.to_builtins(change.new)
            rows[key] = printing.row_of(raw, columns, now=now, namespaces=namespaces)
            told = ", ".join(
                f"{column.name} {value}"
                for column, value in zip(columns, rows[key][1 + namespaces :], strict=True)
                if value and column.type != "date"
            )
        if not live:
            print(f"{terminal.stamp(now)} {key}: {told}", flush=True)
        changed.set()

    cache.subscribe(heard)
    head = [*(["NAMESPACE"] if namespaces else []), "NAME", *(each.name.upper() for each in columns)]
    following = asyncio.create_task(cache.run())
    try:
        async with asyncio.timeout(limit):
            while True:
                await changed.wait()
                changed.clear()
                if live:
                    text = printing.table(
                        head,
                        [rows[key] for key in sorted(rows)],
                        colour=terminal.coloured(sys.stdout),
                        width=terminal.width(sys.stdout),
                    )
                    screen.draw(text.splitlines())
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
