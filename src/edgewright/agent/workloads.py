"""Makes the device run what the configuration says: carries out what `plan` decides, with podman and the firewall.

`Agent` calls `apply` after each new configuration and every few seconds; a pass that has nothing to do asks podman for
its pods and nothing else. A workload that fails is told of once and tried again with growing waits, and holds up no
other.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from edgewright.agent.events import Events
from edgewright.agent.firewall import Firewall, FirewallError
from edgewright.agent.manifest import DEVICE_LABEL, BadWorkload, Manifest, Port, grace_of, manifest, secret_owner
from edgewright.agent.plan import Conflict, Play, Remove, Start, plan
from edgewright.agent.state import State
from edgewright.agent.uploads import workloads_by_name
from edgewright.api.edge_protocol import DeviceConfigurationMessage
from edgewright.containers import ContainersError, Pod, Podman, PodmanUnavailable
from edgewright.runtime.backoff import Backoff
from edgewright.runtime.clock import Clock

NETWORK: Final = "podman"
"""The network of podman that workloads are in, as published agents have it."""
FAILED: Final = "Error"
"""What is said of a workload that has no pod because it could not be made."""
DEPLOYING: Final = "Deploying"
"""What is said of a workload that has no pod yet."""


@dataclass
class _Attempts:
    """When a workload that failed may be tried again."""

    hash: str
    backoff: Backoff = field(default_factory=lambda: Backoff(base=2.0, cap=300.0, jitter=0.3))
    not_before: float = 0.0


class Workloads:
    """The pods of this device."""

    def __init__(
        self,
        *,
        device: str,
        podman: Podman,
        firewall: Firewall,
        state: State,
        events: Events,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self._device = device
        self._podman = podman
        self._firewall = firewall
        self._state = state
        self._events = events
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - it spreads retries
        self._attempts: dict[str, _Attempts] = {}
        self._ports: dict[str, tuple[Port, ...]] = {}

    async def apply(self, configuration: DeviceConfigurationMessage) -> bool:
        """One pass; True where everything is as it must be now. PodmanUnavailable where podman is unavailable."""
        wanted, bad = self._manifests(configuration)
        pods = await self._podman.pods()
        actions = plan(wanted, pods, device=self._device, keep=bad)
        doomed = {action.name for action in actions if isinstance(action, Remove)}
        for pod in pods:
            if pod.name in doomed:
                await self._remove(pod)
        self._forget(wanted.keys() | bad)
        opened = await self._open_ports(wanted, bad)
        for action in actions:
            match action:
                case Play(name) | Start(name) | Conflict(name):
                    await self._attempt(action, wanted[name], opened=opened)
                case Remove():
                    pass
        for name in wanted.keys() - {action.name for action in actions}:
            self._settled(name)
        await self._remove_secrets(wanted, bad)
        return not actions and not bad and opened

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
            try:
                wanted[name] = manifest(
                    workload,
                    configuration.secrets or (),
                    device=self._device,
                    export=self._state.volume(name),
                )
            except BadWorkload as error:
                bad.add(name)
                self._failed(name, str(error))
        return wanted, frozenset(bad)

    async def _open_ports(self, wanted: Mapping[str, Manifest], bad: frozenset[str]) -> bool:
        kept = {name: self._ports.get(name, ()) for name in bad}
        self._ports = kept | {name: each.ports for name, each in wanted.items()}
        try:
            await self._firewall.open(self._ports)
        except FirewallError as error:
            self._events.problem("firewall", reason="FirewallFailed", message=f"ports cannot be opened: {error}")
            return False
        self._events.solved("firewall", reason="FirewallWorks", message="ports can be opened again")
        return True

    async def _attempt(self, action: Play | Start | Conflict, wanted: Manifest, *, opened: bool) -> None:
        attempts = self._attempts.get(wanted.name)
        if attempts is None or attempts.hash != wanted.hash:
            attempts = self._attempts[wanted.name] = _Attempts(wanted.hash)
            attempts.backoff.rng = self._rng
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
                case Start():
                    await self._podman.start_pod(wanted.name)
        except PodmanUnavailable:
            raise
        except (ContainersError, BadWorkload, OSError) as error:
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
            raise BadWorkload("; ".join(played.errors))

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

    def _settled(self, name: str) -> None:
        attempts = self._attempts.get(name)
        if attempts is not None and self._clock.elapsed() > attempts.not_before:
            del self._attempts[name]
        self._solved(name)

    def _failed(self, name: str, text: str) -> None:
        self._events.problem(_concern(name), reason="WorkloadFailed", message=f"{name}: {text}")

    def _solved(self, name: str) -> bool:
        return self._events.solved(_concern(name), reason="WorkloadStarted", message=f"{name}: started after all")

    def _forget(self, names: Set[str]) -> None:
        """Forgets what was wrong with workloads that nobody wants any more."""
        for name in self._attempts.keys() - names:
            del self._attempts[name]
        for concern in self._events.problems:
            if concern.startswith("workload ") and concern.removeprefix("workload ") not in names:
                self._events.solved(concern)

    @staticmethod
    def _status(pod: Pod | None, problem: str | None) -> str:
        if pod is not None:
            return pod.status
        return FAILED if problem else DEPLOYING


def _concern(name: str) -> str:
    return f"workload {name}"
