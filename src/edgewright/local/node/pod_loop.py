"""One pass over one Pod: look at what runs, make the plan, carry it out, tell the API server.

The node's controller calls `reconcile` when a Pod changes, when a shim ends, when a probe changes its mind and when a
wait is over. A pass can break off anywhere and be repeated: what was started is in the Pod's folder.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from datetime import datetime, timedelta

from edgewright.containers import ContainersError
from edgewright.local.node.addresses import PodAddresses
from edgewright.local.node.claims import claim_names, shared_user
from edgewright.local.node.container_start import Machine, Starter
from edgewright.local.node.folders import PODMAN, PROCESS, Attempt, PodRecord
from edgewright.local.node.lifecycle import Halt, NotStarted, Plan, Start, Timing, View, make_plan
from edgewright.local.node.pod_ids import PodIds
from edgewright.local.node.podman_runtime import PodmanRuntime
from edgewright.local.node.pods import Pod
from edgewright.local.node.probes import Probes
from edgewright.local.node.refusals import refusal
from edgewright.local.node.runs import Run, Runs, read_message
from edgewright.local.node.sources import Missing
from edgewright.local.node.status import Shown, pod_status, refused_status
from edgewright.runtime import logs
from edgewright.runtime.cache import Cache
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import DONE, Result, requeue_after
from edgewright.runtime.errors import Conflict, KubernetesError, NotFound
from edgewright.runtime.events import Recorder
from edgewright.runtime.objects import Key, RawObject
from edgewright.runtime.patches import merge_diff

_GONE_GRACE = 2.0  # what a Pod gets whose object is gone already
_REBOOTED = "the machine was started again while the Pod ran, and what ran in it is gone"
_UNKNOWN = "the Pod ran on this node before, which has no record of it any more: it is not run a second time"
_WAITS_FOR_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ContainerCreating"})
"""Why a container may wait without a pass of its own: it is woken when the image is here, or says when to ask again."""
_LATE = "Pod was active on the node longer than the specified deadline"

_log = logs.get("local.node")


class Reconciler:
    """Makes the Pods of one node so as the API server has them."""

    def __init__(
        self,
        client: Client,
        *,
        pods: Cache[Pod],
        runs: Runs,
        starter: Starter,
        probes: Probes,
        recorder: Recorder,
        machine: Machine,
        addresses: PodAddresses,
        boot: str,
        clock: Clock,
        timing: Timing,
        podman: PodmanRuntime | None = None,
    ) -> None:
        self._podman = podman
        self._api = client.of(Pod)
        self._pods = pods
        self._runs = runs
        self._starter = starter
        self._probes = probes
        self._recorder = recorder
        self._machine = machine
        self._addresses = addresses
        self._boot = boot
        self._clock = clock
        self._timing = timing

    async def reconcile(self, key: Key) -> Result:
        """One pass; says when the next one is due at the latest."""
        pod = self._pods.get(key)
        others = [run for run in self._runs.named(key) if pod is None or run.uid != pod.uid]
        waits = [_GONE_GRACE for run in others if not await self._put_out(run)]
        if pod is not None:
            after = await self._pass(pod)
            if after is not None:
                waits.append(after)
        return requeue_after(max(0.0, min(waits))) if waits else DONE

    async def keep_volumes(self) -> None:
        """Brings the ConfigMaps, Secrets and tokens in volumes up to date from time to time, until cancelled."""
        while True:
            await self._clock.sleep(self._timing.refresh)
            try:
                await self._starter.claims.sweep()
            except (OSError, KubernetesError) as error:
                _log.warning("folders of claims that are gone stay for now", error=str(error))
            for run in self._runs:
                pod = self._pods.get(run.key)
                if pod is None or pod.uid != run.uid or pod.ended or pod.deleting or not run.folder.containers():
                    continue
                try:
                    await self._starter.make_volumes(pod, run.record, run.folder)
                except (Missing, OSError, KubernetesError) as error:
                    _log.warning("volumes of the Pod are not up to date", pod=run.key, error=str(error))

    # --- Pods that are gone, refused or lost -------------------------------------------------------------------------

    async def _put_out(self, run: Run) -> bool:
        """Ends what is left of a Pod whose object is gone, and then removes its folder; True when that is done."""
        if not self._end_rest(run):
            return False
        await self._forget(run)
        return True

    def _end_rest(self, run: Run) -> bool:
        """Ends what still runs of a Pod that is over; True when nothing does."""
        attempts = self._runs.attempts(run)
        running = {name: each[0] for name, each in attempts.items() if each and each[0].running}
        self._probes.drop(run.uid)
        if not running:
            return True
        now = self._clock.elapsed()
        run.kill_at = now + _GONE_GRACE if run.kill_at is None else run.kill_at
        for name, attempt in running.items():
            self._runs.signal(run, name, attempt, signal.SIGTERM)
            if now >= run.kill_at:
                self._runs.signal(run, name, attempt, signal.SIGUSR1)
        return False

    async def _remove_contained(self, run: Run) -> None:
        """Removes what podman has of a Pod of which nothing runs any more."""
        if run.record.runtime == PODMAN and self._podman is not None and not run.removed:
            await self._podman.remove(run.uid)
            run.removed = True

    async def _forget(self, run: Run) -> None:
        await self._remove_contained(run)
        self._runs.forget(run)
        self._starter.forget(run.uid)
        await asyncio.to_thread(run.folder.remove)

    async def _take_in(self, pod: Pod) -> Run | None:
        """Begins with a Pod, or says on it why not."""
        host = self._machine.host
        now = self._clock.now()
        if pod.status.get("startTime") or pod.status.get("containerStatuses"):
            status = refused_status(pod, reason="ContainerStatusUnknown", message=_UNKNOWN, host=host, now=now)
            await self._write(pod, None, status)
            return None
        ids = self._machine.ids
        machine = self._machine
        contained = self._starter.contained(pod)
        processes = len(contained) < len(pod.all_containers)
        refused = refusal(
            pod,
            root=os.geteuid() == 0,
            ids=ids,
            commands=machine.commands,
            claims=machine.claims,
            contained=contained,
        )
        if refused is not None:
            self._recorder.record(pod, "Warning", refused.reason, refused.message)
            status = refused_status(pod, reason=refused.reason, message=refused.message, host=host, now=now)
            await self._write(pod, None, status)
            return None
        record = PodRecord(
            uid=pod.uid,
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            boot=self._boot,
            taken_in=now,
            address=await self._contained_address(pod) if contained else self._addresses.give(pod.uid),
            grace=pod.grace,
            user=self._user(pod, ids) if ids is not None and processes else 0,
            runtime=PODMAN if contained else PROCESS,
        )
        return self._runs.take_in(pod, record)

    async def _contained_address(self, pod: Pod) -> str:
        try:
            return await self._podman.address(pod.uid) if self._podman is not None else ""
        except ContainersError as error:
            self._recorder.record(pod, "Warning", "FailedCreatePodSandBox", str(error))
            raise

    def _user(self, pod: Pod, ids: PodIds) -> int:
        """The user of the claim that a Pod has, of a Pod that is to have it too, or else one that nobody has."""
        claims = self._starter.claims
        volumes = pod.spec.get("volumes") or ()
        found = claims.owner(pod.metadata.namespace, volumes)
        if not found and (names := claim_names(pod.metadata.namespace, volumes)):
            found = shared_user(names, ((run.record.user, self._claims_of(run)) for run in self._runs))
        return found or ids.own({run.record.user for run in self._runs} | claims.owners())

    def _claims_of(self, run: Run) -> set[tuple[str, str]]:
        pod = self._pods.get(run.key)
        volumes = (pod.spec.get("volumes") or ()) if pod is not None and pod.uid == run.uid else ()
        return claim_names(run.key.namespace, volumes)

    # --- Pods that are to run ----------------------------------------------------------------------------------------

    async def _pass(self, pod: Pod) -> float | None:
        run = self._runs.get(pod.uid)
        if run is not None and run.written is not None and _newer(run.written, pod):
            pod = run.written  # the cache is behind what we wrote
        if run is not None and pod.ended and not self._end_rest(run):
            return _GONE_GRACE  # somebody else has said that it is over, while it ran
        if run is None or pod.ended:
            if pod.deleting:
                await self._delete(pod)
                return None
            if pod.ended:
                return None
            run = await self._take_in(pod)
            if run is None:
                return None
        halt = self._halt(pod, run)
        attempts, plan = await self._carry_out(pod, run, halt)
        shown = self._shown(pod, run, attempts, plan, halt)
        written = await self._write(pod, run, pod_status(pod, shown))
        if plan.final:
            self._probes.drop(run.uid)
            if pod.deleting and written is not None:
                await self._delete(written)
            elif not pod.deleting:
                await self._remove_contained(run)
            return None
        return self._wait(pod, run, plan, halt)

    async def _carry_out(self, pod: Pod, run: Run, halt: Halt | None) -> tuple[Mapping[str, list[Attempt]], Plan]:
        """Stops and starts what the plan says, until it says nothing new."""
        while True:
            attempts = self._runs.attempts(run)
            self._probes.follow(pod, run.record, attempts)
            plan = make_plan(self._view(pod, run, attempts, halt), self._timing)
            self._stop(pod, run, attempts, plan)
            if not await self._start(pod, run, plan):
                return attempts, plan

    def _view(self, pod: Pod, run: Run, attempts: Mapping[str, list[Attempt]], halt: Halt | None) -> View:
        return View(
            pod=pod,
            attempts=attempts,
            now=self._clock.now(),
            halt=halt,
            started=self._probes.started(run.uid),
            failing=self._probes.failing(run.uid),
        )

    def _halt(self, pod: Pod, run: Run) -> Halt | None:
        now = self._clock.now()
        if pod.metadata.deletion_timestamp is not None:
            # The server has cut off the fraction of a second that would have been the program's.
            return Halt("Deleted", pod.metadata.deletion_timestamp + timedelta(seconds=1))
        if run.lost:
            return Halt("NodeRebooted", now, _REBOOTED)
        ends = _deadline(pod, run)
        if ends is not None and now >= ends:
            return Halt("DeadlineExceeded", ends + timedelta(seconds=pod.grace), _LATE)
        return None

    def _stop(self, pod: Pod, run: Run, attempts: Mapping[str, list[Attempt]], plan: Plan) -> None:
        now = self._clock.now()
        for name in plan.stops:
            attempt = attempts[name][0]
            if self._runs.signal(run, name, attempt, signal.SIGTERM):
                run.stopped_at[name, attempt.number] = now
                self._recorder.record(pod, "Normal", "Killing", f"Stopping container {name}")
            asked = run.stopped_at.get((name, attempt.number), now)
            kill_at = plan.kill_at or asked + timedelta(seconds=pod.grace)
            if now >= kill_at:
                self._runs.signal(run, name, attempt, signal.SIGUSR1)
            else:
                plan.wake_by(kill_at)

    async def _start(self, pod: Pod, run: Run, plan: Plan) -> bool:
        """Starts what is to be started; True where anything was."""
        if not plan.starts or not await self._make_volumes(pod, run):
            return False
        begun = False
        for start in plan.starts:
            name = start.container["name"]
            try:
                shim = await self._starter.start(pod, run.record, run.folder, start)
            except (NotStarted, OSError) as error:
                reason = error.reason if isinstance(error, NotStarted) else "CreateContainerError"
                if isinstance(error, NotStarted) and error.retry is not None:
                    plan.wake_by(self._clock.now() + timedelta(seconds=error.retry))
                if run.problems.get(name) != (reason, str(error)) and reason != "ContainerCreating":
                    self._say_failed(pod, start, reason, str(error))
                run.problems[name] = (reason, str(error))
                continue
            begun = True
            run.problems.pop(name, None)
            run.forget_old(name, start.number)
            self._say_started(pod, run, start, shim)
        return begun

    async def _make_volumes(self, pod: Pod, run: Run) -> bool:
        if run.volumes_made is not None:
            return True
        try:
            await self._starter.make_volumes(pod, run.record, run.folder)
        except (Missing, OSError) as error:
            run.problems[""] = ("FailedMount", str(error))
            self._recorder.record(pod, "Warning", "FailedMount", f"MountVolume.SetUp failed: {error}")
            return False
        run.problems.pop("", None)
        run.volumes_made = self._clock.elapsed()
        return True

    def _say_failed(self, pod: Pod, start: Start, reason: str, message: str) -> None:
        text = f"Failed to pull image: {message}" if reason == "ErrImagePull" else f"Error: {message}"
        self._recorder.record(pod, "Warning", "Failed", text)
        _log.warning("container cannot be started", pod=pod.key, container=start.container["name"], error=message)

    def _say_started(self, pod: Pod, run: Run, start: Start, shim: int | None) -> None:
        name, image = start.container["name"], start.container.get("image", "")
        attempt = run.folder.attempt(name, start.number).read()
        record = self._recorder.record
        record(pod, "Normal", "Pulled", f'Container image "{image}" already present on machine')
        record(pod, "Normal", "Created", f"Created container: {name}")
        if attempt is not None and attempt.end is not None and attempt.end.error:
            record(pod, "Warning", "Failed", f"Error: failed to start container {name}: {attempt.end.error}")
        else:
            record(pod, "Normal", "Started", f"Started container {name}")
        if shim is not None and (attempt is None or attempt.end is not None):
            self._runs.reap(shim)

    # --- what the API server is told ---------------------------------------------------------------------------------

    def _shown(self, pod: Pod, run: Run, attempts: Mapping[str, list[Attempt]], plan: Plan, halt: Halt | None) -> Shown:
        messages = {}
        for container in (*pod.init_containers, *pod.containers):
            for attempt in attempts.get(container["name"], ()):
                if attempt.end is not None:
                    messages[container["name"], attempt.number] = read_message(run, container, attempt)
        for reason, text in plan.waiting.values():
            if reason == "CrashLoopBackOff":
                self._recorder.record(pod, "Warning", "BackOff", text[0].upper() + text[1:])
        told = halt is not None and halt.message and plan.final
        return Shown(
            plan=plan,
            attempts=attempts,
            record=run.record,
            host=self._machine.host,
            now=self._clock.now(),
            ready=self._probes.ready(run.uid),
            started=self._probes.started(run.uid),
            messages=messages,
            problems=_visible(pod, run),
            reason=halt.reason if halt and told else "",
            message=halt.message if halt and told else "",
        )

    async def _write(self, pod: Pod, run: Run | None, status: RawObject) -> Pod | None:
        """Writes the status where it is another; None where the Pod is gone."""
        change = merge_diff(pod.status, status)
        if not change or (run is not None and run.wrote == status):
            return pod
        try:
            written = await self._api.patch(
                pod.key, {"status": change}, resource_version=pod.metadata.resource_version, subresource="status"
            )
        except NotFound:
            return None
        if run is not None:
            run.written, run.wrote = written, status
        return written

    async def _delete(self, pod: Pod) -> None:
        """Lets the object of a Pod go of which nothing runs any more."""
        try:
            await self._api.delete(pod.key, uid=pod.uid, grace_seconds=0)
        except (NotFound, Conflict):
            return  # it is gone, or another one by now

    def _wait(self, pod: Pod, run: Run, plan: Plan, halt: Halt | None) -> float | None:
        """In how many seconds the next pass is due."""
        if plan.stops or any(reason not in _WAITS_FOR_IMAGE for reason, _ in run.problems.values()):
            plan.wake_by(self._clock.now() + timedelta(seconds=self._timing.retry))
        ends = _deadline(pod, run)
        if ends is not None and halt is None:
            plan.wake_by(ends)
        if plan.wake is None:
            return None
        return max(0.0, (plan.wake - self._clock.now()).total_seconds())


def _visible(pod: Pod, run: Run) -> Mapping[str, tuple[str, str]]:
    """The problems by container; one with a volume keeps all of them from being made, as the kubelet shows it."""
    if "" not in run.problems:
        return run.problems
    names = [each["name"] for each in (pod.init_containers or pod.containers)[:1] + pod.containers]
    return dict.fromkeys(names, ("ContainerCreating", run.problems[""][1]))


def _deadline(pod: Pod, run: Run) -> datetime | None:
    seconds = pod.spec.get("activeDeadlineSeconds")
    return None if seconds is None else run.record.taken_in + timedelta(seconds=seconds)


def _newer(one: Pod, other: Pod) -> bool:
    """Whether the first is a later state of the same Pod; versions grow, though not everywhere as numbers."""
    versions = (one.metadata.resource_version, other.metadata.resource_version)
    return all(each.isdigit() for each in versions) and int(versions[0]) > int(versions[1])
