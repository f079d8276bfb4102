"""Makes the device run what the configuration says: carries out what `plan` decides, with podman and the firewall.

`Agent` calls `apply` after each new configuration and every few seconds; a pass that has nothing to do asks podman for
its pods and nothing else. A workload that fails is told of once and tried again with growing waits, and holds up no
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from edgewright.agent.firewall import Firewall, FirewallError
from edgewright.agent.manifest import (
    DEVICE_LABEL,
    HASH_LABEL,
    BadWorkload,
    Manifest,
    Port,
    grace_of,
    manifest,
    secret_owner,
)
from edgewright.agent.plan import Action, Conflict, Play, Remove, Start, fits, plan
from edgewright.agent.surroundings import Surroundings
from edgewright.agent.uploads import workloads_by_name
from edgewright.agent.versions import PROBATION_SECONDS, Look, Verdict, Version, Versions
from edgewright.api.edge_protocol import DeviceConfigurationMessage
from edgewright.containers import RUNNING, ContainerDetails, ContainersError, Pod, PodmanUnavailable
from edgewright.runtime.backoff import Backoff

NETWORK: Final = "podman"
"""The network of podman that workloads are in, as published agents have it."""
FAILED: Final = "Error"
"""What is said of a workload that has no pod because it could not be made."""
DEPLOYING: Final = "Deploying"
"""What is said of a workload that has no pod yet."""


@dataclass
class _Attempts:
    """How one version of a workload does, and when it may be tried again if it failed."""

    hash: str
    backoff: Backoff = field(default_factory=lambda: Backoff(base=2.0, cap=300.0, jitter=0.3))
    not_before: float = 0.0
    faults: int = 0
    why: str = ""
    played: bool = False
    """Whether its pod was made by this process: then it has ended by itself where it does not run."""
    restarts: int | None = None
    """How often podman had restarted its containers when they were looked at first."""
    running_since: float | None = None

    def fault(self, why: str) -> None:
        """It has ended, or podman refuses it."""
        self.faults += 1
        self.why = why


class Workloads:
    """The pods of this device."""

    def __init__(self, around: Surroundings, *, firewall: Firewall, probation: float = PROBATION_SECONDS) -> None:
        self._device = around.device
        self._podman = around.podman
        self._firewall = firewall
        self._state = around.state
        self._events = around.events
        self._clock = around.clock
        self._rng = around.rng
        self._versions = Versions(around.state, probation=probation)
        self._attempts: dict[str, _Attempts] = {}
        self.rolled_back: dict[str, str] = {}
        """The workloads whose last good version runs in place of the wanted one, and why."""
        self._ports: dict[str, tuple[Port, ...]] = {}

    async def apply(self, configuration: DeviceConfigurationMessage) -> bool:
        """One pass; True where everything is as it must be now. PodmanUnavailable where podman is unavailable.

        Where a new version turns out to have failed, a second pass goes back to the last good one at once.
        """
        settled = await self._pass(configuration)
        return await self._pass(configuration) if await self._judge(configuration) else settled

    async def _pass(self, configuration: DeviceConfigurationMessage) -> bool:
        wanted, bad = self._manifests(configuration)
        pods = await self._podman.pods()
        planned = plan(wanted, pods, device=self._device, keep=bad)
        waiting = await self._without_images(planned, wanted, pods)
        actions = [each for each in planned if each.name not in waiting]
        doomed = {action.name for action in actions if isinstance(action, Remove)}
        for pod in pods:
            if pod.name in doomed:
                await self._remove(pod)
        self._forget(wanted.keys() | bad)
        opened = await self._open_ports(wanted, bad | waiting)
        for action in actions:
            match action:
                case Play(name) | Start(name) | Conflict(name):
                    await self._attempt(action, wanted[name], opened=opened)
                case Remove():
                    pass
        for name in wanted.keys() - {action.name for action in planned}:
            self._settled(wanted[name])
        await self._remove_secrets(wanted, bad)
        self._versions.forget(wanted.keys() | bad)
        return not planned and not bad and opened

    async def _without_images(
        self, actions: list[Action], wanted: Mapping[str, Manifest], pods: Iterable[Pod]
    ) -> set[str]:
        """The workloads whose new version has no images here yet: until then their old version goes on."""
        versions = {pod.name: pod.label(HASH_LABEL) for pod in pods}
        waiting = set()
        for name in {each.name for each in actions if isinstance(each, Remove)} & wanted.keys():
            attempts = self._attempts_of(wanted[name])
            if self._clock.elapsed() < attempts.not_before:
                waiting.add(name)
                continue
            try:
                await self._fetch(wanted[name])
            except PodmanUnavailable:
                raise
            except ContainersError as error:
                waiting.add(name)
                attempts.not_before = self._clock.elapsed() + attempts.backoff.next()
                if versions[name] == wanted[name].hash:  # podman made a pod before it found out that it has no image
                    self._failed(name, f"its image cannot be fetched: {error}")
                else:
                    self._failed(name, f"the image of its new version cannot be fetched, the old one goes on: {error}")
        return waiting

    async def _fetch(self, wanted: Manifest) -> None:
        for image, policy in wanted.images.items():
            if policy == "Never" or (policy != "Always" and await self._podman.image_exists(image)):
                continue
            await self._podman.pull_image(image, credentials=wanted.credentials)

    # --- new versions ------------------------------------------------------------------------------------------------

    async def _judge(self, configuration: DeviceConfigurationMessage) -> bool:
        """Looks at the versions that are on probation; True where one has failed."""
        wanted, _ = self._manifests(configuration)
        trials = [
            each
            for name, each in wanted.items()
            if name not in self.rolled_back and self._versions.undecided(name, each.hash)
        ]
        if not trials:
            return False
        pods = {pod.name: pod for pod in await self._podman.pods(label=f"{DEVICE_LABEL}={self._device}")}
        workloads, failed = workloads_by_name(configuration.workloads), False
        for each in trials:
            pod = pods.get(each.name)
            look = await self._look(each, pod if pod is not None and fits(each, pod) else None)
            version = Version(workload=workloads[each.name], secrets=configuration.secrets or ())
            verdict = self._versions.observe(version, each.hash, look)
            failed = failed or verdict is Verdict.FAILED
        return failed

    async def _look(self, wanted: Manifest, pod: Pod | None) -> Look:
        attempts = self._attempts_of(wanted)
        if pod is None:
            attempts.running_since = None
            return Look(faults=attempts.faults, why=attempts.why)
        details = [each for each in [await self._podman.container(c.name) for c in pod.workers] if each is not None]
        restarts = sum(each.restarts for each in details)
        if attempts.restarts is None:
            attempts.restarts = 0 if attempts.played else restarts
        new = restarts - attempts.restarts
        if new > 0:
            attempts.restarts = restarts
            attempts.faults += new
            attempts.why = _exits(details)
        running = pod.status == RUNNING
        if not running or new > 0:
            attempts.running_since = None
        if running and attempts.running_since is None:
            attempts.running_since = self._clock.elapsed()
        ended = bool(details) and all(each.state.status in {"exited", "stopped"} for each in details)
        bad_exit = any(each.state.exit_code for each in details)
        return Look(
            running=running,
            done=ended and not bad_exit and wanted.restart != "Always",
            broken=ended and bad_exit and wanted.restart == "Never",
            faults=attempts.faults,
            seconds=0.0 if attempts.running_since is None else self._clock.elapsed() - attempts.running_since,
            why=attempts.why or _exits(details),
        )

    async def statuses(self, configuration: DeviceConfigurationMessage) -> dict[str, str]:
        """The state of each workload that is wanted, as podman says it."""
        pods = {pod.name: pod for pod in await self._podman.pods(label=f"{DEVICE_LABEL}={self._device}")}
        problems = self._events.problems
        return {
            name: self._status(pods.get(name), problems.get(_concern(name)))
            for name in sorted(workloads_by_name(configuration.workloads))
        }

    async def remove_all(self) -> None:
        """Removes every pod, secret and rule of ours; what cannot be removed is told of."""
        for pod in await self._podman.pods(label=f"{DEVICE_LABEL}={self._device}"):
            await self._remove(pod)
        await self._remove_secrets({}, frozenset())
        try:
            await self._firewall.clear()
        except FirewallError as error:
            self._events.problem("firewall", reason="FirewallFailed", message=str(error))

    def _manifests(self, configuration: DeviceConfigurationMessage) -> tuple[dict[str, Manifest], frozenset[str]]:
        wanted: dict[str, Manifest] = {}
        bad: set[str] = set()
        for name, workload in workloads_by_name(configuration.workloads).items():
            asked = Version(workload=workload, secrets=configuration.secrets or ())
            instead: tuple[Version, str] | None
            try:
                wanted[name] = self._manifest(asked)
                instead = self._versions.choose(name, wanted[name].hash)
            except BadWorkload as error:
                good = self._versions.last_good(name)
                instead = None if good is None else (good, str(error))
                if good is None:
                    bad.add(name)
                    self._failed(name, str(error))
            if instead is None:
                self.rolled_back.pop(name, None)
                self._events.solved(_update(name))
            else:
                wanted[name], why = self._manifest(instead[0]), instead[1]
                self.rolled_back[name] = why
                message = f"{name}: the new version failed, the last good one runs: {why}"
                self._events.problem(_update(name), reason="WorkloadRolledBack", message=message)
        return wanted, frozenset(bad)

    def _manifest(self, version: Version) -> Manifest:
        export = self._state.volume(version.workload.name)
        return manifest(version.workload, version.secrets, device=self._device, export=export)

    async def _open_ports(self, wanted: Mapping[str, Manifest], kept: Set[str]) -> bool:
        """Opens the ports of what is wanted; those of `kept`, whose pods stay as they are, stay open."""
        self._ports = {name: each.ports for name, each in wanted.items() if name not in kept} | {
            name: self._ports.get(name) or self._good_ports(name) for name in kept
        }
        try:
            await self._firewall.open(self._ports)
        except FirewallError as error:
            self._events.problem("firewall", reason="FirewallFailed", message=f"ports cannot be opened: {error}")
            return False
        self._events.solved("firewall", reason="FirewallWorks", message="ports can be opened again")
        return True

    def _good_ports(self, name: str) -> tuple[Port, ...]:
        good = self._versions.last_good(name)
        return () if good is None else self._manifest(good).ports

    async def _attempt(self, action: Play | Start | Conflict, wanted: Manifest, *, opened: bool) -> None:
        attempts = self._attempts_of(wanted)
        if self._clock.elapsed() < attempts.not_before:
            return
        try:
            match action:
                case Conflict():
                    raise BadWorkload("podman has a pod of this name that is not the agent's: rename one of them")
                case Play():
                    if wanted.ports and not opened:
                        raise BadWorkload("its ports cannot be opened")
                    await self._play(wanted)
                    attempts.played = True
                case Start():
                    if attempts.played:
                        attempts.fault("it ended")
                    await self._podman.start_pod(wanted.name)
        except PodmanUnavailable:
            raise
        except (ContainersError, BadWorkload, OSError) as error:
            if isinstance(error, ContainersError | _NotStarted):
                attempts.fault(str(error))
            attempts.not_before = self._clock.elapsed() + attempts.backoff.next()
            self._failed(wanted.name, str(error))
        else:
            # It may end at once, again and again: then it is not started again at every look.
            attempts.not_before = self._clock.elapsed() + attempts.backoff.next()
            if not self._solved(wanted.name):
                self._events.info(reason="WorkloadStarted", message=f"{wanted.name}: started")

    async def _play(self, wanted: Manifest) -> None:
        self._state.make_volume(wanted.name)
        known = {secret.name for secret in await self._podman.secrets()} if wanted.secrets else set()
        for name, content in wanted.secrets.items():
            if name not in known:
                await self._podman.create_secret(name, content)
        played = await self._podman.play(wanted.text, network=NETWORK, credentials=wanted.credentials)
        if played.errors:
            raise _NotStarted("; ".join(played.errors))

    async def _remove(self, pod: Pod) -> None:
        name = pod.name
        try:
            await self._podman.stop_pod(name, grace=grace_of(pod))
        except PodmanUnavailable:
            raise
        except ContainersError:
            pass  # it may be half made: then it is removed as it is
        try:
            await self._podman.remove_pod(name, force=True)
        except PodmanUnavailable:
            raise
        except ContainersError as error:
            self._failed(name, f"cannot be removed: {error}")
        else:
            self._events.info(reason="WorkloadRemoved", message=f"{name}: removed")

    async def _remove_secrets(self, wanted: Mapping[str, Manifest], keep: frozenset[str]) -> None:
        needed = {secret for each in wanted.values() for secret in each.secrets}
        for secret in await self._podman.secrets():
            owner = secret_owner(secret.name)
            if owner is not None and owner not in keep and secret.name not in needed:
                await self._podman.remove_secret(secret.name)

    def _attempts_of(self, wanted: Manifest) -> _Attempts:
        attempts = self._attempts.get(wanted.name)
        if attempts is None or attempts.hash != wanted.hash:
            attempts = self._attempts[wanted.name] = _Attempts(wanted.hash)
            attempts.backoff.rng = self._rng
        return attempts

    def _settled(self, wanted: Manifest) -> None:
        attempts = self._attempts.get(wanted.name)
        if attempts is not None and not self._versions.undecided(wanted.name, wanted.hash):
            del self._attempts[wanted.name]
        self._solved(wanted.name)

    def _failed(self, name: str, text: str) -> None:
        self._events.problem(_concern(name), reason="WorkloadFailed", message=f"{name}: {text}")

    def _solved(self, name: str) -> bool:
        return self._events.solved(_concern(name), reason="WorkloadStarted", message=f"{name}: started after all")

    def _forget(self, names: Set[str]) -> None:
        """Forgets what was wrong with workloads that nobody wants any more."""
        for name in self._attempts.keys() - names:
            del self._attempts[name]
        for name in self.rolled_back.keys() - names:
            del self.rolled_back[name]
        for concern in self._events.problems:
            kind, _, name = concern.partition(" ")
            if kind in {"workload", "update"} and name not in names:
                self._events.solved(concern)

    @staticmethod
    def _status(pod: Pod | None, problem: str | None) -> str:
        if pod is not None:
            return pod.status
        return FAILED if problem else DEPLOYING


class _NotStarted(BadWorkload):
    """Podman has made the pod, but not all of its containers run."""


def _concern(name: str) -> str:
    return f"workload {name}"


def _update(name: str) -> str:
    return f"update {name}"


def _exits(details: Sequence[ContainerDetails]) -> str:
    """How containers ended, in words."""
    found = [f"{each.name} ended with exit code {each.state.exit_code}" for each in details if each.state.exit_code]
    return "; ".join(found) or "it ended"
