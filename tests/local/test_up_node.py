"""The node in `edgewright up`: a Pod from its creation to its log, and one that outlives the process."""

from __future__ import annotations

import os
import sys
import urllib.request
from typing import Any

import pytest

from tests.harness import LocalPlane, wait_until

HELLO = f"hello={sys.executable} -c 'import sys; print(\"hello\", *sys.argv[1:])'"
SLEEPER = f"sleeper={sys.executable} -c 'import time; print(\"asleep\", flush=True); time.sleep(600)'"
NODE = {"node": True, "arguments": ("--node-name", "edge-1", "--image", HELLO, "--image", SLEEPER)}


PODS = "/api/v1/namespaces/default/pods"


def pod(image: str, *words: str) -> dict[str, Any]:
    container = {"name": "main", "image": image, "args": list(words)}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": image}, "spec": spec}


def log_of(plane: LocalPlane, name: str) -> str:
    """What a Pod has written, as the API server shows it."""
    with urllib.request.urlopen(f"{plane.server}{PODS}/{name}/log", context=plane.admin_tls, timeout=240) as answer:
        return str(answer.read().decode())


def seen(plane: LocalPlane, name: str, phase: str) -> dict[str, Any]:
    """The Pod once it is in this phase."""

    def there() -> dict[str, Any] | None:
        found: dict[str, Any] = plane.request("GET", f"{PODS}/{name}")
        return found if found["status"].get("phase") == phase else None

    return wait_until(there, what=f"the Pod {name} is {phase}")


@pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])
def test_a_pod_that_was_created_runs_and_its_log_is_shown(own_plane: LocalPlane) -> None:
    own_plane.request("POST", PODS, pod("hello", "you", "there"))
    assert seen(own_plane, "hello", "Succeeded")["spec"]["nodeName"] == "edge-1"
    assert log_of(own_plane, "hello") == "hello you there\n"


@pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])
def test_a_pod_has_its_own_host_name_and_finds_services_by_variables_and_names(own_plane: LocalPlane) -> None:
    ports = [{"port": 80}]
    for name, address in (("ring", {"clusterIP": "None"}), ("web", {})):
        given = {"selector": {"app": "ring"}, "ports": ports, "publishNotReadyAddresses": True, **address}
        own_plane.request("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": name}, "spec": given})
    script = "uname -n; echo $WEB_SERVICE_PORT $RING_SERVICE_PORT; until getent hosts one.ring; do sleep 0.1; done"
    container = {"name": "main", "image": "hello", "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "hostname": "one", "subdomain": "ring", "containers": [container]}
    body = {"metadata": {"name": "names", "labels": {"app": "ring"}}, "spec": spec}
    own_plane.request("POST", "/api/v1/namespaces/default/pods", body)
    address = seen(own_plane, "names", "Succeeded")["status"]["podIP"]
    name, port, found = log_of(own_plane, "names").splitlines()
    assert (name, port, found.split()[0]) == ("one", "80", address)
    assert os.uname().nodename != "one"


@pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])
def test_a_pod_goes_on_while_the_process_is_killed_and_is_found_again(own_plane: LocalPlane) -> None:
    own_plane.request("POST", PODS, pod("sleeper"))
    before = seen(own_plane, "sleeper", "Running")["status"]["containerStatuses"]
    wait_until(lambda: log_of(own_plane, "sleeper") == "asleep\n", what="its log is shown")
    own_plane.api.kill()
    own_plane.api.restart()
    assert seen(own_plane, "sleeper", "Running")["status"]["containerStatuses"] == before
    assert log_of(own_plane, "sleeper") == "asleep\n"
    own_plane.request("DELETE", f"{PODS}/sleeper?gracePeriodSeconds=1")
    wait_until(lambda: not own_plane.exists(f"{PODS}/sleeper"), what="it is gone")


@pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])
def test_pods_of_a_plane_that_a_test_stops_do_not_outlive_the_test(own_plane: LocalPlane) -> None:
    own_plane.request("POST", PODS, pod("sleeper"))
    seen(own_plane, "sleeper", "Running")
    assert sleepers(own_plane)
    own_plane.stop()
    wait_until(lambda: not sleepers(own_plane), what="its processes are gone")


def sleepers(plane: LocalPlane) -> list[str]:
    """The processes that belong to Pods of this plane: their data directory is in their environment or arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names are all that is wanted
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                words = file.read().decode(errors="replace")
        except OSError:
            continue
        if str(plane.data) in words and "edgewright\0up" not in words:
            found.append(words)
    return found
