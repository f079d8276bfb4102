"""What a release costs: the chart operator against the helm program in a loop, and a bare loop over the library.

On a real API server. Time is from the creation of the objects until all are Deployed; the helm program installs one
after the other without --wait, the bare loop with as many threads as the operator's Helm process has, and like it
without Helm's limit of requests per second. Then everything is settled: the operator is restarted, and Helm's actions,
effective writes and memory (with the Helm process) are told, and how long a foreign edit stands.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from bench.peers import build
from edgewright.controllers.chart.helm import UNLIMITED
from edgewright.controllers.chart.helm_program import WORKERS
from tests.cluster.charts.chart_stage import CHART, ChartStage, Operator, Weaks
from tests.harness import ControlPlane, wait_until

OURS, BARE, HELM = "edgewright", "bare loop over the library (the limit)", "helm program, one after the other"
_PATIENCE = 1800.0
_TICKS = os.sysconf("SC_CLK_TCK")


def processes_of(operator: Operator) -> list[int]:
    """The operator and its Helm process."""
    pid = operator.process.pid
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def cpu_of(pids: list[int]) -> float:
    """The CPU time of processes so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def memory_of(pids: list[int]) -> float:
    """Their resident memory in MB."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def states(weaks: Weaks) -> list[str]:
    """How each object's condition Deployed stands."""
    found = weaks.server.request("GET", weaks.path(""))["items"]
    return [
        next((one["status"] for one in each.get("status", {}).get("conditions", ()) if one["type"] == "Deployed"), "")
        for each in found
    ]


def of_operator(stage: ChartStage, where: str, count: int) -> dict[str, float]:
    """The operator installs; then another process of it finds all settled, and corrects an edit."""
    weaks = stage.in_namespace(where)
    with stage.operator(namespace=where, name="first") as operator:
        operator.until_said("Starting EventSource")
        weaks.create("warm-up")  # its Helm process is started with the first release
        weaks.until("warm-up", "Ready", "True")
        cpu, began = cpu_of(processes_of(operator)), time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: weaks.create(f"bench-{number}"), range(count)))
        # To list them all takes as long as to make one: they are listed when the operator has told of the last.
        wait_until(
            lambda: len(operator.said("Installed release")) > count,
            what="the operator has told of all",
            timeout=_PATIENCE,
            interval=0.25,
        )
        wait_until(lambda: states(weaks).count("True") == count + 1, what="all are deployed", timeout=_PATIENCE)
        seconds = time.monotonic() - began
        used = cpu_of(processes_of(operator)) - cpu
        weaks.until(f"bench-{count - 1}", "Ready", "True")
        memory = memory_of(processes_of(operator))
        began = time.monotonic()
        weaks.edit("bench-0", greeting="foreign")
        weaks.until_greeting("bench-0", "hello")
        corrected = time.monotonic() - began
    before = versions(weaks)
    with stage.operator(namespace=where, name="second") as operator:
        weaks.create("later")
        weaks.until("later", "Ready", "True")
        actions = len(operator.said("Installed release")) + len(operator.said("Upgraded release")) - 1
        writes = sum(before[path] != version for path, version in versions(weaks).items() if path in before)
    return {
        "seconds": seconds,
        "cpu": used,
        "memory": memory,
        "corrected": corrected,
        "actions": actions,
        "writes": writes,
    }


def versions(weaks: Weaks) -> dict[str, str]:
    """What changes with every effective write."""
    paths = (f"{weaks.core}/configmaps", f"{weaks.core}/services", f"{weaks.core}/secrets", weaks.path(""))
    return {
        f"{path}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
        for path in paths
        for each in weaks.server.request("GET", path)["items"]
    }


def of_helm(program: Path, plane: ControlPlane, where: str, count: int) -> dict[str, float]:
    """The helm program, one release after the other."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for number in range(count):
        subprocess.run(
            [program, "install", f"bench-{number}", CHART, "-n", where, "--kubeconfig", plane.kubeconfig],
            check=True,
            capture_output=True,
            timeout=_PATIENCE,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.monotonic() - began, "cpu": cpu}


def summarise(found: dict[str, dict[str, float]], count: int) -> drive.Outcome:
    """The numbers, with the goals."""
    outcome = drive.Outcome("charts", columns=["peer", "seconds", "releases/s", "CPU seconds"])
    for name, run in found.items():
        outcome.rows.append(
            [name, f"{run['seconds']:.1f}", f"{count / run['seconds']:.1f}", f"{run['cpu']:.1f}"],
        )
    ours = found[OURS]
    outcome.add("helm program / ours, seconds", found[HELM]["seconds"] / ours["seconds"], ">=1.5")
    outcome.add("ours / bare loop, seconds", ours["seconds"] / found[BARE]["seconds"], "<=1.4")
    outcome.add("ours / bare loop, CPU", ours["cpu"] / found[BARE]["cpu"], "<=1.4")
    outcome.add("Helm's actions after a restart", ours["actions"], "<=0")
    outcome.add("writes after a restart", ours["writes"], "<=0")
    outcome.add("memory with the Helm process, MB", ours["memory"], "<=250")
    outcome.add("a foreign edit stands, seconds", ours["corrected"], "<=5")
    return outcome


async def measure(args: Namespace) -> drive.Outcome:
    """All peers in turn on one API server."""
    return await asyncio.to_thread(_measure, args)


def _measure(args: Namespace) -> drive.Outcome:
    found: dict[str, dict[str, float]] = {}
    program = build.helm()
    with drive.control_plane() as plane, tempfile.TemporaryDirectory() as folder:
        drive.progress(f"{args.releases} releases by a bare loop over the library")
        found[BARE] = drive.run_peer(
            [
                *("env", *(f"{name}={value}" for name, value in UNLIMITED.items())),
                *(sys.executable, "-m", "bench.peers.charts_bare", str(plane.kubeconfig)),
                *(plane.create_namespace("bare"), str(CHART), str(args.releases), str(WORKERS)),
            ],
            timeout=_PATIENCE,
        )
        drive.progress(f"{args.releases} releases by the operator")
        stage = ChartStage(plane, Path(folder))
        found[OURS] = of_operator(stage, plane.create_namespace("ours"), args.releases)
        drive.progress(f"{args.releases} releases by the helm program")
        found[HELM] = of_helm(program, plane, plane.create_namespace("helm"), args.releases)
    return summarise(found, args.releases)


def main() -> int:
    args = drive.arguments(__doc__, releases={"type": int, "default": 200, "help": "how many releases"})
    return drive.finish(asyncio.run(measure(args)), as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
