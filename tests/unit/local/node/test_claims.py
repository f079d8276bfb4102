"""Claims as folders of the machine: whose they are, who may write there, and when they go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node.claims import ClaimFolders, claim_names, shared_user
from edgewright.local.node.node import Containers
from edgewright.local.node.pod_ids import PodIds
from tests.unit.local.node.fakeapi import FakeApi
from tests.unit.local.node.test_node_runs import IMAGES, directory, one, running, state, until, until_phase

__all__ = ["directory"]

PATH = "/api/v1/namespaces/default/persistentvolumeclaims/data"
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "other", "emptyDir": {}}]


def claim(volume: str = "") -> dict[str, Any]:
    spec = {"volumeName": volume} if volume else {}
    return {"metadata": {"name": "data", "namespace": "default"}, "spec": spec}


def with_claim(script: str) -> dict[str, Any]:
    return {"volumes": VOLUMES, **one(script, volumeMounts=[{"name": "data", "mountPath": "/data"}])}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives Pods users of their own")
async def test_pods_that_first_use_a_claim_at_the_same_moment_are_the_same_user(directory: Path) -> None:
    api = FakeApi()
    api.put(PATH, claim())
    names = ("one", "two", "three")
    async with running(api, directory, containers=Containers(images=IMAGES, ids=PodIds(), claims=True)):
        for name in names:
            api.add_pod(name, **with_claim("echo again >> /data/log; id -u > /dev/termination-log; test -w /data/log"))
        for name in names:  # all are taken in before the claim has a folder
            await until(api, lambda pod: "not bound" in str(state(pod)), what="it waits for its claim", name=name)
        api.put(PATH, claim("volume-1"))
        users = {state(await until_phase(api, "Succeeded", name))["terminated"]["message"] for name in names}
    assert len(users) == 1
    assert (directory / "claims/default/data/volume-1/log").read_text().count("again") == 3


async def test_nothing_stays_of_claims_that_are_gone_and_all_of_those_that_are_there(tmp_path: Path) -> None:
    api, folders = FakeApi(), tmp_path / "claims"
    api.put(PATH, claim("volume-2"))
    for place in ("default/data/volume-1", "default/data/volume-2", "default/gone/volume-3", "elsewhere/gone/volume-4"):
        (folders / place).mkdir(parents=True)
        (folders / place / "file").touch()
    await ClaimFolders(api.client(), folders).sweep()
    left = {str(path.relative_to(folders)) for path in folders.rglob("*")}
    assert left == {"default", "default/data", "default/data/volume-2", "default/data/volume-2/file"}


def test_a_pod_shares_the_user_of_another_that_has_its_claim_in_its_namespace() -> None:
    mine = claim_names("default", VOLUMES)
    assert mine == {("default", "data")}
    assert (
        claim_names("default", [{"name": "none", "persistentVolumeClaim": {}}, {"name": "e", "emptyDir": {}}]) == set()
    )
    others = [(7, claim_names("elsewhere", VOLUMES)), (0, mine), (8, mine), (9, mine)]
    assert shared_user(mine, others) == 8
    assert shared_user(mine, others[:2]) == 0
    assert shared_user(set(), others) == 0
