"""Starts containers: volumes, environment, user and command become an order, and a shim carries it out.

`pod_loop` calls it. Everything that a container will be is written into its folder before the shim is started, and
the shim is not waited for beyond the moment in which the program runs or could not be run.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewright.containers import ContainersError
from edgewright.local.builtin.podtokens import FOLDER as TOKEN_FOLDER
from edgewright.local.builtin.podtokens import PREFIX as TOKEN_PREFIX
from edgewright.local.controllers.resources import Service
from edgewright.local.node.claims import ClaimFolders
from edgewright.local.node.environment import PATH, command_line, environment
from edgewright.local.node.folders import PODMAN, AttemptFolder, PodFolder, PodRecord
from edgewright.local.node.images import not_here, program_for
from edgewright.local.node.lifecycle import NotStarted, Start, Timing
from edgewright.local.node.mount_check import how_to_mount
from edgewright.local.node.pod_hosts import HOSTS, HostsFiles, host_name, rewrite
from edgewright.local.node.pod_ids import PodIds
from edgewright.local.node.podman_runtime import PodmanRuntime, Wanted
from edgewright.local.node.podman_spec import stop_signal
from edgewright.local.node.pods import Pod
from edgewright.local.node.service_variables import service_variables
from edgewright.local.node.services import ports_of_services
from edgewright.local.node.sources import Missing, Sources, Tokens
from edgewright.local.node.volumes import Mount, Owner, files_of, make_empty, mounts_of, resources_of, write_files
from edgewright.runtime.cache import Cache
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.objects import RawObject
from edgewright.runtime.sockets import readable

SHIM = Path(__file__).with_name("shim.py")
_NOBODY = 65534
DEFAULT_MESSAGE_PATH = "/dev/termination-log"


@dataclass(frozen=True, kw_only=True)
class Containers:
    """What the containers of a node are, and what they get and see of its machine."""

    images: Mapping[str, Sequence[str]]
    """The commands, by the names of the images that they stand for."""
    ids: PodIds | None = None
    """The users and groups that Pods may have where the node runs as root; None: they run as the node itself."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for every container, as KUBERNETES_SERVICE_HOST."""
    covered: Sequence[Path] = ()
    """Folders that no Pod sees, besides the node's own."""
    shown: Sequence[Path] = ()
    """Folders with programs that every Pod may read, besides those of this Python."""
    told: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """The images whose programs can do without mounts: by path, the variables that tell them of another place."""
    podman: bool = False
    """Whether images that stand for no program are pulled, and run by podman."""
    commands: bool = True
    """Whether a Pod may run any program of the machine, not only those that its images stand for."""
    claims: bool = False
    """Whether PersistentVolumeClaims are folders of the machine, as on the node of the embedded control plane."""
    log_limit: int = 10 << 20


@dataclass(frozen=True, kw_only=True)
class Machine(Containers):
    """What containers are given of this machine, the same for all of them."""

    name: str
    host: str
    directory: Path
    mounts: bool = True
    """Whether a container can have a root of its own here."""
    processes: bool = False
    """Whether a container can have a process table of its own here; it takes a root of its own."""
    binds: bool = False
    """Whether a program that listens on every address can be given that of its Pod."""
    own_scratch: bool = True
    """Whether a container has /tmp and /var/tmp to itself, as it would in a cluster."""
    capacity: Mapping[str, str] = field(default_factory=dict)


def program_folders() -> list[Path]:
    """Where this Python and the packages that it imports lie."""
    package = Path(__file__).resolve().parents[3]
    return [Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), package]


def program_files(program: Sequence[str], folders: Sequence[Path]) -> list[Path]:
    """The files of this machine that the program of an image names, but for those that lie in some folders."""
    found = (path for path in _named_paths(program) if not _lies_in(path, folders))
    return sorted(path for path in found if path.is_file())


def hidden_programs(shown: Sequence[Path], mounts: Sequence[Mount]) -> list[Mount]:
    """Mounts that show programs again where a volume of the Pod, such as one at /tmp, would hide them from it."""
    places = [Path(mount.path).resolve() for mount in mounts]
    return [Mount(path, str(path), False) for path in shown if not set(path.parents).isdisjoint(places)]


def needs_scratch_of_the_machine(images: Mapping[str, Sequence[str]], shown: Sequence[Path]) -> bool:
    """Whether a program of this node, or a file that it names, lies where containers get a folder of their own."""
    programs = (path for command in images.values() for path in _named_paths(command))
    scratch = [Path(place) for place in AttemptFolder.scratch.values()]
    return any(_lies_in(path, scratch) for path in (*programs, *shown))


def _named_paths(program: Sequence[str]) -> set[Path]:
    """The absolute paths among the words of a program."""
    return {Path(word).resolve() for word in program if word.startswith("/")}


def _lies_in(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


class Starter:
    """Starts the containers of all Pods of a node."""

    def __init__(
        self,
        client: Client,
        machine: Machine,
        *,
        services: Cache[Service],
        hosts: HostsFiles,
        clock: Clock,
        timing: Timing,
        podman: PodmanRuntime | None = None,
    ) -> None:
        self._client = client
        self._podman = podman
        self._machine = machine
        self._services = services
        self._hosts = hosts
        self._clock = clock
        self._timing = timing
        self._root = os.geteuid() == 0
        self._tokens = Tokens(client, clock)
        self.claims = ClaimFolders(client, machine.directory / "claims")
        """Where the claims of Pods lie."""

    def sources(self, pod: Pod, record: PodRecord) -> Sources:
        """What a Pod may refer to, fresh from the API server."""
        host = self._machine.host
        fields = {
            "status.podIP": record.address,
            "status.podIPs": record.address,
            "status.hostIP": host,
            "status.hostIPs": host,
            "spec.nodeName": self._machine.name,
        }
        return Sources(self._client, pod, fields=fields, tokens=self._tokens)

    def forget(self, uid: str) -> None:
        """The Pod is gone."""
        self._tokens.forget(uid)

    async def make_volumes(self, pod: Pod, record: PodRecord, folder: PodFolder) -> None:
        """Makes the volumes of a Pod, or brings their files up to date."""
        sources = self.sources(pod, record)
        containers = {each["name"]: each for each in (*pod.init_containers, *pod.containers)}
        resources = resources_of(containers, self._machine.capacity)
        group = (pod.spec.get("securityContext") or {}).get("fsGroup")
        folder.volumes.mkdir(mode=0o755, exist_ok=True)
        user = user_of(pod, {}, record.user) if self._root else None
        # Theirs, so that a Secret with mode 0400 can be read: in a cluster most programs are root in their container.
        owner = (
            None
            if user is None
            else Owner(user["uid"], user["gid"] if group is None else group, shared=group is not None)
        )
        await self._claims_of(pod, record)
        for volume in pod.spec.get("volumes") or ():
            if volume.get("persistentVolumeClaim") is not None:
                continue
            place = folder.volumes / volume["name"]
            files = await files_of(volume, sources, resources)
            if files is None:
                make_empty(place, group=group if self._root else None)
            else:
                write_files(place, files, owner=owner)

    async def _claims_of(self, pod: Pod, record: PodRecord) -> dict[str, Path]:
        """Where the volumes of a Pod that are claims lie, by their names."""
        group = (pod.spec.get("securityContext") or {}).get("fsGroup") if self._root else None
        return {
            volume["name"]: await self.claims.of(pod.metadata.namespace, volume, user=record.user, group=group)
            for volume in pod.spec.get("volumes") or ()
            if volume.get("persistentVolumeClaim") is not None
        }

    def contained(self, pod: Pod) -> set[str]:
        """The containers that podman runs: where it is at hand, those whose image stands for no program here.

        A Pod with such a one is podman's: the others are processes in its network.
        """
        if self._podman is None:
            return set()
        return {each["name"] for each in pod.all_containers if self._program(each) is None}

    def _program(self, container: RawObject) -> Sequence[str] | None:
        return program_for(container.get("image", ""), self._machine.images)

    async def start(self, pod: Pod, record: PodRecord, folder: PodFolder, start: Start) -> int | None:
        """Starts a container and says the pid of its shim, where it has one that is our child.

        NotStarted says what keeps it from being run at all.
        """
        container = start.container
        program = self._program(container)
        if program is None and record.runtime == PODMAN:
            await self._start_contained(pod, record, folder, start)
            return None
        if program is None:
            raise NotStarted("ErrImagePull", not_here(container.get("image", ""), self._machine.images))
        attempt = folder.attempt(container["name"], start.number)
        with _explained():
            order = await self._order(pod, record, folder, start, program)
            if record.runtime != PODMAN and self._machine.binds:
                order["binds"] = {"address": record.address, "ports": ports_of_services(self._services)}
            elif record.runtime == PODMAN:
                order["network"] = await self._podman_or_not().network_of(pod, record)
        order |= {"step": start.step, "image": container.get("image", "")}
        attempt.prepare(order)
        shim = await self._launch(attempt)
        present = attempt.read()
        if present is not None and not present.begun and attempt.call_off():
            said = attempt.said()
            attempt.remove()
            raise NotStarted("CreateContainerError", f"the shim did not begin: {said or 'it said nothing'}")
        return shim

    def _podman_or_not(self) -> PodmanRuntime:
        if self._podman is None:
            raise NotStarted("CreateContainerError", "podman is not used any more: the Pod cannot go on (--runtime)")
        return self._podman

    async def _start_contained(self, pod: Pod, record: PodRecord, folder: PodFolder, start: Start) -> None:
        podman = self._podman_or_not()
        with _explained():
            image = await podman.image(pod, start, self.sources(pod, record))
            values, mounts = await self._inside(pod, record, folder, start, {})
            wanted = Wanted(
                pod=pod,
                record=record,
                folder=folder,
                start=start,
                image=image,
                values=values,
                mounts=[*mounts, *self._own_files(pod, record, folder, start, mounts)],
                log_limit=self._machine.log_limit,
            )
            await podman.start(wanted)

    async def _inside(
        self, pod: Pod, record: PodRecord, folder: PodFolder, start: Start, base: Mapping[str, str]
    ) -> tuple[dict[str, str], list[Mount]]:
        """The variables of a container, and its volumes."""
        container, machine = start.container, self._machine
        base = {**base, "HOSTNAME": host_name(pod), **service_variables(pod, self._services), **machine.environment}
        values = await environment(container, self.sources(pod, record), base=base, capacity=machine.capacity)
        claims = await self._claims_of(pod, record)
        return values, mounts_of(container, pod.spec, folder.volumes, values, claims)

    def _own_files(
        self, pod: Pod, record: PodRecord, folder: PodFolder, start: Start, mounts: Sequence[Mount]
    ) -> list[Mount]:
        """The file for a container's last words, and that of hosts unless the Pod brings one."""
        message = start.container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
        own = [Mount(folder.attempt(start.container["name"], start.number).message_file, message, False)]
        if HOSTS not in {message, *(mount.path for mount in mounts)}:
            rewrite(folder.hosts, self._hosts.content(pod, record.address))
            own.append(Mount(folder.hosts, HOSTS, False))
        return own

    async def _order(
        self,
        pod: Pod,
        record: PodRecord,
        folder: PodFolder,
        start: Start,
        program: Sequence[str],
    ) -> dict[str, Any]:
        machine = self._machine
        container = start.container
        attempt = folder.attempt(container["name"], start.number)
        base = {"PATH": _path(program), "HOME": "/"}
        values, mounts = await self._inside(pod, record, folder, start, base)
        order: dict[str, Any] = {
            "command": command_line(container, program, values),
            "environment": values,
            "folder": container.get("workingDir") or "/",
            "logLimit": machine.log_limit,
            "stopSignal": stop_signal(container),
        }
        user = user_of(pod, container, record.user) if self._root else None
        if _must_not_be_root(pod, container) and (user["uid"] if user else os.geteuid()) == 0:
            raise Missing(f"container {container['name']}: runAsNonRoot is set, and this node would run it as root")
        if user is not None:
            order["user"] = user
        if machine.mounts:
            mounts += self._own_files(pod, record, folder, start, mounts)
            taken = {mount.path for mount in mounts}
            for name, path in attempt.scratch.items() if machine.own_scratch else ():
                if path not in taken:
                    mounts.append(Mount(attempt.path / name, path, False))
            closed = user is not None and user["uid"] != 0
            shown = [*machine.shown, *program_files(program, machine.shown)]
            mounts += hidden_programs(shown, mounts)
            order["root"] = {
                "base": str(attempt.path / "base"),
                "hostname": host_name(pod),
                "processes": machine.processes,
                "shown": [str(path) for path in shown] if closed else [],
                "covered": [str(path) for path in (machine.directory, *machine.covered)],
                "mounts": [mount.as_order() for mount in mounts],
            }
        elif mounts := [mount for mount in mounts if not _is_token(mount)]:
            order["told"] = self._told(container, [*mounts, Mount(attempt.message_file, DEFAULT_MESSAGE_PATH, False)])
        return order

    def _told(self, container: RawObject, mounts: Sequence[Mount]) -> dict[str, str]:
        """Where a program finds by its variables what cannot be mounted; Missing where it does not understand that."""
        variables = program_for(container.get("image", ""), self._machine.told) or {}
        if not all(mount.path in variables and not mount.inside for mount in mounts):
            raise Missing(
                f"container {container['name']}: nothing can be mounted on this machine, and so it cannot have its "
                f"volumes: {how_to_mount(root=self._root)}"
            )
        return {name: str(mount.source) for mount in mounts for name in variables[mount.path]}

    async def _launch(self, attempt: AttemptFolder) -> int:
        """Starts the shim and waits until it says that the program runs, or could not be run."""
        reader, writer = os.pipe()
        try:
            pid = os.posix_spawn(  # noqa: ASYNC221 - it returns at once
                sys.executable,
                [sys.executable, "-I", "-S", "-B", str(SHIM), str(attempt.path)],
                {"PATH": PATH, "LC_ALL": "C.UTF-8"},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, writer, 1),
                    (os.POSIX_SPAWN_OPEN, 2, str(attempt.path / "shim.err"), os.O_WRONLY | os.O_CREAT, 0o600),
                ],
                setsigmask=[],
                setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGCHLD],
            )
        finally:
            os.close(writer)
        try:
            with suppress(TimeoutError):  # a machine that is that busy: what happened is read from the folder
                async with self._clock.timeout(self._timing.launch):
                    await readable(reader)  # nobody writes to it: that is the end of who could
        finally:
            os.close(reader)
        return pid


@contextmanager
def _explained() -> Iterator[None]:
    """Says in the words of a status what keeps a container from being run."""
    try:
        yield
    except Missing as error:
        raise NotStarted("CreateContainerConfigError", str(error)) from error
    except ContainersError as error:
        raise NotStarted("CreateContainerError", str(error)) from error


def _is_token(mount: Mount) -> bool:
    """Whether this is the token that a Pod gets unasked: where nothing can be mounted it does without."""
    return mount.path == TOKEN_FOLDER and mount.source.name.startswith(TOKEN_PREFIX)


def user_of(pod: Pod, container: RawObject, own: int) -> RawObject | None:
    """Who a container runs as: whom the Pod says, else the Pod's own user; None means: as the node itself."""
    pod_security = pod.spec.get("securityContext") or {}
    security = container.get("securityContext") or {}
    uid = security.get("runAsUser", pod_security.get("runAsUser"))
    gid = security.get("runAsGroup", pod_security.get("runAsGroup"))
    groups = list(pod_security.get("supplementalGroups") or ())
    if (group := pod_security.get("fsGroup")) is not None:
        groups.append(group)
    if not own and uid is None and gid is None:
        return None
    instead = own or _NOBODY
    return {"uid": instead if uid is None else uid, "gid": instead if gid is None else gid, "groups": groups}


def _path(program: Sequence[str]) -> str:
    """Where commands are found: as in an image, the folder of its own program is among the places."""
    folder = os.path.dirname(program[0]) if program else ""  # noqa: PTH120 - a name without a folder stays one
    return f"{PATH}:{folder}" if folder.startswith("/") and folder not in PATH.split(":") else PATH


def _must_not_be_root(pod: Pod, container: RawObject) -> bool:
    pod_security = pod.spec.get("securityContext") or {}
    return bool((container.get("securityContext") or {}).get("runAsNonRoot", pod_security.get("runAsNonRoot")))
