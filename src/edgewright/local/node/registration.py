"""The Node object: made when the node starts, kept Ready while it runs, with a Lease as its heartbeat.

`node` runs `Registration.keep` for as long as it lives. What the object says of the machine is read once; a node that
stops leaves the object behind, as a kubelet does, and whoever watches heartbeats notices.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgewright import __version__
from edgewright.local.node.lifecycle import Timing
from edgewright.local.node.pods import NODE, rfc3339
from edgewright.local.node.processes import boot_id
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import AlreadyExists, Conflict, Forbidden, KubernetesError, NotFound
from edgewright.runtime.objects import Key, Kind, RawObject
from edgewright.runtime.patches import merge_diff

LEASE = Kind(group="coordination.k8s.io", version="v1", kind="Lease", plural="leases")
LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
_VERSION = "v1.36.3"
_EFFECT = "NoSchedule"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}

_log = logs.get("local.node.registration")


def capacity(directory: Path, *, pods: int) -> dict[str, str]:
    """What this machine has, as quantities."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    disk = shutil.disk_usage(directory).total // 1024
    cpus = os.cpu_count() or 1
    return {"cpu": str(cpus), "memory": f"{memory}Ki", "ephemeral-storage": f"{disk}Ki", "pods": str(pods)}


def node_info() -> RawObject:
    """What this machine is."""
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        system = "Linux"
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    return {
        "machineID": machine,
        "systemUUID": machine,
        "bootID": boot_id(),
        "kernelVersion": platform.release(),
        "osImage": system,
        "containerRuntimeVersion": f"process://{__version__}",
        "kubeletVersion": _VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": _architecture(),
    }


def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def with_taints(present: Sequence[RawObject], wanted: Mapping[str, bool]) -> list[RawObject]:
    """The taints with and without those keys that a node has or has not; all others stay. Pure."""
    kept = [each for each in present if each["key"] not in wanted or (wanted[each["key"]] and _keeps_away(each))]
    there = {each["key"] for each in kept}
    return [*kept, *({"key": key, "effect": _EFFECT} for key, has in wanted.items() if has and key not in there)]


def _keeps_away(taint: RawObject) -> bool:
    return bool(taint.get("effect") == _EFFECT)


class Registration:
    """Keeps one Node object and its Lease."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        host: str,
        port: int | None,
        capacity: Mapping[str, str],
        clock: Clock,
        timing: Timing,
        labels: Mapping[str, str],
        taints: Mapping[str, bool],
    ) -> None:
        self._nodes = client.raw(NODE)
        self._leases = client.raw(LEASE)
        self._name = name
        self._host = host
        self._port = port
        self._capacity = dict(capacity)
        self._clock = clock
        self._timing = timing
        self._labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _architecture(),
            **labels,
        }
        self._taints = dict(taints)
        self._info = node_info()
        self._told_at = 0.0
        self._repeated = logs.Repeated(_log, now=clock.elapsed)

    async def register(self) -> None:
        """Makes the Node object, or makes the one that is there say what is so now."""
        node: RawObject = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._name, "labels": self._labels},
            "spec": {"taints": taints} if (taints := with_taints([], self._taints)) else {},
            "status": self._status({}),
        }
        try:
            await self._nodes.create(node)
        except AlreadyExists:
            present = await self._nodes.get(Key("", self._name))
            change = merge_diff(
                present["metadata"].get("labels") or {}, {**(present["metadata"].get("labels") or {}), **self._labels}
            )
            if change:
                await self._nodes.patch(Key("", self._name), {"metadata": {"labels": change}})
            await self._taint(present)
        await self._tell()
        await self._renew()

    async def _taint(self, present: RawObject) -> None:
        """Gives the Node that was there the taints of this one; where that is not allowed, people are told to do it."""
        key = Key("", self._name)
        while True:
            before = (present.get("spec") or {}).get("taints") or []
            wanted = with_taints(before, self._taints)
            if wanted == before:
                return
            try:
                await self._nodes.patch(
                    key, {"spec": {"taints": wanted}}, resource_version=present["metadata"]["resourceVersion"]
                )
            except Conflict:
                present = await self._nodes.get(key)
            except Forbidden as error:  # nodes may set their taints when they are made, and not afterwards
                _log.warning(
                    "the Node was there with other taints and they cannot be changed from here: delete it, or use "
                    "kubectl taint nodes",
                    node=self._name,
                    wanted=", ".join(f"{name}:NoSchedule{'' if has else '-'}" for name, has in self._taints.items()),
                    error=str(error),
                )
                return

    async def keep(self) -> None:
        """Renews the heartbeat until cancelled; whatever goes wrong is tried again with the next one."""
        while True:
            await self._clock.sleep(self._timing.heartbeat)
            try:
                await self._renew()
                if self._clock.elapsed() - self._told_at >= self._timing.status_every:
                    await self._tell()
                self._repeated.clear()
            except NotFound:
                await self._register_again()
            except KubernetesError as error:
                self._repeated.warning("node heartbeat failed; retrying", node=self._name, error=str(error))

    async def _register_again(self) -> None:
        try:
            await self.register()
        except KubernetesError as error:
            self._repeated.warning("node cannot be registered; retrying", node=self._name, error=str(error))

    async def _tell(self) -> None:
        """Writes the status where it is another than the server's, heartbeat times included."""
        key = Key("", self._name)
        present = await self._nodes.get(key)
        before = present.get("status") or {}
        change = merge_diff(before, {**before, **self._status(before)})
        if change:
            await self._nodes.patch(key, {"status": change}, subresource="status")
        self._told_at = self._clock.elapsed()

    async def _renew(self) -> None:
        """The Lease that says that the node lives; where there is no namespace for it, nobody looks for it."""
        key = Key(LEASE_NAMESPACE, self._name)
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            await self._leases.patch(key, {"spec": spec})
        except NotFound:
            await self._make_lease(spec)

    async def _make_lease(self, spec: RawObject) -> None:
        node = await self._nodes.get(Key("", self._name))  # gone: NotFound again, and it is registered again
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        metadata = {"name": self._name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        try:
            await self._leases.create(
                {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}
            )
        except (NotFound, AlreadyExists, Conflict):
            return

    def _status(self, before: RawObject) -> RawObject:
        now = rfc3339(self._clock.now())
        conditions = {each["type"]: each for each in before.get("conditions") or ()}
        for type_, value, reason, message in (
            ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ("Ready", "True", "KubeletReady", "the node runs Pods as processes"),
        ):
            old = conditions.get(type_) or {}
            since = old.get("lastTransitionTime") if old.get("status") == value else now
            conditions[type_] = {
                "type": type_,
                "status": value,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since or now,
            }
        status: RawObject = {
            "capacity": self._capacity,
            "allocatable": self._capacity,
            # No host name: it need not resolve anywhere, and API servers dial it before the address.
            "addresses": [{"type": "InternalIP", "address": self._host}],
            "conditions": list(conditions.values()),
            "nodeInfo": self._info,
        }
        if self._port is not None:
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._port}}
        return status
