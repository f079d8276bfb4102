"""The other kinds of ours on the page: edge devices and their workloads, mini-clusters, and what a chart serves.

On an embedded API server on which nothing acts. Each list, object and form is held to the rules of accessibility in
both themes, fits a phone, and can be copied as commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import ConsoleProcess
from tests.browser.console_page import check_accessibility, go, opened
from tests.documents import ROOT
from tests.harness import LocalPlane

SAMPLES = ROOT / "config" / "samples"
FLOTTA = "/apis/management.project-flotta.io/v1alpha1/namespaces/default"
READY = {"type": "Ready", "status": "True", "reason": "Heard", "lastTransitionTime": "2026-11-02T12:00:00Z"}


@dataclass(frozen=True)
class Sample:
    """A kind, an object of it, and what the page says of that once its status is told."""

    kind: str
    resource: str
    path: str
    body: dict[str, Any]
    status: dict[str, Any]
    standing: str
    list_command: str
    """How `edgewright` lists the kind; empty where it has no command for that."""


def sample(file: str) -> dict[str, Any]:
    """An object as the samples have it, in the namespace `default`, without what only a controller adds."""
    found: dict[str, Any] = yaml.safe_load((SAMPLES / file).read_text())
    return {**found, "metadata": {"name": found["metadata"]["name"]}}


CASES = (
    Sample(
        "EdgeDevice",
        "edgedevices",
        f"{FLOTTA}/edgedevices",
        sample("management_v1alpha1_edgedevice.yaml"),
        {"phase": "up", "conditions": [{**READY, "status": "False", "reason": "Offline"}]},
        "Offline",
        "edgewright edge devices",
    ),
    Sample(
        "EdgeWorkload",
        "edgeworkloads",
        f"{FLOTTA}/edgeworkloads",
        sample("management_v1alpha1_edgeworkload.yaml"),
        {"conditions": [READY]},
        "Ready",
        "edgewright edge workloads",
    ),
    Sample(
        "MiniCluster",
        "miniclusters",
        "/apis/flux-framework.org/v1alpha2/namespaces/default/miniclusters",
        sample("minicluster/flux-framework_v1alpha2_minicluster.yaml"),
        {"phase": "Running"},
        "Running",
        "edgewright flux list -A",
    ),
    Sample(
        "Minimart",
        stage.MINIMARTS,
        stage.MINIMART_PATH.format("default"),
        {
            "apiVersion": "charts.samutup.com/v1alpha1",
            "kind": "Minimart",
            "metadata": {"name": "released"},
            "spec": {"replicaCount": 1},
        },
        {"conditions": [{"type": "Deployed", "status": "True"}], "deployedRelease": {"name": "released"}},
        "Deployed",
        "",
    ),
)


@pytest.fixture(scope="module")
def page(browser: Browser, plane_console: ConsoleProcess) -> Iterator[Page]:
    """A browser that has opened the link."""
    with opened(browser, plane_console) as page:
        yield page


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_a_kind_is_listed_shown_and_made_live_and_for_everybody(
    page: Page, plane: LocalPlane, plane_console: ConsoleProcess, case: Sample
) -> None:
    go(page, "Any kind")
    page.get_by_role("grid", name="Any kind").get_by_role("link", name=case.kind, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(case.kind)
    check_accessibility(page)
    # The list is live: what is made elsewhere appears, and then where it stands.
    name = case.body["metadata"]["name"]
    made = plane.request("POST", case.path, case.body)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
    expect(row).to_be_visible()
    plane.request("PUT", f"{case.path}/{name}/status", {**made, "status": case.status})
    expect(row).to_contain_text(case.standing)
    check_accessibility(page)
    page.get_by_role("button", name=re.compile("^Copy as kubectl, curl")).click()
    expect(page.locator("[data-command=kubectl]")).to_contain_text("kubectl get ")
    expect(page.locator("[data-command=curl]")).to_contain_text(f"/api/v1/{case.resource}")
    if case.list_command:
        expect(page.locator("[data-command=edgewright]")).to_have_text(case.list_command)
    row.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(f"{case.kind} {name} .*{case.standing}"))
    expect(page.get_by_role("region", name="Status")).to_be_visible()
    check_accessibility(page)
    page.goto(f"{plane_console.url}/kinds/{case.resource}/create")
    expect(page.get_by_role("heading", name=f"Create {case.kind}")).to_be_visible()
    check_accessibility(page)
    page.set_viewport_size({"width": 320, "height": 640})
    for path in ("", f"/in/default/{name}", "/create"):
        page.goto(f"{plane_console.url}/kinds/{case.resource}{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("progressbar", name="Loading")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
        check_accessibility(page)
    page.set_viewport_size({"width": 1280, "height": 720})
    plane.request("DELETE", f"{case.path}/{name}")
