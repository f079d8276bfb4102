"""Builds the benchmarks' Go peers: the controller-runtime program next to this file, and the helm program.

Called by `make bench`; a driver imports `program()` to know where the first is, and `helm()`. Each lands in the user's
cache folder, in a directory named by a digest of its sources, so a second call with nothing changed does nothing. Needs
only the standard library.
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
HELM = Path(__file__).resolve().parent / "helm"
_HELM_PACKAGE = "helm.sh/helm/v4/cmd/helm"
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
    """Builds the peer where it is missing."""
    return _built(SOURCE, ".")


def helm() -> Path:
    """The helm program that `helm/go.mod` pins, built where it is missing."""
    return _built(HELM, _HELM_PACKAGE)


def _built(source: Path, package: str) -> Path:
    """Builds a peer where it is missing; it appears whole or not at all."""
    go: Any = kubernetes_build()
    there: Path = go.program_of(source, among="bench")
    if there.exists():
        return there
    print(f"bench: building the {source.name} peer ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    built: Path = go.build_module(source, among="bench", package=package)
    print(f"bench: built in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return built


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print-path", action="store_true", help="print where the first is and build nothing")
    if parser.parse_args().print_path:
        print(program())
        return 0
    try:
        build()
        helm()
    except subprocess.CalledProcessError as failed:
        print(f"bench: a peer could not be built (exit code {failed.returncode})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
