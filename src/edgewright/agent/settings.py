"""The settings of the agent: a TOML file whose common names are those of the published agent's config.toml.

`edgewright agent` loads it and may override single values. Whatever is wrong with it is a ConfigError that names the
file and the setting; nothing is read from the network here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from edgewright.api.edge_protocol import PORT, PREFIX
from edgewright.runtime.tls import ConfigError

MACHINE_ID: Final = Path("/etc/machine-id")
STATE: Final = "/var/lib/edgewright-agent"
SOCKET: Final = "/run/podman/podman.sock"
_ID: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What the agent must know before it can ask the gateway."""

    server: str
    """The gateway: host, or host:port."""
    cert_file: str
    """The registration certificate."""
    key_file: str
    """Its key."""
    ca_root: list[str]
    """Whom to trust as gateway."""
    client_id: str = ""
    """The id of the device; default: that of the machine."""
    server_name: str = ""
    """The name in the gateway's certificate where that is not the host."""
    path_prefix: str = PREFIX
    protocol: str = "http"
    """The published agent knows others; here it is HTTP."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    state_dir: str = STATE
    podman_socket: str = SOCKET
    firewall: Literal["nftables", "none"] = "nftables"
    namespace: str = ""
    """The namespace that enrolment asks for."""
    poll_seconds: float = 10.0
    """How often the gateway is asked for configuration and commands."""
    long_poll_seconds: int = 30
    """How long the gateway may wait for a new configuration before it says that there is none; 0: not at all."""
    data_seconds: float = 15.0
    """How often data directories are looked at."""
    probation_seconds: float = 30.0
    """How long a new version of a workload must run before it is taken for good."""
    os_hook: str = ""
    """A program that updates the operating system; docs/edge-agent.md has its interface."""
    remote_logs: bool = False
    """Whether people may read the logs of its workloads through the gateway: `edgewright edge logs`."""
    remote_exec: bool = False
    """Whether people may run commands in its workloads through the gateway: `edgewright edge exec`."""
    s3_plain_http: bool = False
    """Whether the bucket is spoken to without TLS."""

    @property
    def host(self) -> str:
        """The gateway's host."""
        return _split(self.server)[0]

    @property
    def port(self) -> int:
        """The gateway's port."""
        return _split(self.server)[1]

    @property
    def prefix(self) -> str:
        """What every path begins with; published files write it with and without slashes around it."""
        return "/" + self.path_prefix.strip("/")

    @property
    def state(self) -> Path:
        """The directory of what must survive a restart."""
        return Path(self.state_dir)


def load(path: Path, *, overrides: Mapping[str, str] | None = None, machine_id: Path = MACHINE_ID) -> Settings:
    """Reads and checks the file; names of files in it are taken from the file's own folder where they are relative."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error
    return checked({**raw, **(overrides or {})}, folder=path.absolute().parent, origin=str(path), machine_id=machine_id)


def checked(raw: dict[str, object], *, folder: Path, origin: str, machine_id: Path = MACHINE_ID) -> Settings:
    """The settings in a decoded file, with absolute names of files and an id."""
    if isinstance(raw.get("ca-root"), str):
        raw = {**raw, "ca-root": [raw["ca-root"]]}
    try:
        settings = msgspec.convert(raw, Settings)
        _split(settings.server)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{origin}: {error}") from error
    for name, value, smallest in (
        ("poll-seconds", settings.poll_seconds, 0.1),
        ("data-seconds", settings.data_seconds, 0.1),
        ("probation-seconds", settings.probation_seconds, 0.1),
    ):
        if not smallest <= value <= 86_400:
            raise ConfigError(f"{origin}: {name}: must be between {smallest:g} and 86400")
    if not 0 <= settings.long_poll_seconds <= 600:
        raise ConfigError(f"{origin}: long-poll-seconds: must be between 0 and 600")
    if not settings.ca_root:
        raise ConfigError(f"{origin}: ca-root: names no file")
    return msgspec.structs.replace(
        settings,
        client_id=_device_id(settings.client_id, origin=origin, machine_id=machine_id),
        cert_file=_at(folder, settings.cert_file),
        key_file=_at(folder, settings.key_file),
        ca_root=[_at(folder, each) for each in settings.ca_root],
        state_dir=_at(folder, settings.state_dir),
        podman_socket=_at(folder, settings.podman_socket),
        os_hook=_at(folder, settings.os_hook) if settings.os_hook else "",
    )


def _at(folder: Path, name: str) -> str:
    return str(folder / name)  # an absolute name stays as it is


def _device_id(given: str, *, origin: str, machine_id: Path) -> str:
    found = given
    if not found:
        try:
            found = machine_id.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{origin}: client-id: is not set, and {machine_id} cannot be read") from error
    found = found.lower()
    if not _ID.fullmatch(found) or ".." in found:
        raise ConfigError(f"{origin}: client-id: {found!r} cannot be the name of an EdgeDevice")
    return found


def _split(server: str) -> tuple[str, int]:
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, port = server, str(PORT)
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"server: {server!r} is no host and port")
    return host, int(port)
