"""One model of a mini-cluster from Flux and FluxSetup, and what keeps it from being made."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from edgewright.api.fluxsetup import ConfigText, FluxSetupSpec
from edgewright.controllers.minicluster.conversion import cluster_of
from edgewright.controllers.minicluster.model import LaunchedCluster, Problem
from edgewright.controllers.minicluster.page import PAGE_COMMAND
from tests.unit.controllers.minicluster.samples import cluster, flux, setup


def problem(*given: Any) -> Problem:
    found = cluster_of(*given)
    assert isinstance(found, Problem)
    return found


def test_a_flux_alone_gets_a_set_up_of_one_worker() -> None:
    found = cluster()
    assert (found.size, found.image, found.command) == (1, "fluxrm/flux-sched:focal", ("sleep", "2"))
    assert found.hostfile == "one-launcher\none-0\n"
    assert tomllib.loads(found.broker)["bootstrap"]["hosts"] == [{"host": "one-launcher"}, {"host": "one-0"}]
    assert found.certificate is None
    assert (found.service, found.launcher) == ("one-workers", "one-launcher")
    assert (found.config, found.secret) == ("one-flux-config", "one-curve-certificate")


def test_a_set_up_says_how_many_workers_there_are() -> None:
    found = cluster(setup(size=3))
    assert found.hostfile.split() == ["one-launcher", "one-0", "one-1", "one-2"]
    assert tomllib.loads(found.broker)["bootstrap"]["hosts"][1] == {"host": "one-[0-2]"}


def test_given_texts_are_taken() -> None:
    spec = FluxSetupSpec(hostfile=ConfigText(config="mine\n"), broker=ConfigText(config="[tbon]\nx = 1\n"))
    found = cluster(setup(spec=spec))
    assert found.hostfile == "mine\n"
    assert tomllib.loads(found.broker)["tbon"] == {"x": 1}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sleep", ("sleep",)),
        ("sh -c 'echo a  b; exit 3'", ("sh", "-c", "echo a  b; exit 3")),
        ('flux run -n 4 "a b"', ("flux", "run", "-n", "4", "a b")),
    ],
)
def test_a_command_is_split_as_a_shell_splits_it(command: str, words: tuple[str, ...]) -> None:
    assert cluster(command=command).command == words


def test_a_port_without_a_command_serves_the_greeting() -> None:
    found = cluster(command=None, port=8080, greeting="Moo")
    assert (found.command, found.port, found.greeting) == (PAGE_COMMAND, 8080, "Moo")
    compile(PAGE_COMMAND[2], "page", "exec")


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ((flux(command="sh -c 'open"), None), "spec.command", "InvalidCommand"),
        ((flux(command="  "), None), "spec.command", "InvalidCommand"),
        ((flux(command="  ", port=80), None), "spec.command", "InvalidCommand"),
        ((flux(command=None), None), "spec.command", "InvalidCommand"),
        ((flux(name="a" * 53), None), "metadata.name", "InvalidName"),
        ((flux(name="1st"), None), "metadata.name", "InvalidName"),
        ((flux(name="a.b"), None), "metadata.name", "InvalidName"),
        ((flux(), setup(hostfile="kind: Pod\n")), "spec.hostfile.config", "InvalidSetup"),
        ((flux(), setup(broker="= no")), "spec.broker.config", "InvalidSetup"),
        ((flux(), setup(cert="no")), "spec.cert.config", "InvalidSetup"),
    ],
)
def test_what_cannot_be_made_names_the_field(given: Any, field: str, reason: str) -> None:
    found = problem(*given)
    assert (found.field, found.reason) == (field, reason)
    assert found.text.startswith(f"{'FluxSetup ' if reason == 'InvalidSetup' else ''}{field} ")


PINNED = ("c3a310bc2a4f31ef2a14e578090bcd65", "2bf22e80354b2a6bb3ad2d4292b28950")


def digests(found: LaunchedCluster) -> tuple[str, str]:
    return found.workers_digest, found.digest


def test_a_changed_command_runs_again_and_leaves_the_workers_alone() -> None:
    one, other = digests(cluster(command="a")), digests(cluster(command="b"))
    assert (one[0] == other[0], one[1] == other[1]) == (True, False)


@pytest.mark.parametrize("changed", [cluster(setup(size=2)), cluster(image="other"), cluster(setup(broker="[a]\n"))])
def test_what_concerns_brokers_starts_the_workers_again(changed: LaunchedCluster) -> None:
    assert all(one != other for one, other in zip(digests(changed), digests(cluster()), strict=True))


def test_the_same_spec_has_the_same_digests_for_ever() -> None:
    # Written down: another digest would run finished commands again after an upgrade.
    assert digests(cluster(command="sleep 2")) == PINNED
