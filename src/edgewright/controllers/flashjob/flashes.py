"""The loop for Devices: takes one claim through Service, address, Pod and outcome, and cleans up.

`deciding` says what is to be done; here it is done. Every write is conditional, and what is there already, or gone
already, is as good as done. It never claims a device and never writes to a FlashJob: that is the loop for FlashJobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from edgewright.api.device import Claim, Device, DeviceStatus, JobReference, Mark
from edgewright.api.endpoint import endpoint_problem
from edgewright.api.flashing import Report, Variable
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.api.node import Node
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.accepting import problems
from edgewright.controllers.flashjob.deciding import (
    Action,
    Adopt,
    AskNode,
    CreatePod,
    CreateService,
    Decision,
    EndPod,
    GiveUp,
    NoAddress,
    NodeState,
    Record,
    Release,
    RemovePod,
    RemoveService,
    Retry,
    Situation,
    after_failure,
    decide,
    decide_orphans,
    in_the_way,
)
from edgewright.controllers.flashjob.manifests import (
    OUTCOME_FINALIZER,
    endpoint_of,
    made_for,
    pod_for,
    pod_key,
    service_for,
    service_key,
    timeout_of,
)
from edgewright.controllers.flashjob.names import device_name
from edgewright.controllers.flashjob.original import Original
from edgewright.controllers.flashjob.outcomes import claim_of, record, retried
from edgewright.controllers.flashjob.world import BY_CLAIM, BY_DEVICE, World
from edgewright.controllers.ledger import Ledger
from edgewright.runtime import logs
from edgewright.runtime.client import Api
from edgewright.runtime.controller import DONE, Controller, For, Maps, Result, again
from edgewright.runtime.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, ObjectMeta, RawObject, Resource
from edgewright.runtime.predicates import anything, intent_changed

WORKERS: Final = 16
"""How many devices are worked on at once; each waits for the API server most of the time."""

R = TypeVar("R", bound=Resource)

_log = logs.get("controllers.flashjob.flashes")

_MOST_READ: Final = 64
"""Of so many jobs the spec is kept as it was read."""
_MOST_DIGESTS: Final = 1000
"""Of so many jobs the first digest is kept."""

_REFUSALS: Final = (BadRequest, Forbidden, Invalid, NotFound)
"""How the server says that it will not make an object, however often it is asked."""


@dataclass(frozen=True)
class _Reading:
    """What is asked of a job's spec in every pass over one of its devices: a job may name thousands."""

    generation: int
    uuids: frozenset[str]
    accepted: bool


class Flashes:
    """The loop for Devices; it starts nothing while the original's operator runs."""

    def __init__(self, world: World, *, original: Original | None = None) -> None:
        self._world = world
        self._original = original
        self._read: dict[str, _Reading] = {}
        self._digests: dict[str, tuple[str, str]] = {}
        """By job: its latest state, and what the firmware stood for when the first device ended in it."""

    async def reconcile(self, key: Key) -> Result:
        """One pass for one Device: what is to be done now, in order, and when to look again."""
        pods, services = self._marked(key.name)
        device = self._world.devices.get(key)
        if not pods and not services and (device is None or device.status.claim is None):
            return DONE
        if not self._world.devices.vouched(key):
            # Whoever worked before us may have written what our cache has not seen: an outcome, most of all.
            device = await self._world.devices.cache.fetch(key)
            if device is not None:
                self._world.devices.wrote(device)
        if device is None:
            orphan = Device(metadata=ObjectMeta(name=key.name))
            situation = Situation(device=orphan, pods=pods, services=services, **self._moment())
            return await self._act(situation, decide_orphans)
        return await self._act(await self._situation(device), decide)

    # --- seeing ----------------------------------------------------------------------------------------------------

    def _marked(self, device: str) -> tuple[tuple[Pod, ...], tuple[Service, ...]]:
        return _newest(self._world.pods, device), _newest(self._world.services, device)

    def _moment(self) -> dict[str, Any]:
        return {"now": self._world.clock.now(), "settings": self._world.settings}

    async def _situation(self, device: Device) -> Situation:
        claim = device.status.claim
        if claim is not None:
            # So with these: an ended Pod, or a Service with its address, may be those of an earlier attempt.
            await _vouch(self._world.pods, pod_key(claim))
            await _vouch(self._world.services, service_key(claim))
        pods, services = self._marked(device.metadata.name)
        strangers = frozenset([pod.metadata.uid for pod in pods if await self._strange(pod, device)])
        if claim is None:
            return Situation(device=device, pods=pods, services=services, strangers=strangers, **self._moment())
        job = await self._job(claim.job)
        pod, service = self._world.pods.get(pod_key(claim)), self._world.services.get(service_key(claim))
        held = pod is None and self._original is not None and await self._original.look() is not None
        return Situation(
            device=device,
            job=job,
            named=job is not None and claim.uuid in self._reading(job).uuids,
            accepted=job is not None and self._acceptable(job, device),
            held=held,
            pod=pod,
            service=service,
            pods=_with(pods, pod, device),
            services=_with(services, service, device),
            strangers=strangers,
            **self._moment(),
        )

    async def _strange(self, pod: Pod, device: Device) -> bool:
        """Whether a Pod is not called what we call one with its marks, or names a job that its namespace does not have.

        What was made for the claim's own job is no stranger, though the job be gone.
        """
        claim, its = device.status.claim, claim_of(pod)
        if pod.key not in (pod_key(its), None if claim is None else pod_key(claim)):
            return True
        if claim is not None and made_for(pod, device, claim) and pod.metadata.namespace == claim.job.namespace:
            return False
        return await self._job(its.job) is None

    async def _job(self, reference: JobReference) -> FlashJob | None:
        """The job, or None where it is gone; that it is, is asked of the server: a cache may be behind."""
        if not reference.name:
            return None
        key = Key(reference.namespace, reference.name)
        job = self._world.jobs.get(key)
        if job is None or job.metadata.uid != reference.uid:
            job = await self._world.jobs.fetch(key)
        return job if job is not None and job.metadata.uid == reference.uid else None

    def _acceptable(self, job: FlashJob, device: Device) -> bool:
        """Whether the spec as it is now can be acted on, and a flash Pod be sent to where the device is by now."""
        where = endpoint_of(job.spec, device)
        return self._reading(job).accepted and not endpoint_problem(where, local=self._world.settings.local)

    def _reading(self, job: FlashJob) -> _Reading:
        metadata = job.metadata
        known = self._read.get(metadata.uid)
        if known is None or known.generation != metadata.generation:
            if len(self._read) >= _MOST_READ:
                self._read.clear()
            # A spec that was accepted when the device was claimed may have been changed to one that never would be.
            accepted = not problems(job, self._world.settings)
            known = self._read[metadata.uid] = _Reading(metadata.generation, frozenset(job.spec.uuids), accepted)
        return known

    # --- doing -----------------------------------------------------------------------------------------------------

    async def _act(self, situation: Situation, deciding: Callable[[Situation], Decision]) -> Result:
        decision = deciding(situation)
        asked = {action.pod.spec.node_name for action in decision.actions if isinstance(action, AskNode)}
        if asked:
            situation = replace(situation, nodes={name: await self._node(name) for name in asked})
            decision = deciding(situation)
        for action in decision.actions:
            if not await self._carry_out(action, situation):
                return again(0)  # the world is otherwise than we thought, and the ledgers know by now
        return DONE if decision.after is None else again(decision.after)

    async def _carry_out(self, action: Action, situation: Situation) -> bool:
        """Does one thing; False where the rest is to be decided anew."""
        match action:
            case CreateService():
                return await self._create(self._world.services, Service, _service(situation, self._world), situation)
            case CreatePod(address):
                return await self._create(self._world.pods, Pod, self._pod(situation, address), situation)
            case NoAddress(service):
                self._tell_no_address(service, situation)
            case Release():
                return await self._release(situation)
            case Record() | Retry():
                await self._write_down(action, situation)
            case Adopt(claim):
                _log.warning("a Pod tells of a claim that its Device has lost", job=claim.job.name)
                await self._write(situation.device, lambda device: msgspec.structs.replace(device.status, claim=claim))
            case GiveUp(pod, why):
                await self._give_up(pod, why)
            case EndPod(pod):
                await self._end(pod)
            case RemovePod(pod, at_once):
                return await self._remove_pod(pod, at_once=at_once)
            case RemoveService(service):
                await self._remove_service(service)
        return True

    async def _create(self, ledger: Ledger[R], kind: type[R], body: RawObject, situation: Situation) -> bool:
        api: Api[Any] = self._world.client.of(kind)
        try:
            ledger.wrote(await api.create(body))
        except AlreadyExists:
            found = await ledger.cache.fetch(Key(body["metadata"]["namespace"], body["metadata"]["name"]))
            if found is not None and Mark.DEVICE not in found.metadata.annotations:
                await self._failed(in_the_way(found), situation)
            elif found is not None:
                ledger.wrote(found)
            return False
        except _REFUSALS as error:
            self._tell(situation, f"{kind.kind.kind}CreationFailed", error.status.message)
            await self._failed(f"the {kind.kind.kind} cannot be made: {error.status.message}", situation)
            return False
        return True

    def _pod(self, situation: Situation, address: str) -> RawObject:
        job, claim = _job(situation), _claim(situation)
        # A digest that was found for another spec than the present one says nothing of this one.
        told = job.status.digest if job.status.observed_generation == job.metadata.generation else ""
        state, first = self._digests.get(claim.job.uid, ("", ""))
        digest = told or (first if state == claim.state else "")  # the status may tell it a few seconds later
        return pod_for(job, situation.device, claim, address=address, digest=digest, settings=self._world.settings)

    async def _failed(self, message: str, situation: Situation) -> None:
        await self._write_down(after_failure(_claim(situation), message, situation), situation)

    async def _release(self, situation: Situation) -> bool:
        claim = _claim(situation)
        # The cache may be behind: a claim is never taken from a Pod.
        found = await self._world.pods.cache.fetch(pod_key(claim))
        if found is not None and made_for(found, situation.device, claim):
            self._world.pods.wrote(found)
            return False
        await self._write(situation.device, lambda device: msgspec.structs.replace(device.status, claim=None))
        return True

    async def _write_down(self, action: Record | Retry, situation: Situation) -> None:
        now, report = situation.now, action.report
        if isinstance(action, Retry):
            claim = action.claim
            await self._write(situation.device, lambda device: retried(device, claim, report))
        else:
            pod = action.pod
            spec = situation.job.spec if situation.job else FlashJobSpec()
            forced = pod.variable(Variable.FORCE) == "true" if pod else bool(spec.force)
            firmware = pod.variable(Variable.FIRMWARE) if pod else spec.firmware
            await self._write(
                situation.device,
                lambda device: record(
                    device, action.claim, report, firmware=firmware, forced=forced, now=now, living=self._world.lives
                ),
            )
            self._note_digest(action.claim, report)
        if not report.outcome.good:
            self._tell(situation, "PodFailed", f"{situation.device.metadata.name}: {report.outcome}: {report.message}")

    def _note_digest(self, claim: Claim, report: Report) -> None:
        state, _ = self._digests.get(claim.job.uid, ("", ""))
        if report.digest and state != claim.state:
            if len(self._digests) >= _MOST_DIGESTS:
                self._digests.clear()
            self._digests[claim.job.uid] = claim.state, report.digest

    async def _write(self, seen: Device, change: Callable[[Device], DeviceStatus]) -> None:
        """Writes the Device's status, unless somebody changed the Device since."""
        device = self._world.devices.get(seen.key) or seen
        self._world.devices.wrote(await self._world.client.of(Device).write_status(device, change(device)))

    async def _give_up(self, pod: Pod, why: str) -> None:
        change = {"metadata": {"annotations": {Mark.GIVEN_UP.value: why[:1024]}}}
        try:
            self._world.pods.wrote(await self._world.client.of(Pod).patch(pod.key, change, uid=pod.metadata.uid))
        except NotFound:
            self._world.pods.deleted(pod)

    async def _end(self, pod: Pod) -> None:
        try:
            await self._world.client.of(Pod).delete(pod.key, uid=pod.metadata.uid)
        except NotFound:
            self._world.pods.deleted(pod)

    async def _remove_pod(self, pod: Pod, *, at_once: bool) -> bool:
        """Deletes a Pod and takes our finalizer off it; False where it has changed in a way that we did not see."""
        api, metadata = self._world.client.of(Pod), pod.metadata
        try:
            # One that is being deleted already waits for its node, which has nothing more to do for it.
            await api.delete(pod.key, uid=metadata.uid, grace_seconds=0 if at_once or pod.deleting else None)
            if OUTCOME_FINALIZER in metadata.finalizers:
                path = f"/metadata/finalizers/{metadata.finalizers.index(OUTCOME_FINALIZER)}"
                change = [{"op": "test", "path": path, "value": OUTCOME_FINALIZER}, {"op": "remove", "path": path}]
                await api.patch(pod.key, change, uid=metadata.uid)
        except Invalid:
            found = await self._world.pods.cache.fetch(pod.key)  # somebody else changed the finalizers
            if found is not None:
                self._world.pods.wrote(found)
                return False
        except NotFound:
            pass
        if set(metadata.finalizers) <= {OUTCOME_FINALIZER}:
            self._world.pods.deleted(pod)
        return True

    async def _remove_service(self, service: Service) -> None:
        left = None
        try:
            await self._world.client.of(Service).delete(service.key, uid=service.metadata.uid)
            if service.metadata.finalizers:  # it stays for a while, and its address is not to be told any more
                left = await self._world.services.cache.fetch(service.key)
        except NotFound:
            pass
        if left is None:
            self._world.services.deleted(service)
        else:
            self._world.services.wrote(left)

    async def _node(self, name: str) -> NodeState:
        try:
            node = await self._world.client.of(Node).get(Key("", name))
        except NotFound:
            return NodeState.GONE
        return NodeState.GONE if node.out_of_service else NodeState.THERE

    def _tell_no_address(self, service: Service, situation: Situation) -> None:
        waited = f"has had no address for {timeout_of(_job(situation).spec)} s and is waited for"
        self._tell(
            situation,
            "ServiceIPTimeout",
            f"{situation.device.metadata.name}: Service {service.metadata.name} {waited}",
        )

    def _tell(self, situation: Situation, reason: str, message: str) -> None:
        about = situation.job if situation.job is not None else situation.device
        self._world.recorder.record(about, "Warning", reason, message)


def add_flashes(manager: Manager, world: World, *, original: Original | None = None) -> Controller:
    """Adds the loop for Devices to the manager."""
    return manager.controller(
        "flashes",
        Flashes(world, original=original).reconcile,
        For(world.devices.cache, when=anything),
        Maps(world.pods.cache, _device_of),
        Maps(world.services.cache, _device_of),
        Maps(world.jobs, lambda job: _claimed_by(job, world), when=intent_changed),
        workers=WORKERS,
    )


def _device_of(obj: Pod | Service) -> tuple[Key, ...]:
    name = obj.metadata.annotations.get(Mark.DEVICE)
    # Anybody can write an annotation; what cannot be the name of a Device is no matter of ours.
    return (Key("", name),) if name and device_name(name) == name else ()


def _claimed_by(job: FlashJob, world: World) -> list[Key]:
    return [device.key for device in world.devices.cache.by(BY_CLAIM, job.metadata.uid)]


def _service(situation: Situation, world: World) -> RawObject:
    return service_for(_job(situation), situation.device, _claim(situation), world.settings)


def _claim(situation: Situation) -> Claim:
    claim = situation.device.status.claim
    assert claim is not None, "nothing is started or released without a claim"  # noqa: S101
    return claim


def _job(situation: Situation) -> FlashJob:
    assert situation.job is not None, "nothing is made without a job"  # noqa: S101
    return situation.job


async def _vouch(ledger: Ledger[R], key: Key) -> None:
    """Asks the server, once, for an object that a process before us made and may have replaced or ended since."""
    seen = ledger.get(key)
    if seen is None or ledger.vouched(key):
        return
    found = await ledger.cache.fetch(key)
    if found is None:
        ledger.deleted(seen)
    else:
        ledger.wrote(found)


def _newest(ledger: Ledger[R], device: str) -> tuple[R, ...]:
    """What is marked for a device, as new as we know it, without what is known to be gone."""
    found = (ledger.get(obj.key) for obj in ledger.cache.by(BY_DEVICE, device))
    return tuple(obj for obj in found if obj is not None)


def _with(objects: tuple[R, ...], one: R | None, device: Device) -> tuple[R, ...]:
    """The objects and that one, where it is marked for the same device and not among them yet."""
    marked = one is not None and one.metadata.annotations.get(Mark.DEVICE) == device.metadata.name
    if one is None or not marked or any(one.key == each.key for each in objects):
        return objects
    return (*objects, one)
