"""Every operation of the agents' API in every way that it can fail: the body is empty or JSON, and comes in a second.

A published agent sees nothing of any other body, and waits no longer.
"""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from edgewright.api.edgeaccess import EdgeExecRequest
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.gateway.gateway import Gateway
from edgewright.gateway.settings import Limits
from edgewright.runtime.client import Client
from edgewright.runtime.objects import Key
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.exchanges import QUESTIONS, UNKNOWN, Question, Raw, exchanged, written
from tests.unit.gateway.stage import NAMESPACE, Device, devices_of, gateway_of
from tests.unit.gateway.test_certificate_matrix import signed

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
POSTED = [each for each in QUESTIONS if each.method == "POST"]
SECOND = 1.0
ATTEMPTS = 10
SMALL = Limits(body_bytes=20_000, line_bytes=2000, header_bytes=2000, headers=30)


@dataclass
class Stage:
    """A gateway whose way to the API server can be cut, or fall silent; a device that it knows, and one unknown."""

    gateway: Gateway
    client: Client
    proxy: Proxy
    device: Device
    lost: Device
    """It has a certificate, and no EdgeDevice any more."""
    other: Device

    @property
    def tls(self) -> dict[str, ssl.SSLContext]:
        """Every certificate that comes through the handshake, by what is wrong with it."""
        authority = self.gateway.certificates.authority
        return {
            "registration": self.device.tls(self.device.shared),
            "expired": self.device.tls(signed(authority, self.device, days=0.001)),
            "another": self.device.tls(self.other.identity),
        }


@asynccontextmanager
async def staged(directory: Path, **given: Any) -> AsyncIterator[Stage]:
    async with plane(directory) as config, Client(config) as client:
        server = urlsplit(config.server)
        assert server.hostname is not None
        assert server.port is not None
        with Proxy(server.hostname, server.port) as proxy:
            through = dataclasses.replace(config, server=f"{server.scheme}://127.0.0.1:{proxy.port}")
            async with gateway_of(through, **given) as gateway:
                devices = await devices_of(directory, gateway, client, ["one", "lost", "two"])
                for device in devices:
                    assert (await device.register()).code == 200
                    assert (await device.heartbeat()).code == 200
                yield Stage(gateway, client, proxy, *devices)
                proxy.accept()
                proxy.resume()


async def lose(stage: Stage) -> None:
    """Takes an EdgeDevice away, as a backup does that is older than it."""
    key = Key(NAMESPACE, stage.lost.name)
    await stage.client.of(EdgeDevice).patch(key, {"metadata": {"finalizers": []}})
    await stage.client.of(EdgeDevice).delete(key)

    async def unknown() -> bool:
        return (await stage.lost.control()).code == 404

    await wait_until_async(unknown, what="the EdgeDevice is gone")


async def demand_secret(stage: Stage) -> None:
    """Gives the device a workload with a Secret, which the gateway reads for each configuration."""
    words = {"containers": [{"name": "a", "image": "a", "envFrom": [{"secretRef": {"name": "words"}}]}]}
    body = {
        "apiVersion": EdgeWorkload.kind.api_version,
        "kind": "EdgeWorkload",
        "metadata": {"name": "w", "namespace": NAMESPACE},
        "spec": {"type": "pod", "device": stage.device.name, "pod": {"spec": words}},
    }
    await stage.client.raw(EdgeWorkload.kind).create(body)

    async def known() -> bool:
        kept = stage.gateway._server._configurations
        return [each.metadata.name for each in kept._counting_in(NAMESPACE).workloads] == ["w"]

    await wait_until_async(known, what="the workload is known")


async def prompt(device: Device, request: bytes, tls: ssl.SSLContext | None = None, *, limit: float = SECOND) -> Raw:
    """The answer, which a published agent can read and which comes in time; a busy machine gets more than one try."""
    answers = []
    for _ in range(ATTEMPTS):
        answers.append(await exchanged(device, request, tls))
        assert answers[-1].is_readable, answers[-1]
        if answers[-1].seconds <= limit:
            break
    assert answers[-1].seconds <= limit, answers
    return answers[-1]


# --- what a request can be ------------------------------------------------------------------------------------------


def unreadable(question: Question, device: Device) -> Iterator[tuple[str, bytes]]:
    """Requests that are no HTTP, or too much of it."""
    path = question.path(device.name)
    yield "a long line", written(question.method, f"{path}?{'x' * 3000}")
    yield "a long header", written(question.method, path, headers={"X-Long": "x" * 3000})
    yield "many headers", written(question.method, path, headers={f"X-{each}": "x" for each in range(40)})
    yield "a length that is none", written(question.method, path, headers={"Content-Length": "ten"})
    yield "two lengths", f"{question.method} {path} HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".encode()
    yield "no HTTP", b"hello gateway\r\n\r\n"
    yield "HTTP of another age", f"{question.method} {path} HTTP/7\r\n\r\n".encode()


def bad_bodies(question: Question, device: Device) -> Iterator[tuple[int, bytes]]:
    """What is wrong with a body, after the code that it is answered with."""
    path, json = question.path(device.name), {"Content-Type": "application/json"}
    good = question.body(device)
    yield 422, written("POST", path, headers=json | {"Content-Length": "0"})
    yield 415, written("POST", path, good, {"Content-Type": "text/plain"})
    yield 415, written("POST", path, headers={"Content-Length": "0"})
    yield 413, written("POST", path, b'"' + b"x" * 30_000 + b'"')
    yield 413, chunked(path, b'"' + b"x" * 30_000 + b'"')
    yield 413, written("POST", path, headers=json | {"Content-Length": "99999999"})
    yield 400, written("POST", path, headers=json | {"Transfer-Encoding": "chunked"}) + b"zz\r\nno size\r\n\r\n"
    yield 400, written("POST", path, b"not gzip", {"Content-Encoding": "gzip"})
    if question.channel == "data":  # what is said of a connection may be anything, also a bare null
        yield 400, written("POST", path, b"{")
        yield 400, written("POST", path, b'{"directive":"\xff"}')
        yield 422, written("POST", path, b"null")
        yield 422, written("POST", path, b'{"type":"postcard"}')
    if question.directive not in {UNKNOWN, "access"}:
        yield 400, written("POST", path, good.rsplit(b'"content"', 1)[0] + b'"content":7}')


def chunked(path: str, body: bytes) -> bytes:
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    return written("POST", path, headers=headers) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


# --- the tests ------------------------------------------------------------------------------------------------------


async def test_a_request_that_is_wrong_is_refused_with_json_or_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=SMALL) as stage:
        device = stage.device
        await lose(stage)
        for question in QUESTIONS:
            for method in set(METHODS) - {question.method}:
                refused = await prompt(device, written(method, question.path(device.name)))
                assert (refused.code, refused.headers.get("allow")) == (405, question.method), (question, method)
            assert (await prompt(device, written(question.method, question.path("one") + "/more"))).code == 404
            for what, request in unreadable(question, device):
                assert (await prompt(device, request)).code == 400, (question, what)
            for what, tls in stage.tls.items():
                answer = await prompt(device, question.request(device), tls)
                assert answer.code < 500, (question, what)
            answer = await prompt(stage.lost, question.request(stage.lost))
            assert answer.code < 500, question
        for question in POSTED:
            for code, request in bad_bodies(question, device):
                answer = await prompt(device, request)
                assert answer.code == code, (question, request[:300], answer)


async def test_a_revoked_certificate_and_one_too_many_are_refused_with_json_or_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(enrolments_a_minute=3)) as stage:
        await stage.client.raw(EdgeDeviceSignedRequest.kind).create(
            {
                "apiVersion": EdgeDeviceSignedRequest.kind.api_version,
                "kind": EdgeDeviceSignedRequest.kind.kind,
                "metadata": {"name": "two", "namespace": NAMESPACE},
                "spec": {"targetNamespace": NAMESPACE, "revokedBefore": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"},
            }
        )

        async def refused() -> bool:
            return (await stage.other.control()).code == 403

        await wait_until_async(refused, what="the revocation is known")
        shared = stage.device.tls(stage.device.shared)
        for question in QUESTIONS:
            assert (await prompt(stage.other, question.request(stage.other))).code == 403, question
            answer = await prompt(stage.device, question.request(stage.device, name="fourth"), shared)
            assert answer.code in {401, 403, 429}, question


@pytest.mark.parametrize("question", POSTED, ids=str)
async def test_a_body_that_does_not_come_is_waited_for_and_refused_with_json(
    tmp_path: Path, question: Question
) -> None:
    async with staged(tmp_path, limits=Limits(body_seconds=0.2)) as stage:
        answer = await prompt(stage.device, question.request(stage.device)[:-1])
        assert (answer.code, answer.is_readable) == (408, True)


@pytest.mark.parametrize("fault", ["cut", "silent"])
async def test_without_the_api_server_every_answer_comes_within_a_second(tmp_path: Path, fault: str) -> None:
    async with staged(tmp_path) as stage:
        await lose(stage)
        await demand_secret(stage)
        device, shared = stage.device, stage.device.tls(stage.device.shared)
        assert (await device.configuration()).code == 200
        if fault == "silent":
            stage.proxy.pause()
        else:
            stage.proxy.refuse()
            stage.proxy.cut()
        found = {}
        for question in QUESTIONS:
            known = await prompt(device, question.request(device))
            unknown = await prompt(stage.lost, question.request(stage.lost))
            new = await prompt(device, question.request(device, name="new"), shared)
            found[str(question)] = known.code, unknown.code, new.code
        # What the gateway knows it says; what it would have to ask for is for later, and never a 4xx.
        late = 503
        assert found == {
            "data in": (late, late, 401),
            "data out enrolment": (late, late, late),
            "data out registration": (late, late, late),
            "data out heartbeat": (200, late, 403),
            f"data out {UNKNOWN}": (400, 400, 403),
            "control in": (200, late, 401),
            "control out access": (late, late, 401),
        }
        waits = {"If-None-Match": '"another"', "Prefer": "wait=1"}
        question = next(each for each in QUESTIONS if str(each) == "data in")
        assert (await prompt(device, question.request(device, headers=waits), limit=SECOND + 1)).code == late
        stage.proxy.accept()
        stage.proxy.resume()

        async def back() -> bool:
            answers = [await exchanged(device, each.request(device)) for each in QUESTIONS]
            assert all(each.is_readable for each in answers)
            return [each.code for each in answers if each.code >= 400] == [400]  # the directive that there is not

        await wait_until_async(back, what="everything is answered again")


async def test_a_command_that_could_not_be_taken_is_handed_out_when_the_api_server_is_back(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        body = {
            "apiVersion": EdgeExecRequest.kind.api_version,
            "kind": EdgeExecRequest.kind.kind,
            "metadata": {"name": "asked", "namespace": NAMESPACE},
            "spec": {"device": stage.device.name, "workload": "w", "command": ["id"], "timeoutSeconds": 120},
        }
        await stage.client.raw(EdgeExecRequest.kind).create(body)
        pending = stage.gateway.access._pending
        key = Key(NAMESPACE, stage.device.name)
        await wait_until_async(lambda: next(pending(key), None) is not None, what="the request is known")
        question = next(each for each in QUESTIONS if str(each) == "control in")
        request = question.request(stage.device, headers={"User-Agent": "edgewright-agent/1"})
        stage.proxy.refuse()
        stage.proxy.cut()
        assert (await prompt(stage.device, request)).code == 503
        stage.proxy.accept()

        async def handed_out() -> bytes:
            return (await exchanged(stage.device, request)).body

        assert b'"command":"exec"' in await wait_until_async(handed_out, what="the device is asked")
