"""MiniClusters from their creation to their end, on a real control plane, with the stand-in for flux.

`edgewright node` runs the Pods and kube-controller-manager the Jobs. The tests share both and one operator; each has a
namespace of its own. What people have complained of elsewhere has a test of that name.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewright.controllers.minicluster.curve import is_certificate
from edgewright.runtime import config
from tests.acceptance.flux_stage import IMAGE, Stage, flux, minicluster, staged, writes
from tests.harness import ControlPlane, repetition, wait_until
from tests.harness.fixtures import run
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.minicluster.plane import operating

KINDS = "minicluster,job,pod,service,configmap,secret"


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane with everything that runs Jobs; it counts requests."""
    yield from run(request, functools.partial(ControlPlane, parts={"controller-manager", "scheduler"}, audit=True))


@pytest.fixture(scope="module")
def stage(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The node, and the kinds."""
    with staged(plane, tmp_path_factory.mktemp("minicluster"), name="edge-minicluster") as ready:
        done = ready.edgewright("crds", "install", "--controllers", "flux")
        assert done.returncode == 0, done.stderr
        yield ready


@pytest.fixture(scope="module")
def operator(stage: Stage) -> Iterator[subprocess.Popen[str]]:
    """The operator, as long as the tests of this module."""
    with stage.running("--controllers", "flux") as process:
        yield process


@pytest.fixture
def namespace(stage: Stage) -> Iterator[str]:
    """A namespace that goes afterwards, with what is in it."""
    name = stage.plane.create_namespace("mini")
    yield name
    stage.discard("minicluster", name)


def until(stage: Stage, name: str, namespace: str, **status: Any) -> dict[str, Any]:
    return stage.until(name, namespace, kind="minicluster", **status)


def left(stage: Stage, namespace: str) -> list[str]:
    """What there is of our kinds, without what every namespace has."""
    return [name for name in stage.names(KINDS, namespace) if name != "configmap/kube-root-ca.crt"]


def lead_log(stage: Stage, name: str, namespace: str) -> str:
    selector = f"job-name={name},batch.kubernetes.io/job-completion-index=0"
    return stage.kubectl("logs", "-l", selector, "-n", namespace, "--tail=-1")


def pods_of(stage: Stage, name: str, namespace: str) -> dict[str, str]:
    """The Pods of the mini-cluster that are not going, by their number, with their uids."""
    return {
        pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: pod["metadata"]["uid"]
        for pod in stage.items("pod", namespace, labelSelector=f"job-name={name}")
        if "deletionTimestamp" not in pod["metadata"]
    }


def refused(stage: Stage, document: dict[str, Any]) -> str:
    """What the API server says to a document that it must not take."""
    done = subprocess.run(
        ["kubectl", "apply", "-f", "-"],
        env=stage.environment(),
        input=json.dumps(document),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


# --- deaths: before the operator is started that the other tests share -----------------------------------------------

END = [
    "configmap/mortal-entrypoint",
    "job.batch/mortal",
    "minicluster.flux-framework.org/mortal",
    "secret/mortal-curve-certificate",
    "service/flux-service",
]


@pytest.mark.repeated
@pytest.mark.parametrize("number", repetition.numbers(3, 20))
async def test_killed_at_every_write_it_comes_to_the_same_end(stage: Stage, namespace: str, number: int) -> None:
    """Fixed seeds pick some writes in `make verify`; `tests/unit` goes through all of them on another server."""
    assert not (stage.folder / "operator.log").exists(), "another operator would do the work"
    server = config.load(kubeconfig=stage.plane.kubeconfig)
    stage.apply(minicluster("mortal", namespace, "sh -c 'echo ran; exit 3'"))

    async def is_over() -> bool:
        found = await asyncio.to_thread(stage.get, "minicluster", "mortal", namespace)
        return bool(found.get("status", {}).get("exitCode") == 3)

    async def died_or_over() -> bool:
        return mortal.died.is_set() or await is_over()

    async with operating(server, at=1 + number % 9) as mortal:
        await wait_until_async(died_or_over, timeout=180, what="it has died, or come to its end")
    async with operating(server):
        await wait_until_async(is_over, timeout=180, what="it has come to its end")
    found = await asyncio.to_thread(left, stage, namespace)
    assert [each for each in sorted(found) if not each.startswith("pod/")] == END
    said = await asyncio.to_thread(lead_log, stage, "mortal", namespace)
    assert said.splitlines()[1:] == ["ran"]


# --- a life ----------------------------------------------------------------------------------------------------------


def test_hello_world_runs_once_per_task_and_then_post(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    container = {"commands": {"post": "echo hello post"}}
    stage.apply(minicluster("hello", namespace, "echo hello world", size=4, tasks=4, container=container))
    done = until(stage, "hello", namespace, phase="Succeeded", exitCode=0)["status"]
    said = lead_log(stage, "hello", namespace).splitlines()
    online = "flux-broker: rank 0 of 4: online: hello-0,hello-1,hello-2,hello-3"
    assert said == [online, *["hello world"] * 4, "hello post"]
    conditions = {each["type"]: (each["status"], each["reason"]) for each in done["conditions"]}
    assert conditions == {
        "Ready": ("True", "Succeeded"),
        "PodsReady": ("False", "Ended"),
        "Finished": ("True", "Succeeded"),
    }
    assert (done["size"], done["maximumSize"], done["selector"]) == (4, 4, "hpa-selector=hello")
    header, row = stage.kubectl("get", "minicluster", "-n", namespace).splitlines()
    assert header.split() == ["NAME", "PHASE", "PODS", "EXIT", "AGE"]
    assert (row.split()[:2], row.split()[3]) == (["hello", "Succeeded"], "0")


def test_the_exit_code_of_the_command_is_in_the_status_and_it_is_not_run_again(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(minicluster("fails", namespace, "sh -c 'echo ran; exit 7'"))
    until(stage, "fails", namespace, phase="Failed", exitCode=7)
    assert stage.reason("minicluster", "fails", namespace) == (
        "False",
        "CommandFailed",
        "the command ended with exit code 7",
    )
    assert lead_log(stage, "fails", namespace).splitlines()[1:] == ["ran"]


# --- what is told to brokers -----------------------------------------------------------------------------------------


def test_brokers_are_configured_and_started_as_the_recorded_ones_were(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    # Facts of brokers that ran elsewhere (flux-core 0.88.0): hosts NAME-[0-N], port 8050, a certificate file, a numeric
    # address to bind to, -S attributes, and the quorum on the lead alone.
    stage.apply(minicluster("w", namespace, "true", size=2, maxSize=4, tasks=2))
    until(stage, "w", namespace, phase="Succeeded")
    data = stage.get("configmap", "w-entrypoint", namespace)["data"]
    assert data["hostlist"] == "w-[0-3]\n"
    assert tomllib.loads(data["broker.toml"]) == {
        "access": {"allow-guest-user": True, "allow-root-owner": True},
        "bootstrap": {
            "curve_cert": "/mnt/flux/config/curve.cert",
            "default_port": 8050,
            "default_bind": "tcp://@POD_IP@:%p",
            "default_connect": f"tcp://%h.flux-service.{namespace}.svc.cluster.local:%p",
            "hosts": [{"host": "w-[0-3]"}],
        },
        "resource": {"noverify": True, "path": "/mnt/flux/config/R"},
        "sched-fluxion-qmanager": {"queue-policy": "fcfs"},
    }
    started = [line for line in data["wait-0.sh"].splitlines() if line.startswith("run flux start")]
    attributes = (
        "-o --config-path=/mnt/flux/config -o -Stbon.fanout=256 -o -Srundir=/mnt/flux/run -o -Sstatedir=/mnt/flux/state"
        " -o -Slocal-uri=local:///mnt/flux/run/local -o -Stbon.connect_timeout=5s -o -Slog-stderr-level=3"
        " -o -Slog-stderr-mode=local"
    )
    lead, worker = started
    assert lead == f"run flux start {attributes} -o -Sbroker.quorum=2 sh /flux_operator/lead-0.sh"
    assert worker == f"run flux start {attributes}"
    assert data["lead-0.sh"].splitlines()[-1] == "flux submit -N 2 -n 2 --quiet --watch true"
    service = stage.get("service", "flux-service", namespace)["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    job = stage.get("job", "w", namespace)["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)


def test_secret_key_in_a_log(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    look = "sh -c 'stat -c %a /mnt/flux/config/curve.cert; sleep 2'"
    talkative = {"debug": True, "zeromq": True, "timed": True}
    stage.apply(minicluster("quiet", namespace, look, logging=talkative, container={"launcher": True}))
    wait_until(lambda: len(pods_of(stage, "quiet", namespace)) == 2, timeout=180, what="there are two Pods")
    until(stage, "quiet", namespace, phase="Running")
    logs = [stage.folder / "operator.log", stage.folder / "node.log"]
    until(stage, "quiet", namespace, phase="Succeeded")
    said = stage.kubectl("logs", "-l", "job-name=quiet", "-n", namespace, "--all-containers", "--tail=-1")
    assert "600" in said.splitlines()
    text = base64.b64decode(stage.get("secret", "quiet-curve-certificate", namespace)["data"]["curve.cert"]).decode()
    assert is_certificate(text)
    objects = stage.kubectl("get", "minicluster,job,pod,configmap,service,event", "-n", namespace, "-o", "yaml")
    for name in ("secret-key", "public-key"):
        key = text.split(f'{name} = "')[1][:40]
        assert key not in said
        assert key not in objects
        assert not [log for log in logs if key in log.read_text()]


# --- scaling ---------------------------------------------------------------------------------------------------------


def test_scaling_within_max_size_and_quorum_below_max_size(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(minicluster("scale", namespace, "sleep 1000", size=2, maxSize=4))
    until(stage, "scale", namespace, phase="Running")
    # Two of four hosts are there, and the command runs: the quorum is what was asked for, not what may come.
    wait_until(lambda: "online: scale-0,scale-1" in lead_log(stage, "scale", namespace), timeout=180, what="it runs")
    first = pods_of(stage, "scale", namespace)
    stage.kubectl("scale", "minicluster", "scale", "--replicas=4", "-n", namespace)
    until(stage, "scale", namespace, pods="4/4", size=4)
    wait_until(lambda: "joined: scale-3" in lead_log(stage, "scale", namespace), timeout=180, what="the new one joins")
    # Downsizing recreates Pods (flux-operator #213): not here.
    stage.kubectl("scale", "minicluster", "scale", "--replicas=2", "-n", namespace)
    until(stage, "scale", namespace, pods="2/2", size=2)
    wait_until(lambda: pods_of(stage, "scale", namespace) == first, timeout=180, what="the first two are left")
    assert stage.get("minicluster", "scale", namespace)["status"]["phase"] == "Running"


def test_growth_beyond_max_size_is_refused_with_the_rule(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(minicluster("limit", namespace, "sleep 1000", size=1, maxSize=2))
    until(stage, "limit", namespace, phase="Running")
    for size, words in (
        (3, "spec.maxSize must not be below spec.size"),
        (0, "spec.size in body should be greater than or equal to 1"),
    ):
        with pytest.raises(AssertionError, match=words):
            stage.kubectl("scale", "minicluster", "limit", f"--replicas={size}", "-n", namespace)
    stage.apply(minicluster("fixed", namespace, "sleep 1000", size=2))
    until(stage, "fixed", namespace, phase="Running")
    with pytest.raises(AssertionError, match="cannot grow beyond the size that the mini-cluster was made with"):
        stage.kubectl("scale", "minicluster", "fixed", "--replicas=3", "-n", namespace)
    stage.kubectl("scale", "minicluster", "fixed", "--replicas=1", "-n", namespace)
    until(stage, "fixed", namespace, pods="1/1")
    stage.kubectl("scale", "minicluster", "fixed", "--replicas=2", "-n", namespace)
    until(stage, "fixed", namespace, pods="2/2")


def test_a_command_starts_with_min_size(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    # The second Pod never starts, because no node has its image's like; the first is enough.
    pod = {"nodeSelector": {"nobody": "has-this"}}
    stage.apply(minicluster("waits", namespace, "true", size=2, pod=pod))
    why = "didn't match Pod's node affinity/selector"
    wait_until(lambda: why in stage.reason("minicluster", "waits", namespace)[2], timeout=180, what="it says why")
    assert stage.reason("minicluster", "waits", namespace)[1] == "PodsNotReady"
    held = "while [ $JOB_COMPLETION_INDEX = 1 ] && ! [ -e /mnt/flux/never ]; do sleep 1; done"
    container = {"commands": {"workerPre": held}}
    stage.apply(minicluster("early", namespace, "echo early", size=2, minSize=1, container=container))
    until(stage, "early", namespace, phase="Succeeded", exitCode=0)
    assert lead_log(stage, "early", namespace).splitlines() == [
        "flux-broker: rank 0 of 2: online: early-0",
        "early",
    ]


# --- bad specs -------------------------------------------------------------------------------------------------------

NAMED: dict[str, Any] = {"name": "other", "image": IMAGE}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"size": 2, "maxSize": 1}, "spec.maxSize must not be below spec.size"),
        ({"size": 2, "minSize": 3}, "spec.minSize must not be above spec.size"),
        ({"size": 0}, "spec.size in body should be greater than or equal to 1"),
        ({"deadlineSeconds": 0}, "spec.deadlineSeconds in body should be greater than or equal to 1"),
        ({"containers": []}, "spec.containers in body should have at least 1 items"),
        ({"containers": [NAMED, NAMED]}, "exactly one of spec.containers must have runFlux: true"),
        (
            {"containers": [{"image": IMAGE, "runFlux": True}, {"image": IMAGE}]},
            "each of spec.containers that does not run Flux needs a name",
        ),
        (
            {"containers": [{"image": IMAGE, "launcher": True, "batch": True}]},
            "a container is a launcher or a batch, not both",
        ),
        (
            {"containers": [{"image": IMAGE, "command": "true", "commands": {"script": "true"}}]},
            "a container has a command or commands.script, not both",
        ),
        ({"services": [{"image": IMAGE}]}, "each of spec.services needs a name"),
        ({"services": [{**NAMED, "commands": {"pre": "true"}}]}, "spec.services have no commands but servicePre"),
        (
            {"containers": [{"image": IMAGE, "volumes": {"data": {"claimName": "data"}}}]},
            "a volume needs a path: say where it is mounted",
        ),
        (
            {"containers": [{"image": IMAGE, "volumes": {"data": {"path": "/data"}}}]},
            "a volume is exactly one of hostPath, claimName, configMapName, secretName and emptyDir",
        ),
        ({"bursting": {}}, 'unknown field "spec.bursting"'),
    ],
)
def test_bad_spec(stage: Stage, namespace: str, spec: dict[str, Any], words: str) -> None:
    document = minicluster("bad", namespace, "true")
    document["spec"] |= spec
    assert words in refused(stage, document)
    assert left(stage, namespace) == []


def test_bad_spec_that_no_schema_knows_is_a_condition_with_the_field(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(minicluster("toml", namespace, "true", flux={"brokerConfig": "no = = toml"}))
    until(stage, "toml", namespace, phase="Failed")
    status, reason, message = stage.reason("minicluster", "toml", namespace)
    assert (status, reason) == ("False", "InvalidSpec")
    assert message.startswith("spec.flux.brokerConfig is no TOML")
    assert left(stage, namespace) == ["minicluster.flux-framework.org/toml"]


def test_deadline(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    stage.apply(minicluster("late", namespace, "sleep 1000", deadlineSeconds=5))
    done = until(stage, "late", namespace, phase="Failed")["status"]
    assert stage.reason("minicluster", "late", namespace)[1:] == (
        "DeadlineExceeded",
        "it took longer than spec.deadlineSeconds, 5, allows",
    )
    assert "exitCode" not in done
    wait_until(lambda: pods_of(stage, "late", namespace) == {}, timeout=180, what="its Pods are gone")


# --- what else a MiniCluster can do ----------------------------------------------------------------------------------


def test_launcher_script_batch_and_pieces_of_shell(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    script = "#!/bin/sh\necho from a script\necho of two lines\n"
    pieces = {"init": "echo init", "pre": "echo pre", "brokerPre": "echo broker", "workerPre": "echo worker"}
    stage.apply(
        minicluster("script", namespace, container={"commands": {"script": script, **pieces, "prefix": "env"}}),
        minicluster("batch", namespace, "echo one\necho two", container={"batch": True}),
        minicluster("launch", namespace, "flux submit -n 2 --quiet --watch echo mine", container={"launcher": True}),
        minicluster("raw", namespace, "exit 9", container={"batch": True, "batchRaw": True}),
    )
    until(stage, "script", namespace, phase="Succeeded")
    said = [line for line in lead_log(stage, "script", namespace).splitlines() if "flux-broker" not in line]
    assert said == ["init", "pre", "broker", "from a script", "of two lines"]
    until(stage, "batch", namespace, phase="Succeeded")
    assert lead_log(stage, "batch", namespace).splitlines()[1:] == ["one", "two"]
    until(stage, "launch", namespace, phase="Succeeded")
    assert lead_log(stage, "launch", namespace).splitlines()[1:] == ["mine", "mine"]
    until(stage, "raw", namespace, phase="Failed", exitCode=9)


def test_an_interactive_one_serves_with_its_services_until_it_is_deleted(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    service = {"name": "web", "image": IMAGE, "command": "sleep 1000", "commands": {"servicePre": "echo before"}}
    stage.apply(minicluster("serve", namespace, services=[service]))
    wait_until(lambda: stage.reason("minicluster", "serve", namespace)[1] == "Serving", timeout=180, what="it serves")
    assert stage.reason("minicluster", "serve", namespace)[0] == "True"
    wait_until(
        lambda: stage.kubectl("logs", "serve-services", "-n", namespace) == "before\n", timeout=180, what="it has run"
    )
    stage.kubectl("delete", "pod", "serve-services", "-n", namespace)
    wait_until(
        lambda: "pod/serve-services" in stage.names("pod", namespace), timeout=180, what="the services are there again"
    )
    stage.kubectl("delete", "minicluster", "serve", "-n", namespace)
    wait_until(lambda: left(stage, namespace) == [], timeout=180, what="nothing is left")


def test_a_container_next_to_flux_ends_with_it(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    shared = {"shared": {"emptyDir": True, "path": "/shared"}}
    sidecar = {
        "name": "sidecar",
        "image": IMAGE,
        "command": "echo I am here; touch /shared/here; sleep 1000",
        "volumes": shared,
    }
    # It ends only once the other has come to its word: which of two containers starts first is anybody's guess.
    main = "sh -c 'until test -e /shared/here; do sleep 0.1; done; echo main'"
    document = minicluster("pair", namespace, main, container={"runFlux": True, "name": "main", "volumes": shared})
    document["spec"]["containers"].append(sidecar)
    stage.apply(document)
    until(stage, "pair", namespace, phase="Succeeded", exitCode=0)
    selector = "job-name=pair,batch.kubernetes.io/job-completion-index=0"
    assert stage.kubectl("logs", "-l", selector, "-c", "sidecar", "-n", namespace) == "I am here\n"


def test_mini_clusters_of_a_namespace_share_the_service_and_the_last_takes_it_along(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(minicluster("first", namespace, "true", cleanup=True), minicluster("second", namespace, "echo second"))
    until(stage, "second", namespace, phase="Succeeded", exitCode=0)
    wait_until(
        lambda: stage.names("minicluster", namespace) == ["minicluster.flux-framework.org/second"],
        timeout=180,
        what="the first is cleaned up",
    )
    expected = [
        "configmap/second-entrypoint",
        "job.batch/second",
        "minicluster.flux-framework.org/second",
        "secret/second-curve-certificate",
        "service/flux-service",
    ]
    wait_until(
        lambda: [each for each in sorted(left(stage, namespace)) if not each.startswith("pod/")] == expected,
        timeout=180,
        what="the Service is still there for the second",
    )
    stage.kubectl("delete", "minicluster", "second", "-n", namespace)
    wait_until(lambda: left(stage, namespace) == [], timeout=180, what="nothing is left")


def test_a_changed_command_is_run_again_and_a_longer_deadline_is_not(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(minicluster("again", namespace, "sleep 1000"))
    until(stage, "again", namespace, phase="Running")
    first = stage.get("job", "again", namespace)["metadata"]["uid"]
    stage.apply(minicluster("again", namespace, "sleep 1000", deadlineSeconds=600))
    wait_until(
        lambda: stage.get("job", "again", namespace)["spec"]["activeDeadlineSeconds"] == 600,
        timeout=180,
        what="it may take longer",
    )
    assert stage.get("job", "again", namespace)["metadata"]["uid"] == first
    stage.apply(minicluster("again", namespace, "echo changed", size=3, maxSize=3))
    until(stage, "again", namespace, phase="Succeeded", exitCode=0, maximumSize=3)
    assert lead_log(stage, "again", namespace).splitlines()[1:] == ["changed"]


def test_a_name_that_a_flux_has_is_said_and_left_alone(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(flux("same", namespace, command="sleep 1000"))
    stage.until("same", namespace, phase="Running")
    stage.apply(minicluster("same", namespace, "true"))
    wait_until(lambda: stage.reason("minicluster", "same", namespace)[1] == "NameTaken", timeout=180, what="it says so")
    assert "Secret same-curve-certificate" in stage.reason("minicluster", "same", namespace)[2]
    assert "job.batch/same" not in left(stage, namespace)
    stage.kubectl("delete", "flux", "same", "-n", namespace)
    until(stage, "same", namespace, phase="Succeeded")


def test_events_tell_each_change_once(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    stage.apply(minicluster("told", namespace, "sleep 1"))
    until(stage, "told", namespace, phase="Succeeded")

    def told() -> list[tuple[str, int]]:
        found = stage.items("event", namespace, fieldSelector="involvedObject.kind=MiniCluster")
        return sorted((each["reason"], each["count"]) for each in found)

    wait_until(
        lambda: told() == [("Running", 1), ("Starting", 1), ("Succeeded", 1)], timeout=180, what="each is told once"
    )


# --- wiped statuses and second looks ---------------------------------------------------------------------------------


def test_a_wiped_status_is_written_again_and_a_second_look_writes_nothing(
    stage: Stage, plane: ControlPlane, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(minicluster("wiped", namespace, "sh -c 'exit 3'"), minicluster("busy", namespace, "sleep 1000"))
    before = until(stage, "wiped", namespace, phase="Failed", exitCode=3)["status"]
    until(stage, "busy", namespace, phase="Running", pods="2/2")
    job = stage.get("job", "wiped", namespace)["metadata"]["uid"]
    stage.kubectl("delete", "pod", "-l", "job-name=wiped", "-n", namespace)
    wipe = ("--subresource=status", "--type=merge", "-p", '{"status": null}')
    stage.kubectl("patch", "minicluster", "wiped", "-n", namespace, *wipe)
    stage.kubectl("annotate", "minicluster", "wiped", "-n", namespace, "wiped=yes")
    after = until(stage, "wiped", namespace, phase="Failed", exitCode=3)["status"]
    assert without_times(after) == without_times(before)
    assert stage.get("job", "wiped", namespace)["metadata"]["uid"] == job
    seen = len(plane.audit_events())
    for name in ("wiped", "busy"):
        stage.kubectl("annotate", "minicluster", name, "-n", namespace, "look=again")
    # It is written for after the others were looked at.
    stage.apply(minicluster("marker", namespace, "true", flux={"brokerConfig": "no = = toml"}))
    until(stage, "marker", namespace, phase="Failed")
    assert writes(plane, namespace, since=seen) == [("patch", "miniclusters", "marker")]


def without_times(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [{**each, "lastTransitionTime": ""} for each in status["conditions"]]
    return {**status, "conditions": sorted(conditions, key=lambda each: each["type"])}


# --- the command line, and the client of PyPI ------------------------------------------------------------------------


def test_flux_run_shows_what_the_command_says_and_ends_with_its_code(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    done = stage.edgewright(
        "flux",
        "run",
        "--size",
        "4",
        "--env",
        "WORD=hé",
        "-n",
        namespace,
        IMAGE,
        "--",
        "sh",
        "-c",
        'echo "$WORD"; exit 6',
    )
    assert (done.returncode, done.stdout.splitlines()[1:]) == (6, ["hé"] * 4)
    assert "MiniCluster run-" in done.stderr
    (name,) = (each.rpartition("/")[2] for each in stage.names("minicluster", namespace))
    listed = stage.edgewright("flux", "list", "-n", namespace)
    assert listed.stdout.splitlines()[1].split()[:2] == [name, "Failed"]
    logs = stage.edgewright("flux", "logs", "-n", namespace, name)
    assert logs.stdout == done.stdout
    gone = stage.edgewright("flux", "delete", "-n", namespace, name)
    assert (gone.returncode, stage.names("minicluster", namespace)) == (0, [])


def test_flux_run_removes_what_it_made_and_says_why_nothing_ran(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    options = ("--rm", "--name", "late", "--launcher", "--flux-in-image", "--timeout", "5s", "-n", namespace)
    done = stage.edgewright("flux", "run", *options, IMAGE, "--", "sleep", "1000")
    assert done.returncode == 1
    assert "MiniCluster late: it took longer than spec.deadlineSeconds, 5, allows" in done.stderr
    assert stage.names("minicluster", namespace) == []
    wrong = stage.edgewright("flux", "run", "--size", "3", "--max-size", "2", "-n", namespace, IMAGE, "--", "true")
    assert (wrong.returncode, stage.names("minicluster", namespace)) == (2, [])
    missing = stage.edgewright("flux", "logs", "nobody", "-n", namespace)
    assert (missing.returncode, "there is no MiniCluster nobody in namespace" in missing.stderr) == (1, True)


def test_flux_logs_follows_to_the_end(stage: Stage, operator: subprocess.Popen[str], namespace: str) -> None:
    stage.apply(minicluster("talks", namespace, "sh -c 'echo one; sleep 5; echo two'"))
    until(stage, "talks", namespace, phase="Running")
    wait_until(lambda: "one" in lead_log(stage, "talks", namespace).splitlines(), timeout=180, what="it has begun")
    done = stage.edgewright("flux", "logs", "-f", "-n", namespace, "talks")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["one", "two"])


def test_flux_scale_scales_and_is_refused_with_the_rule(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    stage.apply(minicluster("grow", namespace, "sleep 1000", size=1, maxSize=2))
    until(stage, "grow", namespace, phase="Running")
    assert stage.edgewright("flux", "scale", "grow", "2", "-n", namespace).returncode == 0
    until(stage, "grow", namespace, pods="2/2")
    done = stage.edgewright("flux", "scale", "grow", "3", "-n", namespace)
    assert done.returncode == 1
    assert "spec.maxSize must not be below spec.size" in done.stderr


def test_the_client_of_pypi_creates_follows_and_deletes(
    stage: Stage, operator: subprocess.Popen[str], namespace: str
) -> None:
    """In a process of its own: that client keeps its settings in globals, and prints."""
    program = Path(__file__).with_name("fluxoperator_client.py")
    done = subprocess.run(
        [sys.executable, program, namespace, IMAGE, str(stage.folder / "said.txt")],
        env=stage.environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (stage.folder / "said.txt").read_text().splitlines()[1:] == ["hello world"]
    assert "deleted" in done.stdout.splitlines()
    wait_until(lambda: left(stage, namespace) == [], timeout=180, what="nothing is left")
