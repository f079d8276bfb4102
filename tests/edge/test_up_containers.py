"""`edgewright up` runs Pods as real containers: pulled from a registry, with volumes, probes, logs and Services."""

from __future__ import annotations

from typing import Any

from tests.edge.embedded import IMAGE, Embedded
from tests.harness import programs, wait_until


def pod(name: str, *script: str, policy: str = "Never", **container: Any) -> dict[str, Any]:
    """A Pod of one container that runs a script."""
    command = {"command": ["/bin/sh", "-c", "; ".join(script)]} if script else {}
    spec = {
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": IMAGE, **command, **container}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def deployment(name: str, replicas: int, spec: dict[str, Any]) -> dict[str, Any]:
    """A Deployment of Pods with such a spec."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


def service(name: str, port: int) -> dict[str, Any]:
    """A Service for the Pods of that name, on port 80."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def ended(found: dict[str, Any], which: str = "state") -> dict[str, Any]:
    """How the container of a Pod ended."""
    state: dict[str, Any] = found["status"]["containerStatuses"][0][which]["terminated"]
    return state


def test_a_pod_is_pulled_runs_logs_and_ends_with_its_code_and_message(embedded: Embedded) -> None:
    script = ("echo one", "echo two >&2", "echo why > /dev/termination-log", "exit 3")
    embedded.apply(pod("once", *script))
    found = embedded.until_phase("once", "Failed", "Succeeded")
    assert (ended(found)["exitCode"], ended(found)["reason"], ended(found)["message"]) == (3, "Error", "why\n")
    assert found["status"]["containerStatuses"][0]["containerID"].startswith("podman://")
    assert sorted(embedded.kubectl("logs", "once").split()) == ["one", "two"]
    wait_until(lambda: not embedded.pods_of_podman(), what="podman has nothing of it any more", interval=0.2)
    embedded.kubectl("delete", "pod", "once")


def test_an_image_that_nobody_has_is_said_with_podmans_words_and_asked_for_again(embedded: Embedded) -> None:
    missing = pod("nobody")
    missing["spec"]["containers"][0]["image"] = IMAGE.replace("minimart", "nobody")
    embedded.apply(missing)

    def waiting() -> dict[str, Any] | None:
        said = embedded.get("pod/nobody")["status"].get("containerStatuses") or [{}]
        found: dict[str, Any] = said[0].get("state", {}).get("waiting", {})
        return found if found.get("reason") in {"ErrImagePull", "ImagePullBackOff"} else None

    assert "manifest unknown" in wait_until(waiting, what="it cannot be pulled", interval=0.2)["message"]
    embedded.kubectl("delete", "pod", "nobody")


def test_a_container_restarts_by_its_policy_and_its_last_log_is_kept(embedded: Embedded) -> None:
    embedded.apply(pod("again", "echo life of $HOSTNAME", "exit 1", policy="OnFailure"))

    def restarted() -> dict[str, Any] | None:
        found: dict[str, Any] = embedded.get("pod/again")
        said = (found["status"].get("containerStatuses") or [{"restartCount": 0}])[0]
        return found if said["restartCount"] and "terminated" in said["lastState"] else None

    assert ended(wait_until(restarted, what="it runs again", timeout=120, interval=0.2), "lastState")["exitCode"] == 1
    assert embedded.kubectl("logs", "again", "--previous") == "life of again\n"
    embedded.kubectl("delete", "pod", "again")


def test_what_cannot_be_started_is_said(embedded: Embedded) -> None:
    wrong = pod("wrong")
    wrong["spec"]["containers"][0]["command"] = ["/no/such/program"]
    embedded.apply(wrong)
    found = embedded.until_phase("wrong", "Failed")
    assert (ended(found)["reason"], ended(found)["exitCode"]) == ("StartError", 128)
    assert "/no/such/program" in ended(found)["message"]
    embedded.kubectl("delete", "pod", "wrong")


def test_volumes_are_those_of_the_manifest(embedded: Embedded) -> None:
    volumes = [
        {"name": "config", "configMap": {"name": "words", "items": [{"key": "greeting", "path": "a/greeting"}]}},
        {"name": "secret", "secret": {"secretName": "password", "defaultMode": 0o400}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "about", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/v/{each['name']}"} for each in volumes]
    mounts.append({"name": "kept", "mountPath": "/part", "subPath": "inner/part"})
    cat = "/bin/busybox cat"
    writer = pod(
        "volumes",
        f"{cat} /v/config/a/greeting /v/secret/word /v/about/name",
        "echo kept > /part/file",
        f"echo $WORD; {cat} /v/scratch/prepared",
        "(echo x > /v/config/x) 2>/dev/null || echo read-only",
        "/bin/busybox wc -c < /var/run/secrets/kubernetes.io/serviceaccount/namespace",
        volumeMounts=mounts,
        env=[{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "password", "key": "word"}}}],
    )
    prepare = {"name": "prepare", "image": IMAGE, "volumeMounts": mounts}
    prepare["command"] = ["/bin/sh", "-c", "echo prepared > /v/scratch/prepared"]
    writer["spec"] |= {"volumes": volumes, "initContainers": [prepare]}
    embedded.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"greeting": "hello\n"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"word": "s3cret\n"}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "kept"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        },
        writer,
    )
    embedded.until_phase("volumes", "Succeeded", "Failed")
    expected = ["hello", "s3cret", "volumess3cret", "prepared", "read-only", "7"]
    assert embedded.kubectl("logs", "volumes", "-c", "main").split() == expected
    reader = pod("reader", f"{cat} /kept/inner/part/file", volumeMounts=[{"name": "kept", "mountPath": "/kept"}])
    reader["spec"]["volumes"] = volumes[-1:]
    embedded.apply(reader)
    embedded.until_phase("reader", "Succeeded", "Failed")
    assert embedded.kubectl("logs", "reader") == "kept\n"
    embedded.kubectl("delete", "pod", "volumes", "reader")


def test_a_link_in_a_volume_leads_podman_nowhere(embedded: Embedded) -> None:
    lured = pod("lured", "/bin/busybox ls /part", volumeMounts=[{"name": "v", "mountPath": "/part", "subPath": "out"}])
    lay = {"name": "lay", "image": IMAGE, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    lay["command"] = ["/bin/busybox", "ln", "-s", "/etc", "/v/out"]
    lured["spec"] |= {"volumes": [{"name": "v", "emptyDir": {}}], "initContainers": [lay]}
    embedded.apply(lured)

    def refused() -> bool:
        state = embedded.get("pod/lured")["status"].get("containerStatuses", [{}])[0].get("state", {})
        return "leads out of its volume" in state.get("waiting", {}).get("message", "")

    wait_until(refused, what="it is refused", interval=0.2)
    embedded.kubectl("delete", "pod", "lured")


def test_a_deployment_is_probed_and_served_by_name_to_machine_and_containers(embedded: Embedded) -> None:
    container = {
        "name": "main",
        "image": IMAGE,
        "env": [{"name": "GREETING", "value": "from a container"}],
        "ports": [{"name": "http", "containerPort": 3000}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        "startupProbe": {"tcpSocket": {"port": 3000}, "periodSeconds": 1},
        "livenessProbe": {"exec": {"command": ["/bin/sh", "-c", "test ! -f /ill"]}, "periodSeconds": 1},
        "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}},
    }
    embedded.apply(service("web", 3000), deployment("web", 2, {"containers": [container]}))
    embedded.roll_out("web")
    address = embedded.get("service/web")["spec"]["clusterIP"]
    assert embedded.fetch(f"http://{address}/") == "from a container\n"
    asks = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | /bin/busybox nc"
    embedded.apply(pod("asker", f"{asks} web 80", f"{asks} web.default.svc.cluster.local 80"))
    embedded.until_phase("asker", "Succeeded", "Failed")
    assert embedded.kubectl("logs", "asker").count("from a container") == 2
    embedded.kubectl("delete", "pod", "asker")
    embedded.kubectl("delete", "deployment", "web")
    embedded.kubectl("wait", "--for=delete", "pod", "-l", "app=web", "--timeout=60s")


def test_a_command_runs_in_a_container_with_input_output_and_its_code(embedded: Embedded) -> None:
    embedded.apply(pod("shell", "exec /bin/busybox sleep 600"))
    embedded.until_phase("shell", "Running")
    assert embedded.kubectl("exec", "shell", "--", "/bin/sh", "-c", "echo in $HOSTNAME") == "in shell\n"
    typed = embedded.kubectl("exec", "-i", "shell", "--", "/bin/busybox", "tr", "a-z", "A-Z", given="loud\n")
    assert typed == "LOUD\n"
    failed = embedded.kubectl("exec", "shell", "--", "/bin/sh", "-c", "echo wrong >&2; exit 7", fails=True)
    assert "wrong" in failed
    assert "exit code 7" in failed
    assert "no such file" in embedded.kubectl("exec", "shell", "--", "/no/such", fails=True)
    large = embedded.kubectl("exec", "shell", "--", "/bin/busybox", "seq", "1", "100000")
    assert large.splitlines()[-1] == "100000"
    terminal = f"{programs.program('kubectl')} exec -it shell -- /bin/sh -c 'test -t 0 && echo a terminal'"
    assert "a terminal" in embedded.typed("script", "-qec", terminal, "/dev/null")
    embedded.kubectl("delete", "pod", "shell")


def test_what_is_typed_reaches_a_container_that_one_is_attached_to(embedded: Embedded) -> None:
    embedded.apply(pod("echo", "read line", "echo heard $line", stdin=True))
    embedded.until_phase("echo", "Running")
    embedded.kubectl("attach", "-i", "echo", given="hello\n")
    embedded.until_phase("echo", "Succeeded")
    assert embedded.kubectl("logs", "echo") == "heard hello\n"
    embedded.kubectl("delete", "pod", "echo")


def test_a_program_of_the_machine_is_a_process_in_the_network_of_the_pods_containers(embedded: Embedded) -> None:
    mixed = pod("mixed")
    ask = "curl -s --retry 60 --retry-connrefused --retry-delay 1 http://127.0.0.1:3000/"
    asks = {"name": "asks", "image": "shell", "args": [f"{ask} && id -u && exec sleep 600"]}
    mixed["spec"]["containers"].append(asks)
    embedded.apply(mixed)
    embedded.kubectl("wait", "--for=condition=Ready", "pod/mixed", "--timeout=180s")

    def said() -> list[str]:
        return embedded.kubectl("logs", "mixed", "-c", "asks").splitlines()

    greeting, user = wait_until(lambda: said() if len(said()) == 2 else None, what="it was answered", interval=0.2)
    assert greeting == "from the image"
    assert int(user) >= 2_000_000_000, "a user of the Pod's own"
    assert embedded.kubectl("exec", "mixed", "-c", "asks", "--", *ask.split()) == "from the image\n"
    address = embedded.get("pod/mixed")["status"]["podIP"]
    assert embedded.fetch(f"http://{address}:3000/") == "from the image\n"
    embedded.kubectl("delete", "pod", "mixed")


def test_a_container_whose_liveness_probe_fails_is_started_again(embedded: Embedded) -> None:
    probe = {"exec": {"command": ["/bin/sh", "-c", "test -f /well"]}, "periodSeconds": 1, "failureThreshold": 1}
    embedded.apply(pod("ill", "exec /bin/busybox sleep 600", policy="Always", livenessProbe=probe))

    def restarts() -> int:
        return int((embedded.get("pod/ill")["status"].get("containerStatuses") or [{}])[0].get("restartCount", 0))

    wait_until(lambda: restarts() >= 1, what="it is started again", timeout=120, interval=0.2)
    embedded.kubectl("delete", "pod", "ill")


def test_more_memory_than_its_limit_ends_a_container(embedded: Embedded) -> None:
    eats = pod("eater", "exec /bin/busybox tail /dev/zero", resources={"limits": {"memory": "16Mi"}})
    embedded.apply(eats)
    assert ended(embedded.until_phase("eater", "Failed"))["reason"] == "OOMKilled"
    embedded.kubectl("delete", "pod", "eater")


def test_what_somebody_removes_from_podman_comes_back(embedded: Embedded) -> None:
    embedded.apply(pod("stubborn", "exec /bin/busybox sleep 600", policy="Always"))
    embedded.until_phase("stubborn", "Running")
    embedded.typed("podman", "pod", "rm", "-f", "-t", "0", *embedded.pods_of_podman())

    def again() -> bool:
        said = embedded.get("pod/stubborn")["status"]["containerStatuses"][0]
        return bool(said["restartCount"] and "running" in said["state"])

    wait_until(again, what="it runs again", timeout=120, interval=0.2)
    embedded.kubectl("delete", "pod", "stubborn")


def test_after_kill_9_pods_are_found_again_and_what_nobody_knows_is_removed(embedded: Embedded) -> None:
    embedded.typed("podman", "pod", "create", "--name", "foreign")
    embedded.apply(pod("lives", "exec /bin/busybox sleep 600"), pod("dies", "exec /bin/busybox sleep 600"))
    for name in ("lives", "dies"):
        embedded.until_phase(name, "Running")
    before = embedded.get("pod/lives")["status"]["containerStatuses"][0]
    uid = embedded.get("pod/dies")["metadata"]["uid"]
    embedded.up.kill()
    (embedded.data / "node" / "pods" / uid).rename(embedded.data / "node" / "pods" / ".lost")
    embedded.up.start()
    embedded.up.wait_ready()
    wait_until(lambda: len(embedded.pods_of_podman("foreign")) == 1, what="the lost one is removed", interval=0.2)
    embedded.until_phase("dies", "Failed")
    after = embedded.get("pod/lives")["status"]["containerStatuses"][0]
    assert (after["state"], after["restartCount"]) == (before["state"], 0)
    embedded.kubectl("delete", "pod", "lives", "dies", "--grace-period=1")
    wait_until(lambda: not embedded.pods_of_podman("foreign"), what="nothing of ours is left", interval=0.2)
    assert embedded.pods_of_podman() == ["foreign"]
    embedded.typed("podman", "pod", "rm", "foreign")
