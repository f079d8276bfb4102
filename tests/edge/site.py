"""A site as people start it: `edgewright up --gateway`, and on it one edge device whose agent was set up from a bundle.

API server, operator and gateway are that one process, which a test can kill. What the device must do is written as
EdgeWorkloads, and what became of it is read from its EdgeDevice: the whole way, with nothing between that a test made.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from edgewright.api.edge_protocol import Workload
from tests.edge.bucket import S3Server
from tests.edge.machine import Machine
from tests.harness import ApiServer, LocalPlane, wait_until
from tests.harness.processes import Process
from tests.unit.cli.command import edgewright

NAMESPACE: Final = "default"
_CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
_KINDS: Final = f"/apis/management.project-flotta.io/v1alpha1/namespaces/{NAMESPACE}"
_WORKLOADS: Final = f"{_KINDS}/edgeworkloads"
_DEVICES: Final = f"{_KINDS}/edgedevices"
_NAMED: Final = {"apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeWorkload"}
_MERGE: Final = "application/merge-patch+json"
_LIMIT: Final = 400


def has_authority(server: ApiServer, namespace: str = NAMESPACE) -> bool:
    """Whether a gateway has made what bundles are made of."""
    found = server.request("GET", f"/api/v1/namespaces/{namespace}/secrets")["items"]
    names = {each["metadata"]["name"] for each in found}
    return {"flotta-ca", "flotta-host-certificate"} <= names and any(each.startswith("reg-client-ca") for each in names)


class Site:
    """One machine that serves, and the device next to it."""

    def __init__(self, plane: LocalPlane, machine: Machine, port: int) -> None:
        self.plane, self.machine, self.port = plane, machine, port
        self._devices: list[Device] = []
        wait_until(lambda: has_authority(plane), what="the gateway's authority", timeout=_LIMIT)

    @staticmethod
    def options(machine: Machine, port: int) -> tuple[str, ...]:
        """What `edgewright up` needs so that the device can dial in."""
        return ("--gateway", "--gateway-listen", f"0.0.0.0:{port}", "--gateway-name", machine.gateway)

    def kill(self) -> None:
        """Ends API server, operator and gateway as a power cut would."""
        self.plane.api.kill()

    def start(self) -> None:
        """Starts them again."""
        self.plane.api.restart()

    def device(
        self,
        folder: Path,
        s3: S3Server | None = None,
        *,
        state: Path | None = None,
        port: int | None = None,
        bucket_port: int | None = None,
    ) -> Device:
        """A new device, with a bucket of its own where there is a server for it; its agent is not started yet.

        The ports are those at which it reaches the gateway and the bucket, where something lies between.
        """
        name = f"device-{secrets.token_hex(4)}"
        if s3 is not None:
            place, keys = s3.claimed(name, host=self.machine.gateway, port=bucket_port)
            self.write("configmaps", name, place)
            self.write("secrets", name, keys)
        made = Device(self, name, folder, state or folder / "state", port=port or self.port, bucket=s3 is not None)
        self._devices.append(made)
        return made

    def write(self, plural: str, name: str, data: dict[str, str], **more: str) -> None:
        """Makes a ConfigMap or a Secret."""
        self.plane.request("POST", f"{_CORE}/{plural}", {"metadata": {"name": name}, "data": data, **more})

    def until_gone(self, names: Iterable[str]) -> None:
        """Waits until none of these EdgeWorkloads is being deleted: what is made again is another one."""
        asked = set(names)

        def none_goes() -> bool:
            items = self.plane.request("GET", _WORKLOADS)["items"]
            return not asked & {each["metadata"]["name"] for each in items if "deletionTimestamp" in each["metadata"]}

        wait_until(none_goes, what="what was removed is gone", timeout=_LIMIT)

    def workloads(self) -> list[str]:
        """The names of the EdgeWorkloads that there are."""
        return sorted(each["metadata"]["name"] for each in self.plane.request("GET", _WORKLOADS)["items"])

    def clear(self) -> None:
        """Ends the agents and removes the workloads; a device that is gone for good stays, as in life."""
        while self._devices:
            self._devices.pop().agent.kill()
        self.plane.request("DELETE", _WORKLOADS)
        wait_until(lambda: not self.workloads(), what="no workload", timeout=_LIMIT)


class Device:
    """An edge device of the site, as its objects show it."""

    def __init__(self, site: Site, name: str, folder: Path, state: Path, *, port: int, bucket: bool) -> None:
        self.site, self.name, self.state = site, name, state
        self.machine = site.machine
        self._storage = {"storage": {"s3": {"secretName": name, "configMapName": name}}} if bucket else {}
        server = f"{site.machine.gateway}:{port}"
        access = ("--kubeconfig", site.plane.kubeconfig, "--server", server, "--device-id", name)
        done = edgewright("edge", "bundle", folder / "etc", *access, timeout=_LIMIT)
        assert done.returncode == 0, done.stderr
        config = folder / "etc" / "config.toml"
        with config.open("a") as file:
            file.write(f'state-dir = "{state}"\npodman-socket = "{site.machine.socket}"\n')
            file.write("poll-seconds = 0.3\ndata-seconds = 0.3\n")
        self.agent: Process = site.machine.agent(config)

    # --- what it must do ----------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Waits until it is registered, and tells it to be heard every second and where its bucket is."""
        self.until(lambda: self.found, "it is registered")
        spec = {"heartbeat": {"periodSeconds": 1}, **self._storage}
        self.site.plane.request("PATCH", f"{_DEVICES}/{self.name}", {"spec": spec}, content_type=_MERGE)

    def serve(
        self, *workloads: Workload, device: str = "", keep: Iterable[str] = (), pull_secret: str | None = None
    ) -> None:
        """Writes these EdgeWorkloads, for this device or another, and removes all others but those to keep."""
        plane = self.site.plane
        self.site.until_gone(each.name for each in workloads)
        there = set(self.site.workloads())
        for name in there - {each.name for each in workloads} - set(keep):
            plane.request("DELETE", f"{_WORKLOADS}/{name}")
        for each in workloads:
            body = {"metadata": {"name": each.name}, "spec": self._spec(each, device or self.name)}
            if pull_secret:
                body["spec"]["imageRegistries"] = {"secretRef": {"name": pull_secret}}
            if each.name in there:
                plane.request("PATCH", f"{_WORKLOADS}/{each.name}", body, content_type=_MERGE)
            else:
                plane.request("POST", _WORKLOADS, _NAMED | body)

    def remove(self) -> None:
        """Deletes its EdgeDevice."""
        self.site.plane.request("DELETE", f"{_DEVICES}/{self.name}")

    def _spec(self, workload: Workload, device: str) -> dict[str, Any]:
        pod = yaml.safe_load(workload.specification)
        data = {} if workload.data is None else {"data": msgspec.to_builtins(workload.data)}
        return {"type": "pod", "device": device, "pod": {"spec": pod}, **data}

    # --- what became of it --------------------------------------------------------------------------------------------

    @property
    def found(self) -> dict[str, Any] | None:
        """Its EdgeDevice; None before it has registered."""
        path = f"{_DEVICES}/{self.name}"
        there: dict[str, Any] | None = self.site.plane.request("GET", path) if self.site.plane.exists(path) else None
        return there

    @property
    def status(self) -> dict[str, Any]:
        """The status of its EdgeDevice."""
        return (self.found or {}).get("status") or {}

    @property
    def workloads(self) -> dict[str, str]:
        """The phases of its workloads."""
        return {each["name"]: each.get("phase", "") for each in self.status.get("workloads") or ()}

    def reasons(self, kind: str = "") -> set[str]:
        """The reasons of the Events about it, of this kind or of any."""
        events: Iterable[dict[str, Any]] = self.site.plane.request("GET", f"{_CORE}/events")["items"]
        about = [each for each in events if each["involvedObject"]["name"] == self.name]
        return {each["reason"] for each in about if kind in {"", each["type"]}}

    def told(self, reason: str) -> list[str]:
        """What the Events about it say, of those with this reason."""
        events: Iterable[dict[str, Any]] = self.site.plane.request("GET", f"{_CORE}/events")["items"]
        return [
            each["message"]
            for each in events
            if (each["involvedObject"]["name"], each["reason"]) == (self.name, reason)
        ]

    def pods(self) -> list[str]:
        """What podman runs there."""
        return sorted(each.name for each in asyncio.run(self.machine.podman.pods()))

    def open_ports(self, among: Iterable[int]) -> list[int]:
        """Which of these host ports its firewall lets through."""
        rules = self.machine.run("nft", "list", "table", "inet", "edgewright_agent")
        return [port for port in among if str(port) in rules]

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Waits, and says what the agent said and what is known of the device where that was in vain."""
        try:
            wait_until(condition, what=what, timeout=_LIMIT, interval=0.2)
        except AssertionError as error:
            said = self.agent.output()[-3000:] if self.agent.log.exists() else ""
            raise AssertionError(f"{error}\nstatus: {self.status}\nagent: {said}") from None

    def runs(self, *names: str) -> None:
        """Waits until these workloads run, and no other is known."""
        self.until(lambda: self.workloads == dict.fromkeys(names, "Running"), f"{names} run")

    def page(self, port: int) -> None:
        """Waits until a workload answers at this port."""
        self.until(lambda: self.machine.fetch(port, "/out/hello.txt") == f"{self.name}\n", f"the page at {port}")
