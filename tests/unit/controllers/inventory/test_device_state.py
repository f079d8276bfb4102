"""What is written down of a Device: what discovery says, what stays as it is, and when it is stale."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.device import DIFFERS, MAX_INSTANCES, STALE, Device, DeviceSpec, DeviceStatus, Discovered
from edgewright.controllers.inventory.device_state import Kept, View, kept, labels_of, latest_of, look_again
from edgewright.controllers.inventory.sightings import Sighting
from edgewright.controllers.settings import Timing
from edgewright.runtime.conditions import FALSE, TRUE, condition, find, set_condition
from tests.unit.controllers.inventory.fleet import CLAIM, NOW, ago, device, flashed, sighting

TIMING = Timing(stale_after=600, seen_every=300)
LABELS = {"edgewright.dev/type": "esp32s3", "edgewright.dev/application": "thermo"}
SAID = Discovered(instance="u1", application="thermo", version="1.0.0", time=sighting("u1").since)
SEEN = DeviceStatus(application="thermo", version="1.0.0", instances=("u1",), discovered=SAID, last_seen=ago(10))
SETTLED = device(labels=LABELS, status=SEEN)


def keep(known: Device, *sightings: Sighting, now: datetime = NOW, **view: Any) -> Kept:
    return kept(known, View(sightings=sightings, **view), now=now, timing=TIMING)


def unchanged(known: Device, wanted: Kept) -> bool:
    return (known.spec, known.metadata.labels, known.status) == (wanted.spec, wanted.labels, wanted.status)


def with_status(known: Device, **fields: object) -> Device:
    return msgspec.structs.replace(known, status=msgspec.structs.replace(known.status, **fields))


def test_a_new_device_says_what_its_instance_shows() -> None:
    wanted = keep(device(), sighting("u1", PROTOCOL="esp32-plain", SERIAL="s1"))
    assert wanted.spec == DeviceSpec(
        type="esp32s3", protocol="esp32-plain", endpoint="10.0.0.7", serial="s1", configuration="http"
    )
    assert wanted.labels == LABELS
    assert wanted.status == msgspec.structs.replace(SEEN, last_seen=NOW)


def test_a_settled_device_is_left_as_it_is() -> None:
    assert unchanged(SETTLED, keep(SETTLED, sighting("u1")))


def test_a_device_that_is_just_being_made_is_left_as_it_is() -> None:
    made = device(created=NOW, labels=LABELS)
    assert unchanged(made, keep(made))


def test_what_a_flash_made_of_an_unseen_device_is_shown_in_its_labels() -> None:
    wanted = keep(with_status(SETTLED, application="lamp"))
    assert wanted.labels == {**LABELS, "edgewright.dev/application": "lamp"}


def test_that_it_was_seen_is_written_now_and_then_only() -> None:
    just_before = keep(SETTLED, sighting("u1"), now=ago(10) + timedelta(seconds=299))
    assert unchanged(SETTLED, just_before)
    due = ago(10) + timedelta(seconds=300)
    assert keep(SETTLED, sighting("u1"), now=due).status == msgspec.structs.replace(SEEN, last_seen=due)


def test_when_something_else_changes_it_says_when() -> None:
    wanted = keep(SETTLED, sighting("u1", VERSION="1.1.0"))
    said = msgspec.structs.replace(SAID, version="1.1.0", time=NOW)
    assert wanted.status == msgspec.structs.replace(SEEN, version="1.1.0", discovered=said, last_seen=NOW)


def test_what_an_instance_does_not_tell_stays() -> None:
    known = with_status(device(protocol="smp-udp", serial="s1", labels=LABELS), **msgspec.structs.asdict(SEEN))
    known = with_status(known, discovered=Discovered(instance="u1"))
    assert unchanged(known, keep(known, sighting("u1", DEVICE="", APPLICATION_TYPE="", VERSION="")))


def test_a_new_address_and_another_configuration_are_taken_over() -> None:
    wanted = keep(SETTLED, sighting("u1", configuration="lamps", HOST_ENDPOINT="10.0.0.9"))
    assert (wanted.spec.configuration, wanted.spec.endpoint) == ("lamps", "10.0.0.9")


def test_of_several_instances_the_newest_counts_and_all_are_kept() -> None:
    old, new = sighting("u1", since=ago(900), VERSION="1"), sighting("u2", since=ago(100), VERSION="2")
    for order in ((old, new), (new, old)):
        assert latest_of(order) is new
        wanted = keep(device(), *order)
        assert wanted.status.instances == ("u1", "u2")
        assert wanted.status.version == "2"


def test_a_device_that_people_wrote_keeps_its_spec_and_labels() -> None:
    theirs = device(configuration="", type="mine", endpoint="10.0.0.7", labels={"site": "north"})
    wanted = keep(theirs, sighting("u1", SERIAL="s1"))
    assert (wanted.spec, wanted.labels) == (theirs.spec, {"site": "north"})
    assert wanted.status == msgspec.structs.replace(SEEN, last_seen=NOW)


def test_what_comes_of_flashes_is_never_touched() -> None:
    status = DeviceStatus(claim=CLAIM, last_flash=flashed(before="0.9", after=""), certificate="c")
    wanted = keep(device(status=status), sighting("u1"))
    assert (wanted.status.claim, wanted.status.last_flash, wanted.status.certificate) == (
        status.claim,
        status.last_flash,
        "c",
    )


@pytest.mark.parametrize(
    ("value", "labelled"),
    [("esp32", True), ("a.b_c-d", True), ("", False), ("-x", False), ("a b", False), ("ü", False), ("x" * 64, False)],
)
def test_only_what_can_be_a_label_becomes_one_and_the_others_are_left_alone(value: str, labelled: bool) -> None:
    before = {"site": "north", "edgewright.dev/type": "old", "edgewright.dev/application": "old"}
    after = labels_of(before, type_=value, application="lamp")
    expected = {"edgewright.dev/type": value} if labelled else {}
    assert after == {"site": "north", "edgewright.dev/application": "lamp", **expected}


def test_a_device_is_stale_when_nothing_has_shown_it_for_long_enough() -> None:
    known = with_status(SETTLED, last_seen=ago(599))
    assert unchanged(known, keep(known))
    assert look_again(known, View(), now=NOW, timing=TIMING) == 1
    later = keep(known, now=NOW + timedelta(seconds=1)).status
    stale = find(later.conditions, STALE)
    assert stale is not None
    assert (stale.status, stale.reason) == ("True", "NotSeen")
    assert "2026-03-01 11:50:01" in stale.message
    assert later.last_seen == ago(599)


def test_the_moment_in_which_the_last_instance_went_counts() -> None:
    known = with_status(SETTLED, last_seen=ago(5000))
    assert unchanged(known, keep(known, vanished=ago(599)))
    assert look_again(known, View(vanished=ago(599)), now=NOW, timing=TIMING) == 1
    assert keep(known, vanished=ago(600)).status.last_seen == ago(600)


def stale(known: Device) -> Device:
    mark = set_condition((), condition(STALE, TRUE, "NotSeen"), now=ago(100))
    return with_status(known, conditions=mark)


def test_a_stale_device_stays_as_it_is_until_it_is_seen() -> None:
    known = stale(SETTLED)
    assert unchanged(known, keep(known, now=NOW + timedelta(days=9)))
    assert look_again(known, View(), now=NOW, timing=TIMING) is None


def test_a_stale_device_that_is_seen_again_is_not_stale() -> None:
    known = stale(SETTLED)
    wanted = keep(known, sighting("u1")).status
    assert wanted.last_seen == NOW
    assert [(each.type, each.status) for each in wanted.conditions] == [(STALE, FALSE)]
    again = keep(with_status(known, **msgspec.structs.asdict(wanted)), sighting("u1"))
    assert again.status == wanted


def test_whether_a_device_is_stale_that_is_asked_itself_is_not_said_here() -> None:
    known = with_status(SETTLED, last_seen=ago(5000))
    assert unchanged(known, keep(known, asked=True))
    assert look_again(known, View(asked=True), now=NOW, timing=TIMING) == 600


def test_what_akri_sees_is_no_other_device_any_more() -> None:
    mark = set_condition((), condition(DIFFERS, TRUE, "OtherType"), now=ago(100))
    wanted = keep(with_status(SETTLED, conditions=mark), sighting("u1")).status
    assert [(each.type, each.status, each.reason) for each in wanted.conditions] == [(DIFFERS, FALSE, "Discovered")]


def test_a_device_that_people_wrote_and_nothing_ever_saw_is_never_stale() -> None:
    theirs = device(configuration="", created=ago(99999))
    assert unchanged(theirs, keep(theirs))
    assert look_again(theirs, View(), now=NOW, timing=TIMING) is None


def test_a_device_that_was_made_and_whose_instance_went_at_once_becomes_stale() -> None:
    lost = device(created=ago(600), labels={"edgewright.dev/type": "esp32s3"})
    assert find(keep(lost).status.conditions, STALE) is not None
    assert look_again(device(created=None), View(), now=NOW, timing=TIMING) == 600


def test_the_next_write_that_it_was_seen_comes_in_time_and_not_for_all_at_once() -> None:
    view = View(sightings=(sighting("u1"),))
    waits = {look_again(device(f"d{number}", status=SEEN), view, now=NOW, timing=TIMING) for number in range(50)}
    assert len(waits) == 50
    assert all(wait is not None and 290 <= wait <= 440 for wait in waits)


def test_that_it_was_seen_is_written_once_when_somebody_wants_to_know_it() -> None:
    view, due = View(sightings=(sighting("u1"),)), NOW + timedelta(seconds=20)

    def looked(known: Device, now: datetime) -> tuple[DeviceStatus, float | None]:
        wanted = kept(known, view, now=now, timing=TIMING, due=due)
        after = msgspec.structs.replace(known, status=wanted.status)
        return wanted.status, look_again(after, view, now=now, timing=TIMING, due=due)

    assert looked(SETTLED, NOW) == (SEEN, 20)
    seen, wait = looked(SETTLED, due)
    assert seen == msgspec.structs.replace(SEEN, last_seen=due)
    assert wait is not None
    assert wait >= 300, "as ever"
    again = msgspec.structs.replace(SETTLED, status=seen)
    assert looked(again, due + timedelta(seconds=5))[0] is seen
    gone = kept(SETTLED, View(), now=due, timing=TIMING, due=due)
    assert gone.status is SEEN, "one that nothing shows was not seen"


def test_the_oldest_instances_that_are_gone_make_room() -> None:
    uids = tuple(f"old-{number}" for number in range(MAX_INSTANCES))
    known = with_status(SETTLED, instances=uids)
    living = sighting("old-0"), sighting("new-1"), sighting("new-2")
    found = keep(known, *living).status.instances
    assert found == ("old-0", *uids[3:], "new-1", "new-2")


@given(st.sets(st.integers(0, 120), max_size=120), st.lists(st.integers(0, 120), max_size=MAX_INSTANCES, unique=True))
def test_living_instances_never_drive_each_other_out(living: set[int], before: list[int]) -> None:
    known = with_status(SETTLED, instances=tuple(map(str, before)))
    sightings = [sighting(str(number)) for number in sorted(living)]
    first = keep(known, *sightings)
    after = first.status.instances
    assert len(after) == len(set(after)) <= MAX_INSTANCES
    assert {str(each) for each in before if each in living} <= set(after)
    assert len(living) > MAX_INSTANCES or set(map(str, living)) <= set(after)
    if living:
        second = keep(msgspec.structs.replace(known, status=first.status), *sightings)
        assert second.status == first.status
