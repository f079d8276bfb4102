"""How many devices one registration certificate lets in, and what a stranger can take of the port."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest

from edgewright.api.edge_protocol import PREFIX
from edgewright.gateway.settings import Limits
from tests.harness.waiting import wait_until_async
from tests.unit.gateway.stage import devices_of
from tests.unit.gateway.test_gateway import staged

NAMES = [f"device-{number}" for number in range(5)]


async def test_one_registration_certificate_lets_in_so_many_a_minute(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(enrolments_a_minute=3)) as stage:
        answers = [await each.register() for each in await devices_of(tmp_path, stage.gateway, stage.client, NAMES)]
        assert [each.code for each in answers] == [200, 200, 200, 429, 429]
        assert "more than 3 devices came in a minute" in answers[-1].body["message"]


async def test_so_many_wait_for_approval_at_once(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(pending=2), automatic_approval=False) as stage:
        devices = await devices_of(tmp_path, stage.gateway, stage.client, NAMES)

        async def enrolled() -> list[int]:
            return [(await each.enrol()).code for each in devices]

        async def full() -> bool:  # the count is the cache's, which is a moment behind
            return 429 in await enrolled()

        await wait_until_async(full, what="nobody more may wait")
        assert (await devices[0].enrol()).code == 200  # those who wait already may ask


async def test_so_many_come_in_with_one_registration_certificate_at_all(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(total=1)) as stage:
        devices = await devices_of(tmp_path, stage.gateway, stage.client, NAMES)
        assert (await devices[0].register()).code == 200

        async def refused() -> bool:
            return any([(await each.register()).code == 403 for each in devices[1:]])

        await wait_until_async(refused, what="the certificate is used up")
        assert (await devices[0].heartbeat()).code == 200


async def test_connections_that_say_nothing_keep_no_device_out(tmp_path: Path) -> None:
    limits = Limits(handshakes=8, handshake_seconds=60.0)
    async with staged(tmp_path, limits=limits) as stage:
        assert (await stage.device.register()).code == 200
        strangers = []
        try:
            for _ in range(8):  # of one address: they get two of the eight places
                made = socket.create_connection(("127.0.0.1", stage.gateway.port), timeout=60)
                made.setblocking(False)
                strangers.append(made)
            loop = asyncio.get_running_loop()
            closed = 0
            for each in strangers[2:]:
                try:
                    closed += await asyncio.wait_for(loop.sock_recv(each, 1), 60) == b""
                except ConnectionResetError:
                    closed += 1
            assert closed == 6
        finally:
            for each in strangers:
                each.close()

        async def served() -> bool:
            try:
                return (await stage.device.heartbeat()).code == 200
            except aiohttp.ClientError:
                return False

        await wait_until_async(served, what="the device is served")


async def test_a_connection_that_is_idle_is_closed_and_one_that_waits_for_news_is_not(tmp_path: Path) -> None:
    async with staged(tmp_path, limits=Limits(idle_seconds=0.5)) as stage:
        await stage.device.register()
        await stage.device.heartbeat()
        tag = (await stage.device.configuration()).headers["Etag"]
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port, ssl=stage.device.tls())
        head = f"GET {PREFIX}/data/{stage.device.name}/in HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n"
        try:
            writer.write(f"{head}Prefer: wait=2\r\n\r\n".encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 304"), "four times as long as the limit"
            assert await asyncio.wait_for(reader.read(), 60) == b"", "it is closed"
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_lines_and_headers_beyond_the_limits_are_refused_and_connections_beyond_theirs_not_taken(
    tmp_path: Path,
) -> None:
    limits = Limits(line_bytes=500, header_bytes=500, headers=20, connections=3, first_request_seconds=60.0)
    async with staged(tmp_path, limits=limits) as stage:
        assert (await stage.device.register()).code == 200
        assert (await stage.device.configuration()).code == 200
        url = f"https://127.0.0.1:{stage.gateway.port}{PREFIX}/data/{stage.device.name}/in"
        wrong: list[tuple[str, dict[str, str]]] = [
            (f"{url}?{'x' * 600}", {}),
            (url, {"X-Long": "x" * 600}),
            (url, {f"X-{number}": "x" for number in range(30)}),
        ]
        for address, headers in wrong:
            connector = aiohttp.TCPConnector(ssl=stage.device.tls(), force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                answer = await session.get(address, headers=headers)
                assert answer.status == 400
        inside = []
        try:
            for _ in range(limits.connections):
                connection = asyncio.open_connection("127.0.0.1", stage.gateway.port, ssl=stage.device.tls())
                inside.append((await connection)[1])
            assert stage.gateway._listener is not None
            listener = stage.gateway._listener
            await wait_until_async(lambda: listener.connections == limits.connections, what="all places are taken")
            with pytest.raises(aiohttp.ClientError):
                await stage.device.configuration()
        finally:
            for each in inside:
                each.close()
            await asyncio.gather(*(each.wait_closed() for each in inside), return_exceptions=True)
