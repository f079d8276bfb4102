"""The node on a machine where nothing can be mounted: what runs all the same, and what is said of the rest."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node.mount_check import closed_to_others, how_to_mount
from edgewright.local.node.node import Containers
from edgewright.local.node.pod_ids import PodIds
from tests.unit.local.node.fakeapi import FakeApi
from tests.unit.local.node.test_node_runs import IMAGES, directory, one, running, state, until, until_phase

__all__ = ["directory"]

TOLD = {"sh": {"/keys": ["KEYS"], "/scratch": ["NOTES", "TMPDIR"], "/dev/termination-log": ["REPORT"]}}


@pytest.fixture(autouse=True)
def _nothing_can_be_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewright.local.node.node.mounts_work", lambda: False)


def with_volumes(script: str, **container: Any) -> dict[str, Any]:
    mounts = [{"name": "keys", "mountPath": "/keys"}, {"name": "scratch", "mountPath": "/scratch"}]
    volumes = [{"name": "keys", "secret": {"secretName": "keys"}}, {"name": "scratch", "emptyDir": {}}]
    return {"volumes": volumes, **one(script, volumeMounts=mounts, **container)}


def an_api_with_keys() -> FakeApi:
    api = FakeApi()
    api.put(
        "/api/v1/namespaces/default/secrets/keys",
        {"metadata": {"name": "keys", "namespace": "default"}, "data": {"key": base64.b64encode(b"secret").decode()}},
    )
    return api


async def test_volumes_are_refused_and_the_rest_runs(directory: Path) -> None:
    api = an_api_with_keys()
    async with running(api, directory):
        api.add_pod("plain", **one("true"))
        api.add_pod(**with_volumes("true"))
        await until_phase(api, "Succeeded", "plain")
        pod = await until(api, lambda pod: "waiting" in state(pod) and "message" in state(pod)["waiting"], what="waits")
    said = state(pod)["waiting"]["message"]
    assert "nothing can be mounted on this machine" in said
    assert said.endswith(how_to_mount(root=os.geteuid() == 0))


async def test_a_program_that_can_be_told_finds_its_volumes_by_variables_whoever_it_runs_as(directory: Path) -> None:
    api = an_api_with_keys()
    script = 'cat "$KEYS/key" > "$NOTES/copy" && cat "$TMPDIR/copy" > "$REPORT" && id -u >> "$REPORT"'
    async with running(api, directory, containers=Containers(images=IMAGES, told=TOLD, ids=PodIds())):
        api.add_pod(**with_volumes(script, env=[{"name": "TMPDIR", "value": "/scratch"}]))
        pod = await until_phase(api, "Succeeded")
    uid = PodIds().first if os.geteuid() == 0 else os.geteuid()
    assert state(pod)["terminated"]["message"] == f"secret{uid}\n"
    assert os.stat(directory).st_mode & 0o077 == 0  # noqa: PTH116 - at once


async def test_a_program_is_not_started_with_half_of_its_volumes(directory: Path) -> None:
    api = an_api_with_keys()
    async with running(api, directory, containers=Containers(images=IMAGES, told={"sh": {"/keys": ["KEYS"]}})):
        api.add_pod(**with_volumes("true"))
        await until(api, lambda pod: "message" in state(pod).get("waiting", {}), what="waits")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Pods as somebody else")
async def test_programs_that_pods_may_not_enter_are_told_of_at_once(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    async with running(FakeApi(), directory, containers=Containers(images=IMAGES, ids=PodIds(), shown=[closed])):
        assert "Pods do not run as root, and nobody but root may enter /" in caplog.text


def test_what_to_do_is_not_what_is_done_already() -> None:
    assert "as root" not in how_to_mount(root=True)
    assert "as root" in how_to_mount(root=False)


def test_a_folder_that_others_may_not_enter_is_found_with_all_that_is_in_it(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    above = closed_to_others([tmp_path])
    (tmp_path / "closed").chmod(0o700)
    assert closed_to_others([inner]) == (above or tmp_path / "closed")
    assert closed_to_others([Path("/usr/bin"), Path("/")]) is None
