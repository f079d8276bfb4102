"""The wheels of a bundle for devices without a network: our own, made from what runs here, and those that it needs.

`edge bundle --offline` calls it. Our own wheel holds exactly the code that writes the bundle, also where that was never
published; the others are fetched by pip, for the platform of the devices where that is another.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

import edgewright
from edgewright.cli.failure import Failed

_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: edgewright\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_SECONDS: Final = 900.0
_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The time of each file: the same code gives the same wheel."""


def own_wheel(folder: Path) -> Path:
    """Writes a wheel of this very program."""
    root = Path(edgewright.__file__).parent
    found = metadata.distribution("edgewright")
    info = f"edgewright-{edgewright.__version__}.dist-info"
    files = {
        f"edgewright/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in ("METADATA", "entry_points.txt"):
        files[f"{info}/{name}"] = (found.read_text(name) or "").encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()
    target = folder / f"edgewright-{edgewright.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)
    return target


def record(files: dict[str, bytes], own: str) -> str:
    """The list of files that a wheel holds, with their hashes."""
    rows = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*rows, f"{own},,", ""])


def download_command(wheel: Path, *, platforms: Sequence[str], python: str) -> list[str]:
    """What fetches the wheels that ours needs; for this machine where no platform is named."""
    chosen = [part for each in platforms for part in ("--platform", each)]
    version = ["--python-version", python] if python else []
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--only-binary", ":all:", *chosen, *version, "--dest", str(wheel.parent), str(wheel)),
    ]


def gather(folder: Path, *, platforms: Sequence[str] = (), python: str = "") -> list[str]:
    """Puts all wheels into a new folder and gives their names; Failed where pip cannot have one."""
    folder.mkdir(mode=0o700)
    wheel = own_wheel(folder)
    command = download_command(wheel, platforms=platforms, python=python)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"the wheels cannot be fetched: {error}") from None
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.strip()] or ["pip failed"]
        raise Failed(f"the wheels cannot be fetched: {words[-1].strip()}: run this where pip can reach an index")
    return sorted(path.name for path in folder.iterdir())
