"""The client of podman: what it asks for, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from edgewright.containers import ContainersError, Executed, NotFound, Podman, PodmanUnavailable, Refused
from edgewright.containers.socket import Socket
from tests.unit.containers.fake_podman import FakePodman

POD = "kind: Pod\nmetadata: {name: web, labels: {a: b}}\nspec: {containers: [{name: c, image: i}]}\n"


async def test_a_pod_is_played_listed_stopped_started_and_removed() -> None:
    async with FakePodman() as fake:
        podman = Podman(fake.socket)
        assert (await podman.version()).version == "4.3.1"
        assert await podman.pods() == []
        played = await podman.play(POD, network="podman", credentials={"r": {"username": "u", "password": "p"}})
        assert played.errors == ()
        config = json.loads(base64.urlsafe_b64decode(fake.headers["X-Registry-Config"]))
        assert config == {"r": {"username": "u", "password": "p"}}
        (pod,) = await podman.pods(label="a=b")
        assert (pod.name, pod.status, pod.label("a"), pod.label("z")) == ("web", "Running", "b", None)
        assert [each.name for each in pod.workers] == ["web-c"]
        assert await podman.pods(label="a=c") == []
        assert await podman.pod("we") is None
        assert (await podman.inspect_pod("web"))["Name"] == "web"
        await podman.stop_pod("web", grace=1)
        found = await podman.pod("web")
        assert found is not None
        assert found.status == "Exited"
        await podman.start_pod("web")
        assert await podman.remove_pod("web", force=True) is True
        assert await podman.remove_pod("web") is False


async def test_images_secrets_and_volumes_come_and_go(tmp_path: Path) -> None:
    async with FakePodman() as fake:
        podman = Podman(fake.socket)
        archive = tmp_path / "image.tar"
        archive.write_bytes(b"x" * 700_000)
        assert await podman.load_image(archive) == ["loaded-700000"]
        assert await podman.image_exists("loaded-700000")
        assert not await podman.image_exists("localhost/none:1")
        assert await podman.pull_image("r/i:1") == "abc"
        await podman.create_secret("s", b"content")
        assert fake.secrets == {"s": b"content"}
        assert [each.name for each in await podman.secrets()] == ["s"]
        with pytest.raises(Refused, match="in use"):
            await podman.create_secret("s", b"content")
        assert await podman.remove_secret("s") is True
        assert await podman.remove_secret("s") is False
        assert (await podman.create_volume("v", labels={"k": "1"})).mountpoint == "/m"
        assert [each.name for each in await podman.volumes(label="k=1")] == ["v"]
        assert await podman.remove_volume("v") is True
        assert await podman.remove_volume("v") is False


@pytest.mark.parametrize(
    ("path", "answer", "ask", "error", "text"),
    [
        ("version", (500, b'{"message":"no","cause":"c"}'), lambda p: p.version(), Refused, "no"),
        ("version", (500, b'{"cause":"because"}'), lambda p: p.version(), Refused, "because"),
        ("version", (500, b"plain"), lambda p: p.version(), Refused, "plain"),
        ("version", (500, b""), lambda p: p.version(), Refused, "podman answered 500"),
        ("version", (200, b"<html>"), lambda p: p.version(), PodmanUnavailable, "is not podman"),
        ("pods/x/start", (200, b'{"Errs":["port busy","x"]}'), lambda p: p.start_pod("x"), Refused, "port busy; x"),
        ("pods/x/stop", (404, b"{}"), lambda p: p.stop_pod("x"), NotFound, "podman has no"),
        ("pods/x", (200, b'{"Err":"busy"}'), lambda p: p.remove_pod("x"), Refused, "busy"),
        ("images/pull", (200, b'{"error":"denied"}\n'), lambda p: p.pull_image("x"), Refused, "denied"),
    ],
)
async def test_what_podman_refuses_is_told_in_its_own_words(
    path: str,
    answer: tuple[int, bytes],
    ask: Callable[[Podman], Awaitable[object]],
    error: type[ContainersError],
    text: str,
) -> None:
    async with FakePodman() as fake:
        fake.raw[path] = answer
        with pytest.raises(error, match=text):
            await ask(Podman(fake.socket))


async def test_an_empty_report_of_a_pod_is_fine() -> None:
    async with FakePodman() as fake:
        fake.raw["pods/x/start"] = (304, b"")
        await Podman(fake.socket).start_pod("x")


async def test_errors_of_containers_are_in_what_was_played() -> None:
    async with FakePodman() as fake:
        fake.container_errors = ["port 80 is busy"]
        assert (await Podman(fake.socket).play(POD)).errors == ("port 80 is busy",)


async def test_a_socket_that_is_not_there_is_podman_away(tmp_path: Path) -> None:
    with pytest.raises(PodmanUnavailable, match="cannot be reached"):
        await Podman(tmp_path / "none.sock").version()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "in the middle of an answer"),
        (b"NOT HTTP\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789", "longer than 5 bytes"),
        (None, "did not answer in time"),
    ],
)
async def test_an_answer_that_is_none_is_podman_away(tmp_path: Path, said: bytes | None, text: str) -> None:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if said is None:
            await ended.wait()
        else:
            writer.write(said)
        writer.close()

    path = tmp_path / "s"
    async with await asyncio.start_unix_server(serve, path):
        with pytest.raises(PodmanUnavailable, match=text):
            await Socket(path).request("GET", "/", timeout=0.2 if said is None else 5, limit=5)
        ended.set()


async def test_containers_networks_and_images_are_asked_for_as_podman_has_them() -> None:
    async with FakePodman() as fake:
        podman = Podman(fake.socket)
        fake.raw["pods/create"] = (201, b'{"Id": "p"}')
        fake.raw["containers/create"] = (201, b'{"Id": "c"}')
        fake.raw["containers/c/init"] = fake.raw["containers/c/start"] = (204, b"")
        assert (await podman.create_pod({"name": "p"}), await podman.create_container({"name": "c"})) == ("p", "c")
        await podman.init_container("c")
        await podman.start_container("c")
        assert await podman.remove_container("nobody") is False
        fake.raw["containers/c"] = (200, b"[]")
        assert await podman.remove_container("c") is True
        fake.raw["networks/create"] = (200, b'{"name": "n", "network_interface": "podman1", "subnets": null}')
        assert (await podman.create_network("n", labels={})).interface == "podman1"
        assert await podman.remove_network("n") is False
        assert await podman.image("nothing") is None


async def test_a_command_in_a_container_gives_its_code_and_what_it_printed() -> None:
    async with FakePodman() as fake:
        podman = Podman(fake.socket)
        fake.raw["containers/c/exec"] = (201, b'{"Id": "s"}')
        fake.raw["exec/s/start"] = (200, b"\x01\0\0\0\0\0\0\x04one\n\x02\0\0\0\0\0\0\x03two")
        fake.raw["exec/s/json"] = (200, b'{"ExitCode": 4}')
        assert await podman.execute("c", ["x"]) == Executed(exit_code=4, output=b"one\ntwo", truncated=False)
        fake.raw["exec/s/start"] = (500, b'{"message": "it has ended"}')
        with pytest.raises(Refused, match="it has ended"):
            await podman.execute("c", ["x"])
