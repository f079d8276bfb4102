"""Whether devices were seen at the end of a soak time, and who is asked that at all."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from edgewright.api.device import Claim, Device, DeviceSpec, DeviceStatus
from edgewright.controllers.rollout.soak import Sight, Watch, must_be_seen, nobody, observer
from tests.unit.controllers.rollout.rollout_world import BEGIN, device_of

SOAKED = BEGIN + timedelta(seconds=30)
"""The end of the soak time of a batch with one device that ended at BEGIN."""
GRACE = 300.0


def at(seconds: float) -> datetime:
    """So long after the end of the soak time."""
    return SOAKED + timedelta(seconds=seconds)


def sight(now: datetime, seen: datetime | None, *, since: datetime | None = None, claimed: bool = False) -> Sight:
    status = DeviceStatus(last_seen=seen, claim=Claim() if claimed else None)
    device = msgspec.structs.replace(device_of("d"), status=status)
    watch = Watch(now=now, since=since, grace=GRACE)
    return watch.sight_of(device, SOAKED, watch.lost_at(SOAKED, 1))


@pytest.mark.parametrize(
    ("now", "seen", "found"),
    [
        pytest.param(at(-1), None, Sight.SEEN, id="the soak time is not over: nothing is asked yet"),
        pytest.param(at(0), at(0), Sight.SEEN, id="seen in the moment of its end"),
        pytest.param(at(20), at(12), Sight.SEEN, id="seen after its end"),
        pytest.param(at(0), at(-1), Sight.AWAITED, id="seen a second too early"),
        pytest.param(at(0), None, Sight.AWAITED, id="never seen"),
        pytest.param(at(GRACE), at(-29), Sight.AWAITED, id="seen after its flash, and the grace is not over"),
        pytest.param(at(GRACE + 1), at(-29), Sight.LOST, id="seen after its flash only"),
        pytest.param(at(GRACE + 1), None, Sight.LOST, id="never seen, and the grace is over"),
        pytest.param(at(GRACE + 1), at(GRACE), Sight.SEEN, id="seen at the last moment"),
        pytest.param(at(90_000), at(GRACE + 50), Sight.SEEN, id="seen too late, which is as good"),
    ],
)
def test_a_device_is_well_once_it_was_seen_at_or_after_the_end_of_the_soak_time(
    now: datetime, seen: datetime | None, found: Sight
) -> None:
    assert sight(now, seen) is found


def test_the_time_in_which_no_operator_looked_is_not_held_against_a_device() -> None:
    assert sight(at(1000), None, since=at(999)) is Sight.AWAITED
    assert sight(at(1000 + GRACE), None, since=at(999)) is Sight.LOST
    assert sight(at(GRACE + 1), None, since=at(-5000)) is Sight.LOST


def test_a_device_that_somebody_flashes_is_waited_for() -> None:
    assert sight(at(90_000), None, claimed=True) is Sight.AWAITED


def test_a_large_batch_has_more_time_because_devices_are_asked_one_after_the_other() -> None:
    watch = Watch(now=SOAKED, grace=GRACE)
    assert watch.lost_at(SOAKED, 10_000) - watch.lost_at(SOAKED, 0) >= timedelta(seconds=2000)


def written(endpoint: str = "192.0.2.1", protocol: str = "", *instances: str) -> Device:
    """A Device that people wrote."""
    spec = DeviceSpec(endpoint=endpoint, protocol=protocol)
    return Device(spec=spec, status=DeviceStatus(instances=instances))


@pytest.mark.parametrize(
    ("device", "instances", "prober"),
    [
        pytest.param(written(), False, True, id="one that people wrote"),
        pytest.param(written("", ""), False, False, id="without an address"),
        pytest.param(written("127.0.0.1"), False, False, id="at an address that is not asked"),
        pytest.param(written("192.0.2.1", "smp-udp"), False, True, id="by another protocol of ours"),
        pytest.param(written("192.0.2.1", "theirs"), False, False, id="by a protocol that has no driver here"),
        pytest.param(written("", "theirs", "u1"), True, True, id="one that an Instance has shown"),
        pytest.param(Device(spec=DeviceSpec(configuration="http")), True, True, id="one that discovery made"),
    ],
)
def test_a_device_is_observed_where_discovery_shows_it_or_the_operator_can_ask_it(
    device: Device, instances: bool, prober: bool
) -> None:
    assert observer(probe=False, local=False)(device) is instances
    assert observer(probe=True, local=False)(device) is prober
    assert not nobody(device)


@pytest.mark.parametrize("fraction", [0, 1, 700_000, 999_999])
def test_what_is_written_in_whole_seconds_is_late_enough(fraction: int) -> None:
    ended = BEGIN.replace(microsecond=fraction)
    due = must_be_seen(ended.replace(microsecond=0), 30)
    assert due == must_be_seen(ended, 30)
    assert ended + timedelta(seconds=30) < due <= ended + timedelta(seconds=31)
    assert due.microsecond == 0
