"""The containers of a MiniCluster: what runs in its Pods and in the Pod of its services, as the published kind has it.

`minicluster` holds them. Programs start a container by scripts of the operator's, which these fields fill in.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec

from edgewright.api.annotations import Rule, Schema
from edgewright.runtime.objects import Struct

RUNNER_IMAGE: Final = "ghcr.io/rse-ops/accounting:app-latest"
"""The image of a container that names none, as the published kind has it."""
MAX_SCRIPT: Final = 65_536
"""How many characters a command may have: all of them must fit into one ConfigMap."""

_NAME: Final = Schema(max_length=253)
_WORD: Final = Schema(max_length=1024)
_SHELL: Final = Schema(max_length=MAX_SCRIPT)
_RESOURCES: Final = Schema(max_properties=64)
_SOURCES: Final = ("hostPath", "claimName", "configMapName", "secretName")


class Commands(Struct, frozen=True, kw_only=True):
    """What runs before, after and around the command; each is a piece of shell."""

    prefix: Annotated[str, _SHELL] = ""
    """What stands in front of the command of the lead broker, such as a wrapper."""

    script: Annotated[str, _SHELL] = ""
    """A script of several lines in the place of the command."""

    init: Annotated[str, _SHELL] = ""
    """Runs before anything else, in every Pod."""

    pre: Annotated[str, _SHELL] = ""
    """Runs before the broker, in every Pod."""

    post: Annotated[str, _SHELL] = ""
    """Runs when the broker has ended, in every Pod."""

    worker_pre: Annotated[str, _SHELL] = ""
    """Runs before the broker, in every Pod but the lead's."""

    broker_pre: Annotated[str, _SHELL] = ""
    """Runs before the broker, in the lead's Pod."""

    service_pre: Annotated[str, _SHELL] = ""
    """Runs before the command of a service."""


class ContainerResources(Struct, frozen=True, kw_only=True):
    """What a container gets and may use, as Kubernetes counts it."""

    limits: Annotated[dict[str, int | str], _RESOURCES] = {}
    """What it may use, such as cpu and memory."""

    requests: Annotated[dict[str, int | str], _RESOURCES] = {}
    """What is kept for it."""


class ContainerVolume(Struct, frozen=True, kw_only=True):
    """Something that exists and is mounted into a container."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule="has(self.path) && self.path != ''",
                message="a volume needs a path: say where it is mounted",
                reason="FieldValueRequired",
                field_path=".path",
            ),
            Rule(
                rule=(
                    "["
                    + ", ".join(f"has(self.{name}) && self.{name} != ''" for name in _SOURCES)
                    + ", has(self.emptyDir) && self.emptyDir].filter(given, given).size() == 1"
                ),
                message="a volume is exactly one of hostPath, claimName, configMapName, secretName and emptyDir",
            ),
        )
    )

    path: Annotated[str, _WORD] = ""
    """Where it is mounted."""

    host_path: Annotated[str, _WORD] = ""
    """A folder of the node."""

    claim_name: Annotated[str, _NAME] = ""
    """A PersistentVolumeClaim of the namespace."""

    config_map_name: Annotated[str, _NAME] = ""
    """A ConfigMap of the namespace."""

    secret_name: Annotated[str, _NAME] = ""
    """A Secret of the namespace."""

    items: Annotated[dict[str, Annotated[str, _WORD]], Schema(max_properties=256)] = {}
    """The keys of the ConfigMap or Secret that are mounted, with their paths; all where there are none."""

    empty_dir: bool = False
    """Whether it is a folder of the Pod's own, which is empty at first."""

    empty_dir_medium: Annotated[str, Schema(max_length=63)] = ""
    """Where that folder is kept; Memory is the only other place than the disk."""

    empty_dir_size_limit: Annotated[str, Schema(max_length=63)] = ""
    """How large that folder may become."""

    read_only: bool = False
    """Whether nothing may be written to it."""


class SecretKey(Struct, frozen=True, kw_only=True):
    """A key of a Secret, as the value of a variable."""

    name: Annotated[str, Schema(max_length=253, required=True)] = ""
    """The Secret."""

    key: Annotated[str, Schema(max_length=253, required=True)] = ""
    """The key in it."""


class LifeCycle(Struct, frozen=True, kw_only=True):
    """What runs in a container when it has started and before it is stopped."""

    post_start_exec: Annotated[str, _SHELL] = ""
    """Runs when it has started."""

    pre_stop_exec: Annotated[str, _SHELL] = ""
    """Runs before it is stopped."""


class ContainerSecurity(Struct, frozen=True, kw_only=True):
    """What a container may do on its node."""

    privileged: bool = False
    """Whether it may do all."""

    add_capabilities: Annotated[tuple[Annotated[str, Schema(max_length=64)], ...], Schema(max_items=64)] = ()
    """What it may do besides the usual, such as SYS_PTRACE."""


class MiniClusterContainer(Struct, frozen=True, kw_only=True):
    """A container: the one that runs Flux, one next to it, or a service."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule="!(has(self.launcher) && self.launcher && has(self.batch) && self.batch)",
                message="a container is a launcher or a batch, not both",
                field_path=".batch",
            ),
            Rule(
                rule=(
                    "!(has(self.command) && self.command != '' && has(self.commands) &&"
                    " has(self.commands.script) && self.commands.script != '')"
                ),
                message="a container has a command or commands.script, not both",
                field_path=".command",
            ),
        )
    )

    name: Annotated[str, Schema(max_length=63)] = ""
    """Its name; one that does not run Flux needs it."""

    image: Annotated[str, _WORD] = RUNNER_IMAGE
    """Its image."""

    image_pull_secret: Annotated[str, _NAME] = ""
    """The Secret with which its image is pulled."""

    pull_always: bool = False
    """Whether the image is pulled even where it is there."""

    working_dir: Annotated[str, _WORD] = ""
    """Where its command runs."""

    command: Annotated[str, _SHELL] = ""
    """What runs, as a line of shell. Where Flux runs and there is none, the brokers serve until they are stopped."""

    commands: Commands = Commands()
    """What runs before, after and around the command."""

    run_flux: bool = False
    """Whether Flux runs in it; exactly one container does, and a single one need not say it."""

    launcher: bool = False
    """Whether the command itself submits jobs: it is run by the lead broker and not submitted."""

    batch: bool = False
    """Whether each line of the command is a job of one batch."""

    batch_raw: bool = False
    """Whether the lines of a batch are run as they are, and not submitted each."""

    logs: Annotated[str, _WORD] = ""
    """A folder for the output of jobs."""

    no_wrap_entrypoint: bool = False
    """Whether a container without Flux is started as it is, and not by a script that ends with the mini-cluster."""

    ports: Annotated[tuple[Annotated[int, Schema(minimum=1, maximum=65_535)], ...], Schema(max_items=128)] = ()
    """The ports on which it listens."""

    environment: Annotated[dict[str, Annotated[str, Schema(max_length=32_768)]], Schema(max_properties=256)] = {}
    """Variables with their values."""

    secrets: Annotated[dict[str, SecretKey], Schema(max_properties=256)] = {}
    """Variables whose values are in Secrets."""

    volumes: Annotated[dict[str, ContainerVolume], Schema(max_properties=32)] = {}
    """What is mounted, by name."""

    resources: ContainerResources = ContainerResources()
    """What it gets and may use."""

    life_cycle: LifeCycle = LifeCycle()
    """What runs when it has started and before it is stopped."""

    security_context: ContainerSecurity = ContainerSecurity()
    """What it may do on its node."""

    @property
    def shell(self) -> str:
        """What runs, as shell; empty where the image says it."""
        return self.command if self.command.strip() else self.commands.script.strip()


class FluxContainer(Struct, frozen=True, kw_only=True):
    """The container that brings Flux into the Pods, in an image of its own."""

    disable: bool = False
    """Whether there is none, because the image of the command has Flux."""

    name: Annotated[str, Schema(max_length=63)] = "flux-view"
    """Its name."""

    image: Annotated[str, _WORD] = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"
    """Its image, which has Flux under /opt/view and /opt/software."""

    image_pull_secret: Annotated[str, _NAME] = ""
    """The Secret with which its image is pulled."""

    pull_always: bool = False
    """Whether the image is pulled even where it is there."""

    working_dir: Annotated[str, _WORD] = ""
    """Where it runs."""

    mount_path: Annotated[str, Schema(max_length=1024, pattern="^/[A-Za-z0-9._/-]+$")] = "/mnt/flux"
    """Where Flux and its configuration are in all containers."""

    python_path: Annotated[str, _WORD] = ""
    """Where Python finds the modules of Flux."""

    resources: ContainerResources = ContainerResources()
    """What it gets and may use."""


class PodSecurity(Struct, frozen=True, kw_only=True):
    """As whom the processes of all Pods run."""

    run_as_user: int | None = None
    """The user."""

    run_as_group: int | None = None
    """The group."""

    run_as_non_root: bool | None = None
    """Whether a Pod that would run as root is refused."""

    fs_group: int | None = None
    """The group that may use the volumes."""


class Toleration(Struct, frozen=True, kw_only=True):
    """A taint of nodes that does not keep the Pods off."""

    key: Annotated[str, Schema(max_length=317)] = ""
    """The key of the taint; empty: all."""

    operator: Annotated[str, Schema(max_length=16)] = ""
    """Exists or Equal."""

    value: Annotated[str, Schema(max_length=63)] = ""
    """The value of the taint."""

    effect: Annotated[str, Schema(max_length=32)] = ""
    """NoSchedule, PreferNoSchedule or NoExecute; empty: all."""

    toleration_seconds: int | None = None
    """How long NoExecute is tolerated."""


class MiniClusterPod(Struct, frozen=True, kw_only=True):
    """What all Pods of the mini-cluster have."""

    annotations: Annotated[dict[str, Annotated[str, Schema(max_length=65_536)]], Schema(max_properties=256)] = {}
    """Their annotations."""

    labels: Annotated[dict[str, Annotated[str, Schema(max_length=63)]], Schema(max_properties=256)] = {}
    """Their labels; those of the operator stay."""

    restart_policy: Annotated[str, Schema(enum=("", "Never", "OnFailure"))] = ""
    """OnFailure: a command that fails is run again, as often as backoffLimit says. Otherwise it is run once."""

    service_account_name: Annotated[str, _NAME] = ""
    """The ServiceAccount whose token they have; none has one where it is absent."""

    scheduler_name: Annotated[str, _NAME] = ""
    """Who places them on nodes."""

    node_selector: Annotated[dict[str, Annotated[str, Schema(max_length=63)]], Schema(max_properties=64)] = {}
    """The labels of the nodes that they may run on."""

    node_affinity: dict[str, Any] = {}
    """Which nodes they may or should run on, as Kubernetes writes it."""

    tolerations: Annotated[tuple[Toleration, ...], Schema(max_items=64)] = ()
    """The taints of nodes that do not keep them off."""

    dns_policy: Annotated[str, Schema(max_length=63)] = ""
    """How they find names."""

    host_ipc: bool = msgspec.field(default=False, name="hostIPC")
    """Whether they share the memory of their node."""

    host_pid: bool = msgspec.field(default=False, name="hostPID")
    """Whether they see the processes of their node."""

    resources: Annotated[dict[str, int | str], _RESOURCES] = {}
    """What each Pod as a whole gets and may use."""

    security_context: PodSecurity = PodSecurity()
    """As whom their processes run."""
