"""Installs what a locked requirements file names into the environment that runs this, in parts side by side.

The Makefile calls it for .venv. pip spends most of its time on reading the lists of all releases of each package; the
file names every package with its hashes, so nothing has to be resolved: `wheels` fetches the files, and a few processes
of pip share the work. What is there in the right version is left alone; nothing but pip and the standard library is
needed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hack import wheels  # the program is started by its path

_PARTS = 4
_LAST = "pip"
"""It is the one that installs the others, so it is replaced when they are done."""
_NAME = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)")


def entries(text: str) -> dict[str, tuple[str, str]]:
    """The packages of a locked file by name, each with its version and its lines."""
    found: dict[str, tuple[str, str]] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if line.startswith(("#", "-")) or not line.strip():
            continue
        if begins := _NAME.match(line):
            name = re.sub(r"[-_.]+", "-", begins[1]).lower()
            found[name] = (begins[2], line)
        elif name:
            found[name] = (found[name][0], found[name][1] + line)
    return found


def missing(locked: dict[str, tuple[str, str]]) -> dict[str, str]:
    """The lines of the packages that are not there in the version that is locked."""
    there = {re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower(): each.version for each in distributions()}
    return {name: lines for name, (version, lines) in locked.items() if there.get(name) != version}


def parts(wanted: dict[str, str]) -> list[list[str]]:
    """The same packages in parts that take about the same time."""
    others = [lines for name, lines in wanted.items() if name != _LAST]
    return [share for start in range(_PARTS) if (share := others[start::_PARTS])]


def main(files: list[str]) -> int:
    """Installs what the files name; the exit code of the first part that failed."""
    locked: dict[str, tuple[str, str]] = {}
    for file in files:
        locked |= entries(Path(file).read_text(encoding="utf-8"))
    wanted = {name: lines for name, lines in missing(locked).items() if wheels.is_meant(lines)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        fetched = _fetched({name: lines for name, lines in wanted.items() if name != _LAST}, folder)
        rest = {name: lines for name, lines in wanted.items() if name not in fetched}
        by_size = sorted(fetched.values(), key=lambda path: path.stat().st_size)
        running = [_pip("--no-index", *map(str, share)) for half in (0, 1) if (share := by_size[half::2])]
        running += [_install(share, folder / f"{number}.txt") for number, share in enumerate(parts(rest))]
        codes = [each.wait() for each in running]
        if _LAST in wanted and not any(codes):
            codes.append(_install([wanted[_LAST]], folder / "last.txt").wait())
    return next((code for code in codes if code), 0)


def _fetched(wanted: dict[str, str], folder: Path) -> dict[str, Path]:
    """The files that need no pip to be found; none where pip is told of its index in a way that is not known here."""
    try:
        index = wheels.configured()
    except Exception as error:  # whatever: pip itself will know, or say what is wrong
        print(f"the index is left to pip: {error}", file=sys.stderr)
        return {}
    return wheels.fetch(wanted, folder, index=index, tags=wheels.own_tags())


def _install(lines: list[str], file: Path) -> subprocess.Popen[bytes]:
    file.write_text("".join(lines), encoding="utf-8")
    return _pip("--require-hashes", "-r", str(file))


def _pip(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
