"""A Pod of `edgewright up` acts as its ServiceAccount: with a token in the usual place, and no rights but its own."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node.mount_check import mounts_work
from tests.harness import LocalPlane, wait_until

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
# What any Kubernetes client does in a Pod, by hand: the address from its environment, the rest from the folder.
PROGRAM = f"""
import json, os, pathlib, ssl, sys, urllib.error, urllib.request
folder = pathlib.Path("{FOLDER}")
token, place = (folder / "token").read_text(), (folder / "namespace").read_text()
tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
for path in (f"/api/v1/namespaces/{{place}}/configmaps/kube-root-ca.crt", f"/api/v1/namespaces/{{place}}/secrets"):
    request = urllib.request.Request(sys.argv[1] + path, headers={{"Authorization": "Bearer " + token}})
    try:
        with urllib.request.urlopen(request, context=tls, timeout=120) as answer:
            print(answer.status)
    except urllib.error.HTTPError as refused:
        print(refused.code, json.load(refused)["message"])
"""
NODE = {"node": True, "arguments": ("--image", f"python={sys.executable}")}
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"


def run_pod(plane: LocalPlane, **more: Any) -> str:
    """Runs the program in a Pod and gives what it said."""
    container = {"name": "main", "image": "python", "args": ["-c", PROGRAM, plane.server]}
    spec = {"restartPolicy": "Never", "containers": [container], **more}
    path = "/api/v1/namespaces/default/pods"
    wait_until(lambda: plane.exists("/api/v1/namespaces/default/serviceaccounts/default"), what="there is an account")
    plane.request("POST", path, {"metadata": {"name": "client"}, "spec": spec})

    def ended() -> bool:
        return plane.request("GET", f"{path}/client")["status"]["phase"] in ("Succeeded", "Failed")

    wait_until(ended, what="the Pod has ended")
    with urllib.request.urlopen(f"{plane.server}{path}/client/log", context=plane.admin_tls, timeout=240) as answer:
        return str(answer.read().decode())


@pytest.mark.skipif(not mounts_work(), reason="nothing can be mounted on this machine, so that Pods have no volumes")
@pytest.mark.parametrize("own_plane", [NODE], indirect=True, ids=["with a node"])
def test_a_pod_asks_the_api_server_as_its_account_and_may_do_what_that_may(own_plane: LocalPlane) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    own_plane.request("POST", f"{RBAC}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "default"}]
    given = {"metadata": {"name": "reader"}, "roleRef": {"kind": "Role", "name": "reader"}, "subjects": subjects}
    own_plane.request("POST", f"{RBAC}/rolebindings", given)
    first, second = run_pod(own_plane).splitlines()
    assert first == "200"
    assert second == (
        '403 secrets is forbidden: User "system:serviceaccount:default:default" cannot list resource "secrets" '
        'in API group "" in the namespace "default"'
    )
    volume = own_plane.request("GET", "/api/v1/namespaces/default/pods/client")["spec"]["volumes"][0]
    assert volume["name"].startswith("kube-api-access-")
    key = Path(own_plane.data / "pki" / "service-accounts.pem")
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.stat().st_uid == os.geteuid()
    assert json.dumps(volume).count("token") == 1
