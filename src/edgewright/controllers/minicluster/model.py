"""A mini-cluster as the controller sees it, whichever kind asked for it.

`conversion` builds it, decisions and manifests read it. A `LaunchedCluster` has workers of a StatefulSet and a launcher
(Flux, FluxSetup); an `IndexedCluster` is one indexed Job (MiniCluster). Pure data.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from edgewright.api.minicluster import MiniClusterSpec
from edgewright.api.minicluster_container import MiniClusterContainer


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
class Cluster:
    """What every mini-cluster has."""

    namespace: str
    name: str
    size: int
    broker: str
    """The configuration of its brokers."""
    hostfile: str
    certificate: str | None = None
    """The one that was given; None: it is generated."""
    digest: str = ""
    """Changes when the command must be run again. It is of what people wrote, so that no upgrade of ours runs it."""

    @property
    def secret(self) -> str:
        """The Secret with the certificate. Both kinds have the same, so that one name is taken by one of them."""
        return f"{self.name}-curve-certificate"

    @property
    def service(self) -> str:
        """The headless Service by which brokers find each other."""
        raise NotImplementedError

    @property
    def config(self) -> str:
        """The ConfigMap with what brokers read."""
        raise NotImplementedError

    @property
    def job(self) -> str:
        """The Job whose end is the end of the command."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class LaunchedCluster(Cluster):
    """So many workers, one launcher, one command."""

    image: str
    command: tuple[str, ...]
    port: int | None = None
    greeting: str = ""
    workers_digest: str = ""
    """Changes when workers must be started again."""

    @property
    def service(self) -> str:
        """The headless Service of this one alone."""
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
    def job(self) -> str:
        """The launcher."""
        return self.launcher


@dataclass(frozen=True, kw_only=True)
class IndexedCluster(Cluster):
    """So many Pods of one indexed Job, of which the first runs the command."""

    spec: MiniClusterSpec
    first_size: int
    """How large it was when its brokers were started."""
    max_size: int
    """How many hosts its brokers know."""
    quorum: int
    """How many brokers must be there before the command starts."""

    @property
    def service(self) -> str:
        """The headless Service, which mini-clusters of a namespace share."""
        return self.spec.network.headless_name

    @property
    def config(self) -> str:
        """The ConfigMap with the scripts that start containers, and what brokers read."""
        return f"{self.name}-entrypoint"

    @property
    def job(self) -> str:
        """The Job, after which its Pods are named."""
        return self.name

    @property
    def services_pod(self) -> str:
        """The Pod of the services."""
        return f"{self.name}-services"

    @property
    def pods(self) -> int:
        """How many Pods there are to be: brokers know no more hosts than they were started with."""
        return min(self.size, self.max_size)

    @property
    def runner(self) -> tuple[int, MiniClusterContainer]:
        """The container that runs Flux, and its number."""
        return self.spec.runner

    @property
    def serves(self) -> bool:
        """Whether the brokers serve until they are stopped, and run no command."""
        _, runner = self.runner
        return self.spec.interactive or not (runner.command.strip() or runner.commands.script.strip())


def digest_of(value: Any) -> str:
    """The same short text for the same value, always."""
    encoded = msgspec.json.encode(msgspec.to_builtins(value), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:32]
