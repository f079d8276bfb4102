"""The log of a device's latest flash: what its Pod has written so far, else the last lines that the Device keeps.

A Pod is there as long as its device is claimed; its log is read with the caller's rights, and never more than a part of
it. Lines are kept of flashes that failed.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from edgewright.api.device import Claim, Device, JobReference
from edgewright.api.flash_pod import FLASH_CONTAINER
from edgewright.api.pod import Pod
from edgewright.console.answers import FlashLog
from edgewright.console.call import Call, answer
from edgewright.console.flash_steps import step_of
from edgewright.console.problems import Refusal
from edgewright.console.reads import Reads
from edgewright.controllers.flashjob.names import pod_name
from edgewright.runtime.errors import BadRequest, NotFound
from edgewright.runtime.objects import Key

DEFAULT_LINES: Final = 200
MAX_LINES: Final = 1000
_MAX_BYTES: Final = 256 * 1024


async def flash_log(call: Call) -> web.Response:
    """The last lines of the flash that is under way, or else of the latest one."""
    name, lines = call.part("name"), int(call.query.get("lines", DEFAULT_LINES))
    device = await Reads(call).get(Device, Key("", name))
    if (claim := device.status.claim) is not None:
        written = await _of_pod(call, name, claim, lines)
        step = step_of(written)
        return answer(FlashLog(job=_told(claim.job), live=True, attempt=claim.attempt, lines=written, step=step))
    last = device.status.last_flash
    if last is None or not last.outcome:
        raise Refusal("not-found", f"device {name} has no log: no job has flashed it")
    if not last.log:
        about = f"the flash by {_told(last.job)} ended as {last.outcome}"
        raise Refusal("not-found", f"device {name} has no log: {about}, and lines are kept of a flash that failed")
    return answer(FlashLog(job=_told(last.job), live=False, outcome=last.outcome, lines=last.log[-lines:]))


async def _of_pod(call: Call, name: str, claim: Claim, lines: int) -> tuple[str, ...]:
    """What the Pod of a claim has written, as the caller; who may not read logs is told so by the API server."""
    path = Pod.kind.path(claim.job.namespace, pod_name(claim.job.name, claim.uuid), "log")
    query = {"container": FLASH_CONTAINER, "tailLines": str(lines), "limitBytes": str(_MAX_BYTES)}
    try:
        found = await call.exchange("GET", path, query=query)
    except (NotFound, BadRequest):  # it is not made yet, or its container does not run yet
        why = f": {claim.last_message}" if claim.last_message else ""
        raise Refusal("not-found", f"the flash of device {name} by {_told(claim.job)} has no log yet{why}") from None
    return tuple(found.body.decode(errors="replace").splitlines())


def _told(job: JobReference) -> str:
    return f"{job.namespace}/{job.name}"
