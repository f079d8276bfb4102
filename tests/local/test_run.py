"""`edgewright run` as a process next to a control plane: a device is flashed through it, and what it needs it says."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.devices.timescale import TIME_SCALE
from tests.harness import LocalPlane, free_port, wait_until
from tests.local.test_simulate import instances, simulation
from tests.unit.cli.command import PROGRAM, edgewright, environment, sentence

SCALE = 0.1
FLASHER = f"{FLASHER_IMAGE}=env {TIME_SCALE}={SCALE} {sys.executable} -m edgewright.devices.flasher"
JOBS = "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/default/flashjobs"


@contextmanager
def operator(plane: LocalPlane, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs it against a plane; its log is in the folder."""
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "run", "--kubeconfig", str(plane.kubeconfig), *arguments],
            stdout=log,
            stderr=log,
            env=environment(HOME=str(folder)),
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_kinds_that_are_missing_are_one_sentence(local_plane: LocalPlane) -> None:
    done = edgewright("run", "--kubeconfig", local_plane.kubeconfig)
    assert done.returncode == 1
    assert sentence(done).endswith("is not served: run `edgewright crds install` first, or add --install-crds")


def test_a_server_that_is_not_there_is_another_exit_code(own_plane: LocalPlane) -> None:
    own_plane.api.kill()
    done = edgewright("run", "--kubeconfig", own_plane.kubeconfig)
    assert done.returncode == 3
    assert len(sentence(done).split()) > 3


@pytest.mark.parametrize(
    "own_plane", [{"node": True, "arguments": ("--image", FLASHER)}], indirect=True, ids=["with a node"]
)
def test_it_flashes_a_device_and_ends_at_a_signal(own_plane: LocalPlane, tmp_path: Path) -> None:
    registry, attestation = f"127.0.0.1:{free_port()}", free_port()
    port = registry.partition(":")[2]
    places = ("--first-address", "127.32.70.1", "--attestation-port", str(attestation), "--registry-port", port)
    fleet = ("--devices", "1", "--firmware", "0.2.0", "--time-scale", str(SCALE))
    options = ("--install-crds", "--local", "--plain-registry", registry)
    with (
        operator(own_plane, tmp_path, *options, "--attestation", f"http://127.0.0.1:{attestation}") as process,
        simulation(own_plane, "default", tmp_path, *fleet, *places) as running,
    ):
        (firmware,) = running.seen("ready")["firmware"]
        wait_until(lambda: own_plane.exists(JOBS), what="the kinds are installed")
        devices = [each["metadata"]["uid"] for each in instances(own_plane, "default").values()]
        job = {
            "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
            "kind": "FlashJob",
            "metadata": {"name": "job"},
            "spec": {"uuid": devices, "firmware": firmware, "version": "0.2.0"},
        }
        own_plane.request("POST", JOBS, job)

        def phase() -> str:
            assert process.poll() is None, (tmp_path / "run.log").read_text()
            return str(own_plane.request("GET", f"{JOBS}/job").get("status", {}).get("phase", ""))

        wait_until(lambda: phase() == "Completed", what="the job is completed", timeout=120)
        assert running.seen("written")["version"] == "0.2.0"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert own_plane.exists("/apis/coordination.k8s.io/v1/namespaces/default/leases/edgewright")
    assert "Traceback" not in (tmp_path / "run.log").read_text()


@pytest.mark.parametrize(
    "own_plane", [{"node": True, "arguments": ("--image", FLASHER)}], indirect=True, ids=["with a node"]
)
def test_a_job_that_is_restored_without_its_status_writes_to_no_device_again(
    own_plane: LocalPlane, tmp_path: Path
) -> None:
    registry, attestation = f"127.0.0.1:{free_port()}", free_port()
    port = registry.partition(":")[2]
    places = ("--first-address", "127.32.71.1", "--attestation-port", str(attestation), "--registry-port", port)
    fleet = ("--devices", "1", "--firmware", "0.2.0", "--time-scale", str(SCALE))
    options = ("--install-crds", "--local", "--plain-registry", registry)
    with (
        operator(own_plane, tmp_path, *options, "--attestation", f"http://127.0.0.1:{attestation}"),
        simulation(own_plane, "default", tmp_path, *fleet, *places) as running,
    ):
        (firmware,) = running.seen("ready")["firmware"]
        wait_until(lambda: own_plane.exists(JOBS), what="the kinds are installed")
        devices = [each["metadata"]["uid"] for each in instances(own_plane, "default").values()]
        job = {
            "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
            "kind": "FlashJob",
            "metadata": {"name": "job"},
            "spec": {"uuid": devices, "firmware": firmware, "version": "0.2.0"},
        }

        def completed() -> dict[str, Any] | None:
            found: dict[str, Any] = own_plane.request("GET", f"{JOBS}/job")
            return found if found.get("status", {}).get("phase") == "Completed" else None

        own_plane.request("POST", JOBS, job)
        saved = wait_until(completed, what="the job is completed", timeout=120)
        own_plane.request("DELETE", f"{JOBS}/job")
        wait_until(lambda: not own_plane.exists(f"{JOBS}/job"), what="the job is gone")
        # As a backup has it: another object with the same name and spec, and nothing that was known of it.
        own_plane.request("POST", JOBS, {**job, "spec": saved["spec"]})
        again = wait_until(completed, what="the restored job is completed", timeout=120)
        assert again["metadata"]["uid"] != saved["metadata"]["uid"]
        assert [each["outcome"] for each in again["status"]["devices"]] == ["already-current"]
        assert len([each for each in running.printed if each["event"] == "written"]) == 1
