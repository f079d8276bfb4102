"""filter_uuid: its questions and answers, what it saves, and one FlashJob that grows batch by batch."""

from __future__ import annotations

import asyncio
import io
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewright.api.flashjob import FlashCounts, FlashedDevice, FlashJob, FlashJobSpec, FlashJobStatus
from edgewright.api.instance import Instance, instance_crd
from edgewright.api.reference import parse_reference
from edgewright.cli import answers, operator_options
from edgewright.cli import filter_uuid as script
from edgewright.cli.failure import Failed
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.registry import Registry
from edgewright.runtime import Client, Key
from edgewright.runtime.definitions import install
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.objects import ObjectMeta
from tests.unit.cli.planes import planes

FIRMWARE = "registry.example/esp32:0.2.0"
JOB = script.Job(firmware=FIRMWARE, version="0.2.0", device="esp32", application="thermo")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def instance(uid: str, device: str = "esp32", application: str = "thermo") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid},
        "spec": {"brokerProperties": {"DEVICE": device, "APPLICATION_TYPE": application}},
    }


def job(*uuids: str, generation: int = 1, observed: int = 1, **fields: Any) -> FlashJob:
    spec = FlashJobSpec(uuid=uuids, firmware=fields.pop("firmware", FIRMWARE), version=fields.pop("version", "0.2.0"))
    deleted = fields.pop("deleted", None)
    return FlashJob(
        metadata=ObjectMeta(name="flashjob", namespace="default", generation=generation, deletion_timestamp=deleted),
        spec=spec,
        status=FlashJobStatus(observed_generation=observed, **fields),
    )


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Types these answers."""

    def type_(*answers: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{each}\n" for each in answers)))

    return type_


# --- pure ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["a", "b", "c"]),
        ({"uuid": "", "device_type": "", "application_type": ""}, ["a", "b", "c"]),
        ({"uuid": "b"}, ["b"]),
        ({"uuid": "B"}, []),
        ({"device_type": "ESP32"}, ["a"]),
        ({"application_type": "Thermo"}, ["a", "b"]),
        ({"device_type": "esp32s2", "application_type": "thermo"}, ["b"]),
        ({"device_type": "unknown device type"}, ["c"]),
    ],
)
def test_instances_are_filtered_as_they_always_were(filters: dict[str, str], found: list[str]) -> None:
    items = [instance("a"), instance("b", "esp32s2"), {"metadata": {"uid": "c"}, "spec": {}}]
    assert [each["uuid"] for each in script.filter_instances({"items": items}, **filters)] == found


def test_the_file_is_the_documents() -> None:
    shown = script.yaml_text(script.manifest(["a", "b"], JOB))
    assert shown.splitlines()[5:] == [
        "spec:",
        "  applicationType: thermo",
        "  device: esp32",
        "  externalIP:",
        f"  firmware: {FIRMWARE}",
        "  flashjobPodImage:",
        "  hostEndpoint:",
        "  uuid:",
        "    - a",
        "    - b",
        '  version: "0.2.0"',
    ]
    assert yaml.safe_load(shown) == script.manifest(["a", "b"], JOB)


def test_batches_are_portions() -> None:
    assert script.batches(["a", "b", "c"], 2) == [["a", "b"], ["c"]]
    assert script.batches([], 2) == []


@pytest.mark.parametrize(
    ("firmware", "version"),
    [
        (FIRMWARE, "0.2.0"),
        ("registry.example/esp32:latest", ""),
        ("registry.example/esp32:debug", ""),
        ("registry.example/esp32", ""),
        ("no reference", ""),
    ],
)
def test_a_tag_tells_a_version_or_none(firmware: str, version: str) -> None:
    assert script.tag_version(firmware) == version


def test_what_all_have_in_common_is_said_and_nothing_else() -> None:
    assert script.common(["esp32", "esp32"], "?") == "esp32"
    assert script.common(["esp32", "esp32s2"], "?") is None
    assert script.common(["?", "?"], "?") is None


@pytest.mark.parametrize(
    ("present", "kept"),
    [
        pytest.param(None, [], id="no job"),
        pytest.param(job("x", "a", phase="InProgress"), ["x"], id="the same firmware: its devices stay"),
        pytest.param(job("x", firmware="r.example/o:1", phase="Completed"), [], id="another firmware, ended"),
        pytest.param(job("a", firmware="r.example/o:1", phase="InProgress"), [], id="the same devices"),
        pytest.param(job("x", firmware="r.example/o:1", deleted=NOW), [], id="it goes"),
    ],
)
def test_what_a_job_of_that_name_had_is_kept(present: FlashJob | None, kept: list[str]) -> None:
    assert script.kept_uuids(present, JOB, {"a"}) == kept


def test_a_job_that_still_brings_something_else_to_others_is_left_alone() -> None:
    with pytest.raises(Failed, match=r"default/flashjob still brings r.example/o:1 to other devices: wait for its end"):
        script.kept_uuids(job("x", firmware="r.example/o:1", phase="InProgress"), JOB, {"a"})


@pytest.mark.parametrize(
    ("found", "ended"),
    [
        (job("a", phase="InProgress"), False),
        (job("a", phase="Completed"), True),
        (job("a", phase="Failed"), True),
        (job("a", phase="Failed", counts=FlashCounts(total=2, waiting=1)), False),
        (job("a", phase="Completed", generation=3, observed=2), False),
        (job("a", phase="Completed", generation=2, observed=2), False),
    ],
)
def test_a_job_has_ended_when_its_status_is_about_the_present_spec_and_nothing_is_under_way(
    found: FlashJob, ended: bool
) -> None:
    assert script.has_ended(found, generation=3 if found.metadata.generation > 1 else 1) is ended


def test_failures_are_of_the_chosen_devices_and_a_refused_job_failed_them_all() -> None:
    devices = (
        FlashedDevice(uuid="a", state="Failed", message="why"),
        FlashedDevice(uuid="b", state="Done"),
        FlashedDevice(uuid="c", state="Failed", outcome="refused"),
        FlashedDevice(uuid="x", state="Failed", message="other"),
    )
    assert script.failures(job("a", devices=devices, phase="Failed"), ["a", "b", "c"]) == {"a": "why", "c": "refused"}
    assert script.failures(job("a", phase="Failed", message="spec.firmware: bad"), ["a"]) == {"a": "spec.firmware: bad"}
    assert script.failures(job("a", phase="Completed", completed_uuids=("a",)), ["a"]) == {}


# --- answers -------------------------------------------------------------------------------------------------------


def test_a_bad_answer_is_asked_again(answered: Any, capsys: pytest.CaptureFixture[str]) -> None:
    answered("maybe", "NO")
    assert answers.ask("Really? ", answers.yes_or_no) is False
    assert capsys.readouterr().out == "Really? 'maybe' is neither y nor n, please answer again\nReally? "
    answered("yes")
    assert answers.ask("", answers.yes_or_no) is True
    answered("", "1.0")
    assert answers.ask("", answers.something) == "1.0"


def test_input_that_ends_is_one_sentence(answered: Any) -> None:
    answered()
    with pytest.raises(Failed, match="the input ended before this was answered: Really\\?"):
        answers.ask("Really? ", str)


def test_numbers_are_read_once_each() -> None:
    assert answers.numbers_in(" 2, 0,2", 3) == [2, 0]
    for bad in ("", "3", "-1", "x", "1;2", "²"):
        with pytest.raises(ValueError, match="is not a number from 0 to 2"):
            answers.numbers_in(bad, 3)
    read = answers.number_from(1, 9, 5)
    assert (read(""), read("7")) == (5, 7)
    for bad in ("0", "10", "1.5", "²"):
        with pytest.raises(ValueError, match="is not a whole number from 1 to 9"):
            read(bad)


def test_all_or_some_instances_are_selected(answered: Any, capsys: pytest.CaptureFixture[str]) -> None:
    offered = script.filter_instances({"items": [instance("a"), instance("b")]})
    answered("y")
    assert script.user_select_instances(offered) == ["a", "b"]
    answered("n", "1")
    assert script.user_select_instances(offered) == ["b"]
    assert "[1] UUID: b, Device Type: esp32, Application Type: thermo\n" in capsys.readouterr().out
    assert script.user_select_instances([]) == []


def test_the_dialogue_gives_a_job(answered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any, **__: Any) -> str:
        return ""

    monkeypatch.setattr(script, "carried_version", nothing)
    listed = {"items": [instance("a"), instance("b", "esp32s2")]}
    answered("", "", "", "y", "registry.example/esp32:latest", "1.7", "", "0")
    choice = script.dialogue(listed, script.Options(namespace="lab", flasher_image="mine"))
    assert choice is not None
    assert (choice.uuids, choice.step, choice.delay) == (["a", "b"], 5, 0)
    assert choice.job == script.Job(
        firmware="registry.example/esp32:latest",
        version="1.7",
        device=None,
        application="thermo",
        flasher_image="mine",
        namespace="lab",
    )
    answered("nothing of the kind", "", "")
    assert script.dialogue(listed, script.Options()) is None


# --- files, registries, clusters -----------------------------------------------------------------------------------


def test_a_file_in_git_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "job.yaml"
    script.demand_untracked(file)
    file.touch()
    script.demand_untracked(file)
    for command in ("init --quiet", "add job.yaml"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    with pytest.raises(Failed, match="is in git and is not written over"):
        script.save_uuids_to_yaml(["a"], FIRMWARE, str(file))
    assert file.read_text() == ""


def test_nothing_is_saved_for_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.save_uuids_to_yaml([], FIRMWARE, str(tmp_path / "job.yaml"))
    assert capsys.readouterr().out == "No UUIDs selected, nothing to save.\n"
    script.save_uuids_to_yaml(["a"], FIRMWARE, str(tmp_path / "job.yaml"))
    assert yaml.safe_load((tmp_path / "job.yaml").read_text())["spec"]["version"] == "0.2.0"


async def test_the_version_is_the_one_that_the_image_carries() -> None:
    async with Registry() as registry:
        registry.add_image("f", "tag", {"esp32": esp_image(chip="esp32", version="3.1", project="thermo")})
        registry.add_image("f", "raw", {"esp32": b"no image of an ESP32"})
        for tag, version in (("tag", "3.1"), ("raw", ""), ("gone", "")):
            reference = parse_reference(f"{registry.host}/f:{tag}")
            found = await script.carried_version(reference, device="esp32", plain=[registry.host])
            assert found == version


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Client]:
    """An API server with our kinds, and what plays the operator: a device `bad` fails, all others are done."""

    async def operate(client: Client) -> None:
        while True:
            await asyncio.sleep(0.02)
            for each in (await client.of(FlashJob).list()).items:
                uuids = each.spec.uuids
                failed = [uuid for uuid in uuids if uuid == "bad"]
                ended = each.status.progress == f"0/{len(uuids)}"  # first it is under way
                status = FlashJobStatus(
                    observed_generation=each.metadata.generation,
                    phase="InProgress" if not ended else "Failed" if failed else "Completed",
                    progress=f"0/{len(uuids)}",
                    completed_uuids=tuple(uuid for uuid in uuids if ended and uuid not in failed),
                    devices=tuple(FlashedDevice(uuid=uuid, state="Failed", message="why") for uuid in failed if ended),
                )
                try:
                    await client.of(FlashJob).write_status(each, status)
                except (Conflict, NotFound):
                    continue

    async with planes(folder) as client:
        await operator_options.install_kinds(client)
        operator = asyncio.create_task(operate(client))
        try:
            yield client
        finally:
            operator.cancel()
            await asyncio.gather(operator, return_exceptions=True)


async def test_batches_grow_one_job_and_the_failed_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waited: list[float] = []
    seen: list[Sequence[str]] = []

    async with served(tmp_path / "data") as client:

        async def wait(seconds: float) -> None:
            waited.append(seconds)
            seen.append((await client.of(FlashJob).get(Key("default", "flashjob"))).spec.uuids)

        mine = script.Job(firmware=FIRMWARE, version="0.2.0", file=str(tmp_path / "job.yaml"))
        failed = await script.rollout(client.config, mine, ["a", "bad", "c"], step=2, delay=7, wait=wait)
        assert failed == {"bad": "why"}
        assert (waited, seen) == ([7], [("a", "bad")])
        again = await script.rollout(client.config, mine, ["d"], step=5, delay=7, wait=wait)
        assert again == {}
        job = await client.of(FlashJob).get(Key("default", "flashjob"))
        assert job.spec.uuids == ("a", "bad", "c", "d")
        assert await script.rollout(client.config, mine, [], step=5, delay=7) == {}
    out = capsys.readouterr()
    assert "Applying batch 2 with UUIDs: ['c']\n" in out.out
    assert out.out.count("Waiting for 7 seconds before the next batch...\n") == 1
    assert "FlashJob default/flashjob: 0/" in out.err


async def test_a_job_that_is_deleted_meanwhile_is_one_sentence(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        await operator_options.install_kinds(client)
        mine = script.Job(firmware=FIRMWARE, version="0.2.0", file=str(tmp_path / "job.yaml"))
        rolling = asyncio.create_task(script.rollout(client.config, mine, ["a"], step=5, delay=0))
        while True:
            try:
                await client.of(FlashJob).delete(Key("default", "flashjob"))
                break
            except NotFound:
                await asyncio.sleep(0.01)
        with pytest.raises(Failed, match="was deleted before its devices had ended"):
            await rolling


async def test_the_functions_that_people_know_work_from_any_program(tmp_path: Path) -> None:
    async with served(tmp_path / "data") as client:
        with pytest.raises(Failed, match=r"instances.akri.sh is not served: is Akri installed"):
            await asyncio.to_thread(script.get_akri_instances, settings=client.config)
        await install(client, instance_crd())
        spec = {"configurationName": "x", "cdiName": "x", "capacity": 1}
        body = {"apiVersion": "akri.sh/v0", "kind": "Instance", "metadata": {"name": "i", "namespace": "default"}}
        await client.raw(Instance.kind).create({**body, "spec": spec})
        found = await asyncio.to_thread(script.get_akri_instances, settings=client.config)
        (uuid,) = (each["uuid"] for each in script.filter_instances(found))
        mine = script.Job(firmware=FIRMWARE, version="0.2.0", file=str(tmp_path / "job.yaml"))
        failed = await asyncio.to_thread(script.gradual_rollout, [uuid], FIRMWARE, job=mine, settings=client.config)
        assert failed == {}
        applied = await asyncio.to_thread(script.apply_yaml, str(tmp_path / "job.yaml"), settings=client.config)
        assert applied.spec.uuids == (uuid,)


# --- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command with the outside played: what the dialogue chose, and how its rollout ends."""

    def play(choice: script.Choice | None, ending: dict[str, str] | BaseException) -> None:
        async def rollout(*_: Any, **__: Any) -> dict[str, str]:
            if isinstance(ending, BaseException):
                raise ending
            return ending

        monkeypatch.setattr("edgewright.runtime.config.load", lambda **_: None)
        monkeypatch.setattr(script, "get_akri_instances", lambda *_, **__: {})
        monkeypatch.setattr(script, "dialogue", lambda *_: choice)
        monkeypatch.setattr(script, "rollout", rollout)

    return play


def test_the_command_ends_well_only_when_all_devices_did(chosen: Any, capsys: pytest.CaptureFixture[str]) -> None:
    choice = script.Choice(uuids=["a", "b"], job=JOB, step=5, delay=0)
    chosen(choice, {})
    script.filter_uuid()
    assert capsys.readouterr().out == "All 2 devices run 0.2.0\n"
    chosen(choice, {"b": "why"})
    with pytest.raises(Failed, match="1 of 2 devices failed"):
        script.filter_uuid()
    assert capsys.readouterr().out == "b failed: why\n"
    chosen(choice, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        script.filter_uuid()
    assert "FlashJob default/flashjob goes on with the devices in" in capsys.readouterr().err
    chosen(None, {})
    with pytest.raises(Failed, match="nothing was chosen, and nothing was changed"):
        script.filter_uuid()


def test_the_script_has_a_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["filter_uuid.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        script.main()
    assert ended.value.code == 0
    assert "--flasher-image" in capsys.readouterr().out
