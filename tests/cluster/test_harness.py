"""The harness itself on the real programs: what it promises to the other tests, each promise tried."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness import (
    NODE,
    ControlPlane,
    KubectlError,
    NotBuiltError,
    PortTakenError,
    Process,
    ProcessError,
    WaitError,
    programs,
    wait_until,
    wait_until_async,
)
from tests.harness.workspace import Workspace, sweep

ROOT = Path(__file__).resolve().parents[2]


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _config_map(name: str, size: int = 0) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * size}}


def _connect(control_plane: ControlPlane, url: str, *, timeout: float = 60) -> http.client.HTTPSConnection:
    address = urllib.parse.urlsplit(url).netloc
    return http.client.HTTPSConnection(address, context=control_plane.admin_tls, timeout=timeout)


# Waiting


def test_waiting_returns_what_the_condition_returns() -> None:
    answers = iter([0, 0, 7])
    assert wait_until(lambda: next(answers), what="seven") == 7


async def test_waiting_in_an_event_loop_returns_what_the_condition_returns() -> None:
    answers = iter([0, 0, 7])
    assert await wait_until_async(lambda: next(answers), what="seven") == 7


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(WaitError, match="waited 0 s in vain: the moon"):
        wait_until(lambda: False, timeout=0, what="the moon")


# Processes


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    process = Process("sleeper", [shutil.which("sleep") or "sleep", "600"], log=tmp_path / "log", ready=lambda: True)
    process.start()
    yield process
    process.kill()


def _state(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_is_stopped_and_continued(sleeper: Process) -> None:
    sleeper.stop()
    wait_until(lambda: _state(sleeper) == "T", what="it is stopped")
    sleeper.resume()
    wait_until(lambda: _state(sleeper) != "T", what="it goes on")
    assert sleeper.running


def test_a_stopped_process_can_be_terminated(sleeper: Process) -> None:
    sleeper.stop()
    sleeper.terminate()
    assert not sleeper.running


def test_a_process_that_does_not_obey_is_killed(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    process = Process(
        "deaf", [sys.executable, "-c", deaf], log=tmp_path / "log", ready=lambda: "deaf" in process.output()
    )
    process.start()
    process.wait_ready()
    process.terminate(timeout=0.1)
    assert not process.running


def test_a_process_started_in_a_thread_outlives_the_thread(sleeper: Process) -> None:
    sleeper.kill()
    thread = threading.Thread(target=sleeper.restart)
    thread.start()
    thread.join()
    with pytest.raises(WaitError):
        wait_until(lambda: not sleeper.running, timeout=0.2, what="it dies with the thread")


@pytest.mark.parametrize(
    ("text", "error"),
    [("no such luck", ProcessError), ("listen tcp 127.0.0.1:1: bind: address already in use", PortTakenError)],
    ids=["ended", "port taken"],
)
def test_a_process_that_ends_too_early_shows_its_log(tmp_path: Path, text: str, error: type[ProcessError]) -> None:
    process = Process("poor", [sys.executable, "-c", f"exit({text!r})"], log=tmp_path / "log", ready=lambda: False)
    process.start()
    with pytest.raises(ProcessError, match=text) as raised:
        process.wait_ready()
    assert type(raised.value) is error


def test_every_process_dies_when_the_test_process_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.harness import ControlPlane\n"
        "control_plane = ControlPlane(directory=Path(sys.argv[1])); control_plane.start()\n"
        "print(*[process.pid for process in control_plane.processes], flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        pids = [int(word) for word in child.stdout.readline().split()]
        assert [_alive(pid) for pid in pids] == [True, True]
        child.kill()
    wait_until(lambda: not any(_alive(pid) for pid in pids), what="etcd and the API server are gone")
    (left_behind,) = tmp_path.iterdir()
    ControlPlane(directory=tmp_path).stop()
    assert not left_behind.exists()


def test_a_sweep_leaves_alone_what_is_in_use_or_kept(tmp_path: Path) -> None:
    used, kept = Workspace(tmp_path), Workspace(tmp_path)
    kept.release(keep=True)
    sweep(tmp_path)
    assert set(tmp_path.iterdir()) == {used.path, kept.path}
    used.release(keep=False)
    assert set(tmp_path.iterdir()) == {kept.path}


# The control plane


def test_a_missing_program_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "directory", lambda *_: tmp_path)
    with pytest.raises(NotBuiltError, match=r"^etcd is not built: run make kubernetes first$"):
        ControlPlane()


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown parts \['cloud'\]: choose from controller-manager, scheduler, kwok"):
        ControlPlane(parts={"cloud"})


def test_a_port_that_is_taken_is_replaced(tmp_path: Path) -> None:
    control_plane = ControlPlane(directory=tmp_path)
    with socket.create_server(("127.0.0.1", control_plane.port)) as taken, control_plane:
        assert control_plane.port != taken.getsockname()[1]
        assert control_plane.kubectl("get", "namespaces", "default", "-o", "name").stdout == "namespace/default\n"


def test_two_control_planes_run_side_by_side(cluster: ControlPlane, own_cluster: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    own_cluster.request("POST", path, _config_map("here"))
    assert own_cluster.exists(f"{path}/here")
    assert not cluster.exists(f"{path}/here")
    stranger = _connect(cluster, own_cluster.server)
    with pytest.raises(ssl.SSLCertVerificationError):
        stranger.request("GET", "/version")


def test_a_namespace_is_named_after_its_test(cluster: ControlPlane, namespace: str) -> None:
    assert namespace.startswith("a-namespace-is-named-after-its-test-")
    assert cluster.exists(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")


def test_kubectl_reads_its_input_and_raises_what_it_wrote(cluster: ControlPlane, namespace: str) -> None:
    applied = cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(_config_map("made")))
    assert applied.stdout == "configmap/made created\n"
    with pytest.raises(KubectlError, match='configmaps "missing" not found'):
        cluster.kubectl("get", "-n", namespace, "configmap", "missing")


def test_a_user_has_the_rights_of_his_groups(cluster: ControlPlane, namespace: str) -> None:
    nobody, reader = cluster.kubeconfig_for("nobody"), cluster.kubeconfig_for("reader", ["system:monitoring"])
    assert cluster.kubectl("--kubeconfig", str(reader), "get", "--raw", "/metrics").stdout
    with pytest.raises(KubectlError, match='User "nobody" cannot get path "/metrics"'):
        cluster.kubectl("--kubeconfig", str(nobody), "get", "--raw", "/metrics")


def test_a_token_is_good_until_it_has_ended(cluster: ControlPlane, namespace: str) -> None:
    def who_am_i(lifetime: float) -> str:
        token = cluster.service_account_token(namespace, "default", lifetime=lifetime)
        kubeconfig = cluster.kubeconfig_with({"token": token})
        return cluster.kubectl("--kubeconfig", str(kubeconfig), "auth", "whoami", "-o", "json").stdout

    assert json.loads(who_am_i(600))["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"
    with pytest.raises(KubectlError, match="must be logged in"):
        who_am_i(-90)


def test_what_is_forgotten_is_answered_with_410(own_cluster: ControlPlane) -> None:
    """On a custom resource too: its watch cache is made by the first request for it and not at the start."""
    things, config_maps = "/apis/test.example/v1/namespaces/default/things", "/api/v1/namespaces/default/configmaps"
    own_cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _CUSTOM_RESOURCE)
    wait_until(lambda: own_cluster.exists(things), what="the custom resource is served")
    before = _version(own_cluster, config_maps)
    own_cluster.request("POST", config_maps, _config_map("later"))
    own_cluster.compact_etcd()
    assert _watched(own_cluster, config_maps, before) == ["ADDED later"]  # etcd has forgotten, the watch cache has not

    last = _version(own_cluster, config_maps)
    own_cluster.forget_history()
    for path in (config_maps, things):
        assert _watched(own_cluster, path, before) == ["ERROR 410"]
        assert _watched(own_cluster, path, last) == ["ERROR 410"]
    assert _watched(own_cluster, config_maps, _version(own_cluster, config_maps)) == []


_CUSTOM_RESOURCE = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.test.example"},
    "spec": {
        "group": "test.example",
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ],
    },
}


def _version(control_plane: ControlPlane, path: str) -> str:
    return str(control_plane.request("GET", path)["metadata"]["resourceVersion"])


def _watched(control_plane: ControlPlane, path: str, version: str) -> list[str]:
    """What a watch from this resourceVersion says within a second."""
    url = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=1"
    events = map(json.loads, control_plane.kubectl("get", "--raw", url).stdout.splitlines())
    return [f"{event['type']} {event['object'].get('code') or event['object']['metadata']['name']}" for event in events]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with every part, shared by the tests that kill one after the other."""
    everything = ("controller-manager", "scheduler", "kwok")
    with ControlPlane(parts=everything, audit=True, directory=tmp_path_factory.mktemp("whole")) as control_plane:
        yield control_plane


def _run_a_pod(control_plane: ControlPlane, name: str) -> None:
    """A Pod becomes Running and goes: every part has done its share."""
    path = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "main", "image": "none"}]}
    control_plane.request("POST", path, {"metadata": {"name": name}, "spec": spec})

    def running() -> bool:
        pod = control_plane.request("GET", f"{path}/{name}")
        return bool(pod["status"]["phase"] == "Running" and pod["spec"]["nodeName"] == NODE and pod["status"]["podIP"])

    wait_until(running, what=f"the Pod {name} is running")
    control_plane.request("DELETE", f"{path}/{name}")
    wait_until(lambda: not control_plane.exists(f"{path}/{name}"), what=f"the Pod {name} is gone")


def test_the_simulated_node_is_ready_and_runs_a_pod(whole: ControlPlane) -> None:
    def ready() -> bool:
        conditions = whole.request("GET", f"/api/v1/nodes/{NODE}")["status"].get("conditions", [])
        return {"Ready": "True"}.items() <= {condition["type"]: condition["status"] for condition in conditions}.items()

    wait_until(ready, what="the node is ready")
    wait_until(lambda: whole.exists("/api/v1/namespaces/default/serviceaccounts/default"), what="Pods are allowed")
    _run_a_pod(whole, "first")


@pytest.mark.parametrize("part", ["etcd", "api", "controller_manager", "scheduler", "kwok"])
def test_a_part_that_is_killed_comes_back(whole: ControlPlane, part: str) -> None:
    process: Process = getattr(whole, part)
    before, server = process.pid, whole.server
    name = f"kept-{part.replace('_', '-')}"
    whole.request("POST", "/api/v1/namespaces/default/configmaps", _config_map(name))
    process.kill()
    assert not process.running
    process.restart()
    whole.wait_ready()
    assert process.pid != before
    assert whole.server == server
    assert whole.exists(f"/api/v1/namespaces/default/configmaps/{name}")
    _run_a_pod(whole, name)


def test_an_api_server_that_is_asked_to_end_ends_in_spite_of_its_watchers(whole: ControlPlane) -> None:
    whole.api.terminate()
    assert whole.api.returncode == 0  # and not -9
    whole.api.restart()


def test_the_audit_log_has_a_line_a_request(whole: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/configmaps/counted"
    for _ in range(3):
        assert not whole.exists(path)

    def codes() -> list[int]:
        return [event["responseStatus"]["code"] for event in whole.audit_events() if event["requestURI"] == path]

    wait_until(lambda: codes() == [404, 404, 404], what="the three requests are written down")


def test_a_stopped_api_server_is_silent_and_goes_on(whole: ControlPlane) -> None:
    whole.api.stop()
    with closing(_connect(whole, whole.server, timeout=0.3)) as connection, pytest.raises(TimeoutError):
        connection.request("GET", "/version")
    whole.api.resume()
    assert whole.request("GET", "/version")["minor"] == "36"


def test_logs_are_kept_when_a_test_fails_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.cluster.conftest import *\n")
    (tmp_path / "test_inner.py").write_text(
        "from pathlib import Path\n"
        "def test_passes(own_cluster): Path('passes').write_text(str(own_cluster.directory))\n"
        "def test_fails(own_cluster): Path('fails').write_text(str(own_cluster.directory)); assert False\n"
    )
    inner = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", tmp_path, "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in inner.stdout
    assert not Path((tmp_path / "passes").read_text()).exists()
    kept = Path((tmp_path / "fails").read_text())
    assert f"kept in {kept}\n" in inner.stdout
    assert "Serving securely" in (kept / "api.log").read_text()
    shutil.rmtree(kept)
