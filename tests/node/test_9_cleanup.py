"""Nothing stays on the machine: not of a cluster that ended, and not of one that was killed together with its owner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.harness import Process, wait_until
from tests.node import __main__ as suite
from tests.node import room
from tests.node.cluster import RealCluster, run
from tests.node.standalone import READY


def state_of_the_machine() -> dict[str, str]:
    """What a cluster would leave traces in: interfaces, rules, mounts, settings of the kernel, and folders."""
    found = {
        "interfaces": run("ip", "-brief", "link"),
        "namespaces": run("ip", "netns", "list"),
        "rules": run("nft", "list", "tables"),
        "mounts": "\n".join(sorted(line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())),
    }
    for name in ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"):
        found[name] = (Path("/proc/sys") / name).read_text()
    for folder in ("/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/run/containerd"):
        found[folder] = "\n".join(sorted(each.name for each in Path(folder).iterdir())) if Path(folder).exists() else ""
    return found


def new_in(now: dict[str, str], before: dict[str, str]) -> dict[str, set[str]]:
    """What was not there before; the suite's own kubelet may clear away something of its own meanwhile."""
    found = {name: set(text.splitlines()) - set(before[name].splitlines()) for name, text in now.items()}
    return {name: lines for name, lines in found.items() if lines}


def test_a_cluster_that_is_killed_with_its_owner_leaves_nothing_that_the_next_one_does_not_remove(
    cluster: RealCluster,
) -> None:
    """By kill -9 of the process outside the room: the kernel ends the rest, and the next start sweeps by names."""

    def going() -> list[str]:
        pods = cluster.request("GET", "/api/v1/pods")["items"]
        return [each["metadata"]["name"] for each in pods if "deletionTimestamp" in each["metadata"]]

    wait_until(lambda: not going(), what="the Pods of earlier tests are gone")
    before, rooms = state_of_the_machine(), room.control_groups()
    owner = Process(
        "standalone",
        [sys.executable, "-m", "tests.node.standalone"],
        log=cluster.room / "standalone.log",
        ready=lambda: f"\n{READY} " in owner.output(),
    )
    owner.start()
    owner.wait_ready()
    folder = Path(owner.output().rpartition(f"{READY} ")[2].strip())
    assert folder.parent == room.base()
    assert folder.exists()
    assert {each.name for each in room.control_groups()} > {each.name for each in rooms}
    owner.kill()
    wait_until(lambda: not room.processes_of(folder), what="no process of the room is left")
    assert room.left_behind(folder)  # its control groups and its folder, which have no namespace
    room.sweep_rooms()
    assert room.left_behind(folder) == []
    assert room.control_groups() == rooms
    assert new_in(state_of_the_machine(), before) == {}


def test_where_it_cannot_run_one_line_says_what_was_left_out_and_why(tmp_path: Path) -> None:
    script = "import os; from tests.node import room; os.setuid(65534); print(room.reason_against())"
    done = subprocess.run([sys.executable, "-c", script], cwd=room.ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["it needs root, for namespaces, mounts and control groups"]
    report = tmp_path / "reports" / "node.xml"
    suite.leave_out(done.stdout.strip(), report)
    assert '<skipped message="it needs root, for namespaces, mounts and control groups"/>' in report.read_text()
