"""What podman is told of Pods and containers."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node.podman_spec import (
    container_name,
    container_spec,
    demand_not_root,
    labels_of,
    limits_of,
    pod_spec,
    stop_signal,
)
from edgewright.local.node.refusals import refusal
from edgewright.local.node.sources import Missing
from edgewright.local.node.volumes import Mount
from tests.unit.local.node.podspecs import pod


def spec(container: dict[str, Any], *, mounts: tuple[Mount, ...] = (), **more: Any) -> dict[str, Any]:
    """What podman is told of one container."""
    asked = pod(containers=[{"name": "main", "image": "web", **container}], **more)
    return container_spec(
        asked,
        asked.containers[0],
        name=container_name("u", "main", 0),
        image="abc",
        values={"NAME": "value"},
        mounts=mounts,
        labels=labels_of("/data/node", asked),
        log="/data/log",
        log_limit=100,
    )


def test_a_pod_has_its_address_its_name_and_its_host_ports() -> None:
    asked = pod(
        containers=[
            {"name": "main", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 90}]},
        ],
        shareProcessNamespace=True,
        dnsConfig={"nameservers": ["192.0.2.1"], "options": [{"name": "ndots", "value": "1"}, {"name": "debug"}]},
    )
    found = pod_spec(asked, hostname="pod", labels={"a": "b"}, network="net", address="10.89.0.5")
    assert found["Networks"] == {"net": {"static_ips": ["10.89.0.5"], "interface_name": "eth0"}}
    assert found["portmappings"] == [{"container_port": 80, "host_port": 8080, "protocol": "tcp", "host_ip": ""}]
    assert found["shared_namespaces"] == ["net", "ipc", "uts", "pid"]
    assert (found["dns_server"], found["dns_option"]) == (["192.0.2.1"], ["ndots:1", "debug"])
    assert "portmappings" not in pod_spec(pod(), hostname="pod", labels={}, network="net", address="10.89.0.5")


def test_what_the_pod_says_of_the_program_counts_and_the_rest_is_the_images() -> None:
    plain = spec({})
    assert not {"entrypoint", "command", "user", "work_dir", "cap_add", "resource_limits"} & plain.keys()
    assert plain["labels"]["edgewright.dev/node-folder"] == "/data/node"
    given = spec({"command": ["run", "$(NAME)"], "args": ["$$(NAME)"], "workingDir": "/w", "tty": True})
    assert (given["entrypoint"], given["command"]) == (["run", "value"], ["$(NAME)"])
    assert (given["work_dir"], given["terminal"]) == ("/w", True)


def test_security_is_the_containers_before_the_pods() -> None:
    found = spec(
        {
            "securityContext": {
                "runAsUser": 7,
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            }
        },
        securityContext={"runAsUser": 5, "runAsGroup": 6, "fsGroup": 8, "supplementalGroups": [9]},
    )
    assert (found["user"], found["groups"]) == ("7:6", ["9", "8"])
    assert (found["no_new_privileges"], found["read_only_filesystem"]) == (True, True)
    assert (found["cap_drop"], found["cap_add"]) == (["ALL"], ["CAP_NET_BIND_SERVICE"])
    assert spec({}, securityContext={"runAsGroup": 6})["user"] == "0:6"


def test_a_part_of_a_volume_is_mounted_from_inside_it() -> None:
    mounts = (Mount(Path("/v"), "/data", False, "a/b"), Mount(Path("/c"), "/etc/c", True))
    assert [
        (each["source"], each["destination"], each["options"][-1]) for each in spec({}, mounts=mounts)["mounts"]
    ] == [
        ("/v/a/b", "/data", "rw"),
        ("/c", "/etc/c", "ro"),
    ]


@pytest.mark.parametrize(
    ("resources", "limits"),
    [
        ({}, {}),
        ({"limits": {"memory": "64Mi"}}, {"memory": {"limit": 64 << 20}}),
        ({"limits": {"cpu": "500m"}}, {"cpu": {"period": 100_000, "quota": 50_000, "shares": 512}}),
        ({"limits": {"cpu": "1m"}, "requests": {"cpu": 0}}, {"cpu": {"period": 100_000, "quota": 1000, "shares": 2}}),
        ({"requests": {"cpu": "250m", "memory": "1Gi"}}, {"cpu": {"shares": 256}}),
    ],
)
def test_resources_become_limits_of_a_control_group(resources: dict[str, Any], limits: dict[str, Any]) -> None:
    assert limits_of({"resources": resources}) == limits


@pytest.mark.parametrize(
    ("lifecycle", "image", "number"),
    [
        ({}, "", signal.SIGTERM),
        ({}, "SIGQUIT", signal.SIGQUIT),
        ({}, "int", signal.SIGINT),
        ({}, "9", signal.SIGKILL),
        ({"stopSignal": "SIGUSR1"}, "SIGQUIT", signal.SIGUSR1),
        ({}, "SIGNONE", signal.SIGTERM),
    ],
)
def test_the_stop_signal_is_the_pods_else_the_images(lifecycle: dict[str, str], image: str, number: int) -> None:
    assert stop_signal({"lifecycle": lifecycle}, image) == number


@pytest.mark.parametrize(
    ("security", "image", "said"),
    [
        ({}, "", None),
        ({"runAsNonRoot": True}, "", "will run as root"),
        ({"runAsNonRoot": True}, "0:0", "will run as root"),
        ({"runAsNonRoot": True}, "nginx", "non-numeric user"),
        ({"runAsNonRoot": True}, "101:101", None),
        ({"runAsNonRoot": True, "runAsUser": 5}, "", None),
        ({"runAsNonRoot": True, "runAsUser": 0}, "101", "will run as root"),
    ],
)
def test_a_container_that_must_not_be_root_is_held_to_it(
    security: dict[str, Any], image: str, said: str | None
) -> None:
    container = {"name": "main", "securityContext": security}
    if said is None:
        demand_not_root(pod(), container, image)
    else:
        with pytest.raises(Missing, match=said):
            demand_not_root(pod(), container, image)


@pytest.mark.parametrize(
    ("fields", "more", "reason"),
    [
        ({"command": ["anything"], "securityContext": {"runAsUser": 0}}, {}, None),
        ({"securityContext": {"capabilities": {"add": ["CAP_CHOWN", "NET_BIND_SERVICE"]}}}, {}, None),
        ({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, {}, "PrivilegedRefused"),
        ({"securityContext": {"privileged": True}}, {}, "PrivilegedRefused"),
        ({}, {"hostNetwork": True}, "HostAccessRefused"),
        ({}, {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "HostPathRefused"),
        ({"lifecycle": {"preStop": {}}}, {}, "NotSupported"),
    ],
)
def test_a_container_may_be_anybody_inside_and_reach_nothing_outside(
    fields: dict[str, Any], more: dict[str, Any], reason: str | None
) -> None:
    asked = pod(containers=[{"name": "main", "image": "web", **fields}], **more)
    found = refusal(asked, root=True, commands=False, contained={"main"})
    assert (found.reason if found else None) == reason
