"""`edgewright simulate` as a process next to `edgewright up`: what people see of it, and what is left of it."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness import LocalPlane, wait_until
from tests.unit.cli.command import PROGRAM, environment

INSTANCES = "/apis/akri.sh/v0/namespaces/{}/instances"


class Simulation:
    """A running `edgewright simulate`, and what it has printed."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path) -> None:
        self.process = process
        self._out = out

    @property
    def printed(self) -> list[dict[str, Any]]:
        """Whole lines only: the last one may be half written."""
        return [json.loads(line) for line in self._out.read_text().rpartition("\n")[0].splitlines()]

    def seen(self, event: str) -> dict[str, Any]:
        """The first line about this, once it is there."""

        def there() -> dict[str, Any] | None:
            assert self.process.poll() is None, "it has ended"
            return next((each for each in self.printed if each["event"] == event), None)

        return wait_until(there, what=f"it says {event!r}")


@contextmanager
def simulation(plane: LocalPlane, namespace: str, folder: Path, *arguments: str) -> Iterator[Simulation]:
    """Runs it against a plane, each device at a free port."""
    out = folder / "simulate.out"
    command = [str(PROGRAM), "simulate", "--kubeconfig", str(plane.kubeconfig), "--namespace", namespace]
    command += ["--output", "json", "--port", "0", "--attestation-port", "0", "--time-scale", "0.01"]
    with out.open("wb") as stdout:
        process = subprocess.Popen(
            [*command, "--discover-every", "0.05", *arguments],
            stdout=stdout,
            stderr=stdout,
            env=environment(HOME=str(folder)),
        )
    try:
        yield Simulation(process, out)
    finally:
        process.kill()
        process.wait()


def instances(plane: LocalPlane, namespace: str) -> dict[str, dict[str, Any]]:
    """All of them, by endpoint."""
    found = plane.request("GET", INSTANCES.format(namespace))["items"]
    return {each["spec"]["brokerProperties"]["HOST_ENDPOINT"]: each for each in found}


def test_a_fleet_is_seen_and_is_gone_when_it_is_stopped(
    local_plane: LocalPlane, namespace: str, tmp_path: Path
) -> None:
    with simulation(local_plane, namespace, tmp_path, "--devices", "3") as running:
        devices = running.seen("ready")["devices"]
        shown = [each["metadata"]["name"] for each in instances(local_plane, namespace).values()]
        assert sorted(shown) == sorted(each["instance"] for each in devices)
        with urllib.request.urlopen(f"http://{devices[0]['endpoint']}/info") as answer:
            assert json.load(answer)["version"] == "0.1.0"
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
    assert instances(local_plane, namespace) == {}
    assert local_plane.exists(f"/api/v1/namespaces/{namespace}/secrets/ota-agent-tls")


def test_a_device_that_goes_away_and_returns_has_another_uid(
    local_plane: LocalPlane, namespace: str, tmp_path: Path
) -> None:
    arguments = ("--devices", "2", "--fault", "vanish:before:once=1", "--time-scale", "0.1")
    with simulation(local_plane, namespace, tmp_path, *arguments) as running:
        endpoint = running.seen("ready")["devices"][0]["endpoint"]
        before = instances(local_plane, namespace)
        order = urllib.request.Request(f"http://{endpoint}/update", data=b"ip: 127.0.0.1", method="POST")
        with urllib.request.urlopen(order) as answer:
            assert answer.status == 200
        wait_until(lambda: endpoint not in instances(local_plane, namespace), what="its Instance is deleted")
        running.seen("returned")
        after = wait_until(
            lambda: found if endpoint in (found := instances(local_plane, namespace)) else None, what="it is back"
        )
        assert after[endpoint]["metadata"]["uid"] != before[endpoint]["metadata"]["uid"]
        del after[endpoint], before[endpoint]
        assert after == before


def test_what_a_killed_fleet_has_left_is_cleared_up_by_the_next(
    local_plane: LocalPlane, namespace: str, tmp_path: Path
) -> None:
    with simulation(local_plane, namespace, tmp_path, "--devices", "3") as running:
        running.seen("ready")
    left = instances(local_plane, namespace)
    assert len(left) == 3
    with simulation(local_plane, namespace, tmp_path, "--devices", "1") as running:
        (device,) = running.seen("ready")["devices"]
        assert set(instances(local_plane, namespace)) == {device["endpoint"]}


def test_a_reader_who_has_seen_enough_ends_it_and_harms_no_device(
    local_plane: LocalPlane, namespace: str, tmp_path: Path
) -> None:
    command = [str(PROGRAM), "simulate", "--kubeconfig", str(local_plane.kubeconfig), "--namespace", namespace]
    command += ["--devices", "1", "--port", "0", "--attestation-port", "0", "--output", "json"]
    env = environment(HOME=str(tmp_path))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        try:
            assert process.stdout is not None
            (device,) = json.loads(process.stdout.readline())["devices"]
            process.stdout.close()
            order = urllib.request.Request(f"http://{device['endpoint']}/update", data=b"ip: 127.0.0.1", method="POST")
            with urllib.request.urlopen(order) as answer:
                assert answer.status == 200
            assert process.wait(60) == 1
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()
    assert instances(local_plane, namespace) == {}
