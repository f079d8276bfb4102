"""Runs Pods as containers of podman: a pod with an address for each, and in it a container for each attempt.

`container_start` hands it what is the same for all runtimes; `runs` and `probe_actions` ask it what only podman knows.
The folder of an attempt is the truth here too: it is written before the program is let go, the log and the message lie
in it, and the program is watched as a shim is. Whatever is made carries the folder of this node as a label, and nothing
else is ever touched.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from edgewright.containers import ContainerDetails, ContainersError, Image, Podman, PodmanUnavailable, Refused
from edgewright.local.node.container_network import ContainerNetwork
from edgewright.local.node.folders import AttemptFolder, Exit, PodFolder, PodRecord, State
from edgewright.local.node.image_pulls import ImagePulls, credentials_of
from edgewright.local.node.lifecycle import Start
from edgewright.local.node.pod_hosts import host_name
from edgewright.local.node.podman_service import PodmanService
from edgewright.local.node.podman_spec import (
    LABEL,
    POD_UID,
    container_name,
    container_spec,
    demand_not_root,
    labels_of,
    pod_name,
    pod_spec,
    stop_signal,
)
from edgewright.local.node.pods import Pod
from edgewright.local.node.processes import Identity, boot_id, start_time
from edgewright.local.node.sources import Missing, Sources
from edgewright.local.node.volumes import Mount, inode_of
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.objects import Key

_STARTED: Final = 128
"""The exit code of what could not be started, as Kubernetes has it."""
_HEARD_WITHIN: Final = 30.0
_LOOK_EVERY: Final = 0.05
_KILLED: Final = 137
_UNFINISHED: Final = frozenset({"created", "initialized", "configured"})

_log = logs.get("local.node.podman")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One container to run."""

    pod: Pod
    record: PodRecord
    folder: PodFolder
    start: Start
    image: Image
    values: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    log_limit: int = 0

    @property
    def attempt(self) -> AttemptFolder:
        """Its folder."""
        return self.folder.attempt(self.start.container["name"], self.start.number)


class PodmanRuntime:
    """All containers of one node."""

    def __init__(self, folder: Path, *, clock: Clock, changed: Callable[[Key], None]) -> None:
        self._folder = str(folder)
        self._own = folder / "podman"
        """Where podman's service is at home: there as long as podman may have anything of ours."""
        self._clock = clock
        self._boot = boot_id()
        self._service = PodmanService(self._own, clock=clock)
        self._pulls = ImagePulls(clock=clock, changed=changed)
        self.network = ContainerNetwork(folder)
        self._ready: set[str] = set()
        """The uids of the Pods whose pod was seen to run."""

    async def address(self, uid: str) -> str:
        """An address for a Pod."""
        await self.network.make(await self._service.client())
        return self.network.addresses.give(uid)

    async def image(self, pod: Pod, start: Start, sources: Sources) -> Image:
        """The image of a container; NoImage while it is not here."""
        podman = await self._service.client()
        image = await self._pulls.get(podman, start.container, pod.key, await credentials_of(pod.spec, sources))
        demand_not_root(pod, start.container, image.config.user)
        return image

    async def start(self, wanted: Wanted) -> None:
        """Runs a container; what became of it is in its folder."""
        podman = await self._service.client()
        await self._make_pod(podman, wanted.pod, wanted.record)
        pod, start, attempt = wanted.pod, wanted.start, wanted.attempt
        name = container_name(pod.uid, start.container["name"], start.number)
        spec = container_spec(
            pod,
            start.container,
            name=name,
            image=wanted.image.id,
            values=wanted.values,
            mounts=wanted.mounts,
            labels=labels_of(self._folder, pod),
            log=str(attempt.log),
            log_limit=wanted.log_limit,
        )
        inodes = {mount.path: inode_of(mount) for mount in wanted.mounts if mount.inside}
        await podman.remove_container(name)
        known_as = (wanted.image.digests or [f"sha256:{wanted.image.id}"])[0]
        attempt.prepare({"step": start.step, "image": known_as})
        begun = False
        try:
            identifier = await podman.create_container(spec)
            await podman.init_container(identifier)
            details = await podman.container(identifier)
            if details is None:
                raise PodmanUnavailable(f"podman lost container {name}")
            _demand_mounts(details.state.pid, inodes)
            attempt.begin(self._state(details, stop_signal(start.container, wanted.image.config.stop_signal)))
            begun = True
            await podman.start_container(identifier)
        except Exception as error:
            self._ready.discard(pod.uid)
            if begun or isinstance(error, Refused):
                attempt.write_end(Exit(code=_STARTED, finished=time.time_ns(), error=str(error)))
            else:
                attempt.remove()
            with suppress(ContainersError):
                await podman.remove_container(name)
            if not isinstance(error, Refused):
                raise

    def _state(self, details: ContainerDetails, stop: int) -> State:
        monitor, main = details.state.monitor, details.state.pid
        begun = [Identity(pid=pid, start=start_time(pid) or 0) for pid in (monitor, main)]
        return State(
            boot=self._boot, shim=begun[0], main=begun[1], started=time.time_ns(), container=details.id, stop=stop
        )

    async def network_of(self, pod: Pod, record: PodRecord) -> str:
        """The network of a Pod, as a file by which a process joins it."""
        podman = await self._service.client()
        await self._make_pod(podman, pod, record)
        infra = await podman.container(await self._infra(podman, pod.uid))
        if infra is None or not infra.state.pid:
            self._ready.discard(pod.uid)
            raise PodmanUnavailable(f"podman lost pod {pod_name(pod.uid)}")
        return f"/proc/{infra.state.pid}/ns/net"

    async def _infra(self, podman: Podman, uid: str) -> str:
        """The container that holds the network of a Pod."""
        known = await podman.pod(pod_name(uid))
        if known is None:
            self._ready.discard(uid)
            raise PodmanUnavailable(f"podman lost pod {pod_name(uid)}")
        return known.infra_id

    async def _make_pod(self, podman: Podman, pod: Pod, record: PodRecord) -> None:
        if pod.uid in self._ready:
            return
        await self.network.make(podman)
        if await podman.pod(pod_name(pod.uid)) is None:
            about = {"hostname": host_name(pod), "network": self.network.name, "address": record.address}
            await podman.create_pod(pod_spec(pod, labels=labels_of(self._folder, pod), **about))
        infra_id = await self._infra(podman, pod.uid)
        await podman.start_container(infra_id)
        infra = await podman.container(infra_id)
        if infra is not None and infra.state.pid:
            await self.network.open_services(infra.state.pid, record.address)
        self._ready.add(pod.uid)

    async def execute(self, container: str, command: Sequence[str]) -> str | None:
        """Runs a command in a container; None where it ended well, else what it printed."""
        podman = await self._service.client()
        try:
            done = await podman.execute(container, command)
        except ContainersError as error:
            return str(error)
        if done.exit_code == 0:
            return None
        return done.output.decode("utf-8", "replace").strip() or f"exit code {done.exit_code}"

    async def end_of(self, state: State) -> Exit:
        """How a container ended whose program is gone; podman hears of it a moment later than we do."""
        podman = await self._service.client()
        until = self._clock.elapsed() + _HEARD_WITHIN
        while (details := await podman.container(state.container)) is not None:
            if details.state.status != "running" or self._clock.elapsed() >= until:
                break
            await self._clock.sleep(_LOOK_EVERY)
        if details is None or details.state.status == "running":
            self._ready.clear()  # perhaps somebody has removed it with its pod: they are looked at again
            return Exit(code=_KILLED, finished=time.time_ns(), started=state.started, lost=True)
        said = details.state
        return Exit(
            code=said.exit_code,
            finished=_nanoseconds(said.finished_at),
            started=state.started,
            error=said.error,
            out_of_memory=said.oom_killed or (said.exit_code == _KILLED and self._ran_out_of_memory()),
        )

    def _ran_out_of_memory(self) -> bool:
        """Whether podman's watcher has said so: older ones leave an empty file, where the service is at home."""
        try:
            (self._own / "oom").unlink()
        except FileNotFoundError:
            return False
        return True

    async def remove_container(self, state: State) -> None:
        """Removes a container whose end is written down."""
        await (await self._service.client()).remove_container(state.container)

    async def remove(self, uid: str) -> None:
        """Removes all that podman has of a Pod."""
        self._ready.discard(uid)
        await (await self._service.client()).remove_pod(pod_name(uid), force=True)

    async def sweep(self, uids: Collection[str]) -> None:
        """Removes what a node that was killed has left: of Pods that nobody knows, and what never began."""
        if not self._own.exists():
            return
        podman = await self._service.client()
        for pod in await podman.pods(label=f"{LABEL}={self._folder}"):
            if pod.label(POD_UID) not in uids:
                _log.info("removing the containers of a Pod that is gone", pod=pod.name)
                await podman.remove_pod(pod.name, force=True)
                continue
            for each in pod.workers:
                if each.status in _UNFINISHED:
                    await podman.remove_container(each.id)

    async def close(self) -> None:
        """Stops asking podman; containers go on. The network goes where no container is in it."""
        await self._pulls.close()
        empty = False
        if self._own.exists():
            try:
                podman = await self._service.client()
                if not await podman.pods(label=f"{LABEL}={self._folder}"):
                    await podman.remove_network(self.network.name)
                    empty = True
            except ContainersError as error:
                _log.warning("the network of the containers stays", error=str(error))
        await self._service.close()
        if empty:
            shutil.rmtree(self._own, ignore_errors=True)


def _demand_mounts(pid: int, inodes: Mapping[str, tuple[int, int]]) -> None:
    """Makes sure that a Pod did not lead podman astray, by a link in a volume, while it mounted a part of that."""
    for path, wanted in inodes.items():
        try:
            found = Path(f"/proc/{pid}/root{path}").stat()
        except OSError as error:
            raise Missing(f"what is mounted at {path} cannot be looked at: {error.strerror}") from error
        if (found.st_dev, found.st_ino) != wanted:
            raise Missing(f"subPath for {path} leads out of its volume")


def _nanoseconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000_000_000)
    except ValueError:
        return time.time_ns()
