"""Puts the packages of an image into a folder: `python -m hack.image_packages DIRECTORY --requirements FILE`.

`make docker-build` runs it, so that the builder of the image needs no network and runs nothing. pip chooses the
packages for the image's Python and machine and checks their hashes; what is in them twice or for nobody is left out,
and they are compiled, because the image's file system cannot be written to. Nothing outside DIRECTORY is changed.
"""

from __future__ import annotations

import argparse
import compileall
import py_compile
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hack.archives import guarded
from hack.install import entries

SOURCES: Final = {"crcmod": "python3/crcmod"}
"""What its authors publish as source alone, with the folder in it that is its pure Python."""
_LEFT_OUT: Final = ("bin", "*/tests", "*/__pycache__", "**/*.pyi", "**/*.pyx", "**/*.pxd", "**/*.c", "**/*.h")
_HELM: Final = "helm_python/lib"
PLATFORMS: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
"""The wheels that the Pythons of the images can use, oldest first."""


def install(directory: Path, requirements: Path, *, machine: str, python: str) -> None:
    """Installs what a locked file names, for that machine and that Python."""
    locked = {name: lines for name, (_, lines) in entries(requirements.read_text(encoding="utf-8")).items()}
    platforms = [part for name in PLATFORMS for part in ("--platform", f"{name}_{machine}")]
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder, "wheels.txt")
        wheels.write_text("".join(lines for name, lines in locked.items() if name not in SOURCES), encoding="utf-8")
        chosen = ["--implementation", "cp", "--python-version", python, *platforms, "--only-binary", ":all:"]
        _pip("install", "--require-hashes", "--no-deps", "--no-compile", *chosen, "--target", directory, "-r", wheels)
        for name in SOURCES.keys() & locked.keys():
            source = Path(folder, f"{name}.txt")
            source.write_text(locked[name], encoding="utf-8")
            _pip("download", "--require-hashes", "--no-deps", "--no-binary", ":all:", "--dest", folder, "-r", source)
            (archive,) = Path(folder).glob(f"{name}-*.tar.gz")
            _unpack(archive, SOURCES[name], directory / name)


def _unpack(archive: Path, inside: str, to: Path) -> None:
    with tarfile.open(archive) as opened, tempfile.TemporaryDirectory() as folder:
        guarded(opened).extractall(folder)
        (unpacked,) = Path(folder).iterdir()
        shutil.copytree(unpacked / inside, to)


def install_project(directory: Path, project: Path) -> None:
    """Installs the package itself, as the wheel that is published."""
    with tempfile.TemporaryDirectory() as folder:
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, project)
        _pip("install", "--no-deps", "--no-compile", "--target", directory, *Path(folder).glob("*.whl"))


def prune(directory: Path) -> None:
    """Leaves out what an image has no use for; of Helm's library one copy stays of three."""
    for pattern in _LEFT_OUT:
        for path in list(directory.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    copies = sorted((directory / _HELM).glob("libhelm_c.so*"))
    for path in copies[:-1]:
        path.unlink()


def compiled(directory: Path, *, strip: str = "", name: str = "") -> bool:
    """Compiles every module, to be trusted without a look at its source: nobody can change an image."""
    return bool(
        compileall.compile_dir(
            directory,
            quiet=1,
            stripdir=strip or str(directory),
            prependdir=name or None,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    )


def is_this_python(version: str) -> bool:
    """Whether modules that this Python compiles are read by that one."""
    return version == "{}.{}".format(*sys.version_info)


def _pip(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *map(str, arguments)], check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: DIRECTORY is made new."""
    parser = argparse.ArgumentParser(description="Put the packages of an image into a folder.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--requirements", type=Path, required=True, help="the locked packages")
    parser.add_argument("--project", type=Path, help="the package itself, to be installed too")
    parser.add_argument("--machine", default="x86_64", help="what the image is for: x86_64 or aarch64")
    parser.add_argument("--python", default="3.11", help="the Python of the image")
    parser.add_argument("--installed-at", default="/opt/edgewright", help="where the packages are in the image")
    options = parser.parse_args(arguments)
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    install(options.directory, options.requirements, machine=options.machine, python=options.python)
    if options.project is not None:
        install_project(options.directory, options.project)
    prune(options.directory)
    if is_this_python(options.python):
        compiled(options.directory, name=options.installed_at)
    return 0


if __name__ == "__main__":
    sys.exit(main())
