"""Builds the benchmarks' Go peer, the controller-runtime program next to this file.

Called by `make bench`; a driver imports `program()` to know where it is. It lands in the user's cache folder, in a
directory named by a digest of its sources, so a second call with nothing changed does nothing. Needs only the
standard library.
"""

from __future__ import annotations

import argparse
import importlib.util
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
    found: Path = kubernetes_build().program_of(SOURCE, among="bench")
    return found


def build() -> Path:
    """Builds the peer where it is missing; it appears whole or not at all."""
    if program().exists():
        return program()
    print("bench: building the controller-runtime peer ...", flush=True)
    started = time.monotonic()
    built: Path = kubernetes_build().build_module(SOURCE, among="bench")
    print(f"bench: built in {time.monotonic() - started:.0f} s", flush=True)
    return built


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
