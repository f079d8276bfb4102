"""The hardware of this machine as the gateway is told of it, read from /proc and /sys.

`Agent` gathers it for registration and heartbeats. What cannot be read is left out; nothing is run and nothing written.
`root` is where /proc and /sys are, so that a test can hand in a machine of its own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path
from typing import Final

from edgewright.api.edge_hardware import (
    Boot,
    Cpu,
    Disk,
    HardwareInfo,
    Interface,
    Memory,
    Mount,
    SystemVendor,
)

_SECTOR: Final = 512
_NO_DISKS: Final = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")
_FLAGS: Final = {0x1: "up", 0x2: "broadcast", 0x8: "loopback", 0x10: "pointtopoint", 0x1000: "multicast"}
_VIRTUAL: Final = ("qemu", "kvm", "vmware", "virtualbox", "bochs", "xen", "microsoft corporation", "amazon ec2")


def gather(root: Path = Path("/")) -> HardwareInfo:
    """What this machine is."""
    return HardwareInfo(
        hostname=_text(root / "proc/sys/kernel/hostname") or socket.gethostname(),
        boot=Boot(current_boot_mode="uefi" if (root / "sys/firmware/efi").is_dir() else "bios"),
        cpu=_cpu(root),
        disks=tuple(_disks(root)),
        interfaces=tuple(_interfaces(root)),
        memory=_memory(root),
        system_vendor=_vendor(root),
        mounts=tuple(_mounts(root)),
    )


def delta(before: HardwareInfo | None, now: HardwareInfo) -> HardwareInfo | None:
    """What has changed since the gateway was told last; None where nothing has."""
    if before is None:
        return now
    changed = {
        name: getattr(now, name) for name in now.__struct_fields__ if getattr(now, name) != getattr(before, name)
    }
    return HardwareInfo(**changed) if changed else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return ""


def _number(path: Path, base: int = 10) -> int:
    try:
        return int(_text(path), base)
    except ValueError:
        return 0


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _cpu(root: Path) -> Cpu:
    facts: dict[str, str] = {}
    count = 0
    for line in _text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        count += name.strip() == "processor"
        facts.setdefault(name.strip().lower(), value.strip())
    kilohertz = _number(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    try:
        megahertz = kilohertz / 1000 if kilohertz else float(facts.get("cpu mhz", "0"))
    except ValueError:
        megahertz = 0.0
    return Cpu(
        architecture=os.uname().machine,
        count=count,
        flags=tuple((facts.get("flags") or facts.get("features") or "").split()),
        frequency=megahertz,
        model_name=facts.get("model name") or facts.get("model") or facts.get("hardware") or "",
    )


def _memory(root: Path) -> Memory:
    usable = 0
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            usable = int(value.split()[0]) * 1024
    blocks = _number(root / "sys/devices/system/memory/block_size_bytes", 16)
    online = sum(
        _text(folder / "online") == "1"
        for folder in _folders(root / "sys/devices/system/memory")
        if folder.name.startswith("memory")
    )
    return Memory(physical_bytes=blocks * online or usable, usable_bytes=usable)


def _disks(root: Path) -> Iterator[Disk]:
    for folder in _folders(root / "sys/block"):
        if folder.name.startswith(_NO_DISKS):
            continue
        size = _number(folder / "size") * _SECTOR
        if not size:
            continue
        yield Disk(
            name=folder.name,
            path=f"/dev/{folder.name}",
            drive_type="HDD" if _text(folder / "queue/rotational") == "1" else "SSD",
            model=_text(folder / "device/model"),
            vendor=_text(folder / "device/vendor"),
            serial=_text(folder / "device/serial"),
            wwn=_text(folder / "device/wwid") or _text(folder / "wwid"),
            size_bytes=size,
        )


def _interfaces(root: Path) -> Iterator[Interface]:
    addresses6 = _ipv6(root)
    addresses4 = _ipv4(root)
    for folder in _folders(root / "sys/class/net"):
        name = folder.name
        # Interfaces of containers come and go: they are no hardware.
        if name == "lo" or (name.startswith(("veth", "podman", "cni")) and not (folder / "device").exists()):
            continue
        flags = _number(folder / "flags", 16)
        yield Interface(
            name=name,
            mac_address=_text(folder / "address"),
            mtu=_number(folder / "mtu"),
            has_carrier=_text(folder / "carrier") == "1",
            speed_mbps=max(0, _number(folder / "speed")),
            flags=tuple(text for bit, text in _FLAGS.items() if flags & bit),
            ipv4_addresses=tuple(addresses4.get(name, ())),
            ipv6_addresses=tuple(addresses6.get(name, ())),
            vendor=_text(folder / "device/vendor"),
            product=_text(folder / "device/device"),
        )


def _ipv6(root: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in _text(root / "proc/net/if_inet6").splitlines():
        parts = line.split()
        if len(parts) == 6:
            address = IPv6Address(int(parts[0], 16))
            found.setdefault(parts[5], []).append(f"{address}/{int(parts[2], 16)}")
    return found


def _ipv4(root: Path) -> dict[str, list[str]]:
    """The IPv4 address of each interface; the kernel has no file with them, so it is asked by a call."""
    import fcntl  # noqa: PLC0415 - Linux only, and only here
    import struct  # noqa: PLC0415

    found: dict[str, list[str]] = {}
    if root != Path("/"):
        return found
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            question = struct.pack("256s", name.encode()[:15])
            try:
                address = fcntl.ioctl(asked, 0x8915, question)[20:24]  # SIOCGIFADDR
                mask = fcntl.ioctl(asked, 0x891B, question)[20:24]  # SIOCGIFNETMASK
            except OSError:
                continue
            length = int.from_bytes(mask, "big").bit_count()
            found.setdefault(name, []).append(f"{socket.inet_ntoa(address)}/{length}")
    return found


def _vendor(root: Path) -> SystemVendor:
    dmi = root / "sys/class/dmi/id"
    manufacturer, product = _text(dmi / "sys_vendor"), _text(dmi / "product_name")
    if not product:  # boards without DMI describe themselves in the device tree
        product = _text(root / "proc/device-tree/model")
    return SystemVendor(
        manufacturer=manufacturer,
        product_name=product,
        serial_number=_text(dmi / "product_serial") or _text(root / "proc/device-tree/serial-number"),
        virtual=manufacturer.lower().startswith(_VIRTUAL) or product.lower().startswith(_VIRTUAL),
    )


def _mounts(root: Path) -> Iterator[Mount]:
    seen = set()
    for line in _text(root / "proc/mounts").splitlines():
        parts = line.split()
        if len(parts) >= 4 and parts[0].startswith("/dev/") and parts[0] not in seen:
            seen.add(parts[0])
            yield Mount(device=parts[0], directory=parts[1], type=parts[2], options=parts[3])
