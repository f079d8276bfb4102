"""An operator that is killed at every write of a release, its own writes and Helm's: it comes to the same end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.cluster.charts.chart_stage import GROUP, LIMIT, ChartStage, Weaks
from tests.cluster.charts.fatal_writes import FatalWrites, fatal_writes
from tests.harness import ControlPlane, repetition, wait_until

NAME = "mortal"
RULES = (
    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "secrets", "services"]},
    {"apiGroups": [GROUP], "apiVersions": ["v1alpha1"], "resources": ["weaks", "weaks/status"]},
)
HALF_DONE = 4
"""The finalizer and the revision are written, and one of two objects."""


@pytest.fixture
def stage(cluster: ControlPlane, tmp_path: Path) -> ChartStage:
    """The real API server; its operators are those of the test."""
    return ChartStage(cluster, tmp_path)


@pytest.fixture
def fatal(cluster: ControlPlane, stage: ChartStage, namespace: str, tmp_path: Path) -> Iterator[FatalWrites]:
    """What ends them; the API server has heard of it when it has been asked once."""
    with fatal_writes(cluster, namespace, tmp_path, *RULES) as ready:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
        path = f"/api/v1/namespaces/{namespace}/configmaps"

        def asked() -> bool:
            cluster.request("POST", f"{path}?dryRun=All", body)
            return ready.asked.is_set()

        wait_until(asked, what="the API server asks", timeout=LIMIT)
        yield ready


@pytest.mark.repeated
def test_killed_at_every_write_of_install_upgrade_and_uninstall_it_comes_to_the_same_end(
    stage: ChartStage, fatal: FatalWrites, namespace: str
) -> None:
    """`make soak` goes through all of them, `make verify` has one in the middle of what Helm does."""
    weaks = stage.in_namespace(namespace)
    fatal_numbers: list[int] = []
    for at in count(1) if repetition.SOAK else (HALF_DONE,):
        died = [act(stage, weaks, fatal, at) for act in (_install, _upgrade, _uninstall)]
        print(f"killed at write {at} of install, upgrade and uninstall: {died}")
        if not any(died):
            break
        fatal_numbers.append(at)
    assert HALF_DONE in fatal_numbers


def _install(stage: ChartStage, weaks: Weaks, fatal: FatalWrites, at: int) -> bool:
    weaks.create(NAME, greeting="one")
    died = _killed(stage, weaks, fatal, at, lambda: _is_well(weaks, "one"))
    assert [status for _, status in weaks.revisions(NAME)].count("deployed") == 1
    return died


def _upgrade(stage: ChartStage, weaks: Weaks, fatal: FatalWrites, at: int) -> bool:
    weaks.change(NAME, greeting="two")
    died = _killed(stage, weaks, fatal, at, lambda: _is_well(weaks, "two"))
    revisions = [status for _, status in weaks.revisions(NAME)]
    assert (revisions.count("deployed"), revisions[-1]) == (1, "deployed")
    return died


def _uninstall(stage: ChartStage, weaks: Weaks, fatal: FatalWrites, at: int) -> bool:
    weaks.server.request("DELETE", weaks.path(NAME))
    died = _killed(stage, weaks, fatal, at, lambda: not weaks.server.exists(weaks.path(NAME)))
    assert weaks.revisions(NAME) == []
    left = [path for path in ("configmaps", "services") if weaks.server.exists(f"{weaks.core}/{path}/{NAME}")]
    assert left == []
    return died


def _killed(stage: ChartStage, weaks: Weaks, fatal: FatalWrites, at: int, is_done: Callable[[], bool]) -> bool:
    """Runs one operator until it dies at its write or is done, and then another that goes on; whether it died."""
    with stage.operator(namespace=weaks.namespace) as operator:
        fatal.arm(at, operator.kill)
        wait_until(lambda: fatal.came.is_set() or is_done(), what=f"dead at write {at}, or done", timeout=LIMIT)
        died = fatal.disarm()
    with stage.operator(namespace=weaks.namespace):
        wait_until(is_done, what="another operator comes to the end", timeout=LIMIT)
    return died


def _is_well(weaks: Weaks, greeting: str) -> bool:
    """Whether the release is as the object says, and the object says so."""
    found = weaks.get(NAME)
    ready = weaks.conditions(NAME).get("Ready", {})
    current = ready.get("observedGeneration") == found["metadata"]["generation"]
    return current and ready["status"] == "True" and weaks.config_map(NAME)["greeting"] == greeting
