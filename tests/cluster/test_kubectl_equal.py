"""kubectl says the same of both servers: the same commands, on the real one and on `edgewright up`, compared.

What no two servers have in common is taken out first: uids, versions, times, ages, and the addresses and ports that a
server gives out. Each scenario runs in a namespace of its own, of the same name on both, and several at a time.
"""

from __future__ import annotations

import difflib
import os
import re
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from edgewright.api.flash_pod import FLASHER_IMAGE
from edgewright.cli.operator_options import flasher_command
from tests.cluster.kubectl_manifests import DEFINITION, EDGE, GROUP, SHELL, Step, Watch
from tests.cluster.kubectl_scenarios import SCENARIOS
from tests.cluster.nodes import RunningNode
from tests.harness import ApiServer, ControlPlane, LocalPlane, programs, wait_until

QUICK = {**os.environ, "GOGC": "off", "GOMAXPROCS": "2"}
"""A program that lives for a moment need not tidy up."""
AT_A_TIME = 4
"""Scenarios; each runs two programs at once."""
AGE = r"\d+(?:s|m|h|d|y|m\d+s|h\d+m|d\d+h|y\d+d)"
ALWAYS = (
    # What kubectl's own machinery logs when its time is up in the midst of a watch is a matter of chance.
    (r"^[IWE]\d{4} \d\d:\d\d:\d\d.*\n", ""),
    (r"https://127\.0\.0\.1:\d+", "SERVER"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r'(resourceVersion"?:|Resource Version:) *"?\d+"?', r"\1 VERSION"),
    (r"\b(10|127)\.\d+\.\d+\.\d+\b", "ADDRESS"),
    (r"\b3[0-2]\d{3}\b", "PORT"),
    (r"\b[a-z]+://[0-9a-f]{8,}\S*", "CONTAINER"),
    (r"\S*/(LIVE|MERGED)-\d+/", r"\1/"),
    (r"\S*/kubectl-edit-\d+\.", "EDITED."),
)
IN_TABLES = (
    (rf"\b{AGE}\b", "AGE"),
    (r"(?<=\S) {2,}", "  "),
    (r" +$", ""),
)


def common(text: str, step: Step | Watch) -> str:
    """What both servers must have said."""
    structured = any("yaml" in each or "json" in each for each in step.arguments)
    for pattern, name in ALWAYS if structured else (*ALWAYS, *IN_TABLES):
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return text


class Side:
    """One of the two servers, and a namespace in it."""

    def __init__(self, plane: ApiServer, namespace: str, scratch: Path) -> None:
        self.plane = plane
        self.namespace = namespace
        self._scratch = scratch
        plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            self._wait_for(f"/api/v1/namespaces/{namespace}/{path}")

    def _wait_for(self, path: str) -> None:
        wait_until(lambda: self.plane.exists(path), what=f"{path} is there")

    def _filled(self, text: str) -> str:
        def uid(match: re.Match[str]) -> str:
            kind, _, name = match[1].rpartition("/")
            path = f"/api/v1/namespaces/{self.namespace}/{kind or 'configmap'}s/{name}"
            return str(self.plane.request("GET", path)["metadata"]["uid"])

        return re.sub(r"UID-OF-([a-z/]+)", uid, text.replace("NAMESPACE", self.namespace))

    def _command(self, arguments: Sequence[str]) -> list[str]:
        cache = str(self.plane.directory / "kubectl")
        start = [programs.program("kubectl"), "--kubeconfig", str(self.plane.kubeconfig), "--cache-dir", cache]
        namespace = [] if "-n" in arguments else ["--namespace", self.namespace]
        return [*start, *namespace, *map(self._filled, arguments)]

    def run(self, step: Step | Watch) -> str:
        """All that a command says, and how it ends."""
        if isinstance(step, Watch):
            return self._watch(step)
        done = subprocess.run(
            self._command(step.arguments),
            input=self._filled(step.input or ""),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            env={**QUICK, "KUBE_EDITOR": step.editor or "false"},
        )
        said = step.compared(common(done.stdout + done.stderr, step))
        return f"{said}\nends with {done.returncode}"

    def _watch(self, watch: Watch) -> str:
        seen = self._scratch / f"watch-{secrets.token_hex(4)}"
        with (
            seen.open("w") as file,
            subprocess.Popen(self._command(watch.arguments), stdout=file, stderr=file, env=QUICK) as process,
        ):
            try:
                self._wait_for_lines(seen, watch.before)
                for step in watch.meanwhile:
                    self.run(step)
                self._wait_for_lines(seen, watch.after)
            finally:
                process.terminate()
        return common(seen.read_text(), watch)

    def _wait_for_lines(self, file: Path, count: int) -> None:
        wait_until(
            lambda: len(file.read_text().splitlines()) >= count,
            what=f"kubectl has written {count} lines to {file}",
        )


@pytest.fixture(scope="module")
def local() -> Iterator[LocalPlane]:
    """Our own control plane."""
    with LocalPlane(node=True, arguments=("--node-name", EDGE, "--image", f"{SHELL}=/bin/sh -c")) as plane:
        _install(plane)
        yield plane


@pytest.fixture(scope="module")
def real(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The real one, with the kind that the scenarios play with, and with our node."""
    _install(cluster)
    ids = "1000-9999" if os.geteuid() == 0 else None
    images = {SHELL: ["/bin/sh", "-c"], FLASHER_IMAGE: flasher_command()}  # the latter is known to `edgewright up`
    node = RunningNode(cluster, tmp_path_factory.mktemp("node"), name=EDGE, ids=ids, images=images)
    try:
        node.start()
        yield cluster
    finally:
        node.stop()
    cluster.request("DELETE", f"/api/v1/nodes/{EDGE}")
    cluster.request(
        "DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION['metadata']['name']}"
    )


def _install(plane: ApiServer) -> None:
    plane.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    wait_until(lambda: plane.exists(f"/apis/{GROUP}/v1/gadgets"), what="gadgets are served")
    # The documents that kubectl reads come a moment later.
    wait_until(lambda: _published(plane), what="gadgets are in the OpenAPI documents")


def _published(plane: ApiServer) -> bool:
    groups = plane.request("GET", "/openapi/v3")["paths"]
    return f"apis/{GROUP}/v1" in groups and "Gadget" in str(plane.request("GET", f"/openapi/v3/apis/{GROUP}/v1"))


@pytest.fixture(scope="module")
def differences(
    request: pytest.FixtureRequest, real: ControlPlane, local: LocalPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[list[str]]]]:
    """What each scenario that was asked for finds; several run at a time, those with the most steps first."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    names = sorted(asked & SCENARIOS.keys(), key=lambda name: -len(SCENARIOS[name]))
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield {
            name: pool.submit(_found, real, local, SCENARIOS[name], tmp_path_factory.mktemp("watches"))
            for name in names
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_kubectl_says_the_same_of_both_servers(differences: dict[str, Future[list[str]]], name: str) -> None:
    found = differences[name].result()
    assert not found, "\n".join(["- the real server, + ours", *found])


def _found(real: ControlPlane, local: LocalPlane, scenario: Sequence[Step | Watch], scratch: Path) -> list[str]:
    """Runs a scenario on both servers; the differences, each below the command that shows it."""
    namespace = f"equal-{secrets.token_hex(3)}"
    found = []
    with ThreadPoolExecutor(2) as pool:
        sides = list(pool.map(lambda plane: Side(plane, namespace, scratch), (real, local)))
        for step in scenario:
            theirs, ours = pool.map(lambda side, step=step: side.run(step), sides)
            if theirs != ours:
                found += [f"kubectl {' '.join(step.arguments)}", *_difference(theirs, ours)]
    for side in sides:
        side.plane.request("DELETE", f"/api/v1/namespaces/{namespace}")
    return found


def _difference(theirs: str, ours: str) -> list[str]:
    return list(difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "real", "ours", lineterm="", n=2))[2:]
