"""The options of the commands that run the operator, worded once, and the two things that both do with them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import urlsplit

import typer

from edgewright.api.flashing import FLASHER_IMAGE

if TYPE_CHECKING:
    from edgewright.controllers.settings import Settings
    from edgewright.runtime import Client

PlainRegistries: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--plain-registry",
        metavar="HOST[:PORT]",
        help="A registry that flashers speak to over plain HTTP, and never with credentials; repeat it for more.",
        show_default=False,
    ),
]
Attestation: TypeAlias = Annotated[
    str,
    typer.Option(
        "--attestation",
        metavar="URL",
        help="The attestation service; default: the Service dice-auth-service in the job's namespace.",
        show_default=False,
    ),
]
Nat: TypeAlias = Annotated[
    bool,
    typer.Option("--nat", help="Devices dial in from other addresses than their own: their Services are open to all."),
]
FlasherImage: TypeAlias = Annotated[
    str,
    typer.Option("--flasher-image", metavar="IMAGE", help="The flasher of FlashJobs that name none."),
]

FLASHER_COMMAND = [sys.executable, "-m", "edgewright.devices.flasher"]
"""What the flasher's image stands for on a node of ours."""


def settings(
    *,
    plain_registries: Sequence[str] | None,
    attestation: str,
    nat: bool,
    flasher_image: str = FLASHER_IMAGE,
    local: bool = False,
) -> Settings:
    """What was typed, checked."""
    from edgewright.controllers.settings import Settings  # noqa: PLC0415 - other commands need none of it

    for host in plain_registries or ():
        if not host or "/" in host:
            raise typer.BadParameter(f"{host!r} is not HOST or HOST:PORT", param_hint="--plain-registry")
    if attestation and not _is_url(attestation):
        raise typer.BadParameter(f"{attestation!r} is not a URL such as http://HOST:8000", param_hint="--attestation")
    return Settings(
        flasher_image=flasher_image,
        local=local,
        nat=nat,
        plain_registries=tuple(plain_registries or ()),
        attestation=attestation,
    )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


async def install_kinds(client: Client) -> None:
    """Makes the server serve our kinds."""
    from edgewright.api import CUSTOM_KINDS, custom_resource_definitions  # noqa: PLC0415
    from edgewright.runtime.definitions import install  # noqa: PLC0415

    for document in custom_resource_definitions(CUSTOM_KINDS):
        await install(client, document)
