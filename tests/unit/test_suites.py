"""The program behind `make test` and `make verify`: lanes, what is left out and why, what fails, what it prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hack.suites import MAX_FAILURES, Plan, Result, Runner, epilogue, left_out, table
from tests.harness import wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "hack" / "suites.py"


def make(folder: Path, **suites: str) -> tuple[str, ...]:
    """A Makefile with one line of shell for each suite, and how it is called."""
    rules = "".join(f".PHONY: {name}\n{name}:\n\t@{line}\n" for name, line in suites.items())
    (folder / "Makefile").write_text(rules)
    return ("make", "--no-print-directory", "-C", str(folder))


def test_lanes_run_side_by_side_and_each_in_order(tmp_path: Path) -> None:
    meet = "touch {0}; for n in $$(seq 3000); do test -e {1} && exit 0; sleep 0.02; done; exit 1"
    suites = {"one": meet.format("a", "b"), "two": meet.format("b", "a"), "later": "test -e a -a -e b"}
    plan = Plan(lanes=[["one", "later"], ["two"]])
    runner = Runner(plan, reports=tmp_path / "reports", make=make(tmp_path, **suites))
    runner.run()
    assert {each.suite: each.code for each in runner.results} == {"one": 0, "two": 0, "later": 0}
    assert [each.suite for each in runner.results if each.suite != "two"] == ["one", "later"]


def test_a_lane_that_is_done_takes_what_either_may_run(tmp_path: Path) -> None:
    long = "for n in $$(seq 3000); do test -e done && exit 0; sleep 0.02; done; exit 1"
    plan = Plan(lanes=[["long"], ["short"]], either=["one", "two"], skip={"one": "no board"})
    runner = Runner(plan, reports=tmp_path / "reports", make=make(tmp_path, long=long, short="true", two="touch done"))
    runner.run()
    assert {each.suite: each.code for each in runner.results} == {"short": 0, "two": 0, "long": 0}
    assert runner.skipped == {"one": "no board"}


def test_a_suite_that_fails_ends_nothing_but_what_needs_it(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    suites = {"build": "echo no compiler; exit 3", "cluster": "echo never", "boards": "echo fine"}
    plan = Plan(first=["build"], lanes=[["cluster"], ["boards"]], needs={"cluster": ["build"]})
    runner = Runner(plan, reports=tmp_path / "reports", make=make(tmp_path, **suites))
    runner.run()
    assert {each.suite: bool(each.code) for each in runner.results} == {"build": True, "boards": False}
    assert runner.skipped == {"cluster": "build failed, and it needs that"}
    assert (tmp_path / "reports" / "boards.log").read_text() == "fine\n"
    printed = capfdbinary.readouterr().out
    assert b"== build\nno compiler\n" in printed
    assert b"== boards ended with 0, and printed:\nfine\n" in printed
    assert b"never" not in printed


@pytest.mark.parametrize(
    ("skip", "said"),
    [
        ({}, {}),
        ({"boards": "no board"}, {"boards": "no board", "page": "boards was skipped, and it needs that"}),
    ],
)
def test_what_comes_last_runs_after_the_lanes_and_only_where_all_that_it_needs_has_passed(
    tmp_path: Path, skip: dict[str, str], said: dict[str, str]
) -> None:
    suites = {"cluster": "touch a", "boards": "touch b", "page": "test -e a -a -e b"}
    plan = Plan(lanes=[["cluster"], ["boards"]], last=["page"], needs={"page": ["cluster", "boards"]}, skip=skip)
    runner = Runner(plan, reports=tmp_path / "reports", make=make(tmp_path, **suites))
    runner.run()
    assert (runner.skipped, all(each.code == 0 for each in runner.results)) == (said, True)


def test_the_last_lines_name_the_tests_that_failed_or_what_a_suite_said_last(tmp_path: Path) -> None:
    def report(*cases: str) -> str:
        return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"

    bad = '<testcase classname="tests.a" name="test_b[1]"><failure message="assert 1 == 2&#10;more"/></testcase>'
    broken = '<testcase classname="tests.a" name="test_c"><error>\nE  no file\n</error></testcase>'
    (tmp_path / "cluster.xml").write_text(report('<testcase classname="tests.a" name="test_good"/>'))
    (tmp_path / "cluster-flash.xml").write_text(report(bad, broken))
    (tmp_path / "cluster.log").write_text("so much\n")
    (tmp_path / "lint.log").write_text("".join(f"line {number}\n" for number in range(100)))
    codes = {"lint": 1, "unit": 0, "cluster": 1, "local": 0}
    results = [Result(suite=suite, code=code, seconds=1, cpu=1) for suite, code in codes.items()]
    end = epilogue(results, tmp_path)
    assert end[:3] == ["  failed:", "    tests.a.test_b[1]: assert 1 == 2", "    tests.a.test_c: E  no file"]
    assert end[3].startswith("    lint failed without a failed test; the last lines of")
    assert (end[4], end[-1]) == ("      line 88", "      line 99")
    assert epilogue([Result(suite="unit", code=0, seconds=1, cpu=1)], tmp_path) == []
    (tmp_path / "unit.xml").write_text(report(*[bad] * MAX_FAILURES))
    assert "    and 2 more" in epilogue(results, tmp_path)


def test_what_was_skipped_is_found_in_the_reports_with_its_reason(tmp_path: Path) -> None:
    case = '<testcase classname="a.b" name="c[&lt;1&gt;]"><skipped message="no &quot;x&quot; here"/></testcase>'
    (tmp_path / "unit.xml").write_text(f'<testsuites><testsuite>{case}<testcase name="d"/></testsuite></testsuites>')
    assert left_out(tmp_path) == ['a.b.c[<1>]: no "x" here']


def test_the_table_shows_times_budgets_and_what_was_computed() -> None:
    results = [
        Result(suite="lint", code=0, seconds=7.4, cpu=6.6),
        Result(suite="cluster", code=2, seconds=601.0, cpu=240.0),
    ]
    assert table(results, {"cluster": 10.0, "test": 6}, "test", 610.2) == [
        "  lint             passed      7 s           cpu     7 s",
        "  cluster          FAILED    601 s of  600 s cpu   240 s",
        "  all              FAILED    610 s of  360 s (with what had to be set up)",
    ]


def test_what_a_suite_computes_is_told_from_what_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text("import time\nwhile time.process_time() < 0.5: pass\n")
    computing = f"{sys.executable} busy.py & {sys.executable} busy.py; wait"
    runner = Runner(
        Plan(lanes=[["computing"], ["waiting"]]),
        reports=tmp_path / "reports",
        make=make(tmp_path, computing=computing, waiting="sleep 1"),
    )
    runner.run()
    cpu = {each.suite: each.cpu for each in runner.results}
    assert cpu["computing"] >= 1 > cpu["waiting"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--lane", "good"), 0, "skipped: nothing"),
        (("--lane", "good bad"), 1, "bad              FAILED"),
        (("--lane", "good bad", "--skip", "bad"), 0, "bad: SKIP asks for it"),
        (("--lane", "good bad", "--not-here", "bad"), 0, "bad: it needs Linux"),
    ],
)
def test_as_a_program_it_says_how_it_was(tmp_path: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    make(tmp_path, good="true", bad="exit 1")
    command = [sys.executable, str(PROGRAM), "test", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, said in done.stdout) == (code, True), done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything_that_runs(tmp_path: Path, number: signal.Signals) -> None:
    make(tmp_path, long="echo $$$$ > pid; exec sleep 600")
    process = subprocess.Popen([sys.executable, str(PROGRAM), "test", "--lane", "long"], cwd=tmp_path)
    try:
        file = tmp_path / "pid"
        pid = int(wait_until(lambda: file.read_text().strip() if file.exists() else None, what="the suite runs"))
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    finally:
        process.kill()
        process.wait()

    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(gone, what="the suite has ended")
