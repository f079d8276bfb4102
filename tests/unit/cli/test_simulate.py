"""`edgewright simulate`: how its options are read, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from edgewright.api.instance import Instance
from edgewright.api.reference import parse_reference
from edgewright.cli import simulate
from edgewright.cli.failure import Failed
from edgewright.cli.instance_registration import SECRET, Registration
from edgewright.cli.simulate_text import Begun, Printer, Stays, beginning, event, table
from edgewright.devices.firmware.esp import check_esp_image
from edgewright.devices.oci import Access, pull
from edgewright.devices.simulated.faults import FaultKind, parse_fault
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did, Entry
from edgewright.devices.simulated.registry import Registry
from edgewright.devices.timescale import TIME_SCALE
from edgewright.runtime import config
from edgewright.runtime.client import Client
from edgewright.runtime.errors import Forbidden, NotFound, Status
from edgewright.runtime.objects import Key
from tests.harness import free_port, wait_until_async
from tests.unit.cli.command import edgewright, sentence
from tests.unit.cli.planes import planes
from tests.unit.devices.simulated.pod import fleet_for, info, pair, post

NOON = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
TYPED: dict[str, Any] = {
    "devices": 2,
    "faults": (),
    "seed": 0,
    "device": "esp32",
    "application": "thermometer",
    "version": "0.1.0",
    "first_address": "127.32.40.1",
    "port": 0,
    "namespace": "default",
    "configuration": "esp",
    "tls_secret": "ota-agent-tls",
    "attestation_port": 0,
    "firmware": (),
    "registry_port": 0,
    "registered": True,
    "tells_boot": False,
    "scale": 0.005,
    "every": 0.01,
    "as_json": False,
}


def wanted(**changes: Any) -> simulate.Wanted:
    return simulate.Wanted(**TYPED | changes)


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fault", "explode=1"], "'explode' is no fault that is known"),
        (["--output", "xml"], "'xml' is neither text nor json"),
        (["--configuration", "Über"], "at most 40 lower-case letters"),
        (["--port", "70000"], "70000 is no port: 0 to 65535"),
        (["--time-scale", "-1"], "-1.0 is not a number above 0"),
        (["--devices", "0"], "a fleet has 1 to 10000 devices, not 0"),
    ],
    ids=["fault", "output", "configuration", "port", "scale", "devices"],
)
def test_what_cannot_be_meant_is_wrong_usage(arguments: list[str], said: str) -> None:
    done = edgewright("simulate", *arguments, env={"COLUMNS": "300"})
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"fault": ["corrupt"]}, "does not say which devices"),
        ({"output": "xml"}, "'xml' is neither text nor json"),
        ({"configuration": "-"}, "at most 40 lower-case letters"),
        ({"port": -1}, "-1 is no port"),
        ({"attestation_port": 65_536}, "65536 is no port"),
        ({"every": 0.0}, r"0\.0 is not a number above 0"),
        ({"devices": 0}, "1 to 10000 devices, not 0"),
        ({"devices": 10_001}, "1 to 10000 devices, not 10001"),
        ({"device": "toaster"}, "no type of device"),
        ({"first_address": "10.0.0.1"}, "not all in 127.32.0.0/16"),
        ({"first_address": "127.32.255.250"}, "not all in 127.32.0.0/16"),
        ({"first_address": "here"}, "'here'"),
        ({"fault": ["corrupt=13"]}, "no device 13 in a fleet of 12"),
        ({"firmware": ["1.0+2"]}, r"1\.0\+2.*tag"),
    ],
    ids=[
        "fault",
        "output",
        "configuration",
        "port",
        "attestation port",
        "discovery",
        "no device",
        "too many devices",
        "type",
        "address",
        "too few addresses",
        "no address",
        "fault of nobody",
        "firmware",
    ],
)
def test_nothing_is_begun_with_what_cannot_be_meant(
    typed: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "load", lambda **_: pytest.fail("it has gone on"))
    with pytest.raises(typer.BadParameter, match=said):
        simulate.simulate(**typed)


def test_the_help_names_every_fault_and_what_its_amount_is() -> None:
    words = set(re.findall("[a-zA-Z:-]+", edgewright("simulate", "--help", env={"COLUMNS": "500"}).stdout))
    assert {f"{kind}:{kind.takes}" if kind.takes else kind.value for kind in FaultKind} <= words


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    where = f"http://127.0.0.1:{free_port()}"
    file = tmp_path / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": where}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                "users": [{"name": "c", "user": {}}],
                "current-context": "c",
            }
        )
    )
    done = edgewright("simulate", "--devices", "1", "--port", "0", "--kubeconfig", file)
    assert done.returncode == 3
    assert where.removeprefix("http://") in sentence(done)


def test_what_is_typed_is_what_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[simulate.Wanted] = []

    async def run(_: object, what: simulate.Wanted) -> bool:
        given.append(what)
        return True

    monkeypatch.setattr(simulate, "run", run)
    monkeypatch.setattr(config, "load", lambda **_: None)
    monkeypatch.delenv(TIME_SCALE, raising=False)
    for user, port in ((0, 80), (1000, 8080)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        simulate.simulate(fault=["corrupt=3"], output="json")
        assert given[-1] == simulate.Wanted(
            devices=12,
            faults=(parse_fault("corrupt=3"),),
            seed=0,
            device="esp32",
            application="thermometer",
            version="0.1.0",
            first_address="127.32.0.1",
            port=port,
            namespace="default",
            configuration="simulated",
            tls_secret="ota-agent-tls",
            attestation_port=8000,
            firmware=(),
            registry_port=5000,
            registered=True,
            tells_boot=False,
            scale=1.0,
            every=5.0,
            as_json=True,
        )


def test_times_are_scaled_as_typed_or_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIME_SCALE, "0.5")
    assert simulate.read_scale(None) == 0.5
    assert simulate.read_scale(0.1) == 0.1
    with pytest.raises(typer.BadParameter):
        simulate.read_scale(float("nan"))
    monkeypatch.setenv(TIME_SCALE, "fast")
    with pytest.raises(Failed, match=TIME_SCALE):
        simulate.read_scale(None)


def begun(fleet: Fleet, registry: Registry | None = None) -> Begun:
    registration = Registration(
        None,  # type: ignore[arg-type]  # nothing is asked of the server
        fleet,
        namespace="default",
        configuration="esp",
        node="edge",
        every=1.0,
    )
    return Begun(fleet=fleet, registry=registry, registration=registration, attestation="http://a", parts=(), stays=())


async def stop_when(client: Client, count: int, then: Any = None) -> None:
    """Ends the command as somebody at a terminal does, once so many Instances are there."""

    async def there() -> bool:
        try:
            return len((await client.of(Instance).list("default")).items) == count
        except Exception:
            return False

    await wait_until_async(there, what="the devices are registered")
    if then is not None:
        await then()
    os.kill(os.getpid(), signal.SIGINT)


async def test_it_runs_until_it_is_stopped_and_leaves_only_the_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with planes(tmp_path / "data") as client:
        await asyncio.gather(simulate.run(client.config, wanted()), stop_when(client, 2))
        assert (await client.of(Instance).list("default")).items == []
        secret = await client.raw(SECRET).get(Key("default", "ota-agent-tls"))
        assert set(secret["data"]) == {"tls.crt", "tls.key"}
    first, second, third, *rest = capsys.readouterr().out.splitlines()
    assert first == "2 simulated devices (esp32), registered in the namespace default"
    assert second == "They trust the certificate in the Secret ota-agent-tls"
    assert third.startswith("The attestation service that knows them: --attestation http://127.0.0.1:")
    assert rest[1].split() == ["NO", "ENDPOINT", "INSTANCE", "APPLICATION", "VERSION", "FAULTS"]
    assert rest[-4:] == [
        "2 run 0.1.0; firmware was written 0 times",
        "What was made for them and stays is removed with:",
        "  kubectl delete secret ota-agent-tls --namespace default",
        "  kubectl delete customresourcedefinition instances.akri.sh",
    ]


async def test_of_what_was_there_before_nobody_is_told_to_remove_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with planes(tmp_path / "data") as client:
        for _ in range(2):
            await asyncio.gather(simulate.run(client.config, wanted()), stop_when(client, 2))
    assert capsys.readouterr().out.splitlines()[-1] == "2 run 0.1.0; firmware was written 0 times"


async def test_programs_get_one_object_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    what = wanted(as_json=True, faults=(parse_fault("vanish:before=1"),))
    async with planes(tmp_path / "data") as client:

        async def ask() -> None:
            found = (await client.of(Instance).list("default")).items
            endpoints = {each.spec.broker_properties["HOST_ENDPOINT"] for each in found}
            (first,) = (each for each in endpoints if each.startswith("127.32.40.1:"))
            host, _, port = first.partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /update HTTP/1.1\r\nContent-Length: 13\r\n\r\nip: 127.0.0.1")
            await reader.read()
            writer.close()

        await asyncio.gather(simulate.run(client.config, what), stop_when(client, 2, ask))
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (ready,) = (each for each in printed if each["event"] == "ready")
    events = [each for each in printed if each is not ready]
    assert [each["faults"] for each in ready["devices"]] == [["vanish"], []]
    assert [(each["event"], each["device"]) for each in events] == [("asked", 1), ("vanished", 1)]


async def test_firmware_for_them_is_offered_in_a_registry_and_nothing_is_registered_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what = wanted(as_json=True, registered=False, firmware=("0.2.0", "0.3.0"))
    printed: list[dict[str, Any]] = []

    async def ready() -> bool:
        printed.extend(json.loads(line) for line in capsys.readouterr().out.splitlines())
        return bool(printed)

    async with planes(tmp_path / "data") as client:
        running = asyncio.create_task(simulate.run(client.config, what))
        await wait_until_async(ready, what="it says what is there")
        images = [
            await pull(
                parse_reference(each), device="esp32", access=Access(plain_hosts=frozenset({each.split("/")[0]}))
            )
            for each in printed[0]["firmware"]
        ]
        os.kill(os.getpid(), signal.SIGINT)
        await running
    assert [check_esp_image(each.content, "esp32").version for each in images] == ["0.2.0", "0.3.0"]
    assert [each["instance"] for each in printed[0]["devices"]] == ["", ""]


def test_what_is_there_is_said_with_the_firmware_and_without_instances_where_there_are_none() -> None:
    what = wanted(registered=False, firmware=("1",))
    said = beginning(what, begun(fleet_for(count=1), simulate.make_registry(what))).splitlines()
    assert said[0] == "1 simulated device (esp32), not registered"
    assert re.fullmatch(r"Firmware for them: \S+/simulated/firmware:1", said[3])
    assert said[6].split()[2] == "-"


async def test_a_place_that_is_taken_is_one_sentence_and_nothing_is_left(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(Failed, match=r"in use.*is another fleet running.*--attestation-port"):
                await simulate.run(client.config, wanted(attestation_port=taken.getsockname()[1]))
        with pytest.raises(NotFound):
            await client.raw(SECRET).get(Key("default", "ota-agent-tls"))
        with pytest.raises(NotFound):
            await client.of(Instance).list("default")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"devices": 0}, "1 to 10000 devices, not 0"),
        ({"device": "toaster"}, "no type of device"),
        ({"first_address": "10.0.0.1"}, "not all in 127.32.0.0/16"),
        ({"faults": (parse_fault("corrupt=3"),)}, "no device 3 in a fleet of 2"),
    ],
    ids=["number", "type", "address", "fault"],
)
def test_a_fleet_that_cannot_be_is_one_sentence(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Failed, match=why):
        simulate.make_fleet(wanted(**changes), pair().certificate, print)


@pytest.mark.parametrize(("tells", "more"), [(False, set()), (True, {"boot"})], ids=["as published", "counting"])
async def test_devices_are_like_published_firmware_unless_they_are_to_count_restarts(
    tells: bool, more: set[str]
) -> None:
    async with simulate.make_fleet(wanted(tells_boot=tells), pair().certificate, print) as fleet:
        assert set(await info(fleet[1])) == {"device", "application", "version"} | more


async def test_what_happens_is_told_as_it_happens() -> None:
    lines: list[str] = []
    what = wanted(faults=(parse_fault("vanish:before=1"),))
    async with simulate.make_fleet(what, pair().certificate, lines.append) as fleet:
        await post(fleet[1], "/update", "ip: 127.0.0.1")
        await wait_until_async(lambda: not fleet[1].busy, what="it is gone")
        where = fleet[1].endpoint
    asked, vanished = lines
    assert asked.endswith(f"device 1 ({where}): asked, 127.0.0.1")
    assert vanished.endswith(f"device 1 ({where}): vanished")


def test_an_event_tells_what_it_is_about() -> None:
    device = fleet_for()[1]
    entry = Entry(at=1.0, did=Did.WRITTEN, run=2, version="2.0", sha256="abc")
    assert event(device, entry, NOON, as_json=False).endswith(": written, 2.0")
    assert json.loads(event(device, entry, NOON, as_json=True)) == {
        "event": "written",
        "time": "2026-05-01T12:00:00.000+00:00",
        "device": 1,
        "run": 2,
        "version": "2.0",
        "sha256": "abc",
    }


@pytest.mark.parametrize(
    ("faults", "last"),
    [(["corrupt=10%", "slow:once=2"], ["5 with corrupt, 1 with slow", ""]), ([], [])],
    ids=["faults", "none"],
)
def test_a_large_fleet_is_counted_and_not_listed(faults: list[str], last: list[str]) -> None:
    said = beginning(wanted(), begun(fleet_for(None, *faults, count=50))).splitlines()
    assert said[4:] == [*last, "Ctrl-C stops them and removes their Instances."]
    assert said[0].startswith("50 simulated devices")


def test_a_table_is_aligned() -> None:
    assert table([("A", "B"), ("long", "-")]) == ["A     B", "long  -"]


def test_a_certificate_that_cannot_be_used_is_told_with_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: str) -> None:
        raise ssl.SSLError(1, "not enough data")

    monkeypatch.setattr("edgewright.devices.simulated.fleet.pinning", refused)
    with pytest.raises(Failed, match=r"the certificate in the Secret ota-agent-tls cannot be used: .*not enough data"):
        simulate.make_fleet(wanted(), "", print)


async def test_a_signal_before_it_has_begun_ends_it_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def begin(registered: Registration) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(Registration, "begin", begin)
    async with planes(tmp_path / "data") as client:
        assert not await simulate.run(client.config, wanted())
        with pytest.raises(NotFound):
            await client.raw(SECRET).get(Key("default", "ota-agent-tls"))
    assert capsys.readouterr().out == ""


async def test_a_server_that_does_not_answer_keeps_nobody_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(simulate, "_TIDYING", 0.01)
    await simulate.in_time(asyncio.Event().wait)
    assert "the server does not answer" in caplog.text


async def test_what_the_server_does_not_let_go_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing:
        def __init__(self, error: Exception) -> None:
            self._error = error

        def raw(self, _: object) -> Refusing:
            return self

        async def delete(self, _: Key) -> None:
            raise self._error

    made = [Stays(kind=SECRET, key=Key("default", "mine")), Stays(kind=SECRET, key=Key("", "not in a namespace"))]
    await simulate.remove_secret(Refusing(NotFound(Status(code=404))), made)  # type: ignore[arg-type]
    assert caplog.text == ""
    await simulate.remove_secret(Refusing(Forbidden(Status(code=403))), made)  # type: ignore[arg-type]
    assert "a Secret is left behind" in caplog.text


async def test_lines_are_printed_in_their_order_and_the_rest_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer()
    printer.take("one")
    printing = asyncio.create_task(printer.run())
    said: list[str] = []

    def printed() -> bool:
        said.extend(capsys.readouterr().out.splitlines())
        return bool(said)

    await wait_until_async(printed, what="the first is printed")
    printing.cancel()
    await asyncio.gather(printing, return_exceptions=True)
    for line in ("two", "three"):
        printer.take(line)
    printer.print_rest()
    assert [*said, *capsys.readouterr().out.splitlines()] == ["one", "two", "three"]
