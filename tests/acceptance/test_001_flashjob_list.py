"""Document 001, FlashJob for lists and filter_uuid.py: its steps in their order, with its own commands and dialogue.

Each runs on a real API server with a node of ours, and on the embedded control plane, which has the kinds for it.
"""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.acceptance.flashjob_stage import (
    ROLLOUTS,
    ROOT,
    Conversation,
    Place,
    devices,
    embedded_cluster,
    filled_in,
    operating,
    page,
    real_cluster,
)
from tests.harness import LocalPlane, repetition, wait_until

DEVICES: Final = 5
SAVED: Final = "application_v1alpha1_flashjob.yaml"
EXAMPLE: Final = """\
apiVersion: application.flashjob.nbfc.io/v1alpha1
kind: FlashJob
metadata:
  name: flashjob
  namespace: default
spec:
  uuid:
    - d95c7c2d-7dc5-427b-9bf7-51a5d299c99e
    - 44606d10-7c29-4098-9d6a-dc16f95090d1
  device: esp32
  hostEndpoint:
  firmware: harbor.nbfc.io/nubificus/esp32:x.x.xxxxxxx
  version: 0.2.0
  applicationType: thermo
  externalIP:
  flashjobPodImage: harbor.nbfc.io/nubificus/iot/esp32-sota:xxx.x-debug
"""
WRITTEN: Final = """\
apiVersion: application.flashjob.nbfc.io/v1alpha1
kind: FlashJob
metadata:
  name: flashjob
  namespace: default
spec:
  applicationType: thermo
  device: esp32
  externalIP:
  firmware: harbor.nbfc.io/nubificus/esp32:x.x.xxxxxxx
  flashjobPodImage: harbor.nbfc.io/nubificus/iot/x.x.xxxxxxx
  hostEndpoint:
  uuid:
    - d95c7c2d-7dc5-427b-9bf7-51a5d299c99e
    - 44606d10-7c29-4098-9d6a-dc16f95090d1
  version: "0.2.0"
"""
DIALOGUE: Final = """\
Enter device type to filter (or press Enter to skip): esp32
Enter application type to filter (or press Enter to skip): thermo
Enter UUID to filter (or press Enter to skip): {uuid}
Available Akri Instances:
[0] UUID: {uuid}, Device Type: esp32, Application Type: thermo
Do you want to select all UUIDs? (y/n): y
Enter the firmware to use: {firmware}
Enter the number of UUIDs per batch (default is 5): 2
Enter the delay between batches in seconds (default is 60): 30
Applying batch 1 with UUIDs: ['{uuid}']
UUIDs saved to {saved}
Successfully applied {saved}
All 1 devices run 0.2.0
"""
FUNCTIONS: Final = (
    "get_akri_instances",
    "filter_instances",
    "save_uuids_to_yaml",
    "user_select_instances",
    "apply_yaml",
    "gradual_rollout",
)


@pytest.fixture(scope="module", params=[real_cluster, embedded_cluster], ids=["real", "embedded"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A checkout, five devices of which the last is refused by attestation, and `make run`."""
    with (
        request.param(request) as server,
        devices(server, tmp_path_factory.mktemp("001"), count=DEVICES, faults=("refuse-attestation=5",)) as found,
        operating(found),
    ):
        yield found


@pytest.fixture(autouse=True)
def _no_job_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "place" in request.fixturenames:
        request.getfixturevalue("place").clear()


def script(place: Place) -> str:
    """The document's command; the registry of the tests speaks no TLS."""
    return f"python3 filter_uuid.py {place.operator[1].replace('=', ' ')}"


def uuids(place: Place) -> list[str]:
    return list(place.instances().values())


def offered(place: Place) -> list[str]:
    """The uuids in the order in which the script offers them: that of the API server."""
    return [each["metadata"]["uid"] for each in place.get("/apis/akri.sh/v0/instances")["items"]]


# --- the operator --------------------------------------------------------------------------------------------------


# It needs no cluster: once is enough.
@pytest.mark.parametrize("place", [real_cluster], ids=["real"], indirect=True)
def test_make_manifests_writes_what_is_there_already(place: Place) -> None:
    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (ROOT / "config").rglob("*.yaml")}

    before = content()
    place.typed("make manifests")
    assert content() == before


@pytest.mark.plain
def test_the_status_has_phase_and_completed_uuids() -> None:
    text = (ROOT / "config/crd/bases/application.flashjob.nbfc.io_flashjobs.yaml").read_text(encoding="utf-8")
    schema = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert schema["status"]["properties"].keys() >= {"conditions", "message", "hostEndpoint", "phase", "completedUUIDs"}
    assert {"InProgress", "Completed", "Failed"} <= set(schema["status"]["properties"]["phase"]["enum"])


def test_each_device_of_the_example_gets_its_own_pod_and_service_which_go_when_it_is_done(place: Place) -> None:
    wanted = uuids(place)[:2]
    place.typed("kubectl apply -f -", answers=filled_in(EXAMPLE, place, wanted))
    endpoints = {uuid: endpoint for endpoint, uuid in place.instances().items()}
    seen: dict[str, set[str]] = {"pods": set(), "services": set()}
    given: dict[str, str] = {}
    shown: set[str] = set()

    def done() -> bool:
        for kind, found in seen.items():
            for each in place.get(f"/api/v1/namespaces/default/{kind}")["items"]:
                if uuid := each["metadata"].get("labels", {}).get("uuid"):
                    found.add(uuid)
                    for at in each["status"].get("loadBalancer", {}).get("ingress", ()):
                        given[uuid] = at["ip"]
        status = place.job().get("status", {})
        shown.update(each["address"] for each in status.get("devices", ()) if each.get("address"))
        return bool(status.get("phase") == "Completed")

    wait_until(done, what="the job is Completed", interval=0.05)
    assert {kind: sorted(found) for kind, found in seen.items()} == dict.fromkeys(seen, sorted(wanted))
    job = place.job()
    assert sorted(job["status"]["completedUUIDs"]) == sorted(wanted)
    assert sorted(given) == sorted(wanted)
    if isinstance(place.server, LocalPlane):  # `edgewright node` shares its addresses, and tells devices by their own
        assert len(set(given.values())) == len(wanted)
    assert shown <= set(given.values())  # shown while it has one; the status is written once a second at most
    assert {each["uuid"]: each["hostEndpoint"] for each in job["status"]["devices"]} == {
        uuid: endpoints[uuid] for uuid in wanted
    }
    assert job["status"]["hostEndpoint"] in endpoints.values()
    header, row = place.typed("kubectl get flashjob flashjob").splitlines()
    assert header.split() == ["NAME", "PHASE", "DONE", "FAILED", "VERSION", "AGE"]
    assert row.split()[:3] == ["flashjob", "Completed", "2/2"]
    place.until_no_flash_objects()


def test_deleting_the_job_takes_everything_with_it(place: Place) -> None:
    place.typed("kubectl apply -f -", answers=filled_in(EXAMPLE, place, uuids(place)[2:4]))
    place.seen(
        "/api/v1/namespaces/default/pods", lambda each: "uuid" in each["metadata"].get("labels", {}), "a Pod is there"
    )
    place.typed("kubectl delete flashjob flashjob --timeout=240s")
    place.until_no_flash_objects()


# --- filter_uuid.py ------------------------------------------------------------------------------------------------


@pytest.mark.plain
def test_the_six_functions_can_be_imported() -> None:
    spec = importlib.util.spec_from_file_location("filter_uuid", ROOT / "filter_uuid.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [name for name in FUNCTIONS if not callable(getattr(module, name, None))] == []


@pytest.mark.parametrize(
    ("command", "columns"), [("python3 filter_uuid.py", 80), (f"{sys.executable} -m edgewright rollout create", 200)]
)
def test_the_dialogue_is_that_of_the_document(place: Place, command: str, columns: int) -> None:
    uuid = uuids(place)[2]
    text = DIALOGUE.format(uuid=uuid, firmware=place.firmware, saved=SAVED)
    words = [*command.split(), *script(place).split()[2:]]
    with Conversation(place, words, columns=columns) as person:
        for line in text.splitlines():
            question, colon, answer = line.rpartition(": ")
            if line.startswith(("Enter", "Do you")):
                person.answer(f"{question}{colon}", answer)
        assert person.end() == 0
    assert person.said == text
    (rollout,) = place.rollouts()
    assert rollout["status"]["phase"] == "Completed"
    assert [each["spec"]["version"] for each in place.rollout_jobs()] == ["0.2.0"]


def test_the_saved_file_is_the_documents_and_can_be_applied_alone(place: Place) -> None:
    wanted = uuids(place)[:2]
    numbers = ",".join(str(offered(place).index(uuid)) for uuid in wanted)
    answers = f"esp32\nthermo\n\nn\n{numbers}\n{place.firmware}\n\n\n"
    place.typed(f"{script(place)} --flasher-image edgewright/flasher --file saved.yaml", answers=answers)
    assert (place.folder / "saved.yaml").read_text() == filled_in(WRITTEN, place, wanted)
    place.clear()
    place.typed("kubectl apply -f saved.yaml")
    place.until_phase("Completed")


def test_batches_are_of_one_rollout_bad_answers_are_asked_again_and_a_failed_device_is_named(place: Place) -> None:
    order = offered(place)
    broken = uuids(place)[-1]
    chosen = [*[uuid for uuid in order if uuid != broken][:2], broken]
    numbers = ",".join(str(order.index(uuid)) for uuid in chosen)
    answers = f"\nTHERMO\n\nmaybe\nn\n0,99\nx\n{numbers}\nfsdsdsd\n{place.firmware}\nnone\n2\n-3\n1\n"
    done = place.type(script(place), answers=answers)
    assert done.returncode == 4, done.stderr
    jobs = place.rollout_jobs()
    names = place.device_names(chosen)
    batches = [[names[each] for each in job["spec"]["uuid"]] for job in jobs]
    assert [len(batch) for batch in batches] == [2, 1]
    assert sorted(batches[0] + batches[1]) == sorted(chosen)
    for told in (
        "'maybe' is neither y nor n, please answer again",
        f"'99' is not a number from 0 to {len(order) - 1}, please answer again",
        "'fsdsdsd' names no image",
        "'none' is not a whole number from 1 to 5000, please answer again",
        "'-3' is not a whole number from 0 to 86400, please answer again",
        f"Applying batch 1 with UUIDs: {batches[0]}\n",
        "Waiting for 1 seconds before the next batch...\n",
        f"Applying batch 2 with UUIDs: {batches[1]}\n",
    ):
        assert told in done.stdout
    assert done.stdout.count("Waiting for") == 1
    assert f"{broken} failed: the attestation service does not recognise the device's certificate" in done.stdout
    assert done.stderr.splitlines()[-1] == "filter_uuid.py: 1 of 3 devices failed"
    (rollout,) = place.rollouts()
    assert (rollout["spec"]["selector"]["uuids"], rollout["status"]["progress"]) == (chosen, "2/3")


def test_ctrl_c_between_two_batches_leaves_a_rollout_that_goes_on_by_itself(place: Place) -> None:
    order = offered(place)
    chosen = [uuid for uuid in order if uuid != uuids(place)[-1]][:2]
    numbers = ",".join(str(order.index(uuid)) for uuid in chosen)
    with Conversation(place, script(place).split()) as person:
        for answer in ("", "", "", "n", numbers, place.firmware, "1", "600"):
            person.answer(": ", answer)
        person.until("Waiting for 600 seconds before the next batch...\n")
        assert person.interrupt() == 130
    (rollout,) = place.rollouts()
    assert rollout["spec"]["selector"]["uuids"] == chosen
    assert len(place.rollout_jobs()) == 1, "the second batch has not begun"
    place.server.request(
        "PATCH",
        f"{ROLLOUTS}/{rollout['metadata']['name']}",
        {"spec": {"intervalSeconds": 0}},
        content_type="application/merge-patch+json",
    )
    wait_until(lambda: place.rollouts()[0]["status"]["phase"] == "Completed", what="the rest has followed")
    assert place.rollouts()[0]["status"]["progress"] == "2/2"


@pytest.mark.repeated
@pytest.mark.parametrize("seed", repetition.numbers(3, 20))
def test_the_script_killed_at_a_random_moment_and_typed_again_comes_to_the_same_end(place: Place, seed: int) -> None:
    endpoints = list(place.instances())[:2]

    def answers() -> list[str]:
        # A device that was flashed comes back as another Instance, with another uuid and number.
        wait_until(lambda: len(place.instances()) == DEVICES, what="all devices are discovered")
        instances = place.instances()
        numbers = ",".join(str(offered(place).index(instances[endpoint])) for endpoint in endpoints)
        return ["", "", "", "n", numbers, place.firmware, "1", "1"]

    with Conversation(place, script(place).split()) as person:
        for answer in answers():
            person.answer(": ", answer)
        time.sleep(random.Random(seed).uniform(0, 3))
        person.kill()
    assert "All 2 devices run 0.2.0\n" in place.typed(script(place), answers="\n".join([*answers(), ""]))
    wait_until(
        lambda: all(each["status"].get("phase") == "Completed" for each in place.rollouts()),
        what="what was begun before the kill has ended too",
    )
    assert [json.loads(page(f"http://{endpoint}/info"))["version"] for endpoint in endpoints] == ["0.2.0", "0.2.0"]
    place.until_no_flash_objects()


def test_instances_of_all_namespaces_are_offered_and_one_narrows(place: Place) -> None:
    other = place.server.create_namespace("elsewhere")
    spec: dict[str, Any] = {"configurationName": "x", "cdiName": "x", "capacity": 1}
    spec["brokerProperties"] = {"DEVICE": "esp32s3", "APPLICATION_TYPE": "lamp"}
    body = {"apiVersion": "akri.sh/v0", "kind": "Instance", "metadata": {"name": "x-1"}, "spec": spec}
    made = place.server.request("POST", f"/apis/akri.sh/v0/namespaces/{other}/instances", body)
    try:
        for narrowed, count in (("", len(uuids(place)) + 1), (f"-n {other}", 1)):
            done = place.type(f"{script(place)} {narrowed}", answers="\n\n\n")
            assert done.returncode == 1
            assert done.stdout.count("] UUID: ") == count
            assert f"UUID: {made['metadata']['uid']}, Device Type: esp32s3, Application Type: lamp" in done.stdout
            assert done.stderr.startswith("filter_uuid.py: the input ended before this was answered: Do you want")
    finally:
        place.server.request("DELETE", f"/apis/akri.sh/v0/namespaces/{other}/instances/x-1")
    assert place.rollouts() == []


def test_a_file_in_git_is_never_written_over(place: Place, tmp_path: Path) -> None:
    shutil.copy(ROOT / "config/samples/application_v1alpha1_flashjob.yaml", tmp_path / SAVED)
    for command in ("init --quiet", f"add {SAVED}"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    done = place.type(f"{script(place)} --file {tmp_path / SAVED}", answers="\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == f"filter_uuid.py: {tmp_path / SAVED} is in git and is not written over: name another file with --file\n"
    )


@pytest.mark.plain
def test_without_the_environment_one_sentence_says_how_to_make_it(tmp_path: Path) -> None:
    shutil.copy(ROOT / "filter_uuid.py", tmp_path)
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-S", "filter_uuid.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"filter_uuid.py: the environment of this project is not set up: run `make venv` in {tmp_path} first\n"
    )


def test_the_devices_themselves_say_what_they_run(place: Place) -> None:
    wanted = uuids(place)[:2]
    place.typed("kubectl apply -f -", answers=filled_in(EXAMPLE, place, wanted))
    place.until_phase("Completed")
    for endpoint, uuid in place.instances().items():
        if uuid in wanted:
            assert json.loads(page(f"http://{endpoint}/info"))["version"] == "0.2.0"
