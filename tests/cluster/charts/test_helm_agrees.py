"""What Helm's own list, history and upgrade make of our releases, and what is made of one that a crash left pending."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from bench.peers import build
from tests.cluster.charts.chart_stage import CHART, LIMIT, ChartStage, Operator, Weaks
from tests.harness import ApiServer, wait_until
from tests.images.helm_actions import helm


@pytest.fixture(scope="module")
def stage(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> ChartStage:
    """An API server on which the kinds are served."""
    return ChartStage(api_server, tmp_path_factory.mktemp("charts"))


@pytest.fixture
def operator(stage: ChartStage, namespace: str) -> Iterator[Operator]:
    """An operator for the test's namespace."""
    with stage.operator(namespace=namespace) as running:
        yield running


@pytest.fixture
def weaks(stage: ChartStage, operator: Operator, namespace: str) -> Weaks:
    """A namespace that the operator works in."""
    return stage.in_namespace(namespace)


class Helm(Protocol):
    """What people do with Helm to a release."""

    def releases(self) -> list[tuple[str, int]]:
        """The names of releases, each with its revision."""

    def history(self, release: str) -> list[tuple[int, str]]:
        """The revisions of one, each with its status."""

    def upgrade(self, release: str, **values: str) -> None:
        """Upgrades one to these values."""


class HelmLibrary:
    """Helm's own actions, as a library."""

    def __init__(self, weaks: Weaks) -> None:
        self._about: dict[str, Any] = {"kubeconfig": str(weaks.server.kubeconfig), "namespace": weaks.namespace}

    def releases(self) -> list[tuple[str, int]]:
        return [(each["name"], each["revision"]) for each in helm("list", **self._about)]

    def history(self, release: str) -> list[tuple[int, str]]:
        return [(each["revision"], each["status"]) for each in helm("history", release=release, **self._about)]

    def upgrade(self, release: str, **values: str) -> None:
        helm("upgrade", release=release, chart=str(CHART), values=values, **self._about)


class HelmProgram:
    """The helm program, which is built once and takes minutes."""

    def __init__(self, weaks: Weaks, home: Path) -> None:
        self._program = build.helm()
        self._about = ("--namespace", weaks.namespace, "--kubeconfig", str(weaks.server.kubeconfig), "-o", "json")
        self._home = home

    def releases(self) -> list[tuple[str, int]]:
        return [(each["name"], int(each["revision"])) for each in self._said("list")]

    def history(self, release: str) -> list[tuple[int, str]]:
        return [(each["revision"], each["status"]) for each in self._said("history", release)]

    def upgrade(self, release: str, **values: str) -> None:
        self._said("upgrade", release, str(CHART), "-f", "-", given=json.dumps(values))

    def _said(self, *arguments: str, given: str = "") -> Any:
        done = subprocess.run(
            [self._program, *arguments, *self._about],
            env={"HOME": str(self._home)},
            input=given,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["library", pytest.param("program", marks=pytest.mark.soak)])
def test_helms_list_history_and_upgrade_agree(weaks: Weaks, kind: str, tmp_path: Path) -> None:
    theirs: Helm = HelmLibrary(weaks) if kind == "library" else HelmProgram(weaks, tmp_path)
    weaks.create("agreed", greeting="one")
    weaks.until("agreed", "Ready", "True")
    assert theirs.releases() == [("agreed", 1)]
    weaks.change("agreed", greeting="two")
    weaks.until("agreed", "Deployed", "True", reason="UpgradeSuccessful")
    assert theirs.history("agreed") == [(1, "superseded"), (2, "deployed")]
    # Somebody upgrades the release by hand: Helm does so over ours, and the object's values come back after it.
    theirs.upgrade("agreed", greeting="by hand")
    assert weaks.stored("agreed", 3)["config"] == {"greeting": "by hand"}
    weaks.until_greeting("agreed", "two")
    wait_until(lambda: weaks.revisions("agreed")[-1] == (4, "deployed"), what="the values are back", timeout=LIMIT)
    assert theirs.history("agreed") == [(1, "superseded"), (2, "superseded"), (3, "superseded"), (4, "deployed")]


def test_a_release_left_pending_after_a_crash_is_recovered(weaks: Weaks, operator: Operator) -> None:
    weaks.create("pending", greeting="one")
    weaks.until("pending", "Ready", "True")
    weaks.annotate("pending", suspend="true")
    weaks.until("pending", "Suspended", "True")
    # What Helm stores before it applies the first object of an upgrade; then everything died.
    path = f"{weaks.core}/secrets/sh.helm.release.v1.pending.v1"
    secret: dict[str, Any] = weaks.server.request("GET", path)
    content = weaks.stored("pending", 1)
    content |= {"version": 2, "info": {**content["info"], "status": "pending-upgrade"}}
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(content).encode()))).decode()
    marks = {"version": "2", "status": "pending-upgrade", "edgewright.dev/revision": "2"}
    weaks.server.request(
        "POST",
        f"{weaks.core}/secrets",
        {
            **{key: secret[key] for key in ("apiVersion", "kind", "type")},
            "metadata": {"name": "sh.helm.release.v1.pending.v2", "labels": {**secret["metadata"]["labels"], **marks}},
            "data": {"release": packed},
        },
    )
    weaks.change("pending", greeting="two")
    weaks.annotate("pending", suspend=None)
    weaks.until_greeting("pending", "two")
    weaks.until("pending", "Ready", "True")
    operator.until_said("Recovered an interrupted action")
    assert weaks.revisions("pending") == [(1, "superseded"), (2, "failed"), (3, "deployed")]
