"""A world without a server for tests of the decisions: a fleet, the FlashJobs of a rollout, and a clock.

`World.carry_out` does what the loop does with actions; `start` and `end` stand for those over FlashJobs and Devices.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from edgewright.api.device import (
    QUARANTINED,
    STALE,
    Claim,
    Device,
    DeviceSpec,
    DeviceStatus,
    Firmware,
    FlashRecord,
    JobReference,
    LastFlash,
)
from edgewright.api.firmwarerollout import (
    CLOSED_ANNOTATION,
    REQUESTS_ANNOTATION,
    RETRY_ANNOTATION,
    STOPPED_ANNOTATION,
    FirmwareRollout,
    FirmwareRolloutSpec,
    FirmwareRolloutStatus,
)
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import Fleet, FleetSpec
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.rollout.actions import (
    Action,
    CloseJob,
    CreateJob,
    CreateRecall,
    DeleteJob,
    DeleteRollout,
    ExtendJob,
    HaltJob,
    LimitJob,
    NoteRequests,
    ResumeJob,
)
from edgewright.controllers.rollout.decisions import Decision, decide
from edgewright.controllers.rollout.soak import Watch
from edgewright.runtime.objects import Condition, ObjectMeta

BEGIN = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
GRACE = 300.0
FIRMWARE = "registry.example/esp32:2.0.0"
BEFORE = Firmware(reference="registry.example/esp32:1.0.0", digest="sha256:" + "1" * 64, version="1.0.0")
NEW_DIGEST = "sha256:" + "2" * 64

CANARY = [{"name": "canary", "size": 2}]

replace = msgspec.structs.replace


def spec_of(**given: Any) -> FirmwareRolloutSpec:
    """A spec, from fields as YAML has them."""
    base = {} if "recall" in given or "firmwares" in given else {"firmware": FIRMWARE, "version": "2.0.0"}
    return msgspec.convert({**base, **given}, FirmwareRolloutSpec)


def rollout_of(name: str = "rollout", *, uid: str = "", **given: Any) -> FirmwareRollout:
    """A rollout, from fields as YAML has them."""
    metadata = ObjectMeta(
        name=name, namespace="default", uid=uid or f"uid-{name}", generation=1, creation_timestamp=BEGIN
    )
    return FirmwareRollout(metadata=metadata, spec=spec_of(**given))


def device_of(
    name: str,
    *,
    version: str = "1.0.0",
    type: str = "esp32",  # noqa: A002 - as the field is called
    labels: dict[str, str] | None = None,
    created: datetime = BEGIN - timedelta(days=1),
    allowed: tuple[str, ...] = (),
) -> Device:
    """A Device that was proven to run 1.0.0."""
    return Device(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels=labels or {}, creation_timestamp=created),
        spec=DeviceSpec(type=type, endpoint=f"{name}.example", allowed_namespaces=allowed),
        status=DeviceStatus(version=version, application="thermo", firmware=BEFORE),
    )


def fleet_of(number: int, **given: Any) -> list[Device]:
    """Devices d000, d001 …"""
    return [device_of(f"d{place:03}", **given) for place in range(number)]


class World:
    """A fleet, a rollout and its FlashJobs."""

    def __init__(self, rollout: FirmwareRollout, devices: Iterable[Device]) -> None:
        self.rollout: FirmwareRollout | None = rollout
        self.devices = {device.metadata.name: device for device in devices}
        self.jobs: dict[str, FlashJob] = {}
        self.recalls: dict[str, FirmwareRollout] = {}
        self.now = BEGIN
        self.observed: set[str] = set()
        """The devices that something sees now and then, as `see` says."""
        self.since: datetime | None = None
        """Since when the operator looks at the rollout."""
        self.fleet: Fleet | None = None
        self.did: list[Action] = []
        self._uids = itertools.count(1)

    # --- the loop over rollouts ------------------------------------------------------------------------------------

    def decide(self) -> Decision:
        """What the rollout does next."""
        assert self.rollout is not None
        return decide(
            self.rollout,
            self.devices.values(),
            self.jobs.values(),
            self.now,
            fleet=self.fleet,
            recalls=self.recalls,
            observed_by="Instances",
            watch=Watch(
                now=self.now,
                observes=lambda device: device.metadata.name in self.observed,
                since=self.since,
                grace=GRACE,
            ),
        )

    def step(self, upto: int | None = None) -> Decision:
        """Decides and does so much of it, and shows the rest where nothing was to be done."""
        decision = self.decide()
        for action in decision.actions[:upto]:
            self.carry_out(action)
        if not decision.actions and self.rollout is not None:
            self.rollout = replace(self.rollout, status=decision.status)
        return decision

    def settle(self) -> FirmwareRolloutStatus:
        """Decides until there is nothing to do; the status then."""
        for _ in range(60):
            decision = self.step()
            if self.rollout is None or not decision.actions:
                return decision.status
        raise AssertionError(f"it never settles: {decision.actions}")

    def carry_out(self, action: Action) -> None:
        """Does what the loop does."""
        self.did.append(action)
        match action:
            case CreateJob():
                name = action.job.metadata.name
                assert name not in self.jobs, f"{name} is there already"
                metadata = replace(
                    action.job.metadata, uid=f"job-{next(self._uids)}", creation_timestamp=self.now, generation=1
                )
                self.jobs[name] = replace(action.job, metadata=metadata)
            case ExtendJob():
                self._change(action.job, uuid=action.uuids)
            case HaltJob():
                self._change(action.job, paused=True)
                self._mark(action.job, STOPPED_ANNOTATION, msgspec.json.encode(action.stop).decode())
            case ResumeJob():
                self._change(action.job, paused=None)
                self._mark(action.job, STOPPED_ANNOTATION, None)
            case LimitJob():
                self._change(action.job, max_concurrent=action.max_concurrent)
            case NoteRequests():
                self._mark(action.job, REQUESTS_ANNOTATION, msgspec.json.encode(action.requests).decode())
            case CloseJob():
                self._mark(action.job, CLOSED_ANNOTATION, msgspec.json.encode(action.closed).decode())
            case DeleteJob():
                del self.jobs[action.job.metadata.name]
            case CreateRecall():
                made = action.rollout
                self.recalls[made.metadata.name] = replace(
                    made, metadata=replace(made.metadata, uid=f"uid-{made.metadata.name}", creation_timestamp=self.now)
                )
            case DeleteRollout():
                self.rollout = None

    def _change(self, job: FlashJob, **spec: Any) -> None:
        known = self.jobs[job.metadata.name]
        metadata = replace(known.metadata, generation=known.metadata.generation + 1)
        self.jobs[job.metadata.name] = replace(known, spec=replace(known.spec, **spec), metadata=metadata)

    def _mark(self, job: FlashJob, key: str, value: str | None) -> None:
        known = self.jobs[job.metadata.name]
        marks = {each: text for each, text in known.metadata.annotations.items() if each != key}
        if value is not None:
            marks[key] = value
        metadata = replace(known.metadata, annotations=marks)
        self.jobs[job.metadata.name] = replace(known, metadata=metadata)

    # --- the loops over FlashJobs and Devices ----------------------------------------------------------------------

    def job_of(self, name: str) -> FlashJob | None:
        """The job that would start a device now: one that names it, is not paused and has no outcome on it."""
        device = self.devices[name]
        for job in sorted(self.jobs.values(), key=lambda job: job.metadata.uid):
            if name not in job.spec.uuids or job.spec.paused:
                continue
            record = device.status.record_of(job.metadata.uid)
            if record is None or record.state != state_of(job.spec):
                return job
        return None

    def startable(self) -> list[str]:
        """The devices that a FlashJob would start now, as the admission of starts has it."""
        if self.fleet is not None and self.fleet.spec.frozen:
            return []
        return [
            name
            for name, device in self.devices.items()
            if device.status.claim is None
            and not any(each.type == QUARANTINED and each.status == "True" for each in device.status.conditions)
            and self.job_of(name) is not None
        ]

    def start(self, name: str) -> None:
        """Claims a device for its job."""
        job = self.job_of(name)
        assert job is not None
        metadata = job.metadata
        reference = JobReference(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
        rollout = metadata.owner_references[0].uid
        claim = Claim(job=reference, uuid=name, state=state_of(job.spec), since=self.now, rollout=rollout)
        self.status(name, claim=claim)

    def end(self, name: str, outcome: str = Outcome.SUCCEEDED) -> None:
        """Ends the flash of a device that is claimed."""
        device = self.devices[name]
        claim = device.status.claim
        assert claim is not None
        job = next((job for job in self.jobs.values() if job.metadata.uid == claim.job.uid), None)
        version = job.spec.version if job is not None else "2.0.0"
        reference = job.spec.firmware if job is not None else FIRMWARE
        good = Outcome(outcome).good
        digest = BEFORE.digest if version == BEFORE.version else NEW_DIGEST
        record = FlashRecord(
            job=claim.job,
            uuid=name,
            state=claim.state,
            outcome=outcome,
            version=version if good else device.status.version,
            digest=digest,
            time=self.now,
            started=claim.since,
            before=device.status.firmware if outcome == Outcome.SUCCEEDED else None,
            rollout=claim.rollout,
        )
        records = (*(each for each in device.status.records if each.job.uid != claim.job.uid), record)
        last = LastFlash(job=claim.job, outcome=outcome, digest=digest, time=self.now)
        changes: dict[str, Any] = {"claim": None, "records": records, "last_flash": last}
        if good:
            changes |= {
                "version": version,
                "firmware": Firmware(reference=reference, digest=digest, version=version),
                "last_seen": self.now,
            }
        self.status(name, **changes)

    def flash(self, *names: str, outcome: str = Outcome.SUCCEEDED) -> None:
        """Starts and ends the flash of devices; of all that can be started, where none is named."""
        for name in names or self.startable():
            self.start(name)
            self.end(name, outcome)

    # --- what people and time do -----------------------------------------------------------------------------------

    def status(self, name: str, **changes: Any) -> None:
        """Changes the status of a Device."""
        device = self.devices[name]
        self.devices[name] = replace(device, status=replace(device.status, **changes))

    def condition(self, name: str, type_: str, *, holds: bool) -> None:
        """Sets a condition of a Device."""
        others = tuple(each for each in self.devices[name].status.conditions if each.type != type_)
        said = Condition(type=type_, status="True" if holds else "False", reason="Test", last_transition_time=self.now)
        self.status(name, conditions=(*others, said))

    def quarantine(self, name: str, *, holds: bool = True) -> None:
        """Puts a device into quarantine, or releases it."""
        self.condition(name, QUARANTINED, holds=holds)

    def vanish(self, name: str, *, holds: bool = True) -> None:
        """Lets a device disappear, or come back."""
        self.condition(name, STALE, holds=holds)

    def ask(self, **changes: Any) -> None:
        """Changes the spec of the rollout, by fields as YAML has them."""
        assert self.rollout is not None
        raw = {**msgspec.to_builtins(self.rollout.spec), **changes}
        spec = msgspec.convert({key: value for key, value in raw.items() if value is not None}, FirmwareRolloutSpec)
        metadata = replace(self.rollout.metadata, generation=self.rollout.metadata.generation + 1)
        self.rollout = replace(self.rollout, spec=spec, metadata=metadata)

    def freeze(self, *, frozen: bool = True) -> None:
        """Freezes or thaws the fleet."""
        self.fleet = Fleet(metadata=ObjectMeta(name="fleet"), spec=FleetSpec(frozen=frozen, reason="audit", by="ann"))

    def see(self, *names: str) -> None:
        """Lets devices be seen now, in the whole second as the inventory writes it; all, where none is named."""
        for name in names or self.devices:
            self.status(name, last_seen=self.now.replace(microsecond=0))

    def later(self, seconds: float) -> None:
        """Lets time pass."""
        self.now += timedelta(seconds=seconds)

    def wipe(self) -> None:
        """Takes the status of the rollout away."""
        assert self.rollout is not None
        self.rollout = replace(self.rollout, status=FirmwareRolloutStatus())

    def batches(self) -> list[tuple[str, ...]]:
        """The devices of the jobs, in the order of their names, without those of a retry."""
        jobs = sorted(self.jobs.values(), key=lambda job: [int(part) for part in job.metadata.name.split("-")[-3:]])
        return [job.spec.uuids for job in jobs if RETRY_ANNOTATION not in job.metadata.annotations]


def world(number: int = 10, **spec: Any) -> World:
    """A fleet with a rollout on it."""
    return World(rollout_of(**spec), fleet_of(number))
