"""`rollout create` without flags, and filter_uuid.py: the questions that people know, and one rollout in the end."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewright.api.device import QUARANTINED, Device, DeviceSpec, DeviceStatus, FlashRecord, JobReference
from edgewright.api.firmwarerollout import (
    BATCH_ANNOTATION,
    ROLLOUT_UID_LABEL,
    BatchStatus,
    FirmwareRollout,
    FirmwareRolloutStatus,
    OutcomeCounts,
)
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.api.instance import instance_crd
from edgewright.cli import filter_uuid, rollout_dialogue, rollout_questions
from edgewright.runtime.client import Client
from edgewright.runtime.definitions import install
from edgewright.runtime.objects import Condition, Key, Kind, ObjectMeta
from tests.unit.cli.typed import Plane, typed

INSTANCES = Kind(group="akri.sh", version="v0", kind="Instance", plural="instances")
QUESTIONS = (
    "Enter device type to filter (or press Enter to skip): ",
    "Enter application type to filter (or press Enter to skip): ",
    "Enter UUID to filter (or press Enter to skip): ",
    "Do you want to select all UUIDs? (y/n): ",
    "Enter the firmware to use: ",
    "Enter the number of UUIDs per batch (default is 5): ",
    "Enter the delay between batches in seconds (default is 60): ",
)


class Answers(io.StringIO):
    """What a person types, on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def uuids(plane: Plane) -> list[str]:
    async def make(client: Client) -> list[str]:
        await install(client, instance_crd())
        found = []
        for number in (1, 2):
            body: dict[str, Any] = {
                "apiVersion": "akri.sh/v0",
                "kind": "Instance",
                "metadata": {"name": f"i{number}", "namespace": "default"},
                "spec": {
                    "configurationName": "c",
                    "cdiName": f"akri.sh/c=i{number}",
                    "capacity": 1,
                    "brokerProperties": {"DEVICE": "esp32", "APPLICATION_TYPE": "thermo", "HOST_ENDPOINT": "192.0.2.1"},
                },
            }
            uid = (await client.raw(INSTANCES).create(body))["metadata"]["uid"]
            device = Device(metadata=ObjectMeta(name=f"d{number}"), spec=DeviceSpec(type="esp32"))
            await client.of(Device).create(device)
            change = {"status": {"instances": [uid]}}
            await client.of(Device).patch(Key("", f"d{number}"), change, subresource="status")
            found.append(uid)
        return found

    return plane.do(make)


@pytest.fixture(autouse=True)
def _no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> str:
        return ""

    monkeypatch.setattr(rollout_questions, "carried_version", nothing)


async def record(client: Client, name: str, rollout: FirmwareRollout, *, failed: bool) -> None:
    """What the operator writes down when a device has ended."""
    device = await client.of(Device).get(Key("", name))
    told = FlashRecord(
        job=JobReference(namespace="default", name="j", uid=f"j-{rollout.metadata.uid}"),
        outcome="reverted" if failed else "succeeded",
        message="it went back" if failed else "",
        rollout=rollout.metadata.uid,
    )
    records = [each.to_raw() for each in (*device.status.records, told)]
    await client.of(Device).patch(device.key, {"status": {"records": records}}, subresource="status")


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def goes_on(monkeypatch: pytest.MonkeyPatch, plane: Plane, *, phase: str) -> None:
    """An operator that opens a batch per device, each when the one before was shown."""
    show = rollout_dialogue.Lines.show
    looks: list[int] = []

    async def act(client: Client, rollout: FirmwareRollout, step: int) -> None:
        """1: batch 1 opens; 2: it has ended; 3: batch 2 opens; 4: all have ended."""
        batch = {1: 1, 3: 2}.get(step)
        if batch is not None:
            job = FlashJob(
                metadata=ObjectMeta(
                    name=f"{rollout.metadata.name}-{batch}",
                    namespace="default",
                    labels={ROLLOUT_UID_LABEL: rollout.metadata.uid},
                    annotations={BATCH_ANNOTATION: str(batch)},
                ),
                spec=FlashJobSpec(uuid=(f"d{batch}",), firmware="registry.example/a:1.4.0", version="1.4.0"),
            )
            await client.of(FlashJob).create(job)
        ended = {"ended": "2026-11-17T12:00:00Z"}
        batches = [{"number": 1, **(ended if step > 1 else {})}, {"number": 2, **(ended if step > 3 else {})}]
        status = {
            "observedGeneration": rollout.metadata.generation,
            "phase": phase if step > 3 else "Progressing",
            "message": f"step {step}",
            "counts": OutcomeCounts(total=2).to_raw(),
            "batches": batches,
        }
        await client.of(FirmwareRollout).patch(rollout.key, {"status": status}, subresource="status")
        if step in (2, 4):
            job_key = Key("default", f"{rollout.metadata.name}-{step // 2}")
            told = {"completionTime": ended["ended"]}
            await client.of(FlashJob).patch(job_key, {"status": told}, subresource="status")
            await record(client, f"d{step // 2}", rollout, failed=phase == "Failed" and step == 4)

    def looking(self: rollout_dialogue.Lines, rollout: FirmwareRollout, jobs: list[FlashJob]) -> None:
        show(self, rollout, jobs)
        next_step = {"": 1, "step 1": 2, "step 2": 3, "step 3": 4}.get(rollout.status.message)
        # A job and its status are two changes: the next step waits until both were shown.
        if next_step is not None and next_step not in looks and len(jobs) == next_step // 2:
            looks.append(next_step)
            plane.do(lambda client: act(client, rollout, next_step))

    monkeypatch.setattr(rollout_dialogue.Lines, "show", looking)


def test_the_questions_end_in_one_rollout_a_saved_file_and_the_lines_of_the_script(
    capsys: pytest.CaptureFixture[str], plane: Plane, uuids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yaml"
    answers = "ESP32\n\n\nmaybe\ny\nnonsense\nregistry.example/a:1.4.0\n1\n7\n"
    monkeypatch.setattr("sys.stdin", Answers(answers))
    goes_on(monkeypatch, plane, phase="Completed")
    words = ("rollout", "create", "asked", "--file", file, "--flasher-image", "registry.example/flasher:1")
    done = typed(capsys, *words, plane=plane)
    assert done.code == 0, done.err
    at = [done.out.index(question) for question in QUESTIONS]
    assert at == sorted(at)
    assert "'maybe' is neither y nor n, please answer again" in done.out
    assert f"[0] UUID: {uuids[0]}, Device Type: esp32, Application Type: thermo" in done.out
    rollout = plane.do(lambda client: client.of(FirmwareRollout).get(Key("default", "asked")))
    spec = rollout.spec
    assert (spec.selector.uuids, spec.batch_size, spec.interval_seconds) == (tuple(uuids), 1, 7)
    assert (spec.dynamic, spec.version) == (False, "1.4.0")
    assert spec.template.flashjob_pod_image == "registry.example/flasher:1"
    saved = yaml.safe_load(file.read_text())
    assert (saved["kind"], saved["spec"]["uuid"], saved["spec"]["version"]) == ("FlashJob", uuids, "1.4.0")
    _, _, after = done.out.rpartition(QUESTIONS[-1])
    assert after.splitlines() == [
        f"Applying batch 1 with UUIDs: {[uuids[0]]}",
        f"UUIDs saved to {file}",
        f"Successfully applied {file}",
        "Waiting for 7 seconds before the next batch...",
        f"Applying batch 2 with UUIDs: {[uuids[1]]}",
        "All 2 devices run 1.4.0",
    ]
    again = next(line for line in done.err.splitlines() if line.startswith("The same without questions: "))
    assert "edgewright rollout create asked --firmware registry.example/a:1.4.0 --version 1.4.0" in again
    assert f"--batch-size 1 --interval 7s --flasher-image registry.example/flasher:1 --uuid {uuids[0]}" in again


def test_the_wait_between_batches_is_told_though_it_was_over_before_anybody_looked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def job(number: int) -> FlashJob:
        metadata = ObjectMeta(name=f"r-{number}", annotations={BATCH_ANNOTATION: str(number)})
        return FlashJob(metadata=metadata, spec=FlashJobSpec(uuid=(f"d{number}",), firmware="f:1", version="1"))

    ended = BatchStatus(number=1, ended=datetime(2026, 1, 2, tzinfo=UTC))
    counts = OutcomeCounts(total=2)
    rollout = FirmwareRollout(
        metadata=ObjectMeta(name="r"),
        status=FirmwareRolloutStatus(batches=(ended, BatchStatus(number=2)), counts=counts),
    )
    asked = rollout_questions.Job(firmware="f:1", file=str(tmp_path / "job.yaml"))
    choice = rollout_questions.Choice(uuids=["u1", "u2"], job=asked, step=1, delay=7)
    lines = rollout_dialogue.Lines(choice, {"d1": "u1", "d2": "u2"})
    for _ in range(2):
        lines.show(rollout, [job(1), job(2)])
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("Applying", "Waiting"))]
    assert told == [
        "Applying batch 1 with UUIDs: ['u1']",
        "Waiting for 7 seconds before the next batch...",
        "Applying batch 2 with UUIDs: ['u2']",
    ]


def test_nothing_is_left_where_nothing_is_chosen_or_the_answers_end(
    capsys: pytest.CaptureFixture[str], plane: Plane, uuids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answers, said in (("esp8266\n\n\n", "nothing was chosen"), ("\n\n\ny\n", "the input ended")):
        monkeypatch.setattr("sys.stdin", Answers(answers))
        done = typed(capsys, "rollout", "create", "unasked", "--file", tmp_path / "job.yaml", plane=plane)
        assert (done.code, said in done.err) == (1, True)
        assert not (tmp_path / "job.yaml").exists()
    names = typed(capsys, "rollout", "list", "-o", "name", plane=plane).out
    assert "unasked" not in names


def test_a_rollout_that_fails_ends_the_dialogue_with_its_code(
    capsys: pytest.CaptureFixture[str], plane: Plane, uuids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Answers("\n\n\ny\nregistry.example/a:1.4.0\n1\n0\n"))
    goes_on(monkeypatch, plane, phase="Failed")
    done = typed(capsys, "rollout", "create", "doomed", "--file", tmp_path / "job.yaml", plane=plane)
    assert (done.code, done.err.splitlines()[-1]) == (4, "edgewright: 1 of 2 devices failed")
    assert done.out.endswith(f"{uuids[1]} failed: it went back\n")


def test_ctrl_c_says_that_the_rollout_goes_on(
    capsys: pytest.CaptureFixture[str], plane: Plane, uuids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Answers("\n\n\ny\nregistry.example/a:1.4.0\n\n\n"))
    monkeypatch.setattr(rollout_dialogue.Lines, "show", interrupted)
    done = typed(capsys, "rollout", "create", "left", "--file", tmp_path / "job.yaml", plane=plane)
    assert done.code == 130
    pause = f"`edgewright rollout pause left --kubeconfig {plane.kubeconfig}` stops it"
    assert f"rollout left goes on by itself with all chosen devices; {pause}" in done.err


def test_the_script_takes_answers_from_a_pipe_and_typed_again_follows_the_same_rollout_or_makes_another(
    capsys: pytest.CaptureFixture[str], plane: Plane, uuids: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(answers: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(answers))
        words = ["filter_uuid.py", "--file", str(tmp_path / "job.yaml"), "--kubeconfig", str(plane.kubeconfig)]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as ended:
            filter_uuid.main()
        return int(ended.value.code or 0), capsys.readouterr().err

    def names() -> list[str]:
        listed = plane.do(lambda client: client.of(FirmwareRollout).list("default"))
        return sorted(each.metadata.name for each in listed.items if each.metadata.name.startswith("piped"))

    answers = "\n\n\ny\nregistry.example/piped:1.4.0\n1\n0\n"
    with monkeypatch.context() as patched:
        patched.setattr(rollout_dialogue.Lines, "show", interrupted)
        assert script(answers)[0] == 130
        assert script(answers)[0] == 130
        assert names() == ["piped-1-4-0"], "the same again is followed, not made twice"
        assert script(answers.replace("\n1\n0\n", "\n2\n0\n"))[0] == 130
        assert names() == ["piped-1-4-0", "piped-1-4-0-2"]
    goes_on(monkeypatch, plane, phase="Completed")
    code, err = script(answers)
    assert code == 0, err
    assert capsys.readouterr().err == ""


def test_a_device_that_was_left_out_or_that_nobody_knows_is_no_success() -> None:
    rollout = FirmwareRollout(metadata=ObjectMeta(name="r", namespace="lab", uid="u"))
    held = Condition(type=QUARANTINED, status="True", reason="r", last_transition_time=None)
    devices = [
        Device(metadata=ObjectMeta(name="held", uid="a"), status=DeviceStatus(conditions=(held,))),
        Device(metadata=ObjectMeta(name="foreign", uid="b"), spec=DeviceSpec(allowed_namespaces=("other",))),
    ]
    found = rollout_dialogue.failures(rollout, devices, ["a", "b", "c"])
    assert "edgewright devices release held" in found["a"]
    assert "allowedNamespaces" in found["b"]
    assert "there is no Device for it" in found["c"]
