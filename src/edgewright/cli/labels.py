"""Setting and removing labels of one object, as the `label` command of every group does it.

The groups give it their kind and what they say afterwards. It reads what was typed before it asks any server.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from edgewright.api.crd import CustomResource
from edgewright.cli.cluster import Place, missing
from edgewright.cli.failure import WrongUsage
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key

Changes = Annotated[
    list[str], typer.Argument(metavar="NAME=VALUE|NAME-…", help="What to set, and with - what to remove.")
]


def changes_in(labels: Iterable[str]) -> dict[str, str | None]:
    """What was typed as a patch of labels; WrongUsage where it is neither NAME=VALUE nor NAME-."""
    changes: dict[str, str | None] = {}
    for text in labels:
        key, equals, value = text.partition("=")
        if not equals and not text.endswith("-"):
            raise WrongUsage(f"{text!r} is neither NAME=VALUE nor NAME-")
        changes[key if equals else text.removesuffix("-")] = value if equals else None
    return changes


def relabel(where: Place, resource: type[CustomResource], name: str, changes: dict[str, str | None]) -> None:
    """Changes the labels of an object; Failed where there is none of that name."""
    key = where.key(name) if resource.kind.namespaced else Key("", name)

    async def work(client: Client) -> None:
        try:
            await client.raw(resource.kind).patch(key, {"metadata": {"labels": changes}})
        except NotFound as error:
            raise missing(resource.kind, name, where, error) from None

    where.run(work)
