"""What both sides of `bench/flashjob.py` and the node between them agree on: the job, the report, the line at the end.

Each is a process that says `ready`, works, and ends with a line of JSON. Nothing here talks to Kubernetes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
from typing import Any, Final

from bench.peers.measurement import peak_memory_mb
from edgewright.api.flash_pod import Attestation, Outcome, Report

JOB: Final = "fleet"
VERSION: Final = "0.2.0"
DIGEST: Final = "sha256:" + "5e" * 32
REPORT: Final = Report(
    outcome=Outcome.SUCCEEDED,
    message="the device was seen to restart and reports 0.2.0",
    digest=DIGEST,
    image_version=VERSION,
    version_before="0.1.0",
    version_after=VERSION,
    device="esp32s3",
    application="thermo",
    certificate="c1" * 32,
    rebooted=True,
    written=True,
    attestation=Attestation.RECOGNISED,
    seconds=8.25,
)
"""What the simulated node lets every flash Pod end with: a flash that took no time and went well."""


def parse_arguments(description: str | None, **more: dict[str, Any]) -> argparse.Namespace:
    """The arguments of all three programs, and a program's own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True, help="the file that says where the API server is")
    parser.add_argument("--namespace", required=True, help="the namespace of the FlashJob")
    for name, options in more.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


def say_ready() -> None:
    """Tells the driver that the next thing to happen may be measured."""
    print("ready", flush=True)


async def told_to_stop() -> None:
    """Returns when the driver closes the standard input."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        await reader.read()
    finally:
        transport.close()


def cpu_seconds() -> float:
    """What this program has computed so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def last_line(**numbers: float) -> str:
    """What a program ends with: its own numbers, and what it cost."""
    return json.dumps({**numbers, "cpu_seconds": cpu_seconds(), "peak_rss_mb": peak_memory_mb()})
