"""What every Python peer of the benchmarks has in common: its arguments, and the line of JSON that it ends with.

Called by the peers next to it, which the driver starts from the root of the checkout with `python -m
bench.peers.NAME`. It never talks to Kubernetes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GROUP = "bench.edgewright.dev"
VERSION = "v1"
PLURAL = "benches"


def parse_arguments(description: str | None, **more: dict[str, Any]) -> argparse.Namespace:
    """The arguments that every peer takes, and its own; the driver creates the objects before it starts one."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True, help="the file that says where the API server is")
    parser.add_argument("--namespace", required=True, help="the namespace that holds the objects")
    parser.add_argument("--objects", required=True, type=int, help="how many objects there are")
    parser.add_argument("--workers", default=16, type=int, help="how many are reconciled at once")
    for name, options in more.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


def wanted_status(generation: int) -> dict[str, object]:
    """The status that a peer writes, once for each object."""
    return {"phase": "Done", "observedGeneration": generation}


def peak_memory_mb() -> float:
    """The most memory that this program has held.

    Not ru_maxrss: that one is inherited through fork and exec, so it would be the driver's where the driver is larger.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


@dataclass
class Measurement:
    """Counts writes, and knows when the last object's status has been written."""

    expected: int
    requests: int = 0
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    _written: set[str] = field(default_factory=set)
    _started: float = field(default_factory=time.monotonic)
    _line: str = ""

    def written(self, name: str) -> None:
        """Notes that the server has answered the status write of an object; the last one ends the measurement."""
        self._written.add(name)
        if len(self._written) == self.expected and not self.finished.is_set():
            usage = resource.getrusage(resource.RUSAGE_SELF)
            self._line = json.dumps(
                {
                    "seconds": time.monotonic() - self._started,
                    "cpu_seconds": usage.ru_utime + usage.ru_stime,
                    "peak_rss_mb": peak_memory_mb(),
                    "requests": self.requests,
                }
            )
            self.finished.set()

    def report(self) -> str:
        """The line to end with."""
        if not self._line:
            raise RuntimeError(f"{len(self._written)} of {self.expected} objects have been written")
        return self._line
