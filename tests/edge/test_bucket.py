"""The agent's requests to a real S3 server: parts, pages, ranges, and wrong keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from edgewright.agent.downloads import Downloader
from edgewright.agent.events import Events
from edgewright.agent.s3 import BucketError, Bytes, Content, S3Bucket
from edgewright.agent.state import State
from edgewright.agent.uploads import PART, Uploader
from edgewright.api.edge_protocol import DataConfiguration, DataPath, Workload
from edgewright.runtime.clock import SystemClock
from tests.edge.bucket import S3Server

PATHS = DataConfiguration(
    egress=(DataPath(source="out", target="site/out"),), ingress=(DataPath(source="models", target="in"),)
)
WEB = Workload(name="web", data=PATHS)


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "s3", addresses=[]) as server:
        yield server


async def test_files_large_and_small_go_up_and_objects_come_down(s3: S3Server, tmp_path: Path) -> None:
    state, events, clock = State(tmp_path / "state"), Events(), SystemClock()
    state.directory.mkdir()
    where = s3.configuration("data", host="127.0.0.1")
    out = state.volume("web") / "out"
    out.mkdir(parents=True)
    (out / "small").write_bytes(b"x")
    (out / "empty").touch()
    (out / "with space & ü").write_bytes(b"y")
    large = bytes(range(256)) * (PART * 2 // 256) + b"end"
    (out / "large").write_bytes(large)
    models = s3.bucket("data") / "models" / "deep"
    models.mkdir(parents=True)
    (models / "model.bin").write_bytes(large)

    uploader = Uploader(state, events, clock, bucket=lambda each: S3Bucket(each, clock))
    uploader.expect([WEB])
    assert await uploader.run_pass(where, frozenset({"web"})), events.problems
    stored = s3.bucket("data") / "site" / "out"
    assert {path.name: path.read_bytes() for path in stored.iterdir()} == {
        path.name: path.read_bytes() for path in out.iterdir()
    }
    downloader = Downloader(state, events, bucket=lambda each: S3Bucket(each, clock))
    assert await downloader.run_pass(where, [WEB]), events.problems
    assert (state.volume("web") / "in" / "deep" / "model.bin").read_bytes() == large


async def test_a_server_that_was_restarted_in_an_upload_gets_the_file_all_the_same(
    s3: S3Server, tmp_path: Path
) -> None:
    state, events, clock = State(tmp_path / "state"), Events(), SystemClock()
    state.directory.mkdir()
    where = s3.configuration("data", host="127.0.0.1")
    out = state.volume("web") / "out"
    out.mkdir(parents=True)
    large = b"0123456789abcdef" * (PART * 3 // 16)
    (out / "large").write_bytes(large)
    parts = 0

    class Cut(S3Bucket):
        async def put_part(self, key: str, upload: str, number: int, content: Content) -> str:
            nonlocal parts
            parts += 1
            if parts == 2:
                s3.process.kill()
            return await super().put_part(key, upload, number, content)

    uploader = Uploader(state, events, clock, bucket=lambda each: Cut(each, clock))
    uploader.expect([WEB])
    assert not await uploader.run_pass(where, frozenset({"web"}))
    s3.process.start()
    s3.process.wait_ready()
    again = Uploader(state, events, clock, bucket=lambda each: Cut(each, clock))
    for _ in range(2):  # the server may have forgotten the parts that it had
        await again.run_pass(where, frozenset({"web"}))
    assert (s3.bucket("data") / "site" / "out" / "large").read_bytes() == large
    assert events.problems == {}


async def test_an_interrupted_upload_sends_no_part_twice(s3: S3Server, tmp_path: Path) -> None:
    state, events, clock = State(tmp_path / "state"), Events(), SystemClock()
    state.directory.mkdir()
    where = s3.configuration("data", host="127.0.0.1")
    out = state.volume("web") / "out"
    out.mkdir(parents=True)
    (out / "large").write_bytes(b"x" * (PART * 2 + 1))
    sent: list[int] = []

    class Interrupted(S3Bucket):
        async def put_part(self, key: str, upload: str, number: int, content: Content) -> str:
            if sent == [1]:
                sent.append(0)
                raise BucketError("the network is gone")
            sent.append(number)
            return await super().put_part(key, upload, number, content)

    for expected in (False, True):
        uploader = Uploader(state, events, clock, bucket=lambda each: Interrupted(each, clock))
        uploader.expect([WEB])
        assert await uploader.run_pass(where, frozenset({"web"})) is expected
    assert sent == [1, 0, 2, 3]
    assert (s3.bucket("data") / "site" / "out" / "large").stat().st_size == PART * 2 + 1


async def test_wrong_keys_and_a_wrong_authority_are_refused(s3: S3Server) -> None:
    clock = SystemClock()
    wrong = S3Bucket(s3.configuration("data", host="127.0.0.1", secret="guess"), clock)
    with pytest.raises(BucketError, match="403"):
        await wrong.put("k", Bytes(b"x"))
    await wrong.close()
    foreign = S3Bucket(msgspec.structs.replace(s3.configuration("data", host="127.0.0.1"), aws_ca_bundle=""), clock)
    with pytest.raises(BucketError, match=r"TLS: .*certificate"):
        await foreign.put("k", Bytes(b"x"))
    await foreign.close()
    assert not (s3.bucket("data") / "k").exists()
