"""Downloads: each version of an object once, whole or not at all, and nothing outside of a workload's own directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.agent.downloads import Downloader, place_of, prefix_of
from edgewright.agent.events import Events
from edgewright.agent.state import State
from edgewright.api.edge_protocol import DataConfiguration, DataPath, S3Configuration, Workload
from tests.unit.agent.test_uploads import S3, MemoryBucket


class Stage:
    """A downloader with a directory and a bucket of the test."""

    def __init__(self, tmp_path: Path) -> None:
        self.state = State(tmp_path)
        self.events = Events()
        self.bucket = MemoryBucket()
        self.restart()

    def restart(self) -> None:
        """The agent starts again."""
        self.downloader = Downloader(self.state, self.events, bucket=lambda _: self.bucket)

    async def run(self, *workloads: Workload, s3: S3Configuration | None = S3) -> bool:
        return await self.downloader.run_pass(s3, workloads)

    @property
    def files(self) -> dict[str, str]:
        volume = self.state.volume("web")
        return {str(path.relative_to(volume)): path.read_text() for path in volume.rglob("*") if path.is_file()}


def workload(source: str = "models", target: str = "in") -> Workload:
    return Workload(name="web", data=DataConfiguration(ingress=(DataPath(source=source, target=target),)))


async def test_what_the_bucket_has_below_the_source_is_put_below_the_target(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.bucket.objects = {"models/a": b"one", "models/deep/b": b"two", "other/c": b"no", "models/": b""}
    assert await stage.run(workload(), Workload(name="quiet")) is True
    assert stage.files == {"in/a": "one", "in/deep/b": "two"}
    assert await stage.run(workload()) is True
    stage.restart()
    assert await stage.run(workload()) is True
    assert len(stage.bucket.gets) == 2


async def test_a_new_version_is_fetched_and_what_the_workload_deleted_is_not_fetched_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.bucket.objects = {"models/a": b"one", "models/b": b"two"}
    await stage.run(workload())
    (stage.state.volume("web") / "in" / "a").unlink()
    stage.bucket.objects["models/b"] = b"changed"
    await stage.run(workload())
    assert stage.files == {"in/b": "changed"}
    await stage.run()
    assert stage.state.downloads() == {}
    assert stage.files == {"in/b": "changed"}


async def test_a_download_that_breaks_goes_on_where_it_broke_and_the_workload_sees_no_half(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.bucket.objects = {"models/a": b"0123456789"}

    def break_off() -> None:
        stage.bucket.fail = "away"

    stage.bucket.meanwhile = break_off
    assert await stage.run(workload()) is False
    assert stage.files == {}
    assert stage.events.problems == {"ingress of web": "web: away"}
    stage.restart()
    stage.bucket.fail, stage.bucket.meanwhile = "", None
    assert await stage.run(workload()) is True
    assert stage.files == {"in/a": "0123456789"}
    assert stage.bucket.gets == [("models/a", 0), ("models/a", 4)]
    assert stage.events.problems == {}
    assert list((tmp_path / "parts").iterdir()) == []


async def test_the_beginning_of_an_object_that_changed_is_not_used(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.bucket.objects = {"models/a": b"0123456789"}

    def break_off() -> None:
        stage.bucket.fail = "away"

    stage.bucket.meanwhile = break_off
    await stage.run(workload())
    stage.bucket.fail, stage.bucket.meanwhile = "", None
    stage.bucket.objects = {"models/a": b"abcdefghij"}
    assert await stage.run(workload()) is True
    assert stage.files == {"in/a": "abcdefghij"}
    assert list((tmp_path / "parts").iterdir()) == []


async def test_links_that_a_workload_makes_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    stage = Stage(tmp_path / "state")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    volume = stage.state.volume("web")
    (volume / "in").mkdir(parents=True)
    (volume / "in" / "file").symlink_to(secret / "key")
    (volume / "in" / "dir").symlink_to(secret)
    stage.bucket.objects = {"models/file": b"new"}
    assert await stage.run(workload()) is True
    assert not (volume / "in" / "file").is_symlink()
    stage.bucket.objects = {"models/dir/key": b"new"}
    assert await stage.run(workload()) is False
    assert (secret / "key").read_text() == "private"


@pytest.mark.parametrize("s3", [None, S3Configuration()])
async def test_without_a_bucket_that_is_told(tmp_path: Path, s3: S3Configuration | None) -> None:
    stage = Stage(tmp_path)
    assert await stage.run(workload(), s3=s3) is False
    assert stage.events.problems == {"ingress of web": "web: the configuration names no bucket"}


async def test_another_bucket_is_fetched_from_the_beginning_and_a_damaged_ledger_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.bucket.objects = {"models/a": b"one"}
    await stage.run(workload())
    await stage.run(workload(), s3=S3Configuration(bucket_name="c", bucket_host="h", bucket_port=1))
    stage.state.keep_downloads("web", b"{")
    stage.restart()
    await stage.run(workload())
    assert len(stage.bucket.gets) == 3


@pytest.mark.parametrize(
    ("source", "target", "key", "place"),
    [
        ("models", "in", "models/a/b", ("in", "a", "b")),
        ("/", ".", "a", ("a",)),
        ("models", "in", "modelsx/a", None),
        ("models", "in", "models/../a", None),
        ("models", "in", "models//a", None),
        ("models", "in", "models/", None),
    ],
)
def test_where_an_object_goes(source: str, target: str, key: str, place: tuple[str, ...] | None) -> None:
    assert place_of(DataPath(source=source, target=target), key) == place
    assert prefix_of("/a/./b/") == "a/b/"
