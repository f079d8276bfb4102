"""The parts of a release that no other program makes: `python -m hack.release STEP …`, run by `make release`.

It packs the chart, joins the images of several machines into one archive with one digest, downloads the wheels for
each machine, writes checksums and the offline bundle. It pushes nothing and writes only where it is told to.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from hack.image_packages import PLATFORMS, SOURCES
from hack.install import entries

_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_NAME: Final = "org.opencontainers.image.ref.name"
SUMS: Final = "SHA256SUMS"


def pack(chart: Path, file: Path) -> None:
    """A chart as Helm packs it, the same bytes for the same chart."""
    with (
        file.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for path in sorted(each for each in chart.rglob("*") if each.is_file()):
            _add(archive, f"{chart.name}/{path.relative_to(chart)}", path.read_bytes())


def join(archives: Sequence[Path], file: Path, *, tag: str) -> str:
    """One OCI archive with the images of several; the digest by which all of them are pulled, each by its machine."""
    blobs: dict[str, bytes] = {}
    images: list[dict[str, Any]] = []
    for path in archives:
        with tarfile.open(path) as archive:
            found = {each.name.removeprefix("./"): each for each in archive.getmembers() if each.isfile()}
            content = {name: _read(archive, each) for name, each in found.items()}
        blobs |= {name: data for name, data in content.items() if name.startswith("blobs/")}
        (entry,) = json.loads(content["index.json"])["manifests"]
        manifest = json.loads(content[_blob(entry["digest"])])
        machine = json.loads(content[_blob(manifest["config"]["digest"])])
        platform = {name: machine[name] for name in ("architecture", "os", "variant") if machine.get(name)}
        images.append({name: entry[name] for name in ("mediaType", "digest", "size")} | {"platform": platform})
    index = json.dumps({"schemaVersion": 2, "mediaType": _INDEX, "manifests": images}, separators=(",", ":")).encode()
    digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
    blobs[_blob(digest)] = index
    entry = {"mediaType": _INDEX, "digest": digest, "size": len(index), "annotations": {_NAME: tag}}
    with tarfile.open(file, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode())
        for name, data in sorted(blobs.items()):
            _add(archive, name, data)
    return digest


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = archive.extractfile(member)
    return b"" if opened is None else opened.read()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))


def wheels(folder: Path, requirements: Iterable[Path], *, machines: Iterable[str], python: str) -> None:
    """Downloads what locked files name, for each of these machines."""
    locked: dict[str, str] = {}
    for file in requirements:
        locked |= {name: lines for name, (_, lines) in entries(file.read_text(encoding="utf-8")).items()}
    folder.mkdir(parents=True, exist_ok=True)
    binary, source = folder / ".wheels.txt", folder / ".sources.txt"
    binary.write_text("".join(lines for name, lines in locked.items() if name not in SOURCES), encoding="utf-8")
    source.write_text("".join(lines for name, lines in locked.items() if name in SOURCES), encoding="utf-8")
    common = ["--quiet", "download", "--require-hashes", "--no-deps", "--dest", str(folder)]
    pip = [sys.executable, "-m", "pip", *common]
    try:
        for machine in machines:
            platforms = [part for name in PLATFORMS for part in ("--platform", f"{name}_{machine}")]
            chosen = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python, *platforms]
            subprocess.run([*pip, *chosen, "-r", str(binary)], check=True)
        if source.stat().st_size:
            subprocess.run([*pip, "--no-binary", ":all:", "-r", str(source)], check=True)
    finally:
        binary.unlink()
        source.unlink()


def checksums(folder: Path) -> None:
    """Writes the digests of all files of a folder, as sha256sum does and checks them."""
    files = sorted(each for each in folder.rglob("*") if each.is_file() and each.name != SUMS)
    lines = []
    for path in files:
        with path.open("rb") as opened:
            lines.append(f"{hashlib.file_digest(opened, 'sha256').hexdigest()}  {path.relative_to(folder)}\n")
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def bundle(folder: Path, file: Path) -> None:
    """Everything in one file, for a place without a network."""
    with tarfile.open(file, "w") as archive:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            archive.add(path, f"{file.stem}/{path.relative_to(folder)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="The parts of a release that no other program makes.")
    steps = parser.add_subparsers(dest="step", required=True)
    step = steps.add_parser("chart", help="pack the chart")
    step.add_argument("chart", type=Path)
    step.add_argument("file", type=Path)
    step = steps.add_parser("join", help="join OCI archives into one, and print its digest")
    step.add_argument("archives", type=Path, nargs="+")
    step.add_argument("--file", type=Path, required=True)
    step.add_argument("--tag", required=True)
    step = steps.add_parser("wheels", help="download the wheels")
    step.add_argument("folder", type=Path)
    step.add_argument("--requirements", type=Path, nargs="+", required=True)
    step.add_argument("--machines", nargs="+", required=True)
    step.add_argument("--python", default="3.11")
    step = steps.add_parser("finish", help="write checksums and the offline bundle")
    step.add_argument("folder", type=Path)
    step.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    if options.step == "chart":
        pack(options.chart, options.file)
    elif options.step == "join":
        print(join(options.archives, options.file, tag=options.tag))
    elif options.step == "wheels":
        wheels(options.folder, options.requirements, machines=options.machines, python=options.python)
    else:
        checksums(options.folder)
        bundle(options.folder, options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
