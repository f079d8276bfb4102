"""A device is released from quarantine over HTTP: as the caller, who is named with the reason; once; not by halves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.device import QUARANTINED, Device, release_of
from edgewright.console.actions import ACTION_ANNOTATION
from edgewright.runtime.client import RawApi
from edgewright.runtime.errors import Conflict, Status
from tests.unit.console.consoles import Application, Portal, consoles, device
from tests.unit.console.narrow import RBAC, narrow

RELEASE = "/api/v1/devices/a/release"
SINCE = {"lastTransitionTime": "2026-11-17T12:00:00Z", "reason": "Told"}
STALE = {"type": "Stale", "status": "True", "message": "silent", **SINCE}
HELD = {"type": QUARANTINED, "status": "True", "message": "3 in a row", **SINCE}
STATUS = "/apis/edgewright.dev/v1alpha1/devices/a/status"


async def quarantined(portal: Portal) -> None:
    """A device whose flashes keep failing."""
    await device(portal, "a")
    status = {"failures": 3, "conditions": [HELD, STALE]}
    told = await portal.api("PATCH", STATUS, {"status": status}, media="application/merge-patch+json")
    assert told.code == 200, told.body


def standing(found: dict[str, Any]) -> tuple[list[str], int]:
    """The conditions of a device, and how often it failed."""
    return [each["type"] for each in found["status"]["conditions"]], found["status"].get("failures", 0)


@pytest.mark.parametrize("cached", [False, True], ids=["as-caller", "shared-cache"])
async def test_a_device_is_released_once_with_who_and_why(tmp_path: Path, cached: bool) -> None:
    async with consoles(tmp_path, shared_cache=cached) as portal:
        await quarantined(portal)
        done = await portal("POST", RELEASE, {"reason": "new cable"}, X_On_Behalf_Of="Zoë")
        assert (done.status, standing(done.body)) == (202, (["Stale"], 0)), done.body
        said = json.loads(done.body["metadata"]["annotations"][ACTION_ANNOTATION])
        assert (said["action"], said["reason"], said["onBehalfOf"]) == ("release", "new cable", "Zoë")
        assert said["by"]
        read = await portal("GET", "/api/v1/devices/a")
        assert (read.headers["ETag"], standing(read.body)) == (done.headers["ETag"], (["Stale"], 0))
        again = await portal("POST", RELEASE)
        assert (again.status, again.headers["ETag"]) == (202, done.headers["ETag"])
        told = (await portal("GET", "/api/v1/devices/a/events")).body["items"]
        assert [each["reason"] for each in told] == ["ReleaseRequested"]
        assert told[0]["message"].endswith("asked for release: new cable")
        assert (await portal("POST", "/api/v1/devices/none/release")).status == 404
        assert (await portal("POST", RELEASE, {"why": "x"})).status == 422


@pytest.mark.parametrize(
    ("resources", "missing"),
    [(["devices"], "devices/status.edgewright.dev"), (["devices/status"], "devices.edgewright.dev")],
)
async def test_who_lacks_one_of_the_rights_changes_nothing(tmp_path: Path, resources: list[str], missing: str) -> None:
    async with consoles(tmp_path) as portal:
        await quarantined(portal)
        caller = await narrow(portal, "default")
        await may_patch(portal, resources)
        before = (await portal("GET", "/api/v1/devices/a")).body
        refused = await caller("POST", RELEASE, {})
        told = (refused.status, refused.body.get("verb"), refused.body.get("resource"))
        assert told == (403, "patch", missing), refused.body
        assert (await portal("GET", "/api/v1/devices/a")).body == before
        verbs = await rights(caller, "status")
        assert verbs["resource"] == "devices/status"
        assert verbs["verbs"]["patch"] is ("devices/status" in resources)
        assert (await rights(caller, ""))["verbs"]["patch"] is ("devices" in resources)


async def rights(caller: Application, part: str) -> dict[str, Any]:
    """What the console says that the caller may do with devices, or with a part of them."""
    found = await caller("GET", "/api/v1/me?of=devices" + (f"&subresource={part}" if part else ""))
    assert found.status == 200, found.body
    return dict(found.body["rights"])


async def may_patch(portal: Portal, resources: list[str]) -> None:
    """Gives the narrow caller the right to read devices, and to patch these."""
    group = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["edgewright.dev"], "resources": ["devices"], "verbs": ["get"]},
        {"apiGroups": ["edgewright.dev"], "resources": resources, "verbs": ["patch"]},
    ]
    kinds = {"apiVersion": f"{group}/v1", "metadata": {"name": "patches"}}
    await portal.api.made(f"{RBAC}/clusterroles", {**kinds, "kind": "ClusterRole", "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "narrow", "namespace": "default"}
    ref = {"apiGroup": group, "kind": "ClusterRole", "name": "patches"}
    binding = {**kinds, "kind": "ClusterRoleBinding", "roleRef": ref, "subjects": [subject]}
    await portal.api.made(f"{RBAC}/clusterrolebindings", binding)


async def test_a_release_outlasts_others_who_write_the_device_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = RawApi.patch
    refusals = [1]

    async def contended(api: Any, *given: Any, **settings: Any) -> Any:
        if settings.get("subresource") and refusals[0]:
            refusals[0] -= 1
            raise Conflict(Status(code=409))
        return await patch(api, *given, **settings)

    async with consoles(tmp_path) as portal:
        await quarantined(portal)
        monkeypatch.setattr(RawApi, "patch", contended)
        done = await portal("POST", RELEASE)
        assert (done.status, standing(done.body)) == (202, (["Stale"], 0)), done.body
        await portal.api("PATCH", STATUS, {"status": {"failures": 3}}, media="application/merge-patch+json")
        refusals[0] = 5
        refused = await portal("POST", RELEASE)
        assert (refused.status, refused.body["detail"]) == (409, "others keep changing the device: try again")


def test_what_is_released_is_the_quarantine_and_the_count_alone() -> None:
    raw = {"status": {"conditions": [HELD, STALE], "failures": 3}}
    assert release_of(raw) == {"status": {"conditions": [STALE], "failures": 0}}
    assert release_of({"status": {"conditions": [STALE]}}) is None
    assert release_of(Device().to_raw()) is None
    assert release_of({"status": {"failures": 1}}) == {"status": {"conditions": [], "failures": 0}}
