"""Credentials from a program of somebody else: the exec plugins of client.authentication.k8s.io, v1 and v1beta1.

`config` creates one from a user's `exec` entry; `client` asks it for headers as it asks all `credentials`. It runs the
program when what it said last has expired or was refused, once for all that wait; it never shows what the program
printed on its standard output, for that is a secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from subprocess import DEVNULL, PIPE
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from edgewright.runtime.child_process import end_child
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.credentials import CredentialsError, Headers, bearer
from edgewright.runtime.redaction import mask
from edgewright.runtime.tls import ClientTls, ConfigError, Pem

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TIMEOUT = 60.0
TIMEOUT_AT_A_TERMINAL = 600.0
"""Seconds that a plugin may take: a person who has to log in somewhere is slower than a program."""
EARLY = timedelta(seconds=10)
"""How long before its expiry a credential is no longer used, as a request takes time to arrive."""

InteractiveMode: TypeAlias = Literal["Never", "IfAvailable", "Always"]


class _Status(msgspec.Struct, rename="camel", frozen=True):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


@dataclass(frozen=True, kw_only=True)
class ExecEntry:
    """What a kubeconfig says of a plugin. `origin` names the entry; `cluster` is passed on where it asks for that."""

    origin: str
    command: str
    args: Sequence[str] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = API_VERSIONS[0]
    interactive_mode: InteractiveMode = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class _Credential:
    headers: Headers = field(repr=False)
    until: datetime | None
    """When to run the plugin again; None: when the server refuses it."""


def _at_a_terminal() -> bool:
    # Closed or replaced by something that is no file: nobody is there to ask.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.isatty(sys.stdin.fileno())
    return False


class ExecPlugin:
    """Runs a plugin and keeps what it said until shortly before that expires, or until the server refuses it."""

    def __init__(
        self,
        entry: ExecEntry,
        *,
        environ: Mapping[str, str],
        tls: ClientTls | None,
        timeout: float | None = None,
        clock: Clock | None = None,
        at_a_terminal: Callable[[], bool] = _at_a_terminal,
    ) -> None:
        """Prepare only: the plugin first runs when the first request needs it. Certificates of its go to `tls`."""
        self._entry = entry
        self._environ = environ
        self._tls = tls
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._at_a_terminal = at_a_terminal
        self._lock = asyncio.Lock()
        self._credential: _Credential | None = None
        self._runs = 0
        self._failure: CredentialsError | None = None

    def __repr__(self) -> str:
        """Where it is configured and which program it is."""
        return f"ExecPlugin({self._entry.origin!r}, {self._entry.command!r})"

    async def headers(self) -> Headers:
        """What the plugin said last, or says now where that is no longer good."""
        seen = self._runs
        credential = self._usable()
        if credential is None:
            async with self._lock:
                credential = self._usable()
                if credential is None:
                    credential = await self._renew(seen)
        return credential.headers

    def refused(self) -> None:
        """Run the plugin before the next request."""
        # What a run that is going on now will say is newer than what was refused, and is kept.
        self._credential = None

    def _usable(self) -> _Credential | None:
        credential = self._credential
        if credential and (credential.until is None or self._clock.now() < credential.until):
            return credential
        return None

    async def _renew(self, seen: int) -> _Credential:
        if self._failure and self._runs != seen:
            # It failed for the one who asked before us, while we waited: asking again would make a queue of failures.
            raise CredentialsError(str(self._failure))
        self._failure = None
        try:
            status = self._read(await self._run())
            self._credential = self._accept(status)
        except ConfigError as error:
            self._failure = CredentialsError(str(error))
            raise self._failure from error
        finally:
            self._runs += 1
        return self._credential

    async def _run(self) -> bytes:
        entry = self._entry
        interactive = entry.interactive_mode != "Never" and self._at_a_terminal()
        if entry.interactive_mode == "Always" and not interactive:
            raise self._error("needs a terminal (interactiveMode: Always), and standard input is none")
        timeout = self._timeout or (TIMEOUT_AT_A_TERMINAL if interactive else TIMEOUT)
        try:
            process = await asyncio.create_subprocess_exec(
                entry.command,
                *entry.args,
                env={**self._environ, **entry.env, "KUBERNETES_EXEC_INFO": exec_info(entry, interactive=interactive)},
                stdin=None if interactive else DEVNULL,
                stdout=PIPE,
                stderr=None if interactive else PIPE,  # the plugin's questions must reach the terminal
                start_new_session=not interactive,
            )
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) or (isinstance(error, PermissionError) and self._is_nowhere()):
                hint = f": {' '.join(entry.install_hint.split())}" if entry.install_hint else ""
                raise self._error(f"was not found{hint}") from error
            raise self._error(f"cannot be started: {getattr(error, 'strerror', None) or 'bad argument'}") from error
        try:
            async with self._clock.timeout(timeout):
                output, complaints = await process.communicate()
        except TimeoutError as error:
            await end_child(process, group=not interactive)
            raise self._error(f"did not end within {timeout:g} s") from error
        except asyncio.CancelledError:
            await end_child(process, group=not interactive)
            raise
        if process.returncode:
            raise self._error(f"failed with exit code {process.returncode}", complaints)
        return output

    def _is_nowhere(self) -> bool:
        """Whether no folder of the PATH has the command: one that may not be entered is no reason to say otherwise."""
        command = self._entry.command
        path = {**self._environ, **self._entry.env}.get("PATH", os.defpath)
        return "/" not in command and shutil.which(command, path=path) is None

    def _read(self, output: bytes) -> _Status:
        entry = self._entry
        try:
            said = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.ValidationError as error:  # its text names fields and types, never a value
            raise self._error(f"printed an ExecCredential that is wrong: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._error("did not print JSON") from None
        if said.kind != "ExecCredential":
            raise self._error("printed JSON that is no ExecCredential")
        if said.api_version != entry.api_version:
            raise self._error(f"printed an ExecCredential of another apiVersion than {entry.api_version}")
        status = said.status
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise self._error("printed an ExecCredential without a token or a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("printed only one of clientCertificateData and clientKeyData")
        return status

    def _accept(self, status: _Status) -> _Credential:
        origin = f"{self._entry.origin}: the ExecCredential of {self._entry.command}"
        headers: Headers = CIMultiDictProxy(CIMultiDict())
        if status.token:
            headers = bearer(status.token, origin=f"{origin}: status.token")
        if self._tls is not None and status.client_certificate_data and status.client_key_data:
            self._tls.present(
                Pem(origin=f"{origin}: status.clientCertificateData", data=status.client_certificate_data.encode()),
                Pem(origin=f"{origin}: status.clientKeyData", data=status.client_key_data.encode()),
            )
        return _Credential(headers=headers, until=renewal_time(status.expiration_timestamp, now=self._clock.now()))

    def _error(self, what: str, complaints: bytes | None = None) -> CredentialsError:
        lines = [line.strip() for line in (complaints or b"").decode("utf-8", "replace").splitlines() if line.strip()]
        said = f": {_shown(lines[-1])}" if lines else ""
        return CredentialsError(f"{self._entry.origin}: the command {self._entry.command} {what}{said}")


def _shown(line: str) -> str:
    """What a program said, without what could be a secret or move the cursor."""
    return mask("".join(character for character in line if character.isprintable()))[:300]


def renewal_time(expires: datetime | None, *, now: datetime) -> datetime | None:
    """When to ask again for what expires then: a little earlier, but not so early that a short life is all renewals."""
    if expires is None:
        return None
    return expires - min(EARLY, max(expires - now, timedelta()) / 10)


def exec_info(entry: ExecEntry, *, interactive: bool) -> str:
    """What a plugin is told in KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": interactive}
    if entry.cluster is not None:
        spec["cluster"] = entry.cluster
    told = {"apiVersion": entry.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(told).decode()
