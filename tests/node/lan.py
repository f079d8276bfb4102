"""The LAN as the tests see it: devices in a network namespace on the bridge, and who gives Services their addresses.

`Fleet` runs `lan_program` at the other end of a cable and reads what its devices wrote into their journals: the witness
of what really happened to them. `Pool` is the small load balancer of these tests, a thread that knows nothing of ours.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
from collections.abc import Sequence
from ipaddress import IPv4Address
from types import TracebackType
from typing import Any, Final, Self

from edgewright.devices.simulated.journal import Did, Entry, Journal
from tests.harness import Process, RequestError
from tests.node.cluster import RealCluster, fetched, run
from tests.node.layout import FIRST_DEVICE, FLEET_ADDRESS, LAN_ADDRESS, LAN_BRIDGE, LAN_PREFIX

ATTESTATION_PORT: Final = 8000
DEVICES: Final = "devices"
"""The network namespace of the devices."""
_MOST: Final = 90
_EVERY: Final = 0.2


def attach_devices() -> None:
    """Makes the namespace of the devices, with all addresses that they may have, and connects it to the bridge."""
    run("ip", "netns", "add", DEVICES)
    run("ip", "link", "add", "devices0", "type", "veth", "peer", "name", "eth0", "netns", DEVICES)
    run("ip", "link", "set", "devices0", "master", LAN_BRIDGE, "up")
    run("ip", "-n", DEVICES, "link", "set", "lo", "up")
    run("ip", "-n", DEVICES, "link", "set", "eth0", "up")
    for address in (FLEET_ADDRESS, *(str(IPv4Address(FIRST_DEVICE) + number) for number in range(_MOST))):
        run("ip", "-n", DEVICES, "addr", "add", f"{address}/{LAN_PREFIX}", "dev", "eth0")


class Fleet:
    """Some devices on the LAN, discovered into a namespace, while the context lasts."""

    _used = 0

    def __init__(self, cluster: RealCluster, namespace: str, *, count: int, faults: Sequence[str] = ()) -> None:
        """`faults` are those of `edgewright simulate`; each fleet has addresses that no other had before."""
        first = Fleet._used
        Fleet._used += count
        assert Fleet._used <= _MOST, "there are no more addresses for devices"
        self.addresses = [str(IPv4Address(FIRST_DEVICE) + first + number) for number in range(count)]
        self._cluster, self._namespace = cluster, namespace
        self._journal = cluster.room / f"journal-{first}.log"
        self._journal.touch()
        server = f"https://{LAN_ADDRESS}:{cluster.port}"
        settings = {
            "kubeconfig": str(cluster.kubeconfig_for("akri", ["system:masters"], server=server)),
            "namespace": namespace,
            "configuration": f"lan-{first}",
            "count": count,
            "first_address": self.addresses[0],
            "faults": list(faults),
            "port": ATTESTATION_PORT,
            "journal": str(self._journal),
        }
        command = ["/usr/bin/nsenter", f"--net=/run/netns/{DEVICES}", sys.executable, "-m", "tests.node.lan_program"]
        log = cluster.room / f"fleet-{first}.log"
        self.process = Process(
            "fleet", [*command, json.dumps(settings)], log=log, ready=lambda: "ready" in self.process.output()
        )

    def __enter__(self) -> Self:
        self.process.start()
        self.process.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()

    def versions(self) -> list[str]:
        """What each device says that it runs, asked of the device itself; empty where it does not answer."""
        return [json.loads(fetched(f"http://{each}/info") or "{}").get("version", "") for each in self.addresses]

    def uids(self) -> list[str]:
        """By what a FlashJob names the devices: the uids of their Instances, in the order of the devices."""
        path = f"/apis/akri.sh/v0/namespaces/{self._namespace}/instances"
        found = {
            each["spec"]["brokerProperties"]["HOST_ENDPOINT"]: each["metadata"]["uid"]
            for each in self._cluster.request("GET", path)["items"]
        }
        return [found[each] for each in self.addresses]

    def journals(self) -> dict[str, Journal]:
        """What happened to each device so far, by its address."""
        found = {address: Journal() for address in self.addresses}
        for line in self._journal.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                said: dict[str, Any] = json.loads(line)
                address = said.pop("device")
                found[address].add(Entry(**{**said, "did": Did(said["did"])}))
        return found

    def count(self, did: Did) -> int:
        """How often this happened to any of them."""
        return sum(journal.count(did) for journal in self.journals().values())


class Pool:
    """Gives Services of type LoadBalancer addresses, as long as there are some, until it is closed."""

    def __init__(self, cluster: RealCluster, addresses: Sequence[str]) -> None:
        self.addresses = list(addresses)
        """What it may give; a test may change it, and Services keep what they have."""
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pool", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Gives no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY):
            try:
                self._give()
            except (OSError, http.client.HTTPException, RequestError, AssertionError):
                continue  # the API server is unavailable, or somebody was faster: the next round sees what there is

    def _give(self) -> None:
        services = [
            each
            for each in self._cluster.request("GET", "/api/v1/services")["items"]
            if each["spec"].get("type") == "LoadBalancer"
        ]
        given = {entry["ip"] for each in services for entry in _ingress(each)}
        for service in services:
            if _ingress(service) or service["metadata"].get("deletionTimestamp"):
                continue
            free = [address for address in self.addresses if address not in given]
            if not free:
                return
            metadata = service["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/services/{metadata['name']}/status"
            status = {"status": {"loadBalancer": {"ingress": [{"ip": free[0]}]}}}
            self._cluster.request("PATCH", path, status, content_type="application/merge-patch+json")
            given.add(free[0])


def _ingress(service: dict[str, Any]) -> list[dict[str, Any]]:
    return service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
