"""`edgewright rollout …`, typed against a control plane: what each command reads, writes, prints and ends with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.device import Device, DeviceSpec
from edgewright.api.firmwarerollout import (
    BATCH_ANNOTATION,
    REVISION_ANNOTATION,
    ROLLOUT_UID_LABEL,
    FirmwareRollout,
)
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.cli import cluster, objects, rollout_follow, rollout_questions, terminal
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, ObjectMeta
from tests.harness import wait_until_async
from tests.unit.cli.typed import Plane, Typed, typed

Capture = pytest.CaptureFixture[str]
FIRMWARE = "registry.example/thermo:1.4.0"


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return "r-" + str(abs(hash(request.node.name)))[:12]


def create(capsys: Capture, plane: Plane, name: str, *more: str) -> Typed:
    return typed(capsys, "rollout", "create", name, "--firmware", FIRMWARE, "--version", "1.4.0", *more, plane=plane)


def add_device(plane: Plane, name: str, group: str) -> None:
    device = Device(metadata=ObjectMeta(name=name, labels={"set": group}), spec=DeviceSpec(type="esp32"))
    plane.do(lambda client: client.of(Device).create(device))


def get(plane: Plane, name: str, namespace: str = "default") -> FirmwareRollout:
    return plane.do(lambda client: client.of(FirmwareRollout).get(Key(namespace, name)))


def tell(plane: Plane, name: str, **status: Any) -> FirmwareRollout:
    """Writes the status as an operator would."""
    now = get(plane, name)
    body = {"status": {"observedGeneration": now.metadata.generation, **status}}
    return plane.do(lambda client: client.of(FirmwareRollout).patch(Key("default", name), body, subresource="status"))


def add_job(plane: Plane, rollout: FirmwareRollout, number: int, **more: Any) -> None:
    job = FlashJob(
        metadata=ObjectMeta(
            name=f"{rollout.metadata.name}-{number}",
            namespace="default",
            labels={ROLLOUT_UID_LABEL: rollout.metadata.uid},
            annotations={BATCH_ANNOTATION: str(number), REVISION_ANNOTATION: str(more.pop("revision", 1))},
        ),
        spec=FlashJobSpec(
            uuid=tuple(more.pop("uuid", ("d1",))),
            firmware=more.pop("firmware", FIRMWARE),
            version=more.pop("version", "1.4.0"),
        ),
    )
    plane.do(lambda client: client.of(FlashJob).create(job))
    if more:
        tell_job(plane, job.metadata.name, more)


def tell_job(plane: Plane, name: str, status: dict[str, Any]) -> None:
    key = Key("default", name)
    plane.do(lambda client: client.of(FlashJob).patch(key, {"status": status}, subresource="status"))


def test_create_writes_every_flag_into_the_spec_and_says_how_to_follow_it(
    capsys: Capture, plane: Plane, name: str
) -> None:
    done = create(
        capsys,
        plane,
        name,
        *("--type", "esp32s3", "--application", "thermo", "-l", "site=a", "--exclude", "d9"),
        *("--canary", "5%", "--soak", "10m", "--approve", "--max-concurrent", "10", "--max-per-minute", "30"),
        *("--budget", "site=1", "--window", "0 22 * * *,4h,Europe/Athens", "--stop", "20%,pause"),
    )
    assert (done.code, done.out) == (0, f"rollout {name} created\n")
    assert f"edgewright rollout watch {name}" in done.err
    raw = plane.do(lambda client: client.raw(FirmwareRollout.kind).get(Key("default", name)))["spec"]
    assert raw == {
        "selector": {"types": ["esp32s3"], "applications": ["thermo"], "labels": {"matchLabels": {"site": "a"}}},
        "exclude": {"names": ["d9"]},
        "firmware": FIRMWARE,
        "version": "1.4.0",
        "batches": [{"name": "canary", "size": "5%", "soakSeconds": 600, "gate": {"approval": "manual"}}],
        "maxConcurrent": 10,
        "maxPerMinute": 30,
        "budgets": [{"label": "site", "maxUnavailable": 1}],
        "windows": [{"cron": "0 22 * * *", "durationSeconds": 14400, "timeZone": "Europe/Athens"}],
        "stop": [{"threshold": "20%", "action": "pause", "minSample": 1}],
    }
    assert get(plane, name).spec.stop[0].action == "pause"


def test_a_name_that_is_taken_is_said_with_what_to_do(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name)
    again = create(capsys, plane, name)
    assert again.code == 1
    assert f"there is a rollout {name} in namespace default already" in again.err
    assert again.out == ""


def test_a_dry_run_plans_and_changes_nothing(capsys: Capture, plane: Plane, name: str) -> None:
    for number in range(3):
        add_device(plane, f"{name}-{number}", name)
    done = create(capsys, plane, name, "-l", f"set={name}", "--canary", "1", "--soak", "5m", "--dry-run")
    assert done.code == 0, done.err
    assert "to 3 of 3 devices; nothing was changed" in done.out
    assert "1. canary: 1 device, watched for 5m" in done.out
    assert "2. rest: 2 devices" in done.out
    assert "Bytes: not known" in done.out
    assert "Expected end: " in done.out
    with pytest.raises(NotFound):
        get(plane, name)
    whole = create(capsys, plane, name, "--dry-run", "-o", "yaml")
    assert whole.out.startswith("apiVersion: edgewright.dev/v1alpha1\nkind: FirmwareRollout\n")
    create(capsys, plane, name, "-l", f"set={name}", "--batch-size", "2", "--interval", "1m")
    planned = typed(capsys, "rollout", "plan", name, plane=plane)
    assert "batch 1: 2 devices, then 60s until the next" in planned.out


def test_a_manifest_is_created_as_it_is_and_a_wrong_one_is_said(
    capsys: Capture, plane: Plane, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "rollout.yaml"
    file.write_text(
        f"kind: FirmwareRollout\nmetadata: {{name: {name}}}\n"
        f"spec: {{firmware: {FIRMWARE}, version: '1.4.0', batchSize: 2}}\n"
    )
    assert typed(capsys, "rollout", "create", "-f", file, plane=plane).code == 0
    assert get(plane, name).spec.batch_size == 2
    for text, said in (
        ("kind: Pod", "has no FirmwareRollout"),
        ("a: [", "is not YAML"),
        ("kind: FirmwareRollout\nspec: {batchSize: x}", "spec:"),
    ):
        file.write_text(text)
        done = typed(capsys, "rollout", "create", "-f", file, plane=plane)
        assert (done.code, said in done.err) == (1, True), done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--soak", "5m"), "--canary"),
        (("--canary", "1", "--batch-size", "2"), "simple form"),
        (("--budget", "site"), "site=1 or site=10%"),
        (("--window", "later"), "Europe/Athens"),
        (("--stop", "often"), "20%,pause"),
        (("--interval", "soon"), "5m"),
        (("--canary", "few"), "10%"),
        (("-o", "xml"), "none of table"),
        (("-o", "jsonpath={"), "the template is wrong"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_read_ends_with_2_and_shows_a_right_one(
    capsys: Capture, plane: Plane, name: str, words: tuple[str, ...], said: str
) -> None:
    done = create(capsys, plane, name, *words)
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())


def test_no_flags_and_no_terminal_is_wrong_usage(capsys: Capture, plane: Plane) -> None:
    done = typed(capsys, "rollout", "create", plane=plane)
    assert (done.code, "name at least --firmware" in done.err) == (2, True)


def test_lists_have_the_columns_of_kubectl_and_all_forms(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name)
    tell(plane, name, phase="Progressing", progress="1/3", message="the canary is watched")
    table = typed(capsys, "rollout", "list", plane=plane).out
    assert table.splitlines()[0].split() == ["NAME", "PHASE", "DONE", "FAILED", "BATCH", "VERSION", "AGE"]
    assert "the canary is watched" not in table
    assert "the canary is watched" in typed(capsys, "rollout", "list", "-o", "wide", plane=plane).out
    assert typed(capsys, "rollout", "list", "-A", plane=plane).out.startswith("NAMESPACE ")
    whole = json.loads(typed(capsys, "rollout", "get", name, "-o", "json", plane=plane).out)
    assert whole["kind"] == "FirmwareRollout"
    assert "managedFields" not in whole["metadata"]
    assert (
        f"firmwarerollouts.edgewright.dev/{name}\n" in typed(capsys, "rollout", "list", "-o", "name", plane=plane).out
    )
    path = "jsonpath={.items[?(@.metadata.name=='" + name + "')].status.progress}"
    assert typed(capsys, "rollout", "list", "-o", path, plane=plane).out == "1/3\n"
    assert typed(capsys, "rollout", "get", name, "-o", "yaml", plane=plane).out.startswith("apiVersion:")
    none = typed(capsys, "rollout", "list", "-n", "nowhere", plane=plane)
    assert (none.code, none.out, none.err) == (0, "", "There are no firmwarerollouts in namespace nowhere.\n")


def test_get_shows_the_tree_and_a_missing_one_is_said(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name, "--canary", "1")
    batches = [
        {"number": 1, "name": "canary", "phase": "Passed", "size": 1, "done": 1},
        {"number": 2, "name": "rest", "phase": "Running", "size": 2, "failed": 1},
    ]
    rollout = tell(plane, name, phase="Progressing", progress="1/3", batches=batches, message="2 devices are left")
    devices = [{"uuid": "d2", "device": "d2", "state": "Failed", "outcome": "reverted", "message": "it went back"}]
    add_job(plane, rollout, 2, devices=devices)
    done = typed(capsys, "rollout", "get", name, plane=plane)
    assert f"FirmwareRollout default/{name}: Progressing, 1/3 done" in done.out
    assert "canary (1): " in done.out
    assert "d2: " in done.out
    assert "Failed (reverted): it went back" in done.out
    assert "\x1b" not in done.out
    missing = typed(capsys, "rollout", "get", "nobody", plane=plane)
    assert missing.code == 1
    assert missing.err == (
        "edgewright: there is no FirmwareRollout nobody in namespace default: "
        f"`edgewright rollout list --kubeconfig {plane.kubeconfig}` shows those that there are\n"
    )


def test_pause_resume_abort_and_retry_change_the_spec_and_nothing_twice(
    capsys: Capture, plane: Plane, name: str
) -> None:
    create(capsys, plane, name)
    assert typed(capsys, "rollout", "pause", name, plane=plane).code == 0
    assert get(plane, name).spec.paused is True
    assert "is so already" in typed(capsys, "rollout", "pause", name, plane=plane).err
    assert typed(capsys, "rollout", "resume", name, plane=plane).code == 0
    spec = get(plane, name).spec
    assert spec.paused is None
    assert spec.resume_request
    assert typed(capsys, "rollout", "retry", name, plane=plane).code == 0
    tried = get(plane, name).spec
    assert tried.retry_request
    assert tried.resume_request not in {"", spec.resume_request}, "each is a request of its own"
    aborted = typed(capsys, "rollout", "abort", name, plane=plane)
    assert "recall" in aborted.err
    assert get(plane, name).spec.aborted is True
    assert "is so already" in typed(capsys, "rollout", "abort", name, plane=plane).err
    for verb in ("resume", "retry"):
        refused = typed(capsys, "rollout", verb, name, plane=plane)
        assert (refused.code, "for good" in refused.err) == (1, True)
    tell(plane, name, phase="Aborted")
    assert "there is nothing to pause" in typed(capsys, "rollout", "pause", name, plane=plane).err


def test_approve_names_the_batch_that_waits(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name, "--canary", "1", "--approve")
    assert "no batch" in typed(capsys, "rollout", "approve", name, plane=plane).err
    assert "has no batch other: it has canary" in typed(capsys, "rollout", "approve", name, "other", plane=plane).err
    tell(
        plane, name, phase="Waiting", batches=[{"number": 1, "name": "canary", "phase": "AwaitingApproval", "size": 1}]
    )
    assert typed(capsys, "rollout", "approve", name, plane=plane).code == 0
    assert get(plane, name).spec.approvals == ("canary",)
    assert "is so already" in typed(capsys, "rollout", "approve", name, plane=plane).err


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        ({"phase": "Completed", "progress": "3/3"}, 0, ""),
        ({"phase": "Failed", "message": "too many failed."}, 4, "has ended as Failed: too many failed"),
        ({"phase": "Aborted"}, 4, "has ended as Aborted"),
        ({"phase": "Paused", "message": "20% failed"}, 5, "edgewright rollout resume"),
        (
            {"phase": "Waiting", "batches": [{"number": 1, "name": "canary", "phase": "AwaitingApproval"}]},
            5,
            "edgewright rollout approve",
        ),
        ({"phase": "Progressing"}, 124, "is not there yet after 0s"),
    ],
    ids=lambda value: str(value.get("phase")) if isinstance(value, dict) else "",
)
def test_status_ends_with_the_code_that_the_rollout_deserves(
    capsys: Capture, plane: Plane, name: str, status: dict[str, Any], code: int, said: str
) -> None:
    create(capsys, plane, name)
    tell(plane, name, **status)
    done = typed(capsys, "rollout", "status", name, "--timeout", "0s" if code == 124 else "60s", plane=plane)
    if code == 124 and done.code == 124:
        done = typed(capsys, "rollout", "status", name, "--timeout", "0s", plane=plane)
    assert done.code == code, done.err
    assert said in done.err
    assert done.out == ("" if code == 124 else done.out)


def test_status_waits_for_what_it_is_told_to(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name, "--canary", "1")
    tell(plane, name, phase="Progressing", batches=[{"number": 1, "name": "canary", "phase": "Passed", "size": 1}])
    assert typed(capsys, "rollout", "status", name, "--for", "batch=canary", plane=plane).code == 0
    tell(plane, name, phase="Paused")
    assert typed(capsys, "rollout", "status", name, "--for", "paused", plane=plane).code == 0
    assert typed(capsys, "rollout", "status", name, "--for", "rain", plane=plane).code == 2


def after_the_first_look(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Has something changed once the command has shown the rollout for the first time."""
    after_each_look(monkeypatch, change)


def after_each_look(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """Has something changed whenever the command has shown the rollout, as long as there is something to change."""
    show = rollout_follow.Display.show
    left = list(changes)

    def looking(self: rollout_follow.Display, rollout: FirmwareRollout, jobs: list[FlashJob]) -> None:
        show(self, rollout, jobs)
        if left:
            left.pop(0)()

    monkeypatch.setattr(rollout_follow.Display, "show", looking)


def delete_now(plane: Plane, name: str) -> None:
    plane.do(lambda client: client.of(FirmwareRollout).delete(Key("default", name)))


def test_watch_prints_a_dated_line_per_change_into_a_pipe_and_ends_with_the_rollout(
    capsys: Capture, plane: Plane, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(capsys, plane, name)
    rollout = tell(plane, name, phase="Progressing", progress="0/1")
    add_job(plane, rollout, 1, devices=[{"uuid": "d1", "device": "d1", "state": "Flashing"}])
    ended = {"completionTime": "2026-01-02T03:04:05Z", "devices": [{"uuid": "d1", "device": "d1", "state": "Done"}]}

    # The rollout looks at the devices itself: their FlashJob may tell of them later.
    after_each_look(
        monkeypatch,
        lambda: tell(plane, name, phase="Completed", progress="1/1"),
        lambda: tell_job(plane, f"{name}-1", ended),
    )
    done = typed(capsys, "rollout", "watch", name, "--timeout", "60s", plane=plane)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].endswith(f" rollout {name}: Progressing, 0/1 done")
    assert any(line.endswith(" device d1: Flashing") for line in lines)
    assert any(line.endswith(f" rollout {name}: Completed, 1/1 done") for line in lines)
    assert " device d1: Done" in lines[-1]
    datetime.fromisoformat(lines[0].split()[0])


def test_a_rollout_that_is_deleted_while_it_is_watched_is_said(
    capsys: Capture, plane: Plane, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(capsys, plane, name)

    after_the_first_look(monkeypatch, lambda: delete_now(plane, name))
    done = typed(capsys, "rollout", "watch", name, "--timeout", "60s", plane=plane)
    assert (done.code, "was deleted meanwhile" in done.err) == (1, True)


def test_history_tells_what_each_revision_brought(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name)
    rollout = tell(plane, name, phase="Progressing", revision=2)
    alone = typed(capsys, "rollout", "history", name, plane=plane).out
    assert alone.splitlines()[1].split()[:2] == ["2", "1.4.0"]
    counts = {"total": 1, "done": 1, "failed": 0, "flashing": 0, "waiting": 0}
    add_job(plane, rollout, 1, counts=counts, firmware="registry.example/thermo:1.3.0", version="1.3.0")
    add_job(plane, rollout, 2, revision=2)
    table = typed(capsys, "rollout", "history", name, plane=plane).out.splitlines()
    assert [line.split()[:2] for line in table[1:]] == [["2", "1.4.0"], ["1", "1.3.0"]]
    assert typed(capsys, "rollout", "history", name, "-o", "name", plane=plane).out == "2\n1\n"
    rows = json.loads(typed(capsys, "rollout", "history", name, "-o", "json", plane=plane).out)["items"]
    assert rows[1]["done"] == 1
    assert typed(capsys, "rollout", "history", name, "-o", "jsonpath={.items[0].version}", plane=plane).out == "1.4.0\n"
    undone = typed(capsys, "rollout", "undo", name, plane=plane)
    assert undone.code == 0, undone.err
    new = get(plane, f"{name}-undo")
    assert (new.spec.firmware, new.spec.version) == ("registry.example/thermo:1.3.0", "1.3.0")
    assert get(plane, name).spec.aborted is True


def test_undo_without_anything_before_says_so(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name, "-l", f"only={name}")
    done = typed(capsys, "rollout", "undo", name, plane=plane)
    assert (done.code, "nothing is known of what came before" in done.err) == (1, True)


def test_a_recall_is_neither_undone_nor_recalled(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, f"{name}-before", "-l", f"only={name}")
    create(capsys, plane, name, "-l", f"only={name}")
    assert typed(capsys, "rollout", "recall", name, plane=plane).code == 0
    back = f"{name}-recall"
    rollout = tell(plane, back, phase="Progressing", revision=2)
    add_job(plane, rollout, 1, firmware="registry.example/thermo:1.3.0", version="1.3.0")
    for verb in ("undo", "recall"):
        done = typed(capsys, "rollout", verb, back, plane=plane)
        assert (done.code, f"rollout {back} is the recall of {name}" in done.err) == (1, True), done
    assert get(plane, back).spec.aborted is None


def test_recall_aborts_and_makes_a_rollout_that_refers_to_the_old_one(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name)
    assert typed(capsys, "rollout", "recall", name, plane=plane).code == 0
    old, new = get(plane, name), get(plane, f"{name}-recall")
    assert old.spec.aborted is True
    assert new.spec.recall is not None
    assert (new.spec.recall.name, new.spec.recall.uid) == (name, old.metadata.uid)
    tell(plane, name, recall=f"{name}-recall")
    assert "is recalled by" in typed(capsys, "rollout", "recall", name, plane=plane).err


def test_delete_deletes_it(capsys: Capture, plane: Plane, name: str) -> None:
    create(capsys, plane, name)
    assert typed(capsys, "rollout", "delete", name, "--yes", plane=plane).code == 0
    with pytest.raises(NotFound):
        get(plane, name)


def test_a_frozen_fleet_is_why_a_device_waits(capsys: Capture, plane: Plane, name: str) -> None:
    add_device(plane, name, name)
    why = ("rollout", "why", name, "--rollout", name)  # those of other tests select it too
    assert "is in no rollout" not in typed(capsys, "rollout", "why", "nobody", plane=plane).out
    create(capsys, plane, name, "-l", f"set={name}", "--canary", "1")
    told = f"{name} waits because its batch, canary, of rollout {name} is not open: the operator has not said anything"
    assert told in typed(capsys, *why, plane=plane).out
    assert typed(capsys, "freeze", "--reason", "audit", "--by", "ann", plane=plane).code == 0
    assert "frozen by ann" in typed(capsys, *why, plane=plane).out
    tell(plane, name, phase="Waiting")
    assert typed(capsys, "rollout", "status", name, "--timeout", "60s", plane=plane).code == 5
    assert typed(capsys, "unfreeze", plane=plane).code == 0
    assert "frozen" not in typed(capsys, *why, plane=plane).out


def test_a_server_without_our_kinds_is_said_with_the_command_that_installs_them(
    capsys: Capture, plane: Plane, tmp_path: Path
) -> None:
    from edgewright.api.fleet import Fleet
    from edgewright.cli.cluster import Place, missing
    from edgewright.runtime.config import Config
    from edgewright.runtime.errors import Status

    where = Place(settings=Config(server="https://x"), typed=" --context c")
    said = missing(Fleet.kind, "fleet", where, NotFound(Status(code=404)))
    assert (
        str(said) == "https://x does not serve fleets.edgewright.dev: run `edgewright crds install --context c` first"
    )


@pytest.mark.parametrize("live", [False, True], ids=["a pipe", "a terminal"])
def test_a_list_is_shown_as_it_changes(
    capsys: Capture, plane: Plane, name: str, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    create(capsys, plane, name)
    tell(plane, name, phase="Progressing", progress="1/2")
    monkeypatch.setattr(terminal, "is_terminal", lambda _: live)
    loaded = cluster.place(plane.kubeconfig, None, None, all_namespaces=True)
    drawn: list[list[str]] = []
    monkeypatch.setattr(terminal.Screen, "draw", lambda _, lines: drawn.append(lines))

    async def changes(client: Client) -> None:
        watching = asyncio.create_task(objects.watch_list(client, FirmwareRollout, loaded))
        await wait_until_async(lambda: _seen(capsys, drawn, seen, name, "Progressing"), what="it is shown")
        await client.of(FirmwareRollout).delete(Key("default", name))
        await wait_until_async(lambda: _seen(capsys, drawn, seen, name, "deleted"), what="its end is shown")
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    seen: list[str] = []
    capsys.readouterr()
    plane.do(changes)


async def _seen(capsys: Capture, drawn: list[list[str]], seen: list[str], name: str, word: str) -> bool:
    seen.append(capsys.readouterr().out)
    if drawn:
        shown = [line for line in drawn[-1] if name in line]
        return not shown if word == "deleted" else any(word in line for line in shown)
    return any(name in line and word in line for line in "".join(seen).splitlines())


def test_create_follows_to_the_end_where_it_is_asked_to(
    capsys: Capture, plane: Plane, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_the_first_look(monkeypatch, lambda: tell(plane, name, phase="Failed", message="too many"))
    done = create(capsys, plane, name, "--watch", "-o", "name", "--flasher-image", "registry.example/f:1")
    assert (done.code, done.out) == (4, f"firmwarerollouts.edgewright.dev/{name}\n")
    assert "Failed. too many" in done.err
    assert get(plane, name).spec.template.flashjob_pod_image == "registry.example/f:1"
    again = typed(capsys, "rollout", "get", name, "--watch", plane=plane)
    assert again.code == 4


def test_firmware_per_type_needs_no_version_and_a_version_is_found_in_the_tag(
    capsys: Capture, plane: Plane, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object, **__: object) -> str:
        return ""

    monkeypatch.setattr(rollout_questions, "carried_version", nothing)
    by_type = ("--firmware-for", "esp32=registry.example/a:1=1", "--firmware-for", "esp32s3=registry.example/b:1=1")
    assert typed(capsys, "rollout", "create", name, *by_type, plane=plane).code == 0
    assert [each.type for each in get(plane, name).spec.firmwares] == ["esp32", "esp32s3"]
    tagged = typed(capsys, "rollout", "create", "--firmware", f"registry.example/{name}:2.1", plane=plane)
    assert (tagged.code, tagged.out) == (0, f"rollout {name}-2-1 created\n")
    untold = typed(capsys, "rollout", "create", "--firmware", "registry.example/a", plane=plane)
    assert (untold.code, "name it with --version" in untold.err) == (2, True)
    assert typed(capsys, "rollout", "create", "--firmware", "nowhere", plane=plane).code == 2
    both = typed(capsys, "rollout", "plan", plane=plane)
    assert (both.code, "name a rollout, or a file" in both.err) == (2, True)


def test_a_plan_of_a_file_with_a_wrong_field_names_it(capsys: Capture, plane: Plane, name: str, tmp_path: Path) -> None:
    file = tmp_path / "rollout.yaml"
    file.write_text("kind: FirmwareRollout\nspec: {firmware: fsdsdsd, version: '1'}\n")
    done = typed(capsys, "rollout", "plan", "-f", file, plane=plane)
    assert (done.code, "cannot be acted on: " in done.err) == (1, True)


def test_what_a_person_declines_is_not_done(
    capsys: Capture, plane: Plane, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(capsys, plane, name)
    rollout = tell(plane, name, phase="Progressing", revision=2)
    add_job(plane, rollout, 1, firmware="registry.example/thermo:1.3.0", version="1.3.0")
    monkeypatch.setattr(terminal, "asks", lambda *_, **__: False)
    for verb in ("abort", "delete", "recall", "undo"):
        done = typed(capsys, "rollout", verb, name, plane=plane)
        assert (done.code, "nothing was changed" in done.err) == (1, True), verb
    assert get(plane, name).spec.aborted is None


def test_a_rollout_that_no_operator_looks_at_is_said_to_be_so(
    capsys: Capture, plane: Plane, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_follow, "UNSEEN", 0.05)
    create(capsys, plane, name)
    done = typed(capsys, "rollout", "status", name, "--timeout", "1s", plane=plane)
    assert done.code == 124
    assert done.err.count("No operator has looked at it yet: is one running") == 1
