"""`python -m tests.node.standalone`: a real Kubernetes with a real node in a room, until Ctrl-C, with nothing in it.

For trying things by hand, and for the test that kills it. It says how to get in; it leaves nothing behind.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.node import images, room
from tests.node.__main__ import IMAGES
from tests.node.cluster import RealCluster
from tests.node.lan import attach_devices

READY = "ready"
"""What it prints, followed by the room's folder, once the node is."""


def stay() -> None:
    """In the room: starts the cluster, says so, and waits for a signal."""
    folder = Path(os.environ[room.FOLDER])
    with RealCluster(folder, Path(os.environ[IMAGES])) as cluster:
        attach_devices()
        print(f"get in: nsenter --all --target {cluster.api.pid} with KUBECONFIG={cluster.kubeconfig}")
        print(f"{READY} {folder}", flush=True)
        signal.pause()


def main() -> int:
    """Opens a room and stays in it."""
    if room.FOLDER in os.environ and sys.argv[1:] == ["inside"]:
        stay()
        return 0
    if reason := room.reason_against():
        sys.exit(f"there can be no node here: {reason}")
    environment = {**os.environ, IMAGES: os.environ.get(IMAGES) or str(images.prepared())}
    command = [sys.executable, "-m", "tests.node.standalone", "inside"]
    return room.run(command, logs=Path("build/reports/standalone"), environment=environment)


if __name__ == "__main__":
    sys.exit(main())
