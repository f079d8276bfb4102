"""One mini-cluster as the operator thinks of it, whichever kind asked for it, and the conversion of Flux and FluxSetup.

`loop` converts, `decisions` and `manifests` read. What cannot be acted on becomes a `Problem` with the field's name
before anything is touched. Pure.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from edgewright.api.flux import FLUX_IMAGE, Flux
from edgewright.api.fluxsetup import ConfigText, FluxSetup
from edgewright.controllers.minicluster.broker import broker_config
from edgewright.controllers.minicluster.config_texts import BadText, certificate_of, text_of
from edgewright.controllers.minicluster.page import PAGE_COMMAND

MAX_NAME: Final = 52
"""How many characters a name may have: labels of a StatefulSet's Pods hold it with a hash."""

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why a mini-cluster cannot be made: the field, a word for programs and a sentence for people."""

    field: str
    reason: str
    message: str
    setup: bool = False
    """Whether it is a field of the FluxSetup."""

    @property
    def text(self) -> str:
        """The sentence with the field in front."""
        return f"{'FluxSetup ' if self.setup else ''}{self.field} {self.message}"


@dataclass(frozen=True, kw_only=True)
class MiniCluster:
    """What is to run: so many workers, one launcher, one command."""

    namespace: str
    name: str
    size: int
    image: str
    command: tuple[str, ...]
    hostfile: str
    broker: str
    certificate: str | None = None
    """The one that was given; None: it is generated."""
    port: int | None = None
    greeting: str = ""
    workers_digest: str = ""
    """Changes when workers must be started again."""
    digest: str = ""
    """Changes when the command must be run again. It is of what people wrote, so that no upgrade of ours runs it."""

    @property
    def service(self) -> str:
        """The headless Service by which brokers find each other."""
        return f"{self.name}-workers"

    @property
    def launcher(self) -> str:
        """The launcher's Job and host name."""
        return f"{self.name}-launcher"

    @property
    def config(self) -> str:
        """The ConfigMap with hostfile and broker configuration."""
        return f"{self.name}-flux-config"

    @property
    def secret(self) -> str:
        """The Secret with the certificate."""
        return f"{self.name}-curve-certificate"


def minicluster_of(flux: Flux, setup: FluxSetup | None) -> MiniCluster | Problem:
    """The mini-cluster of a Flux with its set-up; without one, a set-up of one worker."""
    name, namespace = flux.metadata.name, flux.metadata.namespace
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        message = f"must be lower-case letters, digits and dashes, begin with a letter, and be at most {MAX_NAME} long"
        return Problem(field="metadata.name", reason="InvalidName", message=message)
    command = _command(flux)
    if isinstance(command, Problem):
        return command
    spec = setup.spec if setup is not None else None
    size = (spec.size if spec is not None else None) or 1
    launcher = f"{name}-launcher"
    hosts = (launcher, f"{name}-[0-{size - 1}]" if size > 1 else f"{name}-0")
    field = ""
    try:
        field = "spec.hostfile.config"
        hostfile = text_of(_given(spec.hostfile if spec else None)) or _hostfile(launcher, name, size)
        field = "spec.broker.config"
        given = text_of(_given(spec.broker if spec else None))
        broker = broker_config(given, hosts=hosts, service=f"{name}-workers", namespace=namespace)
        field = "spec.cert.config"
        text = _given(spec.cert if spec else None)
        certificate = certificate_of(text) if text else None
    except BadText as error:
        return Problem(field=field, reason="InvalidSetup", message=str(error), setup=True)
    return MiniCluster(
        namespace=namespace,
        name=name,
        size=size,
        image=flux.spec.image or FLUX_IMAGE,
        command=command,
        hostfile=hostfile,
        broker=broker,
        certificate=certificate,
        port=flux.spec.port,
        greeting=flux.spec.greeting or "",
        workers_digest=digest_of([flux.spec.image or "", spec]),
        digest=digest_of([flux.spec, spec]),
    )


def digest_of(value: Any) -> str:
    """The same short text for the same value, always."""
    encoded = msgspec.json.encode(msgspec.to_builtins(value), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:32]


def _command(flux: Flux) -> tuple[str, ...] | Problem:
    text = flux.spec.command or ""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        message = f"cannot be split into words as a shell does: {str(error).lower()}"
        return Problem(field="spec.command", reason="InvalidCommand", message=message)
    if words:
        return words
    if flux.spec.port is not None and not text:
        return PAGE_COMMAND
    return Problem(field="spec.command", reason="InvalidCommand", message="is empty: say what is to run")


def _given(text: ConfigText | None) -> str:
    return text.config if text is not None else ""


def _hostfile(launcher: str, name: str, size: int) -> str:
    return "".join(f"{host}\n" for host in (launcher, *(f"{name}-{number}" for number in range(size))))
