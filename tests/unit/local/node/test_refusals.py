"""What a node refuses of a Pod: other programs of the machine than those of images, and users of the machine."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.local.node.pod_ids import PodIds
from edgewright.local.node.refusals import refusal
from tests.unit.local.node.podspecs import pod

EXEC = {"exec": {"command": ["cat", "/etc/passwd"]}}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"command": ["cat"]}, "command"),
        ({"command": []}, None),
        ({"args": ["cat"]}, None),
        ({"livenessProbe": EXEC}, "livenessProbe.exec"),
        ({"readinessProbe": EXEC}, "readinessProbe.exec"),
        ({"startupProbe": EXEC}, "startupProbe.exec"),
        ({"livenessProbe": {"tcpSocket": {"port": 1}}, "readinessProbe": None}, None),
    ],
)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_a_pod_names_no_program_of_the_machine(fields: dict[str, Any], named: str | None, where: str) -> None:
    container: Any = {where: [{"name": "main", "image": "sh", **fields}]}
    asked = pod(**container)
    found = refusal(asked, root=False, commands=False)
    assert (found.reason if found else None) == (None if named is None else "CommandRefused")
    assert named is None or (found is not None and found.message.startswith(f"container main: {named} is refused"))
    assert refusal(asked, root=False, commands=True) is None


@pytest.mark.parametrize(
    ("fields", "more", "reason"),
    [
        ({}, {}, None),
        ({"securityContext": {"runAsUser": 0}}, {}, "RunAsUserRefused"),
        ({"securityContext": {"capabilities": {"add": ["CHOWN"]}}}, {}, "PrivilegedRefused"),
        ({"command": ["cat", "/etc/shadow"]}, {}, "CommandRefused"),
        ({}, {"securityContext": {"runAsGroup": 0}}, "RunAsGroupRefused"),
        ({}, {"securityContext": {"supplementalGroups": [42]}}, "RunAsGroupRefused"),
    ],
)
def test_a_process_in_a_pod_of_podmans_may_no_more_than_any_other(
    fields: dict[str, Any], more: dict[str, Any], reason: str | None
) -> None:
    theirs = {"name": "theirs", "image": "web", "command": ["anything"], "securityContext": {"runAsUser": 0}}
    asked = pod(containers=[theirs, {"name": "ours", "image": "shell", **fields}], **more)
    found = refusal(asked, root=True, ids=PodIds(), commands=False, contained={"theirs"})
    assert (found.reason if found else None) == reason
