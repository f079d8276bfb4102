"""How the embedded control plane compares with the real one: etcd, which syncs its log, and kube-apiserver.

One load generator, in a process of its own, asks both in turn, so that a noisy machine is noisy for both; the numbers
are medians. A write counts when it is acknowledged, and both have it on the disk by then. The latency of a watch is
the time from sending a write until the watch tells of it. Whoever asks is an ordinary user with a role, whose rights
are looked at for every request.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from tests.harness import ControlPlane, LocalPlane, wait_until
from tests.harness.apiserver import ApiServer

OURS, REAL = "edgewright up", "etcd and kube-apiserver"
MAKE: dict[str, Callable[[], ApiServer]] = {OURS: LocalPlane, REAL: lambda: ControlPlane(fsync=True)}
LOAD = Path(__file__).with_name("load.py")
Numbers = dict[str, dict[str, list[float]]]


def memory_mb(plane: ApiServer) -> float:
    """What all processes of a control plane hold now."""
    total = 0
    for process in plane.processes:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total / 1024


def cpu_seconds(plane: ApiServer) -> float:
    """What all processes of a control plane have computed so far."""
    ticks = 0
    for process in plane.processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100


def ordinary(plane: ApiServer) -> Path:
    """The kubeconfig of a user that has a role and is no administrator, once the control plane knows of it."""
    rbac, user = "/apis/rbac.authorization.k8s.io/v1", "bench"
    rules = [{"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["*"]}]
    plane.request("POST", f"{rbac}/clusterroles", {"metadata": {"name": user}, "rules": rules})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    binding = {"metadata": {"name": user}, "roleRef": ref, "subjects": subjects}
    plane.request("POST", f"{rbac}/clusterrolebindings", binding)
    review = {"spec": {"user": user, "resourceAttributes": {"verb": "create", "resource": "configmaps"}}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    wait_until(lambda: plane.request("POST", path, review)["status"]["allowed"], what="the rights are known")
    return plane.kubeconfig_for(user)


class Turns:
    """Both control planes, asked in turn, and what came out."""

    def __init__(self, args: Namespace, planes: dict[str, ApiServer]) -> None:
        self._args = args
        self._planes = planes
        self._callers = {plane: ordinary(plane) for plane in planes.values()}
        self._number = 0
        self.numbers: Numbers = {name: {} for name in planes}

    def note(self, name: str, what: str, value: float) -> None:
        """Adds a measurement."""
        self.numbers[name].setdefault(what, []).append(value)

    def all(self) -> None:
        """Every measurement, so many times; who begins changes."""
        for turn in range(self._args.runs):
            order = list(self._planes.items())
            for name, plane in order if turn % 2 == 0 else reversed(order):
                self._one(name, plane)
            drive.progress(f"turn {turn + 1} of {self._args.runs} is done")

    def _one(self, name: str, plane: ApiServer) -> None:
        self._number += 1
        seconds = ("--seconds", str(self._args.seconds))
        for clients in (1, 32):
            prefix = f"turn-{self._number}-by-{clients}"
            before = cpu_seconds(plane)
            run = self._load(plane, "writes", "--prefix", prefix, "--clients", str(clients), *seconds)
            self.note(name, f"writes/s, {clients} clients", run["rate"])
            self.note(name, f"CPU ms per write, {clients} clients", 1000 * (cpu_seconds(plane) - before) / run["done"])
            before = cpu_seconds(plane)
            read = ("--objects", str(int(run["done"])))
            run = self._load(plane, "reads", "--prefix", prefix, "--clients", str(clients), *seconds, *read)
            self.note(name, f"reads/s, {clients} clients", run["rate"])
            self.note(name, f"CPU ms a read, {clients} clients", 1000 * (cpu_seconds(plane) - before) / run["done"])
        run = self._load(plane, "fan-out", "--prefix", f"turn-{self._number}-out", "--objects", "200", "--clients", "8")
        self.note(name, "events/s to 100 watchers", run["rate"])
        run = self._load(plane, "latency", "--prefix", f"turn-{self._number}-late", *seconds)
        self.note(name, "watch latency ms, p50", run["p50"])
        self.note(name, "watch latency ms, p99", run["p99"])

    def _load(self, plane: ApiServer, *arguments: str) -> dict[str, float]:
        return drive.run_peer([sys.executable, str(LOAD), *arguments, "--kubeconfig", str(self._callers[plane])])


def starts(args: Namespace, turns: Turns) -> None:
    """How long each takes from its start to the first good answer, from nothing; and what it holds then."""
    for _ in range(args.runs):
        for name, make in MAKE.items():
            plane = make()
            try:
                started = time.perf_counter()
                plane.start()
                turns.note(name, "seconds to the first answer", time.perf_counter() - started)
                turns.note(name, "MB when started", memory_mb(plane))
            finally:
                plane.stop()


def memory(args: Namespace, turns: Turns) -> None:
    """What each holds once it has so many objects."""
    for name, make in MAKE.items():
        with make() as plane:
            command = [sys.executable, str(LOAD), "fill", "--prefix", "many", "--objects", str(args.objects)]
            drive.run_peer([*command, "--kubeconfig", str(plane.kubeconfig)])
            turns.note(name, f"MB with {args.objects} objects", memory_mb(plane))


def summarise(numbers: Numbers, args: Namespace) -> drive.Outcome:
    """Medians, spreads, ratios and goals."""
    outcome = drive.Outcome("local", columns=("number", *numbers))

    def median(name: str, what: str) -> float:
        return statistics.median(numbers[name][what])

    for what in numbers[OURS]:
        cells = [
            f"{median(name, what):.3g} ({min(found[what]):.3g} to {max(found[what]):.3g})"
            for name, found in numbers.items()
        ]
        outcome.rows.append((what, *cells))

    def ratio(what: str, goal: str | None = None) -> None:
        outcome.add(f"{what} / the real one's", median(OURS, what) / median(REAL, what), goal)

    for clients, writes, reads in ((1, 0.75, 1), (32, 1.2, 3)):
        ratio(f"writes/s, {clients} clients", f">={writes}")
        ratio(f"reads/s, {clients} clients", f">={reads}")
    ratio("events/s to 100 watchers")
    ratio("watch latency ms, p50", "<=1")
    ratio("watch latency ms, p99", "<=1")
    ratio("seconds to the first answer", "<=0.25")
    outcome.add("seconds to the first answer", median(OURS, "seconds to the first answer"), "<=1")
    outcome.add(
        f"MB with {args.objects} objects", statistics.median(numbers[OURS][f"MB with {args.objects} objects"]), "<=110"
    )
    outcome.notes.append(
        f"{args.runs} turns of {args.seconds:g} s a measurement; objects of about a kilobyte; latency at 200 writes/s."
    )
    return outcome


def main() -> int:
    args = drive.arguments(
        __doc__,
        runs={"type": int, "default": 5, "help": "how many turns each control plane gets (default 5)"},
        seconds={"type": float, "default": 4.0, "help": "how long a measurement takes (default 4 s)"},
        objects={"type": int, "default": 10_000, "help": "how many objects memory is measured with (default 10000)"},
    )
    os.environ.update(drive.peer_environment())  # what is measured is not the compiler
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with ExitStack() as stack:
        planes = {name: stack.enter_context(make()) for name, make in MAKE.items()}
        turns = Turns(args, planes)
        turns.all()
    starts(args, turns)
    memory(args, turns)
    return drive.finish(summarise(turns.numbers, args), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
