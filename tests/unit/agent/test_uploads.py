"""Uploads: new and changed files only, each once, none lost, and nothing outside of a workload's own directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import pytest

from edgewright.agent.events import Events
from edgewright.agent.s3 import BucketError, Content, Object
from edgewright.agent.state import State
from edgewright.agent.uploads import (
    PART,
    Uploader,
    egress_of,
    key_of,
    open_below,
    scan,
    source_of,
    workloads_by_name,
)
from edgewright.api.edge_protocol import NEVER, DataConfiguration, DataPath, S3Configuration, Workload
from edgewright.runtime.clock import VirtualClock

S3 = S3Configuration(bucket_name="b", bucket_host="h", bucket_port=1)


class MemoryBucket:
    """A bucket that counts."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.gets: list[tuple[str, int]] = []
        self.uploads: dict[str, list[bytes]] = {}
        self.closed = 0
        self.fail = ""
        self.meanwhile: Callable[[], object] | None = None

    async def put(self, key: str, content: Content) -> None:
        self._demand()
        self.objects[key] = b"".join(content.pieces())
        self.puts.append(key)
        if self.meanwhile is not None:
            self.meanwhile()

    async def begin(self, key: str) -> str:
        self._demand()
        self.uploads[f"{key}-{len(self.uploads)}"] = []
        return list(self.uploads)[-1]

    async def put_part(self, key: str, upload: str, number: int, content: Content) -> str:
        self._demand()
        if upload not in self.uploads:
            raise BucketError("no such upload", code="NoSuchUpload")
        assert number == len(self.uploads[upload]) + 1
        self.uploads[upload].append(b"".join(content.pieces()))
        if self.meanwhile is not None:
            self.meanwhile()
        return f"tag-{number}"

    async def complete(self, key: str, upload: str, tags: Sequence[str]) -> None:
        self._demand()
        assert tags == [f"tag-{number}" for number in range(1, len(self.uploads[upload]) + 1)]
        self.objects[key] = b"".join(self.uploads.pop(upload))
        self.puts.append(key)

    async def abort(self, key: str, upload: str) -> None:
        self._demand()
        self.uploads.pop(upload, None)

    async def listed(self, prefix: str) -> list[Object]:
        self._demand()
        return [
            Object(key=key, size=len(content), etag=hashlib.sha256(content).hexdigest())
            for key, content in sorted(self.objects.items())
            if key.startswith(prefix)
        ]

    async def get(self, found: Object, *, offset: int = 0) -> AsyncGenerator[bytes]:
        self.gets.append((found.key, offset))
        content = self.objects[found.key][offset:]
        for at in range(0, len(content), 4):
            self._demand()
            yield content[at : at + 4]
            if self.meanwhile is not None:
                self.meanwhile()

    async def close(self) -> None:
        self.closed += 1

    def _demand(self) -> None:
        if self.fail:
            raise BucketError(self.fail)


class Stage:
    """An uploader with a directory and a bucket of the test."""

    def __init__(self, tmp_path: Path) -> None:
        self.state = State(tmp_path)
        self.events = Events()
        self.bucket = MemoryBucket()
        self.restart()

    def restart(self) -> None:
        """The agent starts again."""
        self.uploader = Uploader(self.state, self.events, VirtualClock(), bucket=lambda _: self.bucket)

    def write(self, workload: str, name: str, content: str = "x") -> Path:
        path = self.state.volume(workload) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path


def workload(name: str = "web", *paths: tuple[str, str]) -> Workload:
    egress = tuple(DataPath(source=source, target=target) for source, target in paths or ((".", "nginx"),))
    return Workload(name=name, data=DataConfiguration(egress=egress))


WEB = frozenset({"web"})


async def test_only_new_and_changed_files_are_uploaded_also_after_a_restart(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    assert stage.uploader.last_upload("web") == NEVER
    stage.write("web", "a.txt", "one")
    stage.write("web", "deep/er/b.txt", "two")
    await stage.uploader.run_pass(S3, WEB)
    assert stage.bucket.objects == {"nginx/a.txt": b"one", "nginx/deep/er/b.txt": b"two"}
    assert stage.uploader.last_upload("web").startswith("2026-01-01T")
    stage.restart()
    await stage.uploader.run_pass(S3, WEB)
    assert len(stage.bucket.puts) == 2
    stage.write("web", "a.txt", "changed")
    await stage.uploader.run_pass(S3, WEB)
    assert stage.bucket.puts[2:] == ["nginx/a.txt"]
    assert stage.bucket.objects["nginx/a.txt"] == b"changed"


async def test_a_file_that_changes_while_it_is_uploaded_is_uploaded_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    path = stage.write("web", "log", "one")
    stage.bucket.meanwhile = lambda: path.write_text("one and two")
    await stage.uploader.run_pass(S3, frozenset())
    stage.bucket.meanwhile = None
    await stage.uploader.run_pass(S3, frozenset())
    assert stage.bucket.objects == {"nginx/log": b"one and two"}
    assert stage.state.ledgers() == {}


async def test_nothing_is_deleted_when_a_file_or_a_workload_goes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    path, other = stage.write("web", "a"), stage.write("web", "b")
    await stage.uploader.run_pass(S3, WEB)
    path.unlink()
    await stage.uploader.run_pass(S3, WEB)
    await stage.uploader.run_pass(S3, frozenset())
    assert sorted(stage.bucket.objects) == ["nginx/a", "nginx/b"]
    assert other.is_file()
    assert stage.state.ledgers() == {}


async def test_the_last_files_of_a_workload_that_is_gone_are_uploaded_when_the_bucket_is_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    stage.write("web", "last")
    stage.bucket.fail = "connection refused"
    await stage.uploader.run_pass(S3, frozenset())
    await stage.uploader.run_pass(S3, frozenset())
    assert [each.reason for each in stage.events.to_send()] == ["DataUploadFailed"]
    assert stage.events.problems == {"data of web": "web: connection refused"}
    stage.restart()
    stage.bucket.fail = ""
    await stage.uploader.run_pass(S3, frozenset())
    assert sorted(stage.bucket.objects) == ["nginx/last"]
    assert stage.events.problems == {}


async def test_another_bucket_gets_everything(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    stage.write("web", "a")
    await stage.uploader.run_pass(S3, WEB)
    await stage.uploader.run_pass(S3Configuration(bucket_name="c", bucket_host="h", bucket_port=1), WEB)
    assert stage.bucket.puts == ["nginx/a", "nginx/a"]


async def test_many_files_are_remembered_on_the_way(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    for number in range(120):
        stage.write("web", f"{number:03}")
    calls = 0

    def fail_late() -> None:
        nonlocal calls
        calls += 1
        if calls == 110:
            stage.bucket.fail = "away"

    stage.bucket.meanwhile = fail_late
    await stage.uploader.run_pass(S3, WEB)
    stage.bucket.fail = ""
    stage.restart()
    await stage.uploader.run_pass(S3, WEB)
    assert len(stage.bucket.puts) == 120


async def test_without_a_bucket_files_wait_and_that_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    await stage.uploader.run_pass(None, WEB)
    assert stage.events.problems == {"data of web": "web: the configuration names no bucket"}


async def test_a_workload_that_uploads_nothing_needs_no_bucket(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([Workload(name="quiet"), workload()])
    stage.uploader.expect([Workload(name="web")])
    await stage.uploader.run_pass(None, WEB)
    assert stage.events.problems == {}


async def test_a_source_outside_of_export_is_refused(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload("web", ("../..", "x"))])
    await stage.uploader.run_pass(S3, WEB)
    assert stage.events.problems == {"data of web": "web: '../..' is not below /export"}


async def test_links_that_a_workload_makes_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    stage = Stage(tmp_path / "state")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    stage.uploader.expect([workload("web", (".", "all"), ("dir", "dir"))])
    volume = stage.state.volume("web")
    volume.mkdir(parents=True)
    (volume / "file").symlink_to(secret / "key")
    (volume / "dir").symlink_to(secret)
    os.mkfifo(volume / "pipe")
    await stage.uploader.run_pass(S3, WEB)
    assert stage.bucket.objects == {}
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        open_below(volume, ("dir", "key"), folder=False)


async def test_a_file_that_became_something_else_is_not_uploaded(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    volume = stage.state.volume("web")
    volume.mkdir(parents=True)
    os.mkfifo(volume / "pipe")
    assert await stage.uploader._put(stage.bucket, "web", "k", ("pipe",)) is None
    assert await stage.uploader._put(stage.bucket, "web", "k", ("gone",)) is None


async def test_a_ledger_that_cannot_be_read_is_begun_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.state.keep_ledger("web", b"{broken")
    stage.restart()
    stage.uploader.expect([workload()])
    stage.write("web", "a")
    await stage.uploader.run_pass(S3, WEB)
    assert stage.bucket.puts == ["nginx/a"]


def test_a_directory_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert scan(tmp_path / "none", ()) == {}


@pytest.mark.parametrize(("target", "key"), [("nginx", "nginx/f"), ("", "f"), ("/a//b/", "a/b/f"), (".", "f")])
def test_the_target_is_a_prefix_of_the_key(target: str, key: str) -> None:
    assert key_of(target, "f") == key


@pytest.mark.parametrize(("source", "parts"), [(".", ()), ("/", ()), ("a/b", ("a", "b")), ("/a/./b", ("a", "b"))])
def test_a_source_is_below_export(source: str, parts: tuple[str, ...]) -> None:
    assert source_of(source) == parts


def test_either_era_says_what_is_uploaded() -> None:
    path = (DataPath(source="a", target="b"),)
    assert egress_of(Workload()) == ()
    assert egress_of(Workload(data=DataConfiguration())) == ()
    assert egress_of(Workload(data=DataConfiguration(paths=path))) == path
    assert egress_of(Workload(data=DataConfiguration(egress=path, paths=()))) == path


def test_of_two_workloads_with_one_name_the_first_counts() -> None:
    first, second = Workload(name="a", namespace="x"), Workload(name="a", namespace="y")
    assert workloads_by_name([first, second]) == {"a": first}
    assert workloads_by_name(None) == {}


async def test_a_name_that_would_lead_elsewhere_is_not_taken(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload("../web")])
    assert stage.state.ledgers() == {}


def large(stage: Stage, name: str = "big", parts: int = 3) -> Path:
    """A file of that many parts, the last one short."""
    return stage.write("web", name, "x" * PART * (parts - 1) + "end")


async def test_a_large_file_whose_upload_breaks_goes_on_where_it_broke(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    path = large(stage)

    def break_off() -> None:
        stage.bucket.fail = "away"

    stage.bucket.meanwhile = break_off
    assert await stage.uploader.run_pass(S3, WEB) is False
    ((upload, arrived),) = stage.bucket.uploads.items()
    assert len(arrived) == 1
    stage.restart()
    stage.bucket.fail, stage.bucket.meanwhile = "", None
    assert await stage.uploader.run_pass(S3, WEB) is True
    assert stage.bucket.objects == {"nginx/big": path.read_bytes()}
    assert stage.bucket.uploads == {}
    assert upload == "nginx/big-0"
    assert stage.bucket.closed == 2


async def test_an_upload_that_the_bucket_has_forgotten_is_begun_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    path = large(stage)
    stage.bucket.meanwhile = stage.bucket.uploads.clear
    assert await stage.uploader.run_pass(S3, WEB) is False
    stage.bucket.meanwhile = None
    assert await stage.uploader.run_pass(S3, WEB) is True
    assert stage.bucket.objects == {"nginx/big": path.read_bytes()}


@pytest.mark.parametrize("change", ["longer", "shorter", "gone"])
async def test_a_large_file_that_changes_while_it_is_uploaded_is_uploaded_again(tmp_path: Path, change: str) -> None:
    stage = Stage(tmp_path)
    stage.uploader.expect([workload()])
    path = large(stage)

    def meanwhile() -> None:
        if change == "gone":
            path.unlink(missing_ok=True)
            stage.bucket.fail = "away"
        else:
            path.write_text("x" * (PART * 4 if change == "longer" else PART + 1))

    stage.bucket.meanwhile = meanwhile
    await stage.uploader.run_pass(S3, frozenset())
    stage.bucket.fail, stage.bucket.meanwhile = "", None
    await stage.uploader.run_pass(S3, frozenset())
    assert stage.bucket.uploads == {}
    assert stage.bucket.objects == ({"nginx/big": path.read_bytes()} if change != "gone" else {})
    assert stage.state.ledgers() == {}
