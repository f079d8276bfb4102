"""Runs every benchmark, or those that are named, and writes docs/benchmarks.md: tables, ratios, which goals are met.

Called by `make bench`. A benchmark is a program next to this one that takes `--json`; the numbers in the documentation
come from here and from nowhere else. The sections of those that were not run stay as they were, with their dates.
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

PROGRAMS = (
    *("reconcile", "cache", "local", "flashjob", "rollout", "charts", "minicluster", "gateway", "console"),
    "http_clients",
)
TARGET = HERE.parent / "docs" / "benchmarks.md"

HEADER = """# Benchmarks

Written by `make bench`; do not edit. Every number is measured against a named peer or a limit in the same run, because
an absolute time means little on a shared machine. Where a goal is missed it says so.
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
    lines = [f"## {result['bench']}", "", purpose, "", f"Measured on {datetime.now(UTC).date()}, {machine()}.", ""]
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


def sections_of(page: str) -> dict[str, str]:
    """The sections of the page as it is, by the names of their benchmarks."""
    parts = page.split("\n## ")[1:]
    return {part.partition("\n")[0]: f"## {part}".rstrip() + "\n" for part in parts}


def main() -> int:
    names = sys.argv[1:] or PROGRAMS
    unknown = set(names) - set(PROGRAMS)
    if unknown:
        progress(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
        return 2
    for name in names:
        made = section(run(name), purpose_of(name))
        # Written after each: the next may take long, or fail.
        sections = {**(sections_of(TARGET.read_text()) if TARGET.exists() else {}), name: made}
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text("\n".join([HEADER, *(sections[each] for each in PROGRAMS if each in sections)]))
        progress(f"wrote {name} to {TARGET.relative_to(HERE.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
