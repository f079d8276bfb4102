"""Mounts: what is refused, what is missing, and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgewright.agent import mounts
from edgewright.agent.events import Events
from edgewright.agent.mounts import Mounts, command, missing, mounted_now, problem_of
from edgewright.agent.programs import ProgramError
from edgewright.api.edge_hardware import Mount
from edgewright.api.edge_protocol import DeviceConfiguration, DeviceConfigurationMessage, HeartbeatConfiguration

DATA = Mount(device="/dev/sdb1", directory="/mnt/data", type="ext4", options="noatime,uid=5")


@pytest.mark.parametrize(
    ("mount", "field"),
    [
        (DATA, ""),
        (Mount(device="/dev/sdb1", directory="/mnt"), ""),
        (Mount(device="-oremount", directory="/mnt"), "mounts.device"),
        (Mount(device="/dev/../etc/x", directory="/mnt"), "mounts.device"),
        (Mount(device="//server/share", directory="/mnt"), "mounts.device"),
        (Mount(device="/dev/sdb", directory="mnt"), "mounts.folder"),
        (Mount(device="/dev/sdb", directory="/mnt/../etc"), "mounts.folder"),
        (Mount(device="/dev/sdb", directory="/mnt", type="-x"), "mounts.type"),
        (Mount(device="/dev/sdb", directory="/mnt", options="-x"), "mounts.options"),
        (Mount(device="/dev/sdb", directory="/mnt", options="a b"), "mounts.options"),
    ],
)
def test_a_mount_is_checked_before_a_program_gets_it(mount: Mount, field: str) -> None:
    assert problem_of(mount).partition(":")[0] == field


def test_what_is_mounted_is_left_as_it_is() -> None:
    table = "/dev/sda1 / ext4 rw 0 0\n/dev/sdc /mnt/with\\040space ext4 rw 0 0\nx\n"
    assert mounted_now(table) == {"": "/dev/sda1", "/mnt/with space": "/dev/sdc"}
    there = Mount(device="/dev/other", directory="/mnt/with space/")
    assert missing([DATA, there], mounted_now(table)) == [DATA]
    assert command(DATA) == ["mount", "-t", "ext4", "-o", "noatime,uid=5", "--", "/dev/sdb1", "/mnt/data"]
    assert command(Mount(device="/dev/a", directory="/b")) == ["mount", "--", "/dev/a", "/b"]


def configured(*wanted: Mount) -> DeviceConfigurationMessage:
    return DeviceConfigurationMessage(
        configuration=DeviceConfiguration(heartbeat=HeartbeatConfiguration(), mounts=wanted)
    )


async def test_what_is_missing_is_mounted_and_what_cannot_be_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, ran, table = Events(), list[Sequence[str]](), tmp_path / "mounts"
    table.write_text("")
    fail = "mount: no such file system"

    async def run(each: Sequence[str]) -> str:
        ran.append(each)
        if fail:
            raise ProgramError(fail)
        return ""

    made = Mounts(events, table=table, run=run)
    await made.apply(configured())
    assert ran == []
    await made.apply(configured(Mount(device="/dev/null", directory=str(tmp_path / "d"))))
    assert "is no block device" in events.problems["mounts"]
    monkeypatch.setattr(mounts, "prepare", lambda each: None)
    await made.apply(configured(DATA, Mount(device="x", directory="/y")))
    assert "mounts.device: 'x'" in events.problems["mounts"]
    assert fail in events.problems["mounts"]
    fail = ""
    await made.apply(configured(DATA))
    assert events.problems == {}
    assert events.to_send()[-1].message == "/dev/sdb1 is mounted at /mnt/data"
    table.write_text("/dev/sdb1 /mnt/data ext4 rw 0 0\n")
    await made.apply(configured(DATA))
    assert len(ran) == 2


async def test_without_mounts_in_the_configuration_nothing_is_read(tmp_path: Path) -> None:
    await Mounts(Events(), table=tmp_path / "none").apply(DeviceConfigurationMessage())
