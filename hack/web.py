"""Builds the console's page from web/ into the package, with the Node that is there or else the one from PyPI.

`make web` calls it. npm installs what package-lock.json names, by its hashes and without scripts of packages; the files
that compress well get a .gz next to them, which the console sends to browsers that take it.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "src" / "edgewright" / "console" / "static"
NEEDED = (20, 19)
"""The oldest Node that Vite runs on."""
_COMPRESSED = {".css", ".html", ".js", ".svg"}


def new_enough(version: str) -> bool:
    """Whether what `node --version` printed is recent enough."""
    found = re.fullmatch(r"v(\d+)\.(\d+)\.\d+\S*", version.strip())
    return found is not None and (int(found[1]), int(found[2])) >= NEEDED


def node_folder() -> Path:
    """Where node and npm are: on the PATH, else in an environment of our own with the wheel that brings them."""
    there = shutil.which("node")
    if there and shutil.which("npm"):
        printed = subprocess.run([there, "--version"], capture_output=True, text=True, check=False).stdout
        if new_enough(printed):
            return Path(there).parent
    folder = ROOT / "build" / "node"
    python = folder / "bin" / "python"
    print("web: Node 20.19 or newer is not installed: taking it from PyPI ...", flush=True)
    subprocess.run([sys.executable, ROOT / "hack" / "environment.py", folder], check=True)
    subprocess.run([python, ROOT / "hack" / "install.py", ROOT / "requirements" / "web.txt"], check=True)
    return folder / "bin"


def compress(folder: Path) -> None:
    """Writes the .gz of each file that gets much smaller; the same bytes every time."""
    for file in sorted(folder.rglob("*")):
        if file.suffix in _COMPRESSED:
            file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes(), compresslevel=9, mtime=0))


def main() -> None:
    """Installs, tests and builds."""
    environment = {**os.environ, "PATH": f"{node_folder()}{os.pathsep}{os.environ['PATH']}", "CI": "true"}
    for command in (
        # Not `npm ci`: it wants the parts of other systems in the lock too, which a registry need not have.
        ["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
        ["npm", "run", "--silent", "test"],
        ["npm", "run", "--silent", "build"],
    ):
        subprocess.run(command, cwd=ROOT / "web", env=environment, check=True)
    compress(STATIC)


if __name__ == "__main__":
    main()
