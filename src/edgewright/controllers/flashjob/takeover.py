"""What the original operator left behind: recognised by its names and labels, awaited, then cleared away.

The loop over FlashJobs asks it for jobs that carry a finalizer. All three versions of the original are known: one Pod
and Service a job, a Pod a device with one shared Service, and a Pod and Service a device. A Pod of the original that
runs is never ended before its time is over; the device is then claimed to be checked before its leftovers go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from edgewright.api.device import Mark
from edgewright.api.flashing import OTA_PORT, Variable
from edgewright.api.flashjob import FINALIZER, FIRST_FINALIZER, FlashJob
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.manifests import timeout_of
from edgewright.controllers.flashjob.names import label_value
from edgewright.controllers.flashjob.original import Original
from edgewright.controllers.flashjob.world import World
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.objects import Key, Resource


@dataclass(frozen=True)
class Leftovers:
    """What the original made for one job, by entry of spec.uuid; the key of what it made for the whole job is empty."""

    pods: dict[str, Pod] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)

    @property
    def uuids(self) -> frozenset[str]:
        """The entries of spec.uuid for which there is something."""
        return frozenset(self.pods.keys() | self.services.keys())

    def __bool__(self) -> bool:
        """Whether there is anything at all."""
        return bool(self.pods or self.services)


def recognise(job: FlashJob, pods: Iterable[Pod], services: Iterable[Service]) -> Leftovers:
    """Those of the objects that the original made for this job: its names and labels, and no mark of ours."""
    found = Leftovers()
    for pod in pods:
        uuid = _uuid_of(job, pod, f"{job.metadata.name}-flashing-pod", told=pod.variable(Variable.UUID))
        if uuid is not None:
            found.pods[uuid] = pod
    for service in services:
        uuid = _uuid_of(job, service, f"{job.metadata.name}-service")
        # An application may well have a Service of that name and label: devices dial in at one port only.
        if uuid is not None and any(port.port == OTA_PORT for port in service.spec.ports):
            found.services[uuid] = service
    return found


def _uuid_of(job: FlashJob, obj: Resource, name: str, *, told: str = "") -> str | None:
    """The entry of spec.uuid that a leftover is for; empty: for all of them. None where it is no leftover.

    `told` is what it says itself: the spec may name other devices by now than when it was made.
    """
    metadata = obj.metadata
    if metadata.namespace != job.metadata.namespace or Mark.JOB_UID in metadata.labels:
        return None
    if metadata.labels.get("app") != label_value(job.metadata.name):
        return None
    if metadata.name == name:
        uuids = job.spec.uuids
        return told or (uuids[0] if len(uuids) == 1 else "")
    uuid = metadata.name.removeprefix(f"{name}-")
    return uuid if uuid != metadata.name else None


def clearable(
    job: FlashJob, leftovers: Leftovers, *, settled: Iterable[str], late: Collection[str] = ()
) -> list[Pod | Service]:
    """What may go now: where the job is being deleted everything, else what belongs to no Pod that is awaited.

    `settled` are the entries of spec.uuid whose devices are claimed, done or given up: that there was a Pod is known.
    `late` are the names of the Pods that are waited for no longer.
    """
    if job.deleting:
        return [*leftovers.pods.values(), *leftovers.services.values()]
    wanted = set(job.spec.uuids)
    known = set(settled)

    def is_known(uuid: str) -> bool:
        return (uuid in known or uuid not in wanted) if uuid else wanted <= known

    over = {uuid for uuid, pod in leftovers.pods.items() if pod.finished and is_known(uuid)}
    ended = {uuid for uuid, pod in leftovers.pods.items() if pod.metadata.name in late and is_known(uuid)}
    awaited = leftovers.pods.keys() - over
    services = [
        service
        for uuid, service in leftovers.services.items()
        if (uuid not in awaited if uuid else not awaited) and "" not in awaited
    ]
    return [*(leftovers.pods[uuid] for uuid in sorted(over | ended)), *services]


def overdue(job: FlashJob, leftovers: Leftovers, *, now: datetime, grace: float) -> frozenset[str]:
    """The names of the Pods that have had the time of an attempt and more, and have not ended: they are told to."""
    longest = timedelta(seconds=timeout_of(job.spec) + grace)
    return frozenset(
        pod.metadata.name
        for pod in leftovers.pods.values()
        if not pod.finished
        and pod.metadata.creation_timestamp is not None
        and now - pod.metadata.creation_timestamp > longest
    )


class Takeover:
    """Finds and clears what the original left; it asks the server only for jobs that carry a finalizer."""

    def __init__(self, world: World, original: Original) -> None:
        self._world = world
        self._original = original
        self._clean: set[str] = set()
        """The uids of the jobs that nothing was found for: we are the only one who makes anything from then on."""

    async def look(self, job: FlashJob) -> Leftovers:
        """What there is for a job now."""
        uid = job.metadata.uid
        if not {FINALIZER, FIRST_FINALIZER} & set(job.metadata.finalizers):
            return Leftovers()
        running = await self._original.look()
        if running is not None:
            self._clean.clear()  # it may make something for any job, at any time
        if uid in self._clean:
            return Leftovers()
        client, namespace = self._world.client, job.metadata.namespace
        labels = f"app={label_value(job.metadata.name)}"
        pods = await client.of(Pod).list(namespace, labels=labels)
        services = await client.of(Service).list(namespace, labels=labels)
        found = recognise(job, pods.items, services.items)
        if not found and running is None:
            self._clean.add(uid)
        return found

    def started(self, job: FlashJob) -> None:
        """Notes that the job's finalizer is ours: it carried none before, so nothing was left."""
        self._clean.add(job.metadata.uid)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._clean.discard(uid)

    async def clear(self, leftovers: Iterable[Pod | Service]) -> None:
        """Asks for the deletion of these; what is gone already is gone."""
        for obj in leftovers:
            if obj.deleting:
                continue
            api = self._world.client.of(type(obj))
            try:
                await api.delete(Key(obj.metadata.namespace, obj.metadata.name), uid=obj.metadata.uid)
            except (NotFound, Conflict):
                continue
