"""`make release`: what it writes, and that the packages in it work alone, in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from edgewright import __version__
from edgewright.cli import edge
from edgewright.gateway.certificates import Authority, Issued
from edgewright.runtime import config
from tests.images.stage import Builder

NAME = f"edgewright-{__version__}"
BOTH = ("x86_64", "aarch64")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with images for this machine alone: that those of both can be built is another test's."""
    return Builder(tmp_path_factory.mktemp("release"), "x86_64").release("RELEASE_ARCHES=x86_64")


def test_the_checksums_are_those_of_all_that_is_there(release: Path) -> None:
    folder = release / NAME
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    files = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    assert files - listed == {"SHA256SUMS"}
    assert {
        *(f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz", "install.yaml", f"edgewright-chart-{__version__}.tgz"),
        *("images/edgewright.tar", "images/edgewright-charts.tar"),
    } <= files
    with tarfile.open(release / f"{NAME}-offline.tar") as bundle:
        assert {f"{NAME}-offline/{each}" for each in files} == set(bundle.getnames())


def test_the_wheels_are_for_both_machines(release: Path) -> None:
    names = [each.name for each in (release / NAME / "wheels").glob("*.whl")]
    compiled = {machine: {each.split("-")[0] for each in names if each.endswith(f"_{machine}.whl")} for machine in BOTH}
    assert compiled["x86_64"] == compiled["aarch64"]
    assert {"msgspec", "aiohttp", "cryptography"} <= compiled["aarch64"]


def test_the_installer_has_the_image_by_the_digest_that_is_in_the_bundle(release: Path) -> None:
    with tarfile.open(release / NAME / "images/edgewright.tar") as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        (entry,) = json.loads(index.read())["manifests"]
    text = (release / NAME / "install.yaml").read_text()
    image = f"edgewright/edgewright@{entry['digest']}"
    assert text.splitlines()[0].startswith(f"# Edgewright with the image {image}.")
    (manager,) = (
        each["spec"]["template"]["spec"]["containers"][0]
        for each in yaml.safe_load_all(text)
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "edgewright-controller-manager"
    )
    assert manager["image"] == image
    assert f"--flasher-image={image}" in manager["args"]


def test_the_packages_have_the_consoles_page(release: Path) -> None:
    page = "edgewright/console/static/index.html"
    with zipfile.ZipFile(release / NAME / f"{NAME}-py3-none-any.whl") as wheel:
        assert page in wheel.namelist()
    with tarfile.open(release / NAME / f"{NAME}.tar.gz") as sdist:
        assert f"{NAME}/src/{page}" in sdist.getnames()


def run(folder: Path, *command: str | Path) -> str:
    """What a command prints that knows nothing of our environment, with a folder as its home."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("package", [f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz"], ids=["wheel", "sdist"])
def test_a_package_works_alone_and_runs_the_demo(package: str, release: Path, tmp_path: Path) -> None:
    run(tmp_path, sys.executable, "-m", "venv", tmp_path / "venv")
    program = tmp_path / "venv/bin"
    folder = release / NAME
    offline = ("--quiet", "--no-index", "--find-links", folder / "wheels")
    run(
        tmp_path, program / "python", "-m", "pip", "install", *offline, f"edgewright[local] @ file://{folder / package}"
    )
    run(tmp_path, program / "edgewright", "demo")


def test_a_device_without_a_network_gets_its_agent_from_an_offline_bundle(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `edge bundle --offline` says that it is done; pip has the release's wheels in the place of an index."""
    authority = Authority.create(datetime.now(UTC))

    async def read(_: config.Config) -> tuple[Issued, Issued, set[str]]:
        return authority.issued, authority.registration(datetime.now(UTC)), {"127.0.0.1"}

    monkeypatch.setattr(edge, "read_bundle", read)
    monkeypatch.setattr(config, "load", lambda **_: config.Config(server="https://x"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(release / NAME / "wheels"))
    bundle = tmp_path / "bundle"
    edge.bundle(bundle, server="127.0.0.1", device_id="one", offline=True)
    run(tmp_path, sys.executable, "-m", "venv", tmp_path / "venv")
    program = tmp_path / "venv/bin"
    offline = ("--quiet", "--no-index", "--find-links", bundle / "wheels")
    run(tmp_path, program / "python", "-m", "pip", "install", *offline, "edgewright")
    assert f"edgewright {__version__}" in run(tmp_path, program / "edgewright", "version").splitlines()
    said = run(tmp_path, program / "edgewright", "agent", "--check", "--config", bundle / "config.toml")
    assert said == f"{bundle / 'config.toml'}: device one, gateway 127.0.0.1:8043\n"
