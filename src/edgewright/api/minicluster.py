"""MiniCluster: a Flux mini-cluster as one indexed Job, as the published kind flux-framework.org/v1alpha2 has it.

People write it; the mini-cluster controller reads spec and writes status, and deletes it where `cleanup` asks for that.
What cannot run is refused by the schema, with the message of the rule.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Final

from edgewright.api.annotations import Rule, Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition, Scale
from edgewright.api.flux import FLUX_GROUP, FluxPhase
from edgewright.api.fluxsetup import MAX_SIZE
from edgewright.api.minicluster_container import FluxContainer, MiniClusterContainer, MiniClusterPod
from edgewright.runtime.objects import Condition, Kind, Struct

MAX_CONTAINERS: Final = 16
"""How many containers, and how many services, a mini-cluster may have."""
DEADLINE: Final = 31_500_000
"""How many seconds a mini-cluster may take that says nothing of it: about a year."""
HEADLESS_NAME: Final = "flux-service"
"""The headless Service of mini-clusters that name none; those of a namespace share it."""

_WORD: Final = Schema(max_length=1024)
_LABELS: Final = Schema(max_properties=256)


class Network(Struct, frozen=True, kw_only=True):
    """How Pods are found and placed."""

    headless_name: Annotated[str, Schema(max_length=63, pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$")] = HEADLESS_NAME
    """The headless Service that gives each Pod its name."""

    disable_affinity: bool = False
    """Whether Pods are placed anywhere, and not on different nodes where there are enough."""


class LoggingSpec(Struct, frozen=True, kw_only=True):
    """What is in the log of the Pods."""

    quiet: bool = False
    """Nothing but what the command says."""

    strict: bool = False
    """A piece of shell that fails ends its Pod."""

    debug: bool = False
    """Flux says more."""

    zeromq: bool = False
    """Flux tells of its connections."""

    timed: bool = False
    """How long the commands of Flux take."""


class FluxScheduler(Struct, frozen=True, kw_only=True):
    """How jobs are placed in the mini-cluster."""

    queue_policy: Annotated[str, Schema(enum=("", "fcfs", "easy"))] = "fcfs"
    """In which order jobs start: as they came, or so that small ones fill gaps."""

    simple: bool = False
    """Whether the simple scheduler of Flux is used, and not Fluxion."""


class FluxOptions(Struct, frozen=True, kw_only=True):
    """What brokers are told."""

    container: FluxContainer = FluxContainer()
    """The container that brings Flux into the Pods."""

    submit_command: Annotated[str, _WORD] = ""
    """What submits the command, in the place of `flux submit`."""

    option_flags: Annotated[str, _WORD] = ""
    """Options for that."""

    wrap: Annotated[str, _WORD] = ""
    """Words, with commas between them, in front of each broker: `flux start --wrap`."""

    connect_timeout: Annotated[str, Schema(max_length=32, pattern="^[0-9.]+(ms|s|m|h)?$")] = "5s"
    """How long a broker tries to reach another before it tries again."""

    topology: Annotated[str, Schema(max_length=1024, pattern="^[a-zA-Z0-9:.,_-]*$")] = ""
    """How brokers are connected, such as kary:2 or binomial; flat where it is absent."""

    minimal_service: bool = False
    """Whether the lead broker alone has a name."""

    no_wait_socket: bool = False
    """Whether containers next to Flux start before it serves."""

    disable_socket: bool = False
    """Whether the lead broker serves at no fixed place."""

    complete_workers: bool = False
    """Whether a worker ends with its broker, however that ended, and does not start it again."""

    log_level: Annotated[int, Schema(minimum=0, maximum=7)] = 6
    """How much Flux says, from 0 (nothing but emergencies) to 7 (everything)."""

    curve_cert: Annotated[str, Schema(max_length=4096)] = ""
    """The certificate of the brokers, as `flux keygen` writes it; generated where it is absent, which is safer."""

    broker_config: Annotated[str, Schema(max_length=262_144)] = ""
    """The whole configuration of the brokers (TOML), in the place of the operator's."""

    munge_secret: Annotated[str, Schema(max_length=253)] = ""
    """A Secret with the key munge.key, for brokers that know each other by munge."""

    scheduler: FluxScheduler = FluxScheduler()
    """How jobs are placed."""

    environment: Annotated[dict[str, Annotated[str, Schema(max_length=32_768)]], Schema(max_properties=256)] = {}
    """Variables of all containers that run Flux."""


_COMMANDS: Final = ("prefix", "script", "init", "pre", "post", "workerPre", "brokerPre")


class MiniClusterSpec(Struct, frozen=True, kw_only=True):
    """What runs, on how many Pods, and how."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule="!has(self.maxSize) || self.maxSize >= self.size",
                message="spec.maxSize must not be below spec.size",
                field_path=".maxSize",
            ),
            Rule(
                rule="!has(self.minSize) || self.minSize <= self.size",
                message="spec.minSize must not be above spec.size",
                field_path=".minSize",
            ),
            Rule(
                rule=(
                    "self.containers.size() == 1 ||"
                    " self.containers.filter(each, has(each.runFlux) && each.runFlux).size() == 1"
                ),
                message="exactly one of spec.containers must have runFlux: true",
                field_path=".containers",
            ),
            Rule(
                rule=(
                    "self.containers.size() == 1 || self.containers.all(each,"
                    " (has(each.runFlux) && each.runFlux) || (has(each.name) && each.name != ''))"
                ),
                message="each of spec.containers that does not run Flux needs a name",
                field_path=".containers",
            ),
            Rule(
                rule="!has(self.services) || self.services.all(each, has(each.name) && each.name != '')",
                message="each of spec.services needs a name",
                field_path=".services",
            ),
            Rule(
                rule="!has(self.services) || self.services.all(each, !has(each.commands) || !("
                + " || ".join(f"has(each.commands.{name}) && each.commands.{name} != ''" for name in _COMMANDS)
                + "))",
                message="spec.services have no commands but servicePre",
                field_path=".services",
            ),
        )
    )

    size: Annotated[int, Schema(minimum=1, maximum=MAX_SIZE)] = 1
    """How many Pods there are, the lead broker's among them. `kubectl scale` changes it while it runs."""

    max_size: Annotated[int | None, Schema(minimum=1, maximum=MAX_SIZE, nullable=False)] = None
    """How far it can grow while it runs; as large as it was made where it is absent."""

    min_size: Annotated[int | None, Schema(minimum=1, maximum=MAX_SIZE, nullable=False)] = None
    """How many Pods must be there before the command starts; all where it is absent."""

    tasks: Annotated[int, Schema(minimum=1, maximum=10_000_000)] = 1
    """How many tasks the command is submitted with."""

    deadline_seconds: Annotated[int, Schema(minimum=1)] = DEADLINE
    """How long it may take; what takes longer has failed."""

    cleanup: bool = False
    """Whether the mini-cluster is deleted, with all that belongs to it, when its command has ended."""

    interactive: bool = False
    """Whether the brokers serve until they are stopped, whatever the command is."""

    containers: Annotated[
        tuple[MiniClusterContainer, ...], Schema(required=True, min_items=1, max_items=MAX_CONTAINERS)
    ] = ()
    """What runs in each Pod. In one container Flux runs."""

    services: Annotated[tuple[MiniClusterContainer, ...], Schema(max_items=MAX_CONTAINERS)] = ()
    """What runs once, in a Pod of its own named NAME-services, as long as the mini-cluster."""

    job_labels: Annotated[dict[str, Annotated[str, Schema(max_length=63)]], _LABELS] = {}
    """Labels of the Job."""

    backoff_limit: Annotated[int, Schema(minimum=0, maximum=10_000)] = 100
    """How often failed Pods are started again, where pod.restartPolicy is OnFailure."""

    share_process_namespace: bool = False
    """Whether the containers of a Pod see each other's processes."""

    logging: LoggingSpec = LoggingSpec()
    """What is in the log of the Pods."""

    pod: MiniClusterPod = MiniClusterPod()
    """What all Pods have."""

    network: Network = Network()
    """How Pods are found and placed."""

    flux: FluxOptions = FluxOptions()
    """What brokers are told."""

    @property
    def runner(self) -> tuple[int, MiniClusterContainer]:
        """The container that runs Flux, and its number."""
        found = [each for each in enumerate(self.containers) if each[1].run_flux]
        return found[0] if found else (0, self.containers[0])


class MiniClusterStatus(Struct, frozen=True, kw_only=True):
    """How far the mini-cluster is, as last seen by the operator."""

    phase: Annotated[str, Schema(enum=FluxPhase)] = ""
    """Pending, Running, Succeeded or Failed."""

    message: Annotated[str, Schema(max_length=32_768)] = ""
    """What happened last, in a sentence for people."""

    pods: Annotated[str, Schema(max_length=32)] = ""
    """Pods that are ready and all, as 3/4."""

    exit_code: int | None = None
    """The exit code of the command, once it has ended."""

    start_time: datetime | None = None
    """When its Job was started."""

    completion_time: datetime | None = None
    """When the command ended."""

    size: Annotated[int, Schema(minimum=0)] = 0
    """How many Pods there are to be, for `kubectl scale` and autoscalers."""

    maximum_size: Annotated[int, Schema(minimum=0)] = 0
    """How far it can grow while it runs."""

    selector: Annotated[str, Schema(max_length=512)] = ""
    """The labels of its Pods, for autoscalers."""

    jobid: Annotated[str, Schema(max_length=253)] = ""
    """The name of its Job."""

    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """The state of the mini-cluster in the form that kubectl wait and other tools read."""

    observed_generation: Annotated[int, Schema(minimum=0)] = 0
    """The generation of the spec that this status is about."""


class MiniCluster(CustomResource, frozen=True, kw_only=True):
    """Runs a command in a Flux mini-cluster of so many Pods."""

    kind: ClassVar[Kind] = Kind(group=FLUX_GROUP, version="v1alpha2", kind="MiniCluster", plural="miniclusters")
    definition: ClassVar[Definition] = Definition(
        categories=("edgewright",),
        scale=Scale(spec_replicas=".spec.size", status_replicas=".status.size", label_selector=".status.selector"),
        columns=(
            Column(name="Phase", path=".status.phase", description="How far it is."),
            Column(name="Pods", path=".status.pods", description="How many Pods are ready."),
            Column(name="Exit", path=".status.exitCode", type="integer", description="The command's exit code."),
            Column(name="Command", path=".spec.containers[0].command", description="What runs.", priority=1),
            Column(name="Message", path=".status.message", description="What happened last.", priority=1),
            AGE,
        ),
    )
    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule=(
                    "self.spec.size <= oldSelf.spec.size || has(self.spec.maxSize) || !has(oldSelf.status) ||"
                    " !has(oldSelf.status.maximumSize) || self.spec.size <= oldSelf.status.maximumSize"
                ),
                message=(
                    "spec.size cannot grow beyond the size that the mini-cluster was made with:"
                    " set spec.maxSize, with which it is started again"
                ),
                field_path=".spec.size",
            ),
        )
    )

    spec: Annotated[MiniClusterSpec, Schema(required=True)] = MiniClusterSpec()
    """What runs, on how many Pods, and how."""

    status: MiniClusterStatus = MiniClusterStatus()
    """How far the mini-cluster is, as last seen by the operator."""

    @property
    def runner_name(self) -> str:
        """What the container is called in which Flux runs, whose exit code counts in the lead's Pod."""
        return self.spec.runner[1].name or self.metadata.name
