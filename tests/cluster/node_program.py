"""A node as a program of its own, which tests can kill: `python node_program.py SETTINGS`, a JSON file."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from pathlib import Path
from typing import Any

from edgewright.local.node import pod_ids
from edgewright.local.node.lifecycle import Timing
from edgewright.local.node.node import Containers, Network, Node
from edgewright.runtime import Client, config


def log_tls(settings: dict[str, Any]) -> ssl.SSLContext:
    """TLS that lets in only whom the cluster's own authority has given a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=settings["ca"])
    context.load_cert_chain(settings["certificate"], settings["key"])
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def main(settings: dict[str, Any]) -> None:
    """Runs until it is killed."""
    async with Client(config.load(kubeconfig=Path(settings["kubeconfig"])), connections=16) as client:
        node = Node(
            client,
            name=settings["name"],
            directory=Path(settings["directory"]),
            containers=Containers(
                images=settings["images"],
                ids=pod_ids.parse(settings["ids"]) if settings.get("ids") else None,
                environment=settings.get("environment") or {},
            ),
            network=Network(log_tls=log_tls(settings)),
            timing=Timing(**settings.get("timing", {})),
        )
        running = asyncio.create_task(node.run())
        await asyncio.wait([running, ready := asyncio.create_task(node.ready())], return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            Path(settings["ready"]).touch()  # noqa: ASYNC240 - once
        await running


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
