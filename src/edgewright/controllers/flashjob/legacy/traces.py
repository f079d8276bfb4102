"""What the original operator's Pods and Services mean for each device of a job, as the general code knows it.

`takeover` creates them once a pass; `progress` and `claims` read them. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from edgewright.api.device import Device
from edgewright.api.flash_pod import FLASH_CONTAINER
from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import Pod
from edgewright.controllers.flashjob.legacy.leftovers import Leftovers, same_order
from edgewright.controllers.flashjob.predecessor import Trace, Traces, no_traces

_CLEARING: Final = "what the original operator left is cleared away"


def traces_of(
    job: FlashJob,
    leftovers: Leftovers,
    *,
    told: Collection[str] = (),
    late: Collection[str] = (),
    had: Collection[str] = (),
) -> Traces:
    """The trace of each entry of spec.uuid.

    `told` are the entries of which only a leftover tells the Device, `late` the names of the Pods that should have
    ended long ago, `had` the entries that the original, which proves nothing, had a Pod for or says are done.
    """
    if not leftovers and not had:
        return no_traces
    occupied = leftovers.uuids

    def trace(uuid: str, device: Device | None) -> Trace:
        pod = leftovers.pods.get(uuid) or leftovers.pods.get("")
        ordered = pod is not None and same_order(pod, job)
        return Trace(
            busy=_flashes(pod) if pod is not None and not pod.finished and pod.metadata.name not in late else "",
            # Something for the whole job, such as a Service that would lead to our Pods too, blocks all of it.
            blocked=_CLEARING if uuid in occupied or "" in occupied else "",
            claimable=pod is not None,
            check=ordered or (device is not None and uuid in had and not _flashed_since(job, device)),
            identifies=uuid in told,
            ended=_ended(pod),
        )

    return trace


def _flashes(pod: Pod) -> str:
    return f"Pod {pod.metadata.name} of the original operator is flashing it and is still running"


def _ended(pod: Pod | None) -> datetime | None:
    flashed = pod.terminated(FLASH_CONTAINER) if pod is not None else None
    return flashed.finished_at if flashed is not None else None


def _flashed_since(job: FlashJob, device: Device) -> bool:
    """Whether we have flashed the device, for whichever job, since this job was made: what it runs is ours by now.

    An attempt of the job's own that was given up in mid-way is not enough: it was to check the device, and so is the
    next one.
    """
    last, made = device.status.last_flash, job.metadata.creation_timestamp
    if last is not None and last.job.uid == job.metadata.uid and device.status.record_of(last.job.uid) is None:
        return False
    return last is not None and (last.time is None or made is None or last.time >= made)
