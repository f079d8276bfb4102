"""Which cluster a client command talks to, and in which namespace: the options, worded once, and what they give.

Every command that reads or changes objects takes them. The kubeconfig is found as kubectl finds it; where there is none
at all, the one that `edgewright up` wrote on this machine is taken. It never asks the server anything.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import typer

from edgewright.cli import completion
from edgewright.cli.failure import Failed
from edgewright.cli.options import Context, Kubeconfig
from edgewright.runtime import config
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind

__all__ = ["AllNamespaces", "Context", "Kubeconfig", "Labels", "Namespace", "Place", "missing", "place"]

T = TypeVar("T")

Namespace: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="The namespace; default: the context's.",
        show_default=False,
        autocompletion=completion.namespaces,
    ),
]
AllNamespaces: TypeAlias = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.", show_default=False)
]
Labels: TypeAlias = Annotated[
    str, typer.Option("--selector", "-l", help="Only those with these labels, as kubectl takes it.", show_default=False)
]


@dataclass(frozen=True, kw_only=True)
class Place:
    """The cluster and the namespace that a command is about."""

    settings: config.Config
    all_namespaces: bool = False
    typed: str = ""
    """The options that lead here, as they were typed, for the commands that are recommended afterwards."""

    @property
    def namespace(self) -> str:
        """Where a new object goes, and where one is looked for by its name."""
        return self.settings.namespace

    @property
    def searched(self) -> str | None:
        """Where lists come from; None: everywhere."""
        return None if self.all_namespaces else self.namespace

    def key(self, name: str) -> Key:
        """The object of a name."""
        return Key(self.namespace, name)

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Does something with a client, from start to end."""

        async def whole() -> T:
            async with Client(self.settings) as client:
                return await work(client)

        return asyncio.run(whole())


def place(
    kubeconfig: Path | None = None,
    context: str | None = None,
    namespace: str | None = None,
    *,
    all_namespaces: bool = False,
) -> Place:
    """What was typed, read."""
    options = {"-n": namespace, "--context": context, "--kubeconfig": kubeconfig}
    typed = "".join(f" {name} {value}" for name, value in options.items() if value)
    return Place(settings=load(kubeconfig, context, namespace), all_namespaces=all_namespaces, typed=typed)


def load(kubeconfig: Path | None, context: str | None, namespace: str | None) -> config.Config:
    """The configuration as kubectl finds it; where it finds none, that of the control plane on this machine."""
    try:
        return config.load(kubeconfig=kubeconfig, context=context, namespace=namespace)
    except config.ConfigError:
        own = None if kubeconfig or context or os.environ.get("KUBECONFIG") else _own()
        if own is None:
            raise
        return config.load(kubeconfig=own, namespace=namespace)


def _own() -> Path | None:
    """What `edgewright up` wrote, where it did."""
    from edgewright.cli import machine  # noqa: PLC0415 - only where there is nothing else

    try:
        found = machine.data_directory(None) / "kubeconfig"
        return found if found.is_file() else None
    except (Failed, OSError):
        return None


def missing(kind: Kind, name: str, where: Place, error: NotFound) -> Failed:
    """Why an object cannot be had, and what to do: the server does not know the kind, or has none of that name."""
    if error.status.details is None or not error.status.details.name:
        return Failed(
            f"{where.settings.server} does not serve {kind.resource}: run `edgewright crds install{where.typed}` first"
        )
    group = {"FirmwareRollout": "rollout", "Device": "devices", "MiniCluster": "flux"}.get(kind.kind)
    inside = f" in namespace {where.namespace}" if kind.namespaced else ""
    hint = f": `edgewright {group} list{where.typed}` shows those that there are" if group else ""
    return Failed(f"there is no {kind.kind} {name}{inside}{hint}")
