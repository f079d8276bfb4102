"""Builds the benchmarks' Go peer, the controller-runtime program beside this file.

Called by `make bench`; a driver imports `program()` to know where it is. It lands in the user's cache folder, in a
directory named by a digest of its sources, so a second call with nothing changed does nothing. Needs only the
standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent / "controller-runtime"
_KUBERNETES = Path(__file__).resolve().parents[2] / "hack" / "kubernetes" / "build.py"


def kubernetes_build() -> Any:
    """The module that builds Kubernetes: it knows the cache folder, and where a Go toolchain is."""
    spec = importlib.util.spec_from_file_location("kubernetes_build", _KUBERNETES)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{_KUBERNETES} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def program() -> Path:
    """Where the peer of these sources is, or will be."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCE / name).read_bytes())
    home: Path = kubernetes_build().cache_home()
    return home / "bench" / digest.hexdigest()[:12] / "controller-runtime"


def build() -> Path:
    """Builds the peer where it is missing; it appears whole or not at all."""
    target = program()
    if target.exists():
        return target
    go = kubernetes_build().find_go()
    print("bench: building the controller-runtime peer ...", flush=True)
    started = time.monotonic()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(part), "."]
    subprocess.run(command, cwd=SOURCE, env=kubernetes_build().go_environment(), check=True)
    part.rename(target)
    print(f"bench: built in {time.monotonic() - started:.0f} s", flush=True)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print-path", action="store_true", help="print where the program is and build nothing")
    if parser.parse_args().print_path:
        print(program())
        return 0
    try:
        build()
    except subprocess.CalledProcessError as failed:
        print(f"bench: the controller-runtime peer could not be built (exit code {failed.returncode})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
