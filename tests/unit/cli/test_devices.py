"""`edgewright devices …`, `firmware …` and `flash`, typed: boards are simulated, the registry is one in the process."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from edgewright.api.device import (
    QUARANTINED,
    Claim,
    Device,
    DeviceSpec,
    DeviceStatus,
    Firmware,
    FlashRecord,
    JobReference,
    LastFlash,
)
from edgewright.api.endpoint import parse_endpoint
from edgewright.api.flashjob import FlashCounts, FlashedDevice, FlashJob, FlashJobSpec, FlashJobStatus
from edgewright.api.probe import Told
from edgewright.cli import device_check, device_text, flash, objects, terminal
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.registry import Registry
from edgewright.runtime.client import Api
from edgewright.runtime.errors import Conflict, NotFound, Status
from edgewright.runtime.objects import Condition, Key, ObjectMeta
from tests.unit.cli.typed import Plane, typed

Capture = pytest.CaptureFixture[str]
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


@pytest.fixture
def boards(plane: Plane) -> Iterator[Fleet]:
    stack = AsyncExitStack()
    fleet = Fleet(count=2, pinned=server_pair().certificate, first_address="127.32.251.1", port=0)
    plane.do(lambda _: stack.enter_async_context(fleet))
    yield fleet
    plane.do(lambda _: stack.aclose())


@pytest.fixture
def registry(plane: Plane) -> Iterator[Registry]:
    stack = AsyncExitStack()
    there = Registry()
    plane.do(lambda _: stack.enter_async_context(there))
    yield there
    plane.do(lambda _: stack.aclose())


def device(plane: Plane, name: str) -> Device:
    return plane.do(lambda client: client.of(Device).get(Key("", name)))


def test_a_device_is_added_labelled_listed_and_shown(capsys: Capture, plane: Plane) -> None:
    empty = typed(capsys, "devices", "list", plane=plane)
    assert (empty.out, empty.err.startswith("There are no devices")) == ("", True)
    assert typed(capsys, "devices", "list", "-o", "name", plane=plane).out == "", "no line where there is no device"
    first = ("devices", "list", "-o", "jsonpath={.items[0].metadata.name}")
    missing = typed(capsys, *first, plane=plane)
    assert (missing.code, missing.out) == (1, "")
    assert "array index out of bounds: index 0, length 0" in missing.err
    words = ("--endpoint", "192.0.2.7", "--type", "esp32s3", "--serial", "42", "--label", "site=north")
    added = typed(capsys, "devices", "add", "lamp", *words, plane=plane)
    assert (added.code, added.out) == (0, "device lamp added\n")
    assert typed(capsys, *first, plane=plane).out == "lamp\n"
    assert typed(capsys, "devices", "list", "-o", "name", plane=plane).out == "devices.edgewright.dev/lamp\n"
    assert typed(capsys, "devices", "add", "lamp", *words, plane=plane).code == 1
    assert typed(capsys, "devices", "add", "lamp2", "--endpoint", "", plane=plane).code == 2
    assert typed(capsys, "devices", "add", "lamp2", "--endpoint", "192.0.2.8", "--label", "x", plane=plane).code == 2
    assert typed(capsys, "devices", "label", "lamp", "floor=3", "site-", plane=plane).code == 0
    assert device(plane, "lamp").metadata.labels == {"floor": "3"}
    assert typed(capsys, "devices", "label", "nobody", "a=b", plane=plane).code == 1
    assert typed(capsys, "devices", "label", "lamp", "ab", plane=plane).code == 2
    assert "lamp" in typed(capsys, "devices", "list", "-l", "floor=3", plane=plane).out
    assert "There are no such devices" in typed(capsys, "devices", "list", "--type", "esp32", plane=plane).err
    assert "lamp" in typed(capsys, "devices", "list", "--type", "ESP32S3", plane=plane).out
    assert "192.0.2.7" in typed(capsys, "devices", "show", "lamp", plane=plane).out
    shown = json.loads(typed(capsys, "devices", "show", "lamp", "-o", "json", plane=plane).out)
    assert shown["spec"]["serial"] == "42"


def test_a_file_is_imported_whole_or_not_at_all(
    capsys: Capture, plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet.csv"
    file.write_text("name,endpoint,type,site\nimp-1,192.0.2.11,esp32,north\nimp-2,nowhere at all,esp32,\n")
    wrong = typed(capsys, "devices", "import", file, plane=plane)
    assert (wrong.code, wrong.out) == (1, "")
    assert f"{file}: line 3: " in wrong.err
    monkeypatch.setattr("sys.stdin", io.StringIO("name,endpoint,site\nimp-1,192.0.2.11,north\nimp-2,192.0.2.12,\n"))
    assert typed(capsys, "devices", "import", "-", plane=plane).out == "device imp-1 imported\ndevice imp-2 imported\n"
    assert device(plane, "imp-1").metadata.labels == {"site": "north"}
    file.write_text("name,endpoint\nimp-3,192.0.2.13\n")
    assert typed(capsys, "devices", "import", file, "--dry-run", plane=plane).out == "device imp-3 checked\n"
    assert "imp-3" not in typed(capsys, "devices", "list", plane=plane).out


def test_a_device_is_released_from_quarantine(capsys: Capture, plane: Plane) -> None:
    async def begin(client: Any) -> None:
        await client.of(Device).create(Device(metadata=ObjectMeta(name="bad"), spec=DeviceSpec(endpoint="192.0.2.9")))
        since = {"lastTransitionTime": "2026-11-17T12:00:00Z"}
        conditions = [
            {"type": QUARANTINED, "status": "True", "reason": "Failing", "message": "3 in a row", **since},
            {"type": "Stale", "status": "True", "reason": "Silent", "message": "x", **since},
        ]
        status = {"failures": 3, "conditions": conditions}
        await client.of(Device).patch(Key("", "bad"), {"status": status}, subresource="status")

    plane.do(begin)
    assert "Quarantined:  3 in a row" in typed(capsys, "devices", "show", "bad", plane=plane).out
    assert typed(capsys, "devices", "release", "bad", plane=plane).out == "device bad released\n"
    after = device(plane, "bad").status
    assert ([each.type for each in after.conditions], after.failures) == (["Stale"], 0)
    assert "is not in quarantine" in typed(capsys, "devices", "release", "bad", plane=plane).err
    assert typed(capsys, "devices", "release", "nobody", plane=plane).code == 1


def test_a_board_is_checked_and_found_in_a_range(capsys: Capture, plane: Plane, boards: Fleet) -> None:
    endpoint = boards[1].endpoint
    done = typed(capsys, "devices", "check", endpoint)
    assert done.code == 0, done.err
    assert "yes, by the driver esp32" in done.out
    assert "thermometer 0.1.0" in done.out
    assert "Dials back:   it would be told 127." in done.out or "cannot be listened at" in done.out
    host, _, port = endpoint.partition(":")
    words = ("devices", "discover", f"{host}-127.32.251.3", "--port", port)
    found = typed(capsys, *words)
    assert found.out.splitlines()[1].split() == [endpoint, "esp32", "thermometer", "0.1.0"]
    assert "1 board answered" in found.err
    added = typed(capsys, *words, "--add", plane=plane)
    assert "added" in added.err
    assert "added" not in typed(capsys, *words, "--add", plane=plane).err
    (known,) = [
        each for each in plane.do(lambda client: client.of(Device).list()).items if each.spec.endpoint == endpoint
    ]
    assert known.metadata.name.startswith("esp32-127-32-251-1")


def test_a_board_that_is_silent_and_an_address_that_is_none_are_said(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_check, "_SECONDS", 0.3)
    silent = typed(capsys, "devices", "check", "127.32.251.9:9", "--protocol", "esp32")
    assert (silent.code, "does not answer" in silent.err) == (1, True)
    assert typed(capsys, "devices", "check", "a b").code == 2
    unknown = typed(capsys, "devices", "discover", "127.32.251.9-10", "--protocol", "telepathy")
    assert (unknown.code, "telepathy" in unknown.err) == (1, True)


@pytest.mark.parametrize(
    ("text", "count", "first"),
    [
        ("192.0.2.0/30", 2, "192.0.2.1"),
        ("192.0.2.10-12", 3, "192.0.2.10"),
        ("192.0.2.10-192.0.2.11", 2, "192.0.2.10"),
        ("192.0.2.7", 1, "192.0.2.7"),
    ],
)
def test_a_range_is_its_addresses(text: str, count: int, first: str) -> None:
    found = device_check.addresses_in(text)
    assert (len(found), found[0]) == (count, first)


@pytest.mark.parametrize("text", ["", "here", "10.0.0.0/8", "192.0.2.9-3", "192.0.2.1-300", "10.0.0.1-10.1.0.0"])
def test_what_is_no_range_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        device_check.addresses_in(text)


def test_our_own_address_is_the_one_on_the_way_to_the_board() -> None:
    assert device_check.own_address(parse_endpoint("127.32.0.9")) == "127.0.0.1"
    assert device_check.listening_problem("").startswith("this machine has no way")
    assert "cannot be listened at" in device_check.listening_problem("192.0.2.1")
    found = device_check.Found(endpoint="[::1]:80", protocol="smp-udp", told=Told())
    assert device_check.device_of(found).metadata.name == "board-1--80"


def test_a_device_is_described_with_its_history_and_the_log_of_its_failure() -> None:
    job = JobReference(namespace="default", name="j", uid="u")
    records = tuple(
        FlashRecord(
            job=job,
            outcome="succeeded" if number else "reverted",
            version=f"1.{number}",
            time=NOW - timedelta(days=number),
            before=Firmware(version="1.0") if number else None,
        )
        for number in range(12)
    )
    known = Device(
        metadata=ObjectMeta(name="d1", labels={"site": "a"}),
        spec=DeviceSpec(type="esp32", endpoint="192.0.2.1", allowed_namespaces=("lab",)),
        status=DeviceStatus(
            application="thermo",
            version="1.0",
            last_seen=NOW - timedelta(minutes=5),
            firmware=Firmware(reference="registry.example/a:1", digest="sha256:" + "0" * 64, version="1.0"),
            claim=Claim(job=job, attempt=2, since=NOW - timedelta(seconds=9)),
            records=records,
            conditions=(
                Condition(type="Stale", status="False"),
                Condition(type="Quarantined", status="True", message="3 in a row"),
            ),
            last_flash=LastFlash(
                job=job, outcome="reverted", message="it went back", time=NOW, log=("line 1", "line 2")
            ),
        ),
    )
    text = "\n".join(device_text.described(known, NOW))
    for line in (
        "Device:       d1",
        "Runs:         thermo 1.0",
        "Firmware:     1.0 (registry.example/a:1, sha256:000000000000…)",
        "Flashing:     default/j, attempt 2, for 9s",
        "Quarantined:  3 in a row",
        "Seen:         5m ago",
        "  and 2 before that",
        "Last flash:   reverted, 0s ago: it went back",
        "  line 2",
    ):
        assert line in text, text
    assert "default/j: succeeded 1.1 (ran 1.0)" in text
    assert "\x1b[31m" in "\n".join(device_text.described(known, NOW, colour=True))


def test_firmware_is_pushed_with_what_it_says_of_itself_and_inspected(
    capsys: Capture, registry: Registry, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.bin", tmp_path / "b.bin"
    first.write_bytes(esp_image(version="1.4.0", project="thermo"))
    second.write_bytes(esp_image(version="1.4.0", project="thermo", chip="esp32s3"))
    reference = f"{registry.host}/team/thermo:1.4.0"
    plain = ("--plain-registry", registry.host)
    pushed = typed(capsys, "firmware", "push", first, second, reference, *plain)
    assert pushed.code == 0, pushed.err
    assert pushed.out.startswith(f"{reference}@sha256:")
    assert f"edgewright flash DEVICE --firmware {reference}" in pushed.err
    seen = typed(capsys, "firmware", "inspect", reference, "--type", "esp32s3", *plain)
    assert "Chip:         esp32s3" in seen.out
    assert "Version:      1.4.0" in seen.out
    assert typed(capsys, "firmware", "inspect", reference, *plain).code == 1
    one = f"{registry.host}/team/one:2"
    assert typed(capsys, "firmware", "push", first, one, "--version", "2", *plain).code == 0
    facts = json.loads(typed(capsys, "firmware", "inspect", one, "-o", "json", *plain).out)
    assert (facts["chip"], facts["size"]) == ("esp32", len(first.read_bytes()))
    assert typed(capsys, "firmware", "inspect", one, "-o", "jsonpath={.chip}", *plain).out == "esp32\n"
    assert typed(capsys, "firmware", "inspect", one, "-o", "name", *plain).out.startswith(f"{registry.host}/team/one@")


def test_firmware_that_cannot_be_pushed_says_why(capsys: Capture, registry: Registry, tmp_path: Path) -> None:
    blob = tmp_path / "blob.bin"
    blob.write_bytes(b"anything")
    reference = f"{registry.host}/team/blob:1"
    plain = ("--plain-registry", registry.host)
    untold = typed(capsys, "firmware", "push", blob, reference, *plain)
    assert (untold.code, "name the type of device with --type" in untold.err) == (1, True)
    assert typed(capsys, "firmware", "push", blob, reference, "--type", "nrf52", *plain).code == 0
    assert "Format:       unknown" in typed(capsys, "firmware", "inspect", reference, *plain).out
    twice = typed(capsys, "firmware", "push", blob, blob, reference, "--type", "nrf52", *plain)
    assert (twice.code, "several binaries are for nrf52" in twice.err) == (1, True)
    assert typed(capsys, "firmware", "push", blob, "nowhere", "--type", "x").code == 2
    assert typed(capsys, "firmware", "push", blob, f"{reference}@sha256:{'0' * 64}", "--type", "x").code == 2
    away = typed(capsys, "firmware", "push", blob, "127.0.0.1:1/a:1", "--type", "x", "--plain-registry", "127.0.0.1:1")
    assert (away.code, "cannot be reached" in away.err) == (1, True)
    missing = tmp_path / "config.json"
    assert typed(capsys, "firmware", "inspect", reference, "--registry-config", missing, *plain).code == 1
    missing.write_text("{")
    assert (
        "no .dockerconfigjson"
        in typed(capsys, "firmware", "inspect", reference, "--registry-config", missing, *plain).err
    )


def shown(*devices: FlashedDevice, phase: str = "InProgress", failed: int = 0, waiting: int = 0) -> dict[str, Any]:
    counts = FlashCounts(total=len(devices), failed=failed, waiting=waiting)
    status = FlashJobStatus(phase=phase, devices=devices, counts=counts, observed_generation=1, message="it goes on")
    return status.to_raw()


def test_flash_makes_a_job_follows_it_and_ends_as_it_does(
    capsys: Capture, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = flash.Bars.show
    ends = {
        "good": shown(FlashedDevice(uuid="f1", device="f1", state="Done", version="1.4.0"), phase="Completed"),
        "bad": shown(
            FlashedDevice(uuid="f1", device="f1", state="Failed", outcome="reverted", message="it went back"),
            phase="Failed",
            failed=1,
        ),
    }

    def looking(self: flash.Bars, job: FlashJob, progress: Any) -> None:
        show(self, job, progress)
        if not job.status.phase:
            body = {"status": ends[job.metadata.name]}
            plane.do(lambda client: client.of(FlashJob).patch(job.key, body, subresource="status"))

    monkeypatch.setattr(flash.Bars, "show", looking)
    words = ("flash", "f1", "--firmware", "registry.example/a:1.4.0", "--version", "1.4.0")
    good = typed(capsys, *words, "--name", "good", plane=plane)
    assert (good.code, good.out) == (0, "1 device runs 1.4.0\n")
    assert " device f1: Done, runs 1.4.0" in good.err
    bad = typed(capsys, *words, "--name", "bad", "--force", plane=plane)
    assert bad.code == 1
    assert "edgewright devices show f1" in bad.err
    assert "1 of 1 device failed" in bad.err
    assert "already" in typed(capsys, *words, "--name", "bad", plane=plane).err
    left = typed(capsys, *words, "--no-wait", plane=plane)
    assert left.out == "flashjob a-1-4-0 created\n"
    assert typed(capsys, *words, "--name", "late", "--timeout", "0s", plane=plane).code == 124


def test_flash_selects_by_labels_and_says_where_nothing_is_selected(capsys: Capture, plane: Plane) -> None:
    words = ("--firmware", "registry.example/a:1", "--version", "1")
    assert typed(capsys, "flash", *words, plane=plane).code == 2
    nobody = typed(capsys, "flash", "-l", "set=none", *words, plane=plane)
    assert (nobody.code, "no device has set=none" in nobody.err) == (1, True)
    typed(
        capsys, "devices", "add", "sel", "--endpoint", "192.0.2.99", "--type", "esp32", "--label", "set=s", plane=plane
    )
    done = typed(
        capsys, "flash", "-l", "set=s", "--type", "ESP32", "--name", "by-label", "--no-wait", *words, plane=plane
    )
    assert done.code == 0, done.err
    made = plane.do(lambda client: client.of(FlashJob).get(Key("default", "by-label")))
    assert made.spec.uuids == ("sel",)


@pytest.mark.parametrize(
    ("log", "share"),
    [
        (b"", None),
        (b"msg=waiting for the device, 2 s", None),
        (b"10 % of 5000 bytes sent, 1 s\n55 % of 5000 bytes sent, 2 s\n", 55),
        (b"99 % of 5 bytes sent\nthe firmware is with the device\n", 99),
        (b"the firmware is with the device", 100),
    ],
)
def test_how_much_is_sent_is_read_from_a_log(log: bytes, share: int | None) -> None:
    assert flash.last_share(log) == share


def test_a_bar_per_device_fits_the_terminal() -> None:
    job = FlashJob(
        metadata=ObjectMeta(name="j", namespace="default"),
        spec=FlashJobSpec(uuid=("a", "b")),
        status=FlashJobStatus(
            devices=(
                FlashedDevice(uuid="a", device="door-a", state="Flashing", message="sending " * 20),
                FlashedDevice(uuid="b", device="b", state="Done", version="2"),
            ),
            progress="1/2",
        ),
    )
    lines = flash.bars(job, {"a": 50}, width=80)
    assert lines[1].startswith("door-a [##########..........]  50 % Flashing: sending")
    assert lines[2] == "b      [####################] 100 % Done, runs 2"
    assert max(map(len, lines)) < 80
    assert "\x1b[32mDone\x1b[0m" in flash.bars(job, {}, width=None, colour=True)[2]


def test_a_board_is_asked_to_dial_back_and_gets_nothing(
    capsys: Capture, boards: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("devices", "check", boards[1].endpoint, "--protocol", "esp32", "--dial-back")
    done = typed(capsys, *words, "--address", "127.32.251.200")
    assert done.code == 0, done.err
    assert "Dials back:   yes, to 127.32.251.200, port 4433" in done.out
    assert boards[1].running.version == "0.1.0"
    assert "cannot be listened at" in typed(capsys, *words, "--address", "192.0.2.1").out
    # A second board, which is told an address at which nobody listens any more by the time that it comes.
    monkeypatch.setattr(device_check, "_DIAL_SECONDS", 0.0)
    late = typed(capsys, "devices", "check", boards[2].endpoint, "--dial-back", "--address", "127.32.251.201")
    assert (late.code, "did not reach port 4433" in late.err) == (1, True)


def test_flash_draws_bars_on_a_terminal_and_survives_pods_without_a_log(
    capsys: Capture, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = FlashJob(
        metadata=ObjectMeta(name="bars", namespace="default"),
        spec=FlashJobSpec(uuid=("a",)),
        status=FlashJobStatus(devices=(FlashedDevice(uuid="a", state="Flashing"),)),
    )
    assert plane.do(lambda client: flash.sent(client, job)) == {}
    monkeypatch.setattr(terminal, "is_terminal", lambda _: True)
    bars = flash.Bars()
    bars.show(job, {"a": 30})
    assert "[######..............]  30 %" in capsys.readouterr().err


def test_devices_are_watched_until_somebody_interrupts(
    capsys: Capture, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(objects, "watch_list", interrupted)
    for words in (("devices", "list"), ("rollout", "list")):
        assert typed(capsys, *words, "--watch", plane=plane).code == 130


def test_others_who_keep_changing_a_device_are_said(
    capsys: Capture, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def conflicts(*_: object, **__: object) -> None:
        raise Conflict(Status(code=409))

    async def begin(client: Any) -> None:
        await client.of(Device).create(Device(metadata=ObjectMeta(name="busy"), spec=DeviceSpec(endpoint="192.0.2.77")))
        await client.of(Device).patch(Key("", "busy"), {"status": {"failures": 3}}, subresource="status")

    plane.do(begin)
    monkeypatch.setattr(Api, "patch", conflicts)
    assert "keep changing Device busy" in typed(capsys, "devices", "release", "busy", plane=plane).err


def test_the_kinds_must_be_served(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plane: Plane
) -> None:
    async def missing(*_: object, **__: object) -> None:
        raise NotFound(Status(code=404))

    for verb in ("list", "create", "apply", "get"):
        monkeypatch.setattr(Api, verb, missing)
    file = tmp_path / "fleet.csv"
    file.write_text("name,endpoint\nd1,192.0.2.1\n")
    image = ("--firmware", "registry.example/a:1", "--version", "1")
    for words in (
        ("devices", "list"),
        ("devices", "show", "d1"),
        ("devices", "add", "d1", "--endpoint", "192.0.2.1"),
        ("devices", "import", file),
        ("rollout", "create", "r", *image),
        ("rollout", "create", "r", *image, "--dry-run"),
        ("flash", "d1", *image),
        ("flash", "-l", "a=b", *image),
        ("freeze", "--reason", "x"),
    ):
        done = typed(capsys, *words, plane=plane)
        assert (done.code, "run `edgewright crds install" in done.err) == (1, True), (words, done.err)
