"""Document 002, step by step and in its order, with the stand-in for flux.

The document's own steps are taken twice: on a real control plane with `edgewright node`, and on `edgewright up`. Our
nodes give brokers host names of their own, by which they find each other. The tests share a control plane and build on
each other, as the steps of the document do.
"""

from __future__ import annotations

import base64
import functools
import os
import random
import signal
import subprocess
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from edgewright.controllers.minicluster.curve import generated, is_certificate
from edgewright.runtime.clock import SystemClock
from tests.acceptance.flux_stage import (
    IMAGE,
    NAMESPACE,
    ROOT,
    Stage,
    Terminal,
    flux,
    has_target,
    on_up,
    setup,
    staged,
    writes,
)
from tests.harness import ControlPlane, programs, repetition, wait_until
from tests.harness.fixtures import run

KINDS = "flux,fluxsetup,statefulset,job,pod,service,configmap,secret"
CONFIG = "/mnt/flux/config"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/fluxes.flux-framework.org"


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane with everything that runs StatefulSets and Jobs; it counts requests."""
    yield from run(request, functools.partial(ControlPlane, parts={"controller-manager", "scheduler"}, audit=True))


@pytest.fixture(scope="module", params=["cluster"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A control plane and a node, which go on from step to step."""
    folder = tmp_path_factory.mktemp("flux")
    if request.param == "up":
        with on_up(request, folder) as ready:
            yield ready
    else:
        with staged(request.getfixturevalue("plane"), folder) as ready:
            yield ready


on_both = pytest.mark.parametrize("stage", ["cluster", "up"], indirect=True)
"""What the document shows; the rest asks the same controllers for more, and some of it needs the real server."""


@pytest.fixture(scope="module")
def terminal(stage: Stage) -> Iterator[Terminal]:
    """The terminal of the operator."""
    opened = Terminal(stage)
    yield opened
    opened.stop()


@pytest.fixture
def _kinds(stage: Stage) -> None:
    """The kinds, also where a test runs without the steps before it."""
    if not stage.plane.exists(DEFINITION):
        assert stage.make("install").returncode == 0


@pytest.fixture
def operator(terminal: Terminal, _kinds: None) -> subprocess.Popen[str]:
    """`make run`, in its own terminal."""
    return terminal.run()


@pytest.fixture
def no_operator(terminal: Terminal) -> None:
    """Ctrl-C in that terminal."""
    terminal.stop()


@pytest.fixture
def namespace(stage: Stage, _kinds: None) -> Iterator[str]:
    """A namespace for what the document does not show."""
    name = stage.plane.create_namespace("flux")
    yield name
    stage.discard("flux,fluxsetup", name)


def page(port: int = 30685) -> str:
    """What the web page says; empty while nobody serves it."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5) as answer:
            said: str = answer.read().decode()
            return said
    except OSError:
        return ""


# --- Quick Start -----------------------------------------------------------------------------------------------------


@on_both
def test_make_a_flux_operator_namespace(stage: Stage) -> None:
    assert stage.kubectl("create", "namespace", "flux-operator") == "namespace/flux-operator created\n"


def test_make_manifests_finds_them_as_they_are(stage: Stage) -> None:
    done = stage.make("manifests")
    assert done.returncode == 0, done.stderr
    changed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "status", "--porcelain", "config/crd"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert changed.stdout == ""


@on_both
def test_troubleshooting_a_kind_that_is_not_installed_is_said_in_one_sentence(stage: Stage) -> None:
    done = stage.edgewright("run", "--controllers", "flux")
    assert done.returncode == 1
    assert "fluxes.flux-framework.org is not served: run `edgewright crds install` first" in done.stderr
    assert "Traceback" not in done.stderr


@on_both
def test_make_install_serves_the_kinds_and_places_kustomize(stage: Stage) -> None:
    if has_target("install"):
        kustomize = ROOT / "bin" / "kustomize"
        kustomize.unlink(missing_ok=True)  # the document: "you'll need to delete first if you make install again"
        done = stage.make("install")
        assert done.returncode == 0, done.stderr
        assert os.access(kustomize, os.X_OK)
    else:
        done = stage.edgewright("crds", "install")
        assert done.returncode == 0, done.stderr
    served = stage.kubectl("api-resources", "--api-group=flux-framework.org", "--no-headers")
    assert [line.split()[0] for line in served.splitlines()] == ["fluxes", "fluxsetups", "miniclusters"]


@on_both
def test_samples_are_built_and_applied(stage: Stage) -> None:
    build = [str(ROOT / "bin" / "kustomize"), "build"]
    if not has_target("install"):
        build = [programs.program("kubectl"), "kustomize"]
    built = subprocess.run(
        [*build, "config/samples"], cwd=ROOT, env=stage.environment(), capture_output=True, text=True, check=True
    )
    said = stage.kubectl("apply", "-f", "-", input=built.stdout).splitlines()
    for name in ("flux.flux-framework.org/flux-sample", "fluxsetup.flux-framework.org/flux-sample"):
        assert f"{name} created" in said
    assert "flux.flux-framework.org/job created" in said
    again = stage.kubectl("apply", "-f", "-", input=built.stdout).splitlines()
    assert "flux.flux-framework.org/flux-sample unchanged" in again


@on_both
def test_make_run_runs_the_sample_to_its_end(stage: Stage, operator: subprocess.Popen[str]) -> None:
    seen: set[str] = set()

    def ended() -> bool:
        # Troubleshooting: "To view a resource (in the flux-operator namespace)".
        seen.update(line.split()[0] for line in stage.kubectl("--namespace", NAMESPACE, "get", "pods").splitlines())
        return bool(stage.flux("flux-sample").get("status", {}).get("phase") == "Succeeded")

    wait_until(ended, timeout=120, interval=0.1, what="flux-sample has succeeded")
    assert {"flux-sample-0", "flux-sample-1"} <= seen
    assert any(name.startswith("flux-sample-launcher-") for name in seen)
    done = stage.until("flux-sample", phase="Succeeded", exitCode=0, workers="0/2")
    conditions = {each["type"]: (each["status"], each["reason"]) for each in done["status"]["conditions"]}
    assert conditions == {
        "Ready": ("True", "Succeeded"),
        "WorkersReady": ("False", "ScaledToZero"),
        "Finished": ("True", "Succeeded"),
    }
    assert stage.reason("fluxsetup", "flux-sample")[:2] == ("True", "InUse")
    assert stage.get("statefulset", "flux-sample")["spec"]["replicas"] == 0
    assert operator.poll() is None


@on_both
def test_the_broker_was_started_as_the_recorded_ones_were(stage: Stage) -> None:
    workers = stage.get("statefulset", "flux-sample")["spec"]
    assert (workers["podManagementPolicy"], workers["serviceName"]) == ("Parallel", "flux-sample-workers")
    assert workers["template"]["metadata"]["labels"]["app"] == "flux-workers"
    assert f"flux start -o --config-path={CONFIG} &" in workers["template"]["spec"]["containers"][0]["command"][2]
    launcher = stage.get("job", "flux-sample-launcher")["spec"]["template"]["spec"]
    start = ["flux", "start", "-o", f"--config-path={CONFIG}"]
    assert launcher["containers"][0]["command"] == [*start, "sleep", "2"]
    assert launcher["containers"][0]["image"] == IMAGE
    service = stage.get("service", "flux-sample-workers")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    data = stage.get("configmap", "flux-sample-flux-config")["data"]
    assert data["hostfile"].split() == ["flux-sample-launcher", "flux-sample-0", "flux-sample-1"]
    assert tomllib.loads(data["broker.toml"]) == {
        "bootstrap": {
            "curve_cert": f"{CONFIG}/curve.cert",
            "default_port": 8050,
            "default_bind": "tcp://@POD_IP@:%p",
            "default_connect": "tcp://%h.flux-sample-workers.flux-operator.svc.cluster.local:%p",
            "hosts": [{"host": "flux-sample-launcher"}, {"host": "flux-sample-[0-1]"}],
        },
        "tbon": {"tcp_user_timeout": "2m"},
        "resource": {"exclude": "0"},
    }
    said = stage.kubectl("logs", "job/flux-sample-launcher", "-n", NAMESPACE)
    assert said == "flux-broker: rank 0 of 3: online: flux-sample-launcher,flux-sample-0,flux-sample-1\n"


@on_both
def test_the_certificate_is_in_a_secret_and_nowhere_else(stage: Stage) -> None:
    secret = stage.get("secret", "flux-sample-curve-certificate")
    text = base64.b64decode(secret["data"]["curve.cert"]).decode()
    assert is_certificate(text)
    key = text.split('secret-key = "')[1][:40]
    elsewhere = stage.kubectl("get", "configmap,statefulset,job,pod,flux,fluxsetup,event", "-A", "-o", "yaml")
    assert key not in elsewhere
    assert key not in (stage.folder / "operator.log").read_text()


# --- 3. Deploy: the web-ui -------------------------------------------------------------------------------------------


@on_both
def test_the_web_ui_opens_on_the_port_of_the_sample(stage: Stage, operator: subprocess.Popen[str]) -> None:
    stage.until("job", "default", phase="Running", workers="1/1")
    # "do kubectl get svc and wait until the service goes from pending to ready"
    (line,) = [line for line in stage.kubectl("get", "svc").splitlines() if line.startswith("job ")]
    assert line.split()[1:5:3] == ["NodePort", "30685:30685/TCP"]
    wait_until(lambda: "Hello from the edge" in page(), what="the page shows the greeting")
    wait_until(lambda: stage.reason("flux", "job", "default")[1] == "Serving", what="the condition says so")


@on_both
def test_the_operator_watches_for_changes_of_greeting_and_port(stage: Stage, operator: subprocess.Popen[str]) -> None:
    stage.kubectl("patch", "flux", "job", "--type=merge", "-p", '{"spec": {"greeting": "Moo & more"}}')
    wait_until(lambda: "Moo &amp; more" in page(), timeout=120, what="the page shows the new greeting")
    stage.kubectl("patch", "flux", "job", "--type=merge", "-p", '{"spec": {"port": 30686}}')
    wait_until(lambda: "Moo &amp; more" in page(30686), timeout=120, what="the page is at the new port")
    assert page(30685) == ""
    stage.kubectl(
        "patch", "flux", "job", "--type=json", "-p", '[{"op": "replace", "path": "/spec/port", "value": 8080}]'
    )
    stage.until("job", "default", phase="Running", workers="1/1")
    ports = wait_until(lambda: stage.get("service", "job", "default")["spec"]["ports"], what="the Service is there")
    assert (ports[0]["port"], ports[0]["targetPort"]) == (8080, 8080)
    wait_until(lambda: "Moo &amp; more" in page(ports[0]["nodePort"]), timeout=120, what="it is at a node port")


# --- 7. Cleanup ------------------------------------------------------------------------------------------------------


@on_both
@pytest.mark.usefixtures("no_operator")
def test_cleanup_with_the_operator_stopped(stage: Stage) -> None:
    said = stage.kubectl("delete", "pod", "--all")
    assert 'pod "job-0" deleted' in said
    said = stage.kubectl("delete", "svc", "--all")
    assert 'service "job" deleted' in said
    # Beyond the document: what made the Pods goes with the Flux, and then nothing comes back.
    stage.kubectl("delete", "flux", "--all")
    stage.kubectl("delete", "flux,fluxsetup", "--all", "-n", NAMESPACE)
    for namespace in ("default", NAMESPACE):
        wait_until(functools.partial(nothing_is_left, stage, namespace), timeout=120, what="nothing is left")


def left(stage: Stage, namespace: str) -> list[str]:
    """What there is of our kinds, without what every namespace has."""
    names = stage.names(KINDS, namespace)
    return [name for name in names if name not in {"configmap/kube-root-ca.crt", "service/kubernetes"}]


def nothing_is_left(stage: Stage, namespace: str) -> bool:
    return left(stage, namespace) == []


@on_both
def test_deletion_leaves_nothing_while_the_operator_runs(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(flux("gone", namespace, command="sleep 1000", port=8080), setup("gone", namespace, size=2))
    stage.until("gone", namespace, phase="Running", workers="2/2")
    stage.kubectl("delete", "flux,fluxsetup", "--all", "-n", namespace)
    wait_until(lambda: left(stage, namespace) == [], timeout=120, what="nothing is left")


# --- what the document asks of both kinds ----------------------------------------------------------------------------


def test_a_changed_command_image_and_size_are_followed(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(flux("follow", namespace, command="sleep 1000"))
    stage.until("follow", namespace, phase="Running", workers="1/1")
    stage.apply(setup("follow", namespace, size=3))
    wait_until(
        lambda: stage.flux("follow", namespace)["status"]["workers"] == "3/3", timeout=120, what="there are 3 workers"
    )
    stage.until("follow", namespace, phase="Running", workers="3/3")
    stage.apply(flux("follow", namespace, command="sleep 1000", image="docker.io/fluxrm/flux-sched:focal"))
    stage.until("follow", namespace, phase="Running", workers="3/3")
    for kind, name in (("statefulset", "follow"), ("job", "follow-launcher")):
        pod = stage.get(kind, name, namespace)["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == "docker.io/fluxrm/flux-sched:focal"
    stage.apply(flux("follow", namespace, command="sh -c 'echo a word; exit 7'"))
    stage.until("follow", namespace, phase="Failed", exitCode=7, workers="0/3")
    assert stage.reason("flux", "follow", namespace) == (
        "False",
        "CommandFailed",
        "the command ended with exit code 7",
    )


def test_the_published_samples_run_as_they_were_published(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    texts: dict[str, Any] = {
        "hostfile": {
            "kind": "ConfigMap",
            "metadata": {"name": "etc-hosts"},
            "data": {"hostfile": "flux-workers-0 10.0.0.1\n"},
        },
        "cert": {
            "kind": "Secret",
            "metadata": {"name": "secret-tls"},
            "type": "kubernetes.io/tls",
            "data": {"tls.crt": "MIIC2DCCAcCgAwIBAgIBATANBgkqh ...", "tls.key": "MIIEpgIBAAKCAQEA7yn3bRHQ5FHMQ ..."},
        },
        "broker": {
            "kind": "ConfigMap",
            "metadata": {"name": "flux-config"},
            "data": {
                "hostfile": '[bootstrap]\n  curve_cert = "/mnt/curve/curve.cert"\n  default_port = 8051\n'
                '  default_bind = "tcp://eth0:%p"\n  default_connect = "tcp://%h:%p"\n'
                '  hosts = [\n    { host="flux-workers-0.flux-workers"},\n  ]\n'
            },
        },
    }
    config: dict[str, Any] = {
        name: {"config": yaml.safe_dump({"apiVersion": "v1", **body}, sort_keys=False)} for name, body in texts.items()
    }
    stage.apply(flux(namespace=namespace, image=IMAGE, command="sleep"), setup(namespace=namespace, size=2, **config))
    # `sleep` alone has no operand: that it ends with 1 is what the published sample does.
    stage.until("flux-sample", namespace, phase="Failed", exitCode=1)
    data = stage.get("configmap", "flux-sample-flux-config", namespace)["data"]
    assert data["hostfile"] == "flux-workers-0 10.0.0.1\n"
    assert tomllib.loads(data["broker.toml"])["bootstrap"]["default_port"] == 8051
    assert "online: flux-sample-launcher" in stage.kubectl("logs", "job/flux-sample-launcher", "-n", namespace)


def test_a_given_certificate_is_the_brokers(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    text = generated("mine", SystemClock().now())
    stage.apply(flux("own", namespace, command="true"), setup("own", namespace, cert={"config": text}))
    stage.until("own", namespace, phase="Succeeded")
    secret = stage.get("secret", "own-curve-certificate", namespace)
    assert base64.b64decode(secret["data"]["curve.cert"]).decode() == text


def test_a_setup_without_its_flux_says_so(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    stage.apply(setup("alone", namespace, size=2))
    wait_until(lambda: stage.reason("fluxsetup", "alone", namespace)[0], what="it says something")
    assert stage.reason("fluxsetup", "alone", namespace) == (
        "False",
        "FluxMissing",
        f"there is no Flux alone in namespace {namespace}: create it, and it is set up so",
    )
    assert left(stage, namespace) == ["fluxsetup.flux-framework.org/alone"]


@pytest.mark.parametrize(
    ("spec", "config", "reason", "field"),
    [
        ({"command": "sh -c 'open"}, {}, "InvalidCommand", "spec.command"),
        ({"command": "true"}, {"broker": {"config": "no = = toml"}}, "InvalidSetup", "FluxSetup spec.broker.config"),
        ({"command": "true"}, {"cert": {"config": "no certificate"}}, "InvalidSetup", "FluxSetup spec.cert.config"),
    ],
)
def test_a_bad_spec_is_said_with_its_field_and_nothing_is_made(
    stage: Stage,
    operator: subprocess.Popen[str],
    namespace: str,
    spec: dict[str, Any],
    config: dict[str, Any],
    reason: str,
    field: str,
) -> None:
    stage.apply(setup("bad", namespace, **config), flux("bad", namespace, **spec))
    stage.until("bad", namespace, phase="Failed")
    status, why, message = stage.reason("flux", "bad", namespace)
    assert (status, why) == ("False", reason)
    assert message.startswith(f"{field} ")
    assert left(stage, namespace) == ["flux.flux-framework.org/bad", "fluxsetup.flux-framework.org/bad"]


def test_a_flux_that_says_neither_command_nor_port_is_refused_by_the_schema(stage: Stage, namespace: str) -> None:
    with pytest.raises(AssertionError, match=r"spec\.command is required where spec\.port is not given"):
        stage.apply(flux("nothing", namespace))


# --- Wisdom ----------------------------------------------------------------------------------------------------------


def test_wisdom_the_underlying_error_reaches_the_condition(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(flux("image", namespace, command="true", image="registry.example/nobody/has:this"))
    said = 'image-0: ErrImagePull: image "registry.example/nobody/has:this" is not known'
    wait_until(lambda: said in stage.reason("flux", "image", namespace)[2], what="it says what it waits for")
    assert stage.reason("flux", "image", namespace)[1] == "WorkersNotReady"
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"count/statefulsets.apps": "0"}},
    }
    stage.kubectl("delete", "flux", "image", "-n", namespace)
    stage.apply(quota)
    wait_until(lambda: stage.get("resourcequota", "none", namespace)["status"].get("hard"), what="the quota holds")
    stage.apply(flux("quota", namespace, command="true"))
    wait_until(lambda: stage.reason("flux", "quota", namespace)[1] == "ApplyFailed", what="it says what was refused")
    assert "exceeded quota: none" in stage.reason("flux", "quota", namespace)[2]
    stage.kubectl("delete", "resourcequota", "none", "-n", namespace)
    stage.until("quota", namespace, phase="Succeeded")


def test_wisdom_events_only_when_a_condition_changes(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(flux("told", namespace, command="sleep 1"), setup("told", namespace, size=2))
    stage.until("told", namespace, phase="Succeeded", workers="0/2")

    def told() -> dict[str, int]:
        found = stage.items("event", namespace, fieldSelector="involvedObject.kind=Flux")
        return {each["reason"]: each["count"] for each in found}

    wait_until(lambda: "Succeeded" in told(), what="the last change is told")
    assert told() == dict.fromkeys(("WorkersStarting", "Launching", "Running", "Succeeded"), 1)


def test_wisdom_kubectl_get_gives_a_nice_summary(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    stage.apply(flux("seen", namespace, command="true"), setup("seen", namespace, size=1))
    stage.until("seen", namespace, phase="Succeeded", workers="0/1")
    header, row = stage.kubectl("get", "flux", "-n", namespace).splitlines()
    assert header.split() == ["NAME", "PHASE", "WORKERS", "EXIT", "AGE"]
    assert row.split()[:4] == ["seen", "Succeeded", "0/1", "0"]
    header, row = stage.kubectl("get", "fluxsetup", "-n", namespace).splitlines()
    assert (header.split(), row.split()[:3]) == (["NAME", "SIZE", "READY", "AGE"], ["seen", "1", "True"])


@pytest.mark.usefixtures("no_operator")
def test_wisdom_status_holds_observations_only(stage: Stage, namespace: str) -> None:
    stage.apply(flux("wiped", namespace, command="sh -c 'exit 3'"))
    with stage.running():
        before = stage.until("wiped", namespace, phase="Failed", exitCode=3, workers="0/1")["status"]
    job = stage.get("job", "wiped-launcher", namespace)["metadata"]["uid"]
    stage.kubectl("delete", "pod", "--all", "-n", namespace)
    stage.kubectl(
        "patch", "flux", "wiped", "-n", namespace, "--subresource=status", "--type=merge", "-p", '{"status": null}'
    )
    assert "status" not in stage.flux("wiped", namespace)
    with stage.running(log="again.log"):
        after = stage.until("wiped", namespace, phase="Failed", exitCode=3, workers="0/1")["status"]
    assert without_times(after) == without_times(before)
    assert stage.get("job", "wiped-launcher", namespace)["metadata"]["uid"] == job


def without_times(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [{**each, "lastTransitionTime": ""} for each in status["conditions"]]
    return {**status, "conditions": sorted(conditions, key=lambda each: each["type"])}


@pytest.mark.usefixtures("no_operator")
def test_wisdom_a_second_reconcile_makes_no_write(stage: Stage, plane: ControlPlane, namespace: str) -> None:
    stage.apply(flux("calm", namespace, command="true"), flux("busy", namespace, command="sleep 1000"))
    with stage.running():
        stage.until("calm", namespace, phase="Succeeded", workers="0/1")
        stage.until("busy", namespace, phase="Running", workers="1/1")
    before = len(plane.audit_events())
    with stage.running(log="again.log"):
        for name in ("calm", "busy"):
            stage.kubectl("annotate", "flux", name, "-n", namespace, "look=again")
        # It is written for after the others were looked at.
        stage.apply(flux("marker", namespace, command="'"))
        stage.until("marker", namespace, phase="Failed")
    assert writes(plane, namespace, since=before) == [("patch", "fluxes", "marker")]


@pytest.mark.repeated
@pytest.mark.parametrize("seed", repetition.numbers(3, 20))
@pytest.mark.usefixtures("no_operator")
def test_wisdom_killed_at_a_random_moment_it_comes_to_the_same_end(stage: Stage, namespace: str, seed: int) -> None:
    stage.apply(flux("killed", namespace, command="sleep 1"), setup("killed", namespace, size=2))
    with stage.running("--no-leader-elect") as process:
        log = stage.folder / "operator.log"
        wait_until(lambda: "controller enabled" in log.read_text(), what="it has started")
        time.sleep(random.Random(seed).uniform(0, 4))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with stage.running("--no-leader-elect", log="again.log"):
        stage.until("killed", namespace, phase="Succeeded", exitCode=0, workers="0/2")
    assert sorted(name for name in left(stage, namespace) if not name.startswith("pod/")) == [
        "configmap/killed-flux-config",
        "flux.flux-framework.org/killed",
        "fluxsetup.flux-framework.org/killed",
        "job.batch/killed-launcher",
        "secret/killed-curve-certificate",
        "service/killed-workers",
        "statefulset.apps/killed",
    ]
    launchers = [name for name in stage.names("pod", namespace) if "launcher" in name]
    assert len(launchers) == 1
