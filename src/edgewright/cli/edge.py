"""`edgewright edge`: what people do about Linux edge devices from their own machine.

`edge bundle` writes what a new device needs to register: certificates, the agent's settings and a systemd unit. What is
known of devices is in `edge_devices`, who is let in in `edge_admission`, and `edge_upgrade` works on a device itself.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from edgewright.api.edge_protocol import PORT, PREFIX
from edgewright.cli import edge_access, edge_admission, edge_devices, edge_upgrade
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
    offline: Annotated[
        bool, typer.Option("--offline", help="Add the agent itself as wheels, for devices that reach no index.")
    ] = False,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            help="With --offline: the platform of the devices as pip names it; default: this one.",
            show_default=False,
        ),
    ] = None,
    python: Annotated[
        str,
        typer.Option("--python", help="With --offline: the Python of the devices, say 3.11.", show_default=False),
    ] = "",
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
    host, port = server_parts(server)
    if device_id and not _ID.fullmatch(device_id):
        raise typer.BadParameter(
            f"{device_id!r} cannot be an id: use at most 63 of a-z, 0-9, - and .", param_hint="--device-id"
        )
    loaded = config.load(kubeconfig=kubeconfig, context=context, namespace=namespace)
    ca, registration, names = asyncio.run(read_bundle(loaded))
    files = files_of(
        ca,
        registration,
        server=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        server_name=""
        if host in names
        else next((each for each in sorted(names) if not _HOST_ADDRESS.fullmatch(each)), ""),
        device_id=device_id,
        target_namespace=target_namespace,
    )
    write(directory, files)
    if offline:
        from edgewright.cli import wheels  # noqa: PLC0415 - only here

        gathered = wheels.gather(directory / "wheels", platforms=platform or (), python=python)
        print(
            f"Wrote {len(gathered)} wheels to {directory / 'wheels'}\n\n"
            f"On the device, as root:\n"
            f"  python3 -m venv /opt/edgewright\n"
            f"  /opt/edgewright/bin/pip install --no-index --find-links wheels edgewright\n"
            f"  ln -s /opt/edgewright/bin/edgewright /usr/local/bin/\n"
        )
    print(
        f"Wrote {', '.join(files)} to {directory}\n\n"
        f"On the device, as root:\n"
        f"  mkdir -m 700 {INSTALLED} && cp {' '.join(files)} {INSTALLED}/\n"
        f"  systemctl enable --now {INSTALLED}/edgewright-agent.service"
    )


for _command in (
    edge_devices.devices,
    edge_devices.show,
    edge_devices.workloads,
    edge_devices.label,
    edge_admission.approve,
    edge_admission.deny,
    edge_admission.revoke,
    edge_admission.decommission,
    edge_admission.rotate,
    edge_upgrade.upgrade,
    edge_access.logs,
):
    app.command(_command.__name__)(_command)
app.command("exec")(edge_access.execute)

_HOST_ADDRESS: Final = re.compile(r"[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


def server_parts(server: str) -> tuple[str, int]:
    """The host and the port of what was typed as --server."""
    if (found := _HOST.fullmatch(server)) is None or not 0 < int(found[2] or PORT) < 65536:
        raise typer.BadParameter(f"{server!r} is not HOST or HOST:PORT", param_hint="--server")
    return found[1].strip("[]"), int(found[2] or PORT)


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


async def read_bundle(loaded: config.Config) -> tuple[Issued, Issued, set[str]]:
    """The authority, the registration certificate, and the names of the gateway, from the Secrets of its namespace."""
    from edgewright.gateway import authority, rotation  # noqa: PLC0415 - other commands need none of it
    from edgewright.gateway.certificates import Authority  # noqa: PLC0415
    from edgewright.gateway.objects import Secret  # noqa: PLC0415

    async with Client(loaded) as client:
        secrets = client.of(Secret)
        try:
            ca = rotation.issued_in(await secrets.get(Key(loaded.namespace, rotation.CA_SECRET)), rotation.CA_FILES)
            name = authority.registration_secret(Authority(ca))
            registration = rotation.issued_in(
                await secrets.get(Key(loaded.namespace, name)), authority.REGISTRATION_FILES
            )
            host = rotation.issued_in(
                await secrets.get(Key(loaded.namespace, authority.HOST_SECRET)), authority.HOST_FILES
            )
        except NotFound:
            raise Failed(
                f"there is no gateway in namespace {loaded.namespace}: run `edgewright gateway` once, or name its "
                "namespace with --namespace"
            ) from None
        except rotation.Unusable as error:
            raise Failed(str(error)) from None
        return ca, registration, authority.names_in(host)
