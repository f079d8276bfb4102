"""Makes a virtual environment with pip in it, in a third of the time that `python -m venv` takes.

The Makefile calls it with the Python that is to be used. The standard way runs pip out of its packed wheel to install
pip; here the wheel that Python brings along is unpacked, which gives the same files. Where there is no such wheel, the
standard way is taken. Nothing but the standard library is needed.
"""

from __future__ import annotations

import ensurepip
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

_WARM = "import pip._internal.cli.main, pip._internal.commands.install, pip._internal.resolution.resolvelib.resolver"


def bundled_pip() -> Path | None:
    """The wheel of pip that belongs to this Python: its own, or that of the distribution."""
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), Path(ensurepip.__file__).parent / "_bundled"]
    found = [wheel for folder in folders if folder for wheel in sorted(Path(folder).glob("pip-*.whl"))]
    return found[0] if found else None


def make(folder: Path) -> None:
    """The environment; one that is there already keeps what it has."""
    venv.EnvBuilder(symlinks=True).create(folder)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    python = folder / "bin" / "python"
    if (packages / "pip").exists():
        return
    wheel = bundled_pip()
    if wheel is None:
        subprocess.run([python, "-m", "ensurepip", "--upgrade", "--default-pip"], check=True)
        return
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # Compiled once, also where people have turned that off: several processes of pip are started next.
    compiling = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([python, "-c", _WARM], check=False, env=compiling)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
