"""Makes the root of a base image from Debian's packages: `python -m hack.base_image FILE.tar [--machine aarch64]`.

`make base-image` runs it on a Debian, with mmdebstrap and the sources that its apt has. The result has Python and the
certificates of the usual authorities, and no shell. No script of a package is run, so that another machine's packages
do too; what those scripts would write is written here. Nothing but FILE is changed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hack.image_packages import compiled

DEBIAN: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Debian calls a machine."""
_ROOT: Final = Path(__file__).resolve().parents[1]
_SOURCES: Final = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
_PACKAGES: Final = "python3-minimal,libpython3-stdlib,ca-certificates,base-files,base-passwd,libc-bin,tzdata"
_LEFT_OUT: Final = (
    *("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/lintian/*", "/usr/share/perl5/*"),
    *("/usr/share/zoneinfo/right/*", "/usr/share/debconf/*", "/usr/lib/*/gconv/*", "/usr/lib/python3*/pydoc_data/*"),
    *("/usr/lib/python3*/test/*", "/usr/lib/python3*/unittest/test/*", "/usr/lib/python3*/lib2to3/tests/*"),
)
_USERS: Final = "root:x:0:0:root:/root:/sbin/nologin\nedgewright:x:65532:65532:edgewright:/:/sbin/nologin\n"
_GROUPS: Final = "root:x:0:\nedgewright:x:65532:\n"


def make(file: Path, *, machine: str) -> None:
    """Writes the root file system of a base image as a tar file."""
    sources = next((path for path in map(Path, _SOURCES) if path.exists()), None)
    if sources is None:
        raise ValueError("no sources of Debian's packages: run this on a Debian, or name another base with BASE_IMAGE")
    hook = shlex.join(["env", f"PYTHONPATH={_ROOT}", sys.executable, "-m", "hack.base_image", "--finish"])
    part = file.with_name(f"{os.getpid()}-{file.name}")  # another make may want the same file
    command: list[str | Path] = [
        *("mmdebstrap", "--quiet", "--variant=extract", f"--arch={DEBIAN[machine]}", f"--include={_PACKAGES}"),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
        *(f'--extract-hook={hook} "$1"', _release(), part, sources),
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(command, check=True)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _release() -> str:
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["VERSION_CODENAME"]


def finish(root: Path) -> None:
    """Writes what scripts of packages would: users, the bundle of certificates, and compiled modules."""
    etc = root / "etc"
    (etc / "passwd").write_text(_USERS, encoding="utf-8")
    (etc / "group").write_text(_GROUPS, encoding="utf-8")
    (etc / "ssl/certs").mkdir(parents=True, exist_ok=True)
    authorities = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = "".join(f"{path.read_text(encoding='utf-8').strip()}\n" for path in authorities)
    (etc / "ssl/certs/ca-certificates.crt").write_text(bundle, encoding="utf-8")
    for library in root.glob(f"usr/lib/python{sys.version_info.major}.{sys.version_info.minor}"):
        compiled(library, strip=str(root), name="/")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Make the root of a base image from Debian's packages.")
    parser.add_argument("path", type=Path, help="the tar file that is written")
    parser.add_argument("--machine", default="x86_64", choices=sorted(DEBIAN), help="what the image is for")
    parser.add_argument("--finish", action="store_true", help="write into the root at PATH what scripts would; for us")
    options = parser.parse_args(arguments)
    try:
        if options.finish:
            finish(options.path)
        else:
            make(options.path, machine=options.machine)
    except (ValueError, FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"make: the base image cannot be made: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
