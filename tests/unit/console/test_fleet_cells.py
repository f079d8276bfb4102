"""The devices of a fleet one by one, where they are asked for and few enough: trouble first, by the label's value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewright.console.fleet import MAX_CELLS, cells_of
from edgewright.console.fleet_index import Row
from tests.unit.console.consoles import Portal, consoles, device


async def cells(portal: Portal, query: str) -> Any:
    """What is answered of the devices one by one."""
    found = await portal("GET", f"/api/v1/fleet?{query}")
    assert found.status == 200, found.body
    return found.body["cells"]


@pytest.mark.parametrize("cached", [False, True], ids=["as-caller", "shared-cache"])
async def test_devices_are_named_one_by_one_where_that_is_asked_for(tmp_path: Path, cached: bool) -> None:
    async with consoles(tmp_path, shared_cache=cached) as portal:
        for name, labels in (("a", {"site": "north"}), ("b", {})):
            await device(portal, name, labels=labels)
        failed = {"status": {"lastFlash": {"outcome": "refused"}}}
        path = "/apis/edgewright.dev/v1alpha1/devices/b"
        await portal.api("PATCH", f"{path}/status", failed, media="application/merge-patch+json")
        # A write through the console is never older than what is read after it, nor is what was written before.
        assert (await portal("PATCH", "/api/v1/devices/b", {"metadata": {"labels": {"x": "y"}}})).status == 200
        assert await cells(portal, "groupBy=site") is None
        assert await cells(portal, "cells=false") is None
        assert await cells(portal, "groupBy=site&cells=true") == [
            {"name": "b", "state": "failed", "version": "1", "group": "(none)"},
            {"name": "a", "state": "ok", "version": "1", "group": "north"},
        ]
        assert [each["name"] for each in await cells(portal, "cells=true&labelSelector=site")] == ["a"]
        assert (await portal("GET", "/api/v1/fleet?cells=yes")).status == 400


def test_of_too_many_devices_none_is_named() -> None:
    rows = [Row(name=f"d{number}", state="ok", version="1", labels={}) for number in range(MAX_CELLS + 1)]
    assert cells_of(rows) is None
    assert len(cells_of(rows[1:]) or ()) == MAX_CELLS
