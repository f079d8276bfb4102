"""Charts of public shape on the real node: the operator runs next to it, their Pods are the kubelet's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.cluster import RealCluster, run
from tests.node.layout import LAN_BRIDGE, REGISTRY
from tests.public_charts.life import Site, live

CLASS = "folder"
SERVICES = "10.96.0.0/16"
_VOLUMES = 6


def volume(folder: Path) -> dict[str, Any]:
    """A folder of the node as a volume: what an administrator gives where nothing makes volumes."""
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    spec = {
        "storageClassName": CLASS,
        "capacity": {"storage": "8Mi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": str(folder), "type": "Directory"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": folder.name}, "spec": spec}


@pytest.fixture
def site(cluster: RealCluster, tmp_path: Path) -> Iterator[Site]:
    """The real node with volumes, and an operator of all charts next to it."""
    volumes = [volume(cluster.room / "volumes" / f"folder-{number}") for number in range(_VOLUMES)]
    cluster.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": volumes}))

    # The room has no way out, and a Service is asked for here only where some way leads to its address.
    run("ip", "route", "add", SERVICES, "dev", LAN_BRIDGE)

    def inside(*command: str) -> list[str]:
        return ["/usr/bin/env", f"KUBECONFIG={cluster.kubeconfig}", *command]

    def left_by_pods() -> set[str]:
        socket = cluster.room / "containerd.sock"
        containers = run("ctr", "--address", str(socket), "--namespace", "k8s.io", "containers", "ls", "-q").split()
        return {f"container {each}" for each in containers} | {
            f"pod {path.name}" for path in (cluster.room / "kubelet" / "pods").glob("*")
        }

    made = Site(tmp_path, inside, left_by_pods, image=f"{REGISTRY}/shop:test", storage_class=CLASS)
    with made.operator():
        yield made
    run("ip", "route", "del", SERVICES)
    cluster.kubectl("delete", "persistentvolumes", "--all", "--timeout=240s")


def test_charts_reach_ready_are_upgraded_rolled_back_and_removed_without_a_trace(site: Site) -> None:
    live(site)
