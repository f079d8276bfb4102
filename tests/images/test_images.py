"""The images: small, for two machines, for any user, on a root that cannot be written to, and with no shell in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgewright import __version__
from tests.images.stage import CHARTS, MEGABYTE, OPERATOR, Builder, Image


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    made = Builder(tmp_path_factory.mktemp("images"), "x86_64")
    made.make("base-image", "docker-build", "docker-build-charts")
    return made


@pytest.fixture(scope="module")
def operator(builder: Builder) -> Image:
    return builder.unpacked(OPERATOR, "operator")


@pytest.fixture(scope="module")
def charts(builder: Builder) -> Image:
    return builder.unpacked(CHARTS, "charts")


def test_the_images_are_small(operator: Image, charts: Image) -> None:
    print(f"edgewright {operator.size / MEGABYTE:.1f} MB, edgewright-charts {charts.size / MEGABYTE:.1f} MB")
    assert operator.size <= 150 * MEGABYTE
    assert charts.size <= 260 * MEGABYTE


def test_the_image_is_nobody_in_particular_and_has_no_shell(operator: Image) -> None:
    assert operator.config["User"] == "65532:65532"
    assert operator.config["Entrypoint"] == ["python3", "-m", "edgewright"]
    names = {path.name for folder in ("bin", "usr/bin", "usr/local/bin") for path in (operator.root / folder).glob("*")}
    assert not names & {"sh", "bash", "dash", "ash", "busybox", "zsh"}


@pytest.mark.parametrize("user", [65532, 1000690000], ids=["its own user", "any other"])
def test_every_part_starts_as_any_user_on_a_root_that_cannot_be_written_to(operator: Image, user: int) -> None:
    done = operator.run("version", user=user)
    assert (done.returncode, done.stderr) == (0, "")
    assert __version__ in done.stdout
    for part in ("run", "gateway", "console", "cleanup"):
        done = operator.run(part, "--help", user=user)
        assert (done.returncode, done.stderr) == (0, ""), part


def test_the_flasher_is_in_the_same_image_with_the_drivers_of_every_protocol(operator: Image) -> None:
    done = operator.run("flasher", user=65532)
    assert done.returncode != 0, "it was told nothing that it could flash"
    assert "Traceback" not in done.stderr
    assert (operator.root / "opt/edgewright/smpclient").is_dir()


def test_the_console_of_the_image_has_its_page_with_all_that_it_names(operator: Image) -> None:
    static = operator.root / "opt/edgewright/edgewright/console/static"
    named = re.findall(r'(?:src|href)="/?([^"]+)"', (static / "index.html").read_text())
    assert any(each.endswith(".js") for each in named)
    assert [each for each in named if not (static / each).is_file()] == []


def test_modules_are_compiled_because_the_image_cannot_keep_what_it_compiles(operator: Image) -> None:
    for folder in ("opt/edgewright/edgewright", "opt/edgewright/aiohttp", "usr/lib/python3.11/asyncio"):
        assert list((operator.root / folder / "__pycache__").glob("*.pyc")), folder


def test_the_image_for_charts_has_one_copy_of_the_library(charts: Image) -> None:
    copies = list((charts.root / "opt/edgewright").rglob("libhelm_c.so*"))
    assert len(copies) == 1
    program = "import helm_python; print(helm_python.Chart)"
    python = Image(charts.root, {**charts.config, "Entrypoint": ["python3"]}, charts.size)
    done = python.run("-c", program, user=65532)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_images_for_arm64_start(tmp_path: Path) -> None:
    builder = Builder(tmp_path, "aarch64")
    builder.make("base-image", "docker-build", "docker-build-charts")
    for image, limit in ((builder.unpacked(OPERATOR, "operator"), 150), (builder.unpacked(CHARTS, "charts"), 260)):
        assert image.size <= limit * MEGABYTE
        done = image.run("version", user=65532, machine="aarch64")
        assert (done.returncode, done.stderr) == (0, "")
        assert __version__ in done.stdout
