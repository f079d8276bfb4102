"""The console in a cluster, as docs/console.md installs it: a Deployment whose ServiceAccount reads and never writes.

The commands of that page are typed on a real API server; the node of the tests runs the Pod of `dist/console.yaml`.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

import pytest

from edgewright.local.access.authority import Authority
from edgewright.runtime.clock import SystemClock
from tests.acceptance.flashjob_stage import IMAGE, NAMESPACE, ROOT, Place, checkout, real_cluster, refused, used
from tests.harness import ControlPlane, wait_until

PAGE: Final = ROOT / "docs/console.md"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/edgewright-console"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=control-plane%3Dconsole"
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:edgewright-console"
NAME: Final = f"edgewright-console.{NAMESPACE}.svc"
MINIMART: Final = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: minimarts.charts.samutup.com}
spec:
  group: charts.samutup.com
  names: {kind: Minimart, plural: minimarts, singular: minimart, listKind: MinimartList}
  scope: Namespaced
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    with real_cluster(request) as server:
        yield server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the console's certificate."""
    return Authority(tmp_path_factory.mktemp("authority"), clock=SystemClock())


@pytest.fixture(scope="module")
def place(cluster: ControlPlane, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A checkout with a certificate in it, where the operator's kinds and the console are installed."""
    found = Place(cluster, checkout(tmp_path_factory.mktemp("console") / "checkout"))
    found.typed("make install")
    found.typed(f"make build-installer IMG={IMAGE}")
    found.typed(f"kubectl create namespace {NAMESPACE}")
    identity = authority.server("console", user="console", names=[NAME])
    (found.folder / "tls.crt").write_text(identity.certificate)
    (found.folder / "tls.key").write_text(identity.key)
    return found


def shown(language: str) -> str:
    """What the page shows in this language in the section on clusters."""
    section = PAGE.read_text(encoding="utf-8").partition("## In a cluster\n")[2].partition("\n## ")[0]
    block = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return block[1]


def available(place: Place) -> bool:
    found = place.get(DEPLOYMENT)
    status = found["status"]
    return bool(
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status.get("updatedReplicas") == status.get("replicas") == status.get("availableReplicas") == 1
    )


def asked(place: Place, authority: Authority, path: str, token: str) -> tuple[int, Any]:
    """What the console's Pod answers somebody with a token, over TLS and by its name."""
    (pod,) = (each for each in place.get(PODS)["items"] if not each["metadata"].get("deletionTimestamp"))
    tls = ssl.create_default_context(cafile=str(authority.file))
    connection = http.client.HTTPSConnection(NAME, 8443, timeout=60)
    connection.sock = tls.wrap_socket(
        socket.create_connection((pod["status"]["podIP"], 8443), timeout=60), server_hostname=NAME
    )
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def token_of(place: Place, account: str, *roles: str) -> str:
    """A token of a new ServiceAccount that has these ClusterRoles in its namespace."""
    place.typed(f"kubectl create serviceaccount {account}")
    for role in roles:
        place.typed(
            f"kubectl create rolebinding {account}-{role} --clusterrole {role} --serviceaccount default:{account}"
        )
    return place.typed(f"kubectl create token {account}").strip()


def test_the_commands_of_the_page_bring_a_console_that_answers_over_tls(place: Place, authority: Authority) -> None:
    secret, apply, restart = (line.partition("   #")[0] for line in shown("text").splitlines())
    place.typed(secret)
    place.typed(apply)
    wait_until(lambda: available(place), what="the console is available")
    # Two Pods that are processes cannot both have the port at every address of one machine: first one goes.
    place.typed(f"kubectl -n {NAMESPACE} scale deployment edgewright-console --replicas 0")
    wait_until(lambda: not place.get(PODS)["items"], what="the first Pod has gone")
    place.typed(restart)
    place.typed(f"kubectl -n {NAMESPACE} scale deployment edgewright-console --replicas 1")
    wait_until(lambda: available(place), what="the console is available again")
    status, me = asked(place, authority, "/api/v1/me", token_of(place, "somebody"))
    assert (status, me["user"]["name"]) == (200, "system:serviceaccount:default:somebody")


def test_callers_see_what_they_may_and_the_console_reads_once_for_all(
    place: Place, authority: Authority, cluster: ControlPlane
) -> None:
    path = "/api/v1/namespaces/default/flashjobs"
    assert asked(place, authority, path, token_of(place, "stranger"))[0] == 403
    kind = "flashjobs.application.flashjob.nbfc.io"
    place.typed(f"kubectl create clusterrole viewer --verb=get,list,watch --resource={kind}")
    viewer = token_of(place, "viewer", "viewer")

    def listed() -> bool:
        status, found = asked(place, authority, path, viewer)
        return status == 200 and found["items"] == []

    wait_until(listed, what="the API server knows the binding")
    assert ("watch", "flashjobs") in used(cluster, ACCOUNT)


def test_a_foreign_kind_is_kept_once_a_role_with_the_label_grants_it(
    place: Place, authority: Authority, cluster: ControlPlane
) -> None:
    place.typed("kubectl apply -f -", answers=MINIMART)
    place.typed("kubectl wait --for=condition=Established crd/minimarts.charts.samutup.com --timeout=120s")
    place.typed("kubectl create clusterrole shopper --verb=get,list,watch --resource=minimarts.charts.samutup.com")
    shopper = token_of(place, "shopper", "shopper")
    path = "/api/v1/namespaces/default/minimarts.charts.samutup.com"
    wait_until(lambda: asked(place, authority, path, shopper)[0] == 200, what="it is listed")
    assert not {each for each in used(cluster, ACCOUNT) if each[1] == "minimarts"}, "it was read as the caller"
    place.typed("kubectl apply -f -", answers=shown("yaml"))

    def kept() -> bool:
        assert asked(place, authority, path, shopper)[0] == 200
        return ("watch", "minimarts") in used(cluster, ACCOUNT)

    wait_until(kept, what="the console watches the kind itself")


def test_nothing_was_refused_to_the_console_and_it_wrote_nothing(cluster: ControlPlane) -> None:
    assert refused(cluster, ACCOUNT) == []
    verbs = {verb for verb, resource in used(cluster, ACCOUNT) if "review" not in resource}
    assert verbs <= {"get", "list", "watch"}
