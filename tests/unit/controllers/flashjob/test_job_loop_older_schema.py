"""FlashJobs that an older schema let through, under which a status that repeated them could not be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewright.api import FlashJob, custom_resource_definition
from edgewright.api.device import Device
from edgewright.local import custom
from tests.unit.controllers.flashjob.jobs_stage import DEVICES, Stage, condition, stage


def loosened() -> dict[str, Any]:
    """Our definition with a spec that takes anything, as the original's nearly does."""
    definition = custom_resource_definition(FlashJob)
    (version,) = definition["spec"]["versions"]
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = open_
    return definition


def served_with(here: Stage, definition: dict[str, Any]) -> None:
    """Has the server hold FlashJobs to this definition from now on."""
    definitions = (definition, custom_resource_definition(Device))
    here.api.kinds.set_custom([each for one in definitions for each in custom.served(one)])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"uuid": ["one", "x" * 300]}, "spec.uuid[1]"),
        ({"uuid": "x" * 300}, "spec.uuid[0]"),
        ({"hostEndpoint": "x" * 600}, "spec.hostEndpoint"),
        ({"firmware": "x" * 100_000}, "spec.firmware"),
        ({"version": "1" * 40_000}, "spec.version"),
        ({"ttlSecondsAfterFinished": 10**12}, "spec.ttlSecondsAfterFinished"),
    ],
    ids=["device", "only device", "endpoint", "firmware", "version", "time to live"],
)
async def test_what_is_too_long_or_too_much_is_told_and_nothing_is_flashed(
    tmp_path: Path, spec: dict[str, Any], field: str
) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        served_with(here, loosened())
        await here.make_job("job", "one", **spec)
        served_with(here, custom_resource_definition(FlashJob))
        async with here.operating():
            status = await here.shown(lambda status: condition(status, "Accepted")["status"] == "False")
            await here.quiet_but_for_timers()
        assert status["phase"] == "Failed"
        assert condition(status, "Accepted")["message"].startswith(field)
        found = (await here.api("GET", f"{DEVICES}/one")).body
        assert not found.get("status", {}).get("claim")
