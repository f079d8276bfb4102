"""The console that `console.py` measures: as `edgewright console` runs it, but with no limits of requests.

It says where it serves, and ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from edgewright.console import Console, Gate, Limits, Settings, listen
from edgewright.runtime import config, logs

_MANY = 1_000_000


async def serve(kubeconfig: Path, *, shared_cache: bool) -> None:
    """Serves on a free port."""
    limits = Limits(reads_per_second=_MANY, writes_per_second=_MANY, streams_per_caller=_MANY, streams=_MANY)
    settings = Settings(gate=Gate(loopback=True), limits=limits, shared_cache=shared_cache)
    console = Console(config.load(kubeconfig=kubeconfig), settings)
    listener = await listen(
        console.application(), host="127.0.0.1", port=0, tls=None, limits=limits, end_streams=console.stop_streams
    )
    print(json.dumps({"url": f"http://127.0.0.1:{listener.port}"}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await listener.close()
    await console.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--shared-cache", action="store_true")
    args = parser.parse_args()
    logs.setup(level="warning", format="text")
    asyncio.run(serve(args.kubeconfig, shared_cache=args.shared_cache))


if __name__ == "__main__":
    main()
