"""What Helm's own list, history and upgrade make of our releases, and what is made of one that a crash left pending."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

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


def test_helms_list_history_and_upgrade_agree(weaks: Weaks) -> None:
    about: dict[str, Any] = {"kubeconfig": str(weaks.server.kubeconfig), "namespace": weaks.namespace}

    def history() -> list[tuple[int, str]]:
        found = helm("history", release="agreed", **about)
        return [(each["revision"], each["status"]) for each in found]

    weaks.create("agreed", greeting="one")
    weaks.until("agreed", "Ready", "True")
    assert [(each["name"], each["revision"]) for each in helm("list", **about)] == [("agreed", 1)]
    weaks.change("agreed", greeting="two")
    weaks.until("agreed", "Deployed", "True", reason="UpgradeSuccessful")
    assert history() == [(1, "superseded"), (2, "deployed")]
    # Somebody upgrades the release by hand: Helm does so over ours, and the object's values come back after it.
    upgraded = helm("upgrade", release="agreed", chart=str(CHART), values={"greeting": "by hand"}, **about)
    assert upgraded["revision"] == 3
    weaks.until_greeting("agreed", "two")
    wait_until(lambda: weaks.revisions("agreed")[-1] == (4, "deployed"), what="the values are back", timeout=LIMIT)
    assert history() == [(1, "superseded"), (2, "superseded"), (3, "superseded"), (4, "deployed")]


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
