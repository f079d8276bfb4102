"""The options of the commands that run the operator, worded once, and the two things that both do with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

import typer

from edgewright.api.flash_pod import FLASHER_IMAGE, PLACES

if TYPE_CHECKING:
    from edgewright.api.capabilities import Capability
    from edgewright.api.probe import Asks
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
Controllers: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--controllers",
        metavar="NAME[,NAME]",
        help="What to do, of flashjob, flux, edge and charts; default: everything whose kinds are there.",
        show_default=False,
    ),
]
Watches: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--watches",
        "--watches-file",
        metavar="FILE",
        help="Serve the kinds in this file by their Helm charts, in the namespaces of $WATCH_NAMESPACE or in all.",
        show_default=False,
    ),
]
FlasherImage: TypeAlias = Annotated[
    str,
    typer.Option("--flasher-image", metavar="IMAGE", help="The flasher of FlashJobs that name none."),
]

ProbeEvery: TypeAlias = Annotated[
    float,
    typer.Option("--probe-every", metavar="SECONDS", help="How often a Device is asked, where they are asked at all."),
]
PROBE_EVERY: Final = 60.0
"""How often a Device is asked what it runs, by default."""
_MAX_PERIOD: Final = 86_400
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")

FLASHER_COMMAND = [sys.executable, "-m", "edgewright.devices.flasher"]
"""What the flasher's image stands for on a node of ours."""
TOLD: Final = {FLASHER_IMAGE: PLACES}
"""The flasher runs on a node of ours also where nothing can be mounted: this is how it is told where things are."""


def settings(
    *,
    plain_registries: Sequence[str] | None,
    attestation: str,
    nat: bool,
    flasher_image: str = FLASHER_IMAGE,
    local: bool = False,
    probe: bool = False,
    probe_every: float = PROBE_EVERY,
) -> Settings:
    """What was typed, checked."""
    from edgewright.controllers.settings import Settings, Timing  # noqa: PLC0415 - other commands need none of it

    for host in plain_registries or ():
        if not _is_place(host):
            raise typer.BadParameter(f"{host!r} is not HOST or HOST:PORT", param_hint="--plain-registry")
    if attestation and not _is_url(attestation):
        raise typer.BadParameter(f"{attestation!r} is not a URL such as http://HOST:8000", param_hint="--attestation")
    if not 1 <= probe_every <= _MAX_PERIOD:
        raise typer.BadParameter(
            f"{probe_every:g} is not a number of seconds from 1 to {_MAX_PERIOD}", param_hint="--probe-every"
        )
    return Settings(
        flasher_image=flasher_image,
        local=local,
        nat=nat,
        plain_registries=tuple(plain_registries or ()),
        attestation=attestation,
        probe=probe,
        timing=Timing(probe_every=probe_every),
    )


def prober(settings: Settings) -> Asks | None:
    """What asks Devices for the operator; None where they are not to be asked."""
    if not settings.probe:
        return None
    from edgewright.devices.prober import Prober  # noqa: PLC0415 - only who asks needs it

    return Prober(local=settings.local)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and _has_good_port(parts)


def _is_place(text: str) -> bool:
    """Whether it is HOST or HOST:PORT and nothing else."""
    try:
        parts = urlsplit(f"//{text}")
    except ValueError:
        return False
    return bool(parts.hostname) and parts.netloc == text and _HOST.fullmatch(text) is not None and _has_good_port(parts)


def _has_good_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0 and not parts.netloc.endswith(":")
    except ValueError:
        return False


def capabilities(text: str | None) -> tuple[Capability, ...] | None:
    """What was typed as --controllers; None where nothing was."""
    from edgewright.api.capabilities import named  # noqa: PLC0415

    if text is None:
        return None
    try:
        return named(name.strip() for name in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--controllers") from None


async def install_kinds(client: Client, capabilities: Collection[Capability] | None = None) -> None:
    """Makes the server serve the kinds of these capabilities; by default of all."""
    from edgewright.api import custom_resource_definitions  # noqa: PLC0415
    from edgewright.api.capabilities import CAPABILITIES, kinds_of  # noqa: PLC0415
    from edgewright.runtime.definitions import install  # noqa: PLC0415

    for document in custom_resource_definitions(kinds_of(capabilities or CAPABILITIES)):
        await install(client, document)
