"""What this node does not do, found before anything of a Pod is started, with the sentence that says so.

Pods are processes here, not containers: what would reach out of them (hostPath, privileged) or needs a kernel of its
own is refused, and the Pod ends Failed. Pure: the Pod in, a refusal or None out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgewright.local.node.pod_ids import PodIds
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


def refusal(pod: Pod, *, root: bool, ids: PodIds | None = None) -> Refusal | None:
    """The first thing in a Pod that this node does not do.

    `root` says whether the node may change users, and `ids` which users and groups Pods may have then.
    """
    return next(_refusals(pod, root=root, ids=ids), None)


def _refusals(pod: Pod, *, root: bool, ids: PodIds | None) -> Iterator[Refusal]:
    spec = pod.spec
    for field, what in _HOST.items():
        if spec.get(field):
            yield Refusal("HostAccessRefused", f"spec.{field}: a Pod on this node does not share {what} of the machine")
    for volume in spec.get("volumes") or ():
        yield from _volume(volume)
    security = spec.get("securityContext") or {}
    if ids is not None:
        yield from _groups(security, ids)
    for container in (*pod.init_containers, *pod.containers):
        yield from _container(container, security, root=root, ids=ids)
    if spec.get("ephemeralContainers"):
        yield Refusal("NotSupported", "spec.ephemeralContainers: this node runs none")


def _volume(volume: RawObject) -> Iterator[Refusal]:
    name = volume["name"]
    kinds = {field for field, value in volume.items() if field != "name" and value is not None}
    if "hostPath" in kinds:
        yield Refusal(
            "HostPathRefused", f"volume {name}: hostPath is refused on this node: use emptyDir or a ConfigMap"
        )
    if unknown := sorted(kinds - VOLUMES):
        known = ", ".join(sorted(VOLUMES))
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
    if security.get("privileged"):
        yield Refusal("PrivilegedRefused", f"container {name}: privileged is refused on this node")
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
    if container.get("volumeDevices"):
        yield Refusal("VolumeNotSupported", f"container {name}: volumeDevices are not supported by this node")
    if container.get("restartPolicy") not in {None, "Always"}:
        text = f"container {name}: a restartPolicy of its own other than Always is not supported by this node"
        yield Refusal("NotSupported", text)
    for hook in container.get("lifecycle") or {}:
        if hook in {"postStart", "preStop"}:
            yield Refusal("NotSupported", f"container {name}: lifecycle.{hook} is not supported by this node")
