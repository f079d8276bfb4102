"""Whether a container can have a root of its own on this machine: tried once, in a process of its own.

Ordinary users may be forbidden to make user namespaces, and root in a container may lack the right to mount; the node
asks before it promises volumes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

_TRY = """
import sys
sys.path.append(sys.argv[1])
import mountspace
mountspace.enter({"base": sys.argv[2], "mounts": []})
"""


def mounts_work() -> bool:
    """Whether the shim's way to mount works here."""
    with tempfile.TemporaryDirectory(prefix="edgewright-") as base:
        here = str(Path(__file__).parent)
        tried = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-B", "-c", _TRY, here, base], check=False, capture_output=True, timeout=30
        )
    return tried.returncode == 0
