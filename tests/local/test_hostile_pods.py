"""Pods that mean harm, on the node of `edgewright up`: links, groups, other Pods' files and processes.

As root every Pod has a user of its own; as an ordinary user all are that user's, in user namespaces of their own. Both
have a process table of their own where the kernel allows it. Both run here: what differs is said where it is asserted.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node.mount_check import processes_work
from tests.harness import LocalPlane, wait_until

PODS = "/api/v1/namespaces/default/pods"
NODE = {"node": True, "arguments": ("--node-name", "edge-1", "--image", "shell=/bin/sh -c")}
AS_ROOT = os.geteuid() == 0

pytestmark = pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])


def container(script: str, name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "shell", "args": [script], **more}


def create(plane: LocalPlane, name: str, script: str, *, mounts: Any = (), **spec: Any) -> None:
    body = {"restartPolicy": "Never", "containers": [container(script, volumeMounts=list(mounts))], **spec}
    plane.request("POST", PODS, {"metadata": {"name": name}, "spec": body})


def ended(plane: LocalPlane, name: str) -> dict[str, Any]:
    """The Pod's status once it is over."""

    def over() -> dict[str, Any] | None:
        status: dict[str, Any] = plane.request("GET", f"{PODS}/{name}")["status"]
        return status if status.get("phase") in {"Succeeded", "Failed"} else None

    return wait_until(over, what=f"the Pod {name} is over")


def log(plane: LocalPlane, name: str) -> str:
    code, said = plane._ask_api("GET", f"{PODS}/{name}/log")
    assert code == 200
    return said


def waits(plane: LocalPlane, name: str) -> str:
    """Why the Pod's container does not start."""

    def why() -> str | None:
        statuses = plane.request("GET", f"{PODS}/{name}")["status"].get("containerStatuses") or [{}]
        said: str | None = ((statuses[0].get("state") or {}).get("waiting") or {}).get("message")
        return said

    return wait_until(why, what=f"the Pod {name} says why it waits")


def test_a_link_in_a_volume_makes_the_node_create_nothing_elsewhere(own_plane: LocalPlane, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    create(
        own_plane,
        "hostile",
        "echo never",
        mounts=[{"name": "v", "mountPath": "/v", "subPath": "a/made-by-root"}],
        initContainers=[
            container(
                f"ln -s {shlex.quote(str(tmp_path))} /v/a", "init", volumeMounts=[{"name": "v", "mountPath": "/v"}]
            )
        ],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    assert "leads out of its volume" in waits(own_plane, "hostile")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "security",
    [{"runAsGroup": 0}, {"supplementalGroups": [42]}, {"fsGroup": 0}, {"runAsUser": 0}, {"runAsUser": 1000}],
    ids=str,
)
def test_users_and_groups_of_the_machine_are_refused(own_plane: LocalPlane, security: dict[str, Any]) -> None:
    create(own_plane, "hostile", "cat /etc/shadow", securityContext=security)
    status = ended(own_plane, "hostile")
    assert status["phase"] == "Failed"
    if AS_ROOT or "runAsUser" in security or "runAsGroup" in security:
        assert "is refused" in status["message"] or "cannot be honoured" in status["message"]
    else:  # an ordinary user has no groups to give: it is run without them, and may read no more than that user
        assert "root:" not in log(own_plane, "hostile")


def test_a_pod_sees_neither_environment_nor_files_nor_processes_of_another(own_plane: LocalPlane) -> None:
    own_plane.request(
        "POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "keys"}, "stringData": {"key": "hush-hush"}}
    )
    own_plane.request(
        "POST",
        PODS,
        {
            "metadata": {"name": "victim"},
            "spec": {
                "containers": [
                    container(
                        "exec sleep 600",
                        env=[{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}}],
                        volumeMounts=[{"name": "keys", "mountPath": "/keys"}],
                    )
                ],
                "volumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
            },
        },
    )

    def runs() -> bool:
        return bool(own_plane.request("GET", f"{PODS}/victim")["status"].get("phase") == "Running")

    wait_until(runs, what="the victim runs")
    look = (
        "for p in /proc/[0-9]*; do cat $p/environ $p/root/keys/key $p/cmdline 2>/dev/null; done | tr '\\0' '\\n'; id -u"
    )
    create(own_plane, "thief", look)
    assert ended(own_plane, "thief")["phase"] == "Succeeded"
    seen = log(own_plane, "thief")
    assert "hush-hush" not in seen
    if AS_ROOT:
        assert int(seen.split()[-1]) >= 2_000_000_000
    if AS_ROOT or processes_work():  # else an ordinary user sees what runs on the machine, and so do that user's Pods
        assert "sleep" not in seen.replace(look, "")


@pytest.mark.skipif(not processes_work(), reason="this machine gives Pods no PID namespace")
def test_a_pod_sees_no_process_of_another_though_both_are_one_users(own_plane: LocalPlane) -> None:
    # As root both ask for the user that images call nobody; as an ordinary user all Pods are that user's anyway.
    security = {"securityContext": {"runAsUser": 65534, "runAsGroup": 65534}} if AS_ROOT else {}
    victim = {"restartPolicy": "Never", "containers": [container("exec sleep 600")], **security}
    own_plane.request("POST", PODS, {"metadata": {"name": "victim"}, "spec": victim})

    def runs() -> bool:
        return bool(own_plane.request("GET", f"{PODS}/victim")["status"].get("phase") == "Running")

    wait_until(runs, what="the victim runs")
    look = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done; ls -d /proc/[0-9]* | wc -l"
    create(own_plane, "thief", look, **security)
    assert ended(own_plane, "thief")["phase"] == "Succeeded"
    seen = log(own_plane, "thief")
    assert "exec sleep" not in seen
    assert "sleep 600" not in seen
    assert "edgewright up" not in seen, "nor any process of the machine"
    assert int(seen.split()[-1]) <= 5, "init, the script, and what counts"
