"""What the tests on a real node share: the cluster, its LAN and the operator, each started once in the room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.node.__main__ import IMAGES
from tests.node.cluster import RealCluster
from tests.node.lan import Pool, attach_devices
from tests.node.layout import POOL
from tests.node.operator_stage import Installation
from tests.node.room import FOLDER


@pytest.fixture(scope="session")
def cluster() -> Iterator[RealCluster]:
    """A real Kubernetes with a real node."""
    if FOLDER not in os.environ:
        pytest.skip("this suite runs in namespaces of its own: make node, or python -m tests.node")
    with RealCluster(Path(os.environ[FOLDER]), Path(os.environ[IMAGES])) as started:
        yield started


@pytest.fixture(scope="session")
def pool(cluster: RealCluster) -> Iterator[Pool]:
    """Who gives Services addresses of the LAN."""
    attach_devices()
    given = Pool(cluster, [str(each) for each in ip_network(POOL)])
    yield given
    given.close()


@pytest.fixture(scope="session")
def operator(cluster: RealCluster, pool: Pool) -> Installation:
    """Edgewright, installed."""
    installation = Installation(cluster, cluster.room)
    installation.make_namespace()
    installation.install()
    installation.until_available()
    return installation
