"""What this node does not do, found before anything of a Pod is started, with the sentence that says so.

What would reach out of a Pod (hostPath, privileged) or needs a kernel of its own is refused, and the Pod ends Failed;
a process of the machine may be less than a container. Pure: the Pod in, a refusal or None out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from edgewright.local.node.pod_ids import PodIds
from edgewright.local.node.podman_spec import DEFAULT_CAPABILITIES
from edgewright.local.node.pods import Pod
from edgewright.runtime.objects import RawObject

VOLUMES = frozenset({"configMap", "secret", "emptyDir", "downwardAPI", "projected"})
_PROJECTED = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
_HOST = {"hostNetwork": "the network", "hostPID": "the processes", "hostIPC": "the memory"}


@dataclass(frozen=True)
class Refusal:
    """Why a Pod does not run here: a word for machines and a sentence for people."""

    reason: str
    message: str


def refusal(
    pod: Pod,
    *,
    root: bool,
    ids: PodIds | None = None,
    commands: bool = True,
    claims: bool = False,
    contained: Collection[str] = (),
) -> Refusal | None:
    """The first thing in a Pod that this node does not do.

    `root` says whether the node may change users, and `ids` which users and groups Pods may have then. `commands` says
    whether a Pod may name programs of the machine itself, and not only images that stand for some, and `claims` whether
    claims are folders here. A container that is named in `contained` brings programs and users of its own.
    """
    volumes = VOLUMES | {"persistentVolumeClaim"} if claims else VOLUMES
    security = pod.spec.get("securityContext") or {}

    def refusals() -> Iterator[Refusal]:
        yield from _outside(pod, volumes)
        if ids is not None and any(each["name"] not in contained for each in pod.all_containers):
            yield from _groups(security, ids)
        for container in pod.all_containers:
            if container["name"] in contained:
                yield from _contained(container)
                continue
            yield from _container(container, security, root=root, ids=ids)
            if not commands:
                yield from _commands(container)

    return next(refusals(), None)


def _contained(container: RawObject) -> Iterator[Refusal]:
    yield from _unsupported(container)
    added = ((container.get("securityContext") or {}).get("capabilities") or {}).get("add") or ()
    if refused := sorted({each.removeprefix("CAP_") for each in added} - DEFAULT_CAPABILITIES):
        text = f"container {container['name']}: the added capability {refused[0]} is refused on this node"
        yield Refusal("PrivilegedRefused", text)


def _outside(pod: Pod, volumes: frozenset[str]) -> Iterator[Refusal]:
    """What would reach out of a Pod, however it is run."""
    spec = pod.spec
    for field, what in _HOST.items():
        if spec.get(field):
            yield Refusal("HostAccessRefused", f"spec.{field}: a Pod on this node does not share {what} of the machine")
    for volume in spec.get("volumes") or ():
        yield from _volume(volume, volumes)
    if spec.get("ephemeralContainers"):
        yield Refusal("NotSupported", "spec.ephemeralContainers: this node runs none")


def _volume(volume: RawObject, supported: frozenset[str]) -> Iterator[Refusal]:
    name = volume["name"]
    kinds = {field for field, value in volume.items() if field != "name" and value is not None}
    if "hostPath" in kinds:
        yield Refusal(
            "HostPathRefused", f"volume {name}: hostPath is refused on this node: use emptyDir or a ConfigMap"
        )
    if unknown := sorted(kinds - supported):
        known = ", ".join(sorted(supported))
        yield Refusal(
            "VolumeNotSupported", f"volume {name}: {unknown[0]} is not supported by this node, but {known} are"
        )
    for source in (volume.get("projected") or {}).get("sources") or ():
        if unknown := sorted(set(source) - _PROJECTED):
            yield Refusal(
                "VolumeNotSupported", f"volume {name}: a projected {unknown[0]} is not supported by this node"
            )


def _groups(security: RawObject, ids: PodIds) -> Iterator[Refusal]:
    """A group opens all files that it may read on the machine."""
    wanted = {"fsGroup": [security.get("fsGroup")], "supplementalGroups": security.get("supplementalGroups") or ()}
    for field, numbers in wanted.items():
        for number in numbers:
            if number is not None and not ids.allow(number):
                text = f"securityContext.{field}: {number} is refused: Pods here may have the groups {ids} (--pod-ids)"
                yield Refusal("RunAsGroupRefused", text)


def _container(container: RawObject, pod_security: RawObject, *, root: bool, ids: PodIds | None) -> Iterator[Refusal]:
    name = container["name"]
    security = container.get("securityContext") or {}
    yield from _unsupported(container)
    if (security.get("capabilities") or {}).get("add"):
        yield Refusal("PrivilegedRefused", f"container {name}: added capabilities are refused on this node")
    for field in ("runAsUser", "runAsGroup"):
        wanted = security.get(field, pod_security.get(field))
        if wanted == 0 and field == "runAsUser":
            yield Refusal("RunAsUserRefused", f"container {name}: runAsUser 0 is refused: Pods never run as root here")
        elif wanted is not None and ids is not None and not ids.allow(wanted):
            text = f"container {name}: {field} {wanted} is refused: Pods here may have the ids {ids} (--pod-ids)"
            yield Refusal("RunAsUserRefused" if field == "runAsUser" else "RunAsGroupRefused", text)
        if wanted is not None and not root:
            text = f"container {name}: {field} {wanted} cannot be honoured: this node does not run as root"
            yield Refusal("RunAsUserRefused", text)


def _unsupported(container: RawObject) -> Iterator[Refusal]:
    """What no container may be here, however it is run."""
    name = container["name"]
    if (container.get("securityContext") or {}).get("privileged"):
        yield Refusal("PrivilegedRefused", f"container {name}: privileged is refused on this node")
    if container.get("volumeDevices"):
        yield Refusal("VolumeNotSupported", f"container {name}: volumeDevices are not supported by this node")
    if container.get("restartPolicy") not in {None, "Always"}:
        text = f"container {name}: a restartPolicy of its own other than Always is not supported by this node"
        yield Refusal("NotSupported", text)
    for hook in container.get("lifecycle") or {}:
        if hook in {"postStart", "preStop"}:
            yield Refusal("NotSupported", f"container {name}: lifecycle.{hook} is not supported by this node")


def _commands(container: RawObject) -> Iterator[Refusal]:
    """An image stands for one program here and brings no others: a command is any program of the machine."""
    named = {"command": container.get("command")}
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        named[f"{probe}.exec"] = (container.get(probe) or {}).get("exec")
    for field, value in named.items():
        if value:
            text = (
                f"container {container['name']}: {field} is refused: on this node images are programs, and a Pod names"
                " no other one (--allow-command lets it)"
            )
            yield Refusal("CommandRefused", text)
