"""What a device's slots mean for a flash, as a table."""

from __future__ import annotations

import pytest

from edgewright.devices.drivers.driver import Facts, Identity
from edgewright.devices.drivers.smp_slots import Slot, Standing, holding, running, standing

OLD = Slot(number=0, version="1", build="old", active=True, confirmed=True)
NEW = Slot(number=0, version="2", build="new", active=True)
HELD = Slot(number=1, version="2", build="new")
PENDING = Slot(number=1, version="2", build="new", pending=True)
OTHER = Slot(number=1, version="3", build="other")


@pytest.mark.parametrize(
    ("slots", "build", "given", "expected"),
    [
        pytest.param((), "new", True, Standing.NOT_YET, id="nothing told"),
        pytest.param((OLD, PENDING), "new", True, Standing.NOT_YET, id="marked, not restarted"),
        pytest.param((NEW, OLD), "new", True, Standing.NEW, id="runs"),
        pytest.param((HELD, OTHER), "new", True, Standing.NOT_YET, id="in a slot that nothing runs from"),
        pytest.param((HELD, OTHER), "new", False, Standing.NOT_YET, id="a bootloader answers"),
        pytest.param((OLD, HELD), "new", True, Standing.WENT_BACK, id="was tried and left"),
        pytest.param((OLD,), "new", True, Standing.THREW_AWAY, id="was refused"),
        pytest.param((OLD, OTHER), "new", True, Standing.THREW_AWAY, id="something else is there"),
        pytest.param((OLD,), "new", False, Standing.NOT_YET, id="somebody else has not given it yet"),
        pytest.param((OLD, HELD), "new", False, Standing.NOT_YET, id="somebody else is at it"),
        pytest.param((NEW,), "new", False, Standing.NEW, id="somebody else gave it"),
        pytest.param((OLD,), "", False, Standing.NOT_YET, id="not known, and the old one runs"),
        pytest.param((NEW,), "", False, Standing.NEW, id="not known, and another one runs"),
    ],
)
def test_how_a_device_stands(slots: tuple[Slot, ...], build: str, given: bool, expected: Standing) -> None:
    assert standing(slots, Identity(build="old"), Facts(build=build), given=given) is expected


def test_a_bootloader_that_marks_no_slot_runs_the_first() -> None:
    assert running((HELD, OTHER)) is HELD
    assert running((OTHER, OLD)) is OLD
    assert running(()) is None


def test_what_runs_is_not_held() -> None:
    assert holding((NEW,), "new") is None
    assert holding((OLD, HELD), "new") is HELD
