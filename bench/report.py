"""Runs every benchmark and writes docs/benchmarks.md: date, machine, tables, ratios and which goals are met.

Called by `make bench`. A benchmark is a program beside this one that takes `--json`; the numbers in the documentation
come from here and from nowhere else.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.drive import meets, progress

HERE = Path(__file__).resolve().parent

PROGRAMS = ("reconcile", "cache", "local", "flashjob")
TARGET = HERE.parent / "docs" / "benchmarks.md"

HEADER = """# Benchmarks

Written by `make bench`; do not edit. Every number is measured against a named peer or a limit in the same run, because
an absolute time means little on a shared machine. Where a goal is missed it says so.

{date}, {machine}.
"""


def run(name: str) -> dict[str, Any]:
    """One benchmark, from its beginning to the JSON at its end; what it says meanwhile is passed on."""
    progress(f"running {name}")
    command = [sys.executable, str(HERE / f"{name}.py"), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def section(result: dict[str, Any], purpose: str) -> str:
    """The part of the page for one benchmark."""
    lines = [f"## {result['bench']}", "", purpose, ""]
    lines += ["| " + " | ".join(result["columns"]) + " |", "|" + "---|" * len(result["columns"])]
    lines += ["| " + " | ".join(row) + " |" for row in result["rows"]]
    lines += ["", "| number | measured | goal | |", "|---|---|---|---|"]
    for name, value in result["ratios"].items():
        goal = result["goals"].get(name)
        verdict = "" if goal is None else "met" if meets(value, goal) else "**missed**"
        lines.append(f"| {name} | {value:g} | {goal or ''} | {verdict} |")
    return "\n".join([*lines, "", *result["notes"], ""])


def purpose_of(name: str) -> str:
    """The program's own words on what it measures."""
    text = (HERE / f"{name}.py").read_text().split('"""')[1]
    return text.strip()


def machine() -> str:
    """What the numbers were measured on."""
    model = next(
        (line.split(":")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ""
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({model.strip()}), {memory:.0f} GiB, Python {platform.python_version()}"


def main() -> int:
    today = datetime.now(UTC).date()
    sections = [section(run(name), purpose_of(name)) for name in PROGRAMS]
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("\n".join([HEADER.format(date=today, machine=machine()), *sections]))
    progress(f"wrote {TARGET.relative_to(HERE.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
