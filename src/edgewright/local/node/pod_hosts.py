"""The hosts file of each Pod: its own name, those of Services, and those that headless Services give to Pods.

A cluster has a DNS server for these names; here a file in the Pod's mount namespace takes its place. `container_start`
writes it before the first container, and `HostsFiles` rewrites it, in place, when a Pod or a Service comes or goes. It
knows the Pods of this node only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from edgewright.local.controllers.resources import Service
from edgewright.local.node.pods import Pod
from edgewright.runtime import logs
from edgewright.runtime.cache import Cache

HOSTS = "/etc/hosts"
CLUSTER_DOMAIN = "cluster.local"
_LONGEST = 63

_log = logs.get("local.node.hosts")


def host_name(pod: Pod) -> str:
    """What a Pod's machine is called: what it says, else as the Pod, cut to what a host name may be."""
    name = str(pod.spec.get("hostname") or pod.metadata.name)
    return name[:_LONGEST].rstrip("-.")


def hosts_file(machine: str, pod: Pod, address: str, names: Iterable[str]) -> str:
    """The content of a Pod's file: what the machine knows, the Pod's own names, and those of headless Services."""
    name, domain = host_name(pod), str(pod.spec.get("subdomain") or "")
    full = [f"{name}.{domain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"] if domain else []
    lines = [machine.rstrip("\n"), " ".join((address, *full, name))]
    aliases = pod.spec.get("hostAliases") or ()
    lines += [" ".join((alias.get("ip", ""), *(alias.get("hostnames") or ()))) for alias in aliases]
    return "\n".join((*lines, *names)) + "\n"


def service_names(services: Iterable[Service], pods: Iterable[Pod], namespace: str) -> list[str]:
    """A line for each Service with an address, and for each Pod of a headless one, as a Pod in `namespace` asks."""
    known = sorted(pods, key=lambda pod: (pod.deleting, pod.key))
    offered = sorted(services, key=lambda each: each.key)
    addressed = [
        " ".join((service.spec.cluster_ip, *_spellings(service, near=service.metadata.namespace == namespace)))
        for service in offered
        if service.spec.cluster_ip.startswith("127.")  # others lead nowhere from here
    ]
    return addressed + [
        line
        for service in offered
        if service.spec.cluster_ip == "None" and service.spec.selector
        for pod in known
        if _serves(service, pod)
        for line in _lines(service, pod, near=service.metadata.namespace == namespace)
    ]


def _serves(service: Service, pod: Pod) -> bool:
    labels = pod.metadata.labels
    if pod.metadata.namespace != service.metadata.namespace or pod.ended or not pod.status.get("podIP"):
        return False
    if any(labels.get(key) != value for key, value in service.spec.selector.items()):
        return False
    return service.spec.publish_not_ready_addresses or _is_ready(pod)


def _is_ready(pod: Pod) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod.status.get("conditions") or ())


def _lines(service: Service, pod: Pod, *, near: bool) -> Iterator[str]:
    name, spellings = service.metadata.name, _spellings(service, near=near)
    address = pod.status["podIP"]
    if pod.spec.get("hostname") and pod.spec.get("subdomain") == name:
        yield " ".join((address, *(f"{pod.spec['hostname']}.{each}" for each in spellings)))
    yield " ".join((address, *spellings))


def _spellings(service: Service, *, near: bool) -> list[str]:
    """The names of a Service, the full one first; its bare name counts in its own namespace."""
    name, namespace = service.metadata.name, service.metadata.namespace
    full = [f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]
    return full + ([name] if near else [])


class HostsFiles:
    """The hosts files of the Pods that run here, kept up to date."""

    def __init__(self, pods: Cache[Pod], services: Cache[Service], places: Callable[[], Mapping[str, Path]]) -> None:
        """`places` says where the file of each Pod is that has one, by the Pod's uid."""
        self._pods = pods
        self._services = services
        self._places = places
        self._changed = asyncio.Event()
        self._written: dict[str, str] = {}
        """What each file was last made to hold here, by the Pod's uid."""
        for cache in (pods, services):
            cache.subscribe(lambda _change: self._changed.set())

    def content(self, pod: Pod, address: str) -> str:
        """What the file of a Pod holds now."""
        names = service_names(self._services, self._pods, pod.metadata.namespace)
        return hosts_file(_of_the_machine(address), pod, address, names)

    async def keep(self) -> None:
        """Rewrites the files whenever something has changed, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._bring_up_to_date()

    def _bring_up_to_date(self) -> None:
        places, names = self._places(), dict[str, list[str]]()
        written: dict[str, str] = {}
        for pod in self._pods:
            place, address, namespace = places.get(pod.uid), pod.status.get("podIP"), pod.metadata.namespace
            if place is None or not address or pod.ended:
                continue
            if namespace not in names:
                names[namespace] = service_names(self._services, self._pods, namespace)
            content = written[pod.uid] = hosts_file(_of_the_machine(address), pod, address, names[namespace])
            if self._written.get(pod.uid) == content:
                continue
            try:
                rewrite(place, content)
            except OSError as error:
                _log.warning("hosts file of the Pod is not up to date", pod=pod.key, error=str(error))
        self._written = written


def rewrite(path: Path, content: str) -> None:
    """Changes a file that is mounted somewhere: the same file, or whoever has mounted it would keep the old one."""
    data = content.encode()
    if path.exists() and path.read_bytes() == data:
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def _of_the_machine(address: str) -> str:
    """What a Pod at this address shares of the machine's own names: all, or nothing where its network is another."""
    if not address.startswith("127."):
        return "127.0.0.1 localhost\n::1 localhost"
    try:
        return Path(HOSTS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "127.0.0.1 localhost"
