"""`edgewright flux run` that is interrupted, on a control plane without an operator: the command never starts."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgewright.api.minicluster import MiniCluster
from edgewright.runtime.client import Client
from tests.unit.cli.command import PROGRAM, environment
from tests.unit.cli.typed import Plane, typed

LIMIT = 60


@contextmanager
def run(plane: Plane, name: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`edgewright flux run`, which has made its MiniCluster and follows it."""
    words = ["flux", "run", "--name", name, *options, "--kubeconfig", str(plane.kubeconfig), "image", "--", "true"]
    with subprocess.Popen([PROGRAM, *words], stderr=subprocess.PIPE, text=True, env=environment()) as running:
        try:
            assert running.stderr is not None
            assert running.stderr.readline().startswith(f"MiniCluster {name} is made;")
            yield running
        finally:
            running.kill()


def left(plane: Plane) -> dict[str, MiniCluster]:
    """The mini-clusters that there are."""

    async def ask(client: Client) -> dict[str, MiniCluster]:
        page = await client.of(MiniCluster).list("default")
        return {each.metadata.name: each for each in page.items}

    return plane.do(ask)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_deletes_the_mini_cluster_and_says_so(plane: Plane, number: signal.Signals) -> None:
    name = f"stopped-{number.name.lower()}"
    with run(plane, name) as running:
        running.send_signal(number)
        _, said = running.communicate(timeout=LIMIT)
    assert (running.returncode, said.splitlines()) == (130, [f"Interrupted: MiniCluster {name} is being deleted."])
    assert name not in left(plane)


def test_ctrl_c_leaves_a_mini_cluster_that_is_to_be_kept(plane: Plane) -> None:
    with run(plane, "kept", "--keep", "--rm") as running:
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=LIMIT)
    assert running.returncode == 130
    after = f"`edgewright flux delete kept --kubeconfig {plane.kubeconfig}` ends it."
    assert said.splitlines() == [f"Interrupted: MiniCluster kept goes on; {after}"]
    assert "kept" in left(plane)


def test_detached_it_prints_the_name_and_waits_for_nothing(plane: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--detach", "--rm", "--kubeconfig", plane.kubeconfig)
    done = typed(capsys, "flux", "run", *options, "image", "--", "true")
    name = done.out.strip()
    assert (done.code, done.err) == (0, ""), done
    assert left(plane)[name].spec.cleanup
