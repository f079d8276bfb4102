"""`edgewright firmware`: from a built binary to an image that flashers take, and what an image is.

`push` reads the chip and the version from the binary itself and labels the image with them; `inspect` pulls an image as
a flasher does. No cluster is needed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.api.reference import BadReference, Reference, parse_reference
from edgewright.cli import terminal
from edgewright.cli.failure import Failed
from edgewright.cli.operator_options import PlainRegistries
from edgewright.cli.printing import Form, Output, Style, as_text

if TYPE_CHECKING:
    from edgewright.devices.oci.access import Access
    from edgewright.devices.oci.push import File

app = typer.Typer(help="Firmware images: make them from a binary, and look at them.", no_args_is_help=True)

_SECONDS: Final = 300.0
_TABLE: Final = Form()
Type = Annotated[
    str,
    typer.Option("--type", help="The type of device; default: the chip that the binary names.", show_default=False),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--registry-config",
        help="Credentials as `docker login` writes them; default: ~/.docker/config.json.",
        show_default=False,
    ),
]


@app.command("push")
def push(
    files: Annotated[
        list[Path], typer.Argument(metavar="APP.bin…", help="The binaries, one per type of device.", show_default=False)
    ],
    reference: Annotated[str, typer.Argument(metavar="REF", help="The image, with its registry.", show_default=False)],
    *,
    type_: Type = "",
    version: Annotated[
        str, typer.Option("--version", help="The version; default: the one in the binary.", show_default=False)
    ] = "",
    plain_registry: PlainRegistries = None,
    registry_config: Config = None,
) -> None:
    """Make an image of a binary, with the labels and the platform that flashers read, and push it."""
    from edgewright.devices.drivers.driver import Ended  # noqa: PLC0415 - only who asks a registry needs it
    from edgewright.devices.oci.push import package  # noqa: PLC0415
    from edgewright.devices.oci.push import push as upload  # noqa: PLC0415

    target = _reference(reference)
    if target.digest:
        raise typer.BadParameter(f"{reference} has a digest: a tag is pushed to", param_hint="REF")
    read = [file_of(path, device=type_, version=version) for path in files]
    twice = {each.device for each in read if sum(other.device == each.device for other in read) > 1}
    if twice:
        raise Failed(f"several binaries are for {', '.join(sorted(twice))}: an image has one per type of device")
    access = _access(plain_registry or [], registry_config)

    async def work() -> str:
        async with asyncio.timeout(_SECONDS):
            return await upload(target, package(read), access=access, log=terminal.say)

    try:
        digest = asyncio.run(work())
    except TimeoutError:
        raise Failed(f"{target.host} took more than {_SECONDS:g} s") from None
    except Ended as error:
        raise Failed(error.message) from None
    terminal.give(f"{target}@{digest}")
    for each in read:
        terminal.say(f"{each.device}: version {each.version or 'not known'}, {len(each.content):,} bytes")
    terminal.say(f"Flash a device with: edgewright flash DEVICE --firmware {target}")


def file_of(path: Path, *, device: str, version: str) -> File:
    """A binary with what it says of itself; what was typed goes before that."""
    from edgewright.devices.firmware.esp import CHIPS, BadImage, read_esp_image  # noqa: PLC0415
    from edgewright.devices.oci.push import File  # noqa: PLC0415

    content = path.read_bytes()
    try:
        image = read_esp_image(content)
    except BadImage as error:
        if not device:
            raise Failed(f"{path} does not say what it is for ({error}): name the type of device with --type") from None
        return File(name=path.name, content=content, device=device, version=version)
    chip = next((name for name, number in CHIPS.items() if number == image.chip), "")
    if not (device or chip):
        raise Failed(f"{path} is for a chip with the id {image.chip}, which is not known here: name it with --type")
    return File(name=path.name, content=content, device=device or chip, version=version or image.version)


@app.command("inspect")
def inspect(
    reference: Annotated[str, typer.Argument(metavar="REF", help="The image, with its registry.", show_default=False)],
    *,
    type_: Annotated[
        str, typer.Option("--type", help="The type of device, where the image is for several.", show_default=False)
    ] = "",
    output: Output = _TABLE,
    plain_registry: PlainRegistries = None,
    registry_config: Config = None,
) -> None:
    """Pull an image as a flasher does, and say what is in it: chip, version, size, digest."""
    from edgewright.devices.drivers.driver import Ended, Image  # noqa: PLC0415 - only who asks a registry needs it
    from edgewright.devices.oci import pull  # noqa: PLC0415

    target = _reference(reference)
    access = _access(plain_registry or [], registry_config)

    async def work() -> Image:
        async with asyncio.timeout(_SECONDS):
            return await pull(target, device=type_, access=access)

    try:
        image = asyncio.run(work())
    except TimeoutError:
        raise Failed(f"{target.host} took more than {_SECONDS:g} s") from None
    except Ended as error:
        raise Failed(error.message) from None
    facts = {"reference": str(target), **facts_of(image.content, image.label_version), "digest": image.digest}
    if output.for_people:
        terminal.give("".join(f"{f'{name.capitalize()}:':<13} {value}\n" for name, value in facts.items()))
    elif output.style is Style.NAME:
        terminal.give(f"{target.host}/{target.repository}@{image.digest}")
    else:
        terminal.give(as_text(facts, output))


def facts_of(content: bytes, label: str) -> dict[str, object]:
    """What a firmware says of itself."""
    from edgewright.devices.firmware import esp, mcuboot  # noqa: PLC0415

    facts: dict[str, object] = {"format": "unknown", "chip": "", "version": label, "size": len(content)}
    try:
        image = esp.read_esp_image(content)
        chip = next((name for name, number in esp.CHIPS.items() if number == image.chip), f"id {image.chip}")
        return facts | {"format": "esp", "chip": chip, "version": image.version or label, "project": image.project}
    except esp.BadImage:
        pass
    try:
        return facts | {"format": "mcuboot", "version": mcuboot.check_mcuboot_image(content).version or label}
    except Exception:
        return facts


def _reference(text: str) -> Reference:
    try:
        return parse_reference(text)
    except BadReference as error:
        raise typer.BadParameter(str(error), param_hint="REF") from None


def _access(plain: list[str], config: Path | None) -> Access:
    from edgewright.devices.oci import Access, BadCredentials, read_dockerconfig  # noqa: PLC0415

    hosts = frozenset(plain)
    try:
        file = config or Path("~/.docker/config.json").expanduser()
        content = file.read_bytes()
    except (OSError, RuntimeError):
        if config is not None:
            raise
        return Access(plain_hosts=hosts)
    try:
        return Access(plain_hosts=hosts, credentials=read_dockerconfig(content))
    except BadCredentials as error:
        if config is not None:
            raise Failed(f"{config}: {error}") from None
        return Access(plain_hosts=hosts)
