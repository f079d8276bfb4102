"""Metrics as plain samples: those of the machine, read from /proc and /sys, and those that a workload serves as text.

`metrics` gathers with it and hands the result to `remote_write`. The names of the machine's metrics are those of
Prometheus' node exporter, so that its dashboards work. Nothing is run or written; what cannot be read is left out.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_CPU_MODES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_MEMORY: Final = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree")
_LINE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?\s*')
_ESCAPES: Final = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
_SECTOR: Final = 512


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One value of one metric."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    millis: int | None = None
    """When it was, where the source says so."""


def machine(root: Path = Path("/")) -> Iterator[Sample]:
    """The metrics of this machine."""
    yield from _load(root)
    yield from _cpu(root)
    yield from _memory(root)
    yield from _network(root)
    yield from _disks(root)
    yield from _filesystems(root)


def parsed(text: str) -> Iterator[Sample]:
    """The samples in a text as workloads serve it; a line that cannot be read is left out."""
    for line in text.splitlines():
        found = None if line.startswith("#") else _LINE.fullmatch(line.strip())
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        labels = {name: _unescaped(content) for name, content in _LABEL.findall(found[2] or "")}
        yield Sample(name=found[1], value=value, labels=labels, millis=int(found[4]) if found[4] else None)


def allowed(samples: Iterable[Sample], names: Iterable[str] | None) -> Iterator[Sample]:
    """The samples whose names are on the list; all where there is no list."""
    listed = None if names is None else frozenset(names)
    return (each for each in samples if listed is None or each.name in listed)


def _unescaped(text: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), text)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _load(root: Path) -> Iterator[Sample]:
    for line in _lines(root / "proc/loadavg"):
        for name, value in zip(("node_load1", "node_load5", "node_load15"), line.split(), strict=False):
            yield Sample(name=name, value=_number(value))


def _cpu(root: Path) -> Iterator[Sample]:
    ticks = os.sysconf("SC_CLK_TCK")
    for line in _lines(root / "proc/stat"):
        cpu, *values = line.split() or [""]
        if cpu == "btime" and values:
            yield Sample(name="node_boot_time_seconds", value=_number(values[0]))
        elif cpu.startswith("cpu") and cpu != "cpu":
            for mode, value in zip(_CPU_MODES, values, strict=False):
                labels = {"cpu": cpu.removeprefix("cpu"), "mode": mode}
                yield Sample(name="node_cpu_seconds_total", value=_number(value) / ticks, labels=labels)


def _memory(root: Path) -> Iterator[Sample]:
    for line in _lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        if name in _MEMORY and value.split():
            yield Sample(name=f"node_memory_{name}_bytes", value=_number(value.split()[0]) * 1024)


def _network(root: Path) -> Iterator[Sample]:
    for line in _lines(root / "proc/net/dev"):
        name, colon, rest = line.partition(":")
        values = rest.split()
        if colon and len(values) >= 9 and not name.strip().startswith("veth"):
            labels = {"device": name.strip()}
            yield Sample(name="node_network_receive_bytes_total", value=_number(values[0]), labels=labels)
            yield Sample(name="node_network_transmit_bytes_total", value=_number(values[8]), labels=labels)


def _disks(root: Path) -> Iterator[Sample]:
    for line in _lines(root / "proc/diskstats"):
        parts = line.split()
        if len(parts) >= 10 and not parts[2].startswith(("loop", "ram", "zram")):
            labels = {"device": parts[2]}
            yield Sample(name="node_disk_read_bytes_total", value=_number(parts[5]) * _SECTOR, labels=labels)
            yield Sample(name="node_disk_written_bytes_total", value=_number(parts[9]) * _SECTOR, labels=labels)


def _filesystems(root: Path) -> Iterator[Sample]:
    seen = set()
    for line in _lines(root / "proc/mounts"):
        parts = line.split()
        if len(parts) < 3 or not parts[0].startswith("/dev/") or parts[0] in seen:
            continue
        seen.add(parts[0])
        try:
            found = os.statvfs(root / parts[1].lstrip("/"))
        except OSError:
            continue
        labels = {"device": parts[0], "mountpoint": parts[1], "fstype": parts[2]}
        yield Sample(name="node_filesystem_size_bytes", value=found.f_blocks * found.f_frsize, labels=labels)
        yield Sample(name="node_filesystem_avail_bytes", value=found.f_bavail * found.f_frsize, labels=labels)
