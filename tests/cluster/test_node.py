"""Our node on a real API server: Pods as processes, what they are given, what is refused, and their logs."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import Pods, RunningNode, state
from tests.harness import ControlPlane, programs, wait_until

# --- the Node object -------------------------------------------------------------------------------------------------


def test_a_node_is_registered_and_ready(node: RunningNode, cluster: ControlPlane) -> None:
    found = cluster.request("GET", f"/api/v1/nodes/{node.name}")
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert conditions == {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    assert found["status"]["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert found["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] > 0
    assert found["status"]["capacity"]["pods"] == "110"
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == node.name


def test_a_node_renews_its_lease(node: RunningNode, cluster: ControlPlane) -> None:
    def renewed() -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
        return str(cluster.request("GET", path)["spec"]["renewTime"])

    first = renewed()
    wait_until(lambda: renewed() != first, what="the lease is renewed")


# --- programs, images, environment ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("greeter", "the program says hello\n"),
        ("greeter:1.2", "the program says hello\n"),
        ("registry.example:5000/greeter@sha256:" + "0" * 64, "the program says hello\n"),
        ("registry.example/team/tool:v1", "hello\n"),
    ],
    ids=["name", "tag", "registry and digest", "exact"],
)
def test_an_image_name_stands_for_a_program(pods: Pods, image: str, said: str) -> None:
    assert pods.run("pod", _image=image, _args=["hello"]) == said


def test_an_unknown_image_leaves_the_pod_pending_and_says_what_the_node_can_run(pods: Pods) -> None:
    pods.create(_image="nginx:1.29")
    waiting = pods.until(lambda pod: "waiting" in state(pod) and "message" in state(pod)["waiting"], what="it waits")
    assert waiting["status"]["phase"] == "Pending"
    assert state(waiting)["waiting"]["reason"] == "ErrImagePull"
    assert "it can run busybox, greeter, python" in state(waiting)["waiting"]["message"]
    wait_until(lambda: "Failed" in dict(pods.events()), what="there is an event")


def test_a_container_sees_what_it_declares_and_nothing_of_the_nodes_environment(pods: Pods) -> None:
    pods.make("configmaps", "settings", data={"colour": "red", "size": "9"})
    pods.make("secrets", "keys", stringData={"token": "t0p"})
    said = pods.run(
        "pod",
        "env; echo args $0",
        _metadata={"labels": {"app": "x"}, "annotations": {"note": "n"}},
        _resources={"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}},
        _envFrom=[
            {"configMapRef": {"name": "settings"}, "prefix": "C_"},
            {"secretRef": {"name": "keys"}},
            {"configMapRef": {"name": "absent", "optional": True}},
        ],
        _env=[
            {"name": "PLAIN", "value": "a b"},
            {"name": "MADE", "value": "$(PLAIN)-$(C_colour)-$$(PLAIN)-$(NOBODY)"},
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "size"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "no", "optional": True}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "MILLI", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        ],
        _args=["$(PLAIN)"],
    )
    variables = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    variables = {name: value for name, value in variables.items() if not name.startswith("KUBERNETES_")}
    address = pods.get()["status"]["podIP"]
    assert variables == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/",
        "HOSTNAME": "pod",
        "PWD": "/",
        "C_colour": "red",
        "C_size": "9",
        "token": "t0p",
        "PLAIN": "a b",
        "MADE": "a b-red-$(PLAIN)-$(NOBODY)",
        "KEY": "9",
        "SECRET": "t0p",
        "NAME": "pod",
        "LABEL": "x",
        "IP": address,
        "HOST": "127.0.0.1",
        "NODE": "edge-1",
        "CPUS": "2",
        "MILLI": "250",
        "MEMORY": "64",
    }
    assert "args a b" in said


def test_a_pod_is_told_of_services_as_by_a_kubelet(pods: Pods, cluster: ControlPlane) -> None:
    path = f"/api/v1/namespaces/{pods.namespace}/services"
    made = cluster.request(
        "POST", path, {"metadata": {"name": "ota-agent"}, "spec": {"ports": [{"name": "tls", "port": 4433}]}}
    )
    address = made["spec"]["clusterIP"]
    said = pods.run("pod", "env")
    variables = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    assert {name: value for name, value in variables.items() if name.startswith("OTA_AGENT_")} == {
        "OTA_AGENT_SERVICE_HOST": address,
        "OTA_AGENT_SERVICE_PORT": "4433",
        "OTA_AGENT_SERVICE_PORT_TLS": "4433",
        "OTA_AGENT_PORT": f"tcp://{address}:4433",
        "OTA_AGENT_PORT_4433_TCP": f"tcp://{address}:4433",
        "OTA_AGENT_PORT_4433_TCP_PROTO": "tcp",
        "OTA_AGENT_PORT_4433_TCP_PORT": "4433",
        "OTA_AGENT_PORT_4433_TCP_ADDR": address,
    }
    # The API server's are always there; what the node itself knows better wins over the Service.
    assert (variables["KUBERNETES_SERVICE_HOST"], variables["KUBERNETES_SERVICE_PORT"]) == ("127.0.0.1", "443")
    silent = pods.run("silent", "env", enableServiceLinks=False)
    assert "OTA_AGENT" not in silent
    assert "KUBERNETES_SERVICE_PORT=443" in silent


def test_pods_have_host_names_of_their_own_and_find_each_other_by_headless_services(
    pods: Pods, cluster: ControlPlane
) -> None:
    spec = {"clusterIP": "None", "selector": {"app": "ring"}, "publishNotReadyAddresses": True}
    path = f"/api/v1/namespaces/{pods.namespace}/services"
    cluster.request("POST", path, {"metadata": {"name": "ring"}, "spec": spec})
    machine = os.uname().nodename
    settings = {"hostname": "second", "subdomain": "ring", "_metadata": {"labels": {"app": "ring"}}}
    # The first waits for a name that comes later: its file is changed while it runs.
    waits = "until getent hosts second.ring; do sleep 0.1; done; uname -n; getent hosts $(uname -n)"
    pods.create("first", waits, _metadata={"labels": {"app": "ring"}})
    pods.until_phase("Running", "first")
    pods.create("second", "uname -n; sleep 100", **settings)
    address = pods.until_phase("Running", "second")["status"]["podIP"]
    own = pods.until_ended("first")["status"]["podIP"]
    found, name, itself = pods.log("first").splitlines()
    assert found.split()[0] == address
    assert f"second.ring.{pods.namespace}.svc.cluster.local" in found.split()
    assert (name, itself.split()) == ("first", [own, "first"])
    assert pods.log("second") == "second\n"
    assert os.uname().nodename == machine


def test_a_container_waits_for_a_config_map_and_starts_once_it_is_there(pods: Pods) -> None:
    pods.create(
        "pod", "echo $COLOUR", _env=[{"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
    )
    # For a moment the server may forbid the node to look: it has not noticed yet that a Pod there names it.
    missing = {"reason": "CreateContainerConfigError", "message": 'configmap "c" not found'}
    pods.until(lambda pod: state(pod).get("waiting") == missing, what="it says what is missing")
    pods.make("configmaps", "c", data={"k": "blue"})
    pods.until_phase("Succeeded")
    assert pods.log() == "blue\n"


def test_a_container_starts_in_its_working_folder(pods: Pods) -> None:
    assert pods.run("pod", "pwd", _workingDir="/usr/bin") == "/usr/bin\n"


# --- volumes --------------------------------------------------------------------------------------------------------


def test_volumes_appear_where_they_are_mounted_and_nothing_is_made_on_the_machine(pods: Pods) -> None:
    pods.make(
        "configmaps",
        "settings",
        data={"a.conf": "one", "b.conf": "two"},
        binaryData={"raw": base64.b64encode(b"\0\1").decode()},
    )
    pods.make("secrets", "keys", stringData={"token": "t0p"})
    said = pods.run(
        "pod",
        "cat /settings/a.conf /etc/picked/deep/b /keys/token /info/labels /one/file.conf /both/c /both/n; echo",
        "od -An -tx1 /settings/raw; stat -L -c %a /keys/token /etc/picked/deep/b",
        "echo x > /scratch/x && cat /scratch/x && cat /scratch-too/inside/x 2>/dev/null; ls /scratch-too",
        "(echo no > /settings/new) 2>/dev/null || echo read-only; ls /absent; id -u",
        _metadata={"labels": {"app": "x"}},
        volumes=[
            {"name": "settings", "configMap": {"name": "settings"}},
            {"name": "picked", "configMap": {"name": "settings", "items": [
                {"key": "b.conf", "path": "deep/b", "mode": 0o600}]}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
            {"name": "absent", "secret": {"secretName": "absent", "optional": True}},
            {"name": "info", "downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"name": "both", "projected": {"sources": [
                {"configMap": {"name": "settings", "items": [{"key": "a.conf", "path": "c"}]}},
                {"secret": {"name": "keys"}},
                {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}},
            {"name": "scratch", "emptyDir": {}},
        ],
        _volumeMounts=[
            {"name": "settings", "mountPath": "/settings"},
            {"name": "picked", "mountPath": "/etc/picked"},
            {"name": "keys", "mountPath": "/keys"},
            {"name": "absent", "mountPath": "/absent"},
            {"name": "info", "mountPath": "/info"},
            {"name": "both", "mountPath": "/both"},
            {"name": "settings", "mountPath": "/one/file.conf", "subPath": "a.conf"},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "scratch", "mountPath": "/scratch-too", "subPath": "made"},
        ],
    )  # fmt: skip
    lines = said.splitlines()
    assert lines[0] == 'onetwot0papp="x"oneonepod'
    assert lines[1].split() == ["00", "01"]
    assert lines[2:4] == ["400", "600"]
    assert lines[4:6] == ["x", "read-only"]
    assert not any(Path(place).exists() for place in ("/settings", "/etc/picked", "/one", "/scratch"))


def test_a_volume_shows_a_changed_config_map_at_once_as_a_whole(pods: Pods, cluster: ControlPlane) -> None:
    pods.make("configmaps", "settings", data={"colour": "red"})
    pods.create(
        "pod",
        "until grep -q blue /settings/colour; do sleep 0.05; done; cat /settings/colour; ls /settings",
        volumes=[{"name": "settings", "configMap": {"name": "settings"}}],
        _volumeMounts=[{"name": "settings", "mountPath": "/settings"}],
    )
    pods.until_phase("Running")
    path = f"/api/v1/namespaces/{pods.namespace}/configmaps/settings"
    change = {"data": {"colour": "blue", "size": "9"}}
    cluster.request("PATCH", path, change, content_type="application/merge-patch+json")
    pods.until_phase("Succeeded")
    assert pods.log() == "bluecolour\nsize\n"


def test_a_pod_waits_for_its_volume_and_says_what_is_missing(pods: Pods) -> None:
    pods.create(
        "pod",
        "cat /c/k",
        volumes=[{"name": "c", "configMap": {"name": "late"}}],
        _volumeMounts=[{"name": "c", "mountPath": "/c"}],
    )
    told = ("FailedMount", 'configmap "late" not found')
    wait_until(
        lambda: any(told[0] == reason and told[1] in message for reason, message in pods.events()),
        what="an event says what is missing",
    )
    assert state(pods.get())["waiting"]["reason"] == "ContainerCreating"
    pods.make("configmaps", "late", data={"k": "v"})
    pods.until_phase("Succeeded")


def test_a_pod_gets_a_token_by_which_the_api_server_knows_it(pods: Pods, cluster: ControlPlane) -> None:
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    said = pods.run("pod", f"cat {folder}/token; echo; cat {folder}/namespace", automountServiceAccountToken=True)
    token, namespace = said.split()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{pods.namespace}:default"
    assert claims["kubernetes.io"]["pod"]["name"] == "pod"
    assert namespace == pods.namespace


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason", "text"),
    [
        ({"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]}, "HostPathRefused", "hostPath"),
        ({"_securityContext": {"privileged": True}}, "PrivilegedRefused", "privileged"),
        ({"hostNetwork": True}, "HostAccessRefused", "hostNetwork"),
        ({"_securityContext": {"runAsUser": 0}}, "RunAsUserRefused", "never run as root"),
        ({"volumes": [{"name": "v", "nfs": {"server": "s", "path": "/p"}}]}, "VolumeNotSupported", "nfs"),
    ],
    ids=["hostPath", "privileged", "hostNetwork", "root", "nfs"],
)
def test_what_the_node_does_not_do_it_refuses(pods: Pods, settings: dict[str, Any], reason: str, text: str) -> None:
    pods.create("pod", "echo never", **settings)
    status = pods.until_phase("Failed")["status"]
    assert status["reason"] == reason
    assert text in status["message"]
    wait_until(lambda: reason in dict(pods.events()), what="there is an event")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")
def test_a_pod_runs_as_its_own_user_and_cannot_see_the_nodes_folder(pods: Pods) -> None:
    said = pods.run("pod", "id -u; ls -A $0 2>/dev/null | wc -l", _args=[str(pods.node.directory)])
    own, seen = said.split()
    assert 1000 <= int(own) <= 9999
    assert seen == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")
def test_run_as_user_and_groups_are_honoured(pods: Pods) -> None:
    said = pods.run(
        "pod",
        "id -u; id -g; id -G; stat -c %g /v; touch /v/x; stat -c %u:%g /v/x",
        securityContext={"runAsUser": 1234, "runAsGroup": 2345, "fsGroup": 3456, "supplementalGroups": [4567]},
        volumes=[{"name": "v", "emptyDir": {}}],
        _volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    lines = said.splitlines()
    assert lines[:2] == ["1234", "2345"]
    assert set(lines[2].split()) == {"2345", "3456", "4567"}
    assert lines[3:] == ["3456", "1234:3456"]


def test_a_program_in_a_folder_that_its_user_may_not_enter_runs_all_the_same(pods: Pods) -> None:
    assert (
        pods.run("pod", _image="python", _args=["-c", "import edgewright; print(edgewright.__name__)"])
        == "edgewright\n"
    )


# --- logs -----------------------------------------------------------------------------------------------------------


def test_kubectl_logs_shows_a_part_of_the_log(pods: Pods) -> None:
    pods.run("pod", "for i in 1 2 3 4 5; do echo line $i; done; echo oops >&2")
    assert pods.log("pod", "--tail=2") == "line 5\noops\n"
    assert pods.log("pod", "--tail=0") == ""
    assert pods.log("pod", "--limit-bytes=6") == "line 1"
    assert pods.log("pod", "--since=1h").count("\n") == 6
    assert pods.log("pod", "--since-time=2099-01-01T00:00:00Z") == ""
    stamped = pods.log("pod", "--timestamps", "--tail=1")
    assert stamped.endswith("Z oops\n")


def test_kubectl_logs_of_the_previous_run(pods: Pods) -> None:
    pods.create("pod", "date +%N; exit 1", restartPolicy="Always")
    pods.until(
        lambda pod: (
            pod["status"]["containerStatuses"][0]["restartCount"] >= 1
            if pod["status"].get("containerStatuses")
            else False
        ),
        what="it ran twice",
    )
    assert pods.log("pod", "--previous").strip().isdigit()


def test_kubectl_logs_follows_until_the_container_ends(pods: Pods, cluster: ControlPlane) -> None:
    pods.create(
        "pod",
        "echo first; until test -e /shared/go; do sleep 0.05; done; echo second",
        volumes=[{"name": "shared", "emptyDir": {}}],
        _volumeMounts=[{"name": "shared", "mountPath": "/shared"}],
    )
    pod = pods.until_phase("Running")
    command = [
        programs.program("kubectl"),
        "--kubeconfig",
        str(cluster.kubeconfig),
        "-n",
        pods.namespace,
        "logs",
        "-f",
        "pod",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "first\n"
        (pods.folder(pod) / "volumes" / "shared" / "go").touch()
        assert follower.stdout.read() == "second\n"
        assert follower.wait(120) == 0


def test_logs_are_given_to_nobody_without_a_certificate(node: RunningNode, cluster: ControlPlane) -> None:
    port = cluster.request("GET", f"/api/v1/nodes/{node.name}")["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    tried = subprocess.run(
        [sys.executable, "-c", _ASK, str(cluster.ca_file), str(port)], check=False, capture_output=True, text=True
    )
    assert "refused" in tried.stdout, tried


_ASK = """
import ssl, sys, http.client
context = ssl.create_default_context(cafile=sys.argv[1])
connection = http.client.HTTPSConnection("127.0.0.1", int(sys.argv[2]), context=context)
try:
    connection.request("GET", "/containerLogs/a/b/c")
    print(connection.getresponse().status)
except (ssl.SSLError, ConnectionError):
    print("refused")
"""
