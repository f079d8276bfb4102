"""What tests with edge devices share: the image that workloads run, made once."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edge.embedded import IMAGE, Embedded
from tests.edge.machine import Machine, build, build_image, install
from tests.edge.site import Site
from tests.harness import LocalPlane
from tests.harness.fixtures import run
from tests.harness.processes import free_port
from tests.public_charts.image import CONTAINERFILE


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of the workloads as a docker-archive."""
    return build_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def _one_machine(image: Path) -> Iterator[Machine]:
    with Machine() as made:
        made.load(image)
        yield made


@pytest.fixture
def machine(_one_machine: Machine) -> Iterator[Machine]:
    """A device that is used by one test after the other, empty, with the image."""
    yield _one_machine
    _one_machine.clear()


@pytest.fixture(scope="module")
def _one_site(request: pytest.FixtureRequest, _one_machine: Machine) -> Iterator[Site]:
    port = free_port()
    make = functools.partial(LocalPlane, operator=True, arguments=Site.options(_one_machine, port))
    for plane in run(request, make):
        yield Site(plane, _one_machine, port)


@pytest.fixture
def site(_one_site: Site, machine: Machine) -> Iterator[Site]:
    """`edgewright up --gateway` next to a device, used by one test after the other, empty."""
    yield _one_site
    _one_site.clear()


@pytest.fixture(scope="session")
def shop_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A web server that greets, as a docker-archive."""
    install()
    return build(tmp_path_factory.mktemp("shop"), IMAGE, CONTAINERFILE)


@pytest.fixture(scope="module")
def embedded(shop_image: Path) -> Iterator[Embedded]:
    """`edgewright up` whose node has podman, and a registry with one image."""
    with Machine() as machine:
        made = Embedded(machine, "--image", "shell=/bin/sh -c")
        made.start()
        made.push(shop_image, IMAGE)
        try:
            yield made
        finally:
            made.close()
