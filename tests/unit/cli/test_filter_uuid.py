"""The questions of filter_uuid and their answers, what is saved, and the functions that people import."""

from __future__ import annotations

import asyncio
import io
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewright.api.instance import Instance, instance_crd
from edgewright.api.reference import parse_reference
from edgewright.cli import answers, filter_uuid, operator_options
from edgewright.cli import rollout_questions as script
from edgewright.cli.failure import Failed
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.registry import Registry
from edgewright.runtime.definitions import install
from tests.unit.cli.planes import planes

FIRMWARE = "registry.example/esp32:0.2.0"
JOB = script.Job(firmware=FIRMWARE, version="0.2.0", device="esp32", application="thermo")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def instance(uid: str, device: str = "esp32", application: str = "thermo") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid},
        "spec": {"brokerProperties": {"DEVICE": device, "APPLICATION_TYPE": application}},
    }


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


def test_a_batch_has_5_devices_and_the_next_comes_after_60_seconds_unless_somebody_says_otherwise(
    answered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def carried(*_: Any, **__: Any) -> str:
        return "1.7"

    monkeypatch.setattr(script, "carried_version", carried)
    answered("", "", "", "y", "registry.example/esp32:1.7", "", "")
    choice = script.dialogue({"items": [instance("a")]}, script.Options())
    assert choice is not None
    assert (choice.step, choice.delay) == (5, 60)


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


async def test_the_functions_that_people_know_work_from_any_program(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        await operator_options.install_kinds(client)
        with pytest.raises(Failed, match=r"instances.akri.sh is not served: is Akri installed"):
            await asyncio.to_thread(filter_uuid.get_akri_instances, settings=client.config)
        await install(client, instance_crd())
        spec = {"configurationName": "x", "cdiName": "x", "capacity": 1}
        body = {"apiVersion": "akri.sh/v0", "kind": "Instance", "metadata": {"name": "i", "namespace": "default"}}
        await client.raw(Instance.kind).create({**body, "spec": spec})
        found = await asyncio.to_thread(filter_uuid.get_akri_instances, settings=client.config)
        (uuid,) = (each["uuid"] for each in filter_uuid.filter_instances(found))
        file = str(tmp_path / "job.yaml")
        filter_uuid.save_uuids_to_yaml([uuid], FIRMWARE, file)
        applied = await asyncio.to_thread(filter_uuid.apply_yaml, file, settings=client.config)
        assert applied.spec.uuids == (uuid,)
    assert filter_uuid.gradual_rollout([], FIRMWARE) == {}


def test_the_script_has_a_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["filter_uuid.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        filter_uuid.main()
    assert ended.value.code == 0
    assert "--flasher-image" in capsys.readouterr().out
