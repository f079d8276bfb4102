"""Charts on one machine: `edgewright up` runs their Pods with podman, from a registry, as a cluster would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edge.embedded import IMAGE, Embedded
from tests.edge.machine import Machine
from tests.public_charts.life import Site, live


@pytest.fixture(scope="module")
def site(shop_image: Path) -> Iterator[Site]:
    """`edgewright up --runtime podman`, and an operator of all charts next to it."""
    with Machine() as machine:
        embedded = Embedded(machine, "--runtime", "podman")
        embedded.start()
        embedded.push(shop_image, IMAGE)
        made = Site(machine.folder, embedded.inside, lambda: left_by_pods(embedded), image=IMAGE)
        try:
            with made.operator():
                yield made
        finally:
            embedded.close()


def left_by_pods(embedded: Embedded) -> set[str]:
    """What podman has of Pods, and what lies on the disk for them."""
    found: set[str] = set()
    for kind in ("pod", "container", "volume", "secret"):
        names = embedded.typed("podman", kind, "ls", *(["-a"] if kind == "container" else []), "--format", "{{.Name}}")
        found |= {f"{kind} {name}" for name in names.split()}
    node = embedded.data / "node"
    return found | {str(path.relative_to(node)) for name in ("pods", "claims") for path in (node / name).glob("**/*")}


def test_charts_reach_ready_are_upgraded_rolled_back_and_removed_without_a_trace(site: Site) -> None:
    live(site)
