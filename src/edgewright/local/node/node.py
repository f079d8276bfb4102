"""The node: a program that speaks only the Kubernetes API and runs the Pods bound to it as processes.

`edgewright node` and `edgewright up` make one and await `run`. It registers a Node object, follows the Pods whose
spec.nodeName is its name, and serves their logs. It can die at any moment: what it started goes on and is found again
by the next node on the same folder.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgewright.containers import ContainersError
from edgewright.local.access.authentication import User
from edgewright.local.controllers.resources import Service
from edgewright.local.node.addresses import LoopbackAddresses, PodAddresses
from edgewright.local.node.container_start import (
    Containers,
    Machine,
    Starter,
    needs_scratch_of_the_machine,
    program_folders,
)
from edgewright.local.node.folders import AttemptFolder, NodeFolder
from edgewright.local.node.lifecycle import Timing
from edgewright.local.node.logserver import Found, LogServer, NoLog
from edgewright.local.node.mount_check import (
    binds_work,
    closed_to_others,
    how_to_mount,
    mounts_work,
    processes_work,
    where_nobody_may_enter,
)
from edgewright.local.node.pod_hosts import HostsFiles
from edgewright.local.node.pod_loop import Reconciler
from edgewright.local.node.podman_runtime import PodmanRuntime
from edgewright.local.node.podman_service import podman_command
from edgewright.local.node.pods import Pod
from edgewright.local.node.probe_actions import Asker, enter_command
from edgewright.local.node.probes import Probes
from edgewright.local.node.processes import boot_id
from edgewright.local.node.registration import Registration, capacity
from edgewright.local.node.runs import Run, Runs
from edgewright.local.node.sessions import Session
from edgewright.runtime import logs
from edgewright.runtime.access_review import ACCESS_REVIEW, review
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.controller import Controller, For
from edgewright.runtime.errors import KubernetesError
from edgewright.runtime.events import Recorder
from edgewright.runtime.objects import Key, RawObject
from edgewright.runtime.predicates import intent_changed

__all__ = ["Advertised", "Containers", "Network", "Node", "may_use"]

_WORKERS = 8
_WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
"""What is said of a container that waits, instead of the reason in its status."""

_log = logs.get("local.node")


@dataclass(frozen=True, kw_only=True)
class Network:
    """Where the node and its Pods are reached."""

    host: str = "127.0.0.1"
    """The address of the node, on which it serves logs."""
    log_port: int = 0
    log_tls: ssl.SSLContext | None = None
    """The TLS of the log server, which must demand a client certificate; without it no logs are served."""
    addresses: PodAddresses | None = None
    """Where Pods get their addresses from; None: from the loopback network."""
    services: bool = False
    """Whether Services have addresses of this machine, by a ServiceForwarder, and so ports that Pods cannot have."""


@dataclass(frozen=True, kw_only=True)
class Advertised:
    """What the Node object says of the node, for the scheduler and for people."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Mapping[str, bool] = field(default_factory=dict)
    """Which keys it has with the effect NoSchedule, and which it has not; of others it says nothing."""
    pods: int = 110
    """How many Pods it runs at most."""


class Node:
    """One node and the Pods on it."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        directory: Path,
        containers: Containers,
        network: Network | None = None,
        advertised: Advertised | None = None,
        clock: Clock | None = None,
        timing: Timing | None = None,
    ) -> None:
        """Says what the node is; nothing happens before `run`. `directory` is its own, closed to everybody else."""
        self.name = name
        self._client = client
        self._folder = NodeFolder(directory)
        self._containers = containers
        self._network = network or Network()
        self._addresses = self._network.addresses or LoopbackAddresses(name)
        self._advertised = advertised or Advertised()
        self._clock = clock or SystemClock()
        self._timing = timing or Timing()
        self._runs: Runs | None = None
        self._pods: Cache[Pod] | None = None
        self._ready = asyncio.Event()

    async def ready(self) -> None:
        """Returns when the node is registered and follows its Pods."""
        await self._ready.wait()

    async def run(self) -> None:
        """Runs until cancelled; the Pods go on running then."""
        self._folder.open()
        try:
            await self._run()
        finally:
            self._folder.close()

    async def _run(self) -> None:
        tries = (mounts_work, processes_work, binds_work)
        mounts, processes, binds = await asyncio.gather(*(asyncio.to_thread(each) for each in tries))
        machine = self._machine(mounts=mounts, processes=mounts and processes, binds=binds and self._network.services)
        if machine.mounts and not machine.processes:
            _log.warning(
                "Pods share the process table of the machine: the kernel gives them no PID namespace with a /proc of "
                "its own here; as root every Pod still has a user of its own, as an ordinary user it has not",
            )
        if self._network.services and not machine.binds:
            _log.warning(
                "a program that listens on every address cannot have a port that a Service has: the kernel, or who "
                "runs this node in a container, does not let it answer what a Pod asks (seccomp, pidfd_getfd)"
            )
        if not machine.mounts:
            _log.warning(
                "nothing can be mounted here: Pods with volumes do not start, but for those of the images named",
                images=", ".join(machine.told) or "none",
                remedy=how_to_mount(root=os.geteuid() == 0),
            )
            closed = closed_to_others(machine.shown) if machine.ids is not None else None
            if closed is not None:
                _log.warning(where_nobody_may_enter(closed))
        async with AsyncExitStack() as stack:
            port = await self._serve_logs(stack)
            registration = Registration(
                self._client,
                name=self.name,
                host=self._network.host,
                port=port,
                capacity=machine.capacity,
                clock=self._clock,
                timing=self._timing,
                labels=self._advertised.labels,
                taints=self._advertised.taints,
            )
            await registration.register()
            await self._follow_pods(machine, registration, stack)

    def _machine(self, *, mounts: bool, processes: bool, binds: bool) -> Machine:
        given = self._containers
        shown = (*program_folders(), *(path.resolve() for path in given.shown))
        here: dict[str, Any] = {"ids": given.ids if os.geteuid() == 0 else None, "shown": shown}
        here["covered"] = tuple(path.resolve() for path in given.covered)
        return Machine(
            **(vars(given) | here),
            name=self.name,
            host=self._network.host,
            directory=self._folder.path,
            mounts=mounts,
            processes=processes,
            binds=binds,
            own_scratch=not needs_scratch_of_the_machine(given.images, shown),
            capacity=capacity(self._folder.path, pods=self._advertised.pods),
        )

    async def _serve_logs(self, stack: AsyncExitStack) -> int | None:
        network = self._network
        if network.log_tls is None:
            return None
        server = LogServer(
            self._find_log,
            tls=network.log_tls,
            host=network.host,
            port=network.log_port,
            clock=self._clock,
            may=functools.partial(may_use, self._client, self.name),
            find_session=self._find_session,
        )
        stack.push_async_callback(server.close)
        await server.start()
        return server.port

    async def _follow_pods(self, machine: Machine, registration: Registration, stack: AsyncExitStack) -> None:
        boot = boot_id()
        pods = self._pods = Cache(self._client.of(Pod), fields=f"spec.nodeName={self.name}", clock=self._clock)
        services = Cache(self._client.of(Service), clock=self._clock)
        recorder = Recorder(self._client, "edgewright-node", clock=self._clock)
        wake = _Wake()
        podman = PodmanRuntime(self._folder.path, clock=self._clock, changed=wake) if self._containers.podman else None
        if podman is not None:
            stack.push_async_callback(podman.close)
        runs = self._runs = Runs(self._folder, self._addresses, boot=boot, changed=wake, podman=podman)
        stack.callback(runs.close)
        runs.find_again()
        if podman is not None:
            await _sweep(podman, runs)
        hosts = HostsFiles(pods, services, lambda: {run.uid: run.folder.hosts for run in runs if _has_hosts(run)})
        starter = Starter(
            self._client,
            machine,
            services=services,
            hosts=hosts,
            clock=self._clock,
            timing=self._timing,
            podman=podman,
        )
        probes = Probes(
            Asker(runs, podman).ask,
            clock=self._clock,
            changed=wake,
            unhealthy=lambda pod, text: recorder.record(pod, "Warning", "Unhealthy", text),
        )
        stack.push_async_callback(probes.close)
        reconciler = Reconciler(
            self._client,
            pods=pods,
            runs=runs,
            starter=starter,
            probes=probes,
            recorder=recorder,
            machine=machine,
            addresses=self._addresses,
            boot=boot,
            clock=self._clock,
            timing=self._timing,
            podman=podman,
        )
        controller = Controller(
            "node", reconciler.reconcile, For(pods, when=_counts), workers=_WORKERS, clock=self._clock
        )
        wake.controller = controller
        async with asyncio.TaskGroup() as group:
            group.create_task(pods.run(), name="pods of the node")
            group.create_task(recorder.run(), name="events of the node")
            group.create_task(registration.keep(), name="heartbeat of the node")
            group.create_task(services.run(), name="services that Pods are told of")
            await pods.wait_synced()
            await self._wait_for(services)
            group.create_task(hosts.keep(), name="hosts files of the node")
            group.create_task(controller.run(), name="node")
            for run in runs:
                wake(run.key)  # also those that the server does not have any more
            group.create_task(reconciler.keep_volumes(), name="volumes of the node")
            self._ready.set()

    async def _wait_for(self, services: Cache[Service]) -> None:
        """Waits for the Services, but not for ever: a node that may not read them runs Pods all the same."""
        try:
            async with self._clock.timeout(self._timing.launch):
                await services.wait_synced()
        except TimeoutError:
            _log.warning("Services cannot be read: Pods are not told of them", problem=services.problem)

    def _find_log(self, namespace: str, pod: str, container: str, previous: bool) -> Found | NoLog:
        for run in self._runs.named(Key(namespace, pod)) if self._runs else ():
            attempts = run.folder.attempts(container)
            if previous:
                ended = _last_ended(self._said_of(run), container)
                attempts = [attempt for attempt in attempts if attempt.number == ended]
            if not attempts:
                return NoLog(_no_log(run, self._said_of(run), container, previous=previous))
            place = run.folder.attempt(container, attempts[0].number)
            return Found(place.log, functools.partial(_runs_still, place))
        return NoLog(f'pod "{pod}" does not exist', status=404)

    def _find_session(self, namespace: str, pod: str, container: str, wish: Session) -> Session | str:
        run = next(iter(self._runs.named(Key(namespace, pod))), None) if self._runs else None
        attempt = next(iter(run.folder.attempts(container)), None) if run else None
        state = attempt.state if attempt is not None and attempt.running else None
        if run is None or attempt is None or state is None or state.main is None:
            return f"container {container} of pod {pod} does not run"
        if state.container:
            command = podman_command(state.container, wish)
        elif wish.verb == "attach":
            return "a Pod that is a process cannot be attached to: see its log"
        elif not self._containers.commands:
            return "this node runs no other programs than those of images (--allow-command lets it)"
        else:
            command = enter_command(run.folder.attempt(container, attempt.number), state.main, wish.command)
        return replace(wish, command=command)

    def _said_of(self, run: Run) -> RawObject:
        """The last status of a Pod: what we wrote, or what an earlier node did."""
        pod = run.written or (self._pods.get(run.key) if self._pods is not None else None)
        return pod.status if pod is not None and pod.uid == run.uid else {}


async def _sweep(podman: PodmanRuntime, runs: Runs) -> None:
    """Removes what an earlier node has left with podman; where that cannot be done, the node goes on."""
    try:
        await podman.sweep({run.uid for run in runs})
    except ContainersError as error:
        _log.warning("what podman has of earlier Pods stays for now", error=str(error))


def _last_ended(status: RawObject, container: str) -> int | None:
    """Which run of a container its status shows as the last one: while it waits for the next, that is the latest."""
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        ended = (each.get("lastState") or {}).get("terminated")
        if each["name"] == container and ended:
            return int(ended["containerID"].rpartition("/")[2])
    return None


def _no_log(run: Run, status: RawObject, container: str, *, previous: bool) -> str:
    """Why a container has no log, in a kubelet's words."""
    name = run.key.name
    if previous:
        return f'previous terminated container "{container}" in pod "{name}" not found'
    said = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    states = {each["name"]: each.get("state") or {} for each in said}
    if container not in states:
        return f'container "{container}" in pod "{name}" is not available'
    reason = (states[container].get("waiting") or {}).get("reason", "")
    return f'container "{container}" in pod "{name}" is waiting to start: {_WAITING.get(reason, reason)}'


def _runs_still(place: AttemptFolder) -> bool:
    attempt = place.read()
    return attempt is not None and attempt.running


def _has_hosts(run: Run) -> bool:
    return run.folder.hosts.exists()


def _counts(change: Change[Pod]) -> bool:
    """Whether a change of a Pod is worth a pass: another intent, or the end of it, whoever declared that."""
    over = change.old is not None and change.new is not None and change.new.ended and not change.old.ended
    return over or intent_changed(change)


async def may_use(client: Client, node: str, user: User, part: str = "log") -> bool:
    """Whether the API server lets a user read the logs of a node, or have sessions there (`proxy`).

    Administrators, as it is one itself, always may.
    """
    if "system:masters" in user.groups:
        return True
    verb = "get" if part == "log" else "create"
    wanted = {"verb": verb, "resource": "nodes", "subresource": part, "name": node}
    asked = {"user": user.name, "groups": list(user.groups), "resourceAttributes": wanted}
    try:
        answer = await review(client, ACCESS_REVIEW, asked)
    except KubernetesError as error:
        _log.warning("cannot ask what a user may do; refused", user=user.name, error=str(error))
        return False
    return bool(answer.get("allowed"))


class _Wake:
    """Asks for a pass over a Pod; what comes before the controller is there is heard by its first passes anyway."""

    controller: Controller | None = None

    def __call__(self, key: Key) -> None:
        if self.controller is not None:
            self.controller.queue.add(key)
