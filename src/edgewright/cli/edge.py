"""`edgewright edge`: what people do about Linux edge devices from their own machine.

`edge bundle` writes what a new device needs to register: certificates, the agent's settings and a systemd unit.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.api.edge_protocol import PORT, PREFIX
from edgewright.cli.failure import Failed
from edgewright.cli.options import Context, Kubeconfig
from edgewright.runtime import Client, config
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key

if TYPE_CHECKING:
    from edgewright.gateway.certificates import Issued

app = typer.Typer(help="Linux edge devices.", no_args_is_help=True)

INSTALLED: Final = "/etc/edgewright-agent"
"""Where the files of a bundle lie on a device."""
UNIT: Final = f"""[Unit]
Description=Edgewright agent
Documentation=man:podman(1)
Wants=network-online.target podman.socket
After=network-online.target podman.socket

[Service]
ExecStart=/usr/bin/env edgewright agent --config {INSTALLED}/config.toml
Restart=on-failure
RestartSec=5
StateDirectory=edgewright-agent
UMask=0077
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""
"""How systemd runs the agent."""
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_ID: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


@app.callback()
def edge() -> None:
    """Linux edge devices."""


@app.command("bundle")
def bundle(
    directory: Annotated[Path, typer.Argument(help="A folder to write the files to; it must be new or empty.")],
    *,
    server: Annotated[str, typer.Option("--server", metavar="HOST[:PORT]", help="Where devices reach the gateway.")],
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", help="The namespace of the gateway; default: the context's.", show_default=False
        ),
    ] = None,
    device_id: Annotated[
        str,
        typer.Option("--device-id", help="The id of the one device; default: that of the machine.", show_default=False),
    ] = "",
    target_namespace: Annotated[
        str,
        typer.Option(
            "--target-namespace", help="The namespace that devices ask for; default: the gateway's.", show_default=False
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write what a new device needs to register: certificates, settings and a systemd unit."""
    if (found := _HOST.fullmatch(server)) is None or not 0 < int(found[2] or PORT) < 65536:
        raise typer.BadParameter(f"{server!r} is not HOST or HOST:PORT", param_hint="--server")
    if device_id and not _ID.fullmatch(device_id):
        raise typer.BadParameter(
            f"{device_id!r} cannot be an id: use at most 63 of a-z, 0-9, - and .", param_hint="--device-id"
        )
    loaded = config.load(kubeconfig=kubeconfig, context=context, namespace=namespace)
    ca, registration, names = asyncio.run(_read(loaded))
    host = found[1].strip("[]")
    files = files_of(
        ca,
        registration,
        server=server if found[2] else f"{server}:{PORT}",
        server_name=""
        if host in names
        else next((each for each in sorted(names) if not _HOST_ADDRESS.fullmatch(each)), ""),
        device_id=device_id,
        target_namespace=target_namespace,
    )
    write(directory, files)
    print(
        f"Wrote {', '.join(files)} to {directory}\n\n"
        f"On the device, as root:\n"
        f"  mkdir -m 700 {INSTALLED} && cp {' '.join(files)} {INSTALLED}/\n"
        f"  systemctl enable --now {INSTALLED}/edgewright-agent.service"
    )


_HOST_ADDRESS: Final = re.compile(r"[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


def files_of(
    ca: Issued,
    registration: Issued,
    *,
    server: str,
    server_name: str,
    device_id: str,
    target_namespace: str,
) -> dict[str, bytes]:
    """The files of a bundle, by name."""
    settings = {
        "server": server,
        "server-name": server_name,
        "client-id": device_id,
        "namespace": target_namespace,
        "protocol": "http",
        "path-prefix": PREFIX.strip("/"),
        "cert-file": "cert.pem",
        "key-file": "key.pem",
    }
    lines = [f'{name} = "{value}"' for name, value in settings.items() if value]
    lines.append('ca-root = ["ca.pem"]')
    return {
        "ca.pem": ca.certificate,
        "cert.pem": registration.certificate,
        "key.pem": registration.key,
        "config.toml": "".join(f"{line}\n" for line in lines).encode(),
        "edgewright-agent.service": UNIT.encode(),
    }


def write(directory: Path, files: dict[str, bytes]) -> None:
    """Writes them for their owner alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise Failed(f"{directory} is not empty: choose a new folder, so that no key is overwritten")
    for name, content in files.items():
        path = directory / name
        path.touch(mode=0o600)
        path.write_bytes(content)


async def _read(loaded: config.Config) -> tuple[Issued, Issued, set[str]]:
    """The authority, the registration certificate, and the names of the gateway, from the Secrets of its namespace."""
    from edgewright.gateway import authority  # noqa: PLC0415 - other commands need none of it
    from edgewright.gateway.certificates import Authority  # noqa: PLC0415
    from edgewright.gateway.objects import Secret  # noqa: PLC0415

    async with Client(loaded) as client:
        secrets = client.of(Secret)
        try:
            ca = authority.issued_in(await secrets.get(Key(loaded.namespace, authority.CA_SECRET)), authority.CA_FILES)
            name = authority.registration_secret(Authority(ca))
            registration = authority.issued_in(
                await secrets.get(Key(loaded.namespace, name)), authority.REGISTRATION_FILES
            )
            host = authority.issued_in(
                await secrets.get(Key(loaded.namespace, authority.HOST_SECRET)), authority.HOST_FILES
            )
        except NotFound:
            raise Failed(
                f"there is no gateway in namespace {loaded.namespace}: run `edgewright gateway` once, or name its "
                "namespace with --namespace"
            ) from None
        except authority.Unusable as error:
            raise Failed(str(error)) from None
        return ca, registration, authority.names_in(host)
