"""Runs Kubernetes' own conformance tests that need no container on `edgewright up`: `python -m tests.conformance`.

`make conformance` calls it. The tests are those named in tests.txt, which pass on the real API server; a name may be
given to run some of them only. Every one must be run and pass; `--write FILE` puts the table of passes into the docs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.harness import programs
from tests.harness.localplane import LocalPlane

NAMES = Path(__file__).with_name("tests.txt")
_RUNNING = ("pause", "agnhost", "e2e-test-images/agnhost", "e2e-test-images/httpd", "httpd")
IMAGES = {**dict.fromkeys(_RUNNING, "sh -c 'exec sleep 100000'"), "e2e-test-images/busybox": "sh"}
"""Images by the programs that stand for them: of most the tests only want that they run, whatever they are told."""
_SECONDS = 1500
_COLUMNS = "| group | test | result |\n|---|---|---|\n"


def names() -> list[str]:
    """The full names of all tests."""
    lines = (line.strip() for line in NAMES.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def run(chosen: Sequence[str]) -> dict[str, str]:
    """What became of each test: passed, failed, or not run."""
    program = programs.directory() / "e2e.test"
    images = [word for image, command in IMAGES.items() for word in ("--image", f"{image}={command}")]
    # Their Pods ask for user 1000, which a node takes for one of the machine's unless it is told otherwise.
    with LocalPlane(node=True, arguments=[*images, "--pod-ids", "1000-65535"]) as plane:
        report = plane.directory / "report"
        command = [
            str(program),
            *("--kubeconfig", str(plane.kubeconfig), "--kubectl-path", str(programs.directory() / "kubectl")),
            *("--provider", "skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=0"),
            *("--kube-api-content-type=application/json", "--report-dir", str(report), "--ginkgo.no-color"),
            *("--ginkgo.focus", "|".join(re.escape(name).replace(r"\ ", " ") for name in chosen)),
        ]
        log = plane.directory / "e2e.log"
        with log.open("w") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=_SECONDS, check=False)
        files = sorted(report.glob("junit*.xml"))
        results = outcomes(files[0].read_text(encoding="utf-8")) if files else {}
        found = {name: results.get(name, "not run") for name in chosen}
        if any(result != "passed" for result in found.values()):
            kept = programs.ROOT / "build" / "conformance.log"
            kept.write_text(log.read_text(encoding="utf-8", errors="replace"), encoding="utf-8")
            print(f"conformance: the tests' own output is in {kept}")
    return found


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
    print(f"conformance: running {len(chosen)} tests of Kubernetes on edgewright up ...", flush=True)
    results = run(chosen)
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
