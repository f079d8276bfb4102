"""Managers for tests: how one is made, what its user may do, and what it has logged.

The tests of the manager use it. It starts and stops nothing.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from edgewright.runtime import Client, LeaseSettings, Manager, config
from tests.harness import ControlPlane


def manager_for(kubeconfig: Path, **settings: Any) -> Manager:
    """A manager with a client of its own, whose health is served on any free port."""
    return Manager(Client(config.load(kubeconfig=kubeconfig)), health_port=0, **settings)


def quick_lease(namespace: str, identity: str | None = None) -> LeaseSettings:
    """A lease that a successor need not wait long for."""
    return LeaseSettings(
        name="test", namespace=namespace, identity=identity, duration=3, renew_within=2, retry_every=0.3
    )


def allow(cluster: ControlPlane, user: str, *, groups: list[str], resources: list[str]) -> None:
    """Lets a user do everything with these resources, everywhere."""
    role = {"rules": [{"apiGroups": groups, "resources": resources, "verbs": ["*"]}]}
    name = {"metadata": {"name": f"{user}-{'-'.join(resources)}"}}
    rbac = "rbac.authorization.k8s.io"
    cluster.request("POST", f"/apis/{rbac}/v1/clusterroles", {**name, **role})
    cluster.request(
        "POST",
        f"/apis/{rbac}/v1/clusterrolebindings",
        {
            **name,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name["metadata"]["name"]},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        },
    )


def no_traceback(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether nothing was logged with a traceback."""
    return not [record for record in caplog.records if record.exc_info]


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> int:
    """How many warnings with this text were logged."""
    return sum(text in record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
