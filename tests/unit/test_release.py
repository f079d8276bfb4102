"""The parts of a release: the chart's package, images of several machines as one, checksums, and packages of images."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from edgewright import __version__
from hack import base_image, chart, image_packages, release
from hack.archives import guarded

ROOT = Path(__file__).resolve().parents[2]


def archive_of(folder: Path, machine: str) -> Path:
    """An OCI archive as buildah writes one."""
    file = folder / f"{machine}.tar"
    with tarfile.open(file, "w") as archive:

        def add(data: bytes, name: str = "") -> dict[str, Any]:
            digest = hashlib.sha256(data).hexdigest()
            member = tarfile.TarInfo(name or f"blobs/sha256/{digest}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            return {"mediaType": "x", "digest": f"sha256:{digest}", "size": len(data)}

        config = add(json.dumps({"architecture": machine, "os": "linux"}).encode())
        layer = add(f"layer of {machine}".encode())
        manifest = add(json.dumps({"config": config, "layers": [layer]}).encode())
        add(json.dumps({"manifests": [manifest]}).encode(), "index.json")
    return file


def test_images_of_several_machines_become_one_with_one_digest(tmp_path: Path) -> None:
    archives = [archive_of(tmp_path, machine) for machine in ("amd64", "arm64")]
    digest = release.join(archives, tmp_path / "all.tar", tag="1.0")
    with tarfile.open(tmp_path / "all.tar") as archive:
        content = {each.name: archive.extractfile(each).read() for each in archive.getmembers()}  # type: ignore[union-attr]
    (entry,) = json.loads(content["index.json"])["manifests"]
    assert entry["digest"] == digest
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "1.0"}
    index = json.loads(content[f"blobs/sha256/{digest.removeprefix('sha256:')}"])
    assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
    for name, data in content.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
    assert len(content) == 2 + 2 * 3 + 1


def test_the_package_of_the_chart_is_the_same_for_the_same_chart(tmp_path: Path) -> None:
    for name in ("a.tgz", "b.tgz"):
        assert release.main(["chart", str(ROOT / "charts/edgewright"), str(tmp_path / name)]) == 0
    assert (tmp_path / "a.tgz").read_bytes() == (tmp_path / "b.tgz").read_bytes()
    with tarfile.open(tmp_path / "a.tgz") as archive:
        assert {"edgewright/Chart.yaml", "edgewright/values.schema.json", "edgewright/templates/manager.yaml"} <= set(
            archive.getnames()
        )


def test_a_bundle_has_the_checksums_of_all_that_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    (folder / "images").mkdir(parents=True)
    (folder / "images/a.tar").write_text("a")
    (folder / "b").write_text("b")
    assert release.main(["finish", str(folder), str(tmp_path / "offline.tar")]) == 0
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)
    with tarfile.open(tmp_path / "offline.tar") as archive:
        assert archive.getnames() == ["offline/SHA256SUMS", "offline/b", "offline/images/a.tar"]


def test_wheels_are_downloaded_for_each_machine_and_what_has_none_as_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command))
    locked = tmp_path / "locked.txt"
    locked.write_text("crcmod==1.7 \\\n    --hash=sha256:0\nx==1 \\\n    --hash=sha256:1\n")
    release.main(
        ["wheels", str(tmp_path / "w"), "--requirements", str(locked), "--machines", "x86_64", "aarch64"]
    )  # fmt: skip
    assert [("manylinux2014_x86_64" in each, "manylinux2014_aarch64" in each) for each in ran] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert list((tmp_path / "w").iterdir()) == []


def test_the_generated_files_of_the_chart_are_current(tmp_path: Path) -> None:
    files = chart.files()
    assert chart.write(ROOT / "charts/edgewright", files, check=True) == []
    assert len(chart.write(tmp_path, files)) == len(files)
    (tmp_path / "templates/old.yaml").write_text(chart.GENERATED)
    (tmp_path / "templates/own.yaml").write_text("mine")
    assert chart.write(tmp_path, files) == [tmp_path / "templates/old.yaml"]
    assert (tmp_path / "templates/own.yaml").exists()
    assert chart.main([str(tmp_path), "--check"]) == 0


def test_of_helms_library_one_copy_stays_and_modules_are_compiled(tmp_path: Path) -> None:
    library = tmp_path / "helm_python/lib"
    library.mkdir(parents=True)
    for name in ("libhelm_c.so", "libhelm_c.so.0", "libhelm_c.so.0.2.2"):
        (library / name).write_text("x")
    for name in ("bin/tool", "other/tests/test_a.py", "other/__init__.pyi", "other/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    image_packages.prune(tmp_path)
    assert [each.name for each in library.iterdir()] == ["libhelm_c.so.0.2.2"]
    assert image_packages.compiled(tmp_path, name="/opt/edgewright")
    kept = {str(each.relative_to(tmp_path)) for each in (tmp_path / "other").rglob("*") if each.is_file()}
    assert kept == {"other/__init__.py", "other/__pycache__/__init__.cpython-311.pyc"}
    assert image_packages.is_this_python("2.7") is False


def test_what_scripts_of_packages_would_write_is_in_the_base(tmp_path: Path) -> None:
    for name, text in (("etc/hostname", ""), ("usr/share/ca-certificates/mozilla/a.crt", "one\n")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    assert base_image.main([str(tmp_path), "--finish"]) == 0
    assert "edgewright:x:65532:65532" in (tmp_path / "etc/passwd").read_text()
    assert (tmp_path / "etc/ssl/certs/ca-certificates.crt").read_text() == "one\n"


def test_a_machine_that_is_no_debian_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(base_image, "_SOURCES", ())
    assert base_image.main([str(tmp_path / "base.tar")]) == 1
    assert "name another base with BASE_IMAGE" in capsys.readouterr().err


def test_the_installer_that_upgrades_are_tested_from_is_that_of_the_last_version() -> None:
    kept = ROOT / "tests/node/previous-install.yaml.gz"
    first = gzip.decompress(kept.read_bytes()).decode().partition("\n")[0]
    found = re.fullmatch(r"# Edgewright with the image [^ ]+:([0-9.]+)\. Made by: .*", first)
    assert found
    assert number(found[1]) < number(__version__), "it is that of this version"
    tags = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    released = [each.removeprefix("v") for each in tags.split() if re.fullmatch(r"v[0-9]+\.[0-9]+\.[0-9]+", each)]
    before = [number(each) for each in (found[1], *released) if number(each) < number(__version__)]
    assert max(before) == number(found[1]), f"see tests/node/test_2_upgrade.py for how to keep that of {max(before)}"


def number(version: str) -> tuple[int, ...]:
    """A version, to be compared."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", version)[:3])


@pytest.mark.parametrize("known", [True, False], ids=["this Python", "a Python without filters"])
def test_archives_are_unpacked_on_every_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    (tmp_path / "a").write_text("inside")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "a", "a")
    if not known:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with tarfile.open(tmp_path / "a.tar") as archive:
        guarded(archive).extractall(tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "a").read_text() == "inside"
