"""A rollout on the oldest Kubernetes that is tested, from the API server to the scheduler: in `make soak` only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.flash.rolling import rolling
from tests.cluster.flash.stage import ADDRESSES, IMAGE, Stage
from tests.cluster.nodecommand import running_node
from tests.harness import ControlPlane, programs

OLDEST = "1.34"


@pytest.fixture
def oldest_cluster(byte_code: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    """A control plane of that release with a node of ours; it is built where it is missing, which takes minutes."""
    subprocess.run([sys.executable, programs.BUILD, "--release", OLDEST], check=True)
    monkeypatch.setenv(programs.RELEASE, OLDEST)
    server = ControlPlane(parts={"controller-manager", "scheduler"})
    try:
        server.start()
        with running_node(server, server.directory, "edge", *IMAGE, "--addresses", ",".join(ADDRESSES)):
            yield server
    finally:
        server.stop()


@pytest.mark.soak
async def test_a_rollout_reaches_its_end_on_the_oldest_kubernetes(oldest_cluster: ControlPlane) -> None:
    assert oldest_cluster.request("GET", "/version")["minor"] == OLDEST.partition(".")[2]
    namespace = oldest_cluster.create_namespace("oldest")
    async with Stage(oldest_cluster, namespace, devices=4) as stage, rolling(stage, sites=2) as rollouts:
        canary = {"name": "canary", "size": 1, "soakSeconds": 1}
        await rollouts.make(batches=[canary], budgets=[{"label": "site", "maxUnavailable": 1}])
        status = await rollouts.until_phase("Completed")
        assert status.progress == "4/4"
        assert set(rollouts.versions().values()) == {"0.2.0"}
