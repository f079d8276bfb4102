"""Runs suites, targets of the Makefile, in lanes side by side; says how long each took and computed, and what failed.

`make test` and `make verify` call it with the names of their lanes. What a suite prints goes into a file in
build/reports too, and is shown as it comes where there is one lane, or when the suite ends where there are several. It
decides nothing about a suite: only the exit code of its target counts. It needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPORTS = Path("build/reports")
MAX_FAILURES = 40
"""So many failed tests are named at the end; the log has the others."""
_MAX_REASON = 160
_LAST_LINES = 12
_GRACE = 20.0
_INSIDE = "EDGEWRIGHT_SUITES"
"""In the environment of a suite that runs suites itself, so that it leaves the reports of the others alone."""
# What a parent `make` tells its children about sharing jobs: ours are not its children in that sense.
_JOBS = re.compile(r" ?(-j\d*|--jobserver-\S+)(?= |$)")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is run: some suites one after the other, then lanes side by side, and then again one after the other."""

    first: Sequence[str] = ()
    lanes: Sequence[Sequence[str]] = ()
    either: Sequence[str] = ()
    """What a lane takes one by one when it is through with its own, so that all of them end at about the same time."""
    last: Sequence[str] = ()
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For a suite those that must have passed before it."""
    skip: Mapping[str, str] = field(default_factory=dict)
    """What is left out, and why."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a suite ended."""

    suite: str
    code: int
    seconds: float
    cpu: float
    """Seconds of a core. A process that nobody waited for is not in it, such as what a container's runtime keeps."""


class Runner:
    """Runs a plan; keeps what came of it."""

    def __init__(self, plan: Plan, *, reports: Path = REPORTS, make: Sequence[str] = ("make",)) -> None:
        self.results: list[Result] = []
        self.skipped: dict[str, str] = {}
        self._plan = plan
        self._reports = reports
        self._make = tuple(make)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False
        self._either = list(plan.either)

    def run(self) -> None:
        """Runs everything, whatever fails."""
        self._reports.mkdir(parents=True, exist_ok=True)
        for suite in self._plan.first:
            self._run(suite, live=True)
        live = sum(bool(lane) for lane in self._plan.lanes) == 1
        lanes = [threading.Thread(target=self._run_lane, args=(lane, live)) for lane in self._plan.lanes]
        for each in lanes:
            each.start()
        for each in lanes:
            while each.is_alive():
                each.join(0.2)  # so that a signal is seen
        for suite in self._plan.last:
            self._run(suite, live=True)

    def stop(self) -> None:
        """Ends what runs, with all that it has started, and begins nothing more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for number, grace in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
            for each in running:
                if not _ended(each):
                    os.killpg(each.pid, number)
            deadline = time.monotonic() + grace
            while not all(_ended(each) for each in running) and time.monotonic() < deadline:
                time.sleep(0.1)

    def _run_lane(self, suites: Iterable[str], live: bool) -> None:
        for suite in suites:
            self._run(suite, live=live)
        while suite := self._next():
            self._run(suite, live=live)

    def _next(self) -> str:
        """The next suite that any lane may run; nothing where there is none."""
        with self._lock:
            return self._either.pop(0) if self._either else ""

    def _run(self, suite: str, *, live: bool) -> None:
        if reason := self._reason_to_skip(suite):
            self.skipped[suite] = reason
            return
        log = self._reports / f"{suite}.log"
        self._say(f"== {suite}{'' if live else f' (what it prints comes when it ends, and is in {log})'}\n")
        began = time.monotonic()
        with log.open("wb") as file:
            with self._lock:
                if self._stopped:
                    return
                process = subprocess.Popen(
                    [*self._make, suite],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=_environment(),
                    start_new_session=True,
                )
                self._running.add(process)
            assert process.stdout is not None
            for line in process.stdout:
                file.write(line)
                file.flush()
                if live:
                    self._write(line)
            process.stdout.close()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = code = os.waitstatus_to_exitcode(status)
        seconds, cpu = time.monotonic() - began, usage.ru_utime + usage.ru_stime
        with self._lock:
            self._running.discard(process)
            self.results.append(Result(suite=suite, code=code, seconds=seconds, cpu=cpu))
        if not live:
            self._write(f"== {suite} ended with {code}, and printed:\n".encode() + log.read_bytes())

    def _reason_to_skip(self, suite: str) -> str:
        if suite in self._plan.skip:
            return self._plan.skip[suite]
        for needed in self._plan.needs.get(suite, ()):
            if needed in self.skipped or needed in self._plan.skip:
                return f"{needed} was skipped, and it needs that"
            if any(each.suite == needed and each.code != 0 for each in self.results):
                return f"{needed} failed, and it needs that"
        return ""

    def _say(self, text: str) -> None:
        self._write(text.encode())

    def _write(self, text: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended, asked so that the lane can still ask what it used."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def left_out(reports: Path) -> list[str]:
    """The tests that were skipped, each with its reason, as the reports of pytest have them."""
    return [
        f"{case.get('classname')}.{case.get('name')}: {skipped.get('message', '')}"
        for report in sorted(reports.glob("*.xml"))
        for case in ET.parse(report).getroot().iter("testcase")
        for skipped in case.iter("skipped")
    ]


def failures(reports: Path, suite: str = "*") -> list[str]:
    """The tests of a suite, or of all, that failed, each with the first line of its reason."""
    found = {report for pattern in (f"{suite}.xml", f"{suite}-*.xml") for report in reports.glob(pattern)}
    return [
        f"{case.get('classname')}.{case.get('name')}: {_reason(problem)}"
        for report in sorted(found)
        for case in ET.parse(report).getroot().iter("testcase")
        for problem in case
        if problem.tag in {"failure", "error"}
    ]


def _reason(problem: ET.Element) -> str:
    lines = (problem.get("message") or problem.text or "").strip().splitlines()
    return lines[0][:_MAX_REASON] if lines else problem.tag


def epilogue(results: Sequence[Result], reports: Path) -> list[str]:
    """What somebody who sees nothing but the last lines needs: the tests that failed, or what a suite said last."""
    failed = [each.suite for each in results if each.code]
    if not failed:
        return []
    tests = failures(reports)
    lines = ["  failed:", *(f"    {each}" for each in tests[:MAX_FAILURES])]
    if len(tests) > MAX_FAILURES:
        lines.append(f"    and {len(tests) - MAX_FAILURES} more")
    for suite in failed:
        log = reports / f"{suite}.log"
        if failures(reports, suite) or not log.exists():
            continue
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        lines.append(f"    {suite} failed without a failed test; the last lines of {log}:")
        lines += [f"      {each}" for each in last]
    return lines


def table(results: Sequence[Result], budgets: Mapping[str, float], title: str, total: float) -> list[str]:
    """A line for each suite: how it ended, how long it took, may take on a quiet machine, and kept a core busy."""

    def line(name: str, failed: bool, seconds: float, budget: float | None, rest: str) -> str:
        of = "" if budget is None else f" of {budget * 60:4.0f} s"
        return f"  {name:<16} {'FAILED' if failed else 'passed':<7} {seconds:5.0f} s{of:<10} {rest}"

    def cpu(each: Result) -> str:
        return f"cpu {each.cpu:5.0f} s"

    lines = [line(each.suite, each.code != 0, each.seconds, budgets.get(each.suite), cpu(each)) for each in results]
    failed = any(each.code for each in results)
    return [*lines, line("all", failed, total, budgets.get(title), "(with what had to be set up)")]


def _environment() -> dict[str, str]:
    environ = {**os.environ, _INSIDE: "1"}
    for name in ("MAKEFLAGS", "MFLAGS"):
        if name in environ:
            environ[name] = _JOBS.sub("", environ[name])
    return environ


def _pairs(text: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in text.split())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the arguments say; 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("title", help="the target that is made of these suites")
    parser.add_argument("--first", default="", help="suites that are run one after the other, before the lanes")
    parser.add_argument("--lane", action="append", default=[], help="suites of one lane; may be given again")
    parser.add_argument("--either", default="", help="suites that a lane takes when it is through with its own")
    parser.add_argument("--last", default="", help="suites that are run one after the other, after the lanes")
    parser.add_argument("--needs", default="", help="SUITE=OTHER,OTHER: not without the others")
    parser.add_argument("--skip", default="", help="suites to leave out")
    parser.add_argument("--not-here", default="", help="suites that this machine cannot run")
    parser.add_argument("--budgets", default="", help="SUITE=MINUTES")
    parser.add_argument("--began", type=float, default=time.time(), help="when it all began, in seconds since 1970")
    given = parser.parse_args(arguments)
    plan = Plan(
        first=given.first.split(),
        lanes=[lane.split() for lane in given.lane],
        either=given.either.split(),
        last=given.last.split(),
        needs={suite: others.split(",") for suite, others in _pairs(given.needs).items()},
        skip={
            **dict.fromkeys(given.not_here.split(), "it needs Linux"),
            **dict.fromkeys(given.skip.split(), "SKIP asks for it"),
        },
    )
    if not os.environ.get(_INSIDE):
        for old in (*REPORTS.glob("*.xml"), *REPORTS.glob("*.log")):
            old.unlink()
    runner = Runner(plan, make=(os.environ.get("MAKE", "make"), "--no-print-directory"))

    def interrupted(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    try:
        runner.run()
    except SystemExit:
        runner.stop()
        raise
    budgets = {name: float(minutes) for name, minutes in _pairs(given.budgets).items()}
    print(f"== make {given.title}")
    print("\n".join(table(runner.results, budgets, given.title, time.time() - given.began)))
    skipped = [f"{suite}: {reason}" for suite, reason in runner.skipped.items()] + left_out(REPORTS)
    print("\n".join(["  skipped:", *(f"    {each}" for each in skipped)]) if skipped else "  skipped: nothing")
    if end := epilogue(runner.results, REPORTS):
        print("\n".join(end))
    return int(any(each.code for each in runner.results))


if __name__ == "__main__":
    sys.exit(main())
