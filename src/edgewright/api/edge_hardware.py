"""The hardware of a Linux edge device as its agent tells it, and the base of every message between agent and gateway.

`edge_protocol` builds on it; the gateway turns it into the status of an EdgeDevice. What an agent leaves out is at its
default here, because published agents send null, nothing at all or only what has changed.
"""

from __future__ import annotations

import msgspec


class WireStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of every message; a field at its default is left out."""


class Boot(WireStruct, frozen=True, kw_only=True):
    """How the device booted."""

    current_boot_mode: str = ""
    pxe_interface: str = ""


class Cpu(WireStruct, frozen=True, kw_only=True):
    """The processor."""

    architecture: str = ""
    count: int = 0
    flags: tuple[str, ...] | None = None
    frequency: float | str = 0.0
    model_name: str = ""


class IoPerformance(WireStruct, frozen=True, kw_only=True):
    """How fast a disk is."""

    sync_duration: int = 0


class Disk(WireStruct, frozen=True, kw_only=True):
    """One disk."""

    bootable: bool = False
    by_id: str = ""
    by_path: str = ""
    drive_type: str = ""
    hctl: str = ""
    id: str = ""
    io_perf: IoPerformance | None = None
    is_installation_media: bool = False
    model: str = ""
    name: str = ""
    path: str = ""
    serial: str = ""
    size_bytes: int = 0
    smart: str = ""
    vendor: str = ""
    wwn: str = ""


class Gpu(WireStruct, frozen=True, kw_only=True):
    """One graphics processor."""

    address: str = ""
    device_id: str = ""
    name: str = ""
    vendor: str = ""
    vendor_id: str = ""


class HostDevice(WireStruct, frozen=True, kw_only=True):
    """One file of /dev."""

    path: str = ""
    device_type: str = ""
    uid: int = 0
    gid: int = 0
    major: int = 0
    minor: int = 0


class Interface(WireStruct, frozen=True, kw_only=True):
    """One network interface."""

    biosdevname: str = ""
    client_id: str = ""
    flags: tuple[str, ...] | None = None
    has_carrier: bool = False
    ipv4_addresses: tuple[str, ...] | None = None
    ipv6_addresses: tuple[str, ...] | None = None
    mac_address: str = ""
    mtu: int = 0
    name: str = ""
    product: str = ""
    speed_mbps: int = 0
    vendor: str = ""


class Memory(WireStruct, frozen=True, kw_only=True):
    """The memory."""

    physical_bytes: int = 0
    usable_bytes: int = 0


class Mount(WireStruct, frozen=True, kw_only=True):
    """A mounted file system: found on the device, or wanted on it."""

    device: str = ""
    directory: str = ""
    type: str = ""
    options: str = ""


class SystemVendor(WireStruct, frozen=True, kw_only=True):
    """Who made the machine."""

    manufacturer: str = ""
    product_name: str = ""
    serial_number: str = ""
    virtual: bool = False


class HardwareInfo(WireStruct, frozen=True, kw_only=True):
    """The hardware of a device; what an agent leaves out (a delta, an old agent) is None or empty."""

    hostname: str = ""
    boot: Boot | None = None
    cpu: Cpu | None = None
    disks: tuple[Disk, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    interfaces: tuple[Interface, ...] | None = None
    memory: Memory | None = None
    system_vendor: SystemVendor | None = None
    host_devices: tuple[HostDevice, ...] | None = None
    mounts: tuple[Mount, ...] | None = None
