"""Document 003, its last part: "How to trigger the Custom Resource changes from Application".

"The click button on portal will trigger the update on the CR, so that the operator will do action on the Custom
Object": a page in chromium, a console, and the custom resource that changes, on the real and the embedded API server.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import JOB_PATH, MINIMART_PATH, MINIMARTS, PORTAL
from tests.browser.chromium import browsers, pages
from tests.harness import ApiServer, ControlPlane, LocalPlane, wait_until
from tests.harness.fixtures import run


@pytest.fixture(scope="module", params=["real", "embedded"])
def plane(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """Each API server in turn, with FlashJobs and the document's Minimart."""
    make = LocalPlane if request.param == "embedded" else functools.partial(ControlPlane, parts={"controller-manager"})
    for server in run(request, make):
        stage.install(server)
        yield server


@pytest.fixture
def shop(plane: ApiServer) -> str:
    """The namespace of the portal."""
    return plane.create_namespace("portal")


@pytest.fixture
def token(plane: ApiServer, shop: str) -> str:
    """The portal's token."""
    return stage.portal_token(plane, shop)


def spec(plane: ApiServer, path: str) -> Any:
    """The spec of an object that must be there, as the administrator sees it."""
    return plane.request("GET", path)["spec"]


def test_a_click_on_the_portal_changes_the_custom_resource(
    plane: ApiServer, shop: str, token: str, tmp_path: Path
) -> None:
    minimart = f"{MINIMART_PATH.format(shop)}/minimart-sample"
    job = f"{JOB_PATH.format(shop)}/esp32-kitchen"
    plane.request(
        "POST",
        MINIMART_PATH.format(shop),
        {
            "apiVersion": "charts.samutup.com/v1alpha1",
            "kind": "Minimart",
            "metadata": {"name": "minimart-sample"},
            "spec": {"nameOverride": "shop"},
        },
    )
    with (
        stage.served(PORTAL) as origin,
        stage.console(plane, tmp_path / "console", "--allow-origin", origin) as console,
        browsers() as browser,
        pages(browser) as page,
    ):
        page.goto(f"{origin}/portal.html")
        page.fill("#console", console.url)
        page.fill("#namespace", shop)
        page.fill("#token", token)

        # The click, and what the operator would act on.
        page.fill("#replicas", "3")
        page.click("#shop")
        page.wait_for_function(
            "document.getElementById('said').textContent.startsWith('Minimart minimart-sample is at')"
        )
        assert spec(plane, minimart) == {"nameOverride": "shop", "replicaCount": 3}
        before = plane.request("GET", minimart)["metadata"]

        # A second click does no harm: nothing is written.
        page.evaluate("document.getElementById('said').textContent = ''")
        page.click("#shop")
        page.wait_for_function(
            "document.getElementById('said').textContent.startsWith('Minimart minimart-sample is at')"
        )
        after = plane.request("GET", minimart)["metadata"]
        assert (after["resourceVersion"], after["generation"]) == (before["resourceVersion"], before["generation"])

        # What happens next is seen live: here somebody else changes the object.
        plane.request(
            "PATCH", minimart, {"spec": {"nameOverride": "kiosk"}}, content_type="application/merge-patch+json"
        )
        page.wait_for_function("document.getElementById('events').textContent.includes('\"nameOverride\":\"kiosk\"')")

        # A kind of ours goes the same way.
        page.click("#flash")
        page.wait_for_function("document.getElementById('said').textContent.startsWith('FlashJob esp32-kitchen is at')")
        flash = spec(plane, job)
        assert (flash["uuid"], flash["version"]) == (["esp32-kitchen"], "1.1.0")

        # What is wrong is named by its field, and nothing changes.
        page.fill("#replicas", "11")
        page.click("#shop")
        page.wait_for_function("document.getElementById('said').textContent.includes('#/spec/replicaCount')")
        assert spec(plane, minimart)["replicaCount"] == 3
        assert token not in console.said


@pytest.mark.parametrize("press", [["sh", "button.sh"], [sys.executable, "button.py"]], ids=["curl", "python"])
def test_an_application_presses_the_button_itself(
    plane: ApiServer, shop: str, token: str, tmp_path: Path, press: list[str]
) -> None:
    with stage.console(plane, tmp_path) as console:

        def pressed(resource: str, body: object) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*press, resource, json.dumps(body)],
                cwd=PORTAL,
                env={"PATH": os.environ["PATH"], "CONSOLE": console.url, "NAMESPACE": shop, "TOKEN": token},
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )

        for _ in range(2):
            done = pressed(f"{MINIMARTS}/minimart-sample", {"spec": {"replicaCount": 2}})
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["spec"] == {"replicaCount": 2}
        made = plane.request("GET", f"{MINIMART_PATH.format(shop)}/minimart-sample")
        assert (made["spec"], made["metadata"]["generation"]) == ({"replicaCount": 2}, 1)
        refused = pressed(f"{MINIMARTS}/minimart-sample", {"spec": {"replicas": 2}})
        assert refused.returncode != 0
        assert "#/spec/replicas" in refused.stdout + refused.stderr


def test_the_operator_acts_on_what_the_application_wrote(
    plane: ApiServer, shop: str, token: str, tmp_path: Path
) -> None:
    path = f"/api/v1/namespaces/{shop}/flashjobs/esp32-kitchen"
    body = {"spec": {"uuid": ["esp32-kitchen"], "firmware": "registry.example/firmware:1.1.0", "version": "1.1.0"}}
    with stage.operator(plane, tmp_path), stage.console(plane, tmp_path) as console:
        made = console("PUT", path, body, token=token)
        assert made.status == 201, made.body

        def acted() -> bool:
            job = console("GET", path, token=token).body
            conditions = job.get("status", {}).get("conditions", ())
            return any(each["observedGeneration"] == job["metadata"]["generation"] for each in conditions)

        wait_until(acted, what="the operator has seen the FlashJob and says so in its conditions", interval=0.3)
