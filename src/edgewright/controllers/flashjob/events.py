"""Events about FlashJobs under the reasons that the original operator published, for those who watch for them.

Both loops use it besides the conditions, which say more. It decides nothing and never hides a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.progress import DeviceStanding
from edgewright.runtime.errors import AlreadyExists, ApiError, Conflict, NotFound
from edgewright.runtime.events import Recorder
from edgewright.runtime.objects import Kind, Resource

FINALIZER_ERROR: Final = "FinalizerError"
FINALIZER_REMOVAL_FAILED: Final = "FinalizerRemovalFailed"
STATUS_UPDATE_FAILED: Final = "StatusUpdateFailed"
DELETION_FAILED: Final = "DeletionFailed"
SERVICE_IP_TIMEOUT: Final = "ServiceIPTimeout"
POD_FAILED: Final = "PodFailed"
NO_INSTANCE: Final = "AkriInstanceError"
"""The original's word for a device that it cannot find."""

_MAX_NAMED: Final = 10


def creation_failed(kind: Kind) -> str:
    """The reason of the event that an object could not be made."""
    return f"{kind.kind}CreationFailed"


def fetch_failed(kind: Kind) -> str:
    """The reason of the event that an object could not be read; the original told FlashJobs by no name."""
    return f"{kind.kind}FetchFailed" if kind in (Pod.kind, Service.kind) else "FetchFailed"


def removal_failed(kind: Kind, *, job_goes: bool) -> str:
    """The reason of the event that a Pod or Service could not be deleted: with its job, or because it is done."""
    return f"{kind.kind}{'Deletion' if job_goes else 'Cleanup'}Failed"


@contextmanager
def telling(recorder: Recorder, about: Resource, reason: str) -> Iterator[None]:
    """Makes an event of what the server refuses in the block, and raises it all the same.

    That an object has changed, gone or been made meanwhile is ordinary and not worth an event.
    """
    try:
        yield
    except (AlreadyExists, Conflict, NotFound):
        raise
    except ApiError as error:
        recorder.record(about, "Warning", reason, str(error))
        raise


def tell_lost(recorder: Recorder, job: FlashJob, standings: Sequence[DeviceStanding]) -> None:
    """Makes events of the devices that were given up as not found since the job's status was last written."""
    told = {device.uuid for device in job.status.devices if device.outcome == Outcome.NOT_FOUND}
    lost = [each for each in standings if each.outcome == Outcome.NOT_FOUND and each.uuid not in told]
    for each in lost[:_MAX_NAMED]:
        recorder.record(job, "Warning", NO_INSTANCE, f"{each.uuid}: {each.message}")
