"""The hardware of an EdgeDevice as its status shows it, in the published camelCase.

The gateway fills it in from what the agent tells (`edge_hardware`). Every part keeps fields that it does not know: the
published sample writes them in snake_case, and must apply.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from edgewright.api.annotations import Schema
from edgewright.api.edge_hardware import HardwareInfo
from edgewright.runtime.objects import Struct

_OPEN: Final = Schema(preserve_unknown_fields=True)


class Boot(Struct, frozen=True, kw_only=True):
    """How the device booted."""

    object_schema: ClassVar[Schema] = _OPEN

    current_boot_mode: str = ""
    """bios or uefi."""
    pxe_interface: str = ""
    """The interface that it booted from."""


class Cpu(Struct, frozen=True, kw_only=True):
    """The processor."""

    object_schema: ClassVar[Schema] = _OPEN

    architecture: str = ""
    """Such as x86_64."""
    count: int = 0
    """How many there are."""
    flags: tuple[str, ...] = ()
    """What it can do."""
    frequency: str = ""
    """In MHz."""
    model_name: str = ""
    """Who made it and what it is called."""


class IoPerformance(Struct, frozen=True, kw_only=True):
    """How fast a disk is."""

    sync_duration: int = 0
    """The 99th percentile of fsync, in milliseconds."""


class Disk(Struct, frozen=True, kw_only=True):
    """One disk."""

    object_schema: ClassVar[Schema] = _OPEN

    bootable: bool = False
    """Whether it can be booted from."""
    by_id: str = ""
    """Its name in /dev/disk/by-id."""
    by_path: str = ""
    """Its name in /dev/disk/by-path."""
    drive_type: str = ""
    """HDD or SSD."""
    hctl: str = ""
    """Its SCSI address."""
    id: str = ""
    """What identifies it."""
    io_perf: IoPerformance | None = None
    """How fast it is."""
    is_installation_media: bool = False
    """Whether it looks like an installation medium."""
    model: str = ""
    """Its model."""
    name: str = ""
    """Its name, such as sda."""
    path: str = ""
    """Its path, such as /dev/sda."""
    serial: str = ""
    """Its serial number."""
    size_bytes: int = 0
    """Its size."""
    smart: str = ""
    """What SMART says of it."""
    vendor: str = ""
    """Who made it."""
    wwn: str = ""
    """Its World Wide Name."""


class Gpu(Struct, frozen=True, kw_only=True):
    """One graphics processor."""

    object_schema: ClassVar[Schema] = _OPEN

    address: str = ""
    """Its PCI address."""
    device_id: str = ""
    """Its PCI device id."""
    name: str = ""
    """What it is called."""
    vendor: str = ""
    """Who made it."""
    vendor_id: str = ""
    """Its PCI vendor id."""


class HostDevice(Struct, frozen=True, kw_only=True):
    """One file of /dev."""

    object_schema: ClassVar[Schema] = _OPEN

    path: str = ""
    """Its path."""
    device_type: str = ""
    """block or character."""
    owner: int = 0
    """The id of the user that owns it."""
    group: int = 0
    """The id of its group."""
    major: int = 0
    """Its major number."""
    minor: int = 0
    """Its minor number."""


class Interface(Struct, frozen=True, kw_only=True):
    """One network interface."""

    object_schema: ClassVar[Schema] = _OPEN

    biosdevname: str = ""
    """Its name by the BIOS."""
    client_id: str = ""
    """Its DHCP client id."""
    flags: tuple[str, ...] = ()
    """up, broadcast and so on."""
    has_carrier: bool = False
    """Whether a cable is in."""
    ipv4_addresses: tuple[str, ...] = ()
    """Its IPv4 addresses."""
    ipv6_addresses: tuple[str, ...] = ()
    """Its IPv6 addresses."""
    mac_address: str = ""
    """Its MAC address."""
    mtu: int = 0
    """Its largest packet."""
    name: str = ""
    """Its name."""
    product: str = ""
    """Its PCI device id."""
    speed_mbps: int = 0
    """Its speed."""
    vendor: str = ""
    """Its PCI vendor id."""


class Memory(Struct, frozen=True, kw_only=True):
    """The memory."""

    object_schema: ClassVar[Schema] = _OPEN

    physical_bytes: int = 0
    """What is built in."""
    usable_bytes: int = 0
    """What programs can use."""


class MountStatus(Struct, frozen=True, kw_only=True):
    """A file system that is mounted."""

    object_schema: ClassVar[Schema] = _OPEN

    device: str = ""
    """What is mounted."""
    folder: str = ""
    """Where."""
    type: str = ""
    """The file system's type."""
    options: str = ""
    """How."""


class SystemVendor(Struct, frozen=True, kw_only=True):
    """Who made the machine."""

    object_schema: ClassVar[Schema] = _OPEN

    manufacturer: str = ""
    """The maker."""
    product_name: str = ""
    """What it is called."""
    serial_number: str = ""
    """Its serial number."""
    virtual: bool = False
    """Whether it looks like a virtual machine."""


class Hardware(Struct, frozen=True, kw_only=True):
    """What the machine is made of."""

    object_schema: ClassVar[Schema] = _OPEN

    hostname: str = ""
    """Its host name."""
    boot: Boot | None = None
    """How it booted."""
    cpu: Cpu | None = None
    """Its processor."""
    disks: tuple[Disk, ...] = ()
    """Its disks."""
    gpus: tuple[Gpu, ...] = ()
    """Its graphics processors."""
    interfaces: tuple[Interface, ...] = ()
    """Its network interfaces."""
    memory: Memory | None = None
    """Its memory."""
    system_vendor: SystemVendor | None = None
    """Who made it."""
    host_devices: tuple[HostDevice, ...] = ()
    """The files of /dev."""
    mounts: tuple[MountStatus, ...] = ()
    """What is mounted."""


def hardware_with(before: Hardware | None, told: HardwareInfo) -> Hardware:
    """The hardware after an agent told this; what it left out stays as it was known."""
    known = before or Hardware()
    return Hardware(
        hostname=told.hostname or known.hostname,
        boot=known.boot if told.boot is None else _boot(told),
        cpu=known.cpu if told.cpu is None else _cpu(told),
        disks=known.disks if told.disks is None else _disks(told),
        gpus=known.gpus if told.gpus is None else tuple(Gpu(**_fields(each)) for each in told.gpus),
        interfaces=known.interfaces if told.interfaces is None else _interfaces(told),
        memory=known.memory if told.memory is None else Memory(**_fields(told.memory)),
        system_vendor=(
            known.system_vendor if told.system_vendor is None else SystemVendor(**_fields(told.system_vendor))
        ),
        host_devices=known.host_devices if told.host_devices is None else _host_devices(told),
        mounts=known.mounts if told.mounts is None else _mounts(told),
    )


def _boot(told: HardwareInfo) -> Boot | None:
    return None if told.boot is None else Boot(**_fields(told.boot))


def _cpu(told: HardwareInfo) -> Cpu | None:
    if told.cpu is None:
        return None
    frequency = told.cpu.frequency
    shown = frequency if isinstance(frequency, str) else f"{frequency:.2f}" if frequency else ""
    return Cpu(
        architecture=told.cpu.architecture,
        count=told.cpu.count,
        flags=told.cpu.flags or (),
        frequency=shown,
        model_name=told.cpu.model_name,
    )


def _disks(told: HardwareInfo) -> tuple[Disk, ...]:
    return tuple(
        Disk(
            **_fields(each)
            | {"io_perf": None if each.io_perf is None else IoPerformance(sync_duration=each.io_perf.sync_duration)}
        )
        for each in told.disks or ()
    )


def _interfaces(told: HardwareInfo) -> tuple[Interface, ...]:
    lists = ("flags", "ipv4_addresses", "ipv6_addresses")
    return tuple(
        Interface(**_fields(each) | {name: getattr(each, name) or () for name in lists})
        for each in told.interfaces or ()
    )


def _host_devices(told: HardwareInfo) -> tuple[HostDevice, ...]:
    return tuple(
        HostDevice(
            path=each.path,
            device_type=each.device_type,
            owner=each.uid,
            group=each.gid,
            major=each.major,
            minor=each.minor,
        )
        for each in told.host_devices or ()
    )


def _mounts(told: HardwareInfo) -> tuple[MountStatus, ...]:
    return tuple(
        MountStatus(device=each.device, folder=each.directory, type=each.type, options=each.options)
        for each in told.mounts or ()
    )


def _fields(struct: object) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}  # type: ignore[attr-defined]
