"""Events about FlashJobs under the reasons that the original operator published, for those who watch for them.

Both loops use it besides the conditions, which say more. It decides nothing and never hides a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.flashjob.progress import DeviceStanding
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.runtime.errors import AlreadyExists, ApiError, Conflict, NotFound
from edgewright.runtime.events import Recorder
from edgewright.runtime.objects import Resource

_MAX_NAMED: Final = 10


@contextmanager
def telling(recorder: Recorder, about: Resource, reason: Reason) -> Iterator[None]:
    """Makes an event of what the server refuses in the block, and raises it all the same.

    That an object has changed, gone or been made meanwhile is ordinary and not worth an event.
    """
    try:
        yield
    except (AlreadyExists, Conflict, NotFound):
        raise
    except ApiError as error:
        recorder.record(about, reason.severity, reason, str(error))
        raise


def tell_lost(recorder: Recorder, job: FlashJob, standings: Sequence[DeviceStanding]) -> None:
    """Makes events of the devices that were given up as not found since the job's status was last written."""
    told = {device.uuid for device in job.status.devices if device.outcome == Outcome.NOT_FOUND}
    lost = [each for each in standings if each.outcome == Outcome.NOT_FOUND and each.uuid not in told]
    for each in lost[:_MAX_NAMED]:
        recorder.record(job, Reason.NO_INSTANCE.severity, Reason.NO_INSTANCE, f"{each.uuid}: {each.message}")
