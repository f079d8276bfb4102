"""The kinds that make Pods of a template, as their controllers read them: only the fields that they act on.

They are only read: what a controller writes is a patch or a plain object. Templates are kept as they are, since they
become Pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from edgewright.local.controllers.resources import Requirement, TargetReference
from edgewright.runtime import Condition, Kind, Resource, Struct
from edgewright.runtime.conditions import find
from edgewright.runtime.label_requirements import holds


class LabelSelector(Struct, frozen=True, gc=False, kw_only=True):
    """Which Pods belong to somebody, by their labels."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels are meant; a selector without terms means none of a workload's."""
        if not self.match_labels and not self.match_expressions:
            return False
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            holds(term, labels) for term in self.match_expressions
        )


class WorkloadSpec(Struct, frozen=True, gc=False, kw_only=True):
    """Pods of which template, and by which labels they are known."""

    selector: LabelSelector = LabelSelector()
    template: dict[str, Any] = {}

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the template."""
        return self.about.get("labels") or {}

    @property
    def about(self) -> dict[str, Any]:
        """The metadata of the template."""
        return self.template.get("metadata") or {}


class Workload(Resource, frozen=True, gc=False, kw_only=True):
    """What has Pods of a template, itself or through others."""

    spec: WorkloadSpec = WorkloadSpec()


class ReplicaSetSpec(WorkloadSpec, frozen=True, gc=False, kw_only=True):
    """How many Pods of which template."""

    replicas: int = 1
    min_ready_seconds: int = 0


class ReplicasStatus(Struct, frozen=True, gc=False, kw_only=True):
    """How many Pods there are, as the kinds with replicas say it."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0


class ReplicaSetStatus(ReplicasStatus, frozen=True, gc=False, kw_only=True):
    """How many Pods there are."""

    fully_labeled_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Workload, frozen=True, gc=False, kw_only=True):
    """A number of equal Pods."""

    kind: ClassVar[Kind] = Kind(group="apps", version="v1", kind="ReplicaSet", plural="replicasets")

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdate(Struct, frozen=True, gc=False, kw_only=True):
    """How many Pods an update may lack, and how many it may have too many; numbers or shares."""

    max_unavailable: int | str = 0
    max_surge: int | str = 0
    partition: int = 0


class Strategy(Struct, frozen=True, gc=False, kw_only=True):
    """How Pods of an old template are replaced."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class DeploymentSpec(ReplicaSetSpec, frozen=True, gc=False, kw_only=True):
    """How many Pods of which template, and how a new template comes about."""

    strategy: Strategy = Strategy()
    revision_history_limit: int = 10
    progress_deadline_seconds: int | None = None
    paused: bool = False


class DeploymentCondition(Condition, frozen=True, gc=False, kw_only=True):
    """One aspect of a rollout, with the time at which it was last said."""

    last_update_time: datetime | None = None


class DeploymentStatus(ReplicasStatus, frozen=True, gc=False, kw_only=True):
    """How far a rollout is."""

    updated_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    collision_count: int | None = None


class Deployment(Workload, frozen=True, gc=False, kw_only=True):
    """Equal Pods that are replaced gradually when their template changes."""

    kind: ClassVar[Kind] = Kind(group="apps", version="v1", kind="Deployment", plural="deployments")

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class UncountedPods(Struct, frozen=True, gc=False, kw_only=True):
    """Pods that have ended and still are to be counted, by their uids."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobSpec(WorkloadSpec, frozen=True, gc=False, kw_only=True):
    """How many Pods of which template are to end well, and what is done when they do not."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    active_deadline_seconds: int | None = None
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    managed_by: str | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    pod_failure_policy: dict[str, Any] | None = None
    success_policy: dict[str, Any] | None = None


class JobCondition(Condition, frozen=True, gc=False, kw_only=True):
    """One aspect of a Job, with the time at which it was looked at."""

    last_probe_time: datetime | None = None


class JobStatus(Struct, frozen=True, gc=False, kw_only=True):
    """How far a Job is."""

    conditions: tuple[JobCondition, ...] = ()
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None


class Job(Workload, frozen=True, gc=False, kw_only=True):
    """Pods that do something and end."""

    kind: ClassVar[Kind] = Kind(group="batch", version="v1", kind="Job", plural="jobs")

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def finished(self) -> JobCondition | None:
        """How it ended; None while it has not."""
        return self.condition("Complete") or self.condition("Failed")

    def condition(self, type_: str) -> JobCondition | None:
        """A condition that is true."""
        found = find(self.status.conditions, type_)
        return found if found is not None and found.status == "True" else None


class ControllerRevision(Resource, frozen=True, gc=False, kw_only=True):
    """A template as it was once."""

    kind: ClassVar[Kind] = Kind(group="apps", version="v1", kind="ControllerRevision", plural="controllerrevisions")

    data: dict[str, Any] = {}
    revision: int = 0


class Retention(Struct, frozen=True, gc=False, kw_only=True):
    """What becomes of claims."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(Struct, frozen=True, gc=False, kw_only=True):
    """Where counting begins."""

    start: int = 0


class StatefulSetSpec(ReplicaSetSpec, frozen=True, gc=False, kw_only=True):
    """How many Pods of which template, with claims of their own, and in which order."""

    volume_claim_templates: tuple[dict[str, Any], ...] = ()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: Strategy = Strategy()
    revision_history_limit: int = 10
    ordinals: Ordinals = Ordinals()
    persistent_volume_claim_retention_policy: Retention = Retention()


class StatefulSetStatus(ReplicasStatus, frozen=True, gc=False, kw_only=True):
    """How many Pods of which revision there are."""

    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None


class StatefulSet(Workload, frozen=True, gc=False, kw_only=True):
    """Pods with names and claims of their own."""

    kind: ClassVar[Kind] = Kind(group="apps", version="v1", kind="StatefulSet", plural="statefulsets")

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class ClaimSpec(Struct, frozen=True, gc=False, kw_only=True):
    """What is claimed."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: dict[str, Any] = {}


class ClaimStatus(Struct, frozen=True, gc=False, kw_only=True):
    """What a claim got."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: dict[str, str] = {}


class Claim(Resource, frozen=True, gc=False, kw_only=True):
    """A folder that outlives the Pods that use it."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeSpec(Struct, frozen=True, gc=False, kw_only=True):
    """Whose folder it is, and of which size."""

    claim_ref: TargetReference = TargetReference()
    capacity: dict[str, str] = {}


class VolumeStatus(Struct, frozen=True, gc=False, kw_only=True):
    """Whether it has its claim."""

    phase: str = ""


class Volume(Resource, frozen=True, gc=False, kw_only=True):
    """The folder of a claim."""

    kind: ClassVar[Kind] = Kind(
        group="", version="v1", kind="PersistentVolume", plural="persistentvolumes", namespaced=False
    )

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class DaemonSetSpec(WorkloadSpec, frozen=True, gc=False, kw_only=True):
    """Which Pod every Node gets, and how it is replaced."""

    min_ready_seconds: int = 0
    update_strategy: Strategy = Strategy()
    revision_history_limit: int = 10


class DaemonSetStatus(Struct, frozen=True, gc=False, kw_only=True):
    """On how many Nodes there are Pods."""

    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None


class DaemonSet(Workload, frozen=True, gc=False, kw_only=True):
    """A Pod on every Node that fits."""

    kind: ClassVar[Kind] = Kind(group="apps", version="v1", kind="DaemonSet", plural="daemonsets")

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobReference(Struct, frozen=True, gc=False, kw_only=True):
    """A Job of a CronJob that has not ended."""

    api_version: str = "batch/v1"
    kind: str = "Job"
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class CronJobSpec(Struct, frozen=True, gc=False, kw_only=True):
    """When Jobs are made, and how many are kept."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: dict[str, Any] = {}
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(Struct, frozen=True, gc=False, kw_only=True):
    """When Jobs were made, and which have not ended."""

    active: tuple[JobReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class CronJob(Resource, frozen=True, gc=False, kw_only=True):
    """Jobs at given times."""

    kind: ClassVar[Kind] = Kind(group="batch", version="v1", kind="CronJob", plural="cronjobs")

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


class BudgetSpec(Struct, frozen=True, gc=False, kw_only=True):
    """How many Pods must stay, or may be missing."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class BudgetStatus(Struct, frozen=True, gc=False, kw_only=True):
    """How many Pods may go now."""

    observed_generation: int = 0
    disrupted_pods: dict[str, datetime] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Resource, frozen=True, gc=False, kw_only=True):
    """A limit for evictions."""

    kind: ClassVar[Kind] = Kind(group="policy", version="v1", kind="PodDisruptionBudget", plural="poddisruptionbudgets")

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()
