"""Hardware facts from a machine that the test makes up, from this one, and what has changed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from edgewright.agent.hardware import delta, gather
from edgewright.agent.heartbeat import compose, hardware_to_send, heartbeat_settings
from edgewright.api.edge_hardware import HardwareInfo, Memory
from edgewright.api.edge_protocol import (
    DeviceConfiguration,
    DeviceConfigurationMessage,
    EventInfo,
    HardwareProfileConfiguration,
    HeartbeatConfiguration,
    UpgradeStatus,
)

FILES = {
    "proc/sys/kernel/hostname": "press-7\n",
    "proc/cpuinfo": "processor : 0\nmodel name : Fast CPU\ncpu MHz : 2400.5\nflags : fpu sse\n\nprocessor : 1\n",
    "proc/meminfo": "MemTotal:  2048 kB\nMemFree: 1 kB\n",
    "sys/devices/system/memory/block_size_bytes": "800\n",
    "sys/devices/system/memory/memory0/online": "1\n",
    "sys/devices/system/memory/memory1/online": "0\n",
    "sys/block/sda/size": "2000\n",
    "sys/block/sda/queue/rotational": "1\n",
    "sys/block/sda/device/model": "DISK\n",
    "sys/block/loop0/size": "5\n",
    "sys/block/empty/size": "0\n",
    "sys/class/net/lo/mtu": "65536\n",
    "sys/class/net/eth0/address": "52:54:00:00:00:01\n",
    "sys/class/net/eth0/mtu": "1500\n",
    "sys/class/net/eth0/flags": "0x1003\n",
    "sys/class/net/eth0/carrier": "1\n",
    "sys/class/net/eth0/speed": "-1\n",
    "sys/class/net/podman0/mtu": "1500\n",
    "proc/net/if_inet6": "fe800000000000000000000000000001 02 40 20 80     eth0\nbroken\n",
    "sys/class/dmi/id/sys_vendor": "QEMU\n",
    "sys/class/dmi/id/product_name": "Standard PC\n",
    "proc/mounts": "/dev/sda1 / ext4 rw 0 0\n/dev/sda1 /again ext4 rw 0 0\nproc /proc proc rw 0 0\n",
    "sys/firmware/efi/x": "",
}


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_a_machine_is_described_from_its_files(tmp_path: Path) -> None:
    found = gather(machine(tmp_path, FILES))
    assert found.hostname == "press-7"
    assert found.boot is not None
    assert found.boot.current_boot_mode == "uefi"
    assert found.cpu is not None
    assert (found.cpu.count, found.cpu.model_name, found.cpu.flags) == (2, "Fast CPU", ("fpu", "sse"))
    assert found.cpu.frequency == 2400.5
    assert found.memory == Memory(physical_bytes=2048, usable_bytes=2048 * 1024)
    assert found.disks is not None
    assert [(each.name, each.size_bytes, each.drive_type) for each in found.disks] == [("sda", 1024000, "HDD")]
    assert found.interfaces is not None
    (interface,) = found.interfaces
    assert (interface.name, interface.mtu, interface.has_carrier, interface.speed_mbps) == ("eth0", 1500, True, 0)
    assert interface.flags == ("up", "broadcast", "multicast")
    assert interface.ipv6_addresses == ("fe80::1/64",)
    assert found.system_vendor is not None
    assert (found.system_vendor.manufacturer, found.system_vendor.virtual) == ("QEMU", True)
    assert found.mounts is not None
    assert [(each.device, each.directory) for each in found.mounts] == [("/dev/sda1", "/")]


def test_a_board_without_firmware_tables_is_named_by_its_device_tree(tmp_path: Path) -> None:
    files = {
        "proc/device-tree/model": "Raspberry Pi 4\0",
        "proc/device-tree/serial-number": "1000\0",
        "proc/cpuinfo": "processor : 0\ncpu MHz : none\nFeatures : fp\n",
    }
    found = gather(machine(tmp_path, files))
    assert found.system_vendor is not None
    assert (found.system_vendor.product_name, found.system_vendor.serial_number) == ("Raspberry Pi 4", "1000")
    assert found.cpu is not None
    assert (found.cpu.frequency, found.cpu.flags) == (0.0, ("fp",))


def test_nothing_at_all_is_no_error(tmp_path: Path) -> None:
    assert gather(tmp_path).disks == ()


def test_this_machine_has_a_processor_memory_and_a_message() -> None:
    found = gather()
    assert found.cpu is not None
    assert found.cpu.count > 0
    assert found.memory is not None
    assert found.memory.usable_bytes > 0
    assert msgspec.json.decode(msgspec.json.encode(found), type=HardwareInfo) == found


def test_a_delta_has_what_changed_and_nothing_else() -> None:
    before = HardwareInfo(hostname="a", memory=Memory(usable_bytes=1))
    now = HardwareInfo(hostname="a", memory=Memory(usable_bytes=2))
    assert delta(None, now) == now
    assert delta(before, before) is None
    assert delta(before, now) == HardwareInfo(memory=Memory(usable_bytes=2))


def configured(period: int, *, include: bool = False, scope: str = "full") -> DeviceConfigurationMessage:
    profile = HardwareProfileConfiguration(include=include, scope=scope)
    heartbeat = HeartbeatConfiguration(period_seconds=period, hardware_profile=profile)
    return DeviceConfigurationMessage(configuration=DeviceConfiguration(heartbeat=heartbeat))


@pytest.mark.parametrize(
    ("configuration", "period"),
    [(DeviceConfigurationMessage(), 60), (configured(5), 5), (configured(0), 60)],
)
def test_heartbeats_are_sent_every_minute_or_as_configured(
    configuration: DeviceConfigurationMessage, period: int
) -> None:
    assert heartbeat_settings(configuration).period_seconds == period


@pytest.mark.parametrize(
    ("configuration", "known", "sent"),
    [
        (configured(5), None, None),
        (configured(5, include=True), HardwareInfo(hostname="a"), HardwareInfo(hostname="a")),
        (configured(5, include=True, scope="delta"), HardwareInfo(hostname="a"), None),
        (configured(5, include=True, scope="delta"), None, HardwareInfo(hostname="a")),
    ],
)
def test_hardware_goes_with_a_heartbeat_as_the_profile_says(
    configuration: DeviceConfigurationMessage, known: HardwareInfo | None, sent: HardwareInfo | None
) -> None:
    assert hardware_to_send(configuration, known, HardwareInfo(hostname="a")) == sent


def test_a_heartbeat_says_how_each_workload_is() -> None:
    event = EventInfo(type="warn", reason="R", message="m")
    found = compose(
        version="7",
        statuses={"b": "Running", "a": "Error"},
        last_upload=lambda name: f"time of {name}",
        problems={"workload a": "m"},
        rolled_back={"b": "it ended"},
        upgrade=UpgradeStatus(current_commit_id="c1"),
        hardware=None,
        events=(event,),
    )
    assert found.status == "degraded"
    assert [(each.name, each.status, each.last_data_upload) for each in found.workloads or ()] == [
        ("a", "Error", "time of a"),
        ("b", "Running", "time of b"),
    ]
    assert [(each.rolled_back, each.message) for each in found.workloads or ()] == [(False, "m"), (True, "it ended")]
    assert found.events == (event,)
