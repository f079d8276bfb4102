"""The whole node with real processes on an API server in memory: what it starts, tells, adopts and leaves alone."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import msgspec
import pytest

from edgewright.local.node.addresses import LoopbackAddresses
from edgewright.local.node.lifecycle import Timing
from edgewright.local.node.node import Advertised, Containers, Network, Node
from edgewright.local.node.processes import Identity, open_process, send
from edgewright.runtime.objects import RawObject
from tests.harness import Authority, wait_until_async
from tests.unit.local.node.fakeapi import FakeApi, refusal

IMAGES = {"sh": ["/bin/sh", "-c"], "busybox": []}
QUICK = Timing(
    backoff=0.05, longest_backoff=0.1, retry=0.05, refresh=0.05, heartbeat=0.02, status_every=0.02, launch=20
)


@asynccontextmanager
async def running(api: FakeApi, directory: Path, **settings: Any) -> AsyncIterator[Node]:
    """A node for the length of the block; what it ran goes on."""
    settings = {"containers": Containers(images=IMAGES), **settings}
    node = Node(api.client(), name="edge", directory=directory, timing=QUICK, **settings)
    task = asyncio.create_task(node.run())
    ready = asyncio.create_task(node.ready())
    try:
        await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield node
        if task.done():
            task.result()
    finally:
        for each in (task, ready):
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each


def end_all(directory: Path) -> None:
    """Kills what is left of a test, by pid and start time."""
    for state in directory.glob("pods/*/containers/*/*/state.json"):
        shim = msgspec.json.decode(state.read_bytes()).get("shim")
        fd = open_process(Identity(**shim)) if shim else None
        if fd is not None:
            send(fd, signal.SIGUSR1)
            os.close(fd)


@pytest.fixture
def directory(tmp_path: Path) -> Any:
    place = tmp_path / "node"
    yield place
    end_all(place)
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:
            pass


def one(script: str, **container: Any) -> dict[str, Any]:
    """The spec of a Pod with one container."""
    return {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "sh", "args": [script], **container}],
    }


def phase(api: FakeApi, name: str = "pod") -> str:
    return str(api.pod(name)["status"].get("phase"))


async def until(api: FakeApi, condition: Callable[[RawObject], object], *, what: str, name: str = "pod") -> RawObject:
    try:
        await wait_until_async(lambda: bool(condition(api.pod(name))), what=what, timeout=120)
    except AssertionError as error:
        raise AssertionError(f"{error}: {api.pod(name)['status']}") from None
    return api.pod(name)


async def until_phase(api: FakeApi, wanted: str, name: str = "pod") -> RawObject:
    return await until(api, lambda pod: pod["status"].get("phase") == wanted, what=f"{name} is {wanted}", name=name)


def state(pod: RawObject, index: int = 0) -> RawObject:
    statuses = pod["status"].get("containerStatuses") or []
    return statuses[index]["state"] if len(statuses) > index else {}


def found(directory: Path, pattern: str) -> Path:
    (only,) = directory.glob(pattern)
    return only


def restarts(pod: RawObject) -> int:
    statuses = pod["status"].get("containerStatuses") or [{"restartCount": 0}]
    return int(statuses[0]["restartCount"])


async def test_a_pod_runs_to_its_end_and_its_status_tells_how(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**one("echo because > /dev/termination-log; exit 3"))
        pod = await until_phase(api, "Failed")
        await wait_until_async(lambda: "Started" in api.events(), what="there is an event")
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "because\n")
    assert pod["status"]["podIP"].startswith("127.")


async def test_the_second_pass_over_a_settled_pod_writes_nothing(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**one("exec sleep 100"))
        pod = await until_phase(api, "Running")
        before = len([each for each in api.writes if each[1].endswith("/status") and "/pods/" in each[1]])
        api.put("/api/v1/namespaces/default/pods/pod", {**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}})
        api.add_pod("other", **one("true"))
        await until_phase(api, "Succeeded", "other")
        after = [each for each in api.writes if each[1].endswith("/pods/pod/status")]
    assert len(after) <= before


async def test_a_node_registers_itself_and_keeps_saying_that_it_lives(directory: Path) -> None:
    api = FakeApi()
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/edge"
    async with running(api, directory, advertised=Advertised(labels={"place": "attic"})):
        node = api.objects["/api/v1/nodes/edge"]
        assert node["metadata"]["labels"]["place"] == "attic"
        first = api.objects[lease]["spec"]["renewTime"]
        await wait_until_async(lambda: api.objects[lease]["spec"]["renewTime"] != first, what="it is renewed")
        api.failures.append(("PATCH", "/leases/", refusal(500, "InternalError")))
        api.remove(lease)
        await wait_until_async(lambda: lease in api.objects, what="the lease is made again")
        api.remove(lease)
        api.failures.append(("POST", "/nodes", refusal(503, "ServiceUnavailable")))
        api.remove("/api/v1/nodes/edge")
        await wait_until_async(lambda: "/api/v1/nodes/edge" in api.objects, what="the node is registered again")
    async with running(api, directory, advertised=Advertised(labels={"place": "cellar"})):
        assert api.objects["/api/v1/nodes/edge"]["metadata"]["labels"]["place"] == "cellar"


async def test_a_node_is_tainted_from_its_first_moment_and_again_where_it_was_there_without(directory: Path) -> None:
    api = FakeApi()
    taint, other = {"key": "example.dev/ours", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}
    async with running(api, directory, advertised=Advertised(taints={"example.dev/ours": True})):
        assert api.objects["/api/v1/nodes/edge"]["spec"]["taints"] == [taint]
    async with running(api, directory, advertised=Advertised(taints={"example.dev/ours": False})):
        assert api.objects["/api/v1/nodes/edge"]["spec"]["taints"] == []
    api.put("/api/v1/nodes/edge", {**api.objects["/api/v1/nodes/edge"], "spec": {"taints": [other]}})
    api.failures.append(("PATCH", "/nodes/edge", refusal(409, "Conflict")))
    async with running(api, directory, advertised=Advertised(taints={"example.dev/ours": True})):
        assert api.objects["/api/v1/nodes/edge"]["spec"]["taints"] == [other, taint]


async def test_a_node_that_may_not_change_its_taints_says_so_and_runs(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApi()
    async with running(api, directory):
        pass
    api.failures.append(("PATCH", "/nodes/edge", refusal(403, "Forbidden")))
    async with running(api, directory, advertised=Advertised(taints={"example.dev/ours": True})):
        assert "taints" not in api.objects["/api/v1/nodes/edge"]["spec"]
        assert "kubectl taint nodes" in caplog.text


async def test_a_command_of_a_pod_is_refused_where_images_alone_say_what_runs(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory, containers=Containers(images=IMAGES, commands=False)):
        api.add_pod(**one("true", command=["cat", "/etc/passwd"]))
        pod = await until_phase(api, "Failed")
        assert pod["status"]["reason"] == "CommandRefused"
        assert "--allow-command" in pod["status"]["message"]
        await wait_until_async(lambda: "CommandRefused" in api.events(), what="an event says so")


async def test_a_node_lives_without_a_namespace_for_its_lease(directory: Path) -> None:
    api = FakeApi(namespaces=("default",))
    async with running(api, directory):
        api.add_pod(**one("true"))
        await until_phase(api, "Succeeded")
    assert not [path for path in api.objects if "leases" in path]


async def test_a_deleted_pod_is_ended_and_forgotten(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        pod = api.add_pod(**one("exec sleep 100"))
        await until_phase(api, "Running")
        folder = directory / "pods" / pod["metadata"]["uid"]
        assert folder.exists()
        api.ask_deletion()
        await wait_until_async(lambda: not api.has_pod() and not folder.exists(), what="it is gone")
        await wait_until_async(lambda: "Killing" in api.events(), what="there is an event")


async def test_a_pod_that_ignores_the_request_to_end_is_killed(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**one("trap '' TERM; echo up > /dev/termination-log; while :; do sleep 0.05; done"))
        await until_phase(api, "Running")
        api.ask_deletion(grace=0)
        await wait_until_async(lambda: not api.has_pod(), what="it is gone")


async def test_a_pod_whose_object_is_gone_is_put_out(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        pod = api.add_pod(**one("trap '' TERM; while :; do sleep 0.05; done"))
        await until_phase(api, "Running")
        api.remove("/api/v1/namespaces/default/pods/pod")
        again = api.add_pod(**one("true"))
        await until_phase(api, "Succeeded")
        folder = directory / "pods"
        await wait_until_async(
            lambda: [each.name for each in folder.iterdir()] == [again["metadata"]["uid"]],
            what="only the new one is left",
        )
        assert pod["metadata"]["uid"] != again["metadata"]["uid"]


async def test_a_pod_that_ended_before_it_was_seen_or_was_deleted_unseen_is_let_go(directory: Path) -> None:
    api = FakeApi()
    api.add_pod("old", status={"phase": "Succeeded"}, **one("true"))
    api.add_pod("unseen", **one("true"))
    api.ask_deletion("unseen")
    async with running(api, directory):
        await wait_until_async(lambda: not api.has_pod("unseen"), what="it is let go")
        assert phase(api, "old") == "Succeeded"
        api.ask_deletion("old")
        await wait_until_async(lambda: not api.has_pod("old"), what="it is let go")
    assert not os.listdir(directory / "pods")  # noqa: PTH208


async def test_a_pod_that_somebody_else_declared_over_is_ended(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**one("exec sleep 100"))
        pod = await until_phase(api, "Running")
        over = {**pod, "status": {"phase": "Failed", "reason": "Evicted"}}
        api.put("/api/v1/namespaces/default/pods/pod", over)
        end = directory / "pods" / pod["metadata"]["uid"] / "containers" / "main" / "0" / "exit.json"
        await wait_until_async(end.exists, what="it is ended")
    assert api.pod()["status"]["reason"] == "Evicted"


async def test_a_refused_pod_fails_with_a_reason(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(hostNetwork=True, **one("true"))
        pod = await until_phase(api, "Failed")
    assert pod["status"]["reason"] == "HostAccessRefused"


async def test_a_pod_that_the_server_says_had_begun_is_not_begun_again(directory: Path) -> None:
    api = FakeApi()
    api.add_pod(status={"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}, **one("true"))
    async with running(api, directory):
        pod = await until_phase(api, "Failed")
    assert pod["status"]["reason"] == "ContainerStatusUnknown"


async def test_a_pod_outlives_the_node_and_is_adopted(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(
            volumes=[{"name": "e", "emptyDir": {}}],
            **one("until test -e /e/go; do sleep 0.02; done; exit 4", volumeMounts=[{"name": "e", "mountPath": "/e"}]),
        )
        await until_phase(api, "Running")
    async with running(api, directory):
        (found(directory, "pods/*") / "volumes" / "e" / "go").touch()
        pod = await until_phase(api, "Failed")
    assert state(pod)["terminated"]["exitCode"] == 4
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_a_pod_ends_failed_after_a_reboot_whatever_its_policy(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**{**one("exec sleep 100"), "restartPolicy": "Always"})
        await until_phase(api, "Running")
    end_all(directory)
    pod_folder = found(directory, "pods/*")
    attempt = pod_folder / "containers" / "main" / "0"
    await wait_until_async((attempt / "exit.json").exists, what="it ended")
    (attempt / "exit.json").unlink()
    for file in (pod_folder / "pod.json", attempt / "state.json"):
        file.write_bytes(msgspec.json.encode({**msgspec.json.decode(file.read_bytes()), "boot": "before"}))
    async with running(api, directory):
        pod = await until_phase(api, "Failed")
    assert pod["status"]["reason"] == "NodeRebooted"
    assert state(pod)["terminated"]["reason"] == "ContainerStatusUnknown"


async def test_a_container_that_lost_its_shim_is_killed_and_reported(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**one("exec sleep 100"))
        await until_phase(api, "Running")
        recorded = msgspec.json.decode(found(directory, "pods/*/containers/*/*/state.json").read_bytes())
        os.kill(recorded["shim"]["pid"], signal.SIGKILL)
        pod = await until_phase(api, "Failed")
        main = Path(f"/proc/{recorded['main']['pid']}/stat")
        # It may stay as a zombie where nobody takes note of orphans.
        gone = lambda: not main.exists() or main.read_text().rpartition(")")[2].split()[0] == "Z"  # noqa: E731
        await wait_until_async(gone, what="the program is ended")
    assert state(pod)["terminated"]["reason"] == "ContainerStatusUnknown"


async def test_a_container_is_started_again_with_a_back_off(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**{**one("exit 1"), "restartPolicy": "Always"})
        await until(api, lambda pod: restarts(pod) >= 3, what="it ran often")
        await wait_until_async(lambda: "BackOff" in api.events(), what="there is an event")
        kept = found(directory, "pods/*/containers/main")
        await wait_until_async(lambda: len([e for e in kept.iterdir() if e.name.isdigit()]) <= 3, what="old ones go")


async def test_an_unknown_image_and_a_missing_reference_are_said_once_and_tried_again(directory: Path) -> None:
    api = FakeApi()
    reference = {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}
    containers = [
        {"name": "strange", "image": "nginx"},
        {"name": "main", "image": "sh", "args": ["echo $C > /dev/termination-log"], "env": [reference]},
    ]
    async with running(api, directory):
        api.add_pod(restartPolicy="Never", containers=containers)
        pod = await until(api, lambda pod: "waiting" in state(pod, 1), what="it waits")
        assert state(pod, 0)["waiting"]["reason"] == "ErrImagePull"
        assert state(pod, 1)["waiting"]["reason"] == "CreateContainerConfigError"
        api.put("/api/v1/namespaces/default/configmaps/late", {"data": {"k": "v"}})
        pod = await until(api, lambda pod: "terminated" in state(pod, 1), what="it ran")
    assert state(pod, 1)["terminated"]["message"] == "v\n"
    assert phase(api) == "Pending"


async def test_volumes_are_made_waited_for_and_kept_up_to_date(directory: Path) -> None:
    api = FakeApi()
    path = "/api/v1/namespaces/default/configmaps/late"
    async with running(api, directory):
        api.add_pod(
            volumes=[{"name": "c", "configMap": {"name": "late"}}, {"name": "e", "emptyDir": {}}],
            **one("exec sleep 100", volumeMounts=[{"name": "c", "mountPath": "/c"}]),
        )
        await wait_until_async(lambda: "FailedMount" in api.events(), what="there is an event")
        assert state(api.pod())["waiting"]["reason"] == "ContainerCreating"
        api.put(path, {"data": {"k": "red"}})
        pod = await until_phase(api, "Running")
        file = directory / "pods" / pod["metadata"]["uid"] / "volumes" / "c" / "k"
        assert file.read_text() == "red"
        api.put(path, {"data": {"k": "blue"}})
        await wait_until_async(lambda: file.read_text() == "blue", what="it is up to date")
        api.remove(path)
        api.add_pod("other", **one("true"))
        await until_phase(api, "Succeeded", "other")
        assert file.read_text() == "blue"


async def test_a_deadline_ends_a_pod(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(activeDeadlineSeconds=0, terminationGracePeriodSeconds=5, **one("exec sleep 100"))
        pod = await until_phase(api, "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"


async def test_a_liveness_probe_that_fails_ends_the_container(directory: Path) -> None:
    api = FakeApi()
    probe = {"exec": {"command": ["false"]}, "failureThreshold": 1, "periodSeconds": 1, "timeoutSeconds": 10}
    async with running(api, directory):
        api.add_pod(
            **one("exec sleep 100", livenessProbe=probe, readinessProbe={**probe, "exec": {"command": ["true"]}})
        )
        pod = await until_phase(api, "Failed")
        await wait_until_async(lambda: "Unhealthy" in api.events(), what="there is an event")
    assert state(pod)["terminated"]["exitCode"] == 143


async def test_a_shim_that_does_not_begin_is_a_problem_of_its_container(
    directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "shim.py"
    broken.write_text("raise SystemExit('it is broken')")
    monkeypatch.setattr("edgewright.local.node.container_start.SHIM", broken)
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**one("true"))
        pod = await until(api, lambda pod: "waiting" in state(pod), what="it waits")
        assert state(pod)["waiting"] == {
            "reason": "CreateContainerError",
            "message": "the shim did not begin: it is broken",
        }
        monkeypatch.undo()
        await until_phase(api, "Succeeded")


async def test_an_order_that_nobody_began_is_called_off_and_given_again(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        pod = api.add_pod(**one("exec sleep 100"))
        await until_phase(api, "Running")
    end_all(directory)
    place = directory / "pods" / pod["metadata"]["uid"] / "containers" / "main" / "0"
    await wait_until_async((place / "exit.json").exists, what="it ended")
    for name in ("state.json", "exit.json"):
        (place / name).unlink()
    async with running(api, directory):
        await wait_until_async((place / "state.json").exists, what="it began")
        assert msgspec.json.decode((place / "state.json").read_bytes())["main"]
    status = api.pod()["status"]
    assert status["containerStatuses"][0]["restartCount"] == 0


async def test_a_container_has_scratch_folders_of_its_own_and_nested_mounts(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A checkout below /tmp has the tests' Python there, which every container may see.
    monkeypatch.setattr("edgewright.local.node.node.program_folders", tuple)
    api = FakeApi()
    scratch = "/tmp"
    mounts = [{"name": "e", "mountPath": f"{scratch}/deep/er"}, {"name": "e", "mountPath": "/out"}]
    mounts.append({"name": "f", "mountPath": "/out/inner"})
    script = "ls -A /tmp /var/tmp > /out/seen; touch $TMP/x /out/inner/y; ls -d /out/inner/y $TMP/deep/er/seen"
    async with running(api, directory):
        api.add_pod(
            volumes=[{"name": "e", "emptyDir": {}}, {"name": "f", "emptyDir": {}}],
            **one(script, volumeMounts=mounts, env=[{"name": "TMP", "value": scratch}]),
        )
        pod = await until_phase(api, "Succeeded")
    volumes = directory / "pods" / pod["metadata"]["uid"] / "volumes"
    assert (volumes / "e" / "seen").read_text().split() == ["/tmp:", "deep", "/var/tmp:"]
    assert (volumes / "f" / "y").exists()


async def test_a_program_below_a_folder_at_which_a_pod_has_a_volume_runs(directory: Path) -> None:
    api = FakeApi()
    with TemporaryDirectory(dir="/tmp") as folder:
        script = Path(folder) / "script"
        script.write_text("ls -A /tmp > /out/seen")
        async with running(api, directory, containers=Containers(images={"program": ["/bin/sh", str(script)]})):
            mounts = [{"name": "e", "mountPath": "/out"}, {"name": "t", "mountPath": "/tmp"}]
            container = {"name": "main", "image": "program", "volumeMounts": mounts}
            volumes = [{"name": "e", "emptyDir": {}}, {"name": "t", "emptyDir": {}}]
            api.add_pod(volumes=volumes, restartPolicy="Never", containers=[container])
            pod = await until_phase(api, "Succeeded")
        seen = directory / "pods" / pod["metadata"]["uid"] / "volumes" / "e" / "seen"
        assert Path(folder).name in seen.read_text().split()


async def test_logs_are_served_to_whom_the_authority_knows(directory: Path, tmp_path: Path) -> None:
    authority = Authority()
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.certificate)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ca))
    server.load_cert_chain(*authority.server("node", names=[], addresses=["127.0.0.1"]).write(tmp_path, "server"))
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(ca))
    client.load_cert_chain(*authority.client("api", ["system:masters"]).write(tmp_path, "client"))
    api = FakeApi()
    async with running(api, directory, network=Network(log_tls=server)), aiohttp.ClientSession() as session:
        port = api.objects["/api/v1/nodes/edge"]["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]

        async def log(path: str) -> str:
            async with session.get(f"https://127.0.0.1:{port}/containerLogs/default/{path}", ssl=client) as answer:
                return await answer.text()

        script = "test -e /e/again && echo second && exec sleep 100; touch /e/again; echo first; exit 1"
        mounts = [{"name": "e", "mountPath": "/e"}]
        api.add_pod(
            volumes=[{"name": "e", "emptyDir": {}}],
            **{**one(script, volumeMounts=mounts), "restartPolicy": "Always"},
        )
        await until(api, lambda pod: restarts(pod) == 1 and "running" in state(pod), what="it runs again")
        assert await log("pod/main?previous=true&follow=true") == "first\n"
        assert await log("pod/main?follow=true&limitBytes=7") == "second\n"
        assert await log("pod/other") == 'container "other" in pod "pod" is not available'
        assert await log("pod/other?previous=true") == 'previous terminated container "other" in pod "pod" not found'
        assert await log("stranger/main") == 'pod "stranger" does not exist'
        api.add_pod("lost", containers=[{"name": "main", "image": "no/such"}])
        await until(api, lambda pod: "waiting" in state(pod), name="lost", what="it waits")
        assert await log("lost/main") == 'container "main" in pod "lost" is waiting to start: image can\'t be pulled'
        api.add_pod("waiting", containers=[{"name": "main", "image": "nginx"}])
        await until(api, lambda pod: "waiting" in state(pod), what="it waits", name="waiting")
        assert (await log("waiting/main")).startswith('container "main" in pod "waiting" is waiting to start: ')


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is not root anyway")
async def test_a_container_that_must_not_be_root_is_not_started_as_root(directory: Path) -> None:
    api = FakeApi()
    async with running(api, directory):
        api.add_pod(**one("true", securityContext={"runAsNonRoot": True}))
        pod = await until(api, lambda pod: "waiting" in state(pod), what="it waits")
        assert state(pod)["waiting"]["reason"] == "CreateContainerConfigError"
        assert "runAsNonRoot" in state(pod)["waiting"]["message"]


async def test_a_folder_that_was_never_finished_is_removed(directory: Path) -> None:
    (directory / "pods" / "half-made").mkdir(parents=True)
    async with running(FakeApi(), directory):
        assert not (directory / "pods" / "half-made").exists()


async def test_a_conflict_is_tried_again(directory: Path) -> None:
    api = FakeApi()
    api.failures.append(("PATCH", "/pods/pod/status", refusal(409, "Conflict")))
    async with running(api, directory):
        api.add_pod(**one("true"))
        await until_phase(api, "Succeeded")


def test_pods_have_addresses_of_their_own_that_they_keep() -> None:
    addresses = LoopbackAddresses("edge")
    one, two = addresses.give("one"), addresses.give("two")
    assert one != two
    assert addresses.give("one") == one
    addresses.free("one")
    addresses.free("nobody")
    assert addresses.give("one") == one, "the same Pod gets the same address wherever it can"
    later = LoopbackAddresses("edge")
    later.keep("other", one)
    assert later.give("one") != one
