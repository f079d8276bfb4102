"""What the benchmark programs share: a control plane, objects on it, peers as processes, ratios with goals, the report.

Every program takes `--json` and then prints one object last: {"bench", "ratios", "goals", "met"}; without it, a table
for people. A goal is a comparison in a string ("<=1.15"), so that the report can show it as it is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import operator
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewright.runtime import Client, Kind, Resource, config
from tests.harness.controlplane import ControlPlane

ROOT = Path(__file__).resolve().parents[1]
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass
class Outcome:
    """What a program found: a table for people, and ratios with goals for machines."""

    bench: str
    ratios: dict[str, float] = field(default_factory=dict)
    goals: dict[str, str] = field(default_factory=dict)
    columns: Sequence[str] = ()
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, goal: str | None = None) -> None:
        """Notes a ratio or number, and what it should be."""
        self.ratios[name] = round(value, 3)
        if goal is not None:
            self.goals[name] = goal

    @property
    def met(self) -> bool:
        """Whether every goal is met."""
        return all(meets(self.ratios[name], goal) for name, goal in self.goals.items())

    def as_json(self) -> str:
        """The line that programs read."""
        fields = {"bench": self.bench, "ratios": self.ratios, "goals": self.goals, "met": self.met}
        return json.dumps({**fields, "columns": list(self.columns), "rows": self.rows, "notes": self.notes})

    def as_text(self) -> str:
        """The same for people."""
        table = [list(self.columns), *map(list, self.rows)]
        widths = [max(len(row[i]) for row in table) for i in range(len(self.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        for name, value in self.ratios.items():
            goal = self.goals.get(name)
            verdict = "" if goal is None else f"  (goal {goal}: {'met' if meets(value, goal) else 'MISSED'})"
            lines.append(f"{name}: {value:g}{verdict}")
        return "\n".join([*lines, *self.notes])


def meets(value: float, goal: str) -> bool:
    """Whether a value fulfils a goal such as "<=1.15"."""
    return _COMPARISONS[goal[:2]](value, float(goal[2:]))


def arguments(description: str | None, **more: Mapping[str, Any]) -> argparse.Namespace:
    """The arguments of a benchmark program: --json and its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    for name, options in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **options)
    return parser.parse_args()


def finish(outcome: Outcome, *, as_json: bool) -> int:
    """Prints what was found; the exit code is that of a program that did its work, whether goals were met or not."""
    print(outcome.as_text(), file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(outcome.as_json())
    return 0


def progress(text: str) -> None:
    """One line on what goes on, out of the way of the results."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def control_plane(**settings: Any) -> AbstractContextManager[ControlPlane]:
    """A real API server with nothing else on it."""
    return ControlPlane(**settings)


def peer_environment(checkout: Path = ROOT) -> dict[str, str]:
    """Python compiles each module once, as in an installation: what is measured is not the compiler."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **environment,
        "PYTHONPATH": str(checkout / "src"),
        "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"),
    }


def run_peer(command: Sequence[str], *, checkout: Path = ROOT, timeout: float = 600) -> dict[str, float]:
    """Runs one peer of a checkout to its end and returns the JSON of its last line."""
    done = subprocess.run(
        command,
        cwd=checkout,
        env=peer_environment(checkout),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def median(runs: Iterable[Mapping[str, float]], name: str) -> float:
    """The median of one number over several runs."""
    return statistics.median(run[name] for run in runs)


async def create_all(client: Client, objects: Sequence[Resource], *, at_once: int = 32) -> None:
    """Creates many objects."""
    todo = iter(objects)

    async def work() -> None:
        for obj in todo:
            await client.of(type(obj)).create(obj)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def delete_all(client: Client, kind: Kind, namespace: str) -> None:
    """Deletes every object of a kind in a namespace."""
    await client.transport.request("DELETE", kind.path(namespace), timeout=120)


def client_for(plane: ControlPlane, *, connections: int = 32) -> Client:
    """A client as the administrator."""
    return Client(config.load(kubeconfig=plane.kubeconfig), connections=connections, timeout=60)
