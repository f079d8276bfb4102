"""The loop for Devices: takes one claim through Service, address, Pod and outcome, and cleans up.

`decisions` says what is to be done; here it is done. Every write is conditional, and what is there already, or gone
already, is as good as done. It never claims a device and never writes to a FlashJob: that is the loop for FlashJobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from edgewright.api.device import Claim, Device, DeviceStatus, JobReference, Mark
from edgewright.api.endpoint import endpoint_problem
from edgewright.api.flash_pod import Report, Variable
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.api.node import Node
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.context import BY_CLAIM, Context, marked_for, with_one
from edgewright.controllers.flashjob.decisions import (
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
from edgewright.controllers.flashjob.events import telling
from edgewright.controllers.flashjob.manifests import (
    OUTCOME_FINALIZER,
    endpoint_of,
    firmware_of,
    made_for,
    overrides,
    pod_for,
    pod_key,
    service_for,
    service_key,
)
from edgewright.controllers.flashjob.names import device_name
from edgewright.controllers.flashjob.outcomes import claim_of, record, retried, set_aside
from edgewright.controllers.flashjob.predecessor import Predecessor
from edgewright.controllers.flashjob.reasons import Reason, creation_failed, fetch_failed, removal_failed
from edgewright.controllers.flashjob.starts import Starts
from edgewright.controllers.flashjob.triggers import claimed_for, every_claimed
from edgewright.controllers.flashjob.validation import problems
from edgewright.controllers.ledger import Ledger
from edgewright.runtime import logs
from edgewright.runtime.client import Api
from edgewright.runtime.controller import DONE, Controller, For, Maps, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, ObjectMeta, RawObject, Resource
from edgewright.runtime.predicates import anything, intent_changed

WORKERS: Final = 16
"""How many devices are worked on at once; each waits for the API server most of the time."""

R = TypeVar("R", bound=Resource)

_log = logs.get("controllers.flashjob.flashes")

_MAX_READ: Final = 64
"""Of so many jobs the spec is kept as it was read."""
_MAX_DIGESTS: Final = 1000
"""Of so many jobs the first digest is kept."""

_REFUSALS: Final = (BadRequest, Forbidden, Invalid, NotFound)
"""How the server says that it will never create an object; but a quota, which is said so too, has room later."""


@dataclass(frozen=True)
class _Reading:
    """What is asked of a job's spec in every pass over one of its devices: a job may name thousands."""

    generation: int
    uuids: frozenset[str]
    accepted: bool


class Flashes:
    """The loop for Devices; it starts nothing while another operator works on the same devices."""

    def __init__(self, context: Context, *, predecessor: Predecessor | None = None) -> None:
        self._context = context
        self._starts = Starts(context)
        self._predecessor = predecessor
        self._read: dict[str, _Reading] = {}
        self._digests: dict[str, tuple[tuple[str, bool], str]] = {}
        """By job: its latest state, and what the firmware stood for when the first device ended in it."""

    async def reconcile(self, key: Key) -> Result:
        """One pass for one Device: what is to be done now, in order, and when to look again."""
        pods, services = self._marked(key.name)
        device = self._context.devices.get(key)
        if not pods and not services and (device is None or device.status.claim is None):
            return DONE
        orphan = Device(metadata=ObjectMeta(name=key.name))
        if device is None:
            # What is marked for it may be ended. That it is gone, is asked of the server: its cache may be behind.
            device = await self._fetch(self._context.devices, key, about=orphan)
            if device is not None:
                self._context.devices.wrote(device)
        if device is None:
            situation = Situation(device=orphan, pods=pods, services=services, **self._moment())
            return await self._act(situation, decide_orphans)
        if device.status.claim is not None and not self._context.watches(device.status.claim.job.namespace):
            return DONE  # an operator of another namespace has it
        return await self._act(await self._situation(device), decide)

    # --- seeing ----------------------------------------------------------------------------------------------------

    def _marked(self, device: str) -> tuple[tuple[Pod, ...], tuple[Service, ...]]:
        return marked_for(self._context.pods, device), marked_for(self._context.services, device)

    def _moment(self) -> dict[str, Any]:
        return {"now": self._context.clock.now(), "settings": self._context.settings}

    async def _situation(self, device: Device) -> Situation:
        claim = device.status.claim
        job = None if claim is None else await self._job(claim.job, device)
        pods, services = self._marked(device.metadata.name)
        strangers = frozenset([pod.metadata.uid for pod in pods if await self._strange(pod, device)])
        if claim is None:
            return Situation(device=device, pods=pods, services=services, strangers=strangers, **self._moment())
        pod, service = self._context.pods.get(pod_key(claim)), self._context.services.get(service_key(claim))
        held = pod is None and self._predecessor is not None and await self._predecessor.blocks() is not None
        stopped = pod is None and job is not None and self._starts.stop(job, self._context.clock.now()) is not None
        return Situation(
            device=device,
            job=job,
            named=job is not None and claim.uuid in self._reading(job).uuids,
            accepted=job is not None and self._acceptable(job, device),
            held=held or stopped,
            until=self._starts.closes(job, self._context.clock.now()) if job is not None and pod is None else None,
            pod=pod,
            service=service,
            pods=with_one(pods, pod, device),
            services=with_one(services, service, device),
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
        return await self._job(its.job, device) is None

    async def _job(self, reference: JobReference, device: Device) -> FlashJob | None:
        """The job, or None where it is gone; that it is, is asked of the server: a cache may be behind."""
        if not reference.name:
            return None
        key = Key(reference.namespace, reference.name)
        job = self._context.jobs.get(key)
        if job is None or job.metadata.uid != reference.uid:
            with telling(self._context.recorder, device, fetch_failed(FlashJob.kind)):
                job = await self._context.jobs.fetch(key)
        return job if job is not None and job.metadata.uid == reference.uid else None

    async def _fetch(self, ledger: Ledger[R], key: Key, *, about: Resource) -> R | None:
        """An object as the server has it now; that it may not be read is told."""
        with telling(self._context.recorder, about, fetch_failed(ledger.cache.kind)):
            return await ledger.cache.fetch(key)

    def _acceptable(self, job: FlashJob, device: Device) -> bool:
        """Whether the spec as it is now can be acted on, and a flash Pod be sent to where the device is by now."""
        where = endpoint_of(job.spec, device)
        allowed = not overrides(job.spec, device) and self._starts.not_allowed(job, device) is None
        known = self._reading(job).accepted
        return allowed and known and not endpoint_problem(where, local=self._context.settings.local)

    def _reading(self, job: FlashJob) -> _Reading:
        metadata = job.metadata
        known = self._read.get(metadata.uid)
        if known is None or known.generation != metadata.generation:
            if len(self._read) >= _MAX_READ:
                self._read.clear()
            # A spec that was accepted when the device was claimed may have been changed to one that never would be.
            accepted = not problems(job, self._context.settings)
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
                return requeue_after(0)  # the world is otherwise than we thought, and the ledgers know by now
        return DONE if decision.after is None else requeue_after(decision.after)

    async def _carry_out(self, action: Action, situation: Situation) -> bool:
        """Does one thing; False where the rest is to be decided again."""
        match action:
            case CreateService():
                return await self._create(
                    self._context.services, Service, _service(situation, self._context), situation
                )
            case CreatePod(address):
                # What was stopped since this was decided gives its claim back in the next pass.
                stopped = self._starts.stop(_job(situation), self._context.clock.now()) is not None
                pod = None if stopped else self._pod(situation, address)
                return pod is not None and await self._create(self._context.pods, Pod, pod, situation)
            case NoAddress():
                return await self._set_aside(action, situation)
            case Release():
                return await self._release(situation)
            case Record() | Retry():
                await self._write_down(action, situation)
            case Adopt(claim):
                _log.warning("a Pod reports for a claim that its Device no longer has", job=claim.job.name)
                await self._write(situation, lambda device: msgspec.structs.replace(device.status, claim=claim))
            case GiveUp(pod, why):
                with telling(self._context.recorder, _about(situation), removal_failed(Pod.kind, job_goes=True)):
                    await self._give_up(pod, why)
            case EndPod(pod):
                with telling(self._context.recorder, _about(situation), removal_failed(Pod.kind, job_goes=True)):
                    await self._end(pod)
            case RemovePod(pod, at_once):
                with telling(self._context.recorder, _about(situation), removal_failed(Pod.kind, job_goes=False)):
                    return await self._remove_pod(pod, at_once=at_once)
            case RemoveService(service):
                goes = situation.job is not None and situation.job.deleting
                with telling(self._context.recorder, _about(situation), removal_failed(Service.kind, job_goes=goes)):
                    await self._remove_service(service)
        return True

    async def _create(self, ledger: Ledger[R], kind: type[R], body: RawObject, situation: Situation) -> bool:
        api: Api[Any] = self._context.client.of(kind)
        try:
            ledger.wrote(await api.create(body))
        except AlreadyExists:
            key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
            found = await self._fetch(ledger, key, about=_about(situation))
            if found is not None and Mark.DEVICE not in found.metadata.annotations:
                await self._failed(in_the_way(found), situation)
            elif found is not None:
                ledger.wrote(found)
            return False
        except ApiError as error:
            self._tell(situation, creation_failed(kind.kind), error.status.message)
            why = f"the {kind.kind.kind} cannot be created: {error.status.message}"
            if isinstance(error, _REFUSALS) and not _is_quota(error):
                await self._failed(why, situation)
            else:
                claim = set_aside(_claim(situation), now=situation.now, timing=situation.settings.timing, why=why)
                await self._write(situation, lambda device: msgspec.structs.replace(device.status, claim=claim))
            return False
        return True

    def _pod(self, situation: Situation, address: str) -> RawObject:
        job, claim = _job(situation), _claim(situation)
        # A digest that was found for another spec than the present one says nothing of this one.
        told = job.status.digest if job.status.observed_generation == job.metadata.generation else ""
        # The status may tell it a few seconds later. What is forced asks again what the tag stands for.
        of, first = self._digests.get(claim.job.uid, (None, ""))
        digest = told or (first if of == (claim.state, bool(job.spec.force)) else "")
        return pod_for(job, situation.device, claim, address=address, digest=digest, settings=self._context.settings)

    async def _failed(self, message: str, situation: Situation) -> None:
        await self._write_down(after_failure(_claim(situation), message, situation), situation)

    async def _release(self, situation: Situation) -> bool:
        claim = _claim(situation)
        # The cache may be behind: a claim is never taken from a Pod.
        found = await self._fetch(self._context.pods, pod_key(claim), about=_about(situation))
        if found is not None and made_for(found, situation.device, claim):
            self._context.pods.wrote(found)
            return False
        await self._write(situation, lambda device: msgspec.structs.replace(device.status, claim=None))
        if claim.waits:
            self._context.rest(claim, situation.device.metadata.name)
        return True

    async def _set_aside(self, action: NoAddress, situation: Situation) -> bool:
        """Gives the place of a claim to others; False where its Service is otherwise than we thought.

        The claim is written before the Service goes: a crash in between leaves one that nobody needs, and no Pod is
        ever made for a Service that is going.
        """
        service, claim = action.service, action.claim
        # The cache may be behind: an address that comes at the last moment is taken.
        found = await self._fetch(self._context.services, service.key, about=_about(situation))
        if found is None:
            self._context.services.deleted(service)
            return False
        if found.metadata.uid != service.metadata.uid or found.deleting or found.external_address:
            self._context.services.wrote(found)
            return False
        known = self._context.device(situation.device.metadata.name)
        if known is None or known.status.claim != situation.device.status.claim:
            return False  # somebody took the claim away meanwhile
        await self._write(situation, lambda device: msgspec.structs.replace(device.status, claim=claim))
        waited = f"has had no address for {_job(situation).spec.timeout} s"
        self._tell(
            situation,
            Reason.SERVICE_IP_TIMEOUT,
            f"{situation.device.metadata.name}: Service {service.metadata.name} {waited}; others go first, and it is"
            f" tried again at {claim.not_before:%H:%M:%S}",
        )
        return True

    async def _write_down(self, action: Record | Retry, situation: Situation) -> None:
        now, report = situation.now, self._context.about(situation.device, action.report)
        pod = action.pod
        spec = situation.job.spec if situation.job else FlashJobSpec()
        firmware = firmware_of(pod) if pod else spec.firmware
        if isinstance(action, Retry):
            claim = action.claim
            if pod is not None:
                claim = msgspec.structs.replace(claim, last_started=pod.metadata.creation_timestamp)
            await self._write(situation, lambda device: retried(device, claim, report, firmware=firmware, now=now))
        else:
            forced = pod.variable(Variable.FORCE) == "true" if pod else bool(spec.force)
            await self._write(
                situation,
                lambda device: record(
                    device,
                    action.claim,
                    report,
                    firmware=firmware,
                    forced=forced,
                    now=now,
                    living=self._context.keeps,
                    made=pod.metadata.creation_timestamp if pod else None,
                    quarantine_after=self._context.quarantine_after(action.claim.rollout),
                ),
            )
            self._note_digest(action.claim, report, forced=forced)
            self._context.metrics.flashed(situation.device, action.claim, report, now=now)
        if pod is not None:
            self._context.metrics.attempted(situation.device, report, starting=pod.starting)
        if not report.outcome.good:
            self._tell(
                situation, Reason.POD_FAILED, f"{situation.device.metadata.name}: {report.outcome}: {report.message}"
            )

    def _note_digest(self, claim: Claim, report: Report, *, forced: bool) -> None:
        of, _ = self._digests.get(claim.job.uid, (None, ""))
        if report.digest and of != (claim.state, forced):
            if len(self._digests) >= _MAX_DIGESTS:
                self._digests.clear()
            self._digests[claim.job.uid] = (claim.state, forced), report.digest

    async def _write(self, situation: Situation, change: Callable[[Device], DeviceStatus]) -> None:
        """Writes the Device's status, unless somebody changed the Device since."""
        device = self._context.devices.get(situation.device.key) or situation.device
        with telling(self._context.recorder, _about(situation), Reason.STATUS_UPDATE_FAILED):
            written = await self._context.client.of(Device).write_status(device, change(device))
        self._context.devices.wrote(written)

    async def _give_up(self, pod: Pod, why: str) -> None:
        change = {"metadata": {"annotations": {Mark.GIVEN_UP.value: why[:1024]}}}
        try:
            self._context.pods.wrote(await self._context.client.of(Pod).patch(pod.key, change, uid=pod.metadata.uid))
        except NotFound:
            self._context.pods.deleted(pod)

    async def _end(self, pod: Pod) -> None:
        try:
            await self._context.client.of(Pod).delete(pod.key, uid=pod.metadata.uid)
        except NotFound:
            self._context.pods.deleted(pod)

    async def _remove_pod(self, pod: Pod, *, at_once: bool) -> bool:
        """Deletes a Pod and takes our finalizer off it; False where it has changed in a way that we did not see."""
        api, metadata = self._context.client.of(Pod), pod.metadata
        try:
            # One that is being deleted already waits for its node, which has nothing more to do for it.
            await api.delete(pod.key, uid=metadata.uid, grace_seconds=0 if at_once or pod.deleting else None)
            if OUTCOME_FINALIZER in metadata.finalizers:
                path = f"/metadata/finalizers/{metadata.finalizers.index(OUTCOME_FINALIZER)}"
                change = [{"op": "test", "path": path, "value": OUTCOME_FINALIZER}, {"op": "remove", "path": path}]
                await api.patch(pod.key, change, uid=metadata.uid)
        except Invalid:
            found = await self._context.pods.cache.fetch(pod.key)  # somebody else changed the finalizers
            if found is not None:
                self._context.pods.wrote(found)
                return False
        except NotFound:
            pass
        if set(metadata.finalizers) <= {OUTCOME_FINALIZER}:
            self._context.pods.deleted(pod)
        return True

    async def _remove_service(self, service: Service) -> None:
        left = None
        try:
            await self._context.client.of(Service).delete(service.key, uid=service.metadata.uid)
            if service.metadata.finalizers:  # it stays for a while, and its address is not to be told any more
                left = await self._context.services.cache.fetch(service.key)
        except NotFound:
            pass
        if left is None:
            self._context.services.deleted(service)
        else:
            self._context.services.wrote(left)

    async def _node(self, name: str) -> NodeState:
        try:
            node = await self._context.client.of(Node).get(Key("", name))
        except NotFound:
            return NodeState.GONE
        return NodeState.GONE if node.out_of_service else NodeState.THERE

    def _tell(self, situation: Situation, reason: Reason, message: str) -> None:
        self._context.recorder.record(_about(situation), reason.severity, reason, message)


def add_flashes(manager: Manager, context: Context, *, predecessor: Predecessor | None = None) -> Controller:
    """Adds the loop for Devices to the manager."""
    return manager.controller(
        "flashes",
        Flashes(context, predecessor=predecessor).reconcile,
        For(context.devices.cache, when=anything),
        Maps(context.pods.cache, _device_of),
        Maps(context.services.cache, _device_of),
        Maps(context.jobs, lambda job: _claimed_by(job, context), when=intent_changed),
        Maps(context.rollouts, lambda rollout: claimed_for(rollout, context), when=intent_changed),
        Maps(context.fleets, lambda fleet: every_claimed(fleet, context), when=intent_changed),
        workers=WORKERS,
    )


def _device_of(obj: Pod | Service) -> tuple[Key, ...]:
    name = obj.metadata.annotations.get(Mark.DEVICE)
    # Anybody can write an annotation; what cannot be the name of a Device is no matter of ours.
    return (Key("", name),) if name and device_name(name) == name else ()


def _claimed_by(job: FlashJob, context: Context) -> list[Key]:
    return context.devices.cache.keys(BY_CLAIM, job.metadata.uid)


def _service(situation: Situation, context: Context) -> RawObject:
    return service_for(_job(situation), situation.device, _claim(situation), context.settings)


def _is_quota(error: ApiError) -> bool:
    """Whether there is only no room in the namespace now; what a quota always refuses is told otherwise."""
    return isinstance(error, Forbidden) and "exceeded quota" in error.status.message


def _about(situation: Situation) -> FlashJob | Device:
    """What people look at when something goes wrong: the job, where there is one."""
    return situation.job if situation.job is not None else situation.device


def _claim(situation: Situation) -> Claim:
    claim = situation.device.status.claim
    assert claim is not None, "nothing is started or released without a claim"  # noqa: S101
    return claim


def _job(situation: Situation) -> FlashJob:
    assert situation.job is not None, "nothing is made without a job"  # noqa: S101
    return situation.job
