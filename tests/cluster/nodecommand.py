"""`edgewright node` as a process for tests, attached to any API server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness import ApiServer, wait_until
from tests.unit.cli.command import PROGRAM, environment

HELLO = f"{sys.executable} -c 'import sys; print(\"hello\", *sys.argv[1:])'"

OTHERS_TOO = ("--no-taint", "--allow-command")
"""For nodes that run other Pods than our flash Pods, which may name their own commands."""


@contextmanager
def running_node(server: ApiServer, folder: Path, name: str, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """The command, until the block ends; its Node object goes afterwards."""
    command: list[str | Path] = [PROGRAM, "node", "--name", name, "--kubeconfig", server.kubeconfig]
    command += ["--data", folder / "node", "--image", f"hello={HELLO}", *arguments]
    with (folder / "node.log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
            env=environment(HOME=str(folder)),
        )
    try:
        wait_until(lambda: node_is_ready(server, name), what=f"{name} is Ready, see {folder / 'node.log'}")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if server.exists(f"/api/v1/nodes/{name}"):
            server.request("DELETE", f"/api/v1/nodes/{name}")


def node_is_ready(server: ApiServer, name: str) -> bool:
    if not server.exists(f"/api/v1/nodes/{name}"):
        return False
    conditions = server.request("GET", f"/api/v1/nodes/{name}")["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
