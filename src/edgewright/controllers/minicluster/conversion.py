"""The one conversion: Flux with its FluxSetup, or MiniCluster, to the mini-cluster that the controller works on.

`loop` calls it first. What cannot be acted on becomes a `Problem` with the field's name before anything is touched; the
schema has refused most of it already. Pure.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

import msgspec

from edgewright.api.flux import FLUX_IMAGE, Flux
from edgewright.api.fluxsetup import ConfigText, FluxSetup
from edgewright.api.minicluster import MiniCluster, MiniClusterSpec
from edgewright.controllers.minicluster.broker import broker_config, checked_config, indexed_config
from edgewright.controllers.minicluster.config_texts import BadText, certificate_of, text_of
from edgewright.controllers.minicluster.model import Cluster, IndexedCluster, LaunchedCluster, Problem, digest_of
from edgewright.controllers.minicluster.page import PAGE_COMMAND

MAX_NAME: Final = 52
"""How many characters a name may have: labels of Pods hold it with a hash."""

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def cluster_of(
    asked: Flux | MiniCluster, setup: FluxSetup | None = None, *, first_size: int | None = None
) -> Cluster | Problem:
    """The mini-cluster that is asked for.

    `first_size` is what its Job remembers: the size with which brokers were started, beyond which they do not grow
    where no maxSize is given.
    """
    name = asked.metadata.name
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        message = f"must be lower-case letters, digits and dashes, begin with a letter, and be at most {MAX_NAME} long"
        return Problem(field="metadata.name", reason="InvalidName", message=message)
    return launched_of(asked, setup) if isinstance(asked, Flux) else indexed_of(asked, first_size)


def launched_of(flux: Flux, setup: FluxSetup | None) -> LaunchedCluster | Problem:
    """The mini-cluster of a Flux with its set-up; without one, a set-up of one worker."""
    name, namespace = flux.metadata.name, flux.metadata.namespace
    command = _command(flux)
    if isinstance(command, Problem):
        return command
    spec = setup.spec if setup is not None else None
    size = (spec.size if spec is not None else None) or 1
    launcher = f"{name}-launcher"
    hosts = (launcher, hosts_of(name, size))
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
    return LaunchedCluster(
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


def indexed_of(asked: MiniCluster, first_size: int | None) -> IndexedCluster | Problem:
    """The mini-cluster of a MiniCluster."""
    spec, name = asked.spec, asked.metadata.name
    first = first_size or spec.size
    max_size = spec.max_size or first
    flux = spec.flux
    if not spec.containers:  # the schema asks for one
        return Problem(field="spec.containers", reason="InvalidSpec", message="is empty: say what is to run")
    field = "spec.flux.brokerConfig"
    try:
        broker = (
            checked_config(flux.broker_config)
            if flux.broker_config
            else indexed_config(
                mount=flux.container.mount_path,
                host=hosts_of(name, max_size),
                service=spec.network.headless_name,
                namespace=asked.metadata.namespace,
                queue_policy="" if flux.scheduler.simple else flux.scheduler.queue_policy,
            )
        )
        field = "spec.flux.curveCert"
        certificate = certificate_of(flux.curve_cert) if flux.curve_cert.strip() else None
    except BadText as error:
        return Problem(field=field, reason="InvalidSpec", message=str(error))
    return IndexedCluster(
        namespace=asked.metadata.namespace,
        name=name,
        size=spec.size,
        first_size=first,
        max_size=max_size,
        quorum=min(spec.min_size or first, max_size),
        spec=spec,
        broker=broker,
        hostfile=hosts_of(name, max_size) + "\n",
        certificate=certificate,
        digest=digest_of(_what_is_run(spec)),
    )


def hosts_of(name: str, size: int) -> str:
    """The hosts of so many brokers in Flux's short form, such as one-[0-3]."""
    return f"{name}-[0-{size - 1}]" if size > 1 else f"{name}-0"


def _what_is_run(spec: MiniClusterSpec) -> MiniClusterSpec:
    """The spec without what changes while it runs, and does not start it again."""
    return msgspec.structs.replace(spec, size=1, deadline_seconds=1, cleanup=False)


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
