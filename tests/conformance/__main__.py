"""Runs Kubernetes' own conformance tests that need no container on `edgewright up`: `python -m tests.conformance`.

`make conformance` calls it. The tests are those named in tests.txt, which pass on the real API server; a name may be
given to run some of them only. Every one must be run and pass; `--write FILE` puts the table of passes into the docs.
"""

from __future__ import annotations

import argparse
import functools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance import surroundings
from tests.harness import programs
from tests.harness.localplane import LocalPlane

NAMES = Path(__file__).with_name("tests.txt")
_RUNNING = ("pause", "e2e-test-images/httpd", "httpd")
_AGNHOST = ("agnhost", "e2e-test-images/agnhost")
_SLEEPS = "sh -c 'exec sleep 100000'"
"""Images by the programs that stand for them: of most the tests only want that they run, whatever they are told."""
_NEEDS_ROOT = ("[sig-apps] StatefulSet ", "[sig-apps] Job should run a job to completion")
"""Their Pods bind port 80, or have a shell that not every machine has."""
_WAITING = ("[sig-apps] StatefulSet ", "[sig-apps] CronJob should ")
"""They wait for most of their time, for polls of ten seconds or for the next minute: several run at once."""
_LANES = 7
_SECONDS = 1500
_COLUMNS = "| group | test | result |\n|---|---|---|\n"


def names() -> list[str]:
    """The full names of all tests."""
    lines = (line.strip() for line in NAMES.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def images(*, surrounded: bool) -> list[str]:
    """The options by which the node knows the images."""
    stand_ins = {
        **dict.fromkeys(_RUNNING, _SLEEPS),
        **dict.fromkeys(_AGNHOST, surroundings.AGNHOST if surrounded else _SLEEPS),
        "e2e-test-images/busybox": "sh",
    }
    return [word for image, command in stand_ins.items() for word in ("--image", f"{image}={command}")]


def lanes(chosen: Sequence[str]) -> list[list[str]]:
    """The tests that run one after another, side by side with those of the other lanes."""
    waiting = [name for name in chosen if name.startswith(_WAITING)]
    rest = [name for name in chosen if name not in waiting]
    return [lane for lane in (rest, *(waiting[number :: _LANES - 1] for number in range(_LANES - 1))) if lane]


def run(chosen: Sequence[str], *, surrounded: bool) -> dict[str, str]:
    """What became of each test: passed, failed, or not run."""
    # Their Pods ask for user 1000, which a node takes for one of the machine's unless it is told otherwise.
    with LocalPlane(node=True, arguments=[*images(surrounded=surrounded), "--pod-ids", "1000-65535"]) as plane:
        planned = lanes(chosen)
        with ThreadPoolExecutor(len(planned)) as pool:
            parts = list(pool.map(functools.partial(_run_lane, plane), range(len(planned)), planned))
        found = {name: result for part in parts for name, result in part.items()}
        if any(result != "passed" for result in found.values()):
            kept = programs.ROOT / "build" / "conformance.log"
            logs = sorted(plane.directory.glob("e2e-*.log"))
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(
                "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs), encoding="utf-8"
            )
            print(f"conformance: the tests' own output is in {kept}")
    return {name: found[name] for name in chosen}


def _run_lane(plane: LocalPlane, number: int, chosen: Sequence[str]) -> dict[str, str]:
    report = plane.directory / f"report-{number}"
    command = [
        str(programs.directory() / "e2e.test"),
        *("--kubeconfig", str(plane.kubeconfig), "--kubectl-path", str(programs.directory() / "kubectl")),
        *("--provider", "skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=0"),
        *("--kube-api-content-type=application/json", "--report-dir", str(report), "--ginkgo.no-color"),
        *("--ginkgo.focus", "|".join(re.escape(name).replace(r"\ ", " ") for name in chosen)),
    ]
    with (plane.directory / f"e2e-{number}.log").open("w") as output:
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=_SECONDS, check=False)
    files = sorted(report.glob("junit*.xml"))
    results = outcomes(files[0].read_text(encoding="utf-8")) if files else {}
    return {name: results.get(name, "not run") for name in chosen}


def outcomes(report: str) -> dict[str, str]:
    """What a JUnit report says of the tests that were run, by their names without labels."""
    found = {}
    for case in ET.fromstring(report).iter("testcase"):
        if case.find("skipped") is None:
            name = re.sub(r" \[[^\]]*(, [^\]]*)+\]$", "", case.get("name", "").removeprefix("[It] "))
            bad = case.find("failure") is not None or case.find("error") is not None
            found[name] = "failed" if bad else "passed"
    return found


def table(results: Mapping[str, str]) -> str:
    """The results as Markdown."""
    lines = []
    for name, result in results.items():
        group, _, rest = name.removeprefix("[").partition("] ")
        lines.append(f"| {group} | {rest.removesuffix(' [Conformance]').replace('|', ' ')} | {result} |")
    return _COLUMNS + "\n".join(lines) + "\n"


def main() -> int:
    """Runs them and says how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="run only the tests whose name has this in it")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into this file, between its marks")
    given = parser.parse_args()
    chosen = [name for name in names() if given.pattern in name]
    if not chosen:
        parser.error(f"no test has {given.pattern!r} in its name")
    surrounded = surroundings.possible()
    if surrounded:
        surroundings.enter(sys.argv[1:])
    elif left_out := [name for name in chosen if name.startswith(_NEEDS_ROOT)]:
        print(f"conformance: {len(left_out)} tests are left out, which need root", flush=True)
        chosen = [name for name in chosen if name not in left_out]
    print(f"conformance: running {len(chosen)} tests of Kubernetes on edgewright up ...", flush=True)
    results = run(chosen, surrounded=surrounded)
    for name, result in results.items():
        if result != "passed":
            print(f"  {result}: {name}")
    passed = sum(result == "passed" for result in results.values())
    print(f"conformance: {passed} of {len(chosen)} passed")
    if given.write:
        before, start, rest = given.write.read_text(encoding="utf-8").partition("<!-- table -->\n")
        _, end, after = rest.partition("<!-- end of table -->")
        given.write.write_text(before + start + table(results) + end + after, encoding="utf-8")
    return 0 if passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
