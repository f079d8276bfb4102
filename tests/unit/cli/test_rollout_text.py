"""A rollout in words: trees, lines of a log, verdicts, plans, and what came before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from edgewright.api.device import Device, DeviceSpec, DeviceStatus, FlashRecord
from edgewright.api.firmwarerollout import (
    BATCH_ANNOTATION,
    REVISION_ANNOTATION,
    Batch,
    BatchStatus,
    DeviceSelector,
    FirmwareFor,
    FirmwareRollout,
    FirmwareRolloutSpec,
    FirmwareRolloutStatus,
    Gate,
    OutcomeCounts,
    RolloutReference,
    Window,
)
from edgewright.api.flashjob import FlashedDevice, FlashJob, FlashJobSpec, FlashJobStatus
from edgewright.cli import rollout_plan
from edgewright.cli import rollout_text as words
from edgewright.controllers.rollout import undo
from edgewright.controllers.rollout.plan import plan
from edgewright.runtime.objects import ObjectMeta

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
A, B = "registry.example/a:1", "registry.example/b:2"


def rollout(name: str = "r", *, spec: dict[str, Any] | None = None, age: int = 0, **status: Any) -> FirmwareRollout:
    return FirmwareRollout(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            generation=2,
            creation_timestamp=NOW - timedelta(seconds=age),
        ),
        spec=FirmwareRolloutSpec(**{"firmware": A, "version": "1", **(spec or {})}),
        status=FirmwareRolloutStatus(**{"observed_generation": 2, **status}),
    )


def job(batch: int, *devices: FlashedDevice, revision: int = 1, **spec: Any) -> FlashJob:
    marks = {BATCH_ANNOTATION: str(batch), REVISION_ANNOTATION: str(revision)}
    return FlashJob(
        metadata=ObjectMeta(name=f"r-{batch}-{revision}", annotations=marks),
        spec=FlashJobSpec(**{"firmware": A, "version": "1", **spec}),
        status=FlashJobStatus(devices=devices),
    )


def test_a_tree_shows_what_is_open_first_and_leaves_out_what_is_too_much() -> None:
    devices = [FlashedDevice(uuid=f"d{number:02}", state="Done") for number in range(15)]
    devices[9] = FlashedDevice(uuid="d09", state="Flashing", message="sending")
    batches = tuple(BatchStatus(number=number, name=f"b{number}", phase="Passed") for number in range(1, 30))
    batches += (BatchStatus(number=30, name="b30", phase="Running", size=15, done=14),)
    batches += tuple(BatchStatus(number=number, name=f"b{number}", phase="Planned") for number in range(31, 50))
    it = rollout(
        phase="Progressing",
        progress="1/15",
        batches=batches,
        message="it goes on",
        next_opening=NOW,
        estimated_end=NOW + timedelta(minutes=10),
        counts=OutcomeCounts(total=15, failed=2, flashing=1),
    )
    text = words.tree(it, [job(30, *devices)], now=NOW, width=70)
    assert (
        text[0] == "FirmwareRollout default/r: Progressing, 1/15 done, 2 failed, 1 flashing"[:69] or len(text[0]) < 70
    )
    assert "  the next window opens at 2026-11-17T12:00:00Z" in text
    assert "  estimated end at 2026-11-17T12:10:00Z, in 10m" in text
    assert "│  ├─ d09: Flashing: sending" in text
    assert "│  └─ and 4 more devices" in text
    assert [line for line in text if "(27)" in line] == ["├─ b27 (27): ✔ Passed, 0/0 done"]
    assert not [line for line in text if "(33)" in line]
    assert text[-1] == "└─ and 43 more batches"
    ascii_text = words.tree(it, [], now=NOW, twigs=words.ASCII)
    assert all(line.isascii() for line in ascii_text)
    recall = rollout(spec={"firmware": "", "recall": RolloutReference(name="x")})
    assert words.tree(recall, [], now=NOW)[1] == "  brings a recall of x"
    per_type = rollout(spec={"firmware": "", "firmwares": (FirmwareFor(type="a", firmware=A, version="1"),)})
    assert words.tree(per_type, [], now=NOW)[1] == "  brings firmware per type"


def test_devices_of_an_earlier_revision_are_not_shown() -> None:
    old, new = FlashedDevice(uuid="old", state="Done"), FlashedDevice(uuid="new", state="Waiting")
    found = words.devices_by_batch(rollout(revision=2), [job(1, old), job(1, new, revision=2)])
    assert found == {1: [new]}


def test_a_log_tells_each_change_once() -> None:
    waiting, done = FlashedDevice(uuid="d", state="Waiting"), FlashedDevice(uuid="d", state="Done", version="1")
    first = words.facts(rollout(phase="Progressing", message="begun"), [job(1, waiting)])
    batch = BatchStatus(number=1, name="canary", phase="Running", size=1, failed=1, message="m")
    second = words.facts(rollout(phase="Progressing", message="begun", batches=(batch,)), [job(1, done)])
    assert words.news({}, first, NOW) == ["2026-11-17T12:00:00Z rollout r: Progressing. begun"]
    assert words.news(first, second, NOW) == [
        "2026-11-17T12:00:00Z batch canary (1): Running, 0/1 done, 1 failed: m",
        "2026-11-17T12:00:00Z device d: Done, runs 1",
    ]
    assert words.news(second, second, NOW) == []


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"phase": "Completed"}, None),
        ({"phase": "Progressing"}, None),
        ({"phase": "Failed", "observed_generation": 1}, None),
        ({"phase": "Failed"}, 4),
        ({"phase": "Recalled"}, 4),
        ({"phase": "Aborted", "counts": OutcomeCounts(flashing=1)}, None),
        ({"phase": "Paused"}, 5),
        ({"phase": "Waiting"}, 5),
        ({"phase": "Waiting", "batches": (BatchStatus(name="c", phase="AwaitingApproval"),)}, 5),
    ],
)
def test_a_verdict_has_the_exit_code_of_its_kind(status: dict[str, Any], code: int | None) -> None:
    said = words.verdict(rollout(**status), frozen="audit")
    assert (said.code if said is not None else None) == code


def devices(count: int, **status: Any) -> list[Device]:
    return [
        Device(metadata=ObjectMeta(name=f"d{number}"), spec=DeviceSpec(type="esp32"), status=DeviceStatus(**status))
        for number in range(count)
    ]


def outlook(spec: FirmwareRolloutSpec, fleet: list[Device], **more: Any) -> rollout_plan.Outlook:
    return rollout_plan.Outlook(plan=plan(spec, fleet, NOW), spec=spec, now=NOW, **more)


def test_a_plan_says_batches_bytes_exclusions_and_the_expected_end() -> None:
    spec = FirmwareRolloutSpec(
        firmware=A,
        version="1",
        exclude=DeviceSelector(names=("d0",)),
        batches=(Batch(name="canary", size=1, soak_seconds=600, gate=Gate(approval="manual", success_percent=50)),),
        max_per_minute=2,
        windows=(Window(cron="0 22 * * *", duration_seconds=3600),),
    )
    text = "\n".join(rollout_plan.lines("r", outlook(spec, devices(21), sizes={A: 1000})))
    assert "would bring 1 (registry.example/a:1) to 20 of 20 devices; nothing was changed" in text
    assert "canary: 1 device, watched for 10m, goes on where 50 % succeed, goes on when somebody approves" in text
    assert " and 11 more" in text
    assert "d0: spec.exclude names it" in text
    assert "Bytes: 20,000 to 20 devices" in text
    assert "the next one opens at 2026-11-17T22:00:00Z" in text
    # 60 s for the canary, 600 s of soak, 19 at 2 a minute.
    assert "Expected end: 2026-11-17T22:20:30Z, 20m after the start, with 60s per device, which is assumed" in text
    assert "the time that approvals take" in text


def test_a_plan_counts_who_is_current_and_uses_what_flashes_took() -> None:
    spec = FirmwareRolloutSpec(
        firmwares=(FirmwareFor(type="esp32", firmware=A, version="1"),), batch_size=2, interval_seconds=60
    )
    took = FlashRecord(outcome="succeeded", started=NOW, time=NOW + timedelta(seconds=20))
    fleet = [
        *devices(3, records=(took,)),
        Device(metadata=ObjectMeta(name="c"), spec=DeviceSpec(type="esp32"), status=DeviceStatus(version="1")),
        *(Device(metadata=ObjectMeta(name=f"x{number}"), spec=DeviceSpec(type="nrf")) for number in range(10)),
    ]
    assert rollout_plan.seconds_each(fleet) == 20
    text = "\n".join(rollout_plan.lines("r", outlook(spec, fleet, seconds_each=20.0)))
    assert "1 to esp32" in text
    assert "Run it already, and are only asked: c" in text
    assert "Left out: 10" in text
    assert "and 2 more" in text
    assert "Bytes: not known" in text
    assert "100s after the start, with 20s per device, as flashes took so far" in text
    back = FirmwareRolloutSpec(recall=RolloutReference(name="x"))
    assert "what each device ran before x" in rollout_plan.lines("r", outlook(back, []))[0]


def test_undo_goes_back_to_the_revision_or_the_rollout_before() -> None:
    now = rollout("now", revision=2, spec={"firmware": B, "version": "2", "aborted": True, "approvals": ("c",)})
    again = undo.previous(now, [job(1), job(1, revision=2, firmware=B, version="2")], [])
    assert again is not None
    assert (again.firmware, again.version, again.aborted, again.approvals) == (A, "1", None, ())
    two = [job(1, device="a"), job(2, device="b", firmware=B, version="9")]
    typed = undo.previous(now, two, [])
    assert typed is not None
    assert [(each.type, each.version) for each in typed.firmwares] == [("a", "1"), ("b", "9")]
    before, older = rollout("before", age=60), rollout("older", age=600, spec={"version": "0"})
    elsewhere = rollout("elsewhere", age=30, spec={"selector": DeviceSelector(types=("x",))})
    later = rollout("later", age=-60)
    found = undo.previous(now, [], [now, older, before, elsewhere, later])
    assert found is not None
    assert (found.firmware, found.version) == (A, "1")
    assert undo.previous(now, [], [now, elsewhere]) is None
