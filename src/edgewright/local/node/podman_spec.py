"""What podman is told of a Pod and of its containers, in the words of its own API.

`podman_runtime` sends what comes out of here. Pure: the Pod, its mounts and its variables in, JSON out.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edgewright.local.node.environment import expand
from edgewright.local.node.pods import Pod
from edgewright.local.node.sources import Missing, quantity
from edgewright.local.node.volumes import Mount
from edgewright.runtime.objects import RawObject

LABEL: Final = "edgewright.dev/node-folder"
"""Whose a pod, a container or a network is: the folder of the node that made it."""
POD_UID: Final = "edgewright.dev/pod-uid"
DEFAULT_CAPABILITIES: Final = frozenset(
    {
        *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""What root may do in a container unless it is dropped; a Pod may add no other."""
_CPU_PERIOD: Final = 100_000
_SHARES_PER_CPU: Final = 1024
_LEAST_SHARES: Final = 2


def pod_name(uid: str) -> str:
    """What podman calls a Pod."""
    return f"edgewright-{uid}"


def container_name(uid: str, container: str, number: int) -> str:
    """What podman calls one attempt to run a container."""
    return f"{pod_name(uid)}-{container}-{number}"


def labels_of(folder: str, pod: Pod) -> dict[str, str]:
    """By which ours are known, and people find them with `podman ps`."""
    names = {"io.kubernetes.pod.name": pod.metadata.name, "io.kubernetes.pod.namespace": pod.metadata.namespace}
    return {LABEL: folder, POD_UID: pod.uid, **names}


def pod_spec(pod: Pod, *, hostname: str, labels: Mapping[str, str], network: str, address: str) -> RawObject:
    """A pod with an address of its own, which its containers share."""
    shared = ["net", "ipc", "uts", *(("pid",) if pod.spec.get("shareProcessNamespace") else ())]
    ports = [
        {
            "container_port": port["containerPort"],
            "host_port": port["hostPort"],
            "protocol": str(port.get("protocol") or "TCP").lower(),
            "host_ip": port.get("hostIP") or "",
        }
        for container in pod.containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]
    return {
        "name": pod_name(pod.uid),
        "hostname": hostname,
        "labels": dict(labels),
        "shared_namespaces": shared,
        "netns": {"nsmode": "bridge"},
        "Networks": {network: {"static_ips": [address], "interface_name": "eth0"}},
        "no_manage_hosts": True,
        **({"portmappings": ports} if ports else {}),
        **_names(pod),
    }


def _names(pod: Pod) -> RawObject:
    """Whom the containers ask for names, where the Pod says so itself."""
    given = pod.spec.get("dnsConfig") or {}
    options = [each["name"] + (f":{each['value']}" if each.get("value") else "") for each in given.get("options") or ()]
    found = {"dns_server": given.get("nameservers"), "dns_search": given.get("searches"), "dns_option": options}
    return {name: value for name, value in found.items() if value}


def container_spec(
    pod: Pod,
    container: RawObject,
    *,
    name: str,
    image: str,
    values: Mapping[str, str],
    mounts: Sequence[Mount],
    labels: Mapping[str, str],
    log: str,
    log_limit: int,
) -> RawObject:
    """One container of a pod, as the Pod declares it."""
    security = _security(pod, container)
    given = security.get("capabilities") or {}
    spec: RawObject = {
        "name": name,
        "image": image,
        "entrypoint": [expand(part, values) for part in container.get("command") or ()],
        "command": [expand(part, values) for part in container.get("args") or ()],
        "work_dir": container.get("workingDir") or "",
        "pod": pod_name(pod.uid),
        "labels": {**labels, "io.kubernetes.container.name": container["name"]},
        "env": dict(values),
        "mounts": [_mount(each) for each in mounts],
        "log_configuration": {"driver": "k8s-file", "path": log, "size": log_limit},
        "restart_policy": "no",
        "systemd": "false",
        "httpproxy": False,
        "terminal": bool(container.get("tty")),
        "stdin": bool(container.get("stdin")),
        "read_only_filesystem": bool(security.get("readOnlyRootFilesystem")),
        "no_new_privileges": security.get("allowPrivilegeEscalation") is False,
        "cap_add": _capabilities(given.get("add")),
        "cap_drop": _capabilities(given.get("drop")),
        "resource_limits": limits_of(container),
        **_user(security),
    }
    return {key: value for key, value in spec.items() if value not in ([], {}, "")}


def _security(pod: Pod, container: RawObject) -> RawObject:
    return {**(pod.spec.get("securityContext") or {}), **(container.get("securityContext") or {})}


def _mount(mount: Mount) -> RawObject:
    source = f"{mount.source}/{mount.inside}" if mount.inside else str(mount.source)
    options = ["rbind", "rprivate", "ro" if mount.read_only else "rw"]
    return {"type": "bind", "source": source, "destination": mount.path, "options": options}


def _capabilities(names: Sequence[str] | None) -> list[str]:
    return [name if name == "ALL" else f"CAP_{name.removeprefix('CAP_')}" for name in names or ()]


def _user(security: RawObject) -> RawObject:
    """Who the program runs as; without a word of the Pod's that is whom the image names."""
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    found: RawObject = {}
    if user is not None:
        found["user"] = f"{user}" if group is None else f"{user}:{group}"
    elif group is not None:
        found["user"] = f"0:{group}"
    others = [*(security.get("supplementalGroups") or ()), *([security["fsGroup"]] if "fsGroup" in security else ())]
    return found | {"groups": [str(each) for each in others]}


def demand_not_root(pod: Pod, container: RawObject, image_user: str) -> None:
    """Raises Missing where a container must not be root and would be, as the kubelet words it."""
    security = _security(pod, container)
    if not security.get("runAsNonRoot"):
        return
    user = str(security.get("runAsUser", image_user.partition(":")[0]))
    if user in {"", "0", "root"}:
        raise Missing(f"container {container['name']} has runAsNonRoot and image will run as root")
    if not user.isdigit():
        raise Missing(
            f"container {container['name']} has runAsNonRoot and image has non-numeric user ({user}), "
            "cannot verify user is non-root"
        )


def limits_of(container: RawObject) -> RawObject:
    """Memory and CPU, as Kubernetes turns requests and limits into those of a control group."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    found: dict[str, Any] = {}
    if "memory" in limits:
        found["memory"] = {"limit": int(quantity(limits["memory"]))}
    cpu: RawObject = {}
    if "cpu" in limits:
        cpu |= {"period": _CPU_PERIOD, "quota": max(1000, int(quantity(limits["cpu"]) * _CPU_PERIOD))}
    if (asked := requests.get("cpu", limits.get("cpu"))) is not None:
        cpu["shares"] = max(_LEAST_SHARES, int(quantity(asked) * _SHARES_PER_CPU))
    return found | ({"cpu": cpu} if cpu else {})


def stop_signal(container: RawObject, image_signal: str = "") -> int:
    """The signal by which a container is asked to end: the Pod's, else the image's, else SIGTERM."""
    name = (container.get("lifecycle") or {}).get("stopSignal") or image_signal or "SIGTERM"
    if name.isdigit():
        return int(name)
    name = name.upper()
    return int(getattr(signal, name if name.startswith("SIG") else f"SIG{name}", signal.SIGTERM))
