"""Events under the reasons that the original published."""

from __future__ import annotations

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import DeviceState, FlashedDevice, FlashJob, FlashJobStatus
from edgewright.controllers.flashjob.events import tell_lost, telling
from edgewright.controllers.flashjob.progress import DeviceStanding
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.runtime.errors import ApiError, Conflict, Forbidden, NotFound, Status
from tests.unit.controllers.flashjob.behind import Heard


@pytest.mark.parametrize(
    ("error", "told"),
    [(Forbidden, True), (Conflict, False), (NotFound, False)],
    ids=["refused", "changed meanwhile", "gone meanwhile"],
)
def test_what_the_server_refuses_is_told_and_raised(error: type[ApiError], told: bool) -> None:
    heard = Heard()
    with pytest.raises(error), telling(heard, FlashJob(), Reason.STATUS_UPDATE_FAILED):
        raise error(Status(code=400, message="no"))
    assert heard.said == ([("Warning", "StatusUpdateFailed", "400 no")] if told else [])


def test_a_device_that_was_not_found_is_told_once() -> None:
    heard = Heard()
    standings = [
        DeviceStanding(uuid=uuid, state=DeviceState.FAILED, outcome=Outcome.NOT_FOUND, message="none") for uuid in "ab"
    ]
    told = FlashedDevice(uuid="a", outcome=Outcome.NOT_FOUND)
    tell_lost(heard, FlashJob(status=FlashJobStatus(devices=(told,))), standings)
    assert heard.said == [("Warning", "AkriInstanceError", "b: none")]
